"""Ctrl+K: type a part of any name and go there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from heapq import merge
from itertools import islice
from typing import Any, Final, Protocol

from PySide6.QtCore import QAbstractListModel, QEvent, QModelIndex, QObject, Qt, QTimer, Signal
from PySide6.QtGui import QAction, QKeyEvent
from PySide6.QtWidgets import QDialog, QLineEdit, QListView, QVBoxLayout, QWidget

from explorer.errors import ExplorerError
from explorer.qt.document import Document, Match, NameList, name_list
from explorer.qt.help.guide import plain_title
from explorer.qt.jobs import JobRunner, JobSlot
from explorer.qt.widgets.labels import plain_label
from explorer.qt.widgets.table_model import Index, ItemRole
from explorer.qt.widgets.table_view import RoomyDelegate
from explorer.text import integer_text, plain_text, shorten

# Everything that Ctrl+K can jump to, and which of it a query finds.


MOST_FOUND: Final = 200
_LONGEST_TEXT: Final = 300


class Target(Enum):
    """What a result leads to."""

    MODEL = "model"
    KEY = "key"
    TENSOR = "tensor"
    ACTION = "command"


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """Something to jump to.

    Attributes:
        target: What it is.
        text: Its text, safe to show.
        document: The model, of a MODEL, KEY or TENSOR.
        position: Position of the key or tensor, or of the action.
    """

    target: Target
    text: str
    document: Document | None
    position: int


@dataclass(frozen=True, eq=False)
class Shelf:
    """Things of one kind to jump to.

    Attributes:
        target: What they are.
        names: Their names, ready for searching.
        text: Returns the name at a position as the file has it; called in a worker.
        document: The model that they belong to, or None.
    """

    target: Target
    names: NameList
    text: Callable[[int], str]
    document: Document | None = None


@dataclass(frozen=True, eq=False)
class Found:
    """What a query found.

    Attributes:
        entries: The best, in order.
        count: How many there are in all.
    """

    entries: Sequence[Entry]
    count: int


def text_shelf(target: Target, texts: Sequence[str], document: Document | None = None) -> Shelf:
    """Return a shelf of a few texts."""
    return Shelf(target, name_list([text.lower() for text in texts]), texts.__getitem__, document)


def all_shelves(documents: Sequence[Document], commands: Sequence[str]) -> list[Shelf]:
    """Return everything to jump to. What there is little of comes first among equals."""
    models = [text_shelf(Target.MODEL, [document.title], document) for document in documents]
    keys = [
        Shelf(Target.KEY, document.key_names, _key_text(document), document)
        for document in documents
    ]
    tensors = [
        Shelf(
            Target.TENSOR,
            document.tensor_names,
            document.model.tensors.columns.names.__getitem__,
            document,
        )
        for document in documents
    ]
    return [*models, text_shelf(Target.ACTION, commands), *keys, *tensors]


def search(shelves: Sequence[Shelf], query: str, check: Callable[[], None] = lambda: None) -> Found:
    """Return the best entries that hold every word of the query.

    A word that is a whole word of the name ranks before one that is only a part of it: with
    ``attn 0``, ``blk.0.attn_norm`` comes before ``blk.10.attn_k``. Then come names that begin with
    the query's first word. Equals are in the order of the shelves, on a shelf in natural order.

    Args:
        shelves: Where to look.
        query: Any text; case does not count.
        check: Called every few thousand names; raises to give up.
    """
    words = query.lower().split()
    count = 0
    found: list[list[tuple[int, bool, int, Match]]] = []
    for number, shelf in enumerate(shelves):
        matches, all_count = shelf.names.search(words, MOST_FOUND, check)
        count += all_count
        found.append([(match.misses, match.inside, number, match) for match in matches])
    best = islice(merge(*found), MOST_FOUND)
    return Found([_entry(shelves[number], match) for _, _, number, match in best], count)


def _entry(shelf: Shelf, match: Match) -> Entry:
    text = plain_text(shelf.text(match.position)[: 2 * _LONGEST_TEXT])
    return Entry(shelf.target, shorten(text, _LONGEST_TEXT), shelf.document, match.position)


def _key_text(document: Document) -> Callable[[int], str]:
    entries = document.model.metadata.entries
    return lambda position: entries[position].key


# What Ctrl+K has found, as a list.


class FoundList(QAbstractListModel):
    """Entries in the order of their ranks.

    Attributes:
        entries: The entries.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.entries: Sequence[Entry] = ()

    def set_entries(self, entries: Sequence[Entry]) -> None:
        """Show other entries."""
        self.beginResetModel()
        self.entries = entries
        self.endResetModel()

    def _text(self, entry: Entry) -> str:
        place = {
            Target.MODEL: self.tr("model"),
            Target.KEY: self.tr("key"),
            Target.TENSOR: self.tr("tensor"),
            Target.ACTION: self.tr("command"),
        }[entry.target]
        if entry.document is not None and entry.target is not Target.MODEL:
            place += f" — {plain_text(entry.document.title)}"
        return f"{entry.text}    ({place})"

    # Qt

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's signature
        return 0 if parent.isValid() else len(self.entries)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        entry = self.entries[index.row()]
        if role == Qt.ItemDataRole.DisplayRole:
            return self._text(entry)
        if role == ItemRole.RAW:
            return entry.text
        return None


_MOVES = (Qt.Key.Key_Down, Qt.Key.Key_Up, Qt.Key.Key_PageDown, Qt.Key.Key_PageUp)


class QuickOpen(QDialog):
    """A search line over a list of results, which are looked for in the background.

    Attributes:
        edit: The search line.
        found: What was found.
        results: Shows it.
        status: How much there is of it.

    Signals:
        chosen: The user chose an entry.
    """

    chosen = Signal(object)

    def __init__(
        self, shelves: Sequence[Shelf], runner: JobRunner, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle(self.tr("Go to"))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._shelves = shelves
        self._jobs = JobSlot(runner, self)
        self._choose_when_found = False
        self.edit = QLineEdit(self)
        self.edit.setPlaceholderText(self.tr("Model, metadata key, tensor or command"))
        self.edit.setAccessibleName(self.tr("Go to"))
        self.edit.installEventFilter(self)
        self.found = FoundList(self)
        self.results = QListView(self)
        self.results.setModel(self.found)
        self.results.setUniformItemSizes(True)
        self.results.setItemDelegate(RoomyDelegate(self.results))
        self.results.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.results.setAccessibleName(self.tr("Results"))
        self.results.activated.connect(self._choose)
        self.status = plain_label(self)
        self.status.setEnabled(False)
        layout = QVBoxLayout(self)
        layout.addWidget(self.edit)
        layout.addWidget(self.results)
        layout.addWidget(self.status)
        self.resize(680, 460)
        self.edit.textChanged.connect(self._search)
        self.edit.returnPressed.connect(self._choose_current)
        self._search("")

    def _search(self, text: str) -> None:
        self._choose_when_found = False
        self._jobs.run(
            self.tr("Searching names"),
            lambda job: search(self._shelves, text, job.check),
            self._show,
            self._show_failure,
        )

    def _show(self, found: Found) -> None:
        self.found.set_entries(found.entries)
        self.results.setCurrentIndex(self.found.index(0))
        shown = len(found.entries)
        if not shown:
            text = self.tr("Nothing has all of these words in its name.")
        elif shown < found.count:
            text = self.tr("The best {shown} of {all}").format(
                shown=integer_text(shown), all=integer_text(found.count)
            )
        else:
            text = self.tr("{count} found").format(count=integer_text(shown))
        self.status.setText(text)
        if self._choose_when_found:
            self._choose_current()

    def _show_failure(self, error: ExplorerError) -> None:
        self.status.setText(plain_text(str(error)))

    def _choose_current(self) -> None:
        if self._jobs.busy:  # what is shown belongs to an earlier text
            self._choose_when_found = True
        else:
            self._choose(self.results.currentIndex())

    def _choose(self, index: QModelIndex) -> None:
        if index.isValid():
            self.chosen.emit(self.found.entries[index.row()])
            self.accept()

    # Qt

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        # the list is moved through while the cursor stays in the line
        if watched is self.edit and isinstance(event, QKeyEvent):
            pressed = event.type() == QEvent.Type.KeyPress
            if pressed and event.key() in _MOVES:
                self.results.keyPressEvent(event)
                return True
        return super().eventFilter(watched, event)


# Ctrl+K for the window: collects what one can go to, and goes there.


class Places(Protocol):
    """What a window lets one go to."""

    documents: list[Document]

    def reveal_model(self, document: Document) -> None:
        """Show a model."""

    def reveal_key(self, document: Document, position: int) -> None:
        """Show a metadata entry."""

    def reveal_tensor(self, document: Document, row: int) -> None:
        """Show a tensor."""


class GoTo:
    """Opens the search over everything for a window.

    Args:
        places: Where one can go: the window.
        window: The same as a widget: its dialogs belong to it.
        runner: Runs the searching.
    """

    def __init__(self, places: Places, window: QWidget, runner: JobRunner) -> None:
        self._places = places
        self._window = window
        self._runner = runner

    def show(self, actions: Sequence[QAction]) -> None:
        """Open the search; the commands of `actions` can be found too."""
        commands = [action for action in actions if action.text()]
        texts = [plain_title(action) for action in commands]
        dialog = QuickOpen(all_shelves(self._places.documents, texts), self._runner, self._window)
        dialog.chosen.connect(lambda entry: self._go(entry, commands))
        dialog.open()

    def _go(self, entry: Entry, commands: Sequence[QAction]) -> None:
        document = entry.document
        if entry.target is Target.ACTION:
            # once the dialog is gone: the command may open another one
            QTimer.singleShot(0, commands[entry.position].trigger)
        elif document is None or document not in self._places.documents:
            return
        elif entry.target is Target.MODEL:
            self._places.reveal_model(document)
        elif entry.target is Target.KEY:
            self._places.reveal_key(document, entry.position)
        else:
            self._places.reveal_tensor(document, entry.position)
