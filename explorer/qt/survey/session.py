"""A survey of the current model, from the window's side: what is known, and what is under way.

What was kept of earlier surveys is read when somebody looks. Weights are read when somebody asks
for it: that may take minutes. Another model, or another reference, ends what is under way; what was
found by then is kept.

The panel is made on the GUI thread when it is first looked at, and this with it; so what is known
of a survey, which takes a while to load, is loaded in the worker that reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QObject, Signal

from explorer.analysis.model_grid import ModelGrid, model_grid
from explorer.errors import ExplorerError
from explorer.formats.model import Model
from explorer.formats.tensors import Tensor
from explorer.formats.weights import check_decodable
from explorer.present.survey import ErrorColumns, PairPlace, StatisticsColumns
from explorer.qt.document import Document
from explorer.qt.jobs import Job, JobRunner, JobSlot, all_cores, consideration
from explorer.qt.references import MatchedModels, Reference, References, Rounding

if TYPE_CHECKING:
    from explorer.analysis.errors.pairs import WeightsPair
    from explorer.analysis.survey_cache import KeptErrors, KeptSurvey
    from explorer.analysis.surveys import PairRow, SurveyControl, SurveyRow
    from explorer.present.survey import Known


Result = TypeVar("Result")


class SurveyState(Enum):
    """What the survey does."""

    NOTHING = auto()
    """There is no model."""
    LOADING = auto()
    """What was kept is being read."""
    READY = auto()
    """Nothing is under way."""
    RUNNING = auto()
    PAUSED = auto()


class SurveySession(QObject):
    """What is known of the current model's tensors.

    Attributes:
        references: What the model is compared with.
        document: The model.
        content: Its tensors and their statistics; None until it was read.
        comparison: Their errors against the chosen reference; None without one, or not yet.
        progress: How far a survey is; None if none is under way.

    Signals:
        replaced: Another model, or another reference, or what is kept of it was read.
        grown: More is known; at most 20 times a second.
        state_changed: Something begins or ends.
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
        self._wanted = False
        self._reading = JobSlot(runner, self)
        self._surveying = JobSlot(runner, self)
        self._work: SurveyWork | None = None
        references.changed.connect(self._follow_reference)
        references.documents_changed.connect(self._forget_closed)

    @property
    def state(self) -> SurveyState:
        """What is under way."""
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
        from explorer.present.survey import Known  # noqa: PLC0415 - see the module

        errors = None if self.comparison is None else self.comparison.errors
        return Known(self.content.document.arrays, self.content.statistics, errors)

    @property
    def missing(self) -> tuple[int, int]:
        """Tensors without statistics, and pairs without errors, that a survey would tell of."""
        tensors = 0 if self.content is None else int(self.content.missing.sum())
        pairs = 0 if self.comparison is None else int(self.comparison.missing.sum())
        return tensors, pairs

    @property
    def missing_bytes(self) -> int:
        """Stored bytes that would be read of them."""
        nbytes = 0
        if self.content is not None:
            nbytes += int(self.content.document.arrays.nbytes[self.content.missing].sum())
        if self.comparison is not None:
            nbytes += round(float(self.comparison.nbytes[self.comparison.missing].sum()))
        return nbytes

    def reason(self, row: int) -> str:
        """Return why something cannot be known of a tensor; "" if there is no reason."""
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
        """Return whether there is such a reason, for all tensors, bool [n]."""
        if self.content is None:
            return np.zeros(0, np.bool_)
        found = np.zeros(len(self.content.document.arrays), np.bool_)
        found[list(self.content.statistics.problems)] = True
        if self.comparison is not None:
            found |= ~self.comparison.comparable
            found[list(self.comparison.errors.problems)] = True
        return found

    def show_document(self, document: Document | None) -> None:
        """Take another model; a survey of the one before ends."""
        if document is self.document:
            return
        self.cancel()
        self._reading.cancel()
        self.document = document
        self.content = None if document is None else self._contents.get(document)
        self.comparison = None
        self._chosen = None
        self._look()

    def want(self, on: bool) -> None:
        """Tell whether somebody looks; nothing is read else."""
        self._wanted = on
        if on:
            self._look()

    def start(self) -> None:
        """Read the weights of what is not known; what is paused goes on."""
        if self.state is SurveyState.PAUSED:
            self.resume()
        if self.state is not SurveyState.READY or self.content is None or not any(self.missing):
            return
        from explorer.analysis.surveys import SurveyControl  # noqa: PLC0415 - see the module

        comparison = self.comparison if self.missing[1] else None
        work = SurveyWork(self.content, comparison, SurveyControl())
        self._runner.need_kernels(work.kernels)
        self._work = work
        self.progress = work.progress()
        job = self._surveying.run(
            self.tr("Surveying all tensors"),
            lambda job: work.run(job, self._runner.wait_for_kernels),
            lambda _none: None,
            self.failed.emit,
        )
        job.published.connect(self._grow)
        job.finished.connect(lambda: self._finish(work))
        self.state_changed.emit()

    def pause(self) -> None:
        """Have the survey wait."""
        if self._work is not None:
            self._work.control.pause()
            self.state_changed.emit()

    def resume(self) -> None:
        """Have it go on."""
        if self._work is not None:
            self._work.control.resume()
            self.state_changed.emit()

    def cancel(self) -> None:
        """End it; what was found stays known."""
        if self._work is not None:
            self._surveying.cancel()
            self._work.control.cancel()
            self._finish(self._work)

    def _grow(self, progress: SurveyProgress) -> None:
        if self._work is not None:
            self._work.take()
            self.progress = progress
            self.grown.emit()

    def _finish(self, work: SurveyWork) -> None:
        """The survey ended by itself, or was cancelled, here or elsewhere."""
        if work is self._work:
            self._work = self.progress = None
            work.take()
            self.grown.emit()
            self._look()

    # Reading what is kept

    def _look(self) -> None:
        """Read what is kept, one thing after the other, if somebody looks and nobody did."""
        document = self.document
        if document is not None and self._wanted and not self._reading.busy:
            if self.content is None:
                self._read(
                    lambda job: _read_content(document, job),
                    lambda found: self._show_content(document, found),
                )
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
            lambda job: _read_comparison(document, against, other, job),
            self._show_comparison,
        )

    def _read(self, read: Callable[[Job], Result], show: Callable[[Result], None]) -> None:
        self._reading.run(
            self.tr("Reading what is known of the model"), read, show, self.failed.emit
        )

    def _show_content(self, document: Document, content: SurveyContent) -> None:
        self._contents[document] = self.content = content
        self._look()

    def _show_comparison(self, comparison: ComparisonContent) -> None:
        self.comparison = comparison
        self._look()

    def _forget_closed(self) -> None:
        """Let go of models that were closed: what is known of one holds it."""
        for document in set(self._contents) - set(self.references.documents):
            del self._contents[document]

    def _follow_reference(self) -> None:
        """Another reference was chosen, or both models are matched now."""
        references = self.references
        if references.document is not self.document or self.document is None:
            return
        if references.chosen is not self._chosen:
            if self._work is not None and self._work.comparison is not None:
                self.cancel()
            self.comparison = self._chosen = None  # a closed model is not kept
            if self.content is not None:
                self._reading.cancel()
        self._look()


def _read_content(document: Document, job: Job) -> SurveyContent:

    return read_content(document, job)


def _read_comparison(
    document: Document, reference: MatchedModels | Rounding, against: Model | str, job: Job
) -> ComparisonContent:

    return read_comparison(document, reference, against, job)


# What is known of all tensors of a model, and of their errors; read in a worker from what is
# kept.
#
# What surveys need is imported there too: much of the core comes with it.


_CHECK_EVERY = 256


@dataclass(frozen=True)
class SurveyContent:
    """What is known of a model.

    Attributes:
        document: The model.
        grid: Its tensors by layer and role.
        statistics: Their statistics, as far as they are known.
    """

    document: Document
    grid: ModelGrid
    statistics: StatisticsColumns

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Whether statistics of a tensor are not known though they could be, bool [n]."""
        return _missing(self.statistics.known, self.statistics.problems)


@dataclass(frozen=True)
class ComparisonContent:
    """What is known of a model's errors.

    Attributes:
        against: The reference: a model, or a type.
        pairs: What is compared.
        places: Where the errors of each pair belong.
        measured: Whether those of a pair are known, bool [pairs].
        problems: Why a pair cannot be compared, by its place.
        comparable: Whether a tensor is part of a pair, bool [n].
        errors: The errors by tensor.
        nbytes: Stored bytes of both sides of each pair, float64 [pairs].
        kernels: The sets of kernels that reading all of them takes.
    """

    against: Model | str
    pairs: Sequence[WeightsPair]
    places: Sequence[PairPlace]
    measured: NDArray[np.bool_]
    problems: dict[int, str]
    comparable: NDArray[np.bool_]
    errors: ErrorColumns
    nbytes: NDArray[np.float64]
    kernels: frozenset[str]

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Whether errors of a pair are not known though they could be, bool [pairs]."""
        return _missing(self.measured, self.problems)

    @property
    def missing_rows(self) -> NDArray[np.bool_]:
        """Whether a tensor is part of such a pair, bool [n]."""
        pairs, rows = self._parts
        missing = np.zeros(len(self.comparable), np.bool_)
        missing[rows[self.missing[pairs]]] = True
        return missing

    @cached_property
    def _parts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Place of the pair, and row, of each tensor of each pair."""
        counts = [len(place.rows) for place in self.places]
        rows = [row for place in self.places for row in place.rows]
        return np.repeat(np.arange(len(counts)), counts), np.array(rows, np.int64)

    def put(self, row: PairRow) -> None:
        """Note the errors of a pair, or why there are none; once."""
        if self.measured[row.number]:
            return
        place = self.places[row.number]
        if row.figures is not None:
            self.measured[row.number] = True
            self.errors.put(place, row.figures)
        elif row.error is not None:
            self.problems[row.number] = row.error.what
            for tensor in place.rows:
                self.errors.problems[tensor] = row.error.what


def _missing(known: NDArray[np.bool_], problems: Iterable[int]) -> NDArray[np.bool_]:
    missing = ~known
    missing[list(problems)] = False
    return missing


def read_content(document: Document, job: Job) -> SurveyContent:
    """Arrange the tensors of a model, and read what is kept of their statistics."""
    names = document.model.tensors.columns.names
    grid = model_grid(names, job.check)
    statistics = StatisticsColumns(len(names))
    for row, tensor in enumerate(document.model.tensors.rows):
        if row % _CHECK_EVERY == 0:
            job.check()
        problem = _problem([tensor])
        if problem is not None:
            statistics.problems[row] = problem
    with consideration(lasting=False), kept_statistics(document.model) as kept:
        for row, found in kept.rows.items():
            statistics.put(row, found)
    return SurveyContent(document, grid, statistics)


def read_comparison(
    document: Document, reference: MatchedModels | Rounding, against: Model | str, job: Job
) -> ComparisonContent:
    """List what is compared, and read what is kept of its errors."""
    if isinstance(reference, Rounding):
        found = _rounded(document, reference.type_name, job.check)
    else:
        found = _matched(document, reference, job.check)
    pairs: list[WeightsPair] = []
    places: list[PairPlace] = []
    nbytes: list[float] = []
    problems: dict[int, str] = {}
    kernels: set[str] = set()
    errors = ErrorColumns(len(document.arrays))
    comparable = np.zeros(len(document.arrays), np.bool_)
    for number, (pair, rows, own, others) in enumerate(found):
        pairs.append(pair)
        places.append(PairPlace.of(rows, own))
        nbytes.append(float(sum(tensor.nbytes for tensor in (*own, *others))))
        kernels |= pair.kernels
        comparable[list(rows)] = True
        problem = _problem((*own, *others))
        if problem is not None:
            problems[number] = problem
            errors.problems |= dict.fromkeys(rows, problem)
    content = ComparisonContent(
        against,
        pairs,
        places,
        np.zeros(len(pairs), np.bool_),
        problems,
        comparable,
        errors,
        np.array(nbytes, np.float64),
        frozenset(kernels),
    )
    from explorer.analysis.surveys import PairRow  # noqa: PLC0415 - see above

    with consideration(lasting=False), kept_errors(document.model, content) as kept:
        for number, figures in kept.rows.items():
            content.put(PairRow(number, pairs[number], figures))
    return content


_Found = tuple["WeightsPair", Sequence[int], Sequence[Tensor], Sequence[Tensor]]


def _rounded(document: Document, name: str, check: Callable[[], None]) -> Iterator[_Found]:
    from explorer.analysis.errors.pairs import RoundedPair  # noqa: PLC0415 - see above

    for row, tensor in enumerate(document.model.tensors.rows):
        if row % _CHECK_EVERY == 0:
            check()
        if is_left_alone(tensor):
            continue
        try:
            pair = RoundedPair(tensor, name)
        except ExplorerError:  # its rows are no whole number of blocks
            continue
        yield pair, (row,), (tensor,), ()


def is_left_alone(tensor: Tensor) -> bool:
    """Tell whether quantizers leave a tensor as it is: norms and biases, which have no rows.

    They would be the worst of all tensors, and hide those that a type makes a difference to.
    """
    return sum(length > 1 for length in tensor.shape) < 2


def _matched(
    document: Document, matched: MatchedModels, check: Callable[[], None]
) -> Iterator[_Found]:
    from explorer.analysis.errors.pairs import MatchedPair  # noqa: PLC0415 - see above

    table = document.model.tensors
    for number, match in enumerate(matched.matching.matches):
        if number % _CHECK_EVERY == 0:
            check()
        own = match.candidate.tensors
        rows = [row for tensor in own if (row := table.row_of(tensor.name)) is not None]
        yield MatchedPair(match), rows, own, match.reference.tensors


def _problem(tensors: Iterable[Tensor]) -> str | None:
    """Return why weights cannot be told, before any are read; None if they can."""
    try:
        for tensor in tensors:
            check_decodable(tensor)
    except ExplorerError as error:
        return error.what
    return None


@contextmanager
def kept_statistics(model: Model) -> Iterator[KeptSurvey]:
    """Open what is kept of a model's statistics."""
    from explorer.analysis.survey_cache import KeptSurvey, SurveyCache  # noqa: PLC0415

    cache = SurveyCache.of_user()
    with KeptSurvey(None, model) if cache is None else cache.open(model, slim=True) as kept:
        yield kept


@contextmanager
def kept_errors(model: Model, content: ComparisonContent) -> Iterator[KeptErrors]:
    """Open what is kept of its errors."""
    from explorer.analysis.survey_cache import (  # noqa: PLC0415 - see above
        KeptErrors,
        SurveyCache,
    )

    cache = SurveyCache.of_user()
    with (
        KeptErrors(None, content.pairs)
        if cache is None
        else cache.open_errors(model, content.against, content.pairs)
    ) as kept:
        yield kept


# What a survey does in a worker: walks over the weights of which nothing is kept.
#
# Rows are put into a queue as they are found; the GUI thread takes them out when it is told of
# progress. So nothing is copied, and none is lost however seldom it is told.


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
