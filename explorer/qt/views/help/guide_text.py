"""A page of the guide as text with headings, tables and links.

The one place of the program that shows rich text. What it shows is the program's own: pages of
`resources/guide` and lists of keys, never a text of a model. Nothing is loaded from anywhere: links
lead to other pages, pictures there are none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from PySide6.QtCore import QEvent, Qt, QUrl, Signal
from PySide6.QtGui import (
    QBrush,
    QColor,
    QFont,
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
from PySide6.QtWidgets import QTextBrowser, QTextEdit, QWidget

from explorer.qt.models.help.guide import anchor_of

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
