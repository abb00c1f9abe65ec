"""What if tensors had other types: what they would lose, how large they and the plan would be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

from PySide6.QtCore import Signal
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QStackedWidget, QVBoxLayout, QWidget

from explorer.analysis.what_if import TypeErrors
from explorer.errors import ExplorerError
from explorer.hardware.detect import Machine, detect
from explorer.planner.inputs import PlanInputs
from explorer.qt.jobs import Job, JobRunner
from explorer.qt.models.document import Document
from explorer.qt.models.errors.references import References, Rounding
from explorer.qt.models.what_if.originals import OriginalsKeeper
from explorer.qt.models.what_if.question import Kept, Prospect, Question, look_ahead
from explorer.qt.models.what_if.table import lines_of
from explorer.qt.models.what_if.work import WhatIfState, WhatIfWork
from explorer.qt.views.errors.what_if.controls import WhatIfControls
from explorer.qt.views.errors.what_if.panel import WhatIfPanel, can_be_used
from explorer.qt.views.errors.what_if.progress import WhatIfProgress
from explorer.qt.views.errors.what_if.texts import basis_text, planned_text
from explorer.qt.views.labels import plain_label
from explorer.qt.views.progress.job_slot import JobSlot
from explorer.qt.views.state_page import StatePage
from explorer.text import integer_text, plain_text

AUTOMATIC_COST: Final = 4_000_000_000
"""Work that begins by itself: ten seconds of a core."""


@dataclass(frozen=True, slots=True)
class _Ahead:
    """What a look ahead found."""

    machine: Machine
    prospect: Prospect
    errors: dict[str, TypeErrors]
    missing_types: int
    cost: int


class WhatIfPage(QWidget):
    """A chart and a table of types. Reads weights by itself only while it is visible.

    Attributes:
        controls: The line above.
        note: What errors are measured against.
        panel: Chart and table.
        progress: The line below.
        state: What stands there while there is nothing to show.
        prospect: What is shown; None while nothing is.
        plan_inputs: Returns what the planner plans for, for a model; None for something usual.

    Signals:
        exported: A file was written; its path.
        failed: Something cannot be done; an `ExplorerError`.
    """

    exported = Signal(str)
    failed = Signal(object)

    def __init__(
        self, runner: JobRunner, references: References, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._runner = runner
        self._references = references
        self._keeper = OriginalsKeeper(references)
        self._document: Document | None = None
        self._found: WeakKeyDictionary[Document, Kept] = WeakKeyDictionary()
        self._looking = JobSlot(runner, self)
        self._measuring = JobSlot(runner, self)
        self._work: WhatIfWork | None = None
        self._asked_for = False  # whether the user started the work
        self._question: Question | None = None
        self._machine: Machine | None = None
        self.plan_inputs: Callable[[Document], PlanInputs | None] = lambda _document: None
        self.prospect: Prospect | None = None
        self.controls = WhatIfControls(runner, self)
        self.note = plain_label(self)
        self.note.setWordWrap(True)
        self.note.setContentsMargins(8, 0, 8, 2)
        self.note.setAccessibleName(self.tr("What errors are measured against"))
        self.panel = WhatIfPanel(runner, self)
        self.progress = WhatIfProgress(self)
        self.state = StatePage(self)
        self._stack = QStackedWidget(self)
        self._stack.addWidget(self.state)
        self._stack.addWidget(self.panel)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.controls)
        layout.addWidget(self.note)
        layout.addWidget(self._stack, 1)
        layout.addWidget(self.progress)
        self._connect()
        self._renew()

    def _connect(self) -> None:
        controls, progress = self.controls, self.progress
        controls.scope_changed.connect(self._renew)
        controls.types.changed.connect(self._renew)
        controls.matrix.changed.connect(self._renew)
        controls.matrix.failed.connect(self.failed)
        controls.measure.currentIndexChanged.connect(
            lambda _: self.panel.chart.set_measure(controls.chosen_measure)
        )
        controls.use.clicked.connect(self.use_as_reference)
        self.state.pressed.connect(self._press)
        self.panel.marked.connect(lambda line: controls.use.setEnabled(can_be_used(line)))
        self.panel.table.row_opened.connect(lambda _row: self.use_as_reference())
        self.panel.exported.connect(self.exported)
        self.panel.failed.connect(self.failed)
        progress.start_requested.connect(self.start)
        progress.pause_requested.connect(self._pause_or_resume)
        progress.cancel_requested.connect(self.cancel)
        self._references.changed.connect(self._renew)
        self._references.documents_changed.connect(self._renew)

    @property
    def busy(self) -> bool:
        """Whether weights are read."""
        return self._measuring.busy

    def show_subject(self, document: Document | None, rows: Sequence[int] = ()) -> None:
        """Show other tensors; None ends all reading.

        Args:
            document: The model.
            rows: Selected tensors, by row, the one that matters most first.
        """
        self._document = document
        self.controls.show_subject(document, rows)
        self._renew()

    def start(self) -> None:
        """Measure what is not known."""
        if self.prospect is not None:
            self._asked_for = True
            self._measure(self.prospect)

    def cancel(self) -> None:
        """Stop reading; what was found stays known."""
        if self._stop():
            self.progress.rest(
                self.tr("Cancelled: what was found stays known."), self.tr("Measure the rest")
            )

    def use_as_reference(self) -> None:
        """Compare with the marked type in every panel."""
        type_name = self.panel.selected_type
        if self.controls.use.isEnabled() and type_name:
            wanted = Rounding(type_name)
            if self._references.chosen != wanted:
                self._references.choose(wanted)

    # What is asked

    def _renew(self) -> None:
        """Tell of what is chosen, unless that is told already."""
        self._keeper.follow()
        question = self._wanted()
        if question is None:
            self._question = None
            self._stop()
            self._looking.cancel()
            self.prospect = None
            self._explain()
        elif not _same(question, self._question):
            self._question, self.prospect = None, None  # a closed model is not kept
            self._stop()
            if self.isVisible():
                self._question = question
                self._look(question)

    def _wanted(self) -> Question | None:
        document, rows, types = self._document, self.controls.rows, self.controls.types.types
        if document is None or rows == () or not types or self._keeper.waiting:
            return None
        matrix, originals = self.controls.matrix.matrix, self._keeper.originals
        inputs = self.plan_inputs(document)
        if self._work is not None and self._question is not None:
            inputs = self._question.inputs  # other plans are no reason to measure again
        return Question(document, rows, types, originals, matrix, inputs)

    def _explain(self) -> None:
        """Say why there is nothing to show."""
        self.note.clear()
        self.progress.rest("", "")
        self.controls.use.setEnabled(False)
        if self._document is None or self.controls.rows == ():
            self._tell(
                self.tr("Select a tensor"),
                self.tr("Choose one in the tree or in the tensor table to try other types."),
            )
        elif self._keeper.waiting:
            self._tell(self.tr("The tensors of both models are being matched."), "")
        else:
            self._tell(
                self.tr("No type is chosen"),
                self.tr("Choose the types to try."),
                self.tr("Choose types…"),
            )

    def _press(self) -> None:
        if self.controls.types.types:
            self._question = None
            self._renew()
        else:
            self.controls.types.open_list()

    def _look(self, question: Question) -> None:
        kept = self._kept(question.document)

        def look(job: Job) -> _Ahead:
            machine = self._machine or detect()
            prospect = look_ahead(question, machine, job.check)
            return _Ahead(
                machine,
                prospect,
                prospect.known(kept),
                len(prospect.unknown_types(kept)),
                sum(task.cost for task in prospect.missing(kept)),
            )

        self._looking.run(self.tr("Looking at other types"), look, self._take, self._fail)

    def _take(self, ahead: _Ahead) -> None:
        self._machine, self.prospect = ahead.machine, ahead.prospect
        prospect = ahead.prospect
        self.note.setText(plain_text(basis_text(prospect)))
        self.panel.show_planned(planned_text(prospect))
        self._show(ahead.errors)
        self._stack.setCurrentWidget(self.panel)
        if not ahead.cost:
            self.progress.rest(self._all_known(), "")
        elif len(prospect.pieces) == 1 and ahead.cost <= AUTOMATIC_COST:
            self._asked_for = False
            self._measure(prospect)
        else:
            text = self.tr("{weights} weights in {tensors} tensors would be rounded").format(
                weights=integer_text(prospect.parameters),
                tensors=integer_text(len(prospect.pieces)),
            )
            button = self.tr("Measure {n} types").format(n=ahead.missing_types)
            self.progress.rest(text, button)

    def _all_known(self) -> str:
        fit = [line for line in self.panel.lines[1:] if line.size.problem is None]
        if not fit:
            return self.tr("None of these types is possible here.")
        return self.tr("All {n} types are measured.").format(n=len(fit))

    # Measuring

    def _measure(self, prospect: Prospect) -> None:
        work = WhatIfWork(prospect, self._kept(prospect.question.document))
        self._work = work
        roundings = [one for name in prospect.tasks for one in prospect.roundings(name)]
        needed = self._runner.need_kernels([*prospect.kernels, *roundings])
        kernels = [name for name in needed if name in prospect.kernels]
        text = self.tr("Preparing…")
        if kernels:
            text = self.tr("Preparing the kernels for {types}…").format(types=", ".join(kernels))
        self.progress.begin(text)
        job = self._measuring.run(
            self.tr("Trying other types"),
            lambda job: work.run(job, self._runner.wait_for_kernels),
            self._finish,
            self._fail,
        )
        job.published.connect(self._grow)
        job.finished.connect(lambda: self._look_for_cancelled(job))

    def _grow(self, state: WhatIfState) -> None:
        if self._work is not None and not self._work.control.paused:
            self.progress.show_state(state)
        self._show(state.errors)

    def _finish(self, state: WhatIfState) -> None:
        self._work = None
        self._show(state.errors)
        text = self._all_known()
        if state.failures:
            name, error = state.failures[0]
            text = self.tr("{n} tensors could not be read and are left out: {name}: {what}").format(
                n=integer_text(len(state.failures)), name=plain_text(name), what=error.what
            )
        self.progress.rest(plain_text(text), "")

    def _fail(self, error: ExplorerError) -> None:
        self._work = None
        self.prospect = None
        self.progress.rest("", "")
        self.controls.use.setEnabled(False)
        self._tell(self.tr("Other types cannot be tried"), str(error), self.tr("Try again"))

    def _stop(self) -> bool:
        """End the work; return whether there was any."""
        work, self._work = self._work, None
        if work is not None:
            self._measuring.cancel()
            work.control.cancel()
        return work is not None

    def _look_for_cancelled(self, job: Job) -> None:
        """Tell of a job that somebody else cancelled, such as the status bar."""
        if self._work is not None and self._measuring.stopped and job.cancelled:
            self.cancel()

    def _pause_or_resume(self) -> None:
        if self._work is None:
            return
        control = self._work.control
        if control.paused:
            control.resume()
        else:
            control.pause()
        self.progress.set_paused(control.paused)

    # What is shown

    def _show(self, errors: Mapping[str, TypeErrors]) -> None:
        prospect = self.prospect
        if prospect is not None:
            gpus = bool(prospect.planned.devices)
            self.panel.show_lines(lines_of(prospect, errors), gpus=gpus)

    def _kept(self, document: Document) -> Kept:
        return self._found.setdefault(document, Kept())

    def _tell(self, heading: str, sentence: str, button: str = "") -> None:
        self.state.tell(heading, sentence, button)
        self._stack.setCurrentWidget(self.state)

    # Qt

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if not event.spontaneous():
            self._renew()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        # what the user started goes on, as the status bar tells; the rest begins again when seen
        if not event.spontaneous() and not self._asked_for and self._stop():
            self._question = None


def _same(one: Question, other: Question | None) -> bool:
    return other is not None and (
        (one.document, one.originals, one.matrix) == (other.document, other.originals, other.matrix)
        and (one.rows, one.types, one.inputs) == (other.rows, other.types, other.inputs)
    )
