"""Paint the visible rows of the hex view.

A row is painted in runs, not in bytes: 60 rows of 32 bytes would be 4,000 calls of `drawText`,
which take longer than a frame.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import Final, Literal

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPainterPath, QPalette, QPen
from PySide6.QtWidgets import QAbstractSlider, QScrollBar

from explorer.formats.structure import Field
from explorer.qt.raw.hex_pages import PageCache
from explorer.qt.theme import warning_colour
from explorer.qt.widgets.painting import field_hatching, field_line, field_tint
from explorer.text import float_text, integer_text, plain_number, plain_text

MARGIN: Final = 6
GROUP: Final = 8
_WIDTHS: Final = (32, 16, 8)


@dataclass(frozen=True, slots=True)
class HexGeometry:
    """Where columns and rows are, in pixels from the left edge.

    Attributes:
        char_width: Pixels of a character.
        row_height: Pixels of a row.
        digits: Hex digits of an offset.
        columns: Bytes of a row.
    """

    char_width: float
    row_height: int
    digits: int
    columns: int

    @property
    def offset_width(self) -> float:
        """Pixels of the column of offsets."""
        return 2 * MARGIN + self.digits * self.char_width

    @property
    def content_width(self) -> int:
        """Pixels of a whole row."""
        return int(self.text_x(self.columns) + MARGIN) + 1

    def hex_x(self, column: int) -> float:
        """Return the left edge of a byte's two digits."""
        return self.offset_width + MARGIN + (3 * column + column // GROUP) * self.char_width

    def text_x(self, column: int) -> float:
        """Return the left edge of a byte's character."""
        characters = 3 * self.columns + (self.columns - 1) // GROUP + 1 + column
        return self.offset_width + MARGIN + characters * self.char_width

    def hex_span(self, first: int, stop: int) -> tuple[float, float]:
        """Return the edges of a run of bytes, half a blank around the digits included."""
        half = self.char_width / 2
        return self.hex_x(first) - half, self.hex_x(stop - 1) + 2 * self.char_width + half

    def text_span(self, first: int, stop: int) -> tuple[float, float]:
        """Return the edges of a run of characters."""
        return self.text_x(first), self.text_x(stop)

    def column_at(self, x: float) -> int:
        """Return the byte whose digits or character are nearest to a place."""
        if x >= self.text_x(0) - self.char_width / 2:
            return min(self.columns - 1, max(0, int((x - self.text_x(0)) / self.char_width)))
        spans = [self.hex_x(column) + self.char_width for column in range(self.columns)]
        return min(range(self.columns), key=lambda column: abs(spans[column] - x))


def fitting(char_width: float, row_height: int, size_bytes: int, width: int) -> HexGeometry:
    """Return the geometry with as many bytes in a row, 32, 16 or 8, as a width has room for."""
    digits = max(8, -(-max(1, size_bytes - 1).bit_length() // 4))
    for columns in _WIDTHS:
        geometry = HexGeometry(char_width, row_height, digits, columns)
        if geometry.content_width <= width:
            break
    return geometry


_OFFSET: Final = re.compile(r"(?:0[xX](?P<hex>[0-9a-fA-F]{1,16})|(?P<decimal>[0-9]{1,20}))")
_HEX: Final = re.compile(r"(?:[0-9a-fA-F]{2})+")
_C_ARRAY_COLUMNS: Final = 12
_NOT_PRINTABLE: Final = "·"
# name, struct's code, significant digits of a float
_NUMBERS: Final = (
    ("u8", "B", 0),
    ("i8", "b", 0),
    ("u16", "H", 0),
    ("u32", "I", 0),
    ("u64", "Q", 0),
    ("f16", "e", 5),
    ("f32", "f", 7),
    ("f64", "d", 15),
)

ASCII_TABLE: Final = "".join(chr(b) if 0x20 <= b < 0x7F else _NOT_PRINTABLE for b in range(256))
"""What the text column shows for each byte."""


def hex_text(raw: bytes) -> str:
    """Return ``"de ad be ef"``."""
    return raw.hex(" ")


def c_array_text(raw: bytes) -> str:
    lines = [
        "    " + ", ".join(f"0x{b:02x}" for b in raw[at : at + _C_ARRAY_COLUMNS]) + ","
        for at in range(0, len(raw), _C_ARRAY_COLUMNS)
    ]
    return "\n".join([f"const unsigned char data[{len(raw)}] = {{", *lines, "};"])


def readable_text(raw: bytes) -> str:
    r"""Return the bytes as UTF-8; what is not, or is invisible, as an escape (``\xNN``)."""
    return plain_text(raw.decode("utf-8", "surrogateescape"), lines=True)


def offset_text(offset: int) -> str:
    """Return an offset in both systems: ``"0x1f4 (500)"``."""
    return f"0x{offset:x} ({integer_text(offset)})"


def parse_offset(text: str) -> int | None:
    """Return an offset that a person typed, decimal or 0x…; blanks, groups and _ are ignored."""
    typed = plain_number(re.sub(r"[\s,]", "", text), whole=True)
    match = _OFFSET.fullmatch(typed)
    if match is None:
        return None
    return int(match["hex"], 16) if match["hex"] else int(match["decimal"])


def parse_pattern(text: str, kind: Literal["hex", "text"]) -> bytes | None:
    """Return the bytes to search for, or None if the text is none or no pairs of hex digits.

    Args:
        text: What was typed; in hex, blanks, commas and 0x before a byte are ignored.
        kind: How it is meant; text becomes UTF-8.
    """
    if kind == "text":
        return text.encode("utf-8", "surrogatepass") or None
    digits = re.sub(r"[\s,]|0[xX](?=[0-9a-fA-F]{2}(?:[\s,]|0[xX]|$))", "", text)
    return bytes.fromhex(digits) if _HEX.fullmatch(digits) else None


def number_texts(raw: bytes, order: Literal["little", "big"]) -> list[tuple[str, str]]:
    """Return what the bytes are as numbers: ``[("u8", "255"), ("i8", "-1"), …]``.

    Args:
        raw: The bytes from the place on; numbers longer than them are left out.
        order: Byte order.
    """
    prefix = "<" if order == "little" else ">"
    found = []
    for name, code, digits in _NUMBERS:
        form = struct.Struct(prefix + code)
        if form.size <= len(raw):
            (number,) = form.unpack_from(raw)
            found.append((name, float_text(number, digits) if digits else str(number)))
    return found


PLACEHOLDER: Final = "··"


@dataclass
class HexPainter:
    """Paints what is in sight; made anew for each frame.

    Attributes:
        painter: Has the font; the left edge of the rows is at 0.
        pages: The bytes.
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

    painter: QPainter
    pages: PageCache
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

    def __post_init__(self) -> None:
        metrics = QFontMetricsF(self.painter.font())
        leading = (self.geometry.row_height - metrics.height()) / 2
        self._baseline = leading + metrics.ascent()
        self._text = self.palette.color(QPalette.ColorRole.Text)
        self._faint = QColor(self._text)
        self._faint.setAlpha(170)
        self._message_shown = False

    def paint(self, width: float, height: float) -> None:
        """Paint everything into a viewport of that size."""
        geometry, painter = self.geometry, self.painter
        margin = self.palette.color(QPalette.ColorRole.AlternateBase)
        painter.fillRect(QRectF(0, 0, width, geometry.row_height), margin)
        painter.fillRect(QRectF(0, 0, geometry.offset_width, height), margin)
        self._paint_header()
        first_field = 0
        for row in range(self.row_count):
            start = (self.top_row + row) * geometry.columns
            stop = min(start + geometry.columns, self.size_bytes)
            if start >= stop:
                break
            top = float((row + 1) * geometry.row_height)
            while first_field < len(self.fields) and self.fields[first_field].end <= start:
                first_field += 1
            self._paint_tints(first_field, start, stop, top)
            self._paint_row(start, stop, top)
        self._paint_current()
        self._paint_cursor()

    def _paint_header(self) -> None:
        geometry = self.geometry
        self.painter.setPen(self._faint)
        self.painter.drawText(QPointF(MARGIN, self._baseline), self.header)
        numbers = _hex_run(bytes(range(geometry.columns)), 0)
        self.painter.drawText(QPointF(geometry.hex_x(0), self._baseline), numbers)

    def _paint_tints(self, first: int, start: int, stop: int, top: float) -> None:
        for field in self.fields[first:]:
            if field.offset >= stop:
                return
            left = max(field.offset, start) - start
            right = min(field.end, stop) - start
            tint = field_tint(field.kind, self.palette)
            hatching = field_hatching(field.kind, self.palette)
            for rectangle in self._rectangles(left, right, top):
                self.painter.fillRect(rectangle, tint)
                if hatching is not None:
                    self.painter.fillRect(rectangle, hatching)
                if field.offset >= start:  # two tensors side by side have one tint
                    edge = QRectF(rectangle.left(), top, 1.0, rectangle.height())
                    self.painter.fillRect(edge, field_line(field.kind, self.palette))

    def _rectangles(self, left: int, right: int, top: float) -> tuple[QRectF, QRectF]:
        height = self.geometry.row_height
        digits, text = self.geometry.hex_span(left, right), self.geometry.text_span(left, right)
        return (
            QRectF(digits[0], top, digits[1] - digits[0], height),
            QRectF(text[0], top, text[1] - text[0], height),
        )

    def _paint_row(self, start: int, stop: int, top: float) -> None:
        geometry, painter = self.geometry, self.painter
        baseline = top + self._baseline
        painter.setPen(self._faint)
        painter.drawText(QPointF(MARGIN, baseline), f"{start:0{geometry.digits}x}")
        failure = self.pages.failure_at(start)
        if failure is not None:
            self._paint_failure(failure, baseline)
            return
        raw = self.pages.get(start, stop - start)
        selection = self.selection
        first = min(max(selection.start, start), stop) - start
        last = min(max(selection.stop, start), stop) - start
        if first < last:
            colour = self.palette.color(QPalette.ColorRole.Highlight)
            for rectangle in self._rectangles(first, last, top):
                painter.fillRect(rectangle, colour)
        selected = self.palette.color(QPalette.ColorRole.HighlightedText)
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
        """Show why bytes are missing, on the first row that misses them."""
        text = PLACEHOLDER if self._message_shown else message
        self._message_shown = True
        self.painter.setPen(warning_colour(self.palette))
        self.painter.drawText(QPointF(self.geometry.hex_x(0), baseline), text)

    def _paint_current(self) -> None:
        """Draw a line around the field under the cursor."""
        field, geometry = self.current, self.geometry
        if field is None:
            return
        paths = QPainterPath(), QPainterPath()  # around the digits, around the characters
        for row in range(self.row_count):
            start = (self.top_row + row) * geometry.columns
            left = max(field.offset - start, 0)
            right = min(field.end - start, geometry.columns)
            if left < right:
                top = float((row + 1) * geometry.row_height)
                for path, rectangle in zip(paths, self._rectangles(left, right, top), strict=True):
                    path.addRect(rectangle)
        self.painter.setPen(QPen(self._text, 1.0))
        self.painter.setBrush(Qt.BrushStyle.NoBrush)
        self.painter.setRenderHint(QPainter.RenderHint.Antialiasing, on=False)
        for path in paths:
            self.painter.drawPath(path.simplified())

    def _paint_cursor(self) -> None:
        geometry = self.geometry
        row, column = divmod(self.cursor, geometry.columns)
        row -= self.top_row
        if not 0 <= row < self.row_count or not self.size_bytes:
            return
        top = float((row + 1) * geometry.row_height)
        inside = self.cursor in self.selection
        role = QPalette.ColorRole.HighlightedText if inside else QPalette.ColorRole.Text
        colour = self.palette.color(role)
        digits, text = self._rectangles(column, column + 1, top)
        width = 2.0 if self.focused else 1.0
        inset = width / 2 + 0.5
        self.painter.setPen(QPen(colour, width))
        self.painter.drawRect(digits.adjusted(inset, inset, -inset, -inset))
        self.painter.setPen(QPen(colour, 1.0))  # around the character, which is narrow
        self.painter.drawRect(text.adjusted(-1.0, 0.5, 0.5, -0.5))


def _hex_run(raw: bytes | None, column: int, count: int = 0) -> str:
    """Return digits as they stand in a row from a column on; placeholders for bytes not here."""
    pairs = [PLACEHOLDER] * count if raw is None else raw.hex(" ").split()
    spaced = [pair + " " * (place % GROUP == 0) for place, pair in enumerate(pairs, column + 1)]
    return " ".join(spaced).rstrip()


_MOST: Final = 1 << 30


class RowScroller:
    """The row at the top of the view, and the bar that shows it.

    Qt's scroll bar counts in 32 bits; a file of 1 TB has 2^36 rows. The row at the top is kept
    exactly, and the bar shows it divided by a power of two.
    """

    def __init__(self, bar: QScrollBar) -> None:
        self._bar = bar
        self.top = 0
        self.visible = 1
        self._rows = 0
        self._shift = 0
        bar.actionTriggered.connect(self._triggered)

    @property
    def last_top(self) -> int:
        """The row at the top when the end of the file is seen."""
        return max(0, self._rows - self.visible)

    def set_rows(self, rows: int, visible: int) -> None:
        """Set how many rows there are, and how many the view can show."""
        self._rows, self.visible = rows, max(1, visible)
        self._shift = max(0, self.last_top.bit_length() - _MOST.bit_length())
        top = min(self.top, self.last_top)
        self._bar.setPageStep(max(1, self.visible >> self._shift))
        self._bar.setRange(0, self._scaled(self.last_top))
        self.move_to(top)

    def move_to(self, top: int) -> None:
        """Put a row to the top, or as near to it as there are rows."""
        self.top = min(max(0, top), self.last_top)
        self._bar.setValue(self._scaled(self.top))

    def follow_bar(self) -> None:
        """Take over where the user has moved the bar; its end means the end of the file."""
        value = self._bar.value()
        if value != self._scaled(self.top):
            at_end = value == self._bar.maximum()
            self.top = self.last_top if at_end else min(value << self._shift, self.last_top)

    def show_row(self, row: int, margin: int = 0) -> None:
        """Scroll as little as needed to show a row, with rows around it if it was out of sight."""
        if row < self.top:
            self.move_to(row - margin)
        elif row >= self.top + self.visible:
            self.move_to(row - self.visible + 1 + margin)

    def _scaled(self, row: int) -> int:
        return row >> self._shift

    def _triggered(self, action: int) -> None:
        """Make a step of the bar a step of rows also where one of its values is many rows."""
        if not self._shift:
            return
        kind = QAbstractSlider.SliderAction
        step = {
            kind.SliderSingleStepAdd.value: 1,
            kind.SliderSingleStepSub.value: -1,
            kind.SliderPageStepAdd.value: self.visible,
            kind.SliderPageStepSub.value: -self.visible,
        }.get(action)
        if step is not None:
            self.top = min(max(0, self.top + step), self.last_top)
            self._bar.setSliderPosition(self._scaled(self.top))
