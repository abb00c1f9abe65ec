"""What is loaded beside the model: a projector, LoRA adapters, and what drafts tokens."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from PySide6 import QtWidgets
from PySide6.QtCore import QSignalBlocker, Qt

from explorer.errors import PlanError
from explorer.planner.attachments import Attachment, check_together, propose, read_attachment
from explorer.qt.jobs import Job, JobSlot
from explorer.qt.planner.fields import CalmComboBox, buddy_label, push_button
from explorer.qt.planner.state import CurrentPlan, PlannedModel, PlannerState
from explorer.qt.services import Services
from explorer.qt.theme import Space
from explorer.qt.widgets.asking import ask_file
from explorer.qt.widgets.building import Flow, column, row
from explorer.sources import Address
from explorer.text import bytes_text, plain_text, shorten

_OFF, _MTP, _ASK = "off", "mtp", "ask"
_USUAL_TOKENS: Final = 3  # that llama.cpp drafts
_LONGEST: Final = 36
_NAMES: Final = {"projector": "projector", "draft": "draft model", "lora": "LoRA adapter"}


class AttachmentsBox(QtWidgets.QWidget):
    """Files beside the model: those of its folder are proposed, and added by a click.

    Attributes:
        speculation: What drafts tokens: nothing, the model's own MTP layers, or a draft model.
        buttons: What is added, each of which removes itself, and then what may be added.
        add_file: Asks for another file.
    """

    def __init__(self, state: PlannerState, app: Services, parent: QtWidgets.QWidget) -> None:
        super().__init__(parent)
        self._state, self._current = state, state.current
        self._reading, self._adding = JobSlot(app.runner, self), JobSlot(app.runner, self)
        self._model: PlannedModel | None = None
        self._proposed: list[Attachment] = []
        self._app, self._report = app, app.report
        self.speculation = CalmComboBox(self)
        self.speculation.setObjectName("planner_speculation")
        self.speculation.setAccessibleName("Speculative decoding")
        tip = "What drafts tokens, of which the model checks several at once"
        self.speculation.setToolTip(tip)
        self.speculation.currentIndexChanged.connect(lambda _: self._speculate())
        self.add_file = push_button(self, "Add file…", "Add a projector, LoRA or draft model")
        self.add_file.clicked.connect(self._ask)
        self.buttons: list[QtWidgets.QPushButton] = []
        self._shown: tuple[object, ...] = ()
        self._values: list[object] = []  # of the choices
        self._flow = column(spacing=Space.NEAR)
        self._holder: QtWidgets.QWidget | None = None
        label = buddy_label("Speculati&ve decoding", self.speculation)
        line = row(label, (self.speculation, 1))
        column(line, self._flow, of=self, spacing=Space.NEAR)
        self.follow(state.current)
        state.plan_changed.connect(self.follow)

    def tab_chain(self) -> list[QtWidgets.QWidget]:
        """Return what takes the focus, in reading order."""
        return [self.speculation, *self.buttons, self.add_file]

    def follow(self, current: CurrentPlan) -> None:
        """Show what is added to the current model, and what may be."""
        self._current = current
        engine, model = current.engine, current.model
        known = engine is not None and any(one.name == "mtp" for one in engine.settings)
        self.setVisible(known)
        if model is not self._model:
            self._model, self._proposed = model, []
            self._reading.cancel()
            if known and model is not None:
                self._propose(model)
        self._show()

    def _propose(self, model: PlannedModel) -> None:
        path, header = model.path, model.h.llama_cpp
        if isinstance(path, Address) or isinstance(header, str):
            return

        def show(found: list[Attachment]) -> None:
            if model is self._model:
                self._proposed = found
                self._show()

        title = "Looking for files that go with the model"
        self._reading.run(title, lambda job: propose(path, header, job.check), show, self._report)

    def _show(self) -> None:
        inputs, model = self._current.inputs, self._current.model
        attached = inputs.attached
        free = [one for one in self._proposed if one not in attached]
        header = None if model is None else model.h.llama_cpp
        guesses = header is not None and not isinstance(header, str) and header.guesses_ahead
        drafts = [one for one in (*attached, *free) if one.kind == "draft"]
        shown = (attached, tuple(free), guesses, inputs.settings.mtp)
        if shown == self._shown:
            return
        self._shown = shown
        choices: list[tuple[str, object]] = [("off", _OFF)]
        if guesses:
            choices.append((f"the model's MTP ({inputs.settings.mtp or _USUAL_TOKENS})", _MTP))
        choices += [(_name(one), one) for one in drafts]
        choices.append(("a draft model…", _ASK))
        with QSignalBlocker(self.speculation):
            self.speculation.clear()
            self.speculation.addItems([words for words, _ in choices])
            used = [one for one in attached if one.kind == "draft"]
            chosen = used[0] if used else _MTP if inputs.settings.mtp else _OFF
            self._values = [value for _, value in choices]
            known = chosen in self._values
            self.speculation.setCurrentIndex(self._values.index(chosen) if known else 0)
        proposes = guesses and chosen == _OFF
        files = [one for one in free if one.kind != "draft"]
        self._show_files(attached, files, proposes_mtp=proposes)

    def _show_files(
        self, attached: tuple[Attachment, ...], free: list[Attachment], *, proposes_mtp: bool
    ) -> None:
        holder = QtWidgets.QWidget(self)
        focused = next((one.objectName() for one in self.buttons if one.hasFocus()), None)
        buttons = []
        if proposes_mtp:
            tip = "Let the model's own MTP layers draft tokens, which makes it faster"
            button = push_button(holder, "+ MTP", tip)
            button.clicked.connect(lambda: self.speculation.setCurrentIndex(1))
            buttons.append(button)
        for one in (*attached, *free):
            is_added = one in attached
            kind, size = _NAMES[one.kind], bytes_text(one.nbytes)
            act = "Remove" if is_added else "Add"
            tip = f"{act} the {kind} ({size})"
            if one.kind == "projector" and one.width is None:
                tip += ": not known whether it fits"
            button = push_button(holder, f"{'✕' if is_added else '+'} {_name(one)}", tip)
            button.setAccessibleName(f"{act} {kind} {_name(one)}")
            button.clicked.connect(partial(self._remove if is_added else self._add, one))
            button.setObjectName(str(one.path))
            buttons.append(button)
        self.buttons = buttons
        flow = Flow(*buttons)
        holder.setLayout(flow)
        self._flow.addWidget(holder)
        self._flow.addWidget(self.add_file, 0, Qt.AlignmentFlag.AlignLeft)
        if self._holder is not None:
            self._flow.removeWidget(self._holder)
            self._holder.hide()
            self._holder.deleteLater()
        self._holder = holder
        holder.setVisible(bool(buttons))
        for before, after in itertools.pairwise(self.tab_chain()):  # Qt puts new ones last of all
            self.setTabOrder(before, after)
        for button in buttons:
            if button.objectName() == focused:
                button.setFocus()

    # Changes

    def _add(self, one: Attachment) -> None:
        held = self._state.inputs.attached
        if one.kind != "lora":  # there is one of each other kind
            held = tuple(other for other in held if other.kind != one.kind)
        changes: dict[str, object] = {"attached": (*held, one)}
        if one.kind == "draft":
            changes["settings"] = replace(self._state.inputs.settings, mtp=None)
        self._state.replace_inputs(**changes)

    def _remove(self, one: Attachment) -> None:
        held = self._state.inputs.attached
        self._state.replace_inputs(attached=tuple(other for other in held if other != one))

    def _speculate(self) -> None:
        chosen = self._values[self.speculation.currentIndex()]
        if isinstance(chosen, Attachment):
            self._add(chosen)
        elif chosen == _ASK:
            self._shown = ()
            self._show()  # until there is one
            self._ask()
        else:
            inputs = self._state.inputs
            tokens = inputs.settings.mtp or _USUAL_TOKENS if chosen == _MTP else None
            others = tuple(one for one in inputs.attached if one.kind != "draft")
            self._state.replace_inputs(
                settings=replace(inputs.settings, mtp=tokens), attached=others
            )

    def _ask(self, _checked: bool = False) -> None:
        title = "Add a projector, a LoRA adapter or a draft model"
        path = ask_file(self._app, self, title, "attachment", "GGUF (*.gguf)")
        if path is not None:
            self.add_path(path)

    def add_path(self, path: Path) -> None:
        """Read a file in a worker, and add it if it goes with the model."""
        model = self._current.model
        header = None if model is None else model.h.llama_cpp

        def read(_job: Job) -> Attachment | PlanError:
            try:
                found = read_attachment(path)
                if header is not None and not isinstance(header, str):
                    check_together(header, [found])
            except PlanError as error:
                return error
            return found

        def done(found: Attachment | PlanError) -> None:
            if isinstance(found, PlanError):
                self._state.refused.emit(PlanError(f"{path.name}: {found}"))
            else:
                self._add(found)

        self._adding.run(f"Reading {path.name}", read, done, self._report)


def _name(one: Attachment) -> str:
    return shorten(plain_text(one.path.name), _LONGEST)
