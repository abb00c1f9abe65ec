"""The pages below the picture: details, programs, texts to use a plan, and plans side by side."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, TypeVar

import numpy as np
from PySide6 import QtWidgets
from PySide6.QtCore import QByteArray, QSignalBlocker, Qt, Signal
from PySide6.QtGui import QGuiApplication, QResizeEvent, QShowEvent

from explorer.hardware.catalogue import find_bandwidths
from explorer.planner import Device
from explorer.planner.devices import CPU
from explorer.planner.plans import Plan, Term
from explorer.planner.speed import parse_rate
from explorer.present import engines, plan_export
from explorer.present.curves import Curves
from explorer.present.engines import PlanRow
from explorer.present.plan import Kind, memory_bars, remarks, value_text
from explorer.present.speed import rate_text
from explorer.present.suggestions import would_change
from explorer.present.tables.plans import (
    ENGINES,
    INPUTS,
    PLANS,
    REMARKS,
    TERMS,
    bars_table,
    comparison,
    curves_table,
    layers_table,
)
from explorer.present.tables.table import Table
from explorer.qt.jobs import Job, JobSlot
from explorer.qt.planner.fields import CalmComboBox, SizeEdit, push_button, wrapped_label
from explorer.qt.planner.state import CurrentPlan, PlannerState, single_shot
from explorer.qt.services import Services
from explorer.qt.theme import Space, monospace_font
from explorer.qt.widgets.building import LINE, NOTE, Flow, column, row
from explorer.qt.widgets.controls import label_of
from explorer.qt.widgets.table_model import TableModel
from explorer.qt.widgets.table_view import FilterBar, TableView
from explorer.text import exact_text, plain_text

_DELAY_MS: Final = 80
Row = TypeVar("Row")
_WHY, _BARS, _LAYERS, _CURVES, _NOTES = "why", "bars", "layers", "curves", "notes"
_LISTED: Final = {
    "Figures and formulas": _WHY,
    "Memory of each device": _BARS,
    "Layers and their devices": _LAYERS,
    "Points of the curves": _CURVES,
    "Notes and warnings": _NOTES,
}


class PlannerPage(QtWidgets.QWidget):
    """Calls `refresh` soon after a change, while it is visible, and when it becomes visible.

    A drag changes the plan sixty times a second, and a table of three hundred formulas takes longer
    than a frame.
    """

    def __init__(self, state: PlannerState, parent: QtWidgets.QWidget) -> None:
        super().__init__(parent)
        self.state = state
        self._delay = single_shot(self, self._refresh_if_visible, _DELAY_MS)
        state.plan_changed.connect(self.follow)

    def refresh(self) -> None:
        raise NotImplementedError

    def follow(self, current: CurrentPlan) -> None:
        """Refresh soon after another plan."""
        del current  # `refresh` takes the one that is current then
        self.invalidate()

    def invalidate(self) -> None:
        """Refresh soon, if the page is visible."""
        if self.isVisible() and not self._delay.isActive():
            self._delay.start()

    def _refresh_if_visible(self) -> None:
        if self.isVisible():
            self.refresh()

    # Qt

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.refresh()


def show_in(
    view: TableView,
    table: Table[Row],
    rows: Sequence[Row],
    kind: object,
    first: Collection[str] = (),
) -> bool:
    """Show what a table of few rows says now; no text of it loses its end.

    Args:
        view: Where it is shown.
        table: The table.
        rows: Its rows.
        kind: What the rows are; the same while only figures change.
        first: Columns that are seen at first, where there is no room for all.

    Returns:
        Whether the rows are others.
    """
    if view.table.update(table, rows, kind):
        view.setAccessibleName(table.title)
        seen = first or [column.name for column in table.shown(rows)]
        view.show_columns(QByteArray(), [name for name in table.names if name not in seen])
        return True
    view.column_layout.widen(range(len(table.names)))
    return False


_LEAST_CHARACTERS: Final = 6
LEAST_LINES: Final = 12  # of a table


class ComparePage(PlannerPage):
    """The current plan beside pinned settings and other open models, from which it differs.

    The plans are made in the background: those of many experts take some frames.

    Attributes:
        pin: Pins the current settings.
        use: Makes pinned settings the current ones.
    """

    def __init__(self, state: PlannerState, app: Services, parent: QtWidgets.QWidget) -> None:
        super().__init__(state, parent)
        self._planning = JobSlot(app.runner, self)
        self.model = TableModel(self)
        self.table = TableView(self.model, app, self)
        self.table.setSelectionMode(TableView.SelectionMode.SingleSelection)
        self.table.setMinimumHeight(LEAST_LINES * self.fontMetrics().lineSpacing())
        self.pin = push_button(self, "&Pin these settings", "Keep them to compare with")
        self.use = push_button(self, "&Use", "Go back to the selected settings")
        self.rename = push_button(self, "Re&name…", "Name the selected settings")
        self.unpin = push_button(self, "Re&move", "Forget the selected settings")
        words = "Pinned settings, and the other open models with the settings of now."
        hint = QtWidgets.QLabel(words, self, wordWrap=True)
        buttons = Flow(self.pin, self.use, self.rename, self.unpin)
        line = row(buttons, margins=LINE)
        column(line, (self.table, 1), hint, of=self, spacing=Space.TIGHT)
        self.pin.clicked.connect(lambda _: state.pin())
        self.use.clicked.connect(self._use)
        self.rename.clicked.connect(self._rename)
        self.unpin.clicked.connect(self._unpin)
        self.table.selection_moved.connect(self._enable)
        self.table.row_opened.connect(lambda _: self._use())
        self._enable()

    def refresh(self) -> None:
        """Plan what is compared, and show it when it is there."""
        state, result = self.state, self.state.current.result
        model = state.current.model
        if model is None or result is None:
            self._planning.cancel()
            self._show([])
            return
        now = PlanRow(f"Now: {model.title}" if state.others else "Now", result.plan, result.refusal)
        others = [(one.name, model, one.inputs) for one in state.scenarios]
        others += [(other.title, other, state.inputs) for other in state.others]
        if not others:
            self._planning.cancel()
            self._show([now])
            return

        def work(job: Job) -> list[PlanRow]:
            rows = [now]
            for name, other, inputs in others:
                job.check()
                made = state.result_of(other, inputs)
                rows.append(PlanRow(name, made.plan, made.refusal))
            return rows

        title = "Planning what is compared"
        self._planning.run(title, work, self._show, state.refused.emit)

    def _show(self, rows: list[PlanRow]) -> None:
        kind = tuple(row.name for row in rows)
        first = "name", "gpu_layers", "total", "context", "kv_cache_type"
        show_in(self.table, comparison(rows) if rows else PLANS, rows, kind, first)

    def chosen(self) -> int | None:
        """Return the place of the selected settings, or None."""
        rows = self.table.selected_content_rows()
        place = int(rows[0]) - 1 if len(rows) else -1
        return place if 0 <= place < len(self.state.scenarios) else None

    def _use(self) -> None:
        place = self.chosen()
        if place is not None:
            self.state.use_scenario(place)

    def _rename(self) -> None:
        place = self.chosen()
        if place is None:
            return
        title, old = "Rename settings", self.state.scenarios[place].name
        name, accepted = QtWidgets.QInputDialog.getText(self, title, "Name:", text=old)
        if accepted:
            self.state.rename(place, name)

    def _unpin(self) -> None:
        place = self.chosen()
        if place is not None:
            self.state.unpin(place)

    def _enable(self) -> None:
        on = self.chosen() is not None
        for button in (self.use, self.rename, self.unpin):
            button.setEnabled(on)


class ProgramsPage(PlannerPage):
    """The engines side by side for the current model and settings, and why they differ.

    The plans are made in the background: those of models of many experts take longer than a frame.

    Attributes:
        table: A row for each engine.
        why: The sentence.
    """

    def __init__(self, state: PlannerState, app: Services, parent: QtWidgets.QWidget) -> None:
        super().__init__(state, parent)
        self._planning = JobSlot(app.runner, self)
        self.model = TableModel(self)
        self.table = TableView(self.model, app, self)
        self.table.setSelectionMode(TableView.SelectionMode.SingleSelection)
        self.why = wrapped_label(self, "Why programs differ")
        self.why.setContentsMargins(*NOTE)
        column(self.table, self.why, of=self)

    def refresh(self) -> None:
        """Plan by all engines, and show them when they are there."""
        request = self.state.request
        if request is None:
            self._show([])
            return
        title = "Planning for other programs"
        refused = self.state.refused.emit
        given = dict(self.state.basis.bandwidths)
        self._planning.run(
            title, lambda job: engines.side_by_side(request, given, job.check), self._show, refused
        )

    def _show(self, rows: list[PlanRow]) -> None:
        first = "profile", "fits", "total", "kv_cache", "compute"
        show_in(self.table, ENGINES, rows, tuple(row.engine.name for row in rows), first)
        lines, head = self.table.verticalHeader(), self.table.horizontalHeader()
        self.table.setFixedHeight(head.height() + (len(rows) + 1) * lines.defaultSectionSize())
        why = engines.why_engines_differ(rows)
        self.why.setText(f"Why they differ: {why}" if why else "")


class ChoiceLine(QtWidgets.QWidget):
    """What llama.cpp would choose if all were left to it, and a button that takes it.

    Attributes:
        sentence: What it would choose.
        use: Takes the choice as one step.
    """

    def __init__(self, state: PlannerState, app: Services, parent: QtWidgets.QWidget) -> None:
        super().__init__(parent)
        self._state = state
        self._changes: dict[str, Any] = {}
        self._asked: tuple[object, ...] = ()
        self._choosing = JobSlot(app.runner, self)
        self.sentence = wrapped_label(self, "What llama.cpp would choose")
        self.use = push_button(self, "Use", "")
        self.use.clicked.connect(lambda: self._state.apply(self._changes))
        row((self.sentence, 1), self.use, of=self)
        self.hide()

    def refresh(self) -> None:
        """Ask again where the model or the inputs are others."""
        current, engine = self._state.current, self._state.current.engine
        left = current.inputs if engine is None else current.inputs.left_open(engine)
        asked = (current.model, engine, left, current.loaded)
        if asked != self._asked:
            self._asked, self._changes = asked, {}  # until it is known what would be chosen now
            self._choose()
        self._enable()

    def _choose(self) -> None:
        request, engine = self._state.request, self._state.current.engine
        if request is None or engine is None:
            self._show(None)
            return

        def work(_job: Job) -> Plan | None:
            return engines.left_to_engine(request, engine)

        title = "Asking what llama.cpp would choose"
        self._choosing.run(title, work, self._show, self._state.refused.emit)

    def _show(self, plan: Plan | None) -> None:
        self.setVisible(plan is not None)
        if plan is None:
            return
        self.sentence.setText(engines.choice_sentence(plan))
        self._changes = engines.choice_changes(plan)
        self._enable()

    def _enable(self) -> None:
        inputs, has_gpu = self._state.inputs, bool(self._state.inputs.devices)
        differs = would_change(self._changes, self._state.current.plan, inputs.settings)
        self.use.setEnabled(has_gpu and differs)
        self.use.setToolTip(
            "Take this context and leave the layers to llama.cpp; Undo takes it back"
            if has_gpu
            else "There is no GPU that llama.cpp could choose layers for"
        )


class Bandwidths(QtWidgets.QWidget):
    """The bandwidths that speeds follow from, to be corrected.

    Attributes:
        gpu: Bandwidth of each GPU; empty for the catalogue's.
        main: Bandwidth of main memory; empty for what is assumed.
    """

    def __init__(self, state: PlannerState, parent: QtWidgets.QWidget) -> None:
        super().__init__(parent)
        self._state = state
        self.gpu, self.main = (SizeEdit(self, parse_rate, rate_text) for _ in range(2))
        parts: list[QtWidgets.QWidget] = []
        for field, text, example in (
            (self.gpu, "GPU bandw&idth", "504. Empty: as the catalogue says"),
            (self.main, "&Memory bandwidth", "60. Empty: a usual one is assumed"),
        ):
            field.setToolTip(f"GB a second, such as {example}")
            field.setAccessibleName(text.replace("&", ""))
            field.setMaximumWidth(90)
            pair = QtWidgets.QWidget(self)  # they never part at the end of a line
            row(label_of(field, text), field, of=pair)
            parts.append(pair)
        self.gpu.size_chosen.connect(lambda rate: self._give(main=False, rate=rate))
        self.main.size_chosen.connect(lambda rate: self._give(main=True, rate=rate))
        row(Flow(*parts), of=self)

    def _devices(self) -> list[Device]:
        plan = self._state.current.plan
        return [] if plan is None else plan.devices

    def show_plan(self) -> None:
        """Show what is given for the current plan, and what is believed without it."""
        devices, kept = self._devices(), self._state.basis.bandwidths
        given = {kept.get(one.name or one.key) for one in devices}
        self.gpu.show_size(given.pop() if len(given) == 1 else None)
        self.main.show_size(kept.get(CPU))
        rates = find_bandwidths(devices)
        found = {rates[name].bytes_per_second for name in rates if name != CPU}
        shared = found.pop() if len(found) == 1 else None
        for field, rate in ((self.gpu, shared), (self.main, rates[CPU].bytes_per_second)):
            field.setPlaceholderText("" if rate is None else rate_text(rate))
        self.gpu.setEnabled(bool(devices))

    def _give(self, *, main: bool, rate: int | None) -> None:
        """Take a bandwidth for main memory, or for all GPUs of the plan; it is remembered."""
        names = [CPU] if main else [one.name or one.key for one in self._devices()]
        for name in names:
            self._state.basis.set_bandwidth(name, rate)
        self._state.replan()


class DetailsPage(PlannerPage):
    """Every figure with its formula, its notes, or the figures of one of three charts.

    Attributes:
        choice: What is listed.
        why: The figures with their formulas.
        table: The figures of a chart.

    Signals:
        layer_chosen: A layer's row was selected; its number.
        curves_wanted: The curves are to be listed and are not made yet.
    """

    layer_chosen = Signal(int)
    curves_wanted = Signal()

    def __init__(
        self,
        state: PlannerState,
        app: Services,
        curves: Callable[[], Curves | None],
        parent: QtWidgets.QWidget,
    ) -> None:
        super().__init__(state, parent)
        self._curves = curves
        self.choice = CalmComboBox(self)
        self.choice.offer(_LISTED)
        self.choice.setAccessibleName("What to list")
        self.bandwidths = Bandwidths(state, self)
        self.why = WhyPage(state, app, self)
        self.model = TableModel(self)
        self.table = TableView(self.model, app, self)
        self.table.setAccessibleName("Figures of the chart")
        self._front = QtWidgets.QStackedWidget(self)
        self._front.addWidget(self.why)
        self._front.addWidget(self.table)
        self._front.setMinimumHeight(LEAST_LINES * self.fontMetrics().lineSpacing())
        self.chosen_alone = ChoiceLine(state, app, self)
        label = label_of(self.choice, "&Show")
        line = row(label, self.choice, 1, self.bandwidths, margins=LINE)
        column(line, (self._front, 1), self.chosen_alone, of=self, spacing=Space.NEAR)
        self.choice.currentIndexChanged.connect(lambda _: self.refresh())
        self.table.row_selected.connect(self._emit_layer)

    def show_figure(self, name: str) -> None:
        """Show the formula of a figure, by its place in the plan's JSON."""
        self.choice.setCurrentIndex(self.choice.findData(_WHY))
        self.why.show_figure(name)

    def refresh(self) -> None:
        kind = str(self.choice.currentData())
        self.bandwidths.show_plan()
        self.chosen_alone.refresh()
        self._front.setCurrentWidget(self.why if kind == _WHY else self.table)
        if kind == _WHY:
            self.why.refresh()
            return
        if kind == _CURVES:
            self._show_curves()
            return
        plan = self.state.current.plan
        if plan is None:
            self.model.clear()
            return
        if kind == _NOTES:
            found = remarks(plan)
            show_in(self.table, REMARKS, found, tuple(found))
            return
        bars = memory_bars(plan, self.state.current.inputs.host)
        if kind == _BARS:
            table, over = bars_table(bars), any(bar.over_bytes for bar in bars)
            rare = {Kind.FREE.value, Kind.RESERVED.value, *([] if over else ["over"])}
            rare |= {"capacity"} if plan.gpus else set()  # names of GPUs are long
            first = [name for name in table.names if name not in rare]
            show_in(self.table, table, bars, (kind, over), first)
        else:
            names = [bar.title for bar in bars if bar.device is not None]
            show_in(self.table, layers_table(names), plan.layers, kind)

    def _show_curves(self) -> None:
        curves = self._curves()
        if curves is None:
            self.curves_wanted.emit()
            self.model.clear()
            return
        places = range(len(curves.curves[0].contexts))
        show_in(self.table, curves_table(curves), places, _CURVES)

    def select_layer(self, layer: int) -> None:
        """Select a layer's row, if layers are listed."""
        if self.choice.currentData() == _LAYERS:
            with QSignalBlocker(self):
                self.table.select_row(layer)

    def _emit_layer(self, row: int) -> None:
        if self.choice.currentData() == _LAYERS:
            self.layer_chosen.emit(row)


class WhyPage(QtWidgets.QWidget):
    """All figures of the plan on the left; formula and inputs of one on the right.

    It shows another plan when `DetailsPage`, which holds it, refreshes it.

    Attributes:
        figures: The table of figures.
        inputs: The table of a formula's symbols.
        formula: The formula.
    """

    def __init__(self, state: PlannerState, app: Services, parent: QtWidgets.QWidget) -> None:
        super().__init__(parent)
        self.state = state
        self._terms: tuple[Term, ...] = ()
        self._chosen = "total"
        self.search = FilterBar("Filter figures:  devices[0]  graph  blk", "", self)
        self.figure_model, self.input_model = TableModel(self), TableModel(self)
        self.figures = TableView(self.figure_model, app, self)
        self.figures.setSelectionMode(TableView.SelectionMode.SingleSelection)
        self.inputs = TableView(self.input_model, app, self)
        self.inputs.setAccessibleName(INPUTS.title)
        for table in (self.figures, self.inputs):
            table.column_layout.least = _LEAST_CHARACTERS  # both stand side by side
        self.title, self.formula = wrapped_label(self, "Figure"), wrapped_label(self, "Formula")
        self.title.setContentsMargins(*LINE)
        self.formula.setContentsMargins(*NOTE)
        self.formula.setFont(monospace_font())
        splitter = QtWidgets.QSplitter(self)
        for parts in (
            (self.search, (self.figures, 1)),
            (self.title, self.formula, (self.inputs, 1)),
        ):
            side = QtWidgets.QWidget(self)
            column(*parts, of=side, spacing=Space.TIGHT)
            splitter.addWidget(side)
        splitter.setChildrenCollapsible(False)
        column(splitter, of=self)
        self.figures.row_selected.connect(self._choose_row)
        self.inputs.row_opened.connect(self._follow_input)
        self.search.changed.connect(self._filter)
        self.search.left_down.connect(self.focusNextChild)  # as Tab, which scrolls it into sight

    def show_figure(self, name: str) -> None:
        """Show the formula of a figure, by its place in the plan's JSON."""
        self._chosen = name
        self.search.edit.clear()
        self.refresh()
        names = [term.name for term in self._terms]
        if name in names:
            self.figures.select_row(names.index(name))

    def refresh(self) -> None:
        """Show the figures of the current plan."""
        plan = self.state.current.plan
        self._terms = () if plan is None else plan.terms
        names = tuple(term.name for term in self._terms)
        if show_in(self.figures, TERMS, self._terms, names):
            self._filter(self.search.text)
        self._show_chosen()

    def _filter(self, text: str) -> None:
        words = text.casefold().split()
        mask = np.array([all(w in term.name.casefold() for w in words) for term in self._terms])
        self.figure_model.set_filter(mask.astype(np.bool_) if words else None)

    def _choose_row(self, row: int) -> None:
        if row < len(self._terms):
            self._chosen = self._terms[row].name
            self._show_chosen()

    def _follow_input(self, row: int) -> None:
        """Show the figure that a symbol stands for, if it is one."""
        term = self._term()
        if term is not None and row < len(term.inputs):
            origin = list(term.inputs.values())[row].origin
            if any(other.name == origin for other in self._terms):
                self.show_figure(origin)

    def _term(self) -> Term | None:
        return next((term for term in self._terms if term.name == self._chosen), None)

    def _show_chosen(self) -> None:
        term = self._term()
        if term is None:
            self.title.setText("Choose a figure to see its formula.")
            self.formula.clear()
            self.input_model.clear()
            return
        value = exact_text(term.value) if isinstance(term.value, int) else value_text(term.value)
        self.title.setText(f"{term.name} = {value}")
        self.formula.setText(f"= {plain_text(term.formula)}")
        inputs = list(term.inputs.items())
        show_in(self.inputs, INPUTS, inputs, term.name)


class _Lines(QtWidgets.QPlainTextEdit):
    """A text to copy, as high as its lines."""

    def __init__(self, parent: QtWidgets.QWidget) -> None:
        super().__init__(parent, readOnly=True, tabChangesFocus=True)
        self.setFont(monospace_font())
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        # Not while Qt lays out: a height set then can make the area around it show and hide its
        # scroll bar in turn, each from within the other, without an end.
        self._fitting = single_shot(self, self._fit)
        self.document().documentLayout().documentSizeChanged.connect(
            lambda _: self._fitting.start()
        )

    def _fit(self) -> None:
        lines = max(1, int(self.document().size().height()))  # of a plain text, as they are wrapped
        margins = 2 * int(self.document().documentMargin()) + 2 * self.frameWidth()
        self.setFixedHeight(lines * self.fontMetrics().lineSpacing() + margins)

    # Qt

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fitting.start()


class ExportPage(PlannerPage):
    """The settings as texts for other programs, each with a button to copy it.

    Attributes:
        copy_buttons: The buttons that copy a text, by its name.
    """

    def __init__(self, state: PlannerState, parent: QtWidgets.QWidget) -> None:
        super().__init__(state, parent)
        self._edits: dict[str, QtWidgets.QPlainTextEdit] = {}
        self._labels: dict[str, QtWidgets.QLabel] = {}
        self.copy_buttons: dict[str, QtWidgets.QPushButton] = {}
        self._grid = QtWidgets.QGridLayout()
        self._grid.setSpacing(Space.NEAR)
        self._add("server", "llama-server")
        self._add("environment", "Ollama's environment")
        self._add("modelfile", "Modelfile")
        self._add("lm_studio", "LM Studio")
        self._add("command", "This plan")
        column((self._grid, 1), of=self, margins=LINE)

    def text(self, name: str) -> str:
        """Return a text by its name: that of a key of `copy_buttons`."""
        current = self.state.current
        model, plan = current.model, current.plan
        if model is None:
            return ""
        if name == "command":
            return plan_export.plan_command(model.path, current.inputs)
        if plan is None:
            return ""
        if name == "server":
            return plan_export.server_command(model.path, plan, model.projector)
        lines = {
            "lm_studio": engines.lm_studio_lines,
            "modelfile": plan_export.modelfile_lines,
            "environment": plan_export.environment_lines,
        }
        return "\n".join(lines[name](plan))

    def refresh(self) -> None:
        """Show the texts of the current plan; a program that cannot load the model has none."""
        plan = self.state.current.plan
        for name, edit in self._edits.items():
            shown = plain_text(self.text(name), lines=True)
            if shown != edit.toPlainText():
                edit.setPlainText(shown)
            for part in (self._labels[name], edit, self.copy_buttons[name]):
                part.setVisible(bool(shown))
        if plan is not None:
            self._labels["server"].setText("".join(plan.engine.command(plan)[:1]))

    def _add(self, name: str, title: str) -> None:
        row = self._grid.rowCount()
        edit = _Lines(self)
        edit.setAccessibleName(title)
        button = push_button(self, "Copy", f"Copy {title}")
        button.setAccessibleName(button.toolTip())
        button.clicked.connect(lambda: QGuiApplication.clipboard().setText(self.text(name)))
        label = label_of(edit, title)
        label.setContentsMargins(0, Space.TIGHT, 0, 0)  # its words beside the first line
        for place, widget in enumerate((label, edit, button)):
            self._grid.addWidget(widget, row, place)
            if widget is not edit:
                self._grid.setAlignment(widget, Qt.AlignmentFlag.AlignTop)
        self._edits[name], self.copy_buttons[name] = edit, button
        self._labels[name] = label
