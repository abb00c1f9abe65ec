"""The window of the user guide: topics at the left, a page at the right, a search over all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from PySide6.QtCore import QByteArray, QEvent, QPoint, Qt, QUrl, Signal
from PySide6.QtGui import (
    QAccessible,
    QAccessibleAnnouncementEvent,
    QAction,
    QBrush,
    QColor,
    QFont,
    QKeySequence,
    QPalette,
    QTextBlock,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextFormat,
    QTextFrame,
    QTextFrameFormat,
    QTextTable,
    QTextTableFormat,
    QWheelEvent,
)
from PySide6.QtWidgets import (
    QAbstractItemView,
    QApplication,
    QDialog,
    QHBoxLayout,
    QListWidget,
    QListWidgetItem,
    QMessageBox,
    QSplitter,
    QTextBrowser,
    QTextEdit,
    QToolButton,
    QVBoxLayout,
    QWhatsThis,
    QWidget,
)

from explorer import __version__
from explorer.qt.help.guide import Page, Place, anchor_of, pages_with
from explorer.qt.widgets.table_view import FilterBar, RoomyDelegate

# A page of the guide as text with headings, tables and links.
#
# The one place of the program that shows rich text. What it shows is the program's own: pages of
# `resources/guide` and lists of keys, never a text of a model. Nothing is loaded from anywhere:
# links lead to other pages, pictures there are none.


_MARGIN: Final = 18
_CELL_PADDING: Final = 5
_TABLE_MARGIN: Final = 6
_LINE_SHARE: Final = 0.4
_LEAST_ZOOM, _MOST_ZOOM = 0.5, 4.0
_ZOOM_STEP: Final = 1.1
_MOST_MARKS: Final = 500


class GuideText(QTextBrowser):
    """Shows a page.

    Attributes:
        zoom: Size of the font by that of the program.

    Signals:
        link_followed: A link was chosen; where it leads to, as the page has it.
        zoomed: The font has another size.
    """

    link_followed = Signal(str)
    zoomed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.zoom = 1.0
        self._source = ""
        self._words: tuple[str, ...] = ()
        self._styled = False  # while a page is set, the palette must not have it set again
        self.setOpenLinks(False)
        self.setOpenExternalLinks(False)
        self.setAccessibleName(self.tr("Text of the guide"))
        self.anchorClicked.connect(lambda url: self.link_followed.emit(url.toString()))

    def show_page(self, text: str, anchor: str = "") -> None:
        """Show a page from its start, or from a heading.

        Args:
            text: The page, Markdown; one of the program's own.
            anchor: The heading, as links name it.
        """
        self._source = text
        self._render()
        self.moveCursor(QTextCursor.MoveOperation.Start)
        heading = next((block for block in self._headings() if _anchor(block) == anchor), None)
        if heading is not None:
            self._scroll_to(QTextCursor(heading))

    def mark(self, words: Iterable[str]) -> None:
        """Mark words wherever they occur."""
        self._words = tuple(words)
        self._show_marks()

    def find_next(self, forward: bool = True) -> bool:
        """Go to the next place that is marked, round at the end; return whether there is one."""
        places = sorted((cursor.selectionStart(), cursor) for cursor in self._places())
        if not places:
            return False
        here = self.textCursor().selectionStart()
        if forward:
            after = [cursor for start, cursor in places if start > here]
            self._scroll_to(after[0] if after else places[0][1])
        else:
            before = [cursor for start, cursor in places if start < here]
            self._scroll_to(before[-1] if before else places[-1][1])
        return True

    def set_zoom(self, zoom: float) -> None:
        """Give the font another size; 1 is that of the program."""
        self.zoom = min(max(zoom, _LEAST_ZOOM), _MOST_ZOOM)
        font = QFont(self.font())
        font.setPointSizeF(QWidget().font().pointSizeF() * self.zoom)
        self.setFont(font)
        self.zoomed.emit()

    def zoom_by(self, steps: float) -> None:
        """Make the font larger by some steps, or smaller."""
        self.set_zoom(self.zoom * _ZOOM_STEP**steps)

    def _render(self) -> None:
        self._styled = False
        document = self.document()
        document.setMarkdown(self._source, QTextDocument.MarkdownFeature.MarkdownDialectGitHub)
        document.setDocumentMargin(_MARGIN)
        for table in _tables(document.rootFrame()):
            self._style_table(table)
        self._show_marks()
        self._styled = True

    def _style_table(self, table: QTextTable) -> None:
        style = QTextTableFormat()
        style.setBorder(1)
        style.setBorderStyle(QTextFrameFormat.BorderStyle.BorderStyle_Solid)
        style.setBorderBrush(QBrush(_line_colour(self.palette())))
        style.setBorderCollapse(True)
        style.setCellSpacing(0)
        style.setCellPadding(_CELL_PADDING)
        style.setTopMargin(_TABLE_MARGIN)
        style.setBottomMargin(_TABLE_MARGIN)
        style.setHeaderRowCount(1)
        table.setFormat(style)

    def _headings(self) -> Iterator[QTextBlock]:
        block = self.document().begin()
        while block.isValid():
            if block.blockFormat().headingLevel() > 0:
                yield block
            block = block.next()

    def _places(self) -> Iterator[QTextCursor]:
        """Yield where the marked words are."""
        for word in self._words:
            cursor, count = QTextCursor(self.document()), 0
            while count < _MOST_MARKS:
                cursor = self.document().find(word, cursor)
                if cursor.isNull():
                    break
                count += 1
                yield QTextCursor(cursor)

    def _show_marks(self) -> None:
        style = QTextCharFormat()
        style.setBackground(self.palette().color(QPalette.ColorRole.Highlight))
        style.setForeground(self.palette().color(QPalette.ColorRole.HighlightedText))
        style.setProperty(QTextFormat.Property.FullWidthSelection, False)
        marks = []
        for cursor in self._places():
            mark: Any = QTextEdit.ExtraSelection()  # the stub knows no attributes
            mark.cursor, mark.format = cursor, style
            marks.append(mark)
        self.setExtraSelections(marks)

    def _scroll_to(self, cursor: QTextCursor) -> None:
        """Put a place into the upper third of what is seen, and the cursor there."""
        plain = QTextCursor(cursor)
        plain.setPosition(cursor.selectionStart())
        self.setTextCursor(plain)
        bar = self.verticalScrollBar()
        bar.setValue(bar.value() + self.cursorRect(plain).top() - _MARGIN)

    # Qt

    def loadResource(self, kind: int, name: QUrl | str) -> Any:
        return None  # pages need no other file, and ask for none

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange and self._styled:
            place = self.verticalScrollBar().value()
            self._render()  # links and tables have the colours of the time they were set
            self.verticalScrollBar().setValue(place)

    def wheelEvent(self, event: QWheelEvent) -> None:
        if event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            self.zoom_by(event.angleDelta().y() / 120)
            event.accept()
        else:
            super().wheelEvent(event)


def _tables(frame: QTextFrame) -> Iterator[QTextTable]:
    for child in frame.childFrames():
        if isinstance(child, QTextTable):
            yield child
        yield from _tables(child)


def _line_colour(palette: QPalette) -> QColor:
    """Return a colour between that of the text and what it stands on: seen in every scheme."""
    text, base = palette.color(QPalette.ColorRole.Text), palette.color(QPalette.ColorRole.Base)

    def mixed(one: int, other: int) -> int:
        return round(_LINE_SHARE * one + (1 - _LINE_SHARE) * other)

    return QColor(
        mixed(text.red(), base.red()),
        mixed(text.green(), base.green()),
        mixed(text.blue(), base.blue()),
    )


def _anchor(block: QTextBlock) -> str:
    return anchor_of(block.text())


# Which places of the guide were visited, for going back and forward.


class Visits:
    """A list of places with one that is current."""

    def __init__(self) -> None:
        self._places: list[Place] = []
        self._at = -1

    @property
    def current(self) -> Place | None:
        """Where one is; None before the first visit."""
        return self._places[self._at] if self._places else None

    @property
    def can_go_back(self) -> bool:
        """Whether there is a place before."""
        return self._at > 0

    @property
    def can_go_forward(self) -> bool:
        """Whether there is a place after."""
        return self._at < len(self._places) - 1

    def visit(self, place: Place) -> None:
        """Go to a place; those after the last one are forgotten."""
        self._at += 1
        self._places[self._at :] = [place]

    def go_back(self) -> bool:
        """Go to the place before; return whether there is one."""
        if not self.can_go_back:
            return False
        self._at -= 1
        return True

    def go_forward(self) -> bool:
        """Go to the place after; return whether there is one."""
        if not self.can_go_forward:
            return False
        self._at += 1
        return True


_NAME: Final = int(Qt.ItemDataRole.UserRole) + 1
_WIDTH, _HEIGHT = 900, 640
_TOPICS_WIDTH: Final = 220


class HelpWindow(QDialog):
    """Shows pages. It is no modal dialog: one reads in it and works in the program.

    Args:
        pages: The pages, in the order of reading.
        text_of: Returns what to show of a page, Markdown.
        parent: The program's window.

    Attributes:
        search: The line above the topics.
        topics: The titles of the pages.
        text: The page.

    Signals:
        closed: The window was closed.
    """

    closed = Signal()

    def __init__(
        self,
        pages: Sequence[Page],
        text_of: Callable[[Page], str],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent, Qt.WindowType.Window)
        self.setWindowTitle(self.tr("GGUF Explorer: guide"))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._pages = {page.name: page for page in pages}
        self._text_of = text_of
        self._visits = Visits()
        hint = self.tr("Search the guide")
        self.search = FilterBar(hint, self.tr("Topics in which every word occurs"), self)
        self.search.edit.setAccessibleName(hint)
        self.topics = QListWidget(self)
        self.topics.setAccessibleName(self.tr("Topics"))
        self.topics.setItemDelegate(RoomyDelegate(self.topics))
        self.topics.setUniformItemSizes(True)
        for page in pages:
            item = QListWidgetItem(page.title, self.topics)
            item.setData(_NAME, page.name)
        self.text = GuideText(self)
        self._make_commands()
        self._lay_out()
        self.search.changed.connect(self._filter)
        self.search.left_down.connect(self._leave_search)
        self.topics.currentItemChanged.connect(lambda item, _: self._choose(item))
        self.text.link_followed.connect(self._follow)
        self.finished.connect(lambda _: self.closed.emit())
        self.resize(_WIDTH, _HEIGHT)

    @property
    def page(self) -> str:
        """Name of the page that is shown."""
        return self._visits.current.page if self._visits.current is not None else ""

    @property
    def splitter_state(self) -> QByteArray:
        """Widths of topics and text."""
        return self._splitter.saveState()

    @splitter_state.setter
    def splitter_state(self, state: QByteArray) -> None:
        self._splitter.restoreState(state)

    def open_page(self, name: str, anchor: str = "") -> None:
        """Show a page, and remember it for going back; of an unknown name, the first one."""
        place = Place(name if name in self._pages else next(iter(self._pages)), anchor)
        if place != self._visits.current:
            self._visits.visit(place)
        self._show()

    def focus_search(self) -> None:
        """Put the cursor into the search."""
        self.search.focus()

    def shown_topics(self) -> list[str]:
        """Return the names of the pages that the search leaves."""
        items = (self.topics.item(row) for row in range(self.topics.count()))
        return [item.data(_NAME) for item in items if not item.isHidden()]

    def _make_commands(self) -> None:
        tr = self.tr
        self.back = self._action(
            "◂", tr("Page before"), self._go_back, QKeySequence.StandardKey.Back
        )
        self.forward = self._action(
            "▸", tr("Page after"), self._go_forward, QKeySequence.StandardKey.Forward
        )
        self.larger = self._action(
            "A+", tr("Larger text"), lambda: self.text.zoom_by(1), QKeySequence.StandardKey.ZoomIn
        )
        self.smaller = self._action(
            "A\N{MINUS SIGN}",
            tr("Smaller text"),
            lambda: self.text.zoom_by(-1),
            QKeySequence.StandardKey.ZoomOut,
        )
        self.normal = self._action(
            "A", tr("Text as large as at first"), lambda: self.text.set_zoom(1.0), "Ctrl+0"
        )
        self._action("", tr("Search"), self.focus_search, QKeySequence.StandardKey.Find)
        self._action("", tr("Next place"), self.text.find_next, QKeySequence.StandardKey.FindNext)
        self._action(
            "",
            tr("Previous place"),
            lambda: self.text.find_next(forward=False),
            QKeySequence.StandardKey.FindPrevious,
        )

    def _action(
        self,
        text: str,
        name: str,
        slot: Callable[[], object],
        keys: QKeySequence.StandardKey | str,
    ) -> QAction:
        action = QAction(text, self)
        found = (
            QKeySequence.keyBindings(keys) if not isinstance(keys, str) else [QKeySequence(keys)]
        )
        action.setShortcuts(found)
        shown = found[0].toString(QKeySequence.SequenceFormat.NativeText) if found else ""
        action.setToolTip(f"{name} ({shown})" if shown else name)
        action.triggered.connect(lambda _=False: slot())
        self.addAction(action)
        return action

    def _lay_out(self) -> None:
        bar = QHBoxLayout()
        bar.setContentsMargins(6, 6, 6, 4)
        bar.setSpacing(4)
        for action in (self.back, self.forward):
            bar.addWidget(self._button(action))
        bar.addStretch(1)
        for action in (self.smaller, self.normal, self.larger):
            bar.addWidget(self._button(action))
        left, right = QWidget(self), QWidget(self)
        for side, parts in ((left, (self.search, self.topics)), (right, (bar, self.text))):
            column = QVBoxLayout(side)
            column.setContentsMargins(0, 0, 0, 0)
            column.setSpacing(0)
            for part in parts:
                if isinstance(part, QWidget):
                    column.addWidget(part)
                else:
                    column.addLayout(part)
        self._splitter = QSplitter(self)
        self._splitter.addWidget(left)
        self._splitter.addWidget(right)
        self._splitter.setStretchFactor(1, 1)
        self._splitter.setChildrenCollapsible(False)
        self._splitter.setSizes([_TOPICS_WIDTH, _WIDTH - _TOPICS_WIDTH])
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._splitter)

    def _button(self, action: QAction) -> QToolButton:
        button = QToolButton(self)
        button.setDefaultAction(action)
        button.setAccessibleName(action.toolTip())
        return button

    def _show(self) -> None:
        place = self._visits.current
        if place is None:
            return
        page = self._pages[place.page]
        self.text.show_page(self._text_of(page), place.anchor)
        for row in range(self.topics.count()):
            item = self.topics.item(row)
            if item.data(_NAME) == page.name and item is not self.topics.currentItem():
                self.topics.setCurrentItem(item)
        self.back.setEnabled(self._visits.can_go_back)
        self.forward.setEnabled(self._visits.can_go_forward)
        self.setWindowTitle(self.tr("{page}: guide to GGUF Explorer").format(page=page.title))

    def _choose(self, item: QListWidgetItem | None) -> None:
        if item is not None and item.data(_NAME) != self.page:
            self.open_page(item.data(_NAME))
            if self.search.text:
                self.text.find_next()

    def _follow(self, link: str) -> None:
        place = Place.of_link(link, self.page)
        if place is not None:
            self.open_page(place.page, place.anchor)

    def _go_back(self) -> None:
        if self._visits.go_back():
            self._show()

    def _go_forward(self) -> None:
        if self._visits.go_forward():
            self._show()

    def _filter(self, text: str) -> None:
        found = {page.name for page in pages_with(list(self._pages.values()), text)}
        for row in range(self.topics.count()):
            item = self.topics.item(row)
            item.setHidden(item.data(_NAME) not in found)
        words = self.tr("1 topic") if len(found) == 1 else self.tr("{n} topics")
        self.search.status.setText(words.format(n=len(found)) if text.strip() else "")
        self.text.mark(text.split())
        if text.strip() and found and self.page not in found:
            self.open_page(next(name for name in self._pages if name in found))
        if text.strip():
            self.text.find_next()

    def _leave_search(self) -> None:
        self.topics.setFocus(Qt.FocusReason.OtherFocusReason)


# The keyboard's "What's this?": explains what has the focus, as pointing at it would.


def explain_focus() -> str:
    """Explain the figure that the keyboard is at; return what was said, "" if nothing was."""
    widget = QApplication.focusWidget()
    if widget is None:
        return ""
    text, place = explanation_of(widget)
    if text:
        QWhatsThis.showText(place, text, widget)
        QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(widget, text))
    return text


def explanation_of(widget: QWidget) -> tuple[str, QPoint]:
    """Return what a widget, or its current cell, means, and where to say so on the screen.

    Of a widget without a text of its own it is the text of the nearest one that it is in.
    """
    if isinstance(widget, QAbstractItemView):
        index = widget.currentIndex()
        text = index.data(Qt.ItemDataRole.WhatsThisRole) if index.isValid() else None
        if isinstance(text, str) and text:
            area = widget.visualRect(index)
            below = QPoint(area.center().x(), area.bottom())  # so that the figure stays in sight
            return text, widget.viewport().mapToGlobal(below)
    place = widget.mapToGlobal(widget.rect().center())
    above: QWidget | None = widget
    while above is not None:
        if above.whatsThis():
            return above.whatsThis(), place
        above = above.parentWidget()
    return "", place


# Help → About: version, licence and what the program promises not to do.


class AboutBox(QMessageBox):
    """A few lines about the program."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(self.tr("About GGUF Explorer"))
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setText(f"GGUF Explorer {__version__}")
        self.setInformativeText(
            self.tr(
                "See what is inside downloaded language models.\n"
                "MIT licence. Model files are only read, and no network connection is opened."
            )
        )
