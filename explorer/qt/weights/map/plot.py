"""The picture of a map, with profiles, colours, block borders and a mark at the chosen weight."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent
from PySide6.QtWidgets import QGraphicsRectItem, QWidget

from explorer.analysis.tensor_map.map import TensorMap, Window
from explorer.present.explanations import picture_text
from explorer.present.pictures import extremes_sentence
from explorer.qt.theme import series_colour
from explorer.qt.weights.values import Place
from explorer.qt.widgets.building import add_action
from explorer.qt.widgets.plot import ThemedPlot, ZoomBox
from explorer.qt.widgets.profiles import ColourBar, Profiles
from explorer.text import float_text


class IndexAxis(pg.AxisItem):  # type: ignore[misc] # pyqtgraph has no types
    """Names rows or columns, each at its middle."""

    def __init__(self, side: str) -> None:
        super().__init__(side)
        self.enableAutoSIPrefix(False)
        self.name_of: Callable[[int], str] = str

    # pyqtgraph

    def tickSpacing(self, low: float, high: float, size: float) -> list[tuple[float, float]]:
        spacings = {max(1.0, float(spacing)) for spacing, _ in super().tickSpacing(low, high, size)}
        return [(spacing, 0.5) for spacing in sorted(spacings, reverse=True)]

    def tickStrings(self, values: Sequence[float], scale: float, spacing: float) -> list[str]:
        return [self.name_of(int(value)) for value in values]


_LEAST: Final = 4.0  # rows and columns that are always in sight
_FLAT_PIXELS: Final = 6  # a rubber band of less reaches from edge to edge


class MapBox(ZoomBox):
    """The area of a map, which zooms both axes alike and never leaves the matrix.

    Row 0 is at the top. A weight takes the square from its row and column to the next ones. A drag
    with Shift, or with the middle button, moves the area.
    """

    def __init__(self) -> None:
        super().__init__()
        self.invertY(True)

    def narrowed(self, factor: float, centre: QPointF) -> QRectF:
        area = QRectF(self.viewRect())
        width = max(area.width() / factor, min(_LEAST, self.home.width()))
        height = max(area.height() / factor, min(_LEAST, self.home.height()))
        left = centre.x() - (centre.x() - area.left()) * width / area.width()
        top = centre.y() - (centre.y() - area.top()) * height / area.height()
        return QRectF(left, top, width, height)

    def zoom_to(self, area: QRectF) -> None:
        if self._inside(area) == self.home:
            self.go_home()
        else:
            super().zoom_to(area)

    def move_by(self, x: float, y: float) -> None:
        """Move by shares of what is shown; that is not a zoom, and not taken back by `go_back`."""
        if self.is_zoomed:
            area = QRectF(self.viewRect())
            self._show(area.translated(x * area.width(), y * area.height()))
            self.zoomed.emit()

    def centre_on(self, row: int, column: int, rows: int, columns: int) -> None:
        """Show a weight with so many others around it."""
        self.zoom_to(QRectF(column + 0.5 - columns / 2, row + 0.5 - rows / 2, columns, rows))

    def _inside(self, area: QRectF) -> QRectF:
        """Return an area of the same size, or as large as can be, that is inside of the matrix."""
        home = self.home
        width, height = min(area.width(), home.width()), min(area.height(), home.height())
        left = min(max(area.left(), home.left()), home.right() - width)
        top = min(max(area.top(), home.top()), home.bottom() - height)
        return QRectF(left, top, width, height)

    def _show(self, area: QRectF) -> None:
        super()._show(self._inside(area))

    def _band(self, event: Any) -> QRectF:
        band = QRectF(event.buttonDownPos(event.button()), event.pos()).normalized()
        if not band.width() < _FLAT_PIXELS <= band.height():
            return super()._band(event)
        box = self.boundingRect()
        band.setLeft(box.left())
        band.setRight(box.right())
        return band.intersected(box)

    # Qt

    def mouseDragEvent(self, event: Any, axis: int | None = None) -> None:
        shift = event.modifiers() & Qt.KeyboardModifier.ShiftModifier
        if event.button() == Qt.MouseButton.MiddleButton or shift:
            event.accept()
            here, before = (self.mapToView(place) for place in (event.pos(), event.lastPos()))
            area = QRectF(self.viewRect())
            moved = before - here
            self.move_by(moved.x() / area.width(), moved.y() / area.height())
        else:
            super().mouseDragEvent(event, axis)


SIGNED: Final = "CET-D1"
"""Blue, white, red: for the two signs; different for every kind of colour vision."""

UNSIGNED: Final = "viridis"
_GRID_PIXELS: Final = 6.0  # a weight must be so large before lines are drawn between blocks
_LEAST_ROOM: Final = 64.0  # pixels that are drawn for before the plot has got its size
_STEP: Final = 0.1  # of what is shown, that an arrow key moves it by
_NOT_FINITE: Final = 3  # of the series' colours: purple, which is in neither colour map
_STEPS: Final = {
    Qt.Key.Key_Left: (0, -1),
    Qt.Key.Key_Right: (0, 1),
    Qt.Key.Key_Up: (-1, 0),
    Qt.Key.Key_Down: (1, 0),
}


@dataclass(frozen=True, slots=True)
class Layer:
    """A map, and what is drawn of it.

    Attributes:
        cells: The map.
        image: What each cell shows, float32 [rows, columns]; NaN is left out.
    """

    cells: TensorMap
    image: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class BlockSizes:
    """How many weights of a row belong together; 1 if none do.

    Attributes:
        block: Weights of a block.
        group: Weights that share a scale.
    """

    block: int = 1
    group: int = 1


class MapPlot(ThemedPlot):
    """Draws layers, the finest on top.

    Signals:
        view_changed: Something else is in sight, or the plot has another size.
        place_pointed: The mouse is over a weight, or None; a `Place`.
        place_chosen: A weight was clicked, or reached with the keys; a `Place`.
        value_wanted: What is under the cursor shall be copied.
        position_wanted: Where the cursor is shall be copied.
    """

    box: MapBox
    view_changed = Signal()
    place_pointed = Signal(object)
    place_chosen = Signal(object)
    value_wanted = Signal()
    position_wanted = Signal()
    ruled = False  # a picture fills it

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent, MapBox())
        self.layers: tuple[Layer, ...] = ()
        self.chosen: Place | None = None
        self._pointed: Place | None = None
        self._complete = False
        self._sizes = BlockSizes()
        item = self.getPlotItem()
        self._rows, self._columns = IndexAxis("left"), IndexAxis("bottom")
        item.setAxisItems({"left": self._rows, "bottom": self._columns})
        self._ground = QGraphicsRectItem()
        self._ground.setPen(pg.mkPen(None))
        self._images = [pg.ImageItem(axisOrder="row-major") for _ in range(2)]
        self._blocks = pg.PlotCurveItem(connect="pairs")
        self._groups = pg.PlotCurveItem(connect="pairs")
        self._mark = pg.PlotCurveItem(connect="pairs")
        for part in (self._ground, *self._images, self._groups, self._blocks, self._mark):
            self.addItem(part, ignoreBounds=True)
        self._profiles, self._bar = Profiles(item, "RMS"), ColourBar(item)
        self.setAccessibleName("Map of the tensor")
        self.setWhatsThis(picture_text("map"))
        self.copy_value_action = add_action(self, "Copy &value", self.value_wanted, "Ctrl+C")
        self.copy_position_action = add_action(
            self, "Copy &position", self.position_wanted, "Ctrl+Shift+P"
        )
        self.more_actions = [self.copy_value_action, self.copy_position_action]
        self.box.sigRangeChanged.connect(lambda *_: self._look_again())
        self.box.sigResized.connect(lambda *_: self._look_again())
        self.scene().sigMouseMoved.connect(lambda scene: self._point_to(self._place_at(scene)))
        self.scene().sigMouseClicked.connect(self._click)
        self.restyle()

    # What is drawn

    def show_matrix(
        self, whole: Window, name_of_row: Callable[[int], str], sizes: BlockSizes
    ) -> None:
        """Make room for another matrix; nothing is drawn of it yet.

        Args:
            whole: All rows and columns that can be looked at.
            name_of_row: Makes a name of a row's number.
            sizes: Of its blocks.
        """
        self._rows.name_of = name_of_row
        self._sizes = sizes
        area = QRectF(whole.left, whole.top, whole.width, whole.height)
        self._ground.setRect(area)
        self.clear_layers()
        if area != self.box.home:
            self.choose(None)
            self.box.home = area
            self.forget_zoom()

    def set_sizes(self, sizes: BlockSizes) -> None:
        """Draw borders of other blocks."""
        self._sizes = sizes
        self._draw_borders()

    def show_layers(
        self, layers: tuple[Layer, ...], levels: tuple[float, float], title: str
    ) -> None:
        """Draw other layers.

        Args:
            layers: Up to two, the finest last; its profiles are shown.
            levels: Numbers with the first and the last colour.
            title: What they are of.
        """
        self.layers = layers
        self._complete = bool(layers) and layers[-1].cells.complete
        colours = pg.colormap.get(SIGNED if levels[0] < 0 < levels[1] else UNSIGNED)
        self._bar.show(levels, colours, title)
        for place, image in enumerate(self._images):
            image.setVisible(place < len(layers))
            if place < len(layers):
                layer = layers[place]
                image.setImage(layer.image, autoLevels=False, levels=levels)
                image.setColorMap(colours)
                image.setRect(_area_of(layer.cells))
        if layers:
            cells = layers[-1].cells
            self._profiles.show(_edges_of(cells), (cells.row_rms, cells.column_rms))
        self._paint_ground()

    def clear_layers(self) -> None:
        """Draw nothing."""
        self.layers = ()
        self._complete = False
        for image in self._images:
            image.clear()
        self._profiles.clear()
        self._paint_ground()

    def choose(self, place: Place | None) -> None:
        """Mark a weight; None marks none."""
        self.chosen = place
        if place is None:
            self._mark.setData([], [])
            return
        row, column, home = place[0] + 0.5, place[1] + 0.5, self.box.home
        across = [home.left(), column - 0.5, column + 0.5, home.right()]
        down = [home.top(), row - 0.5, row + 0.5, home.bottom()]
        self._mark.setData(np.array([*across, *[column] * 4]), np.array([*[row] * 4, *down]))

    # What is in sight

    @property
    def place(self) -> Place | None:
        """Where the mouse is, or else the chosen weight."""
        return self.chosen if self._pointed is None else self._pointed

    def seen(self) -> Window:
        home, area = self.box.home, QRectF(self.box.viewRect())
        whole = Window(*map(int, (home.top(), home.left(), home.height(), home.width())))
        top, left = math.floor(area.top()), math.floor(area.left())
        bottom, right = math.ceil(area.bottom()), math.ceil(area.right())
        return Window(top, left, bottom - top, right - left).intersected(whole)

    def room(self) -> tuple[int, int]:
        """Return how many pixels of the screen the picture is high and wide."""
        ratio = self.devicePixelRatioF()
        size = self.box.size()
        height, width = max(size.height(), _LEAST_ROOM), max(size.width(), _LEAST_ROOM)
        return int(height * ratio), int(width * ratio)

    def sentence(self) -> str:
        if not self.layers:
            return ""
        grid, image = self.layers[-1].cells.grid, self.layers[-1].image

        def name_of(at: int) -> str:
            part = grid.window_of(divmod(at, image.shape[1]))
            rows, columns = range_text(part.top, part.bottom), range_text(part.left, part.right)
            return f"{float_text(float(image.flat[at]), 4)} in row {rows}, column {columns}"

        return extremes_sentence(self.accessibleName(), image.ravel().astype(np.float64), name_of)

    def data_columns(self) -> list[tuple[str, list[Any]]]:
        """Return the picture: a column for each of its own, headed by what it covers."""
        if not self.layers:
            return []
        layer = self.layers[-1]
        grid = layer.cells.grid
        tops = [grid.window_of((row, 0)) for row in range(grid.shape[0])]
        lefts = [grid.window_of((0, column)) for column in range(grid.shape[1])]
        rows = [range_text(part.top, part.bottom) for part in tops]
        columns = layer.image.T.tolist()
        heads = [range_text(part.left, part.right) for part in lefts]
        return [("rows \\ columns", rows), *zip(heads, columns, strict=True)]

    def restyle(self) -> None:
        super().restyle()
        colours = self.colours
        item = self.getPlotItem()
        item.setLabel("left", "Row", color=colours.text.name())
        item.setLabel("bottom", "Column", color=colours.text.name())
        self._blocks.setPen(colours.pen(QColor(0, 0, 0, 170)))
        self._groups.setPen(colours.pen(QColor(0, 0, 0, 110), style=Qt.PenStyle.DotLine))
        self._mark.setPen(colours.pen(colours.text, style=Qt.PenStyle.DashLine))
        self._mark.setShadowPen(colours.pen(colours.background, width=2))
        self._profiles.restyle(colours)
        self._bar.restyle(colours)
        self._paint_ground()

    def _paint_ground(self) -> None:
        """Colour what no cell covers: not read yet, or not a number."""
        ground = series_colour(_NOT_FINITE) if self._complete else self.colours.grid
        self._ground.setBrush(pg.mkBrush(ground))

    def _look_again(self) -> None:
        self._draw_borders()
        self.view_changed.emit()

    def _draw_borders(self) -> None:
        """Draw lines between blocks where weights are large enough."""
        area = QRectF(self.box.viewRect())
        seen = self.seen()
        large = self.box.width() >= _GRID_PIXELS * area.width() and seen.weights > 0
        for curve, size in ((self._blocks, self._sizes.block), (self._groups, self._sizes.group)):
            if not large or size < 2:
                curve.setData([], [])
                continue
            first = -(-seen.left // size) * size
            edges = np.arange(first, seen.right + 1, size).astype(np.float64)
            x = np.repeat(edges, 2)
            y = np.tile([float(seen.top), float(seen.bottom)], edges.size)
            if self.box.height() >= _GRID_PIXELS * area.height() and curve is self._blocks:
                rows = np.arange(seen.top, seen.bottom + 1, dtype=np.float64)
                ends = np.tile([float(seen.left), float(seen.right)], rows.size)
                x, y = np.concatenate((x, ends)), np.concatenate((y, np.repeat(rows, 2)))
            curve.setData(x, y)

    # The cursor

    def _place_at(self, scene: QPointF) -> Place | None:
        if not self.box.sceneBoundingRect().contains(scene):
            return None
        there = self.box.mapSceneToView(scene)
        row, column = math.floor(there.y()), math.floor(there.x())
        seen = self.seen()
        inside = seen.top <= row < seen.bottom and seen.left <= column < seen.right
        return (row, column) if inside else None

    def _point_to(self, place: Place | None) -> None:
        if place != self._pointed:
            self._pointed = place
            self.place_pointed.emit(place)

    def _click(self, event: Any) -> None:
        place = self._place_at(event.scenePos())
        if event.button() == Qt.MouseButton.LeftButton and place is not None:
            self._take(place)

    def _take(self, place: Place) -> None:
        self.choose(place)
        self.place_chosen.emit(place)

    def _step(self, down: int, across: int) -> None:
        """Choose the neighbouring cell; at first, the one in the middle."""
        seen = self.seen()
        if not seen.weights:
            return
        row, column = self.chosen or (seen.top + seen.height // 2, seen.left + seen.width // 2)
        if self.chosen is not None:
            grid = self.layers[-1].cells.grid if self.layers else None
            row += down * (grid.cell_rows if grid else 1)
            column += across * (grid.cell_columns if grid else 1)
        row = min(max(row, seen.top), seen.bottom - 1)
        column = min(max(column, seen.left), seen.right - 1)
        self._pointed = None
        self._take((row, column))

    def _zoom(self, factor: float) -> None:
        seen, place = self.seen(), self.chosen
        centre = QRectF(self.box.viewRect()).center()
        if place is not None and seen.contains(Window(*place, 1, 1)):
            centre = QPointF(place[1] + 0.5, place[0] + 0.5)
        self.box.zoom_to(self.box.narrowed(factor, centre))

    # Qt

    def keyPressEvent(self, event: QKeyEvent) -> None:
        step = _STEPS.get(Qt.Key(event.key()))
        if step is None:
            super().keyPressEvent(event)
        elif event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            self._step(*step)
        else:
            self.box.move_by(_STEP * step[1], _STEP * step[0])

    def pointer_left(self) -> None:
        self._point_to(None)


def range_text(start: int, stop: int) -> str:
    """Return a range of rows or columns, its last one included: ``"16–31"``, or ``"16"``."""
    return str(start) if stop - start == 1 else f"{start}–{stop - 1}"


def _area_of(cells: TensorMap) -> QRectF:
    """Return where a map lies; cells at its edges are drawn in full, out of sight."""
    grid = cells.grid
    rows, columns = grid.shape
    window = grid.window
    return QRectF(window.left, window.top, columns * grid.cell_columns, rows * grid.cell_rows)


def _edges_of(cells: TensorMap) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    grid = cells.grid
    return (
        np.append(grid.window.top, grid.window.top + np.cumsum(grid.heights)).astype(np.float64),
        np.append(grid.window.left, grid.window.left + np.cumsum(grid.widths)).astype(np.float64),
    )
