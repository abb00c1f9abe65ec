"""The user guide: its pages of Markdown in `resources/guide`, the lists of keys, and its window.

This is the one module that shows rich text: pages of the guide and lists of keys, never a text of a
model. Links lead to other pages, and there are no pictures. Pages of panels have the panels' object
names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from PySide6 import QtGui, QtWidgets
from PySide6.QtCore import QEvent, QRegularExpression, QSize, Qt, QUrl
from PySide6.QtGui import QAction, QKeySequence

from explorer.paths import resource
from explorer.present.panels import PANELS, WORST_TENSORS, guide_page
from explorer.qt.theme import Space
from explorer.qt.widgets.building import LINE, column, row
from explorer.qt.widgets.painting import stand_on_page
from explorer.qt.widgets.table_view import FilterBar, RoomyDelegate
from explorer.text import counted

ORDER: Final = (
    *("start", "library", "overview", "metadata", "tensors", "vocabulary", "raw", "weights"),
    *("survey", "compare", "errors", "what_if", "planner", "differ", "commands", "formats"),
    *("words", "never"),
)
"""The pages, in the order of reading."""

KEYS_PAGE: Final = "keys"
"""Name of the page that lists all keys; it is made from the commands."""

_LINK: Final = re.compile(r"(?<!\\)\[[^\]]*\]\(([^)]*)\)")
_TITLE: Final = re.compile(r"# (.+)")


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the guide."""

    name: str  # stable name: the file's without its ending
    title: str  # its first line
    text: str  # the whole page, Markdown

    def links(self) -> list[str]:
        return _LINK.findall(self.text)

    def holds(self, words: Iterable[str]) -> bool:
        """Return whether every word occurs in it, in any case."""
        text = self.text.casefold()
        return all(word.casefold() in text for word in words)


@dataclass(frozen=True, slots=True)
class Place:
    """The target of a link."""

    page: str
    anchor: str = ""  # the heading there, as GitHub writes it in links; "" for the page's start

    @classmethod
    def of_link(cls, link: str, current: str) -> Place | None:
        """Return the target of a link on the current page; None if it is not in the guide."""
        file, _, anchor = link.partition("#")
        if not file:
            return cls(current, anchor)
        name = file.removesuffix(".md")
        return cls(name, anchor) if name in (*ORDER, KEYS_PAGE) and file.endswith(".md") else None


def page_of(name: str, text: str) -> Page:
    """Return a page of a text.

    Raises:
        ValueError: The text does not begin with a title.
    """
    found = _TITLE.match(text)
    if found is None:
        raise ValueError(f"the page {name!r} of the guide has no title")
    return Page(name, found[1], text)


def load_guide() -> tuple[Page, ...]:
    """Read the pages, in the order of reading; some 30 KB.

    Raises:
        FileNotFoundError: The installation lacks one.
    """
    return tuple(
        page_of(name, resource(f"guide/{name}.md").read_text(encoding="utf-8")) for name in ORDER
    )


def pages_with(pages: Sequence[Page], text: str) -> list[Page]:
    """Return the pages in which every word of a text occurs."""
    return [page for page in pages if page.holds(text.split())]


def anchor_of(heading: str) -> str:
    """Return the name of a heading in links: as on GitHub, in small letters and with hyphens."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


# Keys: the window's lines come from its actions. Those of panels are written down here, for a
# panel is built when it is first shown, and many of its keys are no actions. A test compares every
# command of every panel with these lists.


_FILTER: Final = {"Clear the filter": "Escape", "From the filter into the list": "Down, Enter"}
_TABLE: Final = {
    "Copy the selected rows": "Ctrl+C",
    "Copy the cell": "Ctrl+Shift+C",
    "Sort by the column of the cursor": "Ctrl+Shift+S",
    "Choose columns": "Ctrl+Shift+L",
}
_PLOT: Final = {
    "Plot: zoom in, zoom out": "+, -",
    "Plot: move": "Shift+Left, Shift+Right",
    "Plot: undo the last zoom": "Backspace",
    "Plot: see all of it": "Home",
    "Plot: copy the picture": "Ctrl+Shift+C",
    "Plot: copy what it shows, as text": "Ctrl+Shift+T",
    "Plot: save picture or data": "Ctrl+S",
}
_STOP: Final = {"Stop comparing. The results so far stay": "Escape"}
_WEIGHTS_MAP: Final = {
    "Map: move while zoomed": "arrow keys",
    "Map: choose a weight": "Ctrl+arrow keys",
    "Map: copy the value": "Ctrl+C",
    "Map: copy the position": "Ctrl+Shift+P",
}
_MAP: Final = {
    "Map: go from cell to cell": "arrow keys, PgUp, PgDown, Home, End",
    "Map, charts: show the tensor": "Enter",
    "Map and charts: copy the picture": "Ctrl+Shift+C",
    "Map and charts: copy what they show, as text": "Ctrl+Shift+T",
    "Map: copy the figures of the cell": "Ctrl+C",
    "Map: save picture or data": "Ctrl+S",
}
PANEL_KEYS: Final[Mapping[str, Mapping[str, str]]] = {
    "library": {
        **_FILTER,
        "Open the model": "Enter",
        "Read all stores again": "F5",
        "Models: copy the name": "Ctrl+C",
        "Copy the path": "Ctrl+Shift+P",
        "Copy the digest": "Ctrl+Shift+D",
        "Copy “ollama run …”": "Ctrl+Shift+R",
        "Show in the file manager": "Ctrl+Shift+E",
        "Close the search in a text": "Escape",
        **_TABLE,
    },
    "overview": {},
    "metadata": {
        **_FILTER,
        **_TABLE,
        "Show the bytes of the key": "Enter",
        "Close the search in a text": "Escape",
    },
    "tensors": {**_FILTER, **_TABLE, "Show weights or errors of the tensor": "Enter"},
    "vocabulary": {**_FILTER, **_TABLE},
    "raw": {
        "Go from byte to byte": "arrow keys, PgUp, PgDown, Home, End",
        "Go to the previous or next field": "Ctrl+Left, Ctrl+Right",
        "Go to the start or end of the file": "Ctrl+Home, Ctrl+End",
        "Select bytes": "Shift+arrow keys",
        "Select all": "Ctrl+A",
        "Copy as hex": "Ctrl+C",
        "Find next": "F3, Ctrl+G",
        "Find previous": "Shift+F3, Ctrl+Shift+G",
        "Stop searching": "Escape",
    },
    "weights": {
        "Stop reading": "Escape",
        "Of several tensors: show the previous, the next": "Alt+PgUp, Alt+PgDown",
        "Histogram: read bin by bin": "Left, Right",
        **_PLOT,
        "Histograms side by side: choose, open": "arrow keys, Enter",
        **_WEIGHTS_MAP,
        "Block: previous, next": "Ctrl+PgUp, Ctrl+PgDown",
        "Block: go from byte to byte": "arrow keys, Home, End",
        "Block: go from weight to weight": "Left, Right",
        **_TABLE,
    },
    "survey": {
        "Stop measuring. The results so far stay": "Escape",
        **_MAP,
        f"{WORST_TENSORS}: show the tensor": "Enter",
        **_FILTER,
        **_TABLE,
    },
    "compare": {
        "Stop comparing weights. The results so far stay": "Escape",
        "Tensors: show the tensor": "Enter",
        **_FILTER,
        **_TABLE,
        **_PLOT,
    },
    "error_map": {**_STOP, **_MAP},
    "error_layers": {**_STOP, **_MAP, **_TABLE},
    "error_tensors": {**_STOP, "Show the tensor": "Enter", **_FILTER, **_TABLE},
    "errors": {
        "Stop reading": "Escape",
        "Histogram: read bin by bin": "Left, Right",
        "Density: go from cell to cell; with Ctrl farther": "arrow keys",
        **_WEIGHTS_MAP,
        **_PLOT,
        **_TABLE,
    },
    "what_if": {
        "Stop measuring. The results so far stay": "Escape",
        "Go from type to type": "Left, Right",
        **_PLOT,
        **_TABLE,
    },
    "planner": {
        "Undo a setting": "Ctrl+Z",
        "Redo it": "Ctrl+Shift+Z, Ctrl+Y",
        "Devices: remove": "Delete",
        "Devices: move up, move down": "Alt+Up, Alt+Down",
        "Bars: go from part to part": "arrow keys",
        "Bars: why is it so much?": "Enter, Space",
        "Layers: show the tensors of the layer": "Enter",
        "Layers: choose one": "Left, Right",
        "Layers: move the edge": "Ctrl+Left, Ctrl+Right",
        "Curves: choose the context": "Left, Right",
        "Compare plans: use the selected settings": "Enter",
        **_PLOT,
        **_TABLE,
    },
}
"""The keys of each panel, by its object name: what they do, and keys with commas between."""

_GUIDE: Final = {
    "Search the guide": "Ctrl+F",
    "Next place on the page, previous place": "F3, Shift+F3",
    "Back, forward": "Alt+Left, Alt+Right",
    "From link to link, follow it": "Tab, Enter",
    "Close": "Escape",
}
_MARKUP: Final = str.maketrans({mark: f"\\{mark}" for mark in "\\`*_{}[]<>()#+-.!|~"})


def plain_title(action: QAction) -> str:
    """Return the name of a command without the marks of menus."""
    return action.text().replace("&", "").removesuffix("…")


def command_keys(actions: Iterable[QAction]) -> dict[str, str]:
    native = QKeySequence.SequenceFormat.NativeText
    return {
        plain_title(action): action.shortcut().toString(native)
        for action in actions
        if not action.shortcut().isEmpty()
    }


def with_keys(page: Page, commands: Mapping[str, str]) -> str:
    """Return the text of a page; of a panel's page, with its keys and those of the window."""
    found = {
        what: keys
        for name, own in PANEL_KEYS.items()
        if guide_page(name) == page.name
        for what, keys in own.items()
    }
    if page.name not in PANEL_KEYS:
        return page.text
    parts = {"Keys of this panel": found, "Keys everywhere": commands}
    return f"{page.text.rstrip()}\n\n{_tables(parts)}"


def keys_page(commands: Mapping[str, str]) -> Page:
    """Return the page that lists all keys."""
    parts = {"Everywhere": commands, "This guide": _GUIDE}
    parts |= {PANELS[name].full_title.translate(_MARKUP): keys for name, keys in PANEL_KEYS.items()}
    return page_of(KEYS_PAGE, f"# Keyboard shortcuts\n\n{_tables(parts)}")


def _tables(parts: Mapping[str, Mapping[str, str]]) -> str:
    blocks = []
    for heading, lines in parts.items():
        if lines:
            rows = [f"| {what.translate(_MARKUP)} | `{keys}` |" for what, keys in lines.items()]
            blocks.append("\n".join([f"## {heading}\n", "| What | Keys |", "| --- | --- |", *rows]))
    return "\n\n".join(blocks) + "\n"


_MARGIN: Final = 18
_CELL_PADDING: Final = 5
_TABLE_MARGIN: Final = 6
_LINE_SHARE: Final = 0.4


class GuideText(QtWidgets.QTextBrowser):
    """Shows pages, with the browser's own history.

    Args:
        text_of: Returns the Markdown of a page by its name; None for an unknown one.
    """

    def __init__(
        self, text_of: Callable[[str], str | None], parent: QtWidgets.QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._text_of = text_of
        self._words = ""  # a pattern of those that are searched
        self.setOpenLinks(False)
        self.setOpenExternalLinks(False)
        self.setAccessibleName("Text of the guide")
        self.anchorClicked.connect(self._follow)
        self.sourceChanged.connect(self._style)

    @property
    def place(self) -> Place:
        """The page and heading that are shown; an empty name before the first page."""
        return Place.of_link(self.source().toString(), "") or Place("")

    def show_place(self, place: Place) -> None:
        """Show a page that exists, from its start or a heading; the current place is left as is."""
        if place == self.place:
            return
        self.setSource(QUrl(f"{place.page}.md" + (f"#{place.anchor}" if place.anchor else "")))
        block = self.document().begin()  # Markdown has no anchors of its own
        while place.anchor and block.isValid():
            if block.blockFormat().headingLevel() > 0 and anchor_of(block.text()) == place.anchor:
                self._scroll_to(QtGui.QTextCursor(block))
                return
            block = block.next()

    def search_for(self, words: Iterable[str]) -> None:
        """Have `find_next` look for any of some words."""
        self._words = "|".join(map(QRegularExpression.escape, words))
        cursor = self.textCursor()
        cursor.clearSelection()
        self.setTextCursor(cursor)

    def find_next(self, forward: bool = True) -> None:
        """Select the next place of a word, after the last one the first."""
        flag, start = QtGui.QTextDocument.FindFlag, QtGui.QTextCursor.MoveOperation
        option = QRegularExpression.PatternOption.CaseInsensitiveOption
        words = QRegularExpression(self._words, option)
        way = flag(0) if forward else flag.FindBackward
        if self._words and not self.find(words, way):
            self.moveCursor(start.Start if forward else start.End)
            self.find(words, way)

    def _follow(self, link: QUrl) -> None:
        place = Place.of_link(link.toString(), self.place.page)
        if place is not None and self._text_of(place.page) is not None:
            self.show_place(place)

    def _style(self) -> None:
        palette = self.palette()
        line = palette.color(QtGui.QPalette.ColorRole.Text)
        line.setAlphaF(_LINE_SHARE)  # visible in every scheme
        style = QtGui.QTextTableFormat()
        style.setBorder(1)
        style.setBorderStyle(QtGui.QTextFrameFormat.BorderStyle.BorderStyle_Solid)
        style.setBorderBrush(QtGui.QBrush(line))
        style.setBorderCollapse(True)
        style.setCellSpacing(0)
        style.setCellPadding(_CELL_PADDING)
        style.setTopMargin(_TABLE_MARGIN)
        style.setBottomMargin(_TABLE_MARGIN)
        style.setHeaderRowCount(1)
        self.document().setDocumentMargin(_MARGIN)
        for table in _text_tables(self.document().rootFrame()):
            table.setFormat(style)

    def _scroll_to(self, cursor: QtGui.QTextCursor) -> None:
        """Scroll a place to the top, and put the cursor there."""
        plain = QtGui.QTextCursor(cursor)
        plain.setPosition(cursor.selectionStart())
        self.setTextCursor(plain)
        bar = self.verticalScrollBar()
        bar.setValue(bar.value() + self.cursorRect(plain).top() - _MARGIN)

    # Qt

    def loadResource(self, kind: int, name: QUrl | str) -> Any:
        place = Place.of_link(QUrl(name).toString(), "")
        return None if place is None else self._text_of(place.page)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange and not self.source().isEmpty():
            place = self.verticalScrollBar().value()
            self.reload()  # links and tables keep the colours of the time they were made
            self.verticalScrollBar().setValue(place)


def _text_tables(frame: QtGui.QTextFrame) -> Iterator[QtGui.QTextTable]:
    for child in frame.childFrames():
        if isinstance(child, QtGui.QTextTable):
            yield child
        yield from _text_tables(child)


_WIDTH, _HEIGHT = 900, 640
_FRAME: Final = QSize(8, 48)  # at most, around a window
_TOPICS_WIDTH: Final = 220


class HelpWindow(QtWidgets.QDialog):
    """Shows the guide beside the program; it is not modal.

    Args:
        pages: The pages, in the order of reading.
        text_of: Returns the Markdown to show of a page.
    """

    def __init__(
        self,
        pages: Sequence[Page],
        text_of: Callable[[Page], str],
        parent: QtWidgets.QWidget | None = None,
    ) -> None:
        super().__init__(parent, Qt.WindowType.Window)
        self.setWindowTitle("GGUF Explorer: guide")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._pages = {page.name: page for page in pages}
        hint = "Search the guide"
        self.search = FilterBar(hint, "Topics in which every word occurs", self)
        self.search.edit.setAccessibleName(hint)
        self.topics = QtWidgets.QListWidget(self)
        self.topics.setAccessibleName("Topics")
        self.topics.setItemDelegate(RoomyDelegate(self.topics))
        self.topics.setUniformItemSizes(True)
        stand_on_page(self.topics)
        self.topics.addItems([page.title for page in pages])
        self.text = GuideText(
            lambda name: text_of(self._pages[name]) if name in self._pages else None, self
        )
        self._make_commands()
        self._lay_out()
        self.search.changed.connect(self._filter)
        self.search.left_down.connect(lambda: self.topics.setFocus(Qt.FocusReason.OtherFocusReason))
        self.topics.currentRowChanged.connect(self._choose)
        self.text.historyChanged.connect(self._page_shown)
        room = self.screen().availableGeometry().size() - _FRAME
        self.resize(QSize(_WIDTH, _HEIGHT).boundedTo(room))

    @property
    def page(self) -> str:
        return self.text.place.page

    def open_page(self, name: str) -> None:
        """Show a page; of an unknown name, the first one."""
        known = name if name in self._pages else next(iter(self._pages))
        self.text.show_place(Place(known))

    def _make_commands(self) -> None:
        text, keys, make = self.text, QtGui.QKeySequence.StandardKey, self._action
        self.back = make("◂", "Back", text.backward, keys.Back)
        self.forward = make("▸", "Forward", text.forward, keys.Forward)
        make("", "Search", self.search.focus, keys.Find)
        make("", "Next place", text.find_next, keys.FindNext)
        make("", "Previous place", lambda: text.find_next(forward=False), keys.FindPrevious)
        text.backwardAvailable.connect(self.back.setEnabled)
        text.forwardAvailable.connect(self.forward.setEnabled)
        for action in (self.back, self.forward):
            action.setEnabled(False)

    def _action(
        self, text: str, name: str, slot: Callable[[], object], keys: QtGui.QKeySequence.StandardKey
    ) -> QtGui.QAction:
        action = QtGui.QAction(text, self)
        action.setShortcuts(keys)
        shown = action.shortcut().toString(QtGui.QKeySequence.SequenceFormat.NativeText)
        action.setToolTip(f"{name} ({shown})" if shown else name)
        action.triggered.connect(lambda _=False: slot())
        self.addAction(action)
        return action

    def _lay_out(self) -> None:
        buttons = map(self._button, (self.back, self.forward))
        bar = row(*buttons, 1, margins=LINE, spacing=Space.TIGHT)
        self.splitter = QtWidgets.QSplitter(self)
        for parts in ((self.search, self.topics), (bar, self.text)):
            side = QtWidgets.QWidget(self)
            column(*parts, of=side)
            self.splitter.addWidget(side)
        self.splitter.setStretchFactor(1, 1)
        self.splitter.setChildrenCollapsible(False)
        self.splitter.setSizes([_TOPICS_WIDTH, _WIDTH - _TOPICS_WIDTH])
        column(self.splitter, of=self, margins=(Space.GROUP, Space.NEAR, Space.GROUP, Space.GROUP))

    def _button(self, action: QtGui.QAction) -> QtWidgets.QToolButton:
        button = QtWidgets.QToolButton(self)
        button.setDefaultAction(action)
        button.setAccessibleName(action.toolTip())
        return button

    def _page_shown(self) -> None:
        page = self._pages.get(self.page)
        if page is None:
            return
        self.topics.setCurrentRow(list(self._pages).index(page.name))
        self.setWindowTitle(f"{page.title}: guide to GGUF Explorer")

    def _choose(self, place: int) -> None:
        name = list(self._pages)[place]
        if place >= 0 and name != self.page:
            self.open_page(name)
            if self.search.text:
                self.text.find_next()

    def _filter(self, text: str) -> None:
        found = {page.name for page in pages_with(list(self._pages.values()), text)}
        for place, name in enumerate(self._pages):
            self.topics.setRowHidden(place, name not in found)
        self.search.status.setText(counted(len(found), "topic") if text.strip() else "")
        self.text.search_for(text.split())
        if text.strip() and found and self.page not in found:
            self.open_page(next(name for name in self._pages if name in found))
        if text.strip():
            self.text.find_next()
