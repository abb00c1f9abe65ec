"""Error against size: which types are worth their bits, which models their bytes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from typing import Any, Final, NamedTuple

import pyqtgraph as pg
from PySide6.QtCore import QPointF, QRectF, QSizeF, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent
from PySide6.QtWidgets import QWidget

from explorer.analysis.what_if import PRESENT
from explorer.present.colours import type_colour
from explorer.present.explanations import picture_text
from explorer.present.pictures import sentence
from explorer.present.tables.errors import FIGURES, WEIGHTED
from explorer.present.tables.what_if import Trial, what_if_table
from explorer.qt.widgets.plot import CountAxis, Mark, Marks, ThemedPlot, brush
from explorer.text import float_text

_STEPS: Final = (1, 2, 5)  # of a decade, while few decades are in sight
_FEW_DECADES: Final = 3.0
_EXACT_DECADES: Final = 0.5  # how far beyond all others a type without any error is drawn
_EXACT_DB: Final = 10.0


class Measure(IntEnum):
    """What is drawn upwards; the places in the list."""

    RELATIVE_RMSE = 0
    SQNR = 1
    WEIGHTED = 2
    PERPLEXITY = 3
    DIVERGENCE = 4

    @property
    def axis(self) -> _Axis:
        return _AXES[self]


class _Axis(NamedTuple):
    """A figure, by its name in `Trial`, and how it is drawn upwards."""

    figure: str
    title: str
    logarithmic: bool
    write: Callable[[float], str]
    best: float  # where nothing is lost


def _percent(value: float) -> str:
    return f"{float_text(100 * value, 4)} %"


def _plain(value: float) -> str:
    return float_text(value, 4)


_LESS: Final = "less is better"
_AXES: Final = {
    Measure.RELATIVE_RMSE: _Axis(
        *("relative_rmse", FIGURES["relative_rmse"].title), True, _percent, -math.inf
    ),
    Measure.SQNR: _Axis("sqnr_db", "SQNR, dB: more is better", False, _plain, math.inf),
    Measure.WEIGHTED: _Axis(
        *("weighted_relative_rmse", WEIGHTED["weighted_relative_rmse"].title),
        True,
        _percent,
        -math.inf,
    ),
    Measure.PERPLEXITY: _Axis("perplexity", f"Perplexity: {_LESS}", False, _plain, math.nan),
    Measure.DIVERGENCE: _Axis(
        *("divergence", f"Mean KL divergence: {_LESS}"), True, _plain, -math.inf
    ),
}


@dataclass(frozen=True, slots=True)
class ChartPoint:
    """A type in the chart.

    Attributes:
        x: Bits for each weight, or MiB.
        y: Height: the figure, or its log10.
        exact: Whether nothing is lost, so that the true height is infinite.
    """

    line: Trial
    x: float
    y: float
    exact: bool

    @property
    def present(self) -> bool:
        return self.line.type_name == PRESENT


def bits_of(line: Trial) -> float:
    """Return the bits for each weight of a line."""
    return line.size.bits_per_weight


def mebibytes_of(line: Trial) -> float:
    """Return the size of a line's model in MiB."""
    return line.size.model_nbytes / (1 << 20)


def chart_points(
    lines: Sequence[Trial], measure: Measure, x_of: Callable[[Trial], float] = bits_of
) -> list[ChartPoint]:
    """Return the lines whose error is known as points."""
    axis = measure.axis
    known: list[tuple[Trial, float]] = []
    for line in lines:
        value = line.figure(axis.figure)
        if value is not None and math.isfinite(x_of(line)):
            known.append((line, _height(value, logarithmic=axis.logarithmic)))
    finite = [y for _, y in known if math.isfinite(y)]
    if axis.best < 0:
        exact, lost = min(finite, default=-3.0) - _EXACT_DECADES, max(finite, default=0.0)
    else:
        exact, lost = max(finite, default=60.0) + _EXACT_DB, min(finite, default=0.0)
    return [
        ChartPoint(
            line,
            x_of(line),
            y if math.isfinite(y) else exact if y == axis.best else lost,
            y == axis.best,
        )
        for line, y in known
    ]


def _height(value: float, *, logarithmic: bool) -> float:
    if not logarithmic:
        return value
    return math.log10(value) if value > 0 else -math.inf


class ErrorAxis(CountAxis):
    """Relative errors in per cent on a logarithmic scale, or decibels.

    Attributes:
        write: Writes a figure.
        exact: Where types without any error are drawn, which no such scale reaches; None for none.
    """

    def __init__(self) -> None:
        super().__init__()
        self.write: Callable[[float], str] = _percent
        self.exact: float | None = None

    # pyqtgraph

    def tickValues(self, low: float, high: float, size: float) -> list[tuple[float, list[float]]]:
        levels = self._levels(low, high, size)
        exact = self.exact
        if exact is None or not low <= exact <= high:
            return levels
        apart = (high - low) * _TICKS_APART  # else the number there covers its neighbour
        beyond = (
            (lambda tick: tick > exact + apart)
            if self.logarithmic
            else (lambda tick: tick < exact - apart)
        )
        kept = [(step, list(filter(beyond, ticks))) for step, ticks in levels]
        return [(kept[0][0] if kept else 1.0, [exact]), *kept]

    def _levels(self, low: float, high: float, size: float) -> list[tuple[float, list[float]]]:
        if not self.logarithmic or high - low > _FEW_DECADES:
            return super().tickValues(low, high, size)
        powers = range(math.floor(low), math.ceil(high) + 1)
        ticks = [power + math.log10(step) for power in powers for step in _STEPS]
        shown = [tick for tick in ticks if low <= tick <= high]
        if len(shown) >= 2:
            return [(1.0, shown)]
        levels: list[tuple[float, list[float]]] = super(CountAxis, self).tickValues(low, high, size)
        return levels

    def tickStrings(self, values: Sequence[float], scale: float, spacing: float) -> list[str]:
        if list(values) == [self.exact]:
            return [self.write(0.0) if self.logarithmic else "no error"]
        return [self.write(10.0**value if self.logarithmic else value) for value in values]


_TICKS_APART: Final = 0.08  # of what is shown
_NEAR_PIXELS: Final = 24
_LINE_STEP: Final = 4  # pixels between places of the front that no name may cover
_MARKS: Final = {"A": "t1", "B": "s"}
_LEAST_FRONT: Final = 3  # points
_MARGIN: Final = 0.08  # of what is shown, at each edge
_FADED_ALPHA: Final = 150
_PAPER_ALPHA: Final = 170  # behind a name, so that a line does not strike it through
_TABLE: Final = what_if_table(weighted=True)
_COLUMNS: Final = ("bits_per_weight", "relative_rmse", "sqnr_db", "rmse", "max_abs_error", "bytes")


class WhatIfChart(ThemedPlot):
    """A point for each type, the front of those that nothing beats, and the present type.

    The best trade-offs are filled circles, others crosses, what the file has is a diamond. Of two
    models that are compared, A is a triangle and B a square.

    Signals:
        point_read: The mouse stands on a point, its `Trial`; None if it stands on none.
        chosen: The user clicked a type or reached it by keys; its name.
    """

    point_read = Signal(object)
    chosen = Signal(str)

    def __init__(self, parent: QWidget | None = None, *, by_size: bool = False) -> None:
        super().__init__(parent)
        self._x_of = mebibytes_of if by_size else bits_of
        self._x_title = "Size of tensors, MiB" if by_size else "Bits per weight"
        self.points: list[ChartPoint] = []
        self.measure = Measure.RELATIVE_RMSE
        self.selected: str | None = None
        self._lines: tuple[Trial, ...] = ()
        self.counts = ErrorAxis()
        item = self.getPlotItem()
        item.setAxisItems({"left": self.counts})
        item.getAxis("bottom").enableAutoSIPrefix(False)
        self._front = pg.PlotDataItem()
        self._within = pg.PlotDataItem(connect="pairs")
        self._dots = pg.ScatterPlotItem(pxMode=True)
        self._ring = pg.ScatterPlotItem(pxMode=True)
        for z, part in enumerate((self._front, self._within, self._dots, self._ring)):
            part.setZValue(z)
            self.addItem(part)
        self._names: list[Any] = []
        self._marks = Marks(self)
        self.setAccessibleName(f"Error against {'size' if by_size else 'bits per weight'}")
        self.setWhatsThis(picture_text("what_if_chart"))
        self.scene().sigMouseMoved.connect(self._follow_mouse)
        self.scene().sigMouseClicked.connect(self._click)
        for signal in (self.box.sigRangeChanged, self.box.sigResized):
            signal.connect(lambda *_: self._place_names())
        self.restyle()

    def show_lines(self, lines: Sequence[Trial]) -> None:
        """Draw other lines, that of the present type first; the zoom stays."""
        self._lines = tuple(lines)
        self._draw()

    def set_measure(self, measure: Measure) -> None:
        """Draw something else upwards."""
        self.measure = measure
        self._draw()
        self.forget_zoom()

    def select(self, type_name: str | None) -> None:
        """Mark a type; emits no signal."""
        self.selected = type_name
        self._draw_ring()
        self._place_names()

    def sentence(self) -> str:
        best = [point.line for point in sorted(self.points, key=lambda point: point.x)]
        bits, axis = _TABLE["bits_per_weight"], self.measure.axis
        error = _TABLE[axis.figure] if axis.figure in _TABLE.names else None

        def text(line: Trial) -> str:
            known = error is not None and line.errors is not None
            return (
                error.cell(line) if error and known else axis.write(line.figure(axis.figure) or 0)
            )

        said = [
            f"{line.title} {text(line)} at {bits.cell(line)} bits per weight"
            for line in best
            if line.front
        ]
        title = axis.title if error is None else error.title
        return sentence(said, f"{title} of the best trade-offs")

    def data_columns(self) -> list[tuple[str, list[Any]]]:
        """Return the figures of every point."""
        lines = [point.line for point in self.points]
        named: list[tuple[str, list[Any]]] = [("type", [line.title for line in lines])]
        named += [(name, [_TABLE[name].value(line) for line in lines]) for name in _COLUMNS]
        given = dict.fromkeys(name for line in lines for name in line.given)
        named = [(name, values) for name, values in named if name not in given]
        named += [(name, [line.given.get(name) for line in lines]) for name in given]
        return [*named, ("on_front", [line.front for line in lines])]

    def restyle(self) -> None:
        super().restyle()
        self.getPlotItem().setLabel("bottom", self._x_title, color=self.colours.text.name())
        self._draw()

    def pixel_of(self, point: ChartPoint) -> QPointF:
        """Return where a point is, in the pixels of the box."""
        return QPointF(self.box.mapFromView(QPointF(point.x, point.y)))

    def shown_names(self) -> list[str]:
        """Return the names that have a place in the picture."""
        return [name.toPlainText() for name in self._names if name.isVisible()]

    # Drawing

    def _draw(self) -> None:
        colour = self.colours.text.name()
        short = self.measure.axis.title.partition(":")[0]  # a low chart has no room for more
        self.getPlotItem().setLabel("left", short, color=colour)
        self.counts.write = self.measure.axis.write
        self.counts.set_logarithmic(self.measure.axis.logarithmic)
        self.points = chart_points(self._lines, self.measure, self._x_of)
        self.counts.exact = next((point.y for point in self.points if point.exact), None)
        front = self._line_of_front()
        pen = self.colours.pen(self.colours.muted, width=1.5)
        self._front.setData([p.x for p in front], [p.y for p in front], pen=pen)
        bars = [bar for point in self.points for bar in self._bar(point)]
        self._within.setData([x for x, _ in bars], [y for _, y in bars], pen=pen)
        over = sorted(self.points, key=lambda point: point.line.front)  # the front's are on top
        self._dots.setData([self._dot(point) for point in over])
        self._draw_ring()
        self._draw_names()
        self._marks.show(self._present_marks())
        self.box.set_home(self._whole())
        self._place_names()

    def _bar(self, point: ChartPoint) -> list[tuple[float, float]]:
        """Return both ends of how uncertain a figure is (±); none where that is not known."""
        axis, given = self.measure.axis, point.line.given
        within = given.get(f"{axis.figure}_error", 0.0)
        if not within > 0:
            return []
        ends = given[axis.figure] - within, given[axis.figure] + within
        heights = [_height(end, logarithmic=axis.logarithmic) for end in ends]
        return [(point.x, height) for height in heights] if all(map(math.isfinite, heights)) else []

    def _dot(self, point: ChartPoint) -> dict[str, Any]:
        colour = self._colour(point)
        other = "o" if point.line.front else "x"
        return {
            "pos": (point.x, point.y),
            "symbol": "d" if point.present else _MARKS.get(point.line.mark, other),
            "size": 13 if point.present or point.line.mark else 9,
            "pen": self.colours.pen(colour),
            "brush": brush(colour),
        }

    def _colour(self, point: ChartPoint) -> QColor:
        kind = point.line.colour if point.line.front else None
        return self._name_colour(point) if kind is None else QColor(type_colour(kind))

    def _name_colour(self, point: ChartPoint) -> QColor:
        colour = QColor(self.colours.text)
        if not point.present and not point.line.front:
            colour.setAlpha(_FADED_ALPHA)
        return colour

    def _draw_ring(self) -> None:
        here = [(p.x, p.y) for p in self.points if p.line.type_name == self.selected]
        pen = self.colours.pen(self.colours.text, width=2)
        clear = QColor(Qt.GlobalColor.transparent)
        self._ring.setData(pos=here, symbol="o", size=18, pen=pen, brush=brush(clear))

    def _present_marks(self) -> list[Mark]:
        """Return where the file is now; its own error is not known without an original."""
        if self._present is None:
            return []
        line = self._lines[0]
        named = any(point.present for point in self.points)
        return [Mark(self._present, "" if named else line.title, points=not named)]

    @property
    def _present(self) -> float | None:
        """Bits per weight of the file as it is; None without a file, or of one without weights."""
        first = next((one for one in self._lines[:1] if one.type_name == PRESENT), None)
        bits = math.nan if first is None else self._x_of(first)
        return bits if math.isfinite(bits) else None

    def _whole(self) -> QRectF:
        xs = [point.x for point in self.points]
        ys = [point.y for point in self.points]
        if self._present is not None:
            xs.append(self._present)
        if not xs or not ys:
            xs, ys = [*xs, 0.0, 8.0], [*ys, -3.0, 0.0]
        left, low, aside = min(xs), min(ys), _MARGIN * (3 if self._x_of is mebibytes_of else 1)
        width, height = max(max(xs) - left, 1.0), max(max(ys) - low, 0.5)
        # room at the top for the name of the present type, and at the sides for those of points
        return QRectF(
            left - aside * width,
            low - _MARGIN * height,
            width * (1 + 2 * aside),
            height * (1 + 3 * _MARGIN),
        )

    # Names

    def _draw_names(self) -> None:
        while len(self._names) < len(self.points):
            name = pg.TextItem(anchor=(0, 0))
            name.setZValue(10)
            self._names.append(name)
            self.addItem(name, ignoreBounds=True)

    def _place_names(self) -> None:
        """Put the names where they cover nothing: first the chosen one, then the front's."""
        order = sorted(self.points, key=self._rank)
        for name in self._names[len(order) :]:
            name.hide()
        names = self._names[: len(order)]
        paper = QColor(self.colours.background)
        paper.setAlpha(_PAPER_ALPHA)
        for point, name in zip(order, names, strict=True):
            text = f"{point.line.title}, no error" if point.exact else point.line.title
            name.fill = pg.mkBrush(paper)
            name.setText(text, color=self._name_colour(point))
        places = place_labels(
            [self.pixel_of(point) for point in order],
            [name.textItem.boundingRect().size() for name in names],
            QRectF(self.box.boundingRect()),
            [*self._marks.covered, *self._under_front()],
        )
        for name, place in zip(names, places, strict=True):
            name.setVisible(place is not None)
            if place is not None:
                name.setPos(self.box.mapToView(place.topLeft()))

    def _line_of_front(self) -> list[ChartPoint]:
        """Return the points that a line joins: none of two, as if there were more between."""
        front = sorted((p for p in self.points if p.line.front), key=lambda point: point.x)
        return front if len(front) >= _LEAST_FRONT else []

    def _under_front(self) -> list[QRectF]:
        """Return what the line of the front covers, so that no name is written over it."""
        front = self._line_of_front()
        found = []
        for one, other in pairwise(map(self.pixel_of, front)):
            away = other - one
            steps = max(1, round(math.hypot(away.x(), away.y()) / _LINE_STEP))
            for step in range(1, steps):
                place = one + away * (step / steps)
                found.append(QRectF(place.x() - 1, place.y() - 1, 2, 2))
        return found

    def _rank(self, point: ChartPoint) -> tuple[bool, bool, bool, float]:
        line = point.line
        return (line.type_name != self.selected, not point.present, not line.front, point.x)

    # Mouse and keys

    def near(self, place: QPointF) -> ChartPoint | None:
        """Return the point at a place of the scene, or None."""
        if not self.box.sceneBoundingRect().contains(place):
            return None
        here = self.box.mapFromScene(place)

        def distance(point: ChartPoint) -> float:
            away = self.pixel_of(point) - here
            return math.hypot(away.x(), away.y())

        nearest = min(self.points, key=distance, default=None)
        return None if nearest is None or distance(nearest) >= _NEAR_PIXELS else nearest

    def _follow_mouse(self, place: QPointF) -> None:
        point = self.near(place)
        self.point_read.emit(None if point is None else point.line)

    def pointer_left(self) -> None:
        self.point_read.emit(None)

    def _click(self, event: Any) -> None:
        point = self.near(event.scenePos())
        if event.button() == Qt.MouseButton.LeftButton and point is not None:
            self.chosen.emit(point.line.type_name)

    # Qt

    def keyPressEvent(self, event: QKeyEvent) -> None:
        step = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}.get(Qt.Key(event.key()))
        if step is None or event.modifiers() != Qt.KeyboardModifier.NoModifier or not self.points:
            super().keyPressEvent(event)
            return
        names = [p.line.type_name for p in sorted(self.points, key=lambda p: (p.x, -p.y))]
        place = names.index(self.selected) + step if self.selected in names else 0
        self.chosen.emit(names[min(max(place, 0), len(names) - 1)])


_LABEL_GAP: Final = 6.0  # pixels between a point and its name
_POINT: Final = 9.0  # what a point itself covers
# Directions from a point, the preferred ones first. A curve that falls leaves the upper right free.
_WAYS: Final = ((1, -1), (1, 0), (0, -1), (-1, 0), (0, 1), (-1, 1), (-1, -1), (1, 1))


def place_labels(
    points: Sequence[QPointF], sizes: Sequence[QSizeF], area: QRectF, others: Sequence[QRectF] = ()
) -> list[QRectF | None]:
    """Return a free place for the name of each point, in pixels; None where there is none.

    Args:
        points: The points, the most important ones first: their names find room first.
        sizes: Sizes of their names.
        area: What the names must not leave.
        others: What they must not cover besides the points and one another.
    """
    around = QSizeF(_POINT, _POINT)
    corner = QPointF(_POINT / 2, _POINT / 2)
    taken = [QRectF(point - corner, around) for point in points if area.contains(point)]
    taken += others
    places = zip(points, sizes, strict=True)
    return [_take_place(point, size, area, taken) for point, size in places]


def _take_place(point: QPointF, size: QSizeF, area: QRectF, taken: list[QRectF]) -> QRectF | None:
    for across, down in _WAYS if area.contains(point) else ():
        left = point.x() - size.width() / 2 + across * (size.width() / 2 + _LABEL_GAP)
        top = point.y() - size.height() / 2 + down * (size.height() / 2 + _LABEL_GAP)
        place = QRectF(QPointF(left, top), size)
        if area.contains(place) and not any(place.intersects(other) for other in taken):
            taken.append(place)
            return place
    return None
