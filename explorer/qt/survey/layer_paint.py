"""Figures over the layers as a picture: small multiples, a line for each role, a bar of the layers.

Each chart has the layers from left to right. Below its lines stands a cell for each layer, coloured
by the same figure of all its matrices together. All lengths are pixels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PySide6 import QtGui
from PySide6.QtCore import QPointF, QRectF, QSize, Qt

from explorer.analysis.columns import MEASURES, Floats, Groups, Known, Source
from explorer.analysis.model_grid import Kind, ModelGrid
from explorer.present.tables.survey import Metric
from explorer.qt.survey.map_paint import COLOUR_MAP, Scale
from explorer.qt.theme import series_colour
from explorer.qt.widgets.painting import in_lines
from explorer.qt.widgets.plot import PlotColours
from explorer.text import plain_text

_MOST_LAYERS: Final = 1024  # more than any model has; more cannot be told apart
_MOST_STACKS: Final = 64
_AXIS: Final = "Layer"
_MOST_ROLES: Final = 36
"""Roles that are drawn: more could not be told apart by colour, dash and mark."""


@dataclass(frozen=True, eq=False)
class LayerGrid:
    """The tensors of a stack of layers, as lines show them.

    Attributes:
        whole: The grid of the model that it is a part of.
        section: Its number there.
        title: Name of the stack.
        layers: Numbers of the layers, from left to right.
        roles: Short names of the roles.
        matrices: Whether a role is of matrices rather than norms or biases.
        cells: Cell of the model's grid by layer and role, int64 [layers, roles]; -1 without one.
        layer_of: Place of the layer of each matrix of the model, int64 [n]; len(layers) of others.
        left_out: Roles and layers that are not drawn.
    """

    whole: ModelGrid
    section: int
    title: str
    layers: tuple[int, ...]
    roles: tuple[str, ...]
    matrices: tuple[bool, ...]
    cells: NDArray[np.int64]
    layer_of: NDArray[np.int64]
    left_out: tuple[int, int]

    def values(self, metric: Metric, known: Known) -> LayerValues:
        """Return a metric over the layers."""
        of_cells = metric.of_groups(known, Groups(self.whole.cell_of, len(self.whole.places)))
        lines = np.where(self.cells >= 0, of_cells[self.cells], np.nan)
        groups = Groups(self.layer_of, len(self.layers) + 1)
        return LayerValues(metric, lines, MEASURES[metric.name].means(known, groups)[:-1])


@dataclass(frozen=True, eq=False)
class LayerValues:
    """A metric over the layers.

    Attributes:
        metric: The metric.
        lines: Figure of each role in each layer, float64 [layers, roles]; NaN is not known.
        together: Figure of each layer's matrices together, float64 [layers].
    """

    metric: Metric
    lines: Floats
    together: Floats


def layer_grids(grid: ModelGrid, matrices: NDArray[np.bool_]) -> list[LayerGrid]:
    """Return the stacks of layers of a model, the largest; `matrices` says which tensors are such.

    A hostile file has a stack for each tensor, and each takes a number for each tensor.
    """
    found: list[LayerGrid] = []
    for number, section in enumerate(grid.sections):
        if section.kind is not Kind.LAYERS or len(found) == _MOST_STACKS:
            continue
        shown = min(len(section.layers), _MOST_LAYERS), min(len(section.columns), _MOST_ROLES)
        cells = np.full(shown, -1, np.int64)
        layer_of = np.full(len(grid.cell_of), shown[0], np.int64)
        role_matrices = np.zeros(shown[1], np.bool_)
        for (layer, role), cell in section.cells.items():
            if layer >= shown[0]:
                continue
            rows = np.array(grid.cells[cell].rows, np.int64)
            layer_of[rows[matrices[rows]]] = layer
            if role < shown[1]:
                cells[layer, role] = cell
                role_matrices[role] |= bool(matrices[rows].any())
        found.append(
            LayerGrid(
                whole=grid,
                section=number,
                title=plain_text(section.stack or str(number)),
                layers=section.layers[: shown[0]],
                roles=tuple(plain_text(one.label) for one in section.columns[: shown[1]]),
                matrices=tuple(role_matrices.tolist()),
                cells=cells,
                layer_of=layer_of,
                left_out=(len(section.columns) - shown[1], len(section.layers) - shown[0]),
            )
        )
    return found


# How lines are drawn: dashes and marks tell roles apart, without colour too.
_DASHES: Final = (
    Qt.PenStyle.SolidLine,
    Qt.PenStyle.DashLine,
    Qt.PenStyle.DotLine,
    Qt.PenStyle.DashDotLine,
    Qt.PenStyle.DashDotDotLine,
)
_MOST_COLUMNS: Final = 3
_STEPS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)
_TOP_LEFT: Final = Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft
_TOP_RIGHT: Final = Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignRight
_TOP_CENTRE: Final = Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignHCenter
_CENTRE: Final = Qt.AlignmentFlag.AlignCenter
_LEFT: Final = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_RIGHT: Final = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_PAD: Final = 8
_STRIP: Final = 9  # height of the bar of layers
_GAP: Final = 1.0
_DOT: Final = 2.2
_MANY_DOTS: Final = 64  # layers from which on points are no longer marked
LEAST_WIDTH: Final = 250
LEAST_HEIGHT: Final = 128
_NEAR: Final = 40.0  # pixels
_FADED: Final = 60  # of 255
_FADED_TEXT: Final = 150
_KEY_SAMPLE: Final = 22
_WIDE: Final = 560  # from which on the key stands beside the charts
_MOST_TICKS: Final = 5


def line_pen(place: int, width: float = 1.6) -> QtGui.QPen:
    """Return the pen of a role, by its place among those of its stack."""
    dash = _DASHES[place % len(_DASHES)]
    return QtGui.QPen(series_colour(place), width, dash)


def ticks(scale: Scale) -> list[float]:
    """Return round figures in a scale, at most five or so."""
    low, high = scale.low, scale.high
    if not (math.isfinite(low) and high > low):
        return [low] if math.isfinite(low) else []
    if scale.logarithmic:
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        for steps in ((1, 2, 5), (1, 3), (1,)):
            found = [step * 10.0**power for power in powers for step in steps]
            found = [tick for tick in found if low <= tick <= high]
            if len(found) <= _MOST_TICKS:
                return found
        return found[:: -(-len(found) // _MOST_TICKS)]
    step = 10.0 ** math.floor(math.log10((high - low) / 2))
    step = next(s for s in (step, 2 * step, 5 * step, 10 * step) if (high - low) / s <= _MOST_TICKS)
    first = math.ceil(low / step - 1e-9)
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]


_CORNERS: Final = (0, 4, 3, 4, 3, 5)
_TURNS: Final = (0.0, 45.0, 90.0, 0.0, -90.0, 90.0)  # circle, square, triangle, diamond …


def draw_mark(painter: QtGui.QPainter, at: QPointF, place: int, size: float = _DOT) -> None:
    """Draw the mark of a role, by its place among those of its stack."""
    kind = place % len(_CORNERS)
    if not _CORNERS[kind]:
        painter.drawEllipse(at, size, size)
        return
    angles = (
        math.radians(_TURNS[kind] + 360 * corner / _CORNERS[kind])
        for corner in range(_CORNERS[kind])
    )
    reach = 1.5 * size
    corners = [at + QPointF(math.cos(angle), -math.sin(angle)) * reach for angle in angles]
    painter.drawPolygon(QtGui.QPolygonF(corners))


Place: TypeAlias = tuple[int, int | None]
"""A layer and a role, by place; no role of a layer as a whole."""


class LayerPicture:
    """Where charts, lines and key are in an area, and how they are painted; lengths in pixels."""

    def __init__(
        self,
        grid: LayerGrid,
        values: Sequence[LayerValues],
        shown: Sequence[int],
        font: QtGui.QFont,
        size: QSize,
    ) -> None:
        self.grid = grid
        self.values = values
        self.shown = shown
        self._metrics = QtGui.QFontMetrics(font)
        self._bold = QtGui.QFont(font)
        self._bold.setWeight(QtGui.QFont.Weight.DemiBold)
        self._size = size
        self._line = self._metrics.height() + 4
        self._scales = [self._scale(one) for one in values]
        self.keys = self._key_places()
        at_side = size.width() >= _WIDE
        width = self.keys[0].left() if at_side and self.keys else float(size.width())
        height = self.keys[0].top() if not at_side and self.keys else float(size.height())
        self._columns = max(1, min(_MOST_COLUMNS, len(values), int(width // LEAST_WIDTH)))
        lines = max(1, -(-len(values) // self._columns))
        self._cell = (width / self._columns, height / lines)
        below = 0.0 if at_side else size.height() - height
        key = len(self.keys) * self._line + 2 * _PAD if at_side else 0
        self.least_height = max(int(lines * LEAST_HEIGHT + below), key)
        ticks_of = zip(values, self._scales, strict=True)
        texts = [one.metric.tick_text(tick) for one, scale in ticks_of for tick in ticks(scale)]
        axis = f"{_AXIS}{grid.layers[0]}"  # with half of the first number: it stands before it
        self._left = max(map(self._metrics.horizontalAdvance, (*texts, axis))) + _PAD + 4

    def _scale(self, values: LayerValues) -> Scale:
        """Return the scale of the lines, with some room above and below unless logarithmic."""
        found = Scale.of(values.lines[:, list(self.shown)])
        if found.logarithmic or not found.high > found.low:
            return found
        room = 0.06 * (found.high - found.low)
        low = 0.0 if 0 <= found.low < room else found.low - room
        return Scale(low, found.high + room, False)

    def _key_places(self) -> list[QRectF]:
        """Return the place of each shown role in the key: beside the charts, or wrapped below."""
        names = [self.grid.roles[role] for role in self.shown]
        widths = [_KEY_SAMPLE + 2 * _PAD + self._metrics.horizontalAdvance(name) for name in names]
        if self._size.width() >= _WIDE:
            width = min(max(widths, default=0), self._size.width() // 4)
            place = QRectF(self._size.width() - width, _PAD, width, self._line)
            return [place.translated(0, number * self._line) for number in range(len(names))]
        places = list(in_lines(widths, self._size.width(), self._line))
        high = max((place.bottom() for place in places), default=0.0)
        return [place.translated(0, self._size.height() - high - 2) for place in places]

    # Places

    def cell(self, number: int) -> QRectF:
        """Return where a chart is, its title and axes included."""
        width, height = self._cell
        line, place = divmod(number, self._columns)
        return QRectF(place * width, line * height, width, height)

    def plot(self, number: int) -> QRectF:
        """Return where the lines of a chart are."""
        below = self._metrics.height() + _STRIP + 8
        return self.cell(number).adjusted(self._left, self._line + _PAD, -_PAD - 6, -below)

    def x_of(self, number: int, layer: int) -> float:
        """Return where a layer is in a chart, by its place."""
        plot = self.plot(number)
        return plot.left() + (layer + 0.5) / len(self.grid.layers) * plot.width()

    def point(self, number: int, layer: int, role: int) -> QPointF | None:
        """Return where a figure is drawn; None where there is none."""
        value = self.values[number].lines[layer, role]
        plot, share = self.plot(number), self._shares(number, value)
        if not math.isfinite(share):
            return None
        return QPointF(self.x_of(number, layer), plot.bottom() - share * plot.height())

    def _shares(self, number: int, values: Any) -> Any:
        """Return how far up figures are, 0 to 1; NaN of what is not finite."""
        scale = self._scales[number]
        with np.errstate(invalid="ignore"):
            found = np.where(np.isfinite(values), scale.places(np.asarray(values)), np.nan)
        return np.where((found == 0) & (scale.low == scale.high), 0.5, found)  # all are equal

    def near(self, place: QPointF) -> tuple[int, int, int | None] | None:
        """Return chart, layer and role at a place; no role where none of its lines is near."""
        for number in range(len(self.values)):
            plot = self.plot(number)
            if not plot.adjusted(0, -_PAD, 0, _STRIP + 8).contains(place):
                continue
            share = (place.x() - plot.left()) / plot.width()
            layer = min(len(self.grid.layers) - 1, max(0, int(share * len(self.grid.layers))))
            roles = [(r, p) for r in self.shown if (p := self.point(number, layer, r)) is not None]
            role, found = min(
                roles, key=lambda one: abs(one[1].y() - place.y()), default=(None, None)
            )
            near = found is not None and abs(found.y() - place.y()) < _NEAR
            inside = place.y() <= plot.bottom() + 3
            return number, layer, role if near and inside else None
        return None

    def role_at(self, place: QPointF) -> int | None:
        """Return the role whose key is at a place."""
        keys = zip(self.keys, self.shown, strict=True)
        return next((role for key, role in keys if key.contains(place)), None)

    # Painting

    def paint(
        self, painter: QtGui.QPainter, colours: PlotColours, alone: int | None = None
    ) -> None:
        """Paint everything; one role may stand out, by place."""
        painter.setRenderHint(QtGui.QPainter.RenderHint.Antialiasing)
        for number in range(len(self.values)):
            self._paint_axes(painter, colours, number)
            self._paint_layers(painter, number)
            for role in self.shown:
                faded = alone is not None and role != alone
                self._paint_line(painter, number, role, faded=faded)
        for key, role in zip(self.keys, self.shown, strict=True):
            ink = QtGui.QColor(colours.text)
            ink.setAlpha(255 if alone in {None, role} else _FADED_TEXT)
            self._paint_key(painter, ink, key, role)

    def paint_mark(self, painter: QtGui.QPainter, colour: QtGui.QColor, place: Place) -> None:
        """Mark a layer and a role, by place, in every chart."""
        for number in range(len(self.values)):
            self._paint_mark(painter, QtGui.QPen(colour, 2), number, place)

    def _paint_axes(self, painter: QtGui.QPainter, colours: PlotColours, number: int) -> None:
        cell, plot, metric = self.cell(number), self.plot(number), self.values[number].metric
        scale, font = self._scales[number], painter.font()
        title = f"{metric.title} (logarithmic)" if scale.logarithmic else metric.title
        painter.setPen(colours.text)
        painter.setFont(self._bold)
        painter.drawText(cell.adjusted(0, _PAD // 2, -_PAD, 0), int(_TOP_LEFT), title)
        painter.setFont(font)
        for tick in ticks(scale):
            y = plot.bottom() - float(self._shares(number, tick)) * plot.height()
            painter.setPen(QtGui.QPen(colours.rule, 1))
            painter.drawLine(QPointF(plot.left(), y), QPointF(plot.right(), y))
            painter.setPen(colours.muted)
            label = QRectF(cell.left(), y - self._line / 2, self._left - 6, self._line)
            painter.drawText(label, int(_RIGHT), metric.tick_text(tick))
        if not math.isfinite(scale.low):
            painter.setPen(colours.text)
            errors = metric.source is Source.ERRORS
            text = "nothing compared yet" if errors else "not measured yet"
            painter.drawText(plot, int(_CENTRE), text)
        self._paint_numbers(painter, colours, number)

    def _paint_numbers(self, painter: QtGui.QPainter, colours: PlotColours, number: int) -> None:
        plot, layers = self.plot(number), self.grid.layers
        widest = max(self._metrics.horizontalAdvance(str(layers[-1])), 1) + 2 * _PAD
        every = max(1, math.ceil(widest * len(layers) / max(plot.width(), 1.0)))
        every = next(step for step in _STEPS if step >= every)
        top = plot.bottom() + _STRIP + 6
        painter.setPen(colours.muted)
        for layer in range(0, len(layers), every):
            place = QRectF(self.x_of(number, layer) - 40, top, 80, self._line)
            painter.drawText(place, int(_TOP_CENTRE), str(layers[layer]))
        first = self.x_of(number, 0) - self._metrics.horizontalAdvance(str(layers[0])) / 2 - 4
        left = self.cell(number).left()
        painter.drawText(QRectF(left, top, first - left, self._line), int(_TOP_RIGHT), _AXIS)

    def _paint_layers(self, painter: QtGui.QPainter, number: int) -> None:
        """Paint the bar of the layers, coloured by the figure of each layer's matrices."""
        plot, values = self.plot(number), self.values[number]
        together = values.together
        places = Scale.of(together).places(together)
        width = plot.width() / len(self.grid.layers)
        gap = _GAP if width > 4 * _GAP else 0.0
        for layer, share in enumerate(places.tolist()):
            if not math.isnan(share):
                left = plot.left() + layer * width
                colour = COLOUR_MAP[round(share * (len(COLOUR_MAP) - 1))]
                area = QRectF(left, plot.bottom() + 5, max(width - gap, 0.5), _STRIP)
                painter.fillRect(area, colour)

    def _paint_line(self, painter: QtGui.QPainter, number: int, role: int, *, faded: bool) -> None:
        plot = self.plot(number)
        shares = self._shares(number, self.values[number].lines[:, role])
        pen = line_pen(self.shown.index(role))
        colour = pen.color()
        colour.setAlpha(_FADED if faded else 255)
        pen.setColor(colour)
        width = plot.width() / len(self.grid.layers)
        xs = plot.left() + (np.arange(len(shares)) + 0.5) * width
        ys = plot.bottom() - shares * plot.height()
        known = np.flatnonzero(np.isfinite(ys))  # a layer without the role is passed over
        places = zip(xs[known].tolist(), ys[known].tolist(), strict=True)
        points = [QPointF(x, y) for x, y in places]
        painter.setPen(pen)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawPolyline(QtGui.QPolygonF(points))
        if len(points) <= _MANY_DOTS:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colour)
            for point in points:
                draw_mark(painter, point, self.shown.index(role))

    def _paint_mark(
        self, painter: QtGui.QPainter, pen: QtGui.QPen, number: int, place: Place
    ) -> None:
        """Paint a hairline at a layer, and a ring around the figure of a role."""
        (layer, role), plot = place, self.plot(number)
        hair, x = QtGui.QColor(pen.color()), self.x_of(number, layer)
        hair.setAlpha(_FADED)
        painter.setPen(QtGui.QPen(hair, 1))
        painter.drawLine(QPointF(x, plot.top()), QPointF(x, plot.bottom() + _STRIP + 5))
        shown = role is not None and role in self.shown
        point = self.point(number, layer, role) if role is not None and shown else None
        if point is not None:
            painter.setPen(pen)
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawEllipse(point, 4.5, 4.5)

    def _paint_key(
        self, painter: QtGui.QPainter, ink: QtGui.QColor, place: QRectF, role: int
    ) -> None:
        middle, left = place.center().y(), place.left() + _PAD
        painter.setPen(line_pen(self.shown.index(role), 2.2))
        painter.drawLine(QPointF(left, middle), QPointF(left + _KEY_SAMPLE - 6, middle))
        painter.setBrush(painter.pen().color())
        painter.setPen(Qt.PenStyle.NoPen)
        draw_mark(painter, QPointF(left + (_KEY_SAMPLE - 6) / 2, middle), self.shown.index(role))
        painter.setPen(ink)
        label = place.adjusted(_PAD + _KEY_SAMPLE, 0, 0, 0)
        name = self._metrics.elidedText(
            self.grid.roles[role], Qt.TextElideMode.ElideRight, int(label.width())
        )
        painter.drawText(label, int(_LEFT), name)
