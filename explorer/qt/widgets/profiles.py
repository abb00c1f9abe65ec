"""What stands beside the picture of a map: profiles of rows and columns, and the colours' meaning.

All of it is drawn into the layout of the picture's own plot, so that it keeps in line with the
picture and is saved with it.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF

from explorer.qt.widgets.plot import NumberAxis, PlotColours, ZoomBox
from explorer.text import float_text

_THICKNESS: Final = 56  # of a profile, in pixels
_GAP: Final = 8
_COLOURS_WIDTH: Final = 14
_NUMBERS_WIDTH: Final = 74  # with the title
_HEADROOM: Final = 1.08


class Profiles:
    """The root mean square of each row, right of a picture, and of each column, below it.

    They are put into the layout of the picture's plot item.
    """

    def __init__(self, plot: pg.PlotItem, title: str) -> None:
        self._title = title
        self._box = plot.getViewBox()
        self.columns = self._add(plot, 4, 1)
        self.rows = self._add(plot, 2, 3)
        self.rows.invertY(True)
        self._column_axis = NumberAxis("left")
        self._row_axis = NumberAxis("bottom")
        plot.layout.addItem(self._column_axis, 4, 0)
        plot.layout.addItem(self._row_axis, 3, 3)
        plot.layout.setRowFixedHeight(4, _THICKNESS)
        plot.layout.setColumnFixedWidth(3, _THICKNESS)
        plot.layout.setRowSpacing(3, _GAP)
        plot.layout.setColumnSpacing(2, _GAP)
        self._curves = pg.PlotCurveItem(connect="finite"), pg.PlotCurveItem(connect="finite")
        for box, curve in zip((self.columns, self.rows), self._curves, strict=True):
            box.addItem(curve)
        for axis in (self._column_axis, self._row_axis):
            axis.setStyle(tickLength=0, hideOverlappingLabels=False)
            axis.enableAutoSIPrefix(False)
        self._box.sigRangeChanged.connect(lambda *_: self._follow())
        self.clear()

    def show(
        self,
        edges: tuple[NDArray[np.float64], NDArray[np.float64]],
        rms: tuple[NDArray[np.float64], NDArray[np.float64]],
    ) -> None:
        """Draw profiles.

        Args:
            edges: Where rows of cells begin and end, float64 [rows + 1], and the same of columns.
            rms: Their root mean squares, float64 [rows] and [columns]; NaN is a gap.
        """
        down, across = (np.repeat(each, 2)[1:-1] for each in edges)
        rows, columns = (np.repeat(each, 2) for each in rms)
        self._curves[0].setData(across, columns)
        self._curves[1].setData(rows, down)
        for heights, axis, set_range in (
            (columns, self._column_axis, self.columns.setYRange),
            (rows, self._row_axis, self.rows.setXRange),
        ):
            finite = heights[np.isfinite(heights)]
            top = float(finite.max()) if finite.size else 0.0
            set_range(0, (top or 1.0) * _HEADROOM, padding=0)
            axis.setRange(0, (top or 1.0) * _HEADROOM)
            axis.setTicks([[(top, float_text(top, 2))] if top else []])
        self._follow()

    def clear(self) -> None:
        """Draw nothing."""
        for curve, axis in zip(self._curves, (self._column_axis, self._row_axis), strict=True):
            curve.setData([], [])
            axis.setTicks([[]])

    def restyle(self, colours: PlotColours) -> None:
        for curve in self._curves:
            curve.setPen(colours.pen(colours.muted))
        for axis in (self._column_axis, self._row_axis):
            axis.setPen(colours.pen(colours.grid))
            axis.setTextPen(pg.mkPen(colours.text))
            axis.setLabel(self._title, color=colours.text.name())

    def _add(self, plot: pg.PlotItem, row: int, column: int) -> pg.ViewBox:
        box = pg.ViewBox(enableMouse=False, enableMenu=False)
        box.disableAutoRange()
        plot.layout.addItem(box, row, column)
        return box

    def _follow(self) -> None:
        (left, right), (top, bottom) = self._box.viewRange()
        self.columns.setXRange(left, right, padding=0)
        self.rows.setYRange(top, bottom, padding=0)


class ColourBar:
    """Which colour means what, right of a picture and its profiles."""

    def __init__(self, plot: pg.PlotItem) -> None:
        self._box = pg.ViewBox(enableMouse=False, enableMenu=False)
        self._box.disableAutoRange()
        self._axis = NumberAxis("right", linkView=self._box)
        self._axis.enableAutoSIPrefix(False)
        self._axis.setWidth(_NUMBERS_WIDTH)
        self._image = pg.ImageItem(axisOrder="row-major")
        self._image.setImage(np.linspace(0, 1, 256, dtype=np.float32)[:, None], levels=(0, 1))
        self._box.addItem(self._image)
        plot.layout.addItem(self._box, 2, 5)
        plot.layout.addItem(self._axis, 2, 6)
        plot.layout.setColumnFixedWidth(4, _GAP)
        plot.layout.setColumnFixedWidth(5, _COLOURS_WIDTH)
        self.show((0.0, 1.0), pg.colormap.get("viridis"), "")

    def show(self, levels: tuple[float, float], colours: pg.ColorMap, title: str) -> None:
        low, high = levels
        self._axis.setLabel(title)
        self._image.setColorMap(colours)
        self._image.setRect(0, low, 1, high - low)
        self._box.setRange(xRange=(0, 1), yRange=(low, high), padding=0)

    def restyle(self, colours: PlotColours) -> None:
        """Draw numbers and title in other colours."""
        self._axis.setLabel(self._axis.labelText, color=colours.text.name())
        self._axis.setPen(colours.pen(colours.grid))
        self._axis.setTextPen(pg.mkPen(colours.text))


class SquareBox(ZoomBox):
    """A `ZoomBox` whose axes are of one kind: a unit is as long on both, and both zoom."""

    def __init__(self) -> None:
        super().__init__()
        self.setAspectLocked(True)

    def area_of(self, low: float, high: float) -> QRectF:
        return QRectF(low, low, high - low, high - low)

    def narrowed(self, factor: float, centre: QPointF) -> QRectF:
        area = QRectF(self.viewRect())
        left = centre.x() - (centre.x() - area.left()) / factor
        top = centre.y() - (centre.y() - area.top()) / factor
        return QRectF(left, top, area.width() / factor, area.height() / factor)
