"""The dialog of the versions of a model: those of a repository, of a name, or of a folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from PySide6.QtCore import QItemSelectionModel, QPoint, Qt, Signal, Slot
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QLineEdit, QPushButton, QWidget

from explorer.analysis.errors.models import ModelErrors
from explorer.errors import ExplorerError, SeveralModelsError
from explorer.parallel import Check, map_in_order
from explorer.present.fits import HEADER_BYTES, Version, headers_text, version_at
from explorer.present.quants import original_among, recommend
from explorer.present.stores import download_of
from explorer.present.survey import to_read_text
from explorer.present.tables.quants import UNREAD, ListedModel, listed_table
from explorer.qt import addresses
from explorer.qt.jobs import Job, JobSlot, worker_count
from explorer.qt.machine import PlannedMachine
from explorer.qt.services import Services
from explorer.qt.theme import Space, TextSize, monospace_font, style_text
from explorer.qt.widgets.building import add_action, column, copy_text, row, show_menu
from explorer.qt.widgets.labels import plain_label, text_label
from explorer.qt.widgets.table_model import TableModel
from explorer.qt.widgets.table_view import TableView
from explorer.sources import Address
from explorer.sources.remote.addresses import HUB, HubPart
from explorer.text import counted, integer_text, percent_text, plain_text

_LIST_WIDTH, _LIST_HEIGHT = 760, 480
_HEADERS_AT_ONCE: Final = 4  # a server's answers are waited for, most of the time


class VersionsDialog(QDialog):
    """The models of a repository, a name or a folder: how large they are, which fit; open some.

    Sizes are what the server or the disk lists. Headers are fetched a few at a time: at once if
    there are few, else when the user asks for it.

    Attributes:
        choices: The models, smallest first, with what is known of them.
        table: Their table.
        command: The command that downloads the current one.

    Signals:
        chosen: Models shall be opened; their paths.
        recipes_wanted: Recipes shall be tried on the original among them; its path.
        folder_wanted: The folder shall be listed in the library.
    """

    chosen = Signal(object)
    recipes_wanted = Signal(object)
    folder_wanted = Signal()

    def __init__(
        self,
        error: SeveralModelsError,
        machine: PlannedMachine,
        parent: QWidget,
        more: Address | None = None,
        *,
        of_folder: bool = False,
    ) -> None:
        """List models at an address, of a folder, or the downloaded quants of one.

        Args:
            error: The models, and what they are in.
            machine: What they shall fit.
            parent: The window.
            more: The address at which the web lists all quants of a downloaded model.
            of_folder: Whether nothing says that they belong together: then none is recommended.
        """
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._of_folder = of_folder
        self.setWindowTitle("Open a folder" if of_folder else "Which quant should I take?")
        listed = sorted(error.choices, key=lambda one: one.nbytes)
        self.choices = [ListedModel(one.name, one.path, one.nbytes) for one in listed]
        self._machine, self._more = machine, more
        self._slot = JobSlot(machine.app.runner, self)
        self._progress = 0, 0  # headers read or weights compared, of those that are wanted
        self._measuring = False
        self._wanted: list[int] | None = None  # rows to read once the machine is known
        self._unmeasured: tuple[int, int] | None = None  # weights and bytes of rows without error
        self._make_table(machine.app)
        self._make_lines(plain_text(_short_name(error)))
        machine.changed.connect(self._read_wanted)
        machine.changed.connect(self._show_state)
        self.finished.connect(self._slot.cancel)
        self.table.show_rows(listed_table(self.choices), self.choices)
        self._show_state()
        self.table.select_row(0)
        self.table.setFocus()
        if not self._is_remote or len(self.choices) * HEADER_BYTES <= addresses.MUCH:
            self.read()
        elif not machine.known:
            machine.look()
        self.resize(_LIST_WIDTH, _LIST_HEIGHT)

    def _make_table(self, app: Services) -> None:
        self._model = TableModel(self)
        self.table = TableView(self._model, app, self)
        self.table.of_model = False
        self.table.customContextMenuRequested.disconnect()  # one menu holds the table's, too
        self.table.customContextMenuRequested.connect(self._show_menu)
        add = partial(add_action, self.table, children=True)
        self.open_action = add("&Open", self._open_selected)
        self.read_action = add("&Read the headers of these", self._read_selected, "F5")
        copying = "Copy the co&mmand that downloads it"
        self.copy_action = add(copying, self.copy_commands, "Ctrl+Shift+D")
        self.table.row_opened.connect(lambda _row: self._open_selected())
        self.table.selection_moved.connect(self._show_command)

    def _make_lines(self, name: str) -> None:
        title = plain_label(self, f"{name}: {counted(len(self.choices), 'model')}", wraps=True)
        style_text(title, TextSize.SECTION)
        self._target = plain_label(self, wraps=True)
        self._state = plain_label(self, wraps=True)
        self.advice = text_label("", self)
        self._read_button = QPushButton(self)
        self._read_button.setAutoDefault(False)
        self._read_button.clicked.connect(self._press_read)
        self.command = QLineEdit(self)
        self.command.setReadOnly(True)
        self.command.setFont(monospace_font())
        self.command.setAccessibleName("Command that downloads it")
        copy = QPushButton("&Copy", self)
        copy.setAutoDefault(False)
        copy.setToolTip("Copy the command that downloads it: this program downloads nothing")
        copy.clicked.connect(self.copy_commands)
        caption = plain_label(self, "To &download it:")
        caption.setBuddy(self.command)
        buttons, role = QDialogButtonBox(self), QDialogButtonBox.ButtonRole.ActionRole
        if self._more is not None:
            self.more_button = buttons.addButton("All &quants on the web…", role)
            self.more_button.setToolTip(f"Fetch the list from {self._more}")
            self.more_button.clicked.connect(lambda: self._finish([self._more]))
        self.recipes_button = buttons.addButton("&Try other quants…", role)
        self.recipes_button.setToolTip(
            "What llama-quantize would make of the original in this list"
        )
        self.recipes_button.clicked.connect(self._try_recipes)
        if self._of_folder:
            self.add_button = buttons.addButton("Add to the &library", role)
            self.add_button.setToolTip("List the models of this folder from now on")
            self.add_button.clicked.connect(self.folder_wanted)
            self.add_button.clicked.connect(self.accept)
        self.open_button = buttons.addButton(QDialogButtonBox.StandardButton.Open)
        buttons.addButton(QDialogButtonBox.StandardButton.Cancel)
        self.open_button.clicked.connect(self._open_selected)
        buttons.rejected.connect(self.reject)
        reading = row((self._state, 1), self._read_button)
        fetching = row(caption, (self.command, 1), copy)
        for part in (caption, self.command, copy):
            part.setVisible(self._is_remote)
        parts = (title, self._target, self.advice, (self.table, 1), reading, fetching, buttons)
        column(*parts, of=self, margins=(Space.GROUP,) * 4, spacing=Space.WIDE)

    # Reading

    @property
    def _is_remote(self) -> bool:
        return any(isinstance(choice.path, Address) for choice in self.choices)

    @property
    def _unread(self) -> list[int]:
        return [place for place, choice in enumerate(self.choices) if choice.version is UNREAD]

    def read(self, places: Sequence[int] | None = None) -> None:
        """Fetch the headers of these models, or of all that were not read."""
        self._wanted = self._unread if places is None else list(places)
        if self._machine.known:
            self._read_wanted()
        else:
            self._machine.look()
            self._show_state()

    @Slot()
    def _read_wanted(self) -> None:
        if self._wanted is None or not self._machine.known:
            return
        wanted, self._wanted = self._wanted, None
        paths = [self.choices[place].path for place in wanted]
        target = self._machine.target()

        def work(job: Job) -> dict[int, Version]:
            def read(item: tuple[int, Path], check: Check) -> Version:
                return version_at(item[1], target, check)

            found: dict[int, Version] = {}
            items = zip(wanted, paths, strict=True)
            with map_in_order(
                items, read, workers=_HEADERS_AT_ONCE, check=job.check, waiting=job.check
            ) as results:
                for (place, _), version in results:
                    found[place] = version
                    job.report(len(found), len(wanted))
                    job.publish(found.copy)
            return found

        self._measuring, self._progress = False, (0, len(wanted))
        job = self._slot.run("Reading headers", work, self._take, self._fail)
        job.published.connect(self._take)
        job.progressed.connect(self._show_progress)
        job.finished.connect(self._look_for_errors, Qt.ConnectionType.QueuedConnection)
        self._show_state()

    @Slot()
    def _look_for_errors(self) -> None:
        """Show the errors that are kept, once all headers are read."""
        if not self._unread and not self._slot.busy and not self._of_folder:
            self._compare(only_known=True)
        self._show_state()

    def _compare(self, *, only_known: bool) -> None:
        """Measure what the quants lost against the original among them, if it is here."""
        first = original_among(self.choices)
        if first is None:
            return
        choices = list(enumerate(self.choices))
        paths = {at: one.path for at, one in choices if at != first and one.error is None}
        original = self.choices[first].path

        def work(job: Job) -> tuple[dict[int, float], tuple[int, int]]:
            with ModelErrors(original, paths, job.check) as models:
                found = models.measure(models.known, 1, job.check)
                job.publish(found.copy)
                if only_known:
                    return found, models.unread
                left = models.comparisons.keys() - found
                weights = sum(models.comparisons[at][1].parameters for at in left)
                report = lambda done: job.report(done, weights)  # noqa: E731 - of one expression
                return found | models.measure(left, worker_count(), job.check, report), (0, 0)

        def finish(result: tuple[dict[int, float], tuple[int, int]]) -> None:
            found, left = result
            self._unmeasured = left if any(left) else None
            self._take_errors(found)

        self._measuring, self._progress = not only_known, (0, 1)
        job = self._slot.run("Measuring errors", work, finish, self._fail)
        job.published.connect(self._take_errors)
        job.progressed.connect(self._show_progress)
        job.finished.connect(self._show_state, Qt.ConnectionType.QueuedConnection)
        self._show_state()

    def _take_errors(self, found: Mapping[int, float]) -> None:
        for place, error in found.items():
            self.choices[place].error = error
        self._model.renew(listed_table(self.choices), self.choices)
        chosen, flags = self.table.selectionModel(), QItemSelectionModel.SelectionFlag
        chosen.select(chosen.selection(), flags.Select | flags.Rows)  # with the column that came
        self._show_state()

    def _fail(self, error: ExplorerError) -> None:
        self._state.setText(plain_text(str(error)))

    def _take(self, found: Mapping[int, Version]) -> None:
        for place, version in found.items():
            self.choices[place].version = version
        self._model.renew(listed_table(self.choices), self.choices)
        self.table.column_layout.widen(range(self._model.columnCount()))
        self._show_state()

    def _press_read(self) -> None:
        if self._slot.busy:
            self._slot.cancel()
            self._show_state()
        elif self._unread:
            self.read()
        else:
            self._compare(only_known=False)

    def _read_selected(self) -> None:
        self.read(self._selected())

    def _show_progress(self, done: int, total: int) -> None:
        self._progress = done, total
        self._show_state()

    @Slot()
    def _show_state(self) -> None:
        known, unread, busy = self._machine.known, len(self._unread), self._slot.busy
        machine = plain_text(self._machine.text)
        target = self._machine.target() if known else None
        planned = "" if target is None else f" · {target.asked_text}"
        self._target.setText(f"Planned for: {machine}{planned}" if known else machine)
        found = None
        if target is not None and not busy and not self._of_folder:
            found = recommend(self.choices, target)
        if (sentence := "" if found is None else found.sentence) != self.advice.text():
            self.advice.setText(sentence)
            if found is not None and found.place is not None:
                self.table.select_row(found.place)
        self.advice.setVisible(bool(sentence))
        text = ""
        if busy:
            done, total = self._progress
            text = f"Reading headers: {integer_text(done)} of {integer_text(total)}"
            if self._measuring:
                text = f"Measuring errors: {percent_text(done / max(total, 1))}"
        elif unread:
            text = (
                "Only a header says whether its model fits. To read them fetches "
                f"{headers_text(unread)}."
            )
        else:
            text = self.choices[rows[0]].fit.sentence if len(rows := self._selected()) == 1 else ""
        self._state.setText(text)
        self._state.setVisible(bool(text))
        original = None if self._of_folder else original_among(self.choices)
        self.recipes_button.setVisible(original is not None)
        words = "Read &headers" if unread else "Measure the &errors"
        self._read_button.setText("&Stop" if busy else words)
        self._read_button.setVisible(busy or unread > 0 or bool(self._unmeasured))
        if self._unmeasured and not unread:
            takes = to_read_text(*self._unmeasured, worker_count())
            self._read_button.setToolTip(f"Against the original in this list. It takes {takes}")

    def _try_recipes(self) -> None:
        if (place := original_among(self.choices)) is not None:
            self.recipes_wanted.emit(self.choices[place].path)
            self.accept()

    # Commands

    def _selected(self) -> list[int]:
        return [int(place) for place in self.table.selected_content_rows()]

    def _commands(self) -> list[str]:
        found = (download_of(self.choices[place].path) for place in self._selected())
        return [command for command in found if command]

    def _show_command(self) -> None:
        commands = self._commands()
        self.command.setText(commands[0] if len(commands) == 1 else "")
        self.command.setCursorPosition(0)
        several = f"{integer_text(len(commands))} commands"
        self.command.setPlaceholderText(several if len(commands) > 1 else "")
        self.open_button.setEnabled(bool(self._selected()))
        self._show_state()

    def copy_commands(self) -> None:
        """Copy the commands that download the selected models, one a line."""
        copy_text("\n".join(self._commands()))

    def _open_selected(self) -> None:
        self._finish([self.choices[place].path for place in self._selected()])

    def _finish(self, paths: Sequence[Path]) -> None:
        if paths:
            self.chosen.emit(paths)
            self.accept()

    def _show_menu(self, place: QPoint) -> None:
        own = [self.open_action, self.read_action, self.copy_action]
        copying = [self.table.copy_action, self.table.copy_cell_action, self.table.copy_json_action]
        rest = [self.table.export_action, self.table.sort_action, self.table.columns_action]
        show_menu(self, self.table.viewport().mapToGlobal(place), own, copying, rest)


def _short_name(error: SeveralModelsError) -> str:
    """Return what a list of models is headed with: the repository and its commit, or a name."""
    path = error.path
    if not isinstance(path, Address) or path.scheme != HUB:
        return str(path or "")
    part = HubPart.of(path)
    place = f"{part.repository}/{part.file}".rstrip("/")
    revision = part.revision[:7] if len(part.revision) == 40 else part.revision
    return f"{place} at {revision}"
