"""Paint the visible rows of the hex view.

A row is painted in runs, not in bytes: 60 rows of 32 bytes would be 4,000 calls of `drawText`,
which take longer than a frame.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPainterPath, QPalette, QPen

from explorer.formats.structure import Field
from explorer.qt.theme import warning_colour
from explorer.qt.views.raw.field_style import field_hatching, field_line, field_tint
from explorer.qt.views.raw.hex_geometry import GROUP, MARGIN, HexGeometry
from explorer.qt.views.raw.hex_pages import PageCache
from explorer.qt.views.raw.hex_text import ASCII_TABLE

PLACEHOLDER: Final = "··"


@dataclass(frozen=True, slots=True)
class HexFrame:
    """What is to be seen.

    Attributes:
        geometry: Where columns are.
        palette: Colours.
        size_bytes: Size of the file.
        top_row: First row.
        row_count: Rows, the last one perhaps cut.
        fields: Fields of the visible bytes, in order.
        current: The field under the cursor, or None.
        cursor: The byte under the cursor.
        selection: Selected bytes; empty for none.
        focused: Whether keys go to the view.
        header: The line above the rows.
    """

    geometry: HexGeometry
    palette: QPalette
    size_bytes: int
    top_row: int
    row_count: int
    fields: list[Field]
    current: Field | None
    cursor: int
    selection: range
    focused: bool
    header: str


class HexPainter:
    """Paints one frame; made anew for each."""

    def __init__(self, painter: QPainter, frame: HexFrame, pages: PageCache) -> None:
        self._painter = painter
        self._frame = frame
        self._pages = pages
        self._geometry = frame.geometry
        metrics = QFontMetricsF(painter.font())
        leading = (frame.geometry.row_height - metrics.height()) / 2
        self._baseline = leading + metrics.ascent()
        self._text = frame.palette.color(QPalette.ColorRole.Text)
        self._faint = QColor(self._text)
        self._faint.setAlpha(170)
        self._message_shown = False

    def paint(self, width: float, height: float) -> None:
        """Paint everything into a viewport of that size, the frame's left edge at 0."""
        frame, geometry, painter = self._frame, self._geometry, self._painter
        margin = frame.palette.color(QPalette.ColorRole.AlternateBase)
        painter.fillRect(QRectF(0, 0, width, geometry.row_height), margin)
        painter.fillRect(QRectF(0, 0, geometry.offset_width, height), margin)
        self._paint_header()
        first_field = 0
        for row in range(frame.row_count):
            start = (frame.top_row + row) * geometry.columns
            stop = min(start + geometry.columns, frame.size_bytes)
            if start >= stop:
                break
            top = float((row + 1) * geometry.row_height)
            while first_field < len(frame.fields) and frame.fields[first_field].end <= start:
                first_field += 1
            self._paint_tints(first_field, start, stop, top)
            self._paint_row(start, stop, top)
        self._paint_current()
        self._paint_cursor()

    def _paint_header(self) -> None:
        geometry = self._geometry
        self._painter.setPen(self._faint)
        self._painter.drawText(QPointF(MARGIN, self._baseline), self._frame.header)
        numbers = _hex_run(bytes(range(geometry.columns)), 0)
        self._painter.drawText(QPointF(geometry.hex_x(0), self._baseline), numbers)

    def _paint_tints(self, first: int, start: int, stop: int, top: float) -> None:
        for field in self._frame.fields[first:]:
            if field.offset >= stop:
                return
            left = max(field.offset, start) - start
            right = min(field.end, stop) - start
            palette = self._frame.palette
            tint, hatching = field_tint(field.kind, palette), field_hatching(field.kind, palette)
            for rectangle in self._rectangles(left, right, top):
                self._painter.fillRect(rectangle, tint)
                if hatching is not None:
                    self._painter.fillRect(rectangle, hatching)
                if field.offset >= start:  # two tensors side by side have one tint
                    edge = QRectF(rectangle.left(), top, 1.0, rectangle.height())
                    self._painter.fillRect(edge, field_line(field.kind, palette))

    def _rectangles(self, left: int, right: int, top: float) -> tuple[QRectF, QRectF]:
        height = self._geometry.row_height
        digits, text = self._geometry.hex_span(left, right), self._geometry.text_span(left, right)
        return (
            QRectF(digits[0], top, digits[1] - digits[0], height),
            QRectF(text[0], top, text[1] - text[0], height),
        )

    def _paint_row(self, start: int, stop: int, top: float) -> None:
        geometry, painter = self._geometry, self._painter
        baseline = top + self._baseline
        painter.setPen(self._faint)
        painter.drawText(QPointF(MARGIN, baseline), f"{start:0{geometry.digits}x}")
        failure = self._pages.failure_at(start)
        if failure is not None:
            self._paint_failure(failure, baseline)
            return
        raw = self._pages.get(start, stop - start)
        selection = self._frame.selection
        first = min(max(selection.start, start), stop) - start
        last = min(max(selection.stop, start), stop) - start
        if first < last:
            colour = self._frame.palette.color(QPalette.ColorRole.Highlight)
            for rectangle in self._rectangles(first, last, top):
                painter.fillRect(rectangle, colour)
        selected = self._frame.palette.color(QPalette.ColorRole.HighlightedText)
        plain = self._text if raw is not None else self._faint
        for left, right, pen in (
            (0, first, plain),
            (first, last, selected),
            (max(first, last), stop - start, plain),
        ):
            if left >= right:
                continue
            painter.setPen(pen)
            content = None if raw is None else raw[left:right]
            digits = _hex_run(content, left, right - left)
            painter.drawText(QPointF(geometry.hex_x(left), baseline), digits)
            text = "".join(ASCII_TABLE[b] for b in content or b"")
            painter.drawText(QPointF(geometry.text_x(left), baseline), text)

    def _paint_failure(self, message: str, baseline: float) -> None:
        """Say why bytes are missing, on the first row that misses them."""
        text = PLACEHOLDER
        if not self._message_shown:
            self._message_shown = True
            text = message
        self._painter.setPen(warning_colour(self._frame.palette))
        self._painter.drawText(QPointF(self._geometry.hex_x(0), baseline), text)

    def _paint_current(self) -> None:
        """Draw a line around the field under the cursor."""
        field, geometry = self._frame.current, self._geometry
        if field is None:
            return
        first = self._frame.top_row
        digits, text = QPainterPath(), QPainterPath()
        for row in range(self._frame.row_count):
            start = (first + row) * geometry.columns
            left = max(field.offset - start, 0)
            right = min(field.end - start, geometry.columns)
            if left < right:
                top = float((row + 1) * geometry.row_height)
                left_rectangle, right_rectangle = self._rectangles(left, right, top)
                digits.addRect(left_rectangle)
                text.addRect(right_rectangle)
        pen = QPen(self._text, 1.0)
        self._painter.setPen(pen)
        self._painter.setBrush(Qt.BrushStyle.NoBrush)
        self._painter.setRenderHint(QPainter.RenderHint.Antialiasing, on=False)
        for path in (digits, text):
            self._painter.drawPath(path.simplified())

    def _paint_cursor(self) -> None:
        frame, geometry = self._frame, self._geometry
        row, column = divmod(frame.cursor, geometry.columns)
        row -= frame.top_row
        if not 0 <= row < frame.row_count or not frame.size_bytes:
            return
        top = float((row + 1) * geometry.row_height)
        inside = frame.cursor in frame.selection
        role = QPalette.ColorRole.HighlightedText if inside else QPalette.ColorRole.Text
        colour = frame.palette.color(role)
        digits, text = self._rectangles(column, column + 1, top)
        width = 2.0 if frame.focused else 1.0
        inset = width / 2 + 0.5
        self._painter.setPen(QPen(colour, width))
        self._painter.drawRect(digits.adjusted(inset, inset, -inset, -inset))
        self._painter.setPen(QPen(colour, 1.0))  # around the character, which is narrow
        self._painter.drawRect(text.adjusted(-1.0, 0.5, 0.5, -0.5))


def _hex_run(raw: bytes | None, column: int, count: int = 0) -> str:
    """Return digits as they stand in a row from a column on; placeholders for bytes not here."""
    pairs = [PLACEHOLDER] * count if raw is None else raw.hex(" ").split()
    parts = []
    for place, pair in enumerate(pairs, column + 1):
        parts.append(pair)
        parts.append("  " if place % GROUP == 0 else " ")
    return "".join(parts).rstrip()
