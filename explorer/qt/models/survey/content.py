"""What is known of all tensors of a model, and of their errors; read in a worker from what is kept.

What surveys need is imported there too: much of the core comes with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from explorer.analysis.model_grid import ModelGrid, model_grid
from explorer.errors import ExplorerError
from explorer.formats.model import Model
from explorer.formats.tensors import Tensor
from explorer.formats.weights import check_decodable
from explorer.present.survey import ErrorColumns, PairPlace, StatisticsColumns
from explorer.qt.jobs import Job, consideration
from explorer.qt.models.document import Document
from explorer.qt.models.errors.references import MatchedModels, Rounding

if TYPE_CHECKING:
    from explorer.analysis.errors.pairs import WeightsPair
    from explorer.analysis.survey_cache import KeptErrors, KeptSurvey
    from explorer.analysis.surveys import PairRow

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
