"""Places of the cells of the map of a model. Knows no painter; all lengths are pixels.

From top to bottom: what is before the layers, each stack of layers under its roles, what is behind.
Tensors outside of layers are wrapped like words; layers are as wide as they have roles.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from PySide6.QtCore import QRectF

from explorer.analysis.model_grid import GridSection, Kind, ModelGrid

_PAD: Final = 8
_MIN_WIDTH: Final = 54
_MAX_WIDTH: Final = 132
_LONGEST_WORD: Final = 12  # characters of a word of a role, or of a layer, that widths follow
_USUAL_FIGURE: Final = "0.00000"
_ROW_PAD: Final = 5
_BAND_CELLS: Final = 2  # widths of a role that a tensor outside of layers takes


class LineKind(Enum):
    """What a line shows."""

    TITLE = auto()
    HEADER = auto()
    CELLS = auto()


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the map.

    Attributes:
        top: Its upper edge.
        height: Its height.
        kind: What it shows.
        section: Number of its section.
        row: Row of the section.
        first: The first column that it shows.
        count: Number of columns that it shows.
    """

    top: float
    height: float
    kind: LineKind
    section: int
    row: int = 0
    first: int = 0
    count: int = 0


class MapLayout:
    """The places of a grid's cells.

    Attributes:
        grid: The grid.
        lines: All lines from top to bottom.
        label_width: Width of the column of layer numbers.
        cell_width: Width of a role.
        width: Of everything.
        height: Of everything.
    """

    def __init__(
        self, grid: ModelGrid, width: float, line_height: float, advance: Callable[[str], float]
    ) -> None:
        """Lay a grid out.

        Args:
            grid: The grid.
            width: What there is room for; wider grids are as wide as they must be.
            line_height: Height of a line of text.
            advance: Returns the width of a text.
        """
        self.grid = grid
        layers = [section for section in grid.sections if section.kind is Kind.LAYERS]
        columns = max((len(section.columns) for section in layers), default=0)
        words = {
            w[:_LONGEST_WORD] for s in layers for c in s.columns[:256] for w in c.label.split()
        }
        wanted = max((advance(word) for word in words), default=0.0)
        wanted = max(_MIN_WIDTH, wanted + _PAD, advance(_USUAL_FIGURE) + _PAD)
        last = max((str(s.layers[-1])[:_LONGEST_WORD] for s in layers), key=len, default="")
        self.label_width = advance(last) + 2 * _PAD if layers else 0.0
        room = (width - self.label_width - _PAD) / max(columns, 1)
        self.cell_width = float(int(min(max(wanted, room), max(wanted, _MAX_WIDTH))))
        self.width = max(width, self.label_width + columns * self.cell_width + _PAD)
        self._row_height = line_height + _ROW_PAD
        self._line_height = line_height
        self._per_line = max(1, int((width - 2 * _PAD) // (_BAND_CELLS * self.cell_width)))
        self.lines: list[Line] = []
        self._first_line: list[int] = []  # of each section
        top = float(_PAD)
        for number, section in enumerate(grid.sections):
            self._first_line.append(len(self.lines))
            top = self._add(number, section, top) + _PAD
        self.height = top
        self._tops = [line.top for line in self.lines]

    def _add(self, number: int, section: GridSection, top: float) -> float:
        self.lines.append(Line(top, self._row_height, LineKind.TITLE, number))
        top += self._row_height
        if section.kind is Kind.LAYERS:
            two_lines = 2 * self._line_height + _ROW_PAD
            self.lines.append(Line(top, two_lines, LineKind.HEADER, number))
            top += two_lines
            for row in range(section.row_count):
                count = len(section.columns)
                line = Line(top, self._row_height, LineKind.CELLS, number, row, 0, count)
                self.lines.append(line)
                top += self._row_height
            return top
        height = 2 * self._line_height + _ROW_PAD
        for first in range(0, len(section.columns), self._per_line):
            count = min(self._per_line, len(section.columns) - first)
            self.lines.append(Line(top, height, LineKind.CELLS, number, 0, first, count))
            top += height
        return top

    def lines_between(self, top: float, bottom: float) -> Sequence[Line]:
        """Return the lines that can be seen between two edges."""
        first = max(0, bisect_right(self._tops, top) - 1)
        return self.lines[first : bisect_right(self._tops, bottom)]

    def header_of(self, section: int) -> Line | None:
        """Return the line of roles of a section; None outside of layers."""
        line = self.lines[self._first_line[section] + 1]
        return line if line.kind is LineKind.HEADER else None

    def bottom_of(self, section: int) -> float:
        """Return the lower edge of a section."""
        following = section + 1
        if following < len(self._first_line):
            return self.lines[self._first_line[following]].top - _PAD
        return self.height - _PAD

    def place(self, line: Line, column: int) -> QRectF:
        """Return the place of a column in a line."""
        if self.grid.sections[line.section].kind is Kind.LAYERS:
            x = self.label_width + column * self.cell_width
            return QRectF(x, line.top, self.cell_width, line.height)
        width = _BAND_CELLS * self.cell_width
        return QRectF(_PAD + (column - line.first) * width, line.top, width, line.height)

    def columns_between(self, line: Line, left: float, right: float) -> range:
        """Return the columns of a line that can be seen between two edges."""
        end = line.first + line.count
        if self.grid.sections[line.section].kind is not Kind.LAYERS:
            return range(line.first, end)
        first = int((left - self.label_width) // self.cell_width)
        last = int((right - self.label_width) // self.cell_width) + 1
        return range(max(first, line.first), min(last, end))

    def line_of(self, cell: int) -> int:
        """Return the number of the line that shows a cell."""
        one = self.grid.cells[cell]
        first = self._first_line[one.section]
        if self.grid.sections[one.section].kind is Kind.LAYERS:
            return first + 2 + one.row
        return first + 1 + one.column // self._per_line

    def place_of(self, cell: int) -> QRectF:
        """Return the place of a cell."""
        return self.place(self.lines[self.line_of(cell)], self.grid.cells[cell].column)

    def cell_at(self, x: float, y: float) -> int:
        """Return the cell at a place, -1 if there is none."""
        number = bisect_right(self._tops, y) - 1
        if number < 0:
            return -1
        line = self.lines[number]
        if line.kind is not LineKind.CELLS or y >= line.top + line.height:
            return -1
        start = self.place(line, line.first)
        column = line.first + int((x - start.left()) // start.width())
        if not line.first <= column < line.first + line.count:
            return -1
        return self.cell_in(line, column)

    def cell_in(self, line: Line, column: int) -> int:
        """Return the cell of a column of a line, -1 if there is none."""
        return self.grid.sections[line.section].cells.get((line.row, column), -1)

    # Going from cell to cell

    def beside(self, cell: int, step: int) -> int:
        """Return the next cell to the right (1) or left (-1) in its line; itself at the end."""
        line = self.lines[self.line_of(cell)]
        column = self.grid.cells[cell].column + step
        while line.first <= column < line.first + line.count:
            found = self.cell_in(line, column)
            if found >= 0:
                return found
            column += step
        return cell

    def beyond(self, cell: int, lines: int) -> int:
        """Return the nearest cell so many lines below, or above if negative."""
        x = self.place_of(cell).center().x()
        step = 1 if lines > 0 else -1
        number, found = self.line_of(cell) + step, cell
        while 0 <= number < len(self.lines):
            line = self.lines[number]
            if line.kind is LineKind.CELLS:
                near = self._nearest(line, x)
                if near >= 0:
                    found, lines = near, lines - step
                    if lines == 0:
                        break
            number += step
        return found

    def _nearest(self, line: Line, x: float) -> int:
        """Return the cell of a line that is nearest to a place."""
        start = self.place(line, line.first)
        column = line.first + int((x - start.left()) // start.width())
        for distance in range(line.count + abs(column - line.first) + 1):
            for near in (column - distance, column + distance):
                if line.first <= near < line.first + line.count:
                    found = self.cell_in(line, near)
                    if found >= 0:
                        return found
        return -1
