"""Where the columns of the hex view are: pure arithmetic, in pixels from the left edge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MARGIN: Final = 6
GROUP: Final = 8
_WIDTHS: Final = (32, 16, 8)


@dataclass(frozen=True, slots=True)
class HexGeometry:
    """Columns and rows.

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
