"""The picture of a plan: a stacked bar for each device, and all layers in a row, to save as one.

Painted directly and not with pyqtgraph, which is at its best with axes and zoom and has neither
textures nor parts that one can point at; a repaint takes a tenth of a millisecond for each bar.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import accumulate, groupby
from typing import Any, Final

from PySide6 import QtGui
from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtWidgets import QSizePolicy, QWidget

from explorer.planner.plans import Layer
from explorer.present import plan as plan_texts
from explorer.present.explanations import picture_text
from explorer.present.pictures import sentence
from explorer.qt.planner.fields import scrolled
from explorer.qt.planner.state import CurrentPlan, PlannerState
from explorer.qt.services import Services
from explorer.qt.theme import CORNER, Space, TextSize, text_font
from explorer.qt.widgets.building import column
from explorer.qt.widgets.chart import Chart
from explorer.qt.widgets.figures import PlotExport
from explorer.qt.widgets.painting import device_colour, draw_caption, fill_kind, fill_over
from explorer.qt.widgets.plot import PlotColours
from explorer.text import bytes_text, exact_text

_PAD: Final = Space.TIGHT  # above and below
_BAR: Final = 24
_BEYOND: Final = 3  # pixels by which a line is longer than its bar
_SWATCH: Final = 10
_USUAL_SIZE: Final = "88.8 GiB"  # room that each size gets: sizes that change wrap no line
_STRIP: Final = 24
_GRIP: Final = 5  # pixels at both sides of the boundary that take hold of it
_LEAST_GAP: Final = 4  # pixels of a layer below which no line divides it from the next
_SHOWN_BARS: Final = 4
_NOT_NAMED: Final = (plan_texts.Kind.FREE, plan_texts.Kind.SWAP)  # the title says how much
_PICTURE_WIDTH: Final = 900
_LATE: Final = 0.55  # of the opacity

Place = tuple[int, int]
"""Bar and part."""


class MemoryBars(Chart[Place]):
    """The bars of a plan; their parts are what is chosen.

    Attributes:
        bars: What is shown.
        explain: Returns the formula of a figure as a line of text, or nothing.

    Signals:
        figure_chosen: A part was clicked or entered; the name of its figure.
        height_changed: Another height is needed.
    """

    figure_chosen = Signal(str)
    height_changed = Signal()

    def __init__(self, explain: Callable[[str], str], parent: QWidget) -> None:
        super().__init__("Memory of each device", picture_text("bars"), parent)
        self.bars: tuple[plan_texts.Bar, ...] = ()
        self._key_lines = 1
        self.current = (0, 0)
        self.explain = explain
        for way in (self.chosen, self.opened):
            way.connect(self._choose_figure)

    def show_bars(self, bars: tuple[plan_texts.Bar, ...]) -> None:
        """Show other bars; painted in the next frame."""
        if len(bars) != len(self.bars):
            self.current = (0, 0)
        self.bars = bars
        self._fit_height()
        # formulas take longer than all the rest
        self.setAccessibleDescription(self.describe(self.current) if self.hasFocus() else "")
        self.update()

    def _fit_height(self) -> None:
        self._key_lines = self._count_lines()
        height = self.sizeHint().height()
        if height != self.minimumHeight():
            self.updateGeometry()
            self.setMinimumHeight(height)
            self.height_changed.emit()

    def sentence(self) -> str:
        said = []
        for bar in self.bars:
            parts = (f"{part.kind.label} {bytes_text(part.nbytes)}" for part in bar.parts)
            said.append(f"{bar.title}: {', '.join((plan_texts.amount_text(bar), *parts))}")
        return sentence(said)

    def part(self, place: Place | None) -> plan_texts.MemoryPart | None:
        if place is None or not place[0] < len(self.bars):
            return None
        row, number = place
        return self.bars[row].parts[number] if number < len(self.bars[row].parts) else None

    def part_area(self, place: Place) -> QRectF:
        """Return where a part is painted; empty if it has no bytes."""
        row, number = place
        area = self._bar_area(row, self.width())
        return list(_divided(self.bars[row], area))[number][1]

    def describe(self, hit: Place | None) -> str:
        """Return a part's device, kind, bytes and formula, in lines."""
        part = self.part(hit)
        if hit is None or part is None:
            return ""
        bar = self.bars[hit[0]]
        over = f"{exact_text(bar.over_bytes)} too much"
        lines = (
            f"{bar.title}: {part.kind.label} {exact_text(part.nbytes)}",
            self.explain(part.term) if part.term else "",
            over if bar.over_bytes else "",
        )
        return "\n".join(filter(None, lines))

    def data_columns(self) -> list[tuple[str, list[Any]]]:
        """Return the bars as columns, for CSV."""
        return [
            ("device", [bar.title for bar in self.bars]),
            *(
                (kind.value, [bar.nbytes(kind) for bar in self.bars])
                for kind in plan_texts.kinds_in(self.bars)
            ),
            ("over", [bar.over_bytes for bar in self.bars]),
        ]

    def paint(self, painter: QtGui.QPainter, size: QSize, colours: PlotColours) -> None:
        """Paint the bars into a width, each between its title and its key."""
        painter.setRenderHint(QtGui.QPainter.RenderHint.Antialiasing)
        for row, bar in enumerate(self.bars):
            self._paint_bar(painter, bar, self._bar_area(row, size.width()), colours)

    def hit(self, point: QPointF) -> Place | None:
        for row, bar in enumerate(self.bars):
            area = self._bar_area(row, self.width())
            if area.contains(point):
                for number, (part, box) in enumerate(_divided(bar, area)):
                    if part.nbytes and box.left() <= point.x() <= box.right():
                        return row, number
        return None

    @property
    def _line(self) -> int:
        return self.fontMetrics().height()

    def row_height(self) -> int:
        """Return the pixels of a bar with its title and its key."""
        return (1 + self._key_lines) * self._line + _BAR + 2 * Space.TIGHT + Space.WIDE

    def _bar_area(self, row: int, width: int) -> QRectF:
        top = _PAD + row * self.row_height() + self._line + Space.TIGHT
        return QRectF(0, top, max(1, width), _BAR)

    def _key(
        self, bar: plan_texts.Bar, width: int
    ) -> Iterator[tuple[int, float, plan_texts.MemoryPart, str]]:
        """Yield line, start, part and its bytes of what a bar's key names, wrapped at a width."""
        metrics, line, x = self.fontMetrics(), 0, 0.0
        for part in bar.parts:
            nbytes = part.nbytes
            if part.kind is plan_texts.Kind.RESERVED:  # also what there is no room for
                nbytes += bar.reserve_lacks
            if part.kind in _NOT_NAMED or not nbytes:
                continue
            size, widths = bytes_text(nbytes), metrics.horizontalAdvance
            needed = _SWATCH + Space.TIGHT + widths(f"{part.kind.label} ")
            needed += max(widths(size), widths(_USUAL_SIZE))
            if x and x + needed > width:
                line, x = line + 1, 0.0
            yield line, x, part, size
            x += needed + Space.NEAR

    def _count_lines(self) -> int:
        """Return the lines of the longest key; a saved picture has as many."""
        width = min(self.width(), _PICTURE_WIDTH)
        return 1 + max((one[0] for bar in self.bars for one in self._key(bar, width)), default=0)

    def _paint_key(
        self, painter: QtGui.QPainter, bar: plan_texts.Bar, area: QRectF, colours: PlotColours
    ) -> None:
        """Name what a bar holds, with its bytes."""
        metrics, below = painter.fontMetrics(), area.bottom() + Space.TIGHT
        for line, start, part, size in self._key(bar, round(area.width())):
            x, top = area.x() + start, below + line * self._line
            swatch = QRectF(x, top + (self._line - _SWATCH) / 2, _SWATCH, _SWATCH)
            fill_kind(painter, swatch, part.kind, colours.raised, colours.text)
            x += _SWATCH + Space.TIGHT
            painter.setPen(colours.text)
            painter.drawText(QPointF(x, top + metrics.ascent()), part.kind.label)
            x += metrics.horizontalAdvance(f"{part.kind.label} ")
            painter.setPen(colours.muted)
            painter.drawText(QPointF(x, top + metrics.ascent()), size)

    def _paint_bar(
        self, painter: QtGui.QPainter, bar: plan_texts.Bar, area: QRectF, colours: PlotColours
    ) -> None:
        self._paint_title(painter, bar, area, colours)
        self._paint_key(painter, bar, area, colours)
        painter.save()
        rounded = QtGui.QPainterPath()
        rounded.addRoundedRect(area, CORNER, CORNER)
        painter.setClipPath(rounded)
        parts = [(part, box) for part, box in _divided(bar, area) if part.nbytes]
        for part, box in parts:
            fill_kind(painter, box, part.kind, colours.raised, colours.text)
            painter.fillRect(QRectF(box.right() - 1, box.top(), 1, _BAR), colours.background)
        if bar.over_bytes:
            start = max(0, bar.held_bytes - bar.over_bytes)
            each = area.width() / bar.length
            width = each * (bar.held_bytes - start)
            over = QRectF(area.x() + each * start, area.y(), width, area.height())
            fill_over(painter, over, colours.warning)
        painter.restore()
        painter.setPen(colours.rule)
        painter.drawPath(rounded)
        if bar.mark is not None and 0 < bar.mark < bar.length:
            x = area.x() + area.width() * bar.mark / bar.length
            painter.setPen(QtGui.QPen(colours.text, 2, Qt.PenStyle.DashLine))
            painter.drawLine(QPointF(x, area.top() - _BEYOND), QPointF(x, area.bottom() + _BEYOND))

    def _paint_title(
        self, painter: QtGui.QPainter, bar: plan_texts.Bar, area: QRectF, colours: PlotColours
    ) -> None:
        plain, strong = self.font(), text_font(TextSize.BODY, strong=True)
        top = area.y() - Space.TIGHT - self._line + self.fontMetrics().ascent()
        right, x = plan_texts.amount_text(bar), area.x()
        if bar.over_bytes:
            most = "up to " if bar.over_at_most else ""
            right = f"⚠ {most}{bytes_text(bar.over_bytes)} too much"
        painter.setFont(strong if bar.over_bytes else plain)
        painter.setPen(colours.warning if bar.over_bytes else colours.muted)
        end = area.right() - painter.fontMetrics().horizontalAdvance(right)
        painter.drawText(QPointF(end, top), right)
        if bar.layers:  # the colour of its layers in the strip below
            swatch = QRectF(x, top + self.fontMetrics().descent() - _SWATCH - 1, _SWATCH, _SWATCH)
            painter.fillRect(swatch, device_colour(bar.device))
            x += _SWATCH + Space.TIGHT
        texts = (bar.title, strong, colours.text), (bar.layers, plain, colours.muted)
        for words, font, colour in texts:
            painter.setFont(font)
            painter.setPen(colour)
            room = int(end - x - Space.WIDE)
            text = painter.fontMetrics().elidedText(words, Qt.TextElideMode.ElideRight, room)
            painter.drawText(QPointF(x, top), text)
            x += painter.fontMetrics().horizontalAdvance(text) + Space.NEAR
        painter.setFont(plain)

    def after(self, key: Qt.Key) -> Place | None:
        steps = {Qt.Key.Key_Left: (0, -1), Qt.Key.Key_Right: (0, 1)}
        steps |= {Qt.Key.Key_Up: (-1, 0), Qt.Key.Key_Down: (1, 0)}
        if key not in steps or not self.bars or self.current is None:
            return None
        row = min(max(self.current[0] + steps[key][0], 0), len(self.bars) - 1)
        return row, min(max(self.current[1] + steps[key][1], 0), len(self.bars[row].parts) - 1)

    def arrive(self, hit: Place) -> None:
        self.select(hit)  # its figure is shown elsewhere, and is asked for by Enter

    def _choose_figure(self, place: Place) -> None:
        part = self.part(place)
        if part is not None and part.term:
            self.figure_chosen.emit(part.term)

    def paint_marks(self, painter: QtGui.QPainter, colours: PlotColours) -> None:
        if self.hasFocus() and self.current is not None and self.part(self.current) is not None:
            painter.setPen(QtGui.QPen(colours.accent, 3))
            area = self.part_area(self.current)
            painter.drawRect(area if area.width() >= 3 else area.adjusted(-1, 0, 1, 0))

    # Qt

    def sizeHint(self) -> QSize:
        rows = max(1, len(self.bars)) * self.row_height()
        return QSize(420, 2 * _PAD + rows - Space.WIDE)

    def minimumSizeHint(self) -> QSize:
        return QSize(240, self.sizeHint().height())

    def resizeEvent(self, event: QtGui.QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_height()

    def mouseMoveEvent(self, event: QtGui.QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        part, shape = self.part(self.pointed), Qt.CursorShape
        explained = part is not None and part.term
        self.setCursor(shape.PointingHandCursor if explained else shape.ArrowCursor)

    def mousePressEvent(self, event: QtGui.QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            super().mousePressEvent(event)

    def mouseDoubleClickEvent(self, event: QtGui.QMouseEvent) -> None:
        self.mousePressEvent(event)

    def focusInEvent(self, event: QtGui.QFocusEvent) -> None:
        self.speak()
        super().focusInEvent(event)


def _divided(bar: plan_texts.Bar, area: QRectF) -> Iterator[tuple[plan_texts.MemoryPart, QRectF]]:
    """Yield each part with its area, in proportion to its bytes."""
    x = area.x()
    for part in bar.parts:
        width = area.width() * part.nbytes / bar.length
        yield part, QRectF(x, area.y(), width, area.height())
        x += width


class LayerStrip(Chart[int]):
    """The layers of a plan, by number.

    Attributes:
        layers: What is shown.

    Signals:
        boundary_moved: The user moved the place where the GPUs begin; the first layer on them.
        held: A drag of the boundary began (true) or ended.
    """

    accessible_role = QtGui.QAccessible.Role.Graphic

    boundary_moved = Signal(int)
    held = Signal(bool)

    def __init__(self, parent: QWidget) -> None:
        super().__init__("Layers and their devices", picture_text("layers"), parent)
        self.layers: tuple[Layer, ...] = ()
        self._devices: tuple[str, ...] = ()
        self._part = ""
        self._boundary = 0
        self._is_fixed = False
        self._ends: list[int] = [0]
        self._dragging = False
        self.setMinimumHeight(self.sizeHint().height())

    def show_layers(
        self, layers: tuple[Layer, ...], devices: tuple[str, ...], boundary: int | None, part: str
    ) -> None:
        """Show layers on devices of these names.

        `boundary` is the first layer on a GPU; None where the engine lets nobody move it. `part` is
        what a split layer has on the CPU: "experts".
        """
        self.layers, self._devices, self._part = layers, devices, part
        self._boundary, self._is_fixed = boundary or 0, boundary is None
        # a layer without bytes is as wide as the smallest that one can see
        least = max(1, sum(layer.nbytes for layer in layers) // 1000)
        self._ends = [0, *accumulate(max(layer.nbytes, least) for layer in layers)]
        self.select(self.current)

    def select(self, hit: int | None) -> None:
        """Mark a layer; None, or one that is not there, marks none."""
        super().select(hit if hit is not None and 0 <= hit < len(self.layers) else None)

    def describe(self, hit: int | None) -> str:
        """Return a layer's place and bytes, in lines."""
        if hit is None:
            return ""
        layer = self.layers[hit]
        where = f"Layer {hit} ({layer.name}) on {self._place(layer)}"
        where += f", {self._part} of it on the CPU" if layer.is_split else ""
        weights = f"Weights {exact_text(layer.weights)}"
        cache = f"KV cache {exact_text(layer.kv_cache)}"
        return f"{where}\n{weights}\n{cache}"

    def sentence(self) -> str:
        """Return how many layers are where."""
        on_cpu = sum(layer.device is None for layer in self.layers)
        last, on_gpus = len(self.layers) - 1, len(self.layers) - on_cpu
        split = sum(layer.is_split for layer in self.layers)
        left = [str(on_cpu)] if on_cpu or not split else []
        left += [f"{self._part} of {split}"] if split else []
        return f"Layers 0 to {last}, by bytes: {on_gpus} on GPUs, {' and '.join(left)} on the CPU"

    def _place(self, layer: Layer) -> str:
        return "CPU" if layer.device is None else self._devices[layer.device]

    def layer_area(self, number: int, width: int | None = None) -> QRectF:
        left, right = self._x(number, width), self._x(number + 1, width)
        top = _PAD + self.fontMetrics().height() + Space.TIGHT
        return QRectF(left, top, right - left, _STRIP)

    def boundary_x(self) -> float:
        """Return where the GPUs begin, in pixels."""
        return self._x(self._boundary, None)

    def hit(self, point: QPointF) -> int | None:
        if not self.layers or not 0 <= point.x() <= self.width():
            return None
        place = point.x() / max(1, self.width()) * self._ends[-1]
        return min(bisect_right(self._ends, place) - 1, len(self.layers) - 1)

    def data_columns(self) -> list[tuple[str, list[Any]]]:
        """Return the layers as columns, for CSV."""
        return [
            ("layer", [layer.index for layer in self.layers]),
            ("layer_device", [self._place(layer) for layer in self.layers]),
            ("layer_weights", [layer.weights for layer in self.layers]),
            ("layer_kv_cache", [layer.kv_cache for layer in self.layers]),
        ]

    def paint(self, painter: QtGui.QPainter, size: QSize, colours: PlotColours) -> None:
        """Paint title and strip into a width."""
        painter.setPen(colours.muted)
        painter.drawText(QPointF(0, _PAD + painter.fontMetrics().ascent()), self.sentence())
        places = [(layer.device, layer.is_split) for layer in self.layers]
        for _, run in groupby(range(len(self.layers)), places.__getitem__):
            numbers = list(run)
            self._paint_run(painter, numbers[0], numbers[-1] + 1, size.width(), colours)

    def _paint_run(
        self, painter: QtGui.QPainter, start: int, stop: int, width: int, colours: PlotColours
    ) -> None:
        first, last = self.layer_area(start, width), self.layer_area(stop - 1, width)
        area = QRectF(first.left(), first.top(), last.right() - first.left(), _STRIP)
        device = self.layers[start].device
        ground = device_colour(device)
        painter.fillRect(area, ground)
        if device is None or self.layers[start].is_split:  # what spills has a texture too
            line = QtGui.QColor("black")
            line.setAlpha(70)
            painter.fillRect(area, QtGui.QBrush(line, Qt.BrushStyle.BDiagPattern))
        if area.width() / (stop - start) >= _LEAST_GAP:
            painter.setPen(colours.background)
            for number in range(start + 1, stop):
                x = self._x(number, width)
                painter.drawLine(QPointF(x, area.top()), QPointF(x, area.bottom()))
        name, count = self._place(self.layers[start]), stop - start
        number_text = "CPU" if device is None else str(device + 1)
        for text in (f"{name}: {count}", f"{number_text}: {count}", number_text):
            if draw_caption(painter, area.adjusted(2, 4, -2, -4), text, ground):
                break

    def _x(self, number: int, width: int | None) -> float:
        room = max(1, self.width() if width is None else width)
        if not self.layers:
            return 0.0
        return room * self._ends[min(max(number, 0), len(self.layers))] / self._ends[-1]

    def _drag_to(self, x: float) -> None:
        """Move the boundary to the layer edge nearest to a pixel; the output layer has none."""
        edges = range(len(self.layers))
        self._move_boundary(
            min(edges, key=lambda number: abs(self._x(number, None) - x), default=0)
        )

    def _move_boundary(self, layer: int) -> None:
        if layer != self._boundary and not self._is_fixed:
            self._boundary = layer
            self.boundary_moved.emit(layer)
            self.update()

    def _on_boundary(self, x: float) -> bool:
        return bool(self.layers) and not self._is_fixed and abs(x - self.boundary_x()) <= _GRIP

    def after(self, key: Qt.Key) -> int | None:
        step = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}.get(key)
        if step is None or not self.layers:
            return None
        here = -1 if self.current is None else self.current
        return min(max(here + step, 0), len(self.layers) - 1)

    # Qt

    def sizeHint(self) -> QSize:
        height = self.fontMetrics().height() + Space.TIGHT + _STRIP
        return QSize(420, height + 2 * _PAD + _GRIP)

    def paint_marks(self, painter: QtGui.QPainter, colours: PlotColours) -> None:
        if self.layers and not self._is_fixed:
            area = self.layer_area(0)
            x = min(max(self.boundary_x(), _GRIP), self.width() - _GRIP)
            painter.setPen(QtGui.QPen(colours.text, 3 if self.hasFocus() else 2))
            painter.drawLine(QPointF(x, area.top() - 1), QPointF(x, area.bottom() + 4))
            painter.setBrush(colours.background)
            painter.drawEllipse(QPointF(x, area.bottom() + 4), 3.5, 3.5)
        if self.current is not None:
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QtGui.QPen(colours.accent, 3))
            painter.drawRect(self.layer_area(self.current))

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QtGui.QHelpEvent) and self._on_boundary(event.pos().x()):
            self.setToolTip("Drag to choose how many layers go to GPUs")
            return QWidget.event(self, event)
        return super().event(event)

    def mousePressEvent(self, event: QtGui.QMouseEvent) -> None:
        x = event.position().x()
        if event.button() == Qt.MouseButton.LeftButton and self._on_boundary(x):
            self._dragging = True
            self.held.emit(True)
        else:
            super().mousePressEvent(event)

    def mouseMoveEvent(self, event: QtGui.QMouseEvent) -> None:
        x = event.position().x()
        if self._dragging:
            self._drag_to(x)
            return
        grips = self._on_boundary(x)
        self.setCursor(Qt.CursorShape.SplitHCursor if grips else Qt.CursorShape.ArrowCursor)

    def mouseDoubleClickEvent(self, event: QtGui.QMouseEvent) -> None:
        if not self._on_boundary(event.position().x()):
            super().mouseDoubleClickEvent(event)

    def mouseReleaseEvent(self, event: QtGui.QMouseEvent) -> None:
        if self._dragging and event.button() == Qt.MouseButton.LeftButton:
            self._dragging = False
            self.held.emit(False)

    def keyPressEvent(self, event: QtGui.QKeyEvent) -> None:
        step = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}.get(Qt.Key(event.key()), 0)
        if step and self.layers and event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            self._move_boundary(min(max(self._boundary + step, 0), len(self.layers) - 1))
        else:
            super().keyPressEvent(event)


class PlannerPicture(QWidget):
    """The current plan as bars and strip, and both as one picture to save.

    Attributes:
        bars: A bar for each device.
        strip: All layers.
    """

    def __init__(self, state: PlannerState, app: Services, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAccessibleName("Memory and layers")
        self._state = state
        self._current = state.current
        self._export = PlotExport(app, self)
        self.bars = MemoryBars(self.formula_of, self)
        self.strip = LayerStrip(self)
        self._scroll = scrolled(self.bars, self.bars.accessibleName())
        self._scroll.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        column(self._scroll, self.strip, of=self)
        self.strip.boundary_moved.connect(self._ask_layers)
        self.strip.held.connect(state.hold)
        self.bars.height_changed.connect(self._fit_bars)
        for part in (self.bars, self.strip):
            part.copy_requested.connect(lambda: self._export.copy(SavedPicture(self)))
            part.save_requested.connect(self.ask_export)
        self.follow(state.current)
        state.plan_changed.connect(self.follow)

    def ask_export(self) -> None:
        """Ask for a file, and save bars and layers into it."""
        model = self._current.model
        name = f"{'' if model is None else model.title} memory plan"
        self._export.ask(SavedPicture(self), name)

    def formula_of(self, name: str) -> str:
        """Return a figure's formula in one line; empty if it has none."""
        plan = self._current.plan
        terms = () if plan is None else plan.terms
        return next((f"{one.name} = {one.formula}" for one in terms if one.name == name), "")

    def follow(self, current: CurrentPlan) -> None:
        self._current = current
        for part in (self.bars, self.strip):
            part.opacity = _LATE if current.is_late else 1.0
            part.update()
        plan = current.plan
        self.setVisible(plan is not None)  # there is nothing to draw of a refusal
        bars = () if plan is None else plan_texts.memory_bars(plan, current.inputs.host)
        self.bars.show_bars(bars)
        if plan is None:
            self.strip.show_layers((), (), 0, "")
        else:
            can_move = any(one.name == "num_gpu" for one in plan.engine.settings)
            boundary = plan_texts.boundary_of(plan) if can_move else None
            names, split = plan_texts.places(plan), plan.verdict.part
            self.strip.show_layers(plan.layers, names, boundary, split)

    def _fit_bars(self) -> None:
        hidden = max(0, len(self.bars.bars) - _SHOWN_BARS)
        height = self.bars.sizeHint().height() - hidden * self.bars.row_height()
        self._scroll.setFixedHeight(height)

    def _ask_layers(self, boundary: int) -> None:
        plan = self._current.plan
        if plan is not None and plan.layers:
            total = plan.verdict.total_layers
            self._state.set(num_gpu=plan.engine.layers_asked(boundary, total))


class SavedPicture:
    """The picture as `PlotExport` takes it: with all bars, whatever is scrolled out of sight."""

    def __init__(self, picture: PlannerPicture) -> None:
        self._bars, self._strip = picture.bars, picture.strip

    def size(self) -> QSize:
        height = self._bars.sizeHint().height() + self._strip.sizeHint().height()
        return QSize(_PICTURE_WIDTH, height)

    def paint_on_paper(self, painter: QtGui.QPainter, area: QRectF) -> None:
        """Draw it in the colours of paper."""
        size, colours = self.size(), PlotColours.on_paper()
        painter.save()
        painter.translate(area.topLeft())
        painter.scale(area.width() / size.width(), area.height() / size.height())
        painter.setFont(self._bars.font())
        self._bars.paint(painter, size, colours)
        painter.translate(0, self._bars.sizeHint().height())
        self._strip.paint(painter, size, colours)
        painter.restore()

    def data_columns(self) -> list[tuple[str, list[Any]]]:
        return [*self._bars.data_columns(), *self._strip.data_columns()]
