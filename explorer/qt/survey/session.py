"""The survey of the current model: what is known of its tensors, and the job under way.

What earlier surveys kept is read when the panel is first shown. Weights are read on request: that
may take minutes. Another model, or another reference, cancels the job; its results are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QObject, Signal

from explorer.present.survey import Known
from explorer.qt.document import Document
from explorer.qt.jobs import Job, JobRunner, JobSlot
from explorer.qt.references import Reference, References, Rounding
from explorer.qt.survey import work
from explorer.qt.survey.work import ComparisonContent, SurveyContent, SurveyProgress, SurveyWork

Result = TypeVar("Result")


class SurveyState(Enum):
    NOTHING = auto()  # there is no model
    LOADING = auto()  # results of earlier surveys are being read
    READY = auto()
    RUNNING = auto()
    PAUSED = auto()


class SurveySession(QObject):
    """What is known of the current model's tensors.

    Attributes:
        content: The tensors and their statistics; None until they were read.
        comparison: Their errors against the chosen reference; None without one, or not yet.
        progress: Progress of the survey; None if none is under way.

    Signals:
        replaced: Another model, another reference, or results of earlier surveys were read.
        grown: More is known; at most 20 times a second.
        state_changed: The state is another one.
        failed: Something cannot be read; an `ExplorerError`.
    """

    replaced = Signal()
    grown = Signal()
    state_changed = Signal()
    failed = Signal(object)

    def __init__(
        self, runner: JobRunner, references: References, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._runner = runner
        self.references = references
        self.document: Document | None = None
        self.content: SurveyContent | None = None
        self.comparison: ComparisonContent | None = None
        self.progress: SurveyProgress | None = None
        self._contents: WeakKeyDictionary[Document, SurveyContent] = WeakKeyDictionary()
        self._chosen: Reference = None
        self._visible = False
        self._reading = JobSlot(runner, self)
        self._surveying = JobSlot(runner, self)
        self._work: SurveyWork | None = None
        references.changed.connect(self._follow_reference)
        references.documents_changed.connect(self._forget_closed)

    @property
    def state(self) -> SurveyState:
        """What the survey does."""
        if self.document is None:
            return SurveyState.NOTHING
        if self._work is not None:
            return SurveyState.PAUSED if self._work.control.paused else SurveyState.RUNNING
        return SurveyState.LOADING if self._reading.busy else SurveyState.READY

    @property
    def known(self) -> Known | None:
        """All columns of the model; None until they were read."""
        if self.content is None:
            return None
        errors = None if self.comparison is None else self.comparison.errors
        return Known(self.content.document.arrays, self.content.statistics, errors)

    @property
    def missing(self) -> tuple[int, int]:
        """Tensors without statistics, and pairs without errors, that a survey would read."""
        tensors = 0 if self.content is None else int(self.content.missing.sum())
        pairs = 0 if self.comparison is None else int(self.comparison.missing.sum())
        return tensors, pairs

    @property
    def missing_bytes(self) -> int:
        """Stored bytes that a survey would read."""
        nbytes = 0
        if self.content is not None:
            nbytes += int(self.content.document.arrays.nbytes[self.content.missing].sum())
        if self.comparison is not None:
            nbytes += round(float(self.comparison.nbytes[self.comparison.missing].sum()))
        return nbytes

    def reason(self, row: int) -> str:
        """Return why something cannot be known of a tensor; "" if all can."""
        content, comparison = self.content, self.comparison
        if content is None:
            return ""
        if row in content.statistics.problems:
            return content.statistics.problems[row]
        if comparison is None:
            return ""
        problem = comparison.errors.problems.get(row, "")
        if problem or comparison.comparable[row]:
            return problem
        tensor = content.document.model.tensors.rows[row]
        return self.references.partner_of(row, tensor).reason or self.tr(
            "Quantizers leave tensors of one dimension as they are."
        )

    def with_reason(self) -> NDArray[np.bool_]:
        """Return which tensors have such a reason, bool [n]."""
        if self.content is None:
            return np.zeros(0, np.bool_)
        found = np.zeros(len(self.content.document.arrays), np.bool_)
        found[list(self.content.statistics.problems)] = True
        if self.comparison is not None:
            found |= ~self.comparison.comparable
            found[list(self.comparison.errors.problems)] = True
        return found

    def show_document(self, document: Document | None) -> None:
        """Take another model; a survey of the one before is cancelled."""
        if document is self.document:
            return
        self.cancel()
        self._reading.cancel()
        self.document = document
        self.content = None if document is None else self._contents.get(document)
        self.comparison = None
        self._chosen = None
        self._read_next()

    def set_visible(self, on: bool) -> None:
        """Read what is kept from now on, or no more."""
        self._visible = on
        if on:
            self._read_next()

    def start(self) -> None:
        """Read the weights of what is not known; resume a paused survey."""
        if self.state is SurveyState.PAUSED:
            self.resume()
        if self.state is not SurveyState.READY or self.content is None or not any(self.missing):
            return
        survey = SurveyWork(self.content, self.comparison if self.missing[1] else None)
        self._work = survey
        self.progress = survey.progress()
        title = self.tr("Surveying all tensors")
        job = self._surveying.run(title, survey.run, lambda _none: None, self.failed.emit)
        job.published.connect(self._grow)
        job.finished.connect(lambda: self._finish(survey))
        self.state_changed.emit()

    def pause(self) -> None:
        if self._work is not None:
            self._work.control.pause()
            self.state_changed.emit()

    def resume(self) -> None:
        if self._work is not None:
            self._work.control.resume()
            self.state_changed.emit()

    def cancel(self) -> None:
        """Cancel the survey; what was found stays known."""
        if self._work is not None:
            self._surveying.cancel()
            self._work.control.cancel()
            self._finish(self._work)

    def _grow(self, progress: SurveyProgress) -> None:
        if self._work is not None:
            self._work.take()
            self.progress = progress
            self.grown.emit()

    def _finish(self, survey: SurveyWork) -> None:
        """End the survey: it has finished, or was cancelled, here or in the status bar."""
        if survey is self._work:
            self._work = self.progress = None
            survey.take()
            self.grown.emit()
            self._read_next()

    # Reading what is kept

    def _read_next(self) -> None:
        """Read what is kept and not read yet, one thing after the other, while it is wanted."""
        document = self.document
        if document is not None and self._visible and not self._reading.busy:
            if self.content is None:
                self._read(lambda job: work.read_content(document, job), self._show_content)
            elif self.comparison is None:
                self._read_comparison(document)
        self.replaced.emit()
        self.state_changed.emit()

    def _read_comparison(self, document: Document) -> None:
        references = self.references
        chosen = references.chosen if references.document is document else None
        self._chosen = chosen
        against = chosen if isinstance(chosen, Rounding) else references.matched
        if chosen is None or against is None:  # nothing is chosen, or it is being matched
            return
        other = chosen.type_name if isinstance(chosen, Rounding) else chosen.model
        self._read(
            lambda job: work.read_comparison(document, against, other, job), self._show_comparison
        )

    def _read(self, read: Callable[[Job], Result], show: Callable[[Result], None]) -> None:
        title = self.tr("Reading what is known of the model")
        self._reading.run(title, read, show, self.failed.emit)

    def _show_content(self, content: SurveyContent) -> None:
        self._contents[content.document] = self.content = content
        self._read_next()

    def _show_comparison(self, comparison: ComparisonContent) -> None:
        self.comparison = comparison
        self._read_next()

    def _forget_closed(self) -> None:
        """Drop models that were closed: what is known of one holds it."""
        for document in set(self._contents) - set(self.references.documents):
            del self._contents[document]

    def _follow_reference(self) -> None:
        """Take another reference, or the result of matching both models."""
        references = self.references
        if references.document is not self.document or self.document is None:
            return
        if references.chosen is not self._chosen:
            if self._work is not None and self._work.comparison is not None:
                self.cancel()
            self.comparison = self._chosen = None  # a closed model is not kept
            if self.content is not None:
                self._reading.cancel()
        self._read_next()
