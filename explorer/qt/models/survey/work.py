"""What a survey does in a worker: walks over the weights of which nothing is kept.

Rows are put into a queue as they are found; the GUI thread takes them out when it is told of
progress. So nothing is copied, and none is lost however seldom it is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from explorer.qt.jobs import Job, consideration
from explorer.qt.jobs.cores import all_cores
from explorer.qt.models.survey.content import (
    ComparisonContent,
    SurveyContent,
    kept_errors,
    kept_statistics,
)

if TYPE_CHECKING:
    from explorer.analysis.surveys import PairRow, SurveyControl, SurveyRow


@dataclass(frozen=True, slots=True)
class SurveyProgress:
    """How far a survey is.

    Attributes:
        done: Weights done, of tensors and of pairs.
        total: What that will be.
        nbytes: Their stored bytes.
    """

    done: int
    total: int
    nbytes: int


class _Path:
    """Weights to walk over, item by item, and the bytes that they take."""

    def __init__(self, weights: NDArray[Any], nbytes: NDArray[Any]) -> None:
        self._weights = np.concatenate(([0.0], np.cumsum(weights, dtype=np.float64)))
        self._nbytes = np.concatenate(([0.0], np.cumsum(nbytes, dtype=np.float64)))

    @property
    def weights(self) -> float:
        return float(self._weights[-1])

    @property
    def nbytes(self) -> float:
        return float(self._nbytes[-1])

    def bytes_at(self, weights: float) -> float:
        """Return the bytes of so many weights."""
        return float(np.interp(weights, self._weights, self._nbytes))


class SurveyWork:
    """Walks over what is not known; made on the GUI thread, runs in a worker.

    Attributes:
        content: The model that it is about.
        comparison: What errors are measured too, or None.
        control: Pauses it.
        nbytes: Stored bytes that will be read.
    """

    def __init__(
        self,
        content: SurveyContent,
        comparison: ComparisonContent | None,
        control: SurveyControl,
    ) -> None:
        self.content = content
        self.comparison = comparison
        self.control = control
        self._found: SimpleQueue[tuple[int, SurveyRow] | PairRow] = SimpleQueue()
        arrays, missing = content.document.arrays, content.missing
        self._missing = missing
        self._tensors = _Path(arrays.parameters[missing], arrays.nbytes[missing])
        self._missing_pairs = np.zeros(0, np.bool_)
        self._pairs = _Path(np.zeros(0), np.zeros(0))
        if comparison is not None:
            some = self._missing_pairs = comparison.missing
            weights = np.array([pair.parameters for pair in comparison.pairs], np.float64)
            self._pairs = _Path(weights[some], comparison.nbytes[some])
        self._done = 0.0
        self.nbytes = round(self._tensors.nbytes + self._pairs.nbytes)

    @property
    def kernels(self) -> list[str]:
        """The sets of kernels that are needed."""
        rows = np.flatnonzero(self._missing)
        arrays = self.content.document.arrays
        codes = np.unique(arrays.type_codes[rows]).tolist()
        kernels = {arrays.types[code].name for code in codes}
        if self.comparison is not None:
            kernels |= self.comparison.kernels
        return sorted(kernels)

    def take(self) -> None:
        """Note what was found since; on the GUI thread."""
        while True:
            try:
                found = self._found.get_nowait()
            except Empty:
                return
            if not isinstance(found, tuple):
                assert self.comparison is not None
                self.comparison.put(found)
                continue
            number, row = found
            if row.statistics is not None:
                self.content.statistics.put(number, row.statistics)
            elif row.error is not None:
                self.content.statistics.problems[number] = row.error.what

    def run(self, job: Job, wait_for_kernels: Callable[[Iterable[str], Job], None]) -> None:
        """Do it; in a worker."""
        self.control.obey(job.check)
        wait_for_kernels(self.kernels, job)
        with consideration(lasting=True):
            self._walk(job)

    def _walk(self, job: Job) -> None:
        workers = all_cores()
        if self._missing.any():
            self._survey(job, workers)
        if self.comparison is not None and self._missing_pairs.any():
            self._compare(job, workers, self.comparison)

    def _survey(self, job: Job, workers: int) -> None:
        from explorer.analysis.surveys import run_survey  # noqa: PLC0415 - see `content`

        model = self.content.document.model
        rows = np.flatnonzero(self._missing).tolist()

        def tell(done: int) -> None:
            self._tell(job, done / 2)  # each weight is walked over twice

        with kept_statistics(model) as kept:
            found = run_survey(model, kept, workers, self.control, tell, rows=rows)
            for pair in zip(rows, found, strict=True):
                self._found.put(pair)

    def _compare(self, job: Job, workers: int, comparison: ComparisonContent) -> None:
        from explorer.analysis.surveys import run_errors  # noqa: PLC0415 - see `content`

        numbers = np.flatnonzero(self._missing_pairs).tolist()
        pairs, control = comparison.pairs, self.control

        def tell(done: int) -> None:
            self._tell(job, self._tensors.weights + done)

        with kept_errors(self.content.document.model, comparison) as kept:
            for row in run_errors(pairs, kept, workers, control, tell, numbers=numbers):
                self._found.put(row)

    def _tell(self, job: Job, done: float) -> None:
        self._done = done
        job.publish(lambda: self._report(job))

    def _report(self, job: Job) -> SurveyProgress:
        progress = self.progress()
        job.report(progress.done, progress.total)
        return progress

    def progress(self) -> SurveyProgress:
        """Return how far it is."""
        done, first = self._done, self._tensors.weights
        nbytes = self._tensors.bytes_at(min(done, first))
        nbytes += self._pairs.bytes_at(max(0.0, done - first))
        return SurveyProgress(round(done), round(first + self._pairs.weights), round(nbytes))
