"""The weights of a block as a picture: decoded and reference values, and the levels as a ruler.

Levels are those that a weight of the sub-block under the cursor could have been rounded to; one
sees at once which part of them is used, and where a reference lies beyond the last.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QWidget

from explorer.analysis.block_detail import BlockDetail
from explorer.analysis.block_search import ComparedBlock
from explorer.present.explanations import picture_text
from explorer.present.pictures import block_sentence
from explorer.qt.theme import series_colour
from explorer.qt.widgets.plot import NumberAxis, ThemedPlot, brush

_LEVEL_PIXELS: Final = 3  # levels nearer to each other would be a grey area
_MARGIN: Final = 0.06
_LEGEND_ROOM: Final = 0.2  # above the values, where there is a legend
_SYMBOL: Final = 6
_SMALL_SYMBOL: Final = 4
_FEW: Final = 64  # weights that lines help to follow; between more they hide the points
_MARKED_SYMBOL: Final = 11
_REFERENCE: Final = 1  # of the series' colours: orange
_FAR: Final = 8  # weights that Ctrl with an arrow key goes


class BlockPlot(ThemedPlot):
    """Draws one block; x is the number of the weight in it.

    Attributes:
        cursor_weight: The weight that the levels are shown for; -1 for none.

    Signals:
        weight_hovered: The mouse is over a weight; -1 when it has left.
        weight_chosen: A weight was clicked, or arrived at by keys.
    """

    weight_hovered = Signal(int)
    weight_chosen = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.cursor_weight = -1
        self._detail: BlockDetail | None = None
        self._compared: ComparedBlock | None = None
        self._marked: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._levels = pg.PlotDataItem(connect="pairs")
        self._edges = pg.PlotDataItem(connect="pairs")
        self._other = pg.PlotDataItem()
        self._values = pg.PlotDataItem()
        self._marks = pg.PlotDataItem()
        for depth, curve in enumerate(
            (self._edges, self._levels, self._other, self._marks, self._values)
        ):
            curve.setZValue(depth)
            self.addItem(curve)
        self._line = pg.InfiniteLine(angle=90, movable=False)
        self._line.hide()
        self.addItem(self._line, ignoreBounds=True)
        self._legend = self.add_legend((-8, 6), columns=2)
        item = self.getPlotItem()
        item.setAxisItems({"left": NumberAxis("left")})  # values are no counts
        for name in ("left", "bottom"):
            item.getAxis(name).enableAutoSIPrefix(False)
        self.setAccessibleName("Weights of the block")
        self.setWhatsThis(picture_text("block_weights"))
        self.box.sigRangeChanged.connect(lambda *_: self._draw_ruler())
        self.box.sigResized.connect(lambda *_: self._draw_ruler())
        self.scene().sigMouseMoved.connect(self._follow_mouse)
        self.scene().sigMouseClicked.connect(self._take_click)
        self.restyle()

    def show_block(self, detail: BlockDetail | None, compared: ComparedBlock | None = None) -> None:
        self._detail, self._compared = detail, compared
        count = 0 if detail is None else detail.values.size
        if count != self._marked.size:
            self.cursor_weight = -1
        self._marked = np.zeros(count, np.bool_)
        self._draw()
        self.forget_zoom()

    def show_weights(self, marked: NDArray[np.bool_], cursor: int) -> None:
        """Mark weights, and show the levels of the sub-block of one of them.

        Args:
            marked: bool [weights].
            cursor: The weight; -1 for none.
        """
        self._marked, self.cursor_weight = marked, cursor
        self._draw_marks()

    def sentence(self) -> str:
        return "" if self._detail is None else block_sentence(self._detail.values)

    def data_columns(self) -> list[tuple[str, list[Any]]]:
        """Return the values of all weights."""
        detail, compared = self._detail, self._compared
        if detail is None:
            return []
        columns: list[tuple[str, list[Any]]] = [
            ("weight", list(range(detail.values.size))),
            ("code", detail.codes.tolist()),
            ("level", detail.weight_levels.tolist()),
            ("value", detail.values.tolist()),
        ]
        if compared is not None:
            columns += [
                ("reference", compared.reference.tolist()),
                ("candidate", compared.candidate.tolist()),
                ("error", compared.errors.tolist()),
            ]
        return columns

    def restyle(self) -> None:
        super().restyle()
        colour = self.colours.text.name()
        item = self.getPlotItem()
        item.setLabel("bottom", "Weight in the block", color=colour)
        item.setLabel("left", "Value", color=colour)
        self._line.setPen(self.colours.pen(self.colours.grid))
        self._draw()

    # Drawing

    def _draw(self) -> None:
        detail = self._detail
        if detail is None:
            for item in (self._levels, self._edges, self._other, self._values, self._marks):
                item.setData([], [])
            self._legend.clear()
            return
        accent = self.colours.text
        places = np.arange(detail.values.size)
        self._values.setData(
            *_drawable(places, detail.values),
            pen=self.colours.pen(accent) if self._few else None,
            connect="finite",
            symbol="o",
            symbolSize=_SYMBOL if self._few else _SMALL_SYMBOL,
            symbolBrush=brush(accent),
            symbolPen=self.colours.pen(accent, style=Qt.PenStyle.NoPen),
        )
        self._draw_other(places)
        self._draw_edges(detail)
        self._draw_legend()
        self.box.set_home(self._whole(detail))
        self._draw_marks()

    @property
    def _few(self) -> bool:
        return self._detail is not None and self._detail.values.size <= _FEW

    def _draw_other(self, places: NDArray[np.intp]) -> None:
        """Draw what the weights are compared with: as crosses, not by colour alone."""
        other = self._other_values()
        if other is None:
            self._other.setData([], [])
            return
        colour = series_colour(_REFERENCE)
        self._other.setData(
            *_drawable(places, other),
            pen=self.colours.pen(colour, style=Qt.PenStyle.DotLine) if self._few else None,
            connect="finite",
            symbol="x",
            symbolSize=(_SYMBOL if self._few else _SMALL_SYMBOL) + 2,
            symbolBrush=brush(colour),
            symbolPen=self.colours.pen(colour),
        )

    def _other_values(self) -> NDArray[np.float32] | None:
        compared = self._compared
        if compared is None:
            return None
        return compared.candidate if compared.is_rounding else compared.reference

    def _draw_edges(self, detail: BlockDetail) -> None:
        edges = np.arange(1, detail.scales.size) * detail.weights_per_scale - 0.5
        area = self._whole(detail)
        heights = np.tile([area.top(), area.bottom()], edges.size)
        pen = self.colours.pen(self.colours.grid, style=Qt.PenStyle.DashLine)
        self._edges.setData(edges.repeat(2), heights, connect="pairs", pen=pen)

    def _draw_legend(self) -> None:
        self.clear_legend(self._legend)
        compared = self._compared
        self._legend.setVisible(compared is not None)
        if compared is not None:
            name = "rounded" if compared.is_rounding else "reference"
            self._legend.addItem(self._values, "this block")
            self._legend.addItem(self._other, name)

    def _draw_marks(self) -> None:
        detail, cursor = self._detail, self.cursor_weight
        if detail is None:
            return
        marked = np.flatnonzero(self._marked)
        some = 0 < marked.size < detail.values.size
        places = marked if some else marked[:0]
        self._marks.setData(
            *_drawable(places, detail.values[places]),
            pen=None,
            symbol="o",
            symbolSize=_MARKED_SYMBOL,
            symbolBrush=None,
            symbolPen=self.colours.pen(self.colours.text),
        )
        self._line.setVisible(cursor >= 0)
        self._line.setPos(cursor)
        self._draw_ruler()

    def _draw_ruler(self) -> None:
        detail, cursor = self._detail, self.cursor_weight
        if detail is None:
            return
        heights = self._ruler(detail, cursor)
        sub = max(0, cursor) // detail.weights_per_scale
        left = sub * detail.weights_per_scale - 0.5
        ends = np.tile([left, left + detail.weights_per_scale], heights.size)
        pen = self.colours.pen(self.colours.grid)
        self._levels.setData(ends, heights.repeat(2), connect="pairs", pen=pen)

    def _ruler(self, detail: BlockDetail, cursor: int) -> NDArray[np.float64]:
        """Return the values that are levels of the sub-block of a weight, float64 [n].

        None where they would be too near to each other; zooming in brings them.
        """
        if cursor < 0:
            return np.zeros(0)
        levels = detail.values_of_levels(cursor // detail.weights_per_scale)
        known: NDArray[np.float64] = np.unique(levels[np.isfinite(levels)])
        pixel = self.box.viewRect().height() / max(1.0, self.box.boundingRect().height())
        if known.size > 1 and float(np.median(np.diff(known))) < _LEVEL_PIXELS * pixel:
            return known[:0]
        return known

    def _whole(self, detail: BlockDetail) -> QRectF:
        """Return the area of all values, those of levels left out."""
        parts = [detail.values, self._other_values()]
        values = np.concatenate([part for part in parts if part is not None])
        finite = values[np.isfinite(values)]
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
        margin = (high - low) * _MARGIN or abs(high) * _MARGIN or 1.0
        head = margin if self._compared is None else _LEGEND_ROOM * (high - low)
        height = high - low + margin + max(margin, head)
        return QRectF(-1, low - margin, detail.values.size + 1, height)

    def pointers(self) -> Sequence[Any]:
        return (self._line,)

    # Where the mouse is

    def weight_at(self, x: float) -> int:
        """Return the weight nearest to a place; -1 where there is none."""
        count = 0 if self._detail is None else self._detail.values.size
        if not math.isfinite(x):
            return -1
        weight = round(x)
        return weight if 0 <= weight < count else -1

    def _follow_mouse(self, place: QPointF) -> None:
        inside = self.box.sceneBoundingRect().contains(place)
        self.weight_hovered.emit(
            self.weight_at(self.box.mapSceneToView(place).x()) if inside else -1
        )

    def pointer_left(self) -> None:
        self.weight_hovered.emit(-1)

    def _take_click(self, event: Any) -> None:
        weight = self.weight_at(self.box.mapSceneToView(event.scenePos()).x())
        if event.button() == Qt.MouseButton.LeftButton and weight >= 0:
            self.weight_chosen.emit(weight)

    # Qt

    def keyPressEvent(self, event: QKeyEvent) -> None:
        step = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}.get(Qt.Key(event.key()))
        if step is None or self._detail is None:
            super().keyPressEvent(event)
            return
        if event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            step *= _FAR
        last = self._detail.values.size - 1
        start = self.cursor_weight
        self.weight_chosen.emit(min(max(0, start + step), last) if start >= 0 else 0)


def _drawable(
    places: NDArray[np.intp], values: NDArray[np.float32]
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return places and values, with gaps where these are not finite; nothing if all are gaps."""
    finite = np.isfinite(values)
    if not finite.any():
        return places[:0], np.zeros(0)
    return places, np.where(finite, values.astype(np.float64), np.nan)
