"""Plots of errors: reference against candidate as an image, and the histogram of errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QWidget

from explorer.analysis.errors.pictures import PairSquare
from explorer.present.explanations import picture_text
from explorer.present.pictures import density_sentence
from explorer.qt.widgets.plot import PlotColours, ThemedPlot, tick_count
from explorer.qt.widgets.profiles import ColourBar, SquareBox

_DARKEST: Final = 0.25  # of viridis, that is still seen on a dark background
_FAR: Final = 10  # cells that Ctrl with an arrow key goes
_CROSS, _DIAGONAL = 10, 5
_STEPS: Final = {
    Qt.Key.Key_Left: (0, -1),
    Qt.Key.Key_Right: (0, 1),
    Qt.Key.Key_Up: (1, 0),
    Qt.Key.Key_Down: (-1, 0),
}


@dataclass(frozen=True, slots=True)
class CellReading:
    """The cell under the cursor: its edges along reference and candidate, and its pairs."""

    reference: tuple[float, float]
    candidate: tuple[float, float]
    count: int


class CountBar(ColourBar):
    """The legend: numbers of pairs by colour."""

    def show_counts(
        self, most: int, logarithmic: bool, colours: pg.ColorMap
    ) -> tuple[float, float]:
        """Show the colours of counts up to `most`; return the levels that they are drawn with."""
        if logarithmic:
            levels = 0.0, max(1.0, math.log10(max(1, most)))
            powers = range(math.floor(levels[1]) + 1)
            ticks = [(float(power), tick_count(10**power)) for power in powers]
        else:
            levels = 0.0, float(max(1, most))
            ticks = [(share * levels[1], tick_count(round(share * most))) for share in (0, 0.5, 1)]
        self.show(levels, colours, "Pairs")
        self._axis.setTicks([ticks])
        return levels


class DensityPlot(ThemedPlot):
    """Draws a `PairSquare`; colours show counts, or their logarithms.

    Signals:
        cell_read: The cursor moved; a `CellReading`, or None outside of the cells.
    """

    cell_read = Signal(object)
    ruled = False  # a picture fills it

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent, SquareBox())
        self.square: PairSquare | None = None
        self.logarithmic = True
        self._cell: tuple[int, int] | None = None  # row, column
        self._image = pg.ImageItem(axisOrder="row-major")
        self._diagonal = pg.PlotCurveItem()
        self._diagonal.setZValue(_DIAGONAL)
        self._cross = [pg.InfiniteLine(angle=angle) for angle in (0, 90)]
        for part in (self._image, self._diagonal, *self._cross):
            self.addItem(part, ignoreBounds=True)
        for line in self._cross:
            line.setZValue(_CROSS)
            line.hide()
        self._bar = CountBar(self.getPlotItem())
        self.setAccessibleName("Reference against candidate")
        self.setWhatsThis(picture_text("density"))
        for name in ("left", "bottom"):
            self.getPlotItem().getAxis(name).enableAutoSIPrefix(False)
        self.scene().sigMouseMoved.connect(self._follow_mouse)
        self.restyle()

    def show_square(self, square: PairSquare | None) -> None:
        """Draw other pairs; the zoom stays."""
        self.square = square
        self._draw()
        if square is not None:
            self.box.set_home(_area(square))
        else:
            self.box.is_empty = True
            self.forget_zoom()
        self._read()

    def set_logarithmic(self, on: bool) -> None:
        """Let colours show the logarithms of counts, or the counts."""
        self.logarithmic = on
        self._draw()

    def data_columns(self) -> list[tuple[str, list[Any]]]:
        """Return a line for each cell that holds something."""
        if self.square is None:
            return []
        counts, edges = self.square.counts, self.square.edges
        rows, columns = np.nonzero(counts)
        return [
            ("reference_low", edges[columns].tolist()),
            ("reference_high", edges[columns + 1].tolist()),
            ("candidate_low", edges[rows].tolist()),
            ("candidate_high", edges[rows + 1].tolist()),
            ("count", counts[rows, columns].tolist()),
        ]

    def sentence(self) -> str:
        if self.square is None:
            return ""
        pairs = int(self.square.counts.sum())
        return density_sentence(pairs, pairs - int(self.square.counts.trace()))

    def pointers(self) -> Sequence[Any]:
        return self._cross

    def restyle(self) -> None:
        super().restyle()
        colours = self.colours
        item = self.getPlotItem()
        item.setLabel("bottom", "Reference", color=colours.text.name())
        item.setLabel("left", "Candidate", color=colours.text.name())
        pen = colours.pen(colours.text, style=Qt.PenStyle.DashLine)
        self._diagonal.setPen(pen)
        self._diagonal.setShadowPen(colours.pen(colours.background, width=2))
        for line in self._cross:
            line.setPen(colours.pen(colours.accent))
        self._bar.restyle(colours)
        self._draw()

    def _draw(self) -> None:
        square = self.square
        if square is None:
            self._image.clear()
            self._diagonal.setData([], [])
            return
        counts = square.counts
        colours = _colour_map(self.colours)
        most = int(counts.max(initial=0))
        levels = self._bar.show_counts(most, self.logarithmic, colours)
        heights = np.full(counts.shape, np.nan, np.float32)  # NaN is left out
        np.copyto(heights, counts, where=counts > 0, casting="unsafe")
        if self.logarithmic:
            heights = np.log10(heights)
        self._image.setImage(heights, autoLevels=False, levels=levels)
        self._image.setColorMap(colours)
        self._image.setRect(_area(square))
        ends = square.edges[[0, -1]]
        self._diagonal.setData(ends, ends)

    # The read-out

    def _follow_mouse(self, scene: QPointF) -> None:
        if self.square is None or not self.box.sceneBoundingRect().contains(scene):
            return
        there = self.box.mapSceneToView(scene)
        edges = self.square.edges
        row, column = (
            int(np.searchsorted(edges, value, side="right")) - 1 for value in (there.y(), there.x())
        )
        size = len(edges) - 1
        self._cell = (row, column) if 0 <= row < size and 0 <= column < size else None
        self._read()

    def pointer_left(self) -> None:
        self._cell = None
        self._read()

    def _read(self) -> None:
        """Show what the cursor stands on, and draw a cross there."""
        square, cell = self.square, self._cell
        if square is not None and cell is not None and max(cell) >= len(square.counts):
            cell = self._cell = None
        for line in self._cross:
            line.setVisible(cell is not None and square is not None)
        if square is None or cell is None:
            self.cell_read.emit(None)
            return
        row, column = cell
        edges = square.edges.tolist()
        reference, candidate = (edges[column], edges[column + 1]), (edges[row], edges[row + 1])
        for line, ends in zip(self._cross, (candidate, reference), strict=True):
            line.setPos(sum(ends) / 2)
        self.cell_read.emit(CellReading(reference, candidate, int(square.counts[row, column])))

    # Qt

    def keyPressEvent(self, event: QKeyEvent) -> None:
        step = _STEPS.get(Qt.Key(event.key()))
        if step is None or self.square is None:
            super().keyPressEvent(event)
            return
        by = _FAR if event.modifiers() & Qt.KeyboardModifier.ControlModifier else 1
        last = len(self.square.counts) - 1
        row, column = self._cell or (last // 2, last // 2)
        if self._cell is not None:
            row, column = row + by * step[0], column + by * step[1]
        self._cell = min(max(row, 0), last), min(max(column, 0), last)
        self._read()


def _area(square: PairSquare) -> QRectF:
    low, size = float(square.edges[0]), float(square.edges[-1] - square.edges[0])
    return QRectF(low, low, size, size)


def _colour_map(colours: PlotColours) -> pg.ColorMap:
    """Return viridis, without what a dark background would hide."""
    viridis = pg.colormap.get("viridis")
    if colours.background.lightness() > colours.text.lightness():
        return viridis
    places = np.linspace(_DARKEST, 1, 64)
    return pg.ColorMap(np.linspace(0, 1, 64), viridis.map(places, mode="byte"))
