"""Histograms as plots draw them, with their marks; and small ones side by side, each with its name.

Loads no plot: a `PlotWidget` for each of 32 tensors takes a second to make, so these are painted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PySide6 import QtGui
from PySide6.QtCore import QPointF, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtWidgets import QWidget

from explorer.analysis.histogram import Histogram
from explorer.analysis.moments import Moments
from explorer.present.explanations import picture_text
from explorer.present.pictures import histogram_sentence
from explorer.qt.widgets.chart import Chart
from explorer.qt.widgets.painting import edge_of, type_ink
from explorer.qt.widgets.plot import PlotColours
from explorer.text import float_text

_CELL_WIDTH: Final = 180
_CELL_HEIGHT: Final = 116
_MOST_HEIGHT: Final = 240
_PAD: Final = 6
NOTHING: Final = (math.nan, math.nan, math.nan, math.nan)
"""Mean, standard deviation, minimum and maximum of a histogram that has none."""

FILLED: Final = 190
"""Opacity of what lies below a curve that stands alone, of 255."""

_MOST_SAID: Final = 8
_MOST_STEPS: Final = 128  # more do not fit into the width of a cell


class SmallMultiples(Chart[int]):
    """A grid of histograms, which are its parts by number.

    Signals:
        bins_read: The mouse moved over a bin; a tuple of one `BinReading`, or of none.
    """

    bins_read = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("Histograms side by side", picture_text("histograms"), parent)
        self.curves: tuple[HistogramCurve, ...] = ()
        self.logarithmic = False

    def show_curves(self, curves: tuple[HistogramCurve, ...]) -> None:
        self.curves = curves
        if self.current is not None and self.current >= len(curves):
            self.current = None
        self.setMinimumHeight(self._rows * _CELL_HEIGHT)
        self.update()

    def set_logarithmic(self, on: bool) -> None:
        """Draw counts logarithmically or not."""
        self.logarithmic = on
        self.update()

    def highlight(self, row: int | None) -> None:
        """Make the histogram of a tensor current."""
        rows = [curve.row for curve in self.curves]
        self.select(rows.index(row) if row in rows else None)

    def data_columns(self) -> list[tuple[str, list[Any]]]:
        """Return the data behind the picture; see `curve_columns`."""
        return curve_columns(self.curves)

    def sentence(self) -> str:
        return curves_in_words(self.curves)

    def cell(self, number: int) -> QRect:
        row, column = divmod(number, self._columns)
        width = self.width() // self._columns
        height = min(max(self.height() // self._rows, _CELL_HEIGHT), _MOST_HEIGHT)
        return QRect(column * width, row * height, width, height)

    @property
    def _columns(self) -> int:
        return max(1, min(self.width() // _CELL_WIDTH, max(1, len(self.curves))))

    @property
    def _rows(self) -> int:
        return max(1, -(-len(self.curves) // self._columns))

    def _plot_area(self, cell: QRect) -> QRectF:
        line = QtGui.QFontMetrics(self.font()).height()
        return QRectF(cell).adjusted(_PAD, _PAD + line, -_PAD, -_PAD - line)

    def paint(self, painter: QtGui.QPainter, size: QSize, colours: PlotColours) -> None:
        for number, curve in enumerate(self.curves):
            self._paint_curve(painter, colours, curve, self.cell(number))

    def paint_marks(self, painter: QtGui.QPainter, colours: PlotColours) -> None:
        if self.current is not None:
            painter.setPen(QtGui.QPen(colours.accent, 2 if self.hasFocus() else 1))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(self.cell(self.current).adjusted(1, 1, -2, -2))

    def hit(self, point: QPointF) -> int | None:
        cells = range(len(self.curves))
        return next((one for one in cells if self.cell(one).contains(point.toPoint())), None)

    def describe(self, hit: int | None) -> str:
        return "" if hit is None else self.curves[hit].name

    def after(self, key: Qt.Key) -> int | None:
        here = -1 if self.current is None else self.current
        steps = {
            Qt.Key.Key_Left: here - 1,
            Qt.Key.Key_Right: here + 1,
            Qt.Key.Key_Up: here - self._columns,
            Qt.Key.Key_Down: here + self._columns,
            Qt.Key.Key_Home: 0,
            Qt.Key.Key_End: len(self.curves) - 1,
        }
        to = steps.get(key, -1)
        if key in steps and self.current is None:
            to = 0
        return to if 0 <= to < len(self.curves) else None

    def _paint_curve(
        self, painter: QtGui.QPainter, colours: PlotColours, curve: HistogramCurve, cell: QRect
    ) -> None:
        inner = cell.adjusted(_PAD, _PAD // 2, -_PAD, -_PAD // 2)
        metrics = QtGui.QFontMetrics(self.font())
        name = metrics.elidedText(curve.name, Qt.TextElideMode.ElideMiddle, inner.width())
        align, histogram = Qt.AlignmentFlag, curve.histogram
        painter.setPen(colours.text)
        painter.drawText(inner, align.AlignTop | align.AlignLeft, name)
        low, high = float_text(histogram.low, 3), float_text(histogram.high, 3)
        painter.drawText(inner, align.AlignBottom | align.AlignLeft, low)
        painter.drawText(inner, align.AlignBottom | align.AlignRight, high)
        plot = self._plot_area(cell)
        painter.setPen(colours.rule)
        painter.drawLine(plot.bottomLeft(), plot.bottomRight())
        colour = QtGui.QColor(type_ink(curve.type_name))
        fill = QtGui.QColor(colour)
        fill.setAlpha(FILLED)
        painter.setPen(QtGui.QPen(edge_of(colour, colours.background), 1))
        painter.setBrush(fill)
        painter.drawPolygon(self._steps(curve, plot))

    def _steps(self, curve: HistogramCurve, area: QRectF) -> QtGui.QPolygonF:
        """Return the outline of a histogram, its highest bin as high as the area."""
        counts = curve.histogram.counts
        group = -(-counts.size // _MOST_STEPS)
        starts = np.arange(0, counts.size, group)
        sums = np.add.reduceat(counts, starts).astype(np.float64)
        if self.logarithmic:
            # half a decade for the first weight, as in the large plot
            sums = np.where(sums > 0, np.log10(np.maximum(sums, 1)) + 0.5, 0)
        top = float(sums.max()) or 1.0
        lefts = np.append(starts, counts.size) / counts.size
        points = [area.bottomLeft()]
        for number, height in enumerate((sums / top).tolist()):
            y = area.bottom() - height * area.height()
            points.append(QPointF(area.left() + lefts[number] * area.width(), y))
            points.append(QPointF(area.left() + lefts[number + 1] * area.width(), y))
        points.append(area.bottomRight())
        return QtGui.QPolygonF(points)

    # Qt

    def sizeHint(self) -> QSize:
        return QSize(3 * _CELL_WIDTH, 3 * _CELL_HEIGHT)

    def resizeEvent(self, event: QtGui.QResizeEvent) -> None:
        super().resizeEvent(event)
        self.setMinimumHeight(self._rows * _CELL_HEIGHT)

    def mouseMoveEvent(self, event: QtGui.QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        reading = None
        if self.pointed is not None:
            curve, area = self.curves[self.pointed], self._plot_area(self.cell(self.pointed))
            share = (event.position().x() - area.left()) / area.width()
            low, high = curve.histogram.low, curve.histogram.high
            reading = curve.reading(low + share * (high - low))
        self.bins_read.emit(() if reading is None else (reading,))


@dataclass(frozen=True, eq=False)
class HistogramCurve:
    """A histogram with the figures that are marked in it.

    Attributes:
        name: Plain text for legend and read-out.
        row: Content row of its tensor, or -1.
        histogram: Counts by bin.
        total: All that was counted, what lies outside the bins too.
        mean: Mean of all; NaN of nothing.
        std: Their standard deviation.
        minimum: The smallest.
        maximum: The largest.
        type_name: The tensor type whose colour it has; empty for none.
    """

    name: str
    row: int
    histogram: Histogram
    total: int
    mean: float
    std: float
    minimum: float
    maximum: float
    type_name: str = ""

    @classmethod
    def of_moments(
        cls, name: str, histogram: Histogram, moments: Moments, row: int = -1, type_name: str = ""
    ) -> HistogramCurve:
        m = moments
        return cls(name, row, histogram, m.count, m.mean, m.std, m.min, m.max, type_name)

    @property
    def outside(self) -> int:
        """How many of all lie in no bin."""
        return self.total - int(self.histogram.counts.sum())

    def reading(self, x: float) -> BinReading | None:
        """Return what the bin at `x` holds; None outside the bins."""
        edges, counts = self.histogram.edges, self.histogram.counts
        if not edges[0] <= x <= edges[-1]:
            return None
        index = min(int(np.searchsorted(edges, x, side="right")) - 1, counts.size - 1)
        count = int(counts[index])
        share = count / self.total if self.total else 0.0
        low, high = float(edges[index]), float(edges[index + 1])
        return BinReading(self.name, index, low, high, count, share)


def curve_columns(curves: Sequence[HistogramCurve]) -> list[tuple[str, list[Any]]]:
    """Return the edges and counts of curves as columns; curves with the same bins share edges."""
    columns: list[tuple[str, list[Any]]] = []
    last: NDArray[np.float64] | None = None
    for number, curve in enumerate(curves):
        edges = curve.histogram.edges
        if last is None or not np.array_equal(last, edges):
            suffix = f" {number + 1}" if number else ""
            columns.append((f"low{suffix}", edges[:-1].tolist()))
            columns.append((f"high{suffix}", edges[1:].tolist()))
            last = edges
        name = f"count {curve.name}" if len(curves) > 1 else "count"
        columns.append((name, curve.histogram.counts.tolist()))
    return columns


def curves_in_words(curves: Sequence[HistogramCurve], unit: str = "") -> str:
    """Return what the first curves show, a sentence each."""
    said, counted = [], unit.removesuffix(" in each bin") or "weights"
    for curve in curves[:_MOST_SAID]:
        name = f"{curve.name}: " if len(curves) > 1 else ""
        counts, edges = curve.histogram.counts, curve.histogram.edges
        said.append(name + histogram_sentence(counts, edges, curve.outside, counted))
    return " ".join(said)


@dataclass(frozen=True, slots=True)
class BinReading:
    """The bin under the cursor: curve, number, edges, count, and its share of all, 0 to 1."""

    curve: str
    index: int
    low: float
    high: float
    count: int
    share: float


def histogram_of(edges: NDArray[np.float64], counts: NDArray[np.int64]) -> Histogram:
    """Return a histogram over edges, float64 [bins + 1], with counts, int64 [bins]."""
    return Histogram(float(edges[0]), float(edges[-1]), edges, counts)
