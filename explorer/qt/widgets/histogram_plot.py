"""Histograms as step curves: one or several overlaid, with marks, a normal curve and a cursor.

With a logarithmic axis the logarithms are drawn, not the counts: pyqtgraph's own mode fills down to
a count of 1, which makes bins of one weight invisible. Here they stand half a decade high.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent

from explorer.qt.theme import series_colour
from explorer.qt.widgets.curves import (
    FILLED,
    BinReading,
    HistogramCurve,
    curve_columns,
    curves_in_words,
)
from explorer.qt.widgets.painting import edge_of, type_ink
from explorer.qt.widgets.plot import Mark, Marks, ThemedPlot
from explorer.text import MINUS, float_text, shorten

MOST_FILLED: Final = 3
"""Filling a step curve takes ten times as long as its outline, and hides what is behind."""

MOST_SERIES: Final = 8
"""Most curves that have a colour each, and that the key names."""

_CHOSEN: Final = 1  # of the series' colours: orange, which no end of the others comes near
_VIRIDIS_ON_LIGHT: Final = (0.0, 0.8)
_VIRIDIS_ON_DARK: Final = (0.3, 1.0)
_LEGEND_OFFSET: Final = (-8, 6)
_BELOW_NAMES: Final = 30  # a legend stands below the names of marks
_MOST_LEGEND: Final = 0.5  # of the height, above the curves; a longer one covers some
_LEGEND_CHARACTERS: Final = 40
_HALF_DECADE: Final = 0.5
_HEADROOM: Final = 1.16  # names of marks stand above the curves
_MARGIN: Final = 0.02
_NORMAL_POINTS: Final = 256
_FAR: Final = 10  # bins that Ctrl with an arrow key goes
_SIGMA: Final = "\u03c3"


class HistogramPlot(ThemedPlot):
    """Draws `HistogramCurve`s. One shows counts, several their shares: sizes may differ.

    Signals:
        bins_read: The cursor moved; a tuple of `BinReading`, one for each curve that reaches there.
    """

    bins_read = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.curves: tuple[HistogramCurve, ...] = ()
        self.logarithmic = False
        self.shows_normal = True
        self.shows_marks = True
        self.highlighted: int | None = None
        self._cursor_x: float | None = None
        self._items: list[Any] = []
        self._normal = pg.PlotDataItem()
        self._normal.setZValue(5)
        self.addItem(self._normal)
        self._line = pg.InfiniteLine(angle=90, movable=False)
        self._line.setZValue(10)
        self._line.hide()
        self.addItem(self._line, ignoreBounds=True)
        self._marks = Marks(self)
        self._legend = self.add_legend(_LEGEND_OFFSET)
        self.box.sigResized.connect(self._fit)
        self.setAccessibleName("Histogram")
        self.getPlotItem().getAxis("bottom").enableAutoSIPrefix(False)
        self.scene().sigMouseMoved.connect(self._follow_mouse)
        self.set_titles("", "")
        self.restyle()

    def set_titles(self, what: str, unit: str) -> None:
        """Name the axes: what the bins are of, and what is counted ("Weights")."""
        self._what, self._unit = what, unit
        self._show_titles()

    def set_code_ticks(self, ticks: list[tuple[float, str]] | None) -> None:
        """Write texts at some places of the lower axis instead of numbers."""
        self.getPlotItem().getAxis("bottom").setTicks(None if ticks is None else [ticks])

    def show_curves(self, curves: tuple[HistogramCurve, ...]) -> None:
        """Draw other curves; the zoom stays."""
        if len(curves) != len(self.curves):
            self.highlighted = None
        self.curves = curves
        self._show_titles()
        self._draw()
        if not curves:
            self.box.is_empty = True
            self.forget_zoom()
        if self._cursor_x is not None:
            self._move_cursor(self._cursor_x)

    def set_logarithmic(self, on: bool) -> None:
        """Draw heights on a logarithmic axis, or a linear one."""
        self.logarithmic = on
        self._draw()
        self.forget_zoom()

    def set_normal(self, on: bool) -> None:
        """Draw the normal distribution of the same mean and standard deviation, or not."""
        self.shows_normal = on
        self._draw()

    def set_marks(self, on: bool) -> None:
        """Draw mean, standard deviation, minimum and maximum, or not."""
        self.shows_marks = on
        self._draw()

    def highlight(self, row: int | None) -> None:
        """Bring the curve of a tensor to the front; None shows all alike."""
        rows = [curve.row for curve in self.curves]
        self.highlighted = rows.index(row) if row in rows else None
        self._draw()

    def readings(self, x: float) -> tuple[BinReading, ...]:
        """Return what each curve's bin at `x` holds; the highlighted curve comes first."""
        first = self.highlighted
        order = sorted(range(len(self.curves)), key=lambda number: number != first)
        found = (self.curves[number].reading(x) for number in order)
        return tuple(reading for reading in found if reading is not None)

    def data_columns(self) -> list[tuple[str, list[Any]]]:
        return curve_columns(self.curves)

    def sentence(self) -> str:
        return curves_in_words(self.curves, self._unit)

    def restyle(self) -> None:
        super().restyle()
        self._line.setPen(self.colours.pen(self.colours.accent))
        self._show_titles()
        self._draw()

    def pointers(self) -> Sequence[Any]:
        return (self._line,)

    def zoom_centre(self) -> float:
        view = self.box.viewRect()
        x = self._cursor_x
        return x if x is not None and view.left() <= x <= view.right() else super().zoom_centre()

    # Drawing

    @property
    def _several(self) -> bool:
        return len(self.curves) > 1

    def _show_titles(self) -> None:
        unit = "Share of the tensor, %" if self._several else self._unit
        for side, title in (("bottom", self._what), ("left", unit)):
            self.getPlotItem().setLabel(side, title, color=self.colours.text.name())

    def _draw(self) -> None:
        self.counts.set_logarithmic(self.logarithmic)
        while len(self._items) > len(self.curves):
            self.removeItem(self._items.pop())
        while len(self._items) < len(self.curves):
            self._items.append(pg.PlotDataItem(stepMode="center"))
            self.addItem(self._items[-1])
        floor = self._floor()
        for number, (curve, item) in enumerate(zip(self.curves, self._items, strict=True)):
            self._draw_curve(number, curve, item, floor)
        marked = self._marked()
        self._draw_normal(marked, floor)
        self._marks.show(self._marks_of(marked) if self.shows_marks and marked else [])
        self._draw_legend()
        self._fit()

    def _fit(self) -> None:
        if self.curves:
            self.box.set_home(self._whole(self._floor()), grows=True)

    def _draw_legend(self) -> None:
        """Name the curves; of many ones some, from the first to the last, and the highlighted."""
        self.clear_legend(self._legend)
        count = len(self.curves)
        self._legend.setVisible(count > 1)
        if count > 1:
            for number in self._named():
                # pyqtgraph takes names for HTML
                name = html.escape(shorten(self.curves[number].name, _LEGEND_CHARACTERS))
                self._legend.addItem(self._items[number], name)
        right, top = _LEGEND_OFFSET
        self._legend.setOffset((right, top if self._marked() is None else top + _BELOW_NAMES))

    def _named(self) -> list[int]:
        """Return the numbers of the curves that the key names, in their order."""
        count = len(self.curves)
        named = {number * (count - 1) // (MOST_SERIES - 1) for number in range(MOST_SERIES)}
        if self.highlighted is not None:
            named.add(self.highlighted)
        return sorted(named) if count > MOST_SERIES else list(range(count))

    def _marked(self) -> HistogramCurve | None:
        """Return the curve that has marks and a normal curve: the only or the highlighted one."""
        if len(self.curves) == 1:
            return self.curves[0]
        return None if self.highlighted is None else self.curves[self.highlighted]

    def colour(self, number: int) -> QColor:
        """Return the colour of a curve: its type's if that tells all apart, else one of a series.

        Of many curves, from dark to bright.
        """
        count = len(self.curves)
        inks = {type_ink(curve.type_name) for curve in self.curves[:MOST_SERIES]}
        if len(inks) == count and (count == 1 or all(one.type_name for one in self.curves)):
            return QColor(type_ink(self.curves[number].type_name))
        if count <= MOST_SERIES:
            return series_colour(number)
        # yellow is hard to see on white, and violet on black
        dark = self.colours.background.lightness() < self.colours.text.lightness()
        first, last = _VIRIDIS_ON_DARK if dark else _VIRIDIS_ON_LIGHT
        place = first + (last - first) * number / (count - 1)
        return QColor(pg.colormap.get("viridis").map(place, mode="qcolor"))

    def _unit_height(self, curve: HistogramCurve) -> float:
        """Return how high one weight stands."""
        return 100.0 / max(1, curve.total) if self._several else 1.0

    def _floor(self) -> float:
        if not self.logarithmic:
            return 0.0
        units = [self._unit_height(curve) for curve in self.curves]
        return math.log10(min(units, default=1.0)) - _HALF_DECADE

    def _heights(self, counts: NDArray[Any], unit: float, floor: float) -> NDArray[np.float64]:
        heights: NDArray[np.float64] = counts * unit
        if not self.logarithmic:
            return heights
        logarithms = np.full(len(counts), floor)
        np.log10(heights, out=logarithms, where=heights > 0)
        return logarithms.clip(min=floor)

    def _whole(self, floor: float) -> QRectF:
        low = min(curve.histogram.low for curve in self.curves)
        high = max(curve.histogram.high for curve in self.curves)
        margin = (high - low) * _MARGIN or 1.0
        top = max(
            float(self._heights(curve.histogram.counts, self._unit_height(curve), floor).max())
            for curve in self.curves
        )
        height = (top - floor if top > floor else 1.0) * self._headroom()
        return QRectF(low - margin, floor, high - low + 2 * margin, height)

    def _headroom(self) -> float:
        """Return how much higher the picture is than the curves: names and legend stand above."""
        if not self._several:
            return _HEADROOM
        bottom = float(self._legend.pos().y() + self._legend.height())
        share = min(_MOST_LEGEND, bottom / max(1.0, self.box.height()))
        return float(max(_HEADROOM, 1 / (1 - share)))

    def _draw_curve(self, number: int, curve: HistogramCurve, item: Any, floor: float) -> None:
        chosen = number == self.highlighted
        colour = series_colour(_CHOSEN) if chosen else self.colour(number)
        faded = self.highlighted is not None and not chosen
        if faded:
            colour.setAlpha(70)
        fill = QColor(colour)
        fill.setAlpha(FILLED if len(self.curves) == 1 else 30 if faded else 60)
        filled = len(self.curves) <= MOST_FILLED or chosen
        item.setZValue(1 if chosen else 0)
        item.setData(
            curve.histogram.edges,
            self._heights(curve.histogram.counts, self._unit_height(curve), floor),
            stepMode="center",
            fillLevel=floor if filled else None,
            brush=fill if filled else None,
            pen=self.colours.pen(edge_of(colour, self.colours.background)),
        )

    def _draw_normal(self, curve: HistogramCurve | None, floor: float) -> None:
        if not self.shows_normal or curve is None or not 0 < curve.std < math.inf:
            self._normal.setData([], [])
            return
        histogram = curve.histogram
        x = np.linspace(histogram.low, histogram.high, _NORMAL_POINTS)
        density = np.exp(-0.5 * ((x - curve.mean) / curve.std) ** 2)
        density /= curve.std * math.sqrt(2 * math.pi)
        width = (histogram.high - histogram.low) / histogram.counts.size
        heights = self._heights(density * curve.total * width, self._unit_height(curve), floor)
        pen = self.colours.pen(self.colours.text, style=Qt.PenStyle.DashLine)
        self._normal.setData(x, heights, pen=pen)

    def _marks_of(self, curve: HistogramCurve) -> list[Mark]:
        """Return mean, standard deviation, minimum and maximum."""
        dotted, dashed = Qt.PenStyle.DotLine, Qt.PenStyle.DashLine
        low, high = (float_text(x, 3) for x in (curve.minimum, curve.maximum))
        marks = [
            Mark(curve.mean, "mean", Qt.PenStyle.SolidLine),
            Mark(curve.minimum, f"min {low}", dotted, points=True),
            Mark(curve.maximum, f"max {high}", dotted, points=True),
            Mark(curve.mean - curve.std, f"{MINUS}{_SIGMA}", dashed),
            Mark(curve.mean + curve.std, f"+{_SIGMA}", dashed),
        ]
        return [mark for mark in marks if math.isfinite(mark.x)]

    # The read-out

    def _follow_mouse(self, place: QPointF) -> None:
        if self.curves and self.box.sceneBoundingRect().contains(place):
            self._move_cursor(self.box.mapSceneToView(place).x())

    def _move_cursor(self, x: float) -> None:
        self._cursor_x = x
        readings = self.readings(x)
        self._line.setVisible(bool(readings))
        self._line.setPos(x)
        self.bins_read.emit(readings)

    def pointer_left(self) -> None:
        self._cursor_x = None
        self._line.hide()
        self.bins_read.emit(())

    def _step_cursor(self, bins_on: int) -> None:
        """Move so many bins of the highlighted curve, or the first, to the right."""
        if not self.curves:
            return
        curve = self.curves[self.highlighted or 0]
        edges = curve.histogram.edges
        bins = curve.histogram.counts.size
        x = curve.mean if self._cursor_x is None else self._cursor_x
        index = int(np.searchsorted(edges, x, side="right")) - 1 if math.isfinite(x) else 0
        index = min(max(min(max(index, 0), bins - 1) + bins_on, 0), bins - 1)
        self._move_cursor(float(edges[index] + edges[index + 1]) / 2)

    # Qt

    def keyPressEvent(self, event: QKeyEvent) -> None:
        step = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}.get(Qt.Key(event.key()))
        if step is None:
            super().keyPressEvent(event)
            return
        far = event.modifiers() & Qt.KeyboardModifier.ControlModifier
        self._step_cursor(step * (_FAR if far else 1))
