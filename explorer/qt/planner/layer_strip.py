"""All layers in a row, as wide as their bytes, in their device's colour: one sees what spills."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, Final

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QAccessible,
    QBrush,
    QColor,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPalette,
    QPen,
)
from PySide6.QtWidgets import QFrame, QScrollArea, QSizePolicy, QToolTip, QVBoxLayout, QWidget

from explorer.present.explanations import picture_text
from explorer.present.plan import (
    Layer,
    boundary_of,
    exact_text,
    layers_asked,
    layers_of,
    memory_bars,
)
from explorer.qt.planner.bars import Ink, MemoryBars
from explorer.qt.planner.state import PlannerSession
from explorer.qt.widgets.painting import device_colour, draw_caption, plain_tip
from explorer.qt.widgets.plot import PlotColours

_PAD: Final = 8
_BAR: Final = 30
_GRIP: Final = 5  # pixels at both sides of the boundary that take hold of it
_LEAST_GAP: Final = 4  # pixels of a layer below which no line divides it from the next


class LayerStrip(QWidget):
    """The layers of a plan.

    Attributes:
        layers: What is shown.
        selected: The layer that is selected, or -1.

    Signals:
        layer_chosen: The user chose a layer; its number.
        boundary_moved: The user moved the place where the GPUs begin; the first layer on them.
        held: A drag of the boundary began (true) or ended.
    """

    accessible_role = QAccessible.Role.Graphic

    layer_chosen = Signal(int)
    boundary_moved = Signal(int)
    held = Signal(bool)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setLayoutDirection(Qt.LayoutDirection.LeftToRight)  # a picture
        self.layers: tuple[Layer, ...] = ()
        self.selected = -1
        self._devices: tuple[str, ...] = ()
        self._boundary = 0
        self._ends: list[int] = [0]
        self._dragging = False
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)
        self.setAccessibleName(self.tr("Layers and their devices"))
        self.setWhatsThis(picture_text("layers"))
        self.setMinimumHeight(self.sizeHint().height())

    def show_layers(
        self, layers: tuple[Layer, ...], devices: tuple[str, ...], boundary: int
    ) -> None:
        """Show other layers; painted in the next frame.

        Args:
            layers: The layers.
            devices: What the GPUs are called.
            boundary: The first layer on a GPU.
        """
        self.layers, self._devices, self._boundary = layers, devices, boundary
        # a layer without bytes is there all the same, and is as wide as the smallest one can see
        least = max(1, sum(layer.nbytes for layer in layers) // 1000)
        self._ends = [0, *accumulate(max(layer.nbytes, least) for layer in layers)]
        self.selected = min(self.selected, len(layers) - 1)
        self.setAccessibleDescription(self.describe(self.selected))
        self.update()

    def select(self, layer: int) -> None:
        """Mark a layer; -1 marks none."""
        self.selected = layer if 0 <= layer < len(self.layers) else -1
        self.setAccessibleDescription(self.describe(self.selected))
        self.update()

    def describe(self, number: int) -> str:
        """Return all that is known of a layer, in lines; of none, what the strip shows."""
        if not 0 <= number < len(self.layers):
            return self._title()
        layer = self.layers[number]
        place = self.tr("CPU") if layer.device is None else self._devices[layer.device]
        return "\n".join(
            (
                self.tr("Layer {index} ({name}) on {place}").format(
                    index=layer.index, name=layer.name, place=place
                ),
                self.tr("Weights {size}").format(size=exact_text(layer.weights)),
                self.tr("KV cache {size}").format(size=exact_text(layer.kv_cache)),
            )
        )

    def layer_area(self, number: int, width: int | None = None) -> QRectF:
        """Return where a layer is painted."""
        left, right = self._x(number, width), self._x(number + 1, width)
        return QRectF(left, _PAD + self.fontMetrics().height() + 2, right - left, _BAR)

    def boundary_x(self) -> float:
        """Return where the GPUs begin, in pixels."""
        return self._x(self._boundary, None)

    def layer_at(self, x: float) -> int:
        """Return the layer at a pixel; -1 beside the strip."""
        if not self.layers or not _PAD <= x <= self.width() - _PAD:
            return -1
        place = (x - _PAD) / max(1, self.width() - 2 * _PAD) * self._ends[-1]
        return min(bisect_right(self._ends, place) - 1, len(self.layers) - 1)

    def data_columns(self) -> list[tuple[str, list[Any]]]:
        """Return the layers as columns, for CSV."""
        return [
            ("layer", [layer.index for layer in self.layers]),
            (
                "layer_device",
                [
                    "CPU" if layer.device is None else self._devices[layer.device]
                    for layer in self.layers
                ],
            ),
            ("layer_weights", [layer.weights for layer in self.layers]),
            ("layer_kv_cache", [layer.kv_cache for layer in self.layers]),
        ]

    def paint(self, painter: QPainter, width: int, colours: PlotColours) -> None:
        """Paint the strip into a width."""
        painter.setFont(self.font())
        painter.setPen(colours.text)
        metrics = painter.fontMetrics()
        title = QPointF(_PAD, _PAD + metrics.ascent())
        painter.drawText(title, self._title())
        for start, stop in self._runs():
            self._paint_run(painter, start, stop, width, colours)

    def _title(self) -> str:
        if not self.layers:
            return self.tr("Layers: this profile predicts no place for them")
        on_cpu = sum(layer.device is None for layer in self.layers)
        words = self.tr("Layers 0 to {last}, by bytes: {gpu} on GPUs, {cpu} on the CPU")
        last = len(self.layers) - 1
        return words.format(last=last, gpu=len(self.layers) - on_cpu, cpu=on_cpu)

    def _runs(self) -> Iterator[tuple[int, int]]:
        """Yield the layers that follow each other on one device, as first and one past last."""
        start = 0
        for number in range(1, len(self.layers) + 1):
            ends = number == len(self.layers)
            if ends or self.layers[number].device != self.layers[start].device:
                yield start, number
                start = number

    def _paint_run(
        self, painter: QPainter, start: int, stop: int, width: int, colours: PlotColours
    ) -> None:
        first, last = self.layer_area(start, width), self.layer_area(stop - 1, width)
        area = QRectF(first.left(), first.top(), last.right() - first.left(), _BAR)
        device = self.layers[start].device
        ground = device_colour(device)
        painter.fillRect(area, ground)
        if device is None:  # what spills has a texture too
            line = QColor("black")
            line.setAlpha(70)
            painter.fillRect(area, QBrush(line, Qt.BrushStyle.BDiagPattern))
        if area.width() / (stop - start) >= _LEAST_GAP:
            painter.setPen(colours.background)
            for number in range(start + 1, stop):
                x = self._x(number, width)
                painter.drawLine(QPointF(x, area.top()), QPointF(x, area.bottom()))
        name = self.tr("CPU") if device is None else self._devices[device]
        count = stop - start
        number_text = self.tr("CPU") if device is None else str(device + 1)
        for text in (f"{name}: {count}", f"{number_text}: {count}", number_text):
            if draw_caption(painter, area.adjusted(2, 4, -2, -4), text, ground):
                break

    def _x(self, number: int, width: int | None) -> float:
        room = max(1, (self.width() if width is None else width) - 2 * _PAD)
        if not self.layers:
            return float(_PAD)
        return _PAD + room * self._ends[min(max(number, 0), len(self.layers))] / self._ends[-1]

    def _drag_to(self, x: float) -> None:
        """Let the GPUs begin at the layer edge nearest to a pixel; the output layer has none."""
        edges = range(len(self.layers))
        nearest = min(edges, key=lambda number: abs(self._x(number, None) - x), default=0)
        if nearest != self._boundary:
            self._boundary = nearest
            self.boundary_moved.emit(nearest)
            self.update()

    def _on_boundary(self, x: float) -> bool:
        return bool(self.layers) and abs(x - self.boundary_x()) <= _GRIP

    def _choose(self, number: int) -> None:
        if 0 <= number < len(self.layers):
            self.select(number)
            self.layer_chosen.emit(number)

    # Qt

    def sizeHint(self) -> QSize:
        return QSize(420, 2 * _PAD + self.fontMetrics().height() + 2 + _BAR + 4)

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            x = event.pos().x()
            layer = self.layer_at(x)
            text = self.describe(layer) if layer >= 0 else ""
            if self._on_boundary(x):
                text = self.tr("Drag to choose how many layers go to GPUs")
            QToolTip.showText(event.globalPos(), plain_tip(text), self)
            return True
        return super().event(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setLayoutDirection(Qt.LayoutDirection.LeftToRight)
        palette = self.palette()
        colours = PlotColours.of_palette(palette)
        painter.fillRect(event.rect(), colours.background)
        self.paint(painter, self.width(), colours)
        if self.layers:
            self._paint_boundary(painter, colours)
        if self.selected >= 0:
            painter.setPen(QPen(palette.color(QPalette.ColorRole.Highlight), 3))
            painter.drawRect(self.layer_area(self.selected))
        painter.end()

    def _paint_boundary(self, painter: QPainter, colours: PlotColours) -> None:
        x, area = self.boundary_x(), self.layer_area(0)
        painter.setPen(QPen(colours.text, 3 if self.hasFocus() else 2))
        painter.drawLine(QPointF(x, area.top() - 1), QPointF(x, area.bottom() + 4))
        painter.setBrush(colours.background)
        painter.drawEllipse(QPointF(x, area.bottom() + 4), 3.5, 3.5)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() != Qt.MouseButton.LeftButton:
            return
        x = event.position().x()
        if self._on_boundary(x):
            self._dragging = True
            self.held.emit(True)
        else:
            self._choose(self.layer_at(x))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        x = event.position().x()
        if self._dragging:
            self._drag_to(x)
            return
        grips = self._on_boundary(x)
        self.setCursor(Qt.CursorShape.SplitHCursor if grips else Qt.CursorShape.ArrowCursor)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if self._dragging and event.button() == Qt.MouseButton.LeftButton:
            self._dragging = False
            self.held.emit(False)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        step = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}.get(Qt.Key(event.key()), 0)
        if not step or not self.layers:
            super().keyPressEvent(event)
        elif event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            boundary = min(max(self._boundary + step, 0), len(self.layers) - 1)
            if boundary != self._boundary:
                self._boundary = boundary
                self.boundary_moved.emit(boundary)
        else:
            self._choose(min(max(self.selected + step, 0), len(self.layers) - 1))


# Bars and strip as one picture, which can be saved.


_SHOWN_BARS: Final = 5
_PICTURE_WIDTH: Final = 900


class PlannerPicture(QWidget):
    """What the current plan looks like.

    Attributes:
        bars: A bar for each device.
        strip: All layers.
    """

    def __init__(self, session: PlannerSession, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self.bars = MemoryBars(self.formula_of, self)
        self.strip = LayerStrip(self)
        self._scroll = QScrollArea(self)
        self._scroll.setWidget(self.bars)
        self._scroll.setWidgetResizable(True)
        self._scroll.setFrameShape(QFrame.Shape.NoFrame)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._scroll.setAccessibleName(self.tr("Memory of each device"))
        self._scroll.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self._scroll)
        layout.addWidget(self.strip)
        self.strip.boundary_moved.connect(self._ask_layers)
        self.strip.held.connect(session.hold)
        session.planned.connect(self._follow)
        self._follow()

    def formula_of(self, name: str) -> str:
        """Return how a figure is worked out, in one line; empty if it has no formula."""
        outcome = self._session.outcome
        if outcome is None or outcome.plan is None:
            return ""
        term = next((term for term in outcome.plan.terms if term.name == name), None)
        return "" if term is None else f"{term.name} = {term.formula}"

    def data_columns(self) -> list[tuple[str, list[Any]]]:
        """Return the data behind the picture."""
        return [*self.bars.data_columns(), *self.strip.data_columns()]

    def paint_on_paper(self, painter: QPainter, area: QRectF) -> None:
        """Draw all bars, also those that are scrolled out of sight, and the strip."""
        size = self.picture_size()
        painter.save()
        painter.translate(area.topLeft())
        painter.scale(area.width() / size.width(), area.height() / size.height())
        ink = Ink.on_paper()
        self.bars.paint(painter, size.width(), ink)
        painter.translate(0, self.bars.sizeHint().height())
        self.strip.paint(painter, size.width(), ink.colours)
        painter.restore()

    def picture_size(self) -> QSize:
        """Return the size of the saved picture."""
        height = self.bars.sizeHint().height() + self.strip.sizeHint().height()
        return QSize(_PICTURE_WIDTH, height)

    def _ask_layers(self, boundary: int) -> None:
        outcome = self._session.outcome
        if outcome is not None and outcome.plan is not None and outcome.plan.layout is not None:
            self._session.set(num_gpu=layers_asked(outcome.plan.layout, boundary))

    def _follow(self) -> None:
        outcome = self._session.outcome
        plan = None if outcome is None else outcome.plan
        if plan is None:
            self.bars.show_bars(())
            self.strip.show_layers((), (), 0)
            return
        bars = memory_bars(plan, self._session.inputs.host)
        before = len(self.bars.bars)
        self.bars.show_bars(bars)
        if before != len(bars):
            shown = min(len(bars), _SHOWN_BARS)
            one = self.bars.row_height()
            self._scroll.setFixedHeight(self.bars.sizeHint().height() - (len(bars) - shown) * one)
        if plan.layout is None:
            self.strip.show_layers((), (), 0)
        else:
            names = tuple(bar.title for bar in bars if bar.device is not None)
            self.strip.show_layers(layers_of(plan.layout), names, boundary_of(plan.layout))


class SavedPicture:
    """The picture as `PlotExport` takes it: as large as it must be, not as it is on the screen."""

    def __init__(self, picture: PlannerPicture) -> None:
        self._picture = picture

    def size(self) -> QSize:
        """Return its size."""
        return self._picture.picture_size()

    def paint_on_paper(self, painter: QPainter, area: QRectF) -> None:
        """Draw it in the colours of paper."""
        self._picture.paint_on_paper(painter, area)

    def data_columns(self) -> list[tuple[str, list[Any]]]:
        """Return the data behind it."""
        return self._picture.data_columns()
