"""Errors of a tensor, or of all tensors of a model, against a reference or expected without one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from math import nan

from explorer.analysis.blocks import BlockStatistics, level_error, saturated_codes
from explorer.analysis.errors.metrics import ErrorMetrics, RunningErrors, WeightedErrors
from explorer.analysis.errors.pairs import MatchedPair, WeightsPair, measure_pair, saturated_share
from explorer.analysis.importance import importance_for
from explorer.analysis.matching.pairing import Match
from explorer.analysis.matching.views import Weights, view_of
from explorer.analysis.moments import Moments
from explorer.analysis.surveys import Progress, map_tensors
from explorer.errors import ExplorerError
from explorer.formats.model import Model
from explorer.formats.tensors import Shape, Tensor
from explorer.formats.weights import Values
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
    return _compare(pair, workers, cancel or never, progress)[0]


def _compare(
    pair: WeightsPair, workers: int, check: Check, progress: Progress, *, by_column: bool = False
) -> tuple[TensorErrors, RunningErrors]:
    pair.check()
    errors = measure_pair(pair, workers, check, progress, by_column=by_column)
    found = TensorErrors(
        **asdict(errors.metrics()),
        reference_name=pair.reference_name,
        candidate_name=pair.candidate_name,
        reference_type=pair.reference_type,
        type=pair.candidate_type,
        shape=pair.shape,
        saturated_codes=saturated_share(pair, errors, workers, check),
        notes=pair.notes,
    )
    return found, errors


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """The result for one pair.

    Attributes:
        errors: None if the weights cannot be read.
        problem: Why they cannot, or None.
        weighted: The errors by importance; None if no matrix has these weights.
    """

    match: Match
    errors: TensorErrors | None
    problem: ExplorerError | None = None
    weighted: WeightedErrors | None = None


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


class Comparison:
    """Compares pairs of tensors, and adds their errors up.

    Attributes:
        matches: The pairs.
        importance: The importance matrix that errors are weighted by, too; None for none.
        parameters: Weights of all of them.
        groups: Sums of the pairs that `group_of` gives one name, of the rows so far.
    """

    def __init__(
        self,
        matches: Sequence[Match],
        group_of: Callable[[Match], str] | None = None,
        importance: Model | None = None,
    ) -> None:
        self.matches = matches
        self.importance = importance
        self.parameters = sum(match.candidate.parameters for match in matches)
        self.groups: dict[str, RunningErrors] = {}
        self._group_of = group_of
        self._sums = RunningErrors()
        self._weighted = WeightedErrors(0.0, 0.0)
        self._tensors: dict[int, Tensor] = {}

    def rows(
        self,
        workers: int = 1,
        cancel: Check | None = None,
        progress: Callable[[int], object] | None = None,
    ) -> Iterator[ComparedRow]:
        """Yield a row for each pair in order; an iterator may be read once.

        Args:
            workers: Threads, which take a pair each, or share the work on a large one.
            cancel: Called before every chunk; what it raises is passed on.
            progress: Called now and then with the number of weights done.

        Raises:
            ExplorerError: The importance matrix is damaged, or of another model.
        """

        def row_of(
            place: int, workers: int, check: Check, progress: Progress
        ) -> tuple[ComparedRow, RunningErrors | None]:
            match = self.matches[place]
            importance = self._importance_of(match)
            weighted = None
            try:
                errors, sums = _compare(
                    *(MatchedPair(match), workers, check, progress),
                    by_column=importance is not None,
                )
            except ExplorerError as error:
                return ComparedRow(match, None, error), None
            if importance is not None and sums.columns is not None:
                weighted, sums.columns = sums.columns.weighted(importance), None
            return ComparedRow(match, errors, None, weighted), sums

        sizes = [match.candidate.parameters for match in self.matches]
        for row, sums in map_tensors(
            sizes, row_of, workers=workers, check=cancel or never, progress=progress
        ):
            if sums is not None:
                self._sums.combine(sums)
                if self._group_of is not None:
                    group = self._group_of(row.match)
                    self.groups.setdefault(group, RunningErrors()).combine(sums)
                self._tensors |= {id(tensor): tensor for tensor in row.match.candidate.tensors}
            if row.weighted is not None:
                self._weighted += row.weighted
            yield row

    def total(self) -> TotalErrors:
        """Return the errors of all rows so far; percentiles are not known of them."""
        tensors = self._tensors.values()
        weights = sum(tensor.parameters for tensor in tensors)
        bits = 8 * sum(tensor.nbytes for tensor in tensors)
        bits_per_weight = bits / weights if weights else nan
        return TotalErrors(self._sums.metrics(), bits_per_weight, self._weighted)

    def _importance_of(self, match: Match) -> Values | None:
        """Return the importance of a pair's columns, by either name of it; None if unknown."""
        if self.importance is None:
            return None
        for view in (match.candidate, match.reference):
            found = importance_for(self.importance, view.name, view)
            if found is not None:
                return found
        return None


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
