"""Errors of weights against a reference: exact metrics of all pairs.

All metrics come from sums, see `kernels.py`; percentiles of |e| from counts by the upper 18 bits of
|e| as a float32, so that the range need not be known beforehand and one walk is enough.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from explorer.analysis.errors import kernel_api as at
from explorer.formats.weights import Values

ERROR_PERCENTS: Final = (50.0, 90.0, 99.0, 99.9)
"""Percentiles of |e|."""

_NEARLY_EQUAL: Final = 0.25
"""Square of the relative error up to which the angle is computed from the error itself."""


@dataclass(frozen=True, kw_only=True)
class ErrorMetrics:
    """Errors e = candidate - reference, over pairs of finite weights.

    A metric that does not exist is NaN; of no pairs, all are.

    Attributes:
        count: Number of pairs, finite or not.
        compared: Pairs of finite weights, which all metrics are of.
        reference_not_finite: Weights of the reference that are NaN or infinite.
        candidate_not_finite: The same of the candidate.
        equal: Pairs without any error.
        sign_flips: Pairs of which one is above 0 and the other below.
        zeroed: Pairs where the candidate is 0 and the reference is not.
        rmse: Root of the mean square error.
        relative_rmse: `rmse` divided by the root mean square of the reference.
        sqnr_db: Signal to quantization noise, -20 log10 of `relative_rmse`; inf without error.
        mean_error: Mean of e: the bias.
        mean_abs_error: Mean of |e|.
        max_abs_error: Greatest |e|.
        cosine: Cosine of the angle between the two, as vectors.
        one_minus_cosine: 1 - `cosine`, to all digits even where both are nearly equal.
        reference_rms: Root mean square of the reference.
        candidate_rms: The same of the candidate.
        percentiles: |e| below which so many per cent lie, right to a thousandth of its value.
    """

    count: int
    compared: int
    reference_not_finite: int
    candidate_not_finite: int
    equal: int
    sign_flips: int
    zeroed: int
    rmse: float
    relative_rmse: float
    sqnr_db: float
    mean_error: float
    mean_abs_error: float
    max_abs_error: float
    cosine: float
    one_minus_cosine: float
    reference_rms: float
    candidate_rms: float
    percentiles: dict[float, float]


@cache
def kernels() -> Any:
    """Return the module of the loop over pairs; the first call loads Numba."""
    return import_module("explorer.analysis.errors.kernels")


class RunningErrors:
    """Sums over the pairs so far; small, so that there can be one for each run of pairs.

    Attributes:
        keys: Counts of |e|, int64 [KEYS]; None until they are set in the end. They are large, and
            a thread needs one set of them for all its runs.
    """

    def __init__(self) -> None:
        self._counts = np.zeros(at.COUNTS, np.int64)
        self._sums = np.zeros((3, at.SUMS), np.float64)
        self._seen = 0
        self.keys: NDArray[np.int64] | None = None

    def add(self, reference: Values, candidate: Values, work: at.Work) -> None:
        """Add pairs of weights, float32 [n] each, apart in memory; |e| is counted in `work`."""
        kernels().measure_errors(reference, candidate, self._counts, self._sums, work)
        self._seen += reference.size

    def combine(self, other: RunningErrors) -> None:
        """Add the sums of other pairs; their counts of |e| are left out."""
        self._seen += other._seen
        self._counts += other._counts
        first, second = self._sums[0], other._sums[0]
        total = first + second
        shift = total - first  # TwoSum, as in the kernel
        lost = (first - (total - shift)) + (second - shift)
        most = np.maximum(self._sums[2], other._sums[2])
        self._sums = np.stack((total, self._sums[1] + other._sums[1] + lost, most))

    @property
    def compared(self) -> int:
        """Number of pairs of finite weights."""
        return int(self._counts[at.PAIRS])

    def figures(self) -> ErrorMetrics:
        """Return the metrics of the pairs so far; percentiles are NaN without counts of |e|."""
        counts = self._counts.tolist()
        pairs = counts[at.PAIRS]
        totals = (self._sums[0] + self._sums[1]).tolist()
        most = float(self._sums[2, 0])
        return ErrorMetrics(
            count=self._seen,
            compared=pairs,
            reference_not_finite=counts[at.REFERENCE_NOT_FINITE],
            candidate_not_finite=counts[at.CANDIDATE_NOT_FINITE],
            equal=counts[at.EQUAL],
            sign_flips=counts[at.SIGN_FLIPS],
            zeroed=counts[at.ZEROED],
            max_abs_error=most if pairs else math.nan,
            percentiles=_percentiles(self.keys, counts[at.EQUAL], most),
            **_figures(totals, pairs),
        )


def _figures(totals: list[float], pairs: int) -> dict[str, float]:
    """Return the metrics that are computed from sums."""
    if pairs == 0:
        names = ("rmse", "relative_rmse", "sqnr_db", "mean_error", "mean_abs_error", "cosine")
        more = ("one_minus_cosine", "reference_rms", "candidate_rms")
        return dict.fromkeys((*names, *more), math.nan)
    distance = one_minus_cosine(totals)
    relative, decibels = _noise(totals[at.EE], totals[at.RR])
    return {
        "rmse": math.sqrt(totals[at.EE] / pairs),
        "relative_rmse": relative,
        "sqnr_db": decibels,
        "mean_error": totals[at.E] / pairs,
        "mean_abs_error": totals[at.ABS] / pairs,
        "cosine": 1 - distance,
        "one_minus_cosine": distance,
        "reference_rms": math.sqrt(totals[at.RR] / pairs),
        "candidate_rms": math.sqrt(totals[at.CC] / pairs),
    }


def _noise(error: float, signal: float) -> tuple[float, float]:
    """Return the relative RMS error, and the ratio of signal to noise in dB, from mean squares."""
    if error == 0:
        return 0.0, math.inf
    if signal == 0:
        return math.inf, -math.inf
    # Not 10 log10(signal / error): that may overflow.
    return math.sqrt(error) / math.sqrt(signal), 10 * (math.log10(signal) - math.log10(error))


def one_minus_cosine(totals: list[float]) -> float:
    """Return 1 - cos of the angle between reference r and candidate c, 0 to 2; NaN if one is 0.

    With e = c - r and d = |c| - |r|, r c = (r² + c² - e²) / 2, so that 1 - cos = (e² - d²) /
    (2 |r| |c|), where d = (2 r e + e²) / (|r| + |c|). Of nearly equal vectors no two nearly equal
    numbers are subtracted there; of others, r c itself says it well.

    Args:
        totals: Sums, as `kernel_api` orders them.
    """
    r, c = math.sqrt(totals[at.RR]), math.sqrt(totals[at.CC])
    if r == 0 or c == 0:
        return math.nan
    error = totals[at.EE]
    if error > _NEARLY_EQUAL * totals[at.RR]:
        distance = 1 - totals[at.RC] / r / c
    else:
        d = (2 * totals[at.RE] + error) / (r + c)
        distance = (error - d * d) / r / c / 2
    return min(2.0, max(0.0, distance))


def _percentiles(keys: NDArray[np.int64] | None, equal: int, most: float) -> dict[float, float]:
    """Return percentiles of |e|, linearly between the two nearest pairs."""
    if keys is None:
        return dict.fromkeys(ERROR_PERCENTS, math.nan)
    used = np.flatnonzero(keys != 0)  # few are; of booleans they are found sooner
    counts = keys[used]
    if equal:
        counts[0] -= equal  # these are 0, the others of that key are not
    behind = (equal + np.cumsum(counts)).tolist()
    if not behind:
        return dict.fromkeys(ERROR_PERCENTS, math.nan)
    last = behind[-1] - 1

    def error_at(rank: int) -> float:
        if rank < equal:
            return 0.0
        if rank >= last:
            return most
        place = bisect_right(behind, rank)
        key, count = int(used[place]), int(counts[place])
        inside = (rank - (behind[place] - count) + 0.5) / count
        low, high = _least_of(key), _least_of(key + 1)
        return min(low + inside * (high - low), most) if math.isfinite(high) else most

    found = {}
    for percent in ERROR_PERCENTS:
        rank, part = divmod(percent / 100 * last, 1)
        low, high = error_at(int(rank)), error_at(min(int(rank) + 1, last))
        found[percent] = low + part * (high - low)
    return found


def _least_of(key: int) -> float:
    """Return the least number of a key."""
    return float(np.uint32(key << (31 - at.KEY_BITS)).view(np.float32))
