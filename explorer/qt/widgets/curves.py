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
from PySide6.QtCore import QEvent, QPointF, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtWidgets import QWidget

from explorer.analysis import Histogram, Moments
from explorer.present.explanations import picture_text
from explorer.qt.widgets.building import add_picture_actions, show_menu
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

_MOST_STEPS: Final = 128  # more do not fit into the width of a cell


class SmallMultiples(QWidget):
    """A grid of histograms; one of them is current.

    Attributes:
        curves: What is drawn.
        current: Number of the current one, or -1.

    Signals:
        bins_read: The mouse moved over a bin; a tuple of one `BinReading`, or of none.
        current_changed: Another one became current; its curve's row.
        opened: One was double-clicked or entered; its curve's row.
        export_requested: The user wants the picture or its data in a file.
        copy_requested: The user wants the picture in the clipboard.
    """

    accessible_role = QtGui.QAccessible.Role.Chart

    bins_read = Signal(object)
    current_changed = Signal(int)
    opened = Signal(int)
    export_requested = Signal()
    copy_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.curves: tuple[HistogramCurve, ...] = ()
        self.logarithmic = False
        self.current = -1
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)
        self.setAccessibleName("Histograms side by side")
        self.setWhatsThis(picture_text("histograms"))
        self._saving = add_picture_actions(self, self.copy_requested, self.export_requested)

    def show_curves(self, curves: tuple[HistogramCurve, ...]) -> None:
        """Draw other histograms."""
        self.curves = curves
        self.current = min(self.current, len(curves) - 1)
        self.setMinimumHeight(self._rows * _CELL_HEIGHT)
        self.update()

    def set_logarithmic(self, on: bool) -> None:
        """Draw counts logarithmically or not."""
        self.logarithmic = on
        self.update()

    def highlight(self, row: int | None) -> None:
        """Make the histogram of a tensor current."""
        rows = [curve.row for curve in self.curves]
        self.current = rows.index(row) if row in rows else -1
        self.update()

    def data_columns(self) -> list[tuple[str, list[Any]]]:
        """Return the data behind the picture; see `curve_columns`."""
        return curve_columns(self.curves)

    def paint_on_paper(self, painter: QtGui.QPainter, area: QRectF) -> None:
        """Draw all of it into an area, in the colours of paper."""
        painter.save()
        painter.translate(area.topLeft())
        painter.scale(area.width() / self.width(), area.height() / self.height())
        self._paint(painter, PlotColours.on_paper(), self.rect(), current=-1)
        painter.restore()

    def cell(self, number: int) -> QRect:
        """Return where a histogram is."""
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

    def _paint(
        self, painter: QtGui.QPainter, colours: PlotColours, area: QRect, current: int
    ) -> None:
        painter.fillRect(area, colours.background)
        for number, curve in enumerate(self.curves):
            cell = self.cell(number)
            if not cell.intersects(area):
                continue
            if number == current:
                painter.setPen(QtGui.QPen(colours.accent, 2 if self.hasFocus() else 1))
                painter.setBrush(Qt.BrushStyle.NoBrush)
                painter.drawRect(cell.adjusted(1, 1, -2, -2))
            self._paint_curve(painter, colours, curve, cell)

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

    def _number_at(self, place: QPointF) -> int:
        point = place.toPoint()
        cells = range(len(self.curves))
        return next((number for number in cells if self.cell(number).contains(point)), -1)

    def _choose(self, number: int) -> None:
        if 0 <= number < len(self.curves):
            self.current = number
            self.setAccessibleDescription(self.curves[number].name)
            self.current_changed.emit(self.curves[number].row)
            self.update()

    # Qt

    def sizeHint(self) -> QSize:
        return QSize(3 * _CELL_WIDTH, 3 * _CELL_HEIGHT)

    def resizeEvent(self, event: QtGui.QResizeEvent) -> None:
        super().resizeEvent(event)
        self.setMinimumHeight(self._rows * _CELL_HEIGHT)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            self.update()

    def paintEvent(self, event: QtGui.QPaintEvent) -> None:
        painter = QtGui.QPainter(self)
        colours = PlotColours.of_palette(self.palette())
        self._paint(painter, colours, event.rect(), self.current)
        painter.end()

    def mouseMoveEvent(self, event: QtGui.QMouseEvent) -> None:
        number = self._number_at(event.position())
        reading = None
        if number >= 0:
            curve = self.curves[number]
            area = self._plot_area(self.cell(number))
            share = (event.position().x() - area.left()) / area.width()
            low, high = curve.histogram.low, curve.histogram.high
            reading = curve.reading(low + share * (high - low))
        self.bins_read.emit(() if reading is None else (reading,))

    def mousePressEvent(self, event: QtGui.QMouseEvent) -> None:
        super().mousePressEvent(event)
        self._choose(self._number_at(event.position()))

    def mouseDoubleClickEvent(self, event: QtGui.QMouseEvent) -> None:
        number = self._number_at(event.position())
        if number >= 0:
            self.opened.emit(self.curves[number].row)

    def keyPressEvent(self, event: QtGui.QKeyEvent) -> None:
        key = Qt.Key(event.key())
        steps = {
            Qt.Key.Key_Left: -1,
            Qt.Key.Key_Right: 1,
            Qt.Key.Key_Up: -self._columns,
            Qt.Key.Key_Down: self._columns,
            Qt.Key.Key_Home: -self.current,
            Qt.Key.Key_End: len(self.curves) - 1 - self.current,
        }
        if key in steps:
            self._choose(max(0, self.current) if self.current < 0 else self.current + steps[key])
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self.current >= 0:
            self.opened.emit(self.curves[self.current].row)
        else:
            super().keyPressEvent(event)

    def contextMenuEvent(self, event: QtGui.QContextMenuEvent) -> None:
        show_menu(self, event.globalPos(), self._saving)


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
        """Return the curve of a histogram of what the moments were taken of."""
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
