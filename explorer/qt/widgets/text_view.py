"""Long text, as text: line numbers, equal widths, nothing interpreted."""

from __future__ import annotations

from PySide6 import QtGui
from PySide6.QtCore import QRect, Qt
from PySide6.QtWidgets import QLineEdit, QPlainTextEdit, QWidget

from explorer.qt.theme import monospace_font
from explorer.qt.widgets.building import column
from explorer.qt.widgets.labels import SELECTABLE
from explorer.text import plain_text


class TextView(QWidget):
    """A read-only text with line numbers and search."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.text = _NumberedText(self)
        self.text.setAccessibleName("Text")
        self._search = QLineEdit(self)
        self._search.setPlaceholderText("Find in text (Enter: next, Escape: close)")
        self._search.setAccessibleName("Find in text")
        self._search.hide()
        self._search.textChanged.connect(self._find_first)
        self._search.returnPressed.connect(self._find_next)
        close = QtGui.QShortcut(QtGui.QKeySequence(Qt.Key.Key_Escape), self._search)
        close.setContext(Qt.ShortcutContext.WidgetShortcut)
        close.activated.connect(self._close_search)
        column(self._search, (self.text, 1), of=self)

    def show_text(self, text: str) -> None:
        """Show a text; what would act on the display is shown escaped."""
        self.text.setPlainText(plain_text(text, lines=True))

    def clear(self) -> None:
        """Show nothing, and keep nothing: a line of 10 MB, laid out, takes half a gigabyte."""
        self.text.clear()

    def focus_search(self) -> None:
        """Open the search line."""
        self._search.show()
        self._search.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self._search.selectAll()

    def _find_first(self) -> None:
        cursor = self.text.textCursor()
        cursor.setPosition(cursor.selectionStart())
        self.text.setTextCursor(cursor)
        self._find_next()

    def _find_next(self) -> None:
        wanted = self._search.text()
        if wanted and not self.text.find(wanted):
            cursor = self.text.textCursor()
            cursor.movePosition(cursor.MoveOperation.Start)
            self.text.setTextCursor(cursor)
            self.text.find(wanted, QtGui.QTextDocument.FindFlag(0))

    def _close_search(self) -> None:
        self._search.hide()
        self.text.setFocus(Qt.FocusReason.OtherFocusReason)


class _NumberedText(QPlainTextEdit):
    """A plain-text editor with a margin of line numbers (Qt's "Code Editor" example)."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setReadOnly(True)
        self.setTextInteractionFlags(SELECTABLE)
        self.setFont(monospace_font())
        self.setWordWrapMode(self.wordWrapMode().WrapAtWordBoundaryOrAnywhere)
        self._margin = _Margin(self)
        self.blockCountChanged.connect(self._fit_margin)
        self.updateRequest.connect(self._move_margin)
        self._fit_margin()

    def margin_width(self) -> int:
        """Width of the numbers, in pixels."""
        digits = len(str(max(1, self.blockCount())))
        return 14 + self.fontMetrics().horizontalAdvance("9") * digits

    def paint_margin(self, event: QtGui.QPaintEvent) -> None:
        """Paint the numbers of the lines in sight."""
        painter = QtGui.QPainter(self._margin)
        palette = self.palette()
        painter.fillRect(event.rect(), palette.color(QtGui.QPalette.ColorRole.AlternateBase))
        painter.setPen(palette.color(QtGui.QPalette.ColorRole.PlaceholderText))
        painter.setFont(self.font())
        width = self._margin.width() - 7
        block = self.firstVisibleBlock()
        top = self.blockBoundingGeometry(block).translated(self.contentOffset()).top()
        while block.isValid() and top <= event.rect().bottom():
            height = self.blockBoundingRect(block).height()
            if block.isVisible() and top + height >= event.rect().top():
                area = QRect(0, round(top), width, self.fontMetrics().height())
                number = str(block.blockNumber() + 1)
                painter.drawText(area, Qt.AlignmentFlag.AlignRight, number)
            block = block.next()
            top += height
        painter.end()

    def _fit_margin(self) -> None:
        self.setViewportMargins(self.margin_width(), 0, 0, 0)

    def _move_margin(self, area: QRect, scrolled: int) -> None:
        if scrolled:
            self._margin.scroll(0, scrolled)
        else:
            self._margin.update(0, area.y(), self._margin.width(), area.height())

    # Qt

    def resizeEvent(self, event: QtGui.QResizeEvent) -> None:
        super().resizeEvent(event)
        area = self.contentsRect()
        self._margin.setGeometry(area.left(), area.top(), self.margin_width(), area.height())


class _Margin(QWidget):
    def __init__(self, text: _NumberedText) -> None:
        super().__init__(text)
        self._text = text

    # Qt

    def paintEvent(self, event: QtGui.QPaintEvent) -> None:
        self._text.paint_margin(event)
