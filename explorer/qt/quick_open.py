"""Ctrl+K: type a part of any name and go there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from heapq import nsmallest
from itertools import islice
from typing import Any, Final

from PySide6.QtCore import QAbstractListModel, QEvent, QModelIndex, QObject, Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QDialog, QLineEdit, QListView, QVBoxLayout, QWidget

from explorer.formats.tensors import natural_key
from explorer.qt.document import Document
from explorer.qt.help.guide import plain_title
from explorer.qt.jobs import JobRunner, JobSlot
from explorer.qt.widgets.labels import plain_label
from explorer.qt.widgets.table_model import Index, ItemRole
from explorer.qt.widgets.table_view import RoomyDelegate
from explorer.text import integer_text, plain_text, shorten

MOST_FOUND: Final = 200
_LONGEST_TEXT: Final = 300
_CHECK_EVERY: Final = 4096  # names
_NO_WORD: Final = re.compile(r"[\W_]")


class ResultKind(Enum):
    """What a result leads to, in words."""

    MODEL = "model"
    KEY = "key"
    TENSOR = "tensor"
    ACTION = "command"


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """Something to jump to.

    Attributes:
        kind: What it is.
        text: Its text, safe to show.
        document: The model, of a MODEL, KEY or TENSOR.
        position: Position of the key or tensor, or of the action.
    """

    kind: ResultKind
    text: str
    document: Document | None
    position: int


@dataclass(frozen=True, eq=False)
class SearchSource:
    """Names of one kind to search.

    Attributes:
        kind: What they are names of.
        names: The names as the file has them.
        document: The model that they belong to, or None.
    """

    kind: ResultKind
    names: Sequence[str]
    document: Document | None = None


@dataclass(frozen=True, eq=False)
class Found:
    """The best results of a query, in order, and the number of all."""

    entries: Sequence[Entry]
    count: int


def search_sources(documents: Sequence[Document], commands: Sequence[str]) -> list[SearchSource]:
    """Return everything to jump to; of equal results, those of the first source come first."""
    kind, models, keys, tensors = ResultKind, [], [], []
    for document in documents:
        model, entries = document.model, document.model.metadata.entries
        models.append(SearchSource(kind.MODEL, [document.title], document))
        keys.append(SearchSource(kind.KEY, [entry.key for entry in entries], document))
        tensors.append(SearchSource(kind.TENSOR, model.tensors.columns.names, document))
    return [*models, SearchSource(kind.ACTION, commands), *keys, *tensors]


def search(
    sources: Sequence[SearchSource], query: str, check: Callable[[], None] = lambda: None
) -> Found:
    """Return the best entries that hold every word of the query; for a worker.

    A word that is a whole word of the name ranks before one that is only a part of it: with
    ``attn 0``, ``blk.0.attn_norm`` comes before ``blk.10.attn_k``. Then come names that begin with
    the query's first word. Equals are in the order of the sources, within one in natural order.

    Args:
        sources: Where to look.
        query: Any text; case does not count.
        check: Called every few thousand names; raises to give up.
    """
    words = query.lower().split()
    matches = (
        (number, position)
        for number, source in enumerate(sources)
        for position in _matches(source.names, words, check)
    )
    if not words:
        first = [_entry(sources[number], place) for number, place in islice(matches, MOST_FOUND)]
        return Found(first, sum(len(source.names) for source in sources))
    ranked = [
        (*_badness(sources[number].names[place], words), number, place) for number, place in matches
    ]
    check()
    best = nsmallest(
        MOST_FOUND,
        ranked,
        key=lambda one: (*one[:3], natural_key(sources[one[2]].names[one[3]]), one[3]),
    )
    return Found([_entry(sources[number], place) for *_, number, place in best], len(ranked))


def _matches(
    names: Sequence[str], words: Sequence[str], check: Callable[[], None]
) -> Iterator[int]:
    for position, name in enumerate(names):
        if position % _CHECK_EVERY == 0:
            check()
        folded = name.lower()
        if all(word in folded for word in words):
            yield position


def _badness(name: str, words: Sequence[str]) -> tuple[int, bool]:
    """Return how many words are only parts of words of a name, and whether it starts otherwise."""
    folded = name.lower()
    spaced = f" {_NO_WORD.sub(' ', folded)} "
    parts = sum(f" {_NO_WORD.sub(' ', word)} " not in spaced for word in words)
    return parts, not folded.startswith(words[0])


def _entry(source: SearchSource, position: int) -> Entry:
    text = plain_text(source.names[position][: 2 * _LONGEST_TEXT])
    return Entry(source.kind, shorten(text, _LONGEST_TEXT), source.document, position)


class FoundList(QAbstractListModel):
    """The entries that were found, best first."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.entries: Sequence[Entry] = ()

    def set_entries(self, entries: Sequence[Entry]) -> None:
        """Show other entries."""
        self.beginResetModel()
        self.entries = entries
        self.endResetModel()

    def _text(self, entry: Entry) -> str:
        place = self.tr(entry.kind.value)
        if entry.document is not None and entry.kind is not ResultKind.MODEL:
            place += f" — {plain_text(entry.document.title)}"
        return f"{entry.text}    ({place})"

    # Qt

    def rowCount(self, parent: Index = QModelIndex()) -> int:
        return 0 if parent.isValid() else len(self.entries)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        entry = self.entries[index.row()]
        if role == Qt.ItemDataRole.DisplayRole:
            return self._text(entry)
        return entry.text if role == ItemRole.RAW else None


_MOVES = (Qt.Key.Key_Down, Qt.Key.Key_Up, Qt.Key.Key_PageDown, Qt.Key.Key_PageUp)


class QuickOpen(QDialog):
    """A search line above a list of results; the search runs in the background.

    Signals:
        chosen: The user chose an entry.
    """

    chosen = Signal(object)

    def __init__(
        self, sources: Sequence[SearchSource], runner: JobRunner, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle(self.tr("Go to"))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._sources = sources
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
            lambda job: search(self._sources, text, job.check),
            self._show,
            lambda error: self.status.setText(plain_text(str(error))),
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


def show_quick_open(
    parent: QWidget,
    documents: Sequence[Document],
    runner: JobRunner,
    reveal: Mapping[ResultKind, Callable[[Document, int], None]],
) -> None:
    """Open the search over models and the commands of the window `parent`; go to what is chosen.

    Args:
        parent: The window.
        documents: Its models; the list changes when some are closed.
        runner: Runs the search.
        reveal: Shows a model, a key or a tensor by its position.
    """
    commands = [action for action in parent.actions() if action.text()]

    def go(entry: Entry) -> None:
        if entry.document is None:
            # once the dialog is gone: the command may open another one
            QTimer.singleShot(0, commands[entry.position].trigger)
        elif entry.document in documents:
            reveal[entry.kind](entry.document, entry.position)

    sources = search_sources(documents, [plain_title(action) for action in commands])
    dialog = QuickOpen(sources, runner, parent)
    dialog.chosen.connect(go)
    dialog.open()
