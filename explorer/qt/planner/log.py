"""A log beside the plan."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from PySide6 import QtGui, QtWidgets
from PySide6.QtCore import Qt

from explorer.errors import ExplorerError, PlanError
from explorer.hardware.own_build import estimate_command, find_program, run_estimate
from explorer.planner.engines.llama_cpp import allocation as llama_cpp
from explorer.planner.engines.llama_cpp.engine import server_settings
from explorer.planner.logs.comparison import Comparison, Unaccounted
from explorer.planner.logs.lines import Log
from explorer.planner.logs.measured import assumed_settings, compare, load_for
from explorer.planner.logs.reading import parse_log, read_log
from explorer.present import measured as words
from explorer.present.tables.measured import MEASURED
from explorer.qt.addresses import MOST_PASTED
from explorer.qt.document import Document
from explorer.qt.jobs import Job, JobSlot
from explorer.qt.planner.fields import push_button, wrapped_label
from explorer.qt.planner.pages import LEAST_LINES, show_in
from explorer.qt.planner.state import PlannerState
from explorer.qt.services import Services
from explorer.qt.theme import Space
from explorer.qt.widgets.asking import ask_file
from explorer.qt.widgets.building import NOTE, Flow, column, row
from explorer.qt.widgets.table_model import TableModel
from explorer.qt.widgets.table_view import TableView
from explorer.sources import is_address
from explorer.text import plain_text, sentence


def ask_log(app: Services, parent: QtWidgets.QWidget) -> Path | None:
    """Ask for a log; return its file, or None."""
    kinds = "Logs (*.log *.txt *.jsonl);;All files (*)"
    return ask_file(app, parent, "Compare with a log", "log", kinds)


def may_run(parent: QtWidgets.QWidget, command: Sequence[str]) -> bool:
    box = QtWidgets.QMessageBox(parent)
    box.setWindowTitle("Run your llama.cpp?")
    box.setTextFormat(Qt.TextFormat.PlainText)
    box.setText("It reads the header of the model, prints its estimate, and is ended.")
    box.setInformativeText(plain_text(shlex.join(command)))
    run = box.addButton("Run", QtWidgets.QMessageBox.ButtonRole.AcceptRole)
    box.setDefaultButton(box.addButton(QtWidgets.QMessageBox.StandardButton.Cancel))
    box.exec()
    box.deleteLater()
    return box.clickedButton() is run


@dataclass(frozen=True, slots=True)
class _Found:
    """What a worker made of a log."""

    name: str
    log: Log
    comparison: Comparison


class LogPage(QtWidgets.QWidget):
    """A log's figures beside those of the plan with the log's settings.

    Attributes:
        choose: Asks for a log.
        paste: Takes the log in the clipboard.
        check: Asks the user's own llama.cpp, after showing the command.
        reserve_unaccounted: Puts what remains into the reserve.
        table: The terms.
        notes: What has to be said of them.
    """

    def __init__(self, state: PlannerState, app: Services, parent: QtWidgets.QWidget) -> None:
        super().__init__(parent)
        self.state = state
        self.app = app
        self._document: Document | None = None
        self._found: _Found | None = None
        self._reading = JobSlot(app.runner, self)
        self.choose = push_button(self, "Compare with a &log…", "Choose a log of the program")
        self.paste = push_button(self, "&Paste a log", "Compare with the text in the clipboard")
        self.check = push_button(
            self,
            "Check with your &build…",
            "Ask your own llama.cpp for its estimate. The command is shown before it runs",
        )
        self.reserve_unaccounted = push_button(
            self,
            "Put the &rest into the reserve",
            "Plan with it from now on, and remember it for this GPU",
        )
        self.hint = wrapped_label(self, "Log")
        self.notes = wrapped_label(self, "Notes on the log")
        self.model = TableModel(self)
        self.table = TableView(self.model, app, self)
        self.table.setMinimumHeight(LEAST_LINES * self.fontMetrics().lineSpacing())
        self._lay_out()
        self.choose.clicked.connect(self.ask)
        self.paste.clicked.connect(self._paste)
        self.check.clicked.connect(self.check_build)
        self.reserve_unaccounted.clicked.connect(self._reserve_unaccounted)
        self._show()

    def _lay_out(self) -> None:
        buttons = Flow(self.choose, self.paste, self.check)
        line = row(buttons, margins=NOTE)
        below = row((self.notes, 1), self.reserve_unaccounted, margins=NOTE)
        below.setAlignment(self.reserve_unaccounted, Qt.AlignmentFlag.AlignTop)
        hint = row(self.hint, margins=NOTE)
        # and room that no table takes
        column(line, hint, (self.table, 1), below, 0, of=self, spacing=Space.NEAR)

    def show_document(self, document: Document | None) -> None:
        """Compare logs with this model from now on; forget the log of another one."""
        if document is not self._document:
            self._document = document
            self._reading.cancel()
            self._found = None
            self._show()

    def ask(self) -> None:
        path = ask_log(self.app, self)
        if path is not None:
            self.compare(path)

    def compare(self, log: Path | str) -> None:
        """Read a log, a file or a text, in the background, and show it beside the plan."""
        document = self._document
        if document is None:
            return
        base, machine = base_settings(self.state), self.state.inputs.devices
        name = log.name if isinstance(log, Path) else "pasted text"
        model = document.model

        def read(job: Job) -> _Found:
            found = _read(log, job.check)
            comparison = compare(model, load_for(model, found), base, machine)
            return _Found(plain_text(name), found, comparison)

        self.hint.setText(f"Reading {plain_text(name)}…")
        job = self._reading.run(f"Reading {plain_text(name)}", read, self._take, self._fail)
        job.finished.connect(self._ended)

    def check_build(self) -> None:
        """Find the user's own llama.cpp and ask whether to run it for its estimate."""
        plan, document = self.state.current.plan, self._document
        settings = None if plan is None else server_settings(plan)
        if document is None or plan is None or settings is None or not document.model.version:
            self.app.report(PlanError("llama.cpp's own check needs a GGUF model and its profile"))
            return
        named, model, arguments = self.state.program, document.model, plan.details.arguments()
        if is_address(model.path):
            self.app.report(PlanError("llama.cpp's own check needs a model that was downloaded"))
            return

        def find(_job: Job) -> list[str]:
            program = find_program(named)
            return estimate_command(program, model.files[0].path, arguments)

        def ask(command: list[str]) -> None:
            if may_run(self, command):
                self._run_build(command, settings)

        self._reading.run("Looking for llama.cpp", find, ask, self._name_program)

    def _name_program(self, error: ExplorerError) -> None:
        """Say that no program was found, and ask for one."""
        self.app.report(error)
        title = "Choose your llama-server or llama-fit-params"
        path = ask_file(self.app, self, title, "program")
        if path is not None:
            self.state.name_program(path)
            self.check_build()

    def _run_build(self, command: list[str], settings: llama_cpp.Settings) -> None:
        document = self._document
        if document is None:
            return
        model, name = document.model, plain_text(Path(command[0]).name)

        def run(job: Job) -> _Found:
            measured = run_estimate(command, settings, job.check)
            return _Found(name, Log((measured,), 1), compare(model, measured, settings))

        def done(found: _Found) -> None:
            self._take(found)
            build = found.comparison.settings.build
            if build != settings.build:  # of the user's own program: plans follow it from now on
                self.state.set(build=build)

        words_ = f"Running {name}"
        self.hint.setText(f"{words_}…")
        job = self._reading.run(words_, run, done, self._fail)
        job.finished.connect(self._ended)

    def _take(self, found: _Found) -> None:
        self._found = found
        self._show()

    def _fail(self, error: ExplorerError) -> None:
        self._show()
        self.app.report(error)

    def _ended(self) -> None:
        if self._reading.stopped:
            self._show()
            self.hint.setText("Cancelled")

    def _show(self) -> None:
        """Show what was found, or how to begin."""
        found = self._found
        for part in (self.table, self.notes, self.reserve_unaccounted):
            part.setVisible(found is not None)
        self.reserve_unaccounted.setEnabled(
            found is not None and bool(_reserves(found.comparison.unaccounted))
        )
        if found is None:
            self.model.clear()
            self.notes.clear()
            self.hint.setText(
                "Drop a log of llama-server (started with -lv 4), Ollama, LM Studio or vLLM here, "
                "or what “ollama ps” prints: each term is shown beside the plan with the log's "
                "settings."
            )
            return
        show_in(self.table, MEASURED, found.comparison.residuals, found.name)
        self.hint.setText(f"{found.name}: {words.settings_text(found.comparison.settings)}")
        lines = [*words.comparison_notes(found.comparison, found.log)]
        speed = found.comparison.measured.tokens_per_second
        if speed is not None:
            lines.append(words.share_sentence(speed, None))
        self.notes.setText("\n".join(f"{sentence(line)}." for line in lines))

    def _paste(self) -> None:
        text = QtGui.QGuiApplication.clipboard().text()[:MOST_PASTED]
        if text.strip():
            self.compare(text)
        else:
            self.app.report(PlanError("the clipboard holds no text. Copy a log first"))

    def _reserve_unaccounted(self) -> None:
        if self._found is not None:
            self.state.reserve(_reserves(self._found.comparison.unaccounted))


def _read(log: Path | str, check: Callable[[], None]) -> Log:
    if isinstance(log, Path):
        return read_log(log, check)
    return parse_log([log.encode("utf-8", "replace")])


def _reserves(unaccounted: tuple[Unaccounted, ...]) -> Mapping[str, int]:
    return {rest.name: rest.reserve for rest in unaccounted if rest.reserve is not None}


def base_settings(state: PlannerState) -> llama_cpp.Settings:
    """Return what a log that does not tell it is taken to mean: what is set in the planner."""
    plan = state.current.plan
    planned = None if plan is None else server_settings(plan)
    asked = state.inputs
    return planned or assumed_settings(asked.settings, len(asked.devices))
