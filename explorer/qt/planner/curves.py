"""Memory by context, and what else engines have curves of, computed in the background."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent
from PySide6.QtWidgets import QLabel, QWidget

from explorer.parallel import LruCache
from explorer.planner.plans import MEMORY, CurveKind, Plan
from explorer.present.colours import type_colour
from explorer.present.curves import (
    AXES,
    Curve,
    Curves,
    Stops,
    context_stops,
    curve_end,
    curves_key,
    make_curves,
)
from explorer.present.explanations import picture_text
from explorer.present.pictures import curves_sentence
from explorer.present.plan import context_text
from explorer.qt.jobs import Job, JobSlot
from explorer.qt.planner.fields import CalmComboBox
from explorer.qt.planner.pages import PlannerPage
from explorer.qt.planner.state import CurrentPlan, PlannedModel, PlannerState
from explorer.qt.services import Services
from explorer.qt.theme import TextSize, text_font, warning_colour
from explorer.qt.widgets.building import NOTE, column, row
from explorer.qt.widgets.controls import picture_buttons
from explorer.qt.widgets.figures import PlotExport
from explorer.qt.widgets.plot import ThemedPlot, brush
from explorer.text import byte_unit, bytes_text, integer_text

_GIGABYTE: Final = 3  # its power
_MARGIN: Final = 0.05
_MOST_FOR_NAMES: Final = 0.5
_NAME_GAP: Final = 24
_EDGE: Final = 2  # pixels around a name
_LINES, _NAMES, _MARKS = 4, 5, 10  # from back to front: lines do not run through names
_HEADROOM: Final = 1.15
_COVERS: Final = 215  # of 255
_SYMBOLS: Final = ("o", "s", "t", "d")
_FIRST_POWER: Final = 9  # 512 tokens
_MOST_TICKS: Final = 24
_MOST_CACHED: Final = 32
_MOST_NAMED: Final = 8  # places below curves that have names beside one another


class CurvesPlot(ThemedPlot):
    """Curves on a logarithmic axis; solid where everything fits, else dotted.

    Signals:
        previewed: A place was clicked; the context of the nearest stop, or what is below it.
        context_chosen: It was clicked once more, or a key asked for another one.
    """

    previewed = Signal(int)
    context_chosen = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.curves: Curves | None = None
        self.stops: Stops = context_stops(0)
        self._point: tuple[int, int] | None = None
        self._preview = 0
        self._usable_bytes = 0
        self._unit_bytes = byte_unit(_GIGABYTE)[1]
        self._items: list[Any] = []
        self._names: list[tuple[Any, float, float]] = []  # with the ends of their curves
        self._line = pg.InfiniteLine(angle=90)
        self._vram = pg.InfiniteLine(angle=0)
        self._vram_name = pg.TextItem(anchor=(0, 1))
        self._usable = pg.InfiniteLine(angle=0)
        self._trained = pg.InfiniteLine(angle=90)
        self._trained_name = pg.TextItem(anchor=(0, 0))
        self._dot = pg.ScatterPlotItem(size=11)
        self._marks = (self._line, self._dot, self._usable)
        limits = (self._vram, self._vram_name, self._trained, self._trained_name)
        self._vram_name.textItem.document().setDocumentMargin(_EDGE)  # else it covers its line
        for item in (*self._marks, *limits):
            item.setZValue(_LINES if isinstance(item, pg.InfiniteLine) else _MARKS)
            item.hide()
            self.addItem(item, ignoreBounds=True)
        self.setWhatsThis(picture_text("curves"))
        self.getPlotItem().getAxis("bottom").enableAutoSIPrefix(False)
        self._kind: CurveKind | None = None
        self._take_kind(MEMORY)
        self.scene().sigMouseClicked.connect(self._click)
        self.box.sigRangeChanged.connect(lambda *_: self._place_names())
        self.box.sigResized.connect(self._fit)
        self.restyle()

    def _take_kind(self, kind: CurveKind) -> None:
        """Name the axes of other curves."""
        if kind == self._kind:
            return
        self._kind = kind
        self._name_unit(_GIGABYTE)
        self.setAccessibleName(f"{kind.title}, as curves")
        self.setLabel("bottom", AXES[kind.along].label)
        powers = range(_FIRST_POWER, _FIRST_POWER + _MOST_TICKS)
        ticks = [(float(power), context_text(1 << power)) for power in powers]
        if kind.along != "context":
            ticks = []
        self.getPlotItem().getAxis("bottom").setTicks([ticks])
        self.forget_zoom()

    def show_curves(self, curves: Curves | None, trained: int) -> None:
        """Draw other curves; the zoom stays unless the contexts are others."""
        self.curves = curves
        self.stops = context_stops(trained)
        if curves is not None:
            self._take_kind(curves.kind)
            if curves.kind.along != "context":
                trained, places = 0, curves.curves[0].contexts.tolist()
                self.stops = Stops(places, ())
                some = places[::-2] if len(places) > _MOST_NAMED else places
                ticks = [(math.log2(place), curves.axis.text(place)) for place in some]
                self.getPlotItem().getAxis("bottom").setTicks([ticks])
        beyond = curves is not None and 0 < trained < int(curves.curves[0].contexts[-1])
        for item in (self._trained, self._trained_name):
            item.setVisible(beyond)  # else the curves end there, which says as much
        if beyond:
            self._trained.setPos(math.log2(trained))
            words = f"trained {context_text(trained)}"
            self._trained_name.setText(words)
        self._draw()

    def show_plan(self, plan: Plan | None) -> None:
        """Mark a plan, and what its GPUs have less what is reserved on them; None marks nothing."""
        for item in self._marks:
            item.setVisible(plan is not None)
        if plan is None:
            self._point = None
            return
        kind = self._kind or MEMORY
        usable = sum((held.free or 0) - held.reserve.high for held in plan.gpus)
        context, size = plan.context_asked, bytes_text(plan.total)
        place, amount = AXES[kind.along].place(plan), plan.total
        if kind.figure != "total":
            usable, amount = 0, plan.details.counts().get(kind.figure, (0, 0))[0]
        self._point, self._usable_bytes = (max(place, 1), amount), usable
        self._preview = 0
        self._place_point()
        self._usable.setVisible(usable > 0)
        self._name_limits()
        self.setAccessibleDescription(f"{context_text(context)} tokens take {size}")

    def _place_point(self) -> None:
        if self._point is None:
            return
        x, y = math.log2(self._point[0]), self._point[1] / self._unit_bytes
        self._line.setPos(x)
        self._dot.setData([x], [y])
        self._usable.setPos(self._usable_bytes / self._unit_bytes)

    def _name_unit(self, power: int) -> None:
        unit, self._unit_bytes = byte_unit(power)
        words = f"{unit} in all"
        if self._kind is not None and self._kind.figure in _COUNTED:
            words, self._unit_bytes = _COUNTED[self._kind.figure]
        self.setLabel("left", words)

    def _choose_unit(self, curves: Curves) -> None:
        """Take the largest unit in which the highest line is not a fraction, up to gigabytes."""
        if curves.kind.figure in _COUNTED:
            return
        most = max(curves.vram, *(int(curve.totals.max()) for curve in curves.curves))
        power = next((p for p in range(_GIGABYTE, 0, -1) if most >= byte_unit(p)[1]), 1)
        if byte_unit(power)[1] != self._unit_bytes:
            self._name_unit(power)
            self.forget_zoom()
            self._place_point()

    def restyle(self) -> None:
        """Draw everything in the plot's colours."""
        super().restyle()
        if hasattr(self, "_dot"):  # the base class calls this before there is anything to draw
            colours = self.colours
            self._line.setPen(colours.pen(colours.text, style=Qt.PenStyle.DashLine))
            self._dot.setPen(colours.pen(colours.background, width=1.5))
            self._dot.setBrush(brush(colours.text))
            warning = warning_colour(self.palette())
            self._vram.setPen(colours.pen(warning))
            self._vram_name.setColor(warning)
            self._usable.setPen(colours.pen(warning, style=Qt.PenStyle.DashLine))
            ground = QColor(colours.background)
            ground.setAlpha(_COVERS)  # curves that begin higher run behind it
            self._vram_name.fill = pg.mkBrush(ground)
            self._trained.setPen(colours.pen(colours.grid))
            self._trained_name.setColor(colours.muted)
            for name in (self._vram_name, self._trained_name):
                name.setFont(text_font(TextSize.CAPTION))
            self._draw()

    def sentence(self) -> str:
        return "" if self.curves is None else curves_sentence(self.curves)

    def data_columns(self) -> list[tuple[str, list[Any]]]:
        """Return the places of all curves, and the bytes and the fit of each curve."""
        if self.curves is None:
            return []
        columns = [(self.curves.kind.along, self.curves.curves[0].contexts.tolist())]
        for curve in self.curves.curves:
            columns.append((curve.cache_type, curve.totals.tolist()))
            columns.append((f"{curve.cache_type} fits", curve.fits.tolist()))
        return columns

    def place_of(self, context: int, nbytes: int) -> QPointF:
        """Return where a plan is, in pixels of the viewport."""
        scene = self.box.mapViewToScene(QPointF(math.log2(context), nbytes / self._unit_bytes))
        return QPointF(self.mapFromScene(scene))

    def _fit(self) -> None:
        """Make room for the names, whose width does not change with the plot's."""
        if self.curves is not None:
            self._set_home(self.curves)
        self._place_names()

    def _draw(self) -> None:
        for item in self._items:
            self.removeItem(item)
        self._items.clear()
        self._names.clear()
        curves = self.curves
        for item in (self._vram, self._vram_name):
            item.setVisible(curves is not None and curves.vram > 0)
        if curves is None:
            return
        self._choose_unit(curves)
        groups: dict[bytes, list[str]] = {}
        for curve in curves.curves:
            groups.setdefault(curve.totals.tobytes(), []).append(curve.cache_type)
        for number, curve in enumerate(curves.curves):
            names = groups[curve.totals.tobytes()]
            if curve.cache_type == names[0]:  # else it lies on another's curve
                self._draw_curve(number, curve, " = ".join(names))
        self._draw_vram(curves)
        self._set_home(curves)
        self._place_names()

    def _draw_curve(self, number: int, curve: Curve, name: str) -> None:
        there = curve.totals >= 0
        x, y = np.log2(curve.contexts[there]), curve.totals[there] / self._unit_bytes
        if not len(x):
            return
        colour = QColor(type_colour(curve.effective_type.upper()))
        fits = curve.fits[there]
        dotted = self.colours.pen(colour, width=2, style=Qt.PenStyle.DotLine)
        self._add(pg.PlotDataItem(x, y, pen=dotted, connect="finite"))
        solid = self.colours.pen(colour, width=2)
        self._add(pg.PlotDataItem(x, np.where(fits, y, np.nan), pen=solid, connect="finite"))
        pen, inside = self.colours.pen(colour), brush(self.colours.background)
        symbol = _SYMBOLS[number % len(_SYMBOLS)]
        marks = pg.ScatterPlotItem(x[::8], y[::8], size=6, symbol=symbol, pen=pen, brush=inside)
        self._add(marks)
        text = pg.TextItem(name, color=self.colours.text)
        text.fill = pg.mkBrush(self.colours.background)
        text.setZValue(_NAMES)
        text.textItem.document().setDocumentMargin(_EDGE)  # else they would cover one another
        gap = _NAME_GAP / 2 / max(text.boundingRect().width(), 1)  # in widths of the name
        text.setAnchor((-gap, 0.5))
        self._add(text)
        self._names.append((text, float(x[-1]), float(y[-1])))

    def _place_names(self) -> None:
        """Put each name at the end of its curve; names that would overlap move, all in sight."""
        self._trained_name.setPos(self._trained.value(), self.box.viewRect().bottom())
        line = float(self.box.viewPixelSize()[1]) * (self.fontMetrics().height() + 2 * _EDGE)
        view = self.box.viewRect()  # y grows upwards: its top is the lower edge
        lowest, highest = view.top() + 0.6 * line, view.bottom() - 0.6 * line
        names, places = sorted(self._names, key=lambda name: name[2]), list[float]()
        for _, _, y in names:
            places.append(max(y, lowest))
            lowest = places[-1] + line
        for (text, x, _), place in zip(reversed(names), reversed(places), strict=True):
            text.setPos(x, min(place, highest))
            highest = min(place, highest) - line

    def _draw_vram(self, curves: Curves) -> None:
        vram = curves.vram / self._unit_bytes
        self._vram.setPos(vram)
        self._name_limits()
        self._vram_name.setPos(float(np.log2(curves.curves[0].contexts[0])), vram)

    def _name_limits(self) -> None:
        """Name both lines above the upper one: below the other the curves begin."""
        if self.curves is not None:
            words = f"{bytes_text(self.curves.vram)} free on GPUs"
            if self._usable_bytes > 0:
                words += f", {bytes_text(self._usable_bytes)} less reserve"
            self._vram_name.setText(words)

    def _set_home(self, curves: Curves) -> None:
        contexts = curves.curves[0].contexts
        low, high = math.log2(int(contexts[0])), math.log2(int(contexts[-1]))
        width = max(high - low, 1)
        most = max(int(curve.totals.max()) for curve in curves.curves)
        top = max(most, curves.vram) / self._unit_bytes * _HEADROOM or 1.0
        texts = [text.toPlainText() for text, _, _ in self._names]
        longest = max(map(self.fontMetrics().horizontalAdvance, texts), default=0) + _NAME_GAP
        share = min(longest / max(self.box.width(), 1), _MOST_FOR_NAMES)  # of the plot's width
        whole = width * (1 + _MARGIN) / (1 - share)
        self.box.set_home(QRectF(low - _MARGIN * width, 0, whole, top))

    def _add(self, item: Any) -> None:
        self.addItem(item)
        self._items.append(item)

    def _click(self, event: Any) -> None:
        if event.button() != Qt.MouseButton.LeftButton or self.curves is None:
            return
        x = self.box.mapSceneToView(event.scenePos()).x()
        if not 0 <= x < 40:  # which NaN is not
            return
        context = self.stops.values[self.stops.position(round(2**x))]
        if context == self._preview:
            self.context_chosen.emit(context)
            return
        self._preview = context
        self._line.setPos(math.log2(context))
        self.previewed.emit(context)

    def preview_text(self, context: int) -> str:
        """Say what a context takes by each cache type, and how to set it."""
        if self.curves is None:
            return ""
        parts = []
        for curve in self.curves.curves:
            place = int(np.searchsorted(curve.contexts, context).clip(0, len(curve.contexts) - 1))
            if curve.totals[place] >= 0:
                exact = "" if curve.contexts[place] == context else "up to "
                parts.append(
                    f"{curve.cache_type} {exact}{self.curves.text(int(curve.totals[place]))}"
                )
        where = f"{integer_text(context)} tokens"
        if self.curves.kind.along != "context":
            where = f"{self.curves.axis.title} {self.curves.axis.text(context)}"
        return f"{where}: {', '.join(parts)}. Click again to set it."

    # Qt

    def keyPressEvent(self, event: QKeyEvent) -> None:
        step = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}.get(Qt.Key(event.key()), 0)
        if step and self._point is not None:
            self.context_chosen.emit(self.stops.step(self._point[0], step))
        else:
            super().keyPressEvent(event)


_COUNTED: Final = {"tokens": ("1,000 tokens", 1000), "requests": ("Requests", 1)}
"""What is counted → what stands beside it, and its unit."""

_COUNTED_HINT: Final = (
    "“At least” is with the highest peak that vLLM may measure, “at most” with the lowest."
)
_HINT: Final = "Click to see what a context takes."
_NO_CURVES: Final = "Without a plan there are no curves."


class CurvesPage(PlannerPage):
    """Memory by context, or other curves of the engine.

    Attributes:
        plot: The curves.
        hint: What its lines mean, or what was clicked.

    Signals:
        curves_changed: Other curves are shown.
    """

    curves_changed = Signal()

    def __init__(self, state: PlannerState, app: Services, parent: QWidget) -> None:
        super().__init__(state, parent)
        self.app = app
        self.plot = CurvesPlot(self)
        self._model: PlannedModel | None = None
        self._cache = LruCache(_MOST_CACHED)
        self._slot = JobSlot(app.runner, self)
        self._wanted: object = None
        self._export = PlotExport(app, self)
        self.setAccessibleName("Curves")
        hint = self.hint = QLabel("", self, wordWrap=True)
        hint.setMinimumHeight(2 * self.fontMetrics().lineSpacing())  # a preview has two lines
        self.saving = picture_buttons(self, self.plot.copy_requested, self.ask_export)
        line = row((hint, 1), *self.plot.zoom_buttons(self), *self.saving, margins=NOTE)
        self.kind = CalmComboBox(self)
        self.kind.setAccessibleName("What the curves show")
        self.kind.hide()
        column(self.kind, (self.plot, 1), line, of=self)
        self.kind.currentIndexChanged.connect(lambda _: self.refresh())
        self.plot.export_requested.connect(self.ask_export)
        self.plot.copy_requested.connect(lambda: self._export.copy(self.plot))
        self.plot.context_chosen.connect(self._choose)
        self.plot.previewed.connect(lambda at: self.hint.setText(self.plot.preview_text(at)))

    @property
    def curves(self) -> Curves | None:
        return self.plot.curves

    def _choose(self, place: int) -> None:
        """Set what the curves run along to a place."""
        along = MEMORY.along if self.curves is None else self.curves.kind.along
        self.state.apply({along: AXES[along].value(place)})

    def _offer(self, kinds: Sequence[CurveKind]) -> CurveKind:
        """Offer the curves of an engine; return the chosen ones."""
        self.kind.offer({one.title: one for one in kinds})
        self.kind.setVisible(len(kinds) > 1)
        found: CurveKind = kinds[max(0, self.kind.currentIndex())]
        return found

    def ask_export(self) -> None:
        """Ask for a file, and save the curves into it."""
        title = "" if self._model is None else self._model.title
        self._export.ask(self.plot, f"{title} {self.kind.currentText()}")

    def follow(self, current: CurrentPlan) -> None:
        """Move the mark in every frame; the curves follow later."""
        if self.isVisible():
            self.plot.show_plan(current.plan)
            self._say()
        super().follow(current)

    def _say(self) -> None:
        if self.curves is None:
            self.hint.clear()
            return
        solid, dotted = self.curves.where
        hint = _COUNTED_HINT if self.curves.kind.figure in _COUNTED else _HINT
        self.hint.setText(f"Solid: {solid}. Dotted: {dotted}. {hint}")

    def refresh(self) -> None:
        """Show the curves of the current inputs, and make them if they are not kept."""
        current = self.state.current
        model = current.model
        if model is not self._model:
            self._model = model
            self.plot.forget_zoom()
        refused = current.result is not None and current.plan is None
        for part in (self.plot, *self.saving):
            part.setVisible(not refused)
        if refused:
            self.hint.setText(_NO_CURVES)
        request = self.state.request
        if model is None or refused or request is None:
            self._wanted = None
            self._slot.cancel()
            self._take(None)
            return
        inputs = model.complete(current.inputs)
        inputs = replace(inputs, devices=request.devices, host=request.host)  # what others leave
        chosen = 0 if current.plan is None else current.plan.context_asked
        end = curve_end(model.h.trained_context, chosen)
        engine = current.engine
        kind = MEMORY if engine is None else self._offer(engine.curves)
        key = curves_key(model.h, inputs, end, kind)
        self.plot.show_plan(current.plan)
        if key == self._wanted:
            return
        self._wanted = key
        cached = self._cache.get(key)
        if isinstance(cached, Curves):
            self._slot.cancel()
            self._take(cached)
            return

        environment = self.state.environment

        def make(job: Job) -> Curves:
            return make_curves(model.h, inputs, environment, job.check, end, kind)

        def done(curves: Curves) -> None:
            self._cache.put(key, curves)
            self._take(curves)

        self._slot.run("Drawing memory curves", make, done, self.app.report)

    def _take(self, curves: Curves | None) -> None:
        trained = 0 if self._model is None else self._model.h.trained_context
        self.plot.show_curves(curves, trained)
        if curves is not None:
            self.plot.show_plan(self.state.current.plan)
            self._say()
        self.curves_changed.emit()
