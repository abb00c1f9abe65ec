"""The bytes of a block as hexadecimal digits, tinted by field, with the bits that matter marked.

Below the digits of a byte eight dashes stand for its bits, the highest at the left: so one sees
that a code is the lower half of one byte and a single bit of another.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QAccessible,
    QAction,
    QFontMetricsF,
    QGuiApplication,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPalette,
    QPen,
)
from PySide6.QtWidgets import QWidget

from explorer.analysis.block_detail import BlockDetail
from explorer.present.explanations import picture_text
from explorer.qt.theme import monospace_font
from explorer.qt.views.weights.microscope.style import block_field_line, block_field_tint

COLUMNS: Final = 16
_MARGIN: Final = 6
_GROUP: Final = 8
_BITS_HEIGHT: Final = 4  # pixels below the digits
_ALL_BITS: Final = 255
_STEPS: Final = {
    Qt.Key.Key_Left: -1,
    Qt.Key.Key_Right: 1,
    Qt.Key.Key_Up: -COLUMNS,
    Qt.Key.Key_Down: COLUMNS,
}


class BlockStrip(QWidget):
    """Paints the bytes of one block.

    Attributes:
        current: The byte that arrow keys move from; -1 for none.

    Signals:
        byte_hovered: The mouse is over a byte; -1 when it has left.
        byte_chosen: A byte was clicked, or arrived at by keys.
    """

    accessible_role = QAccessible.Role.Graphic

    byte_hovered = Signal(int)
    byte_chosen = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setLayoutDirection(Qt.LayoutDirection.LeftToRight)  # so are bytes written
        self.current = -1
        self._detail: BlockDetail | None = None
        self._masks: NDArray[np.uint8] = np.zeros(0, np.uint8)
        self.setFont(monospace_font())
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName(self.tr("Bytes of the block"))
        self.setWhatsThis(picture_text("block_bytes"))
        self.copy_action = QAction(self.tr("&Copy the bytes"), self)
        self.copy_action.setShortcut(QKeySequence.StandardKey.Copy)
        self.copy_action.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
        self.copy_action.triggered.connect(self.copy)
        self.addAction(self.copy_action)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.ActionsContextMenu)
        self._measure()

    def show_block(self, detail: BlockDetail | None) -> None:
        """Show another block."""
        self._detail = detail
        self._masks = np.zeros(self._count, np.uint8)
        self.current = min(self.current, self._count - 1)
        self._resize()
        self.update()

    def show_bits(self, masks: NDArray[np.uint8], description: str) -> None:
        """Mark bits.

        Args:
            masks: uint8 [bytes].
            description: What they are, for a screen reader.
        """
        self._masks = masks
        self.setAccessibleDescription(description)
        self.update()

    def copy(self) -> None:
        """Copy the bytes that are marked, or all if none is, as hexadecimal digits."""
        if self._detail is None:
            return
        marked = [
            byte
            for byte, mask in zip(self._detail.stored, self._masks.tolist(), strict=True)
            if mask
        ]
        QGuiApplication.clipboard().setText(bytes(marked or self._detail.stored).hex(" "))

    def place_of(self, byte: int) -> QRectF:
        """Return where a byte's digits are, half a blank around them included."""
        row, column = divmod(byte, COLUMNS)
        left = self._left + (3 * column + column // _GROUP) * self._char
        return QRectF(left, row * self._height, 3 * self._char, self._height)

    def byte_at(self, place: QPointF) -> int:
        """Return the byte at a place; -1 where there is none."""
        row = int(place.y() // self._height)
        for byte in range(max(0, row) * COLUMNS, min(self._count, (row + 1) * COLUMNS)):
            if self.place_of(byte).contains(place):
                return byte
        return -1

    @property
    def _count(self) -> int:
        return 0 if self._detail is None else len(self._detail.stored)

    def _measure(self) -> None:
        metrics = QFontMetricsF(self.font())
        self._char = metrics.horizontalAdvance("0")
        self._ascent = metrics.ascent()
        self._height = round(metrics.height()) + _BITS_HEIGHT
        self._left = 2 * _MARGIN + 3 * self._char
        self._resize()

    def _resize(self) -> None:
        rows = max(1, -(-self._count // COLUMNS))
        width = self._left + (3 * COLUMNS + COLUMNS // _GROUP - 1) * self._char + _MARGIN
        self.setFixedSize(QSize(int(width) + 1, rows * self._height + 2))

    def _choose(self, byte: int) -> None:
        self.current = byte
        self.byte_chosen.emit(byte)

    def _paint_byte(self, painter: QPainter, byte: int, detail: BlockDetail) -> None:
        place, palette = self.place_of(byte), self.palette()
        number = detail.field_at(byte)
        painter.fillRect(place, block_field_tint(number, palette))
        if byte == detail.fields[number].offset:
            edge = QRectF(place.left(), place.top(), 2, place.height())
            painter.fillRect(edge, block_field_line(number, palette))
        text = palette.color(QPalette.ColorRole.Text)
        painter.setPen(text)
        spot = QPointF(place.left() + self._char / 2, place.top() + 1 + self._ascent)
        painter.drawText(spot, f"{detail.stored[byte]:02x}")
        mask = int(self._masks[byte])
        if mask:
            self._paint_bits(painter, place, mask)
        if byte == self.current and self.hasFocus():
            painter.setPen(QPen(text, 2))
            painter.drawRect(place.adjusted(1, 1, -1, -1))

    def _paint_bits(self, painter: QPainter, place: QRectF, mask: int) -> None:
        """Draw a frame around a byte, and its bits below the digits where not all of them count."""
        colour = self.palette().color(QPalette.ColorRole.Text)
        painter.setPen(QPen(colour, 1))
        painter.drawRect(place.adjusted(0.5, 0.5, -0.5, -1.5))
        if mask == _ALL_BITS:
            return
        step = (place.width() - 4) / 8
        faint = self.palette().color(QPalette.ColorRole.PlaceholderText)
        top = place.bottom() - _BITS_HEIGHT - 1
        for bit in range(8):
            on = mask >> (7 - bit) & 1
            dash = QRectF(place.left() + 2 + bit * step, top, step - 0.7, 3 if on else 1)
            painter.fillRect(dash, colour if on else faint)

    # Qt

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setLayoutDirection(Qt.LayoutDirection.LeftToRight)
        painter.fillRect(event.rect(), self.palette().color(QPalette.ColorRole.Base))
        detail = self._detail
        if detail is not None:
            faint = self.palette().color(QPalette.ColorRole.PlaceholderText)
            for row in range(-(-self._count // COLUMNS)):
                painter.setPen(faint)
                spot = QPointF(_MARGIN, row * self._height + 1 + self._ascent)
                painter.drawText(spot, f"{row * COLUMNS:3x}")
            for byte in range(self._count):
                self._paint_byte(painter, byte, detail)
        painter.end()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self.byte_hovered.emit(self.byte_at(event.position()))

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self.byte_hovered.emit(-1)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        byte = self.byte_at(event.position())
        if event.button() == Qt.MouseButton.LeftButton and byte >= 0:
            self._choose(byte)
        else:
            super().mousePressEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key = Qt.Key(event.key())
        ends = {Qt.Key.Key_Home: 0, Qt.Key.Key_End: self._count - 1}
        if not self._count or (key not in _STEPS and key not in ends):
            super().keyPressEvent(event)
            return
        step = _STEPS.get(key, 0)
        # where nothing is current yet, any arrow begins at the first byte
        wanted = ends.get(key, self.current + step if self.current >= 0 else 0)
        if 0 <= wanted < self._count:
            self._choose(wanted)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.StyleChange):
            self._measure()
