"""The work of a survey: tensors and pairs, what earlier surveys kept of them, and the walk.

All in a worker, but for `SurveyWork.take`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.analysis import surveys
from explorer.analysis.errors.pairs import MatchedPair, RoundedPair, WeightsPair
from explorer.analysis.model_grid import ModelGrid, model_grid
from explorer.analysis.survey_cache import KeptErrors, KeptSurvey, SurveyCache
from explorer.errors import ExplorerError
from explorer.formats.model import Model
from explorer.formats.tensors import Tensor
from explorer.formats.weights import check_decodable
from explorer.present.survey import ErrorColumns, StatisticsColumns, parameter_shares
from explorer.qt.document import Document
from explorer.qt.jobs import Job, all_cores
from explorer.qt.references import MatchedModels, Rounding

_CHECK_EVERY = 256


@dataclass(frozen=True)
class SurveyContent:
    """What is known of a model: its tensors by layer and role, and their statistics."""

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
        pairs: The pairs compared.
        shares: Shares of tensors in the weights of each pair, by row.
        measured: Whether those of a pair are known, bool [pairs].
        problems: Why a pair cannot be compared, by its place.
        comparable: Whether a tensor is part of a pair, bool [n].
        errors: The errors by tensor.
        nbytes: Stored bytes of both sides of each pair, float64 [pairs].
    """

    against: Model | str
    pairs: Sequence[WeightsPair]
    shares: Sequence[Mapping[int, float]]
    measured: NDArray[np.bool_]
    problems: dict[int, str]
    comparable: NDArray[np.bool_]
    errors: ErrorColumns
    nbytes: NDArray[np.float64]

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
        counts = [len(shares) for shares in self.shares]
        rows = [row for shares in self.shares for row in shares]
        return np.repeat(np.arange(len(counts)), counts), np.array(rows, np.int64)

    def put(self, row: surveys.PairRow) -> None:
        """Store the errors of a pair, or why there are none; once."""
        if self.measured[row.number]:
            return
        shares = self.shares[row.number]
        if row.metrics is not None:
            self.measured[row.number] = True
            self.errors.put(shares, row.metrics)
        elif row.error is not None:
            self.problems[row.number] = row.error.what
            for tensor in shares:
                self.errors.problems[tensor] = row.error.what


def _missing(known: NDArray[np.bool_], problems: Iterable[int]) -> NDArray[np.bool_]:
    missing = ~known
    missing[list(problems)] = False
    return missing


def read_content(document: Document, job: Job) -> SurveyContent:
    """Arrange the tensors of a model, and read the statistics kept of them."""
    names = document.model.tensors.columns.names
    grid = model_grid(names, job.check)
    statistics = StatisticsColumns(len(names))
    for row, tensor in enumerate(document.model.tensors.rows):
        if row % _CHECK_EVERY == 0:
            job.check()
        problem = _problem([tensor])
        if problem is not None:
            statistics.problems[row] = problem
    with kept_statistics(document.model) as kept:
        for row, found in kept.rows.items():
            statistics.put(row, found)
    return SurveyContent(document, grid, statistics)


def read_comparison(
    document: Document, reference: MatchedModels | Rounding, against: Model | str, job: Job
) -> ComparisonContent:
    """List the pairs to compare, and read the errors kept of them."""
    if isinstance(reference, Rounding):
        found = _rounded(document, reference.type_name, job.check)
    else:
        found = _matched(document, reference, job.check)
    pairs: list[WeightsPair] = []
    shares: list[Mapping[int, float]] = []
    sizes: list[int] = []
    problems: dict[int, str] = {}
    errors = ErrorColumns(len(document.arrays))
    comparable = np.zeros(len(document.arrays), np.bool_)
    for number, (pair, rows, own, others) in enumerate(found):
        pairs.append(pair)
        shares.append(parameter_shares(rows, own))
        sizes.append(sum(tensor.nbytes for tensor in (*own, *others)))
        comparable[list(rows)] = True
        problem = _problem((*own, *others))
        if problem is not None:
            problems[number] = problem
            errors.problems |= dict.fromkeys(rows, problem)
    measured, nbytes = np.zeros(len(pairs), np.bool_), np.array(sizes, np.float64)
    content = ComparisonContent(
        against, pairs, shares, measured, problems, comparable, errors, nbytes
    )
    with kept_errors(document.model, content) as kept:
        for number, figures in kept.rows.items():
            content.put(surveys.PairRow(number, pairs[number], figures))
    return content


_Found = tuple[WeightsPair, Sequence[int], Sequence[Tensor], Sequence[Tensor]]


def _rounded(document: Document, name: str, check: Callable[[], None]) -> Iterator[_Found]:
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
    """Return whether quantizers leave a tensor as it is: norms and biases, which have no rows.

    They would be the worst of all tensors, and hide those for which a type makes a difference.
    """
    return sum(length > 1 for length in tensor.shape) < 2


def _matched(
    document: Document, matched: MatchedModels, check: Callable[[], None]
) -> Iterator[_Found]:
    table = document.model.tensors
    for number, match in enumerate(matched.matching.matches):
        if number % _CHECK_EVERY == 0:
            check()
        own = match.candidate.tensors
        rows = [row for tensor in own if (row := table.row_of(tensor.name)) is not None]
        yield MatchedPair(match), rows, own, match.reference.tensors


def _problem(tensors: Iterable[Tensor]) -> str | None:
    """Return why weights cannot be decoded, before any are read; None if they can."""
    try:
        for tensor in tensors:
            check_decodable(tensor)
    except ExplorerError as error:
        return error.what
    return None


def kept_statistics(model: Model) -> KeptSurvey:
    """Return the statistics kept of a model; a context manager."""
    cache = SurveyCache.of_user()
    return KeptSurvey(None, model) if cache is None else cache.open(model, slim=True)


def kept_errors(model: Model, content: ComparisonContent) -> KeptErrors:
    """Return the errors kept of a model; a context manager."""
    cache, pairs = SurveyCache.of_user(), content.pairs
    if cache is None:
        return KeptErrors(None, pairs)
    return cache.open_errors(model, content.against, pairs)


@dataclass(frozen=True, slots=True)
class SurveyProgress:
    """Weights done of those in all, of tensors and of pairs, and the stored bytes of the former."""

    done: int
    total: int
    nbytes: int


class _Walk:
    """Weights to walk over, item by item, and the bytes that they take."""

    def __init__(self, weights: NDArray[Any], nbytes: NDArray[Any]) -> None:
        self._weights = np.concatenate(([0.0], np.cumsum(weights, dtype=np.float64)))
        self._nbytes = np.concatenate(([0.0], np.cumsum(nbytes, dtype=np.float64)))

    @property
    def weights(self) -> float:
        return float(self._weights[-1])

    def bytes_at(self, weights: float) -> float:
        """Return the bytes of so many weights."""
        return float(np.interp(weights, self._weights, self._nbytes))


class SurveyWork:
    """Walks over what is not known; made on the GUI thread, runs in a worker.

    Rows are put into a queue as they are found; the GUI thread takes them out with each report of
    progress. So nothing is copied, and no row is lost however rare reports are.
    """

    def __init__(self, content: SurveyContent, comparison: ComparisonContent | None) -> None:
        self.content = content
        self.comparison = comparison
        self.control = surveys.SurveyControl()
        self._found: deque[tuple[int, surveys.SurveyRow] | surveys.PairRow] = deque()
        arrays, self._missing = content.document.arrays, content.missing
        self._tensors = _Walk(arrays.parameters[self._missing], arrays.nbytes[self._missing])
        self._missing_pairs = np.zeros(0, np.bool_)
        self._pairs = _Walk(np.zeros(0), np.zeros(0))
        if comparison is not None:
            some = self._missing_pairs = comparison.missing
            weights = np.array([pair.parameters for pair in comparison.pairs], np.float64)
            self._pairs = _Walk(weights[some], comparison.nbytes[some])
        self._done = 0.0

    def take(self) -> None:
        """Store what was found since; on the GUI thread."""
        statistics = self.content.statistics
        while self._found:
            found = self._found.popleft()
            if not isinstance(found, tuple):
                assert self.comparison is not None
                self.comparison.put(found)
                continue
            number, row = found
            if row.statistics is not None:
                statistics.put(number, row.statistics)
            elif row.error is not None:
                statistics.problems[number] = row.error.what

    def run(self, job: Job) -> None:
        self.control.obey(job.check)
        if self._missing.any():
            self._survey(job)
        if self.comparison is not None and self._missing_pairs.any():
            self._compare(job, self.comparison)

    def _survey(self, job: Job) -> None:
        model, workers = self.content.document.model, all_cores()
        rows = np.flatnonzero(self._missing).tolist()

        def report(done: int) -> None:
            self._report(job, done / 2)  # each weight is walked over twice

        with kept_statistics(model) as kept:
            found = surveys.run_survey(model, kept, workers, self.control, report, rows=rows)
            self._found.extend(zip(rows, found, strict=True))

    def _compare(self, job: Job, comparison: ComparisonContent) -> None:
        numbers = np.flatnonzero(self._missing_pairs).tolist()
        pairs, workers, control = comparison.pairs, all_cores(), self.control

        def report(done: int) -> None:
            self._report(job, self._tensors.weights + done)

        with kept_errors(self.content.document.model, comparison) as kept:
            found = surveys.run_errors(pairs, kept, workers, control, report, numbers=numbers)
            self._found.extend(found)

    def _report(self, job: Job, done: float) -> None:
        def publish() -> SurveyProgress:
            progress = self.progress()
            job.report(progress.done, progress.total)
            return progress

        self._done = done
        job.publish(publish)

    def progress(self) -> SurveyProgress:
        done, first = self._done, self._tensors.weights
        nbytes = self._tensors.bytes_at(min(done, first))
        nbytes += self._pairs.bytes_at(max(0.0, done - first))
        return SurveyProgress(round(done), round(first + self._pairs.weights), round(nbytes))
