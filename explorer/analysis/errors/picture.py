"""What a tensor lost, as figures and as pictures, from one walk over both sets of weights."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from explorer.analysis.binning import Histogram
from explorer.analysis.errors.comparison import check_comparable, saturated_share
from explorer.analysis.errors.figures import ErrorFigures, RunningErrors
from explorer.analysis.errors.lockstep import Pairs, flat_spans, measure_pairs
from explorer.analysis.errors.pair_counts import AllCounts
from explorer.analysis.errors.pair_pictures import (
    PairSquare,
    error_histograms,
    magnitude_histogram,
    sizes_of_keys,
    squares,
)
from explorer.analysis.errors.weights_pair import MatchedPair, RoundedPair, WeightsPair
from explorer.analysis.rounding.rounded_weights import RoundedWeights, rounded_saturated_share
from explorer.formats.weights import check_decodable
from explorer.parallel import Check, never

_SNAPSHOT_SECONDS: Final = 0.05  # between two, at least
_SNAPSHOT_SHARE: Final = 0.05  # of the time, at most


@dataclass(frozen=True, kw_only=True)
class ErrorPicture:
    """What a tensor lost; while it is read, of the weights read so far.

    Attributes:
        figures: Its errors; percentiles are NaN while it is read.
        saturated_codes: Share of the candidate's codes that are the least or the greatest of the
            type, 0 to 1; None if that is not known.
        all_pairs: References and candidates of all pairs.
        most_pairs: The same without the outermost 0.1 %.
        all_errors: Candidate - reference, rounded to float32.
        most_errors: The same without the outermost 0.1 %.
        magnitudes: |e| by eighths of powers of two; those that are 0 are left out.
        done: Pairs read.
        total: Pairs to read.
        complete: Whether everything was read and put together.
    """

    figures: ErrorFigures
    saturated_codes: float | None
    all_pairs: PairSquare
    most_pairs: PairSquare
    all_errors: Histogram
    most_errors: Histogram
    magnitudes: Histogram
    done: int
    total: int
    complete: bool


Progress: TypeAlias = Callable[[ErrorPicture], object]


def picture_errors(
    pair: WeightsPair,
    workers: int = 1,
    *,
    cancel: Check | None = None,
    progress: Progress | None = None,
) -> ErrorPicture:
    """Return figures and pictures of what a candidate lost; nothing is sampled.

    Args:
        pair: Reference and candidate.
        workers: Threads. Each holds up to 14 MiB. The result is the same to the
            bit for any number.
        cancel: Called before every chunk, in the thread that reads it; what it raises is passed on.
        progress: Called in the caller's thread, at most every 50 ms, with what is known so far.

    Raises:
        ExplorerError: The two cannot be compared.
        FormatError: A file is damaged there, or a type's weights cannot be decoded.
        SourceError: A file changed since it was opened.
    """
    check = never if cancel is None else cancel
    if isinstance(pair, MatchedPair):
        check_comparable(pair.match.reference, pair.match.candidate)
    elif isinstance(pair, RoundedPair):
        check_decodable(pair.tensor)
    counts = AllCounts()
    rounded: list[RoundedWeights] = []

    def read() -> Pairs:
        if not isinstance(pair, RoundedPair):
            return pair.pairs()
        rounded.append(RoundedWeights(pair.tensor, pair.rounder()))
        return rounded[-1]

    watcher = _Watcher(pair.parameters, counts, progress)
    errors = measure_pairs(
        flat_spans(pair.parameters),
        lambda: counts.counting(read),
        workers=workers,
        check=check,
        watch=watcher.tell,
    )
    saturated = rounded_saturated_share(rounded)
    if isinstance(pair, MatchedPair):
        saturated = saturated_share(pair.match.candidate, workers, check)
    whole = _picture(errors, counts, pair.parameters)
    magnitudes = magnitude_histogram(errors.keys)
    return replace(whole, saturated_codes=saturated, magnitudes=magnitudes, complete=True)


class _Watcher:
    """Tells somebody what is known so far, not too often: making it takes milliseconds."""

    def __init__(self, total: int, counts: AllCounts, progress: Progress | None) -> None:
        self._total = total
        self._counts = counts
        self._progress = progress
        self._next = time.monotonic() + _SNAPSHOT_SECONDS

    def tell(self, errors: RunningErrors) -> None:
        """Tell of the pairs so far."""
        start = time.monotonic()
        if self._progress is None or start < self._next:
            return
        self._progress(_picture(errors, self._counts, self._total))
        spent = time.monotonic() - start
        self._next = start + max(_SNAPSHOT_SECONDS, spent / _SNAPSHOT_SHARE)


def _picture(errors: RunningErrors, counts: AllCounts, total: int) -> ErrorPicture:
    """Return what is known so far."""
    keys = counts.keys
    all_pairs, most_pairs = squares(counts)
    all_errors, most_errors = error_histograms(keys)
    figures = errors.figures()
    return ErrorPicture(
        figures=figures,
        saturated_codes=None,
        all_pairs=all_pairs,
        most_pairs=most_pairs,
        all_errors=all_errors,
        most_errors=most_errors,
        magnitudes=magnitude_histogram(sizes_of_keys(keys)),
        done=figures.count,
        total=total,
        complete=False,
    )
