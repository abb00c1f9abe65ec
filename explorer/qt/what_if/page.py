"""What if tensors had other types: what they would lose, how large they and the plan would be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final
from weakref import WeakKeyDictionary

from PySide6 import QtWidgets
from PySide6.QtCore import QByteArray, QSignalBlocker, Qt, Signal
from PySide6.QtGui import QKeySequence, QShortcut

from explorer.analysis.recipes.fits import RoleErrors
from explorer.analysis.what_if import PRESENT, TypeErrors
from explorer.errors import ExplorerError
from explorer.hardware.detect import Machine, detect
from explorer.planner.inputs import PlanInputs
from explorer.present.errors import NO_MATRIX, rounding_notes
from explorer.present.tables.errors import FIGURES
from explorer.present.tables.recipes import ROLES
from explorer.present.tables.table import Table
from explorer.present.tables.what_if import Trial, change_text, note_text, short_note, what_if_table
from explorer.present.what_if import (
    SourceModel,
    WhatIfCache,
    WhatIfEstimate,
    WhatIfRequest,
    WhatIfState,
    estimate_of,
    measure,
    trials_of,
)
from explorer.qt.addresses import TensorFetch, agrees_to_tensors
from explorer.qt.document import Document
from explorer.qt.jobs import Job, JobSlot, all_cores
from explorer.qt.references import References
from explorer.qt.services import Services
from explorer.qt.what_if.chart import WhatIfChart
from explorer.qt.what_if.controls import WhatIfControls
from explorer.qt.widgets.building import NOTE, tab_through
from explorer.qt.widgets.labels import plain_label
from explorer.qt.widgets.pages import ReadingPage, Refusal, Request, no_model_open
from explorer.qt.widgets.plot_panel import PicturePanel
from explorer.qt.widgets.progress import RestingLine
from explorer.qt.widgets.table_model import TableModel
from explorer.qt.widgets.table_view import TableView
from explorer.text import bits_text, bytes_text, counted, integer_text, plain_text

# What the page of what-ifs says in words.


def basis_text(estimate: WhatIfEstimate) -> str:
    """Return what errors are measured against, and what is left out."""
    request, parts = estimate.request, []
    types = request.model.tensors.columns.types
    if request.source is not None and estimate.against_source:
        parts.append(
            f"The original, {request.source.title}, is rounded. The first line has the "
            "error of this file against it."
        )
    else:
        if request.source is not None:
            parts.append("The reference has no tensor that matches.")
        parts.append("The file's own weights are rounded.")
        if any(types[row].quantized for one in estimate.sets for row in one.rows):
            parts.append(
                "They are quantized already, so these errors come on top. For the whole error, "
                "choose the original above."
            )
    parts += rounding_notes(request.types)
    if estimate.alone:
        alone = counted(estimate.alone, "tensor")
        parts.append(f"Unchanged, without a partner in the reference: {alone}.")
    if request.matrix is not None:
        count, total = map(integer_text, (estimate.importance_count, len(estimate.sets)))
        parts.append(
            f"The importance matrix has {count} of {total} tensors. It guides the search for "
            "scales, and errors are also shown weighted by it."
        )
    else:
        parts.append(NO_MATRIX)
    return " ".join(parts)


def offer_text(estimate: WhatIfEstimate, count: int) -> str:
    """Return the text of the button that measures so many types or recipes."""
    return f"Measure {counted(count, 'recipe' if estimate.request.by_recipe else 'type')}"


def known_text(lines: Sequence[Trial]) -> str:
    """Return what is known of types or recipes, once all that can be is measured."""
    noun = "recipe" if any(line.recipe for line in lines) else "type"
    fit = sum(line.size.problem is None for line in lines)
    if fit == 1:
        return f"This {noun} is measured."
    return f"All {fit} {noun}s are measured." if fit else f"None of these {noun}s is possible here."


def planned_text(estimate: WhatIfEstimate) -> str:
    if estimate.plan_problem:
        return f"There is no memory plan: {estimate.plan_problem}."
    plan = estimate.plans.get(PRESENT)
    if plan is None:
        return "There is no memory plan for the planner's settings."
    tokens = integer_text(plan.context)
    text = f"Memory is planned as in the planner, for {tokens} tokens"
    devices = ", ".join(device.label for device in estimate.planned.devices)
    return f"{text}, on {devices}." if devices else f"{text}, without a GPU."


def line_text(line: Trial) -> str:
    parts = [line.title]
    if line.size.problem is None:
        bits = bits_text(line.size.bits_per_weight)
        parts.append(f"{bits} bits/weight")
        size = bytes_text(line.size.nbytes)
        if line.type_name != PRESENT:
            size += f" ({change_text(line.size.nbytes - line.now.nbytes)})"
        parts.append(size)
    relative, sqnr = line.figure("relative_rmse"), line.figure("sqnr_db")
    if relative is not None and sqnr is not None:
        for name, value in (("relative_rmse", relative), ("sqnr_db", sqnr)):
            parts.append(f"{FIGURES[name].title} {FIGURES[name].write(value)}")
    if line.plan is not None and line.size.problem is None:
        parts.append(f"memory {bytes_text(line.plan.total)}")
    note = note_text(line)
    return "   ".join([*parts, note] if note else parts)


# Chart and table of what-ifs: two views of the same lines, with one mark.


_CHART_HEIGHT, _TABLE_HEIGHT = 360, 260
_TABLE_WIDTH, _ROLES_WIDTH = 530, 370


class WhatIfPanel(PicturePanel):
    """Chart and table, one above the other.

    Attributes:
        lines: The lines, in their own order: the present type first.
        by_recipe: Whether lines are recipes rather than types.

    Signals:
        marked: Another line was marked; None if none is.
    """

    marked = Signal(object)

    def __init__(self, app: Services) -> None:
        self.chart, self.model = WhatIfChart(), TableModel()
        super().__init__(app, self.chart, self.model)
        self.roles = TableView(TableModel(self), app, self)
        self.roles.setAccessibleName(ROLES.title)
        self.roles.hide()
        lower = QtWidgets.QSplitter(self)
        self.splitter.replaceWidget(1, lower)
        for part, width in ((self.table, _TABLE_WIDTH), (self.roles, _ROLES_WIDTH)):
            lower.addWidget(part)
            lower.setStretchFactor(lower.count() - 1, width)
        lower.setSizes([_TABLE_WIDTH, _ROLES_WIDTH])
        lower.setChildrenCollapsible(False)
        self.table.show()
        self.model.setParent(self)
        self.lines: Sequence[Trial] = ()
        self.by_recipe = False
        self._planned = ""
        self.splitter.setOrientation(Qt.Orientation.Vertical)
        self.splitter.setStretchFactor(1, 1)
        self.splitter.setSizes([_CHART_HEIGHT, _TABLE_HEIGHT])
        self.chart.point_read.connect(self._read_out)
        self.chart.chosen.connect(self.select)
        self.table.row_selected.connect(self._mark)

    @property
    def selected_type(self) -> str | None:
        """The type that is marked; None if none is."""
        return self.chart.selected

    def show_planned(self, text: str) -> None:
        self._planned = text
        self.show_resting(text)

    def show_roles(self, roles: Sequence[RoleErrors]) -> None:
        """Show the errors of the marked line by role; nothing where there is one role."""
        self.roles.setVisible(len(roles) > 1)
        if self.roles.table.update(ROLES, roles):
            self.roles.show_columns(QByteArray())

    def show_lines(self, lines: Sequence[Trial], *, weighted: bool = False) -> None:
        """Show other lines, or more of the same."""
        before, self.lines = self.lines, tuple(lines)
        table = what_if_table(by_recipe=self.by_recipe, planned=self._planned, weighted=weighted)
        same = [(one.type_name, one.size.problem) for one in before] == [
            (one.type_name, one.size.problem) for one in lines
        ]
        if same and [one.name for one in self.model.columns] == table.names:
            self.model.renew(table, self.lines)
            if _extent(before) != _extent(lines):
                self.table.fit_columns()  # figures are wider than what stood in their place
        else:
            self._replace(table)
        self.chart.show_lines(lines)

    def select(self, type_name: str) -> None:
        """Mark a type in chart and table."""
        types = [line.type_name for line in self.lines]
        if type_name in types:
            self.table.select_row(types.index(type_name))

    def _replace(self, table: Table[Trial]) -> None:
        """Show other types; columns, sorting and the mark stay as they were."""
        marked = self.selected_type
        kept = self.table.columns_state() if self.model.columns else QByteArray()
        with QSignalBlocker(self.table):
            self.table.show_rows(table, self.lines, kept)
        self.chart.select(None)
        self.show_text("")
        self.marked.emit(None)
        if marked is not None:
            self.select(marked)

    def _mark(self, place: int) -> None:
        line = self.lines[place]
        self.chart.select(line.type_name)
        self.show_text(line_text(line))
        self.marked.emit(line)

    def _read_out(self, line: Trial | None) -> None:
        if line is None:  # the mouse stands on no point
            line = next((one for one in self.lines if one.type_name == self.selected_type), None)
        self.show_text("" if line is None else line_text(line))


def _extent(lines: Sequence[Trial]) -> object:
    """Return what the widths of the columns follow from, while the lines are the same."""
    return [(line.errors is not None, len(short_note(line))) for line in lines]


AUTOMATIC_COST: Final = 4_000_000_000
"""Work that begins by itself: ten seconds of a core."""


@dataclass(frozen=True, slots=True)
class _Estimated:
    """An estimate, what is known of its errors, and how much work the others are."""

    machine: Machine
    estimate: WhatIfEstimate
    errors: dict[str, TypeErrors]
    missing_types: int
    cost: int


_MOST_WORKERS: Final = 8  # each holds about 6 MiB


def _measured(estimate: WhatIfEstimate, cache: WhatIfCache, job: Job) -> WhatIfState:
    """Measure what an estimate does not know; raise why the only tensor cannot be read."""
    found = measure(
        *(estimate, cache, min(_MOST_WORKERS, all_cores())),
        check=job.check,
        progress=lambda _done, state: job.publish(state),
    )
    if len(estimate.sets) == 1 and found.failures:
        raise found.failures[0][1]
    return found


class WhatIfPage(ReadingPage[_Estimated | WhatIfState]):
    """A chart and a table of types: first an estimate, then the errors that were measured.

    Attributes:
        estimate: What is shown; None while nothing is.
        plan_inputs: Returns the inputs of the planner for a model; None for something usual.
    """

    def __init__(
        self, app: Services, references: References, parent: QtWidgets.QWidget | None = None
    ) -> None:
        self.panel = WhatIfPanel(app)
        super().__init__(parent, self.panel)
        self._references = references
        self._keys: WeakKeyDictionary[Document, object] = WeakKeyDictionary()  # of originals
        self._document: Document | None = None
        self._caches: WeakKeyDictionary[Document, WhatIfCache] = WeakKeyDictionary()
        self._measuring = False
        self._wants_errors = False  # whether the estimate is to be followed by measuring
        self._asked_for = False  # whether the user started the work
        self._wanted: WhatIfRequest | None = None
        self._adding = JobSlot(app.runner, self)
        self._machine: Machine | None = None
        self.plan_inputs: Callable[[Document], PlanInputs | None] = lambda _document: None
        self.estimate: WhatIfEstimate | None = None
        self.controls = WhatIfControls(self)
        self.note = plain_label(self, wraps=True)
        self.note.setContentsMargins(*NOTE)
        self.note.setAccessibleName("What errors are measured against")
        self.progress = RestingLine(self)
        self.frame.insertWidget(0, self.controls)
        self.frame.insertWidget(1, self.note)
        tab_through(self.controls, *self.panel.stops)
        self.frame.addWidget(self.progress)
        self._connect()
        self.begin_life(app, (self,), self.progress)
        escape = QShortcut(QKeySequence(Qt.Key.Key_Escape), self)
        escape.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        escape.activated.connect(self.cancel)

    def _connect(self) -> None:
        controls, progress = self.controls, self.progress
        controls.scope_changed.connect(self._renew)
        for chooser in controls.choosers:
            chooser.changed.connect(self._renew)
        controls.measure.currentIndexChanged.connect(
            lambda _: self.panel.chart.set_measure(controls.chosen_measure)
        )
        self.panel.marked.connect(lambda _line: self._show_roles())
        progress.resume_requested.connect(self.start)
        progress.cancel_requested.connect(self.cancel)
        progress.left.connect(self.panel.table.setFocus)
        self._references.changed.connect(self._renew)
        self._references.documents_changed.connect(self._renew)

    def focus_search(self) -> None:
        """Go to the choice of tensors."""
        self.controls.scope.setFocus()

    def show_subject(self, document: Document | None, rows: Sequence[int] = ()) -> None:
        """Show other tensors, by row, the one that matters most first; None ends all reading."""
        self._document = document
        if document is not None:
            self.panel.file_name = f"{document.title} what if"
        self.controls.show_subject(document, rows)
        self._renew()

    def start(self) -> None:
        """Measure what is not known."""
        if self.estimate is not None and agrees_to_tensors(self.estimate.tensors, self):
            self._asked_for = self._wants_errors = True
            self.load()

    def _show_roles(self) -> None:
        """Show the errors of the marked type by role; adding them up is work."""
        estimate, name = self.estimate, self.panel.selected_type
        if estimate is None or name is None or len(estimate.sets) < 2:
            self._adding.cancel()
            self.panel.show_roles(())
            return
        cache = self._cache()
        self._adding.run(
            "Adding up errors by role",
            lambda _job: estimate.roles(name, cache),
            self.panel.show_roles,
            self.app.report,
        )

    # What is asked

    def _renew(self) -> None:
        """Drop what is shown or read if something else is wanted, and read that."""
        wanted = self._next()
        if wanted is None or wanted != self._wanted:
            self._wanted = self.estimate = None  # a closed model is not kept
            self._wants_errors = self._asked_for = False
            self.stop()
        self.load()

    def request(self) -> Request[_Estimated | WhatIfState] | Refusal | None:
        wanted = self._next()
        if wanted is None:
            return self._refusal()
        if wanted != self._wanted:
            self.estimate, self._wants_errors = None, False
        self._wanted = wanted
        if self.estimate is None:
            return self._estimate_request(wanted)
        return self._measure_request(self.estimate) if self._wants_errors else None

    def _next(self) -> WhatIfRequest | None:
        document, rows, types = self._document, self.controls.rows, self.controls.chooser.types
        if document is None or rows == () or not types or self._waiting:
            return None
        matrix, source = self._references.matrix, self._source()
        inputs = self.plan_inputs(document)
        if self._measuring and self._wanted is not None:
            inputs = self._wanted.inputs  # other plans are no reason to measure again
        by_recipe = self.controls.by_recipe
        return WhatIfRequest(document.model, rows, types, by_recipe, source, matrix, inputs)

    @property
    def _waiting(self) -> bool:
        """Whether tensors are being matched; `References.changed` will follow."""
        return isinstance(self._references.original, Document) and self._references.matched is None

    def _source(self) -> SourceModel | None:
        """Return the original that is rounded; None for the model's own weights."""
        chosen, matched = self._references.original, self._references.matched
        if not isinstance(chosen, Document) or matched is None:
            return None
        key = self._keys.setdefault(chosen, object())
        return SourceModel(key, chosen.model, plain_text(chosen.title), matched.matching)

    def _refusal(self) -> Refusal:
        self.note.clear()
        if self._document is None:
            return no_model_open(self.app, "What if?", "Open a model to try other types.")
        if self._waiting:
            return Refusal("The tensors of both models are being matched.", "")
        noun, choose = self.controls.chooser.noun, self.controls.chooser.open_list
        sentence, button = f"Choose the {noun}s to try.", f"Choose {noun}s…"
        return Refusal(f"No {noun} is chosen", sentence, button, choose)

    def _estimate_request(self, wanted: WhatIfRequest) -> Request[_Estimated | WhatIfState]:
        cache = self._cache()

        def read(job: Job) -> _Estimated:
            machine = self._machine or detect()
            usual = PlanInputs(devices=machine.devices, host=machine.host)
            estimate = estimate_of(wanted, usual, job.check)
            estimate.recall(cache)
            errors = estimate.known(cache)
            asked = [name for name in wanted.types if name in estimate.tasks]
            unknown = [name for name in asked if name not in errors or not errors[name].complete]
            cost = sum(task.cost for task in estimate.missing(cache))
            return _Estimated(machine, estimate, errors, len(unknown), cost)

        return Request(
            key=("estimate", wanted),
            title="Looking at other types",
            heading="Looking at other types…",
            failure="Other types cannot be tried",
            work=read,
        )

    def _measure_request(self, estimate: WhatIfEstimate) -> Request[_Estimated | WhatIfState]:
        self._measuring = True
        return Request(
            key=("errors", estimate.request),
            title="Trying other types",
            heading="",
            failure="Other types cannot be tried",
            work=partial(_measured, estimate, self._cache()),
        )

    # Life

    def keeps_reading(self) -> bool:
        return self._asked_for  # the status bar shows it

    def show_begun(self) -> None:
        if self.estimate is not None:
            self.progress.start()

    def show_ended(self) -> None:
        self._measuring = False
        self.progress.rest("", "")

    def show_cancelled(self) -> None:
        self._measuring = False
        if self.estimate is None:
            super().show_cancelled()
            return
        if self.visible or self._asked_for:  # else it begins again when the page is visible
            self._wants_errors = self._asked_for = False
        self.progress.rest("Cancelled. The results so far stay.", "Measure the rest")

    def show_failed(self, heading: str, error: ExplorerError) -> None:
        self.estimate = None
        super().show_failed(heading, error)

    def show_part(self, part: WhatIfState) -> None:
        if self._measuring:
            self.progress.show_progress(part.done, part.total)
        self._show(part.errors)

    def show_result(self, result: _Estimated | WhatIfState) -> None:
        if isinstance(result, _Estimated):
            self._show_estimate(result)
            return
        self._wants_errors = self._asked_for = False
        self._show(result.errors)
        self._show_roles()
        text = known_text(self.panel.lines[1:])
        if result.failures:
            name, error = result.failures[0]
            count = counted(len(result.failures), "tensor")
            text = f"{count} left out: {plain_text(name)}: {error.what}"
        self.progress.rest(plain_text(text), "")

    def _show_estimate(self, found: _Estimated) -> None:
        self._machine = found.machine
        estimate = self.estimate = found.estimate
        self.note.setText(plain_text(basis_text(estimate)))
        self.panel.show_planned(planned_text(estimate))
        self._show(found.errors)
        self.show_content()
        if not found.cost:
            self.progress.rest(known_text(self.panel.lines[1:]), "")
        elif (
            len(estimate.sets) == 1
            and found.cost <= AUTOMATIC_COST
            and TensorFetch.of(estimate.tensors) is None
        ):
            self._wants_errors = True
            self.load()
        else:
            text = (
                f"{counted(estimate.parameters, 'weight')} in "
                f"{counted(len(estimate.sets), 'tensor')} would be rounded"
            )
            self.progress.rest(text, offer_text(estimate, found.missing_types))

    def _show(self, errors: Mapping[str, TypeErrors]) -> None:
        if self.estimate is not None:
            self.panel.by_recipe = self.estimate.request.by_recipe
            weighted = self.estimate.request.matrix is not None
            lines = trials_of(self.estimate, errors)
            self.panel.show_lines(lines, weighted=weighted)
            request = self.estimate.request
            if request.by_recipe and request.rows is None and self.estimate.against_source:
                self._references.note_recipes([one for one in lines[1:] if one.complete])

    def _cache(self) -> WhatIfCache:
        """Return the results of the model that is shown."""
        assert self._document is not None
        return self._caches.setdefault(self._document, WhatIfCache())
