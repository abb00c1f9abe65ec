"""The map of a model: places of its cells, their colours, and painting on screen and paper.

From top to bottom: what is before the layers, each stack of layers under its roles, what is behind.
Norms and biases share a column; the last one and the last line have each layer, and each role, in
all.
Tensors outside of layers are wrapped like words; layers are as wide as they have roles. All lengths
are pixels.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, TypeAlias

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QFontMetricsF, QLinearGradient, QPainter, QPen

from explorer.analysis.columns import MEASURES, Floats, Groups, Known, Source
from explorer.analysis.model_grid import FOLDED, GridSection, Kind, ModelGrid
from explorer.formats.tensors import TypeShare
from explorer.present.colours import type_colour
from explorer.present.tables.survey import Metric
from explorer.qt.survey.session import ComparisonContent, SurveyContent
from explorer.qt.widgets.painting import fill_type, in_lines, text_on
from explorer.qt.widgets.plot import PlotColours
from explorer.text import bytes_text, counted, plain_text

_PAD: Final = 8
_QUIET: Final = 90  # opacity of a cell of which nothing is known, of 255
_MIN_WIDTH: Final = 54
_MAX_WIDTH: Final = 132
_LONGEST_WORD: Final = 12  # characters of a word of a role, or of a layer, that widths follow
_USUAL_FIGURE: Final = "0.00000"
_ROW_PAD: Final = 5
_BAND_CELLS: Final = 2  # widths of a role that a tensor outside of layers takes


_SUMS_GAP: Final = 4  # before the sums

SUM: Final = -1
"""Stands for all layers, or all roles, of a stack."""

Layer: TypeAlias = tuple[int, int]
"""Section and row of a layer."""


class LineKind(Enum):
    TITLE = auto()
    HEADER = auto()
    CELLS = auto()
    SUMS = auto()  # of the roles


@dataclass(slots=True)  # not frozen, which would take three times as long to make
class Line:
    """A line of the map; of cells, `count` columns from `first` on in a row of its section."""

    top: float
    height: float
    kind: LineKind
    section: int
    row: int = 0
    first: int = 0
    count: int = 0


class MapLayout:
    """The places of a grid's cells."""

    def __init__(
        self, grid: ModelGrid, width: float, line_height: float, advance: Callable[[str], float]
    ) -> None:
        """Lay a grid out.

        Args:
            grid: The cells.
            width: The room there is; wider grids are as wide as they must be.
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
        columns += bool(layers)  # sums
        room = (width - self.label_width - 2 * _PAD) / max(columns, 1)
        self.cell_width = float(int(min(max(wanted, room), max(wanted, _MAX_WIDTH))))
        self.width = max(width, self.label_width + columns * self.cell_width + 2 * _PAD)
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
            height, count = self._row_height, len(section.columns)
            for row in range(section.row_count):
                self.lines.append(Line(top, height, LineKind.CELLS, number, row, 0, count))
                top += height
            top += _SUMS_GAP
            self.lines.append(Line(top, height, LineKind.SUMS, number, SUM, 0, count))
            return top + height
        height = 2 * self._line_height + _ROW_PAD
        many, each = len(section.columns), self._per_line
        self.lines += [
            Line(top + place * height, height, LineKind.CELLS, number, 0, first, each)
            for place, first in enumerate(range(0, many - each + 1, each))
        ]
        whole, rest = divmod(many, each)
        top += whole * height
        if rest:
            self.lines.append(Line(top, height, LineKind.CELLS, number, 0, whole * each, rest))
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
        following = self._first_line[section + 1 : section + 2]
        return (self.lines[following[0]].top if following else self.height) - _PAD

    def place(self, line: Line, column: int) -> QRectF:
        if self.grid.sections[line.section].kind is Kind.LAYERS:
            x = self.label_width + column * self.cell_width
            x += _SUMS_GAP * (column == line.count)
            return QRectF(x, line.top, self.cell_width, line.height)
        width = _BAND_CELLS * self.cell_width
        return QRectF((column - line.first) * width, line.top, width, line.height)

    def columns_between(self, line: Line, left: float, right: float) -> range:
        """Return the columns of a line that can be seen between two edges, that of sums too."""
        end = line.first + line.count
        if self.grid.sections[line.section].kind is not Kind.LAYERS:
            return range(line.first, end)
        first = int((left - self.label_width) // self.cell_width)
        last = int((right - self.label_width) // self.cell_width) + 1
        return range(max(first - 1, line.first), min(last, end + 1))

    def line_of(self, cell: int) -> int:
        one = self.grid.cells[cell]
        first = self._first_line[one.section]
        if self.grid.sections[one.section].kind is Kind.LAYERS:
            return self.line_of_layer((one.section, one.row))
        return first + 1 + one.column // self._per_line

    def place_of(self, cell: int) -> QRectF:
        return self.place(self.lines[self.line_of(cell)], self.grid.cells[cell].column)

    def cell_at(self, x: float, y: float) -> int:
        """Return the cell at a place, -1 if there is none."""
        number = bisect_right(self._tops, y) - 1
        if number < 0:
            return -1
        line = self.lines[number]
        if line.kind is not LineKind.CELLS or y >= line.top + line.height:
            return -1
        return self.cell_in(line, self._column_at(line, x))

    def layer_at(self, x: float, y: float) -> Layer | None:
        """Return the layer whose number or sum is at a place; None of cells and elsewhere."""
        line = self.lines[max(0, bisect_right(self._tops, y) - 1)] if self.lines else None
        if line is None or line.kind is not LineKind.CELLS or y >= line.top + line.height:
            return None
        if self.grid.sections[line.section].kind is not Kind.LAYERS:
            return None
        sums = self.place(line, line.count)
        at = x < self.label_width or sums.left() <= x < sums.right()
        return (line.section, line.row) if at else None

    def line_of_layer(self, layer: Layer) -> int:
        return self._first_line[layer[0]] + 2 + layer[1]

    def place_of_layer(self, layer: Layer) -> QRectF:
        """Return the line of a layer, with its number and its sum."""
        line = self.lines[self.line_of_layer(layer)]
        return QRectF(0, line.top, self.place(line, line.count).right(), line.height)

    def cell_in(self, line: Line, column: int) -> int:
        """Return the cell of a column of a line, -1 if there is none."""
        if not line.first <= column < line.first + line.count:
            return -1
        return self.grid.sections[line.section].cells.get((line.row, column), -1)

    def _column_at(self, line: Line, x: float) -> int:
        """Return the column at a place; it may be outside of the line."""
        start = self.place(line, line.first)
        return line.first + int((x - start.left()) // start.width())

    # Going from cell to cell

    def neighbour(self, cell: int, step: int) -> int:
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
        """Return the cell of a line that is nearest to a place, -1 if it has none."""
        column = self._column_at(line, x)
        for distance in range(line.count + abs(column - line.first) + 1):
            for near in (column - distance, column + distance):
                if (found := self.cell_in(line, near)) >= 0:
                    return found
        return -1


# Colours and painting

_WIDE_RANGE: Final = 30  # of positive figures, from which on the colours follow the logarithm
_LUT: Final[NDArray[np.uint8]] = pg.colormap.get("viridis").getLookupTable(nPts=256)
COLOUR_MAP: Final = tuple(QColor(*map(int, colour)) for colour in _LUT[:, :3])
"""Viridis, which keeps its order in every kind of colour vision and without colour."""


@dataclass(frozen=True)
class Scale:
    """How figures become places in the colour map; its ends are NaN if no figure is known."""

    low: float
    high: float
    logarithmic: bool

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> Scale:
        """Return the scale of some figures; those that are not finite are left out."""
        finite = values[np.isfinite(values)]
        if not finite.size:
            return cls(np.nan, np.nan, False)
        low, high = float(finite.min()), float(finite.max())
        return cls(low, high, low > 0 and high > _WIDE_RANGE * low)

    def places(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the place of each figure, 0 to 1; NaN where nothing is known."""
        with np.errstate(divide="ignore", invalid="ignore"):
            low, high = np.array([self.low, self.high])
            if self.logarithmic:
                values, low, high = np.log(values), np.log(low), np.log(high)
            spread = high - low if high > low else np.inf  # equal figures are all the lowest
            found: NDArray[np.float64] = np.clip((values - low) / spread, 0, 1)
        return found


class Colouring:
    """Colour and text of each cell of a map.

    Attributes:
        title: Title of the legend.
        scale: How figures become colours; None for types.
        by_role: Whether each role has a scale of its own.
        types: The types shown, most bytes first.
    """

    title: str
    scale: Scale | None = None
    by_role: bool = False
    types: tuple[TypeShare, ...] = ()

    def is_void(self, cell: int) -> bool:
        """Return whether a cell has nothing to show, and a survey would not change that."""
        raise NotImplementedError

    def colour(self, cell: int) -> QColor | None:
        """Return the colour of a cell; None without any."""
        raise NotImplementedError

    def text(self, cell: int, digits: int | None = None) -> str:
        """Return the text of a cell, "" without any; of a measured figure, to so many digits."""
        raise NotImplementedError

    def figure(self, value: float) -> str:
        """Return a figure of the scale as text; "" of NaN."""
        return ""

    def sum_of(self, section: int, row: int, column: int) -> tuple[str, QColor | None]:
        """Return text and colour of a layer's matrices, or of a role, in all: the other is SUM."""
        raise NotImplementedError


class _Sums:
    """A figure of each layer's matrices, of each role, and of each stack's matrices."""

    def __init__(self, name: str, known: Known, content: SurveyContent) -> None:
        grid, some = content.folded, content.matrices
        section, row, column = grid.places[grid.cell_of].T
        sections = grid.sections
        self._rows = np.cumsum([0, *(one.row_count for one in sections)])
        self._columns = np.cumsum([0, *(len(one.columns) for one in sections)])
        everything = np.ones(len(some), np.bool_)

        def figures(codes: NDArray[np.int64], count: int, chosen: NDArray[np.bool_]) -> Floats:
            groups = Groups(np.where(chosen, codes, count), count + 1)
            return MEASURES[name].means(known, groups)

        self._of_rows = figures(self._rows[section] + row, int(self._rows[-1]), some)
        codes = self._columns[section] + column
        self._of_columns = figures(codes, int(self._columns[-1]), everything)
        self._of_all = figures(section, len(sections), some)

    def __call__(self, section: int, row: int, column: int) -> float:
        if row == column:  # both are all
            return float(self._of_all[section])
        if row == SUM:
            return float(self._of_columns[self._columns[section] + column])
        return float(self._of_rows[self._rows[section] + row])


class TypeColouring(Colouring):
    """Cells by their tensors' type; of several, the one that most weights have."""

    def __init__(self, title: str, content: SurveyContent, known: Known) -> None:
        self.title = title
        self._sums = _Sums("bytes", known, content)
        document = content.document
        self.types = document.facts.types
        arrays = document.arrays
        self._names = [kind.name for kind in arrays.types]
        self._colours = [QColor(type_colour(name)) for name in self._names]
        # the weights of each type in each cell: a file may have many types, and few in a cell
        keys = content.folded.cell_of * len(arrays.types) + arrays.type_codes
        found, inverse = np.unique(keys, return_inverse=True)
        sums = np.bincount(inverse, np.maximum(arrays.parameters, 1))
        cells, types = np.divmod(found, max(len(arrays.types), 1))
        order = np.lexsort((sums, cells))
        self._most = np.zeros(len(content.folded.cells), np.int64)
        self._most[cells[order]] = types[order]  # the last of a cell is written last
        self._mixed = np.bincount(cells, minlength=len(self._most)) > 1

    def is_void(self, cell: int) -> bool:
        return False  # each tensor has a type

    def colour(self, cell: int) -> QColor | None:
        return self._colours[int(self._most[cell])]

    def text(self, cell: int, digits: int | None = None) -> str:
        name = self._names[int(self._most[cell])]
        return f"{name} …" if self._mixed[cell] else name

    def sum_of(self, section: int, row: int, column: int) -> tuple[str, QColor | None]:
        return bytes_text(round(self._sums(section, row, column))), None


class MetricColouring(Colouring):
    """Cells by a figure; by role, colours go from the minimum to the maximum of each role."""

    scale: Scale

    def __init__(
        self,
        metric: Metric,
        known: Known,
        content: SurveyContent,
        comparison: ComparisonContent | None,
        *,
        by_role: bool = False,
    ) -> None:
        count = len(content.folded.cells)
        self.title = metric.title
        self._metric = metric
        groups = Groups(content.folded.cell_of, count)
        self.values = metric.of_groups(known, groups)
        # norms and biases, which quantizers leave alone, would be the ends of every scale
        self._coloured = np.bincount(content.folded.cell_of, content.matrices, count) > 0
        if not self._coloured.any():
            self._coloured[:] = True
        self.scale = Scale.of(self.values[self._coloured])
        self._sums = _Sums(metric.name, known, content)
        self._grid = content.folded
        self.by_role = by_role
        places = self._places_by_role(content.folded) if by_role else self.scale.places(self.values)
        self._take(places)
        self._pending = np.zeros(count, np.bool_)
        if metric.source is Source.STATISTICS:
            self._pending[content.folded.cell_of[content.missing]] = True
        elif metric.source is Source.ERRORS:
            rows = slice(None) if comparison is None else comparison.missing_rows
            self._pending[content.folded.cell_of[rows]] = True

    def in_range(self, low: float, high: float) -> MetricColouring:
        """Colour from one figure to another; those beyond have the first and the last colour."""
        self.by_role = False
        found = Scale.of(self.values[self._coloured])
        self.scale = Scale(low, high, found.logarithmic and low > 0)
        self._take(self.scale.places(self.values))
        return self

    def _take(self, places: NDArray[np.float64]) -> None:
        last = len(COLOUR_MAP) - 1
        without = np.isnan(places) | ~self._coloured
        self._numbers = np.where(without, -1, np.round(last * np.clip(places, 0, 1)))

    def _places_by_role(self, grid: ModelGrid) -> NDArray[np.float64]:
        """Return the place of each cell's figure among those of its role."""
        places = np.full(len(grid.cells), np.nan)
        cells_of: dict[tuple[int, int], list[int]] = {}
        for number, cell in enumerate(grid.cells):
            cells_of.setdefault((cell.section, cell.column), []).append(number)
        for cells in cells_of.values():
            values = self.values[cells]
            places[cells] = Scale.of(values).places(values)
        return places

    def is_void(self, cell: int) -> bool:
        return bool(np.isnan(self.values[cell]) and not self._pending[cell])

    def colour(self, cell: int) -> QColor | None:
        number = int(self._numbers[cell])
        return COLOUR_MAP[number] if number >= 0 else None

    def text(self, cell: int, digits: int | None = None) -> str:
        value = float(self.values[cell])
        if digits is None or self._metric.source is Source.HEADER or np.isnan(value):
            return self.figure(value)
        return self._metric.column.kind.write(value, digits=digits)

    def figure(self, value: float) -> str:
        return self._metric.shown(value)

    def sum_of(self, section: int, row: int, column: int) -> tuple[str, QColor | None]:
        value = self._sums(section, row, column)
        folded = column != SUM and self._grid.sections[section].columns[column] is FOLDED
        scale = None if self.by_role or folded else self.scale
        place = math.nan if scale is None else float(scale.places(np.array([value]))[0])
        colour = None if math.isnan(place) else COLOUR_MAP[round(place * (len(COLOUR_MAP) - 1))]
        return self.figure(value), colour


_ALL: Final = "all"
_GAP: Final = 1.0  # between cells
_DIGITS: Final = (None, 3, 2, 1)  # of figures that have no room: one cut short reads as another
_SWATCH: Final = 12
_LEGEND_GAP: Final = 18
_MOST_TYPES: Final = 16  # of a legend; a usual file has two to five
_SCALE_WIDTH: Final = 180
_CENTRE: Final = Qt.AlignmentFlag.AlignCenter
_BOTTOM: Final = Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignBottom
_LEFT: Final = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_RIGHT: Final = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class MapPainter:
    """Paints cells in a colouring; `colours` are those of lines and texts."""

    def __init__(self, layout: MapLayout, colouring: Colouring, colours: PlotColours) -> None:
        self.layout = layout
        self.colouring = colouring
        self.colours = colours

    def paint(self, painter: QPainter, area: QRectF) -> None:
        """Paint what of the map lies in an area; the painter's origin is the map's."""
        for line in self.layout.lines_between(area.top(), area.bottom()):
            if line.kind is LineKind.TITLE:
                self._paint_title(painter, line, area)
            elif line.kind is LineKind.HEADER:
                self.paint_header(painter, line, line.top, area)
            else:
                self._paint_cells(painter, line, area)

    def paint_header(self, painter: QPainter, line: Line, top: float, area: QRectF) -> None:
        """Paint the roles of a section."""
        section = self.layout.grid.sections[line.section]
        painter.setPen(self.colours.text)
        wide = Line(line.top, line.height, LineKind.CELLS, line.section, 0, 0, len(section.columns))
        for column in self.layout.columns_between(wide, area.left(), area.right()):
            place = self.layout.place(wide, column)
            place.moveTop(top)
            some = column < len(section.columns)
            self._write_label(painter, place, section.columns[column].label if some else _ALL)

    def paint_layer_numbers(self, painter: QPainter, left: float, area: QRectF) -> None:
        """Paint the numbers of the layers at an edge, over what is there."""
        width = self.layout.label_width
        for line in self.layout.lines_between(area.top(), area.bottom()):
            section = self.layout.grid.sections[line.section]
            if section.kind is Kind.LAYERS and line.kind is not LineKind.TITLE:
                place = QRectF(left, line.top, width, line.height)
                painter.fillRect(place, self.colours.background)
                if line.kind is not LineKind.HEADER:
                    painter.setPen(self.colours.text)
                    inside = place.adjusted(0, 0, -6, 0)
                    name = _ALL if line.row == SUM else str(section.layers[line.row])
                    self._write(painter, inside, name, _RIGHT)

    def _paint_title(self, painter: QPainter, line: Line, area: QRectF) -> None:
        section = self.layout.grid.sections[line.section]
        text = "Behind the layers"
        if section.kind is Kind.BEFORE:
            text = "Before the layers"
        elif section.kind is Kind.LAYERS:
            text = f"{plain_text(section.stack)}: {counted(len(section.layers), 'layer')}"
        font = painter.font()
        bold = painter.font()
        bold.setBold(True)
        painter.setFont(bold)
        painter.setPen(self.colours.text)
        place = QRectF(area.left(), line.top, area.width(), line.height)
        self._write(painter, place, text, _LEFT)
        painter.setFont(font)

    def _paint_cells(self, painter: QPainter, line: Line, area: QRectF) -> None:
        section = self.layout.grid.sections[line.section]
        for column in self.layout.columns_between(line, area.left(), area.right()):
            place = self.layout.place(line, column).adjusted(0, 0, -_GAP, -_GAP)
            if line.kind is LineKind.SUMS or column == line.first + line.count:
                which = SUM if column == line.count else column
                text, colour = self.colouring.sum_of(line.section, line.row, which)
                self._paint_sum(painter, place, text, colour)
                continue
            cell = self.layout.cell_in(line, column)
            if cell < 0:
                painter.fillRect(place, QBrush(self.colours.grid, Qt.BrushStyle.BDiagPattern))
                continue
            name = "" if section.kind is Kind.LAYERS else section.columns[column].label
            self._paint_cell(painter, place, cell, name)

    def _paint_cell(self, painter: QPainter, place: QRectF, cell: int, name: str) -> None:
        """Paint a cell; with its name if no header has it."""
        colour = self.colouring.colour(cell)
        inside = place.adjusted(2, 0, -2, 0)
        for digits in _DIGITS:
            text = self.colouring.text(cell, digits)
            if painter.fontMetrics().horizontalAdvance(text) <= inside.width():
                break
        if colour is not None:
            painter.fillRect(place, colour)
            painter.setPen(text_on(colour))
        else:
            quiet = QColor(self.colours.rule)
            quiet.setAlpha(_QUIET)
            painter.fillRect(place, quiet)
            painter.setPen(self.colours.text)
            if self.colouring.is_void(cell):  # not comparable, not readable, or not quantized
                text = "–"
        if name:
            half = place.height() / 2
            self._write(painter, place.adjusted(4, 0, -4, -half), name, _CENTRE)
            inside = inside.adjusted(0, half, 0, 0)
        self._write(painter, inside, text, _CENTRE)

    def _paint_sum(
        self, painter: QPainter, place: QRectF, text: str, colour: QColor | None
    ) -> None:
        if colour is not None:
            painter.fillRect(place, colour)
        painter.setPen(self.colours.text if colour is None else text_on(colour))
        self._write(painter, place.adjusted(2, 0, -2, 0), text, _CENTRE)

    def _write_label(self, painter: QPainter, place: QRectF, label: str) -> None:
        """Write the name of a role, in two lines if it must be."""
        text = plain_text(label)
        if " " not in text or painter.fontMetrics().horizontalAdvance(text) < place.width():
            self._write(painter, place, text, _BOTTOM)
            return
        first, second = text.rsplit(" ", 1)
        half = place.height() / 2
        self._write(painter, place.adjusted(0, 0, 0, -half), first, _BOTTOM)
        self._write(painter, place.adjusted(0, half, 0, 0), second, _BOTTOM)

    def _write(
        self, painter: QPainter, place: QRectF, text: str, alignment: Qt.AlignmentFlag
    ) -> None:
        """Write a text, which may come from a file, in a place; what has no room is left out."""
        if not text:
            return
        shown = painter.fontMetrics().elidedText(
            plain_text(text), Qt.TextElideMode.ElideRight, int(place.width())
        )
        painter.drawText(place, int(alignment), shown)

    # The legend

    def legend_height(self, metrics: QFontMetricsF, width: float) -> float:
        places = self._legend_places(metrics, width)
        return (places[-1].bottom() if places else 0.0) + 4

    def paint_legend(self, painter: QPainter, width: float) -> None:
        """Paint what the colours mean; the painter's origin is the legend's."""
        painter.setPen(self.colours.text)
        if self.colouring.scale is not None:
            self._paint_scale(painter, self.colouring.scale)
            return
        places = self._legend_places(QFontMetricsF(painter.font()), width)
        shown = self.colouring.types[:_MOST_TYPES]
        for place, text, share in zip(places, self._legend_texts(), shown, strict=True):
            top = place.center().y() - _SWATCH / 2
            fill_type(painter, QRectF(place.left(), top, _SWATCH, _SWATCH), share.name)
            painter.drawText(place.adjusted(_SWATCH + 5, 0, 0, 0), int(_LEFT), text)

    def legend_text(self) -> str:
        """Return the legend in words, for assistive technology."""
        scale = self.colouring.scale
        if scale is None:
            return "; ".join(self._legend_texts())
        return f"{self.colouring.title}: {' – '.join(self._ends(scale))}"

    def _ends(self, scale: Scale) -> tuple[str, str]:
        if self.colouring.by_role:
            return "minimum of each role", "maximum of each role"
        return self.colouring.figure(scale.low), self.colouring.figure(scale.high)

    def _legend_texts(self) -> list[str]:
        shown = self.colouring.types[:_MOST_TYPES]
        return [f"{share.name}  {bytes_text(share.nbytes)}" for share in shown]

    def _legend_places(self, metrics: QFontMetricsF, width: float) -> list[QRectF]:
        """Return the place of each entry."""
        height = metrics.height() + 4
        if self.colouring.scale is not None:
            return [QRectF(0, 2, width, height)]
        widths = [_SWATCH + 6 + metrics.horizontalAdvance(text) for text in self._legend_texts()]
        return [one.translated(0, 2) for one in in_lines(widths, width, height, _LEGEND_GAP)]

    def _paint_scale(self, painter: QPainter, scale: Scale) -> None:
        metrics = painter.fontMetrics()
        height = metrics.height() + 4
        title = self.colouring.title
        low, high = self._ends(scale)
        if scale.logarithmic and not self.colouring.by_role:
            title = f"{title} (logarithmic)"
        x = 0.0
        for text in (title, low):
            needed = metrics.horizontalAdvance(text)
            painter.drawText(QRectF(x, 2, needed + 2, height), int(_LEFT), text)
            x += needed + 10
        if scale.low == scale.low:  # something is known
            bar = QRectF(x, 4, _SCALE_WIDTH, height - 4)
            gradient = QLinearGradient(QPointF(bar.left(), 0), QPointF(bar.right(), 0))
            for stop in np.linspace(0, 1, 17).tolist():
                gradient.setColorAt(stop, COLOUR_MAP[round(stop * (len(COLOUR_MAP) - 1))])
            painter.fillRect(bar, QBrush(gradient))
            place = QRectF(bar.right() + 10, 2, 300, height)
            painter.drawText(place, int(_LEFT), high)


def outline(painter: QPainter, place: QRectF, colours: PlotColours, highlight: QColor) -> None:
    """Mark a cell so that it is seen on every colour."""
    painter.setBrush(Qt.BrushStyle.NoBrush)
    for pen in (QPen(colours.background, 4), QPen(highlight, 2)):
        painter.setPen(pen)
        painter.drawRect(place.adjusted(0, 0, -1, -1))
