"""Errors of a tensor, or of all tensors of a model, against a reference or expected without one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from math import nan

from explorer.analysis.blocks import BlockStatistics, level_error, saturated_codes
from explorer.analysis.errors.metrics import ErrorMetrics, RunningErrors, WeightedErrors
from explorer.analysis.errors.pairs import MatchedPair, WeightsPair
from explorer.analysis.errors.pictures import measure_pairs
from explorer.analysis.importance import weighing
from explorer.analysis.matching.pairing import Match
from explorer.analysis.matching.views import Weights, view_of
from explorer.analysis.moments import Moments
from explorer.analysis.survey_cache import CachedErrors, SurveyCache
from explorer.analysis.surveys import PairRow, PairsToMeasure, run_errors
from explorer.formats.model import Model
from explorer.formats.tensors import Shape, Tensor
from explorer.parallel import Check, never


@dataclass(frozen=True, kw_only=True)
class TensorErrors(ErrorMetrics):
    """Errors of a pair of tensors, as `gguf-explorer compare` shows them.

    Attributes:
        reference_name: Name of the reference.
        candidate_name: Name of the candidate.
        reference_type: Its type's name.
        type: The candidate's.
        shape: Of both, row-major, outermost first.
        saturated_codes: Share of the candidate's codes that are the least or the greatest of the
            type; None if it is not quantized, or only a part of it was compared.
        notes: What was done to make the two comparable, in words.
    """

    reference_name: str
    candidate_name: str
    reference_type: str
    type: str
    shape: Shape
    saturated_codes: float | None
    notes: tuple[str, ...] = ()


def compare_tensors(
    reference: Weights,
    candidate: Weights,
    workers: int = 1,
    *,
    cancel: Check | None = None,
    progress: Callable[[int], object] | None = None,
) -> TensorErrors:
    """Return the errors of all weights of a tensor; nothing is sampled.

    Args:
        reference: A tensor, or a view that undoes what a converter did.
        candidate: The same of what is compared with it.
        workers: Threads. The result is the same to the bit for any number.
        cancel: Called before every chunk, in the thread that reads it; what it raises ends the
            work and is passed on.
        progress: Called in the caller's thread with the number of weights done.

    Raises:
        ExplorerError: The shapes differ.
        FormatError: A file is damaged there, or a type's weights cannot be decoded.
        SourceError: A file changed since it was opened.
    """
    pair = MatchedPair(Match(view_of(reference), view_of(candidate)))
    more = workers, cancel or never, progress
    (errors,) = measure_pairs([pair], [None], *more, by_column=False)
    return TensorErrors(
        **asdict(errors.metrics),
        reference_name=pair.reference_name,
        candidate_name=pair.candidate_name,
        reference_type=pair.reference_type,
        type=pair.candidate_type,
        shape=pair.shape,
        saturated_codes=errors.saturated,
        notes=pair.notes,
    )


@dataclass(frozen=True, slots=True)
class TotalErrors:
    """Errors of all pairs together.

    Attributes:
        metrics: As if all weights were those of one tensor.
        bits_per_weight: Stored bits of the candidate's tensors, for each of their weights.
        weighted: The errors by importance, of the pairs that a matrix has.
    """

    metrics: ErrorMetrics
    bits_per_weight: float
    weighted: WeightedErrors


def total_of(rows: Iterable[PairRow]) -> TotalErrors:
    """Return the errors of all rows that have some; percentiles are not known of them."""
    sums, weighted, tensors = RunningErrors(), WeightedErrors(0.0, 0.0), dict[int, Tensor]()
    for row in rows:
        if row.errors is not None:
            sums.combine(row.errors.sums)
            weighted += row.errors.weighted or WeightedErrors(0.0, 0.0)
            tensors |= {id(tensor): tensor for tensor in row.pair.candidate.tensors}
    nbytes = sum(tensor.nbytes for tensor in tensors.values())
    weights = sum(tensor.parameters for tensor in tensors.values())
    return TotalErrors(sums.metrics(), 8 * nbytes / weights if weights else nan, weighted)


class Comparison:
    """Compares pairs of tensors.

    Attributes:
        pairs: The pairs.
        importance: The importance matrix that errors are weighted by, too; None for none.
        models: The reference and the candidate, whose results are kept; None keeps none.
        parameters: Weights of all of them.
    """

    def __init__(
        self,
        matches: Iterable[Match],
        importance: Model | None = None,
        models: tuple[Model, Model] | None = None,
    ) -> None:
        self.pairs = [MatchedPair(match) for match in matches]
        self.importance = importance
        self.models = models
        self.parameters = sum(pair.parameters for pair in self.pairs)

    def rows(
        self,
        workers: int = 1,
        check: Check = never,
        progress: Callable[[int], object] | None = None,
    ) -> Iterator[PairRow]:
        """Yield a row for each pair in order; an iterator may be read once; see `rows_of_all`."""
        return (row for _, row in rows_of_all([self], workers, check, progress))

    def known(self) -> CachedErrors:
        """Return the errors that earlier comparisons kept; a context manager."""
        weigh = None if self.importance is None else weighing(self.importance)
        if weigh is not None:
            for pair in self.pairs:
                weigh(pair)  # what is wrong with the matrix is no fault of a pair
        if self.models is None:
            return CachedErrors(None, self.pairs, importance=weigh)
        reference, candidate = self.models
        return SurveyCache().open_errors(candidate, reference, self.pairs, weigh)

    def left(self) -> list[MatchedPair]:
        """Return the pairs that `rows` compares anew."""
        with self.known() as cached:
            return [pair for at, pair in enumerate(self.pairs) if at not in cached.rows]


def unread(left: Iterable[WeightsPair]) -> tuple[int, int]:
    """Return how many weights of pairs are compared, and the stored bytes of both sides, once."""
    pairs = list(left)
    sides = [side for pair in pairs for side in (pair.reference, pair.candidate)]
    stored = {id(tensor): tensor.nbytes for side in sides for tensor in side.tensors}
    return sum(pair.parameters for pair in pairs), sum(stored.values())


def rows_of_all(
    comparisons: Sequence[Comparison],
    workers: int = 1,
    check: Check = never,
    progress: Callable[[int], object] | None = None,
) -> Iterator[tuple[int, PairRow]]:
    """Yield the rows of several comparisons, each with its place; an iterator may be read once.

    A reference that they share is read once for all.

    Args:
        workers: Threads, which take a tensor of the reference each, or share a large one.
        check: Called before every chunk; what it raises is passed on.
        progress: Called now and then with the number of weights done, of all.

    Raises:
        ExplorerError: The importance matrix is damaged, or of another model.
    """
    with ExitStack() as stack:
        asked = []
        for one in comparisons:
            cached = stack.enter_context(one.known())
            asked.append(PairsToMeasure(one.pairs, cached, range(len(one.pairs))))
        yield from run_errors(asked, workers, check, progress)


def lists_of_all(
    comparisons: Sequence[Comparison],
    workers: int = 1,
    check: Check = never,
    progress: Callable[[int], object] | None = None,
) -> list[list[PairRow]]:
    """Return the rows of each of several comparisons, as `rows_of_all` yields them."""
    found: list[list[PairRow]] = [[] for _ in comparisons]
    for place, row in rows_of_all(comparisons, workers, check, progress):
        found[place].append(row)
    return [sorted(rows, key=lambda row: row.number) for rows in found]


@dataclass(frozen=True, slots=True)
class ExpectedRounding:
    """Expected rounding error of a quantized tensor, from its blocks alone.

    Attributes:
        rms: Root mean square of the error, if weights were spread evenly between the levels; see
            `blocks.level_error`.
        used_codes: Codes that at least one weight uses.
        codes: All codes.
        saturated: Share of weights with the least or the greatest level of the type, 0 to 1.
        zeros: Share of weights whose level is 0.
        weights_per_scale: Weights that share a scale.
        scales: Effective block scales.
        minima: Effective minima, which are subtracted; None if the type has none.
    """

    rms: float
    used_codes: int
    codes: int
    saturated: float
    zeros: float
    weights_per_scale: int
    scales: Moments
    minima: Moments | None


def expected_rounding(blocks: BlockStatistics) -> ExpectedRounding:
    """Return the rounding error to expect by the statistics of a tensor's blocks."""
    levels, counts = blocks.levels, blocks.code_counts
    ends = saturated_codes(levels)
    total = int(counts.sum())
    shares = [int(counts[mask].sum()) / total if total else nan for mask in (ends, levels == 0)]
    return ExpectedRounding(
        rms=level_error(levels) * blocks.scales.moments.rms,
        used_codes=int((counts > 0).sum()),
        codes=counts.size,
        saturated=shares[0],
        zeros=shares[1],
        weights_per_scale=blocks.weights_per_scale,
        scales=blocks.scales.moments,
        minima=None if blocks.minima is None else blocks.minima.moments,
    )
