"""Ctrl+K: type a part of any name and go there; with the name of a page, to that page of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import partial
from heapq import nsmallest
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QAbstractListModel, QEvent, QModelIndex, QObject, Qt, QTimer, Signal
from PySide6.QtGui import QAction, QKeyEvent, QKeySequence, QPainter, QPalette
from PySide6.QtWidgets import (
    QDialog,
    QListView,
    QStackedLayout,
    QStyle,
    QStyleOptionViewItem,
    QWidget,
)

from explorer.errors import FormatError
from explorer.formats.tensors import natural_key
from explorer.parallel import Check, checked, never
from explorer.present.panels import GROUPS, PANELS
from explorer.present.questions import FILLERS, QUESTIONS
from explorer.qt.contents.nodes import layers_of
from explorer.qt.document import Document
from explorer.qt.help.guide import plain_title
from explorer.qt.jobs import Job, JobRunner, JobSlot
from explorer.qt.theme import Space
from explorer.qt.widgets.building import column
from explorer.qt.widgets.labels import empty_label, plain_label
from explorer.qt.widgets.painting import stand_on_page
from explorer.qt.widgets.table_model import Index, ItemRole
from explorer.qt.widgets.table_view import RoomyDelegate, SearchEdit
from explorer.sources import is_address, parse_address
from explorer.stores.entries import Entry as StoredEntry
from explorer.text import bytes_text, integer_text, plain_text, shorten

MOST_FOUND: Final = 200
_LONGEST_TEXT: Final = 300
_MOST_OF_LAYERS: Final = 20_000  # tensors that are looked at for their layers
_LEAST_OF_PAGE: Final = 3  # letters that a page is named with
_AMOUNT: Final = re.compile(r"\b\d[\d.,]*\s*([kmgt]i?b|tokens)\b")  # "free 50 GB"
_NO_WORD: Final = re.compile(r"[\W_]")


class ResultKind(Enum):
    """What a result leads to, in words."""

    ANSWER = "answer"
    MODEL = "model"
    KEY = "key"
    LAYER = "layer"
    TENSOR = "tensor"
    ACTION = "command"
    PAGE = "page"
    RECENT = "recent"
    DOWNLOAD = "library"
    ADDRESS = "on the web"


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """Something to jump to.

    Attributes:
        kind: What it is.
        text: Its text, safe to show.
        document: The model, of a MODEL, KEY, LAYER or TENSOR.
        position: Position of the key or tensor, or of one of the layer; or of the action.
        detail: Where else it is found: menu and key of a command, folder of a file; safe to show.
        path: The model to open, of a RECENT, DOWNLOAD or ADDRESS.
        page: The title of the page to show it in; "" for the usual one.
    """

    kind: ResultKind
    text: str
    document: Document | None
    position: int
    detail: str = ""
    path: Path | None = None
    page: str = ""


@dataclass(frozen=True, eq=False)
class SearchSource:
    """Names of one kind to search.

    Attributes:
        kind: What they are names of.
        names: The names, as the file has them or safe to show.
        document: The model that they belong to, or None.
        details: What stands beside each name; empty if nothing does.
        paths: The models to open; empty if they are not models.
        pages: Titles of pages that show one of them.
        positions: What the position of an entry is, if not the place of its name.
        ranks: Place of each name in natural order, int64 [n], if it is known.
    """

    kind: ResultKind
    names: Sequence[str]
    document: Document | None = None
    details: Sequence[str] = ()
    paths: Sequence[Path] = ()
    pages: Sequence[str] = ()
    positions: Sequence[int] = ()
    ranks: NDArray[np.int64] | None = None

    def order(self, position: int) -> object:
        """Return what decides the place of a name among its equals of this source."""
        known = self.ranks
        return natural_key(self.names[position]) if known is None else int(known[position])

    @property
    def searched(self) -> Sequence[str]:
        """What is searched: the names; also menus and keys of commands, other words of answers."""
        if self.kind not in (ResultKind.ACTION, ResultKind.ANSWER) or not self.details:
            return self.names
        return [" ".join(pair) for pair in zip(self.names, self.details, strict=True)]

    def readings(self, words: Sequence[str]) -> Iterator[tuple[str, Sequence[str]]]:
        """Yield how a query may be meant: title of a page, at first none, and the name's words."""
        yield "", words
        for page in self.pages:
            others = [
                word
                for word in words
                if len(word) < _LEAST_OF_PAGE or not page.lower().startswith(word)
            ]
            if 0 < len(others) < len(words):
                yield page, others


More: TypeAlias = Callable[[Job], Sequence[SearchSource]]
"""Finds further names to search, in a worker."""


@dataclass(frozen=True, eq=False)
class Found:
    """The best results of a query, in order, and the number of all."""

    entries: Sequence[Entry]
    count: int


def search_sources(
    documents: Sequence[Document],
    commands: Sequence[str],
    details: Sequence[str] = (),
    recent: Sequence[Path] = (),
    pages: Mapping[ResultKind, Sequence[str]] | None = None,
) -> list[SearchSource]:
    """Return everything to jump to; of equal results, those of the first source come first.

    Args:
        documents: The open models.
        commands: Titles of the commands.
        details: Menu and keys of each command.
        recent: Models that were opened before; those that are open stand there as such.
        pages: Titles of the pages that show what there is of each kind.
    """
    kind, shown = ResultKind, pages or {}

    def source(
        of: ResultKind,
        document: Document,
        names: Sequence[str],
        ranks: NDArray[np.int64] | None = None,
    ) -> SearchSource:
        return SearchSource(of, names, document, pages=shown.get(of, ()), ranks=ranks)

    models = [source(kind.MODEL, each, [each.title]) for each in documents]
    keys = [source(kind.KEY, each, each.keys.names, each.keys.ranks[0]) for each in documents]
    tensors = [
        source(kind.TENSOR, each, each.model.tensors.columns.names, each.arrays.name_ranks)
        for each in documents
    ]
    opened = {document.path for document in documents}
    others = [path for path in recent if path not in opened]
    files = SearchSource(
        kind.RECENT,
        [path.name for path in others],
        None,
        [str(one.parent) for one in others],
        others,
    )
    commanded = SearchSource(kind.ACTION, commands, None, details)
    layers = [_layers(each) for each in documents]
    return [*models, commanded, files, *keys, *layers, *tensors]


def _layers(document: Document) -> SearchSource:
    """Return the layers of a model, for "layer 7"."""
    rows = np.flatnonzero(document.arrays.layers >= 0)[:_MOST_OF_LAYERS].tolist()
    found = layers_of(document, rows)
    firsts = [rows[0] for rows in found.values()]
    return SearchSource(ResultKind.LAYER, list(found), document, positions=firsts)


def answers() -> SearchSource:
    """Return the pages that answer questions; of equal results they come first."""
    texts, words = [one.text for one in QUESTIONS], [one.words for one in QUESTIONS]
    ranks = np.arange(len(texts))  # as they stand in the table, what is asked most first
    return SearchSource(ResultKind.ANSWER, texts, None, words, ranks=ranks)


def command_details(commands: Sequence[QAction], menus: Mapping[QAction, str]) -> list[str]:
    """Return menu and keys of each command, such as ``File · Ctrl+O``."""
    native = QKeySequence.SequenceFormat.NativeText
    keys = (action.shortcut().toString(native) for action in commands)
    return [
        " · ".join(filter(None, (menus.get(action, ""), key)))
        for action, key in zip(commands, keys, strict=True)
    ]


def search(sources: Sequence[SearchSource], query: str, check: Check = never) -> Found:
    """Return the best entries that hold every word of the query; for a worker.

    A word that is a whole word of the name ranks before one that is only a part of it: with
    ``attn 0``, ``blk.0.attn_norm`` comes before ``blk.10.attn_k``. Then come names that begin with
    the query's first word. Equals are in the order of the sources, within one in natural order.
    Commands are found by words of their menus, too; a page whose whole title was typed comes first.
    A word that names a page, and is not in the
    name, leads there: ``7.ffn_down errors``. An address leads to what it names.

    Args:
        sources: Where to look.
        query: Any text; case does not count.
        check: Called every few thousand names; raises to give up.
    """
    if is_address(query.strip()):
        with suppress(FormatError):
            address = parse_address(query)
            text = shorten(plain_text(str(address)), _LONGEST_TEXT)
            return Found([Entry(ResultKind.ADDRESS, text, None, 0, "", address)], 1)
    words = query.lower().split()
    if not words:
        every = ((source, place) for source in sources for place in range(len(source.names)))
        first = [_entry(source, place) for source, place in islice(every, MOST_FOUND)]
        return Found(first, sum(len(source.names) for source in sources))
    ranked = []
    for number, source in enumerate(sources):
        asked = source.kind is ResultKind.ANSWER
        spoken = _AMOUNT.sub(" ", query.lower()).split() if asked else words
        if asked or source.kind is ResultKind.ACTION:
            telling = [word for word in spoken if word.strip("?") not in FILLERS]
        else:
            telling = words
        for place, page, rest in _matches(source, telling or words, check):
            # people ask in other words than ours, and the words of a question stand in no order
            name = " ".join((*rest[:1], source.searched[place])) if asked else source.names[place]
            named = source.kind is ResultKind.PAGE and name.lower() == " ".join(words)
            badness = (-1, False) if named else _badness(name, rest)
            ranked.append((*badness, number, place, page))
    best = nsmallest(
        MOST_FOUND,
        checked(ranked, check),
        key=lambda one: (*one[:3], sources[one[2]].order(one[3]), *one[3:]),
    )
    found = [_entry(sources[number], place, page) for *_, number, place, page in best]
    return Found(found, len(ranked))


def _matches(
    source: SearchSource, words: Sequence[str], check: Check
) -> Iterator[tuple[int, str, Sequence[str]]]:
    """Yield positions of names that hold all words, the page to show them in, and those words."""
    readings = list(source.readings(words))
    for position, name in enumerate(checked(source.searched, check)):
        folded = name.lower()
        for page, rest in readings:
            if all(word in folded for word in rest):
                yield position, page, rest
                if not page:  # no word of it is needed to name a page
                    break


def _badness(name: str, words: Sequence[str]) -> tuple[int, bool]:
    """Return how many words are only parts of words of a name, and whether it starts otherwise."""
    folded = name.lower()
    spaced = f" {_NO_WORD.sub(' ', folded)} "
    parts = sum(f" {_NO_WORD.sub(' ', word)} " not in spaced for word in words)
    return parts, not folded.startswith(words[0])


def _entry(source: SearchSource, position: int, page: str = "") -> Entry:
    text = plain_text(source.names[position][: 2 * _LONGEST_TEXT])
    detail = ""
    if source.details and source.kind is not ResultKind.ANSWER:
        detail = plain_text(source.details[position][:_LONGEST_TEXT])
    path = source.paths[position] if source.paths else None
    title = shorten(text, _LONGEST_TEXT)
    at = source.positions[position] if source.positions else position
    return Entry(source.kind, title, source.document, at, detail, path, page)


class FoundList(QAbstractListModel):
    """The entries that were found, best first."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.entries: Sequence[Entry] = ()

    def set_entries(self, entries: Sequence[Entry]) -> None:
        self.beginResetModel()
        self.entries = entries
        self.endResetModel()

    def place_text(self, entry: Entry) -> str:
        where = entry.detail
        if entry.document is not None and entry.kind is not ResultKind.MODEL:
            where = plain_text(entry.document.title)
        return " — ".join(filter(None, (entry.page, entry.kind.value, where)))

    # Qt

    def rowCount(self, parent: Index = QModelIndex()) -> int:
        return 0 if parent.isValid() else len(self.entries)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        entry = self.entries[index.row()]
        if role == Qt.ItemDataRole.DisplayRole:
            return f"{entry.text}    ({self.place_text(entry)})"
        return entry.text if role == ItemRole.RAW else None


_GAP: Final = 16  # pixels between a result and what it is


class _FoundDelegate(RoomyDelegate):
    """Paints a result, and in muted letters at the far end what it is."""

    # Qt

    def initStyleOption(self, option: QStyleOptionViewItem, index: Index) -> None:
        super().initStyleOption(option, index)
        option.text = ""  # see `paint`

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        super().paint(painter, option, index)
        found = index.model()
        assert isinstance(found, FoundList)
        entry = found.entries[index.row()]
        role, metrics = QPalette.ColorRole, option.fontMetrics
        chosen = bool(option.state & QStyle.StateFlag.State_Selected)
        area = option.rect.adjusted(_GAP // 2, 0, -_GAP // 2, 0)
        elide, line = Qt.TextElideMode.ElideMiddle, Qt.TextFlag.TextSingleLine
        place = metrics.elidedText(found.place_text(entry), elide, area.width() // 2)
        room = area.width() - metrics.horizontalAdvance(place) - _GAP
        for text, side, colour in (
            (metrics.elidedText(entry.text, elide, room), Qt.AlignmentFlag.AlignLeft, role.Text),
            (place, Qt.AlignmentFlag.AlignRight, role.PlaceholderText),
        ):
            painter.setPen(option.palette.color(role.HighlightedText if chosen else colour))
            painter.drawText(area, int(side | Qt.AlignmentFlag.AlignVCenter | line), text)


_MOVES = (Qt.Key.Key_Down, Qt.Key.Key_Up, Qt.Key.Key_PageDown, Qt.Key.Key_PageUp)


class QuickOpen(QDialog):
    """A search line above a list of results; the search runs in the background.

    Signals:
        chosen: The user chose an entry.
    """

    chosen = Signal(object)

    def __init__(
        self,
        sources: Sequence[SearchSource],
        runner: JobRunner,
        parent: QWidget | None = None,
        more: More | None = None,
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle("Go to")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._sources = list(sources)
        self._jobs = JobSlot(runner, self)
        self._further = JobSlot(runner, self)
        self._choose_when_found = False
        self.edit = SearchEdit(self)
        self.edit.setPlaceholderText(
            "A question (fit, slow, free space), a model, key, tensor or command"
        )
        self.edit.setAccessibleName("Go to")
        self.edit.installEventFilter(self)
        self.found = FoundList(self)
        self.results = QListView(self)
        self.results.setModel(self.found)
        stand_on_page(self.results)
        self.results.setUniformItemSizes(True)
        self.results.setItemDelegate(_FoundDelegate(self.results))
        self.results.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.results.setAccessibleName("Results")
        self.results.activated.connect(self._choose)
        self.nothing = empty_label(self)
        self.nothing.setText("Nothing was found: nothing has all of these words in its name.")
        self._stack = QStackedLayout()
        self._stack.addWidget(self.results)
        self._stack.addWidget(self.nothing)
        self.status = plain_label(self)
        self.status.setEnabled(False)
        parts = self.edit, self._stack, self.status
        column(*parts, of=self, margins=(Space.WIDE,) * 4, spacing=Space.NEAR)
        self.resize(680, 460)
        self.edit.textChanged.connect(self._search)
        self.edit.returnPressed.connect(self._choose_current)
        self._search("")
        if more is not None:
            title = "Looking for downloaded models"
            self._further.run(title, more, self._extend, self._show_error)

    def _search(self, text: str) -> None:
        self._choose_when_found = False
        self._run(text)

    def _run(self, text: str, kept: Entry | None = None) -> None:
        """Search, and select the best result, or again one that was selected before."""
        sources = tuple(self._sources)
        self._jobs.run(
            "Searching names",
            lambda job: search(sources, text, job.check),
            lambda found: self._show(found, kept),
            self._show_error,
        )

    def _extend(self, sources: Sequence[SearchSource]) -> None:
        """Search further names too; what is selected stays so if the user has moved there."""
        self._sources += sources
        row = self.results.currentIndex().row()
        self._run(self.edit.text(), self.found.entries[row] if row > 0 else None)

    def _show_error(self, error: Exception) -> None:
        self.status.setText(plain_text(str(error)))

    def _show(self, found: Found, kept: Entry | None) -> None:
        self.found.set_entries(found.entries)
        same = (
            row
            for row, entry in enumerate(found.entries)
            if kept is not None
            and (entry.kind, entry.document, entry.path, entry.position, entry.page)
            == (kept.kind, kept.document, kept.path, kept.position, kept.page)
        )
        self.results.setCurrentIndex(self.found.index(next(same, 0)))
        shown = len(found.entries)
        self._stack.setCurrentWidget(self.results if shown else self.nothing)
        if not shown:
            text = ""
        elif shown < found.count:
            text = f"The best {integer_text(shown)} of {integer_text(found.count)}"
        else:
            text = f"{integer_text(shown)} found"
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


@dataclass(frozen=True)
class SearchContext:
    """What the search finds beside what is in open models.

    Attributes:
        menus: The menu in which each command stands.
        recent: Models that were opened before.
        find: Returns the downloaded models, with the program that has each; called in a worker.
        open_path: Opens a model.
        pages: Titles of the pages that show what there is of each kind.
        show_page: Shows a page by its title.
        answer: Shows the page that answers a question.
        enter: Has keys go to the page that is shown.
        current: The model that is shown; None if none is.
        places: Pages that no command names: panel and title, its own or that of one of its tabs.
        show_place: Shows one of them.
    """

    menus: Mapping[QAction, str]
    recent: Sequence[Path]
    find: Callable[[Check], Sequence[tuple[StoredEntry, str]]]
    open_path: Callable[[Path], object]
    pages: Mapping[ResultKind, Sequence[str]]
    show_page: Callable[[str], object]
    answer: Callable[[str], object]
    enter: Callable[[], object]
    current: Document | None = None
    places: Sequence[tuple[str, str]] = ()
    show_place: Callable[[str, str], object] = lambda _panel, _title: None


def places_source(places: Sequence[tuple[str, str]]) -> SearchSource:
    """Return pages that are found by their title, each with the panel or the group it is in."""
    panels = [PANELS[name] for name, _ in places]
    details = [
        GROUPS[panel.group].title if title == panel.title else panel.full_title
        for panel, (_, title) in zip(panels, places, strict=True)
    ]
    return SearchSource(ResultKind.PAGE, [title for _, title in places], None, details)


def show_quick_open(
    parent: QWidget,
    documents: Sequence[Document],
    runner: JobRunner,
    reveal: Mapping[ResultKind, Callable[[Document, int], None]],
    context: SearchContext,
) -> None:
    """Open the search over models and the commands of the window `parent`; go to what is chosen.

    Args:
        parent: The window.
        documents: Its models; the list changes when some are closed.
        runner: Runs the search.
        reveal: Shows a model, a key or a tensor by its position.
        context: What else there is.
    """
    commands = [action for action in parent.actions() if action.text()]

    def go(entry: Entry) -> None:
        # once the dialog is gone: what is chosen may open another one
        if entry.kind is ResultKind.ANSWER:
            QTimer.singleShot(0, partial(context.answer, QUESTIONS[entry.position].page))
            QTimer.singleShot(0, context.enter)
        elif entry.kind is ResultKind.PAGE:
            QTimer.singleShot(0, partial(context.show_place, *context.places[entry.position]))
            QTimer.singleShot(0, context.enter)
        elif entry.path is not None:
            QTimer.singleShot(0, partial(context.open_path, entry.path))
        elif entry.document is None:
            QTimer.singleShot(0, commands[entry.position].trigger)
        elif entry.document in documents:
            reveal[entry.kind](entry.document, entry.position)
            if entry.page:
                context.show_page(entry.page)
            QTimer.singleShot(0, context.enter)

    titles = [plain_title(action) for action in commands]
    details = command_details(commands, context.menus)
    # of two models that hold the same tensor, the one that is shown is meant
    ordered = sorted(documents, key=lambda each: each is not context.current)
    named = search_sources(ordered, titles, details, context.recent, context.pages)
    models = [source for source in named if source.kind is ResultKind.MODEL]
    commanded, *others = named[len(models) :]
    sources = [*models, answers(), commanded, places_source(context.places), *others]
    listed = {*context.recent, *(document.path for document in documents)}

    def downloads(job: Job) -> list[SearchSource]:
        found = [(each, name) for each, name in context.find(job.check) if each.path not in listed]
        names, paths = [each.name for each, _ in found], [each.path for each, _ in found]
        texts = [f"{program} · {bytes_text(each.nbytes)}" for each, program in found]
        return [SearchSource(ResultKind.DOWNLOAD, names, None, texts, paths)]

    dialog = QuickOpen(sources, runner, parent, downloads)
    dialog.chosen.connect(go)
    dialog.open()
