"""Exact statistics that one walk over the weights gives: counts, extremes and moments.

A kernel takes them piece by piece. Pieces, and then runs of weights, are put together by the
formulas of Chan, Golub and LeVeque (1979) as extended by Pébay, "Formulas for Robust, One-Pass
Parallel Computation of Covariances and Arbitrary-Order Statistical Moments", SAND2008-6212,
section 3, for many at once: their sums of powers are moved to the common mean and added. So the
order of the runs matters to no more than rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from explorer.analysis import kernel_api
from explorer.analysis.kernel_api import FINITE, M2, M3, M4, MAX, MEAN, MIN, PIECE, ZEROS
from explorer.formats.weights import Batch, Coded, Values

_ROOM: Final = 1024  # pieces whose figures wait: 64 KiB
_TOGETHER: Final = 256  # of more than 500 numbers NumPy hands the interpreter's lock to others
_AT_ONCE: Final = (_ROOM // 2) * PIECE  # weights


@dataclass(frozen=True, kw_only=True)
class Moments:
    """Statistics of weights; moments and extremes are those of the finite ones.

    A figure that does not exist (of no weights, or skewness and kurtosis of equal ones) is NaN.

    Attributes:
        count: Number of weights.
        finite: Those that are neither NaN nor infinite.
        nan: Those that are NaN.
        positive_inf: Those that are +inf.
        negative_inf: Those that are -inf.
        zeros: Those that are 0 or -0.
        min: The least.
        max: The greatest.
        mean: Their mean.
        std: Population standard deviation.
        rms: Root of the mean square.
        abs_max: The greatest absolute value.
        skewness: Third standardized moment; 0 for a symmetrical distribution.
        kurtosis: Fourth standardized moment; 3 for a normal distribution.
    """

    count: int
    finite: int
    nan: int
    positive_inf: int
    negative_inf: int
    zeros: int
    min: float
    max: float
    mean: float
    std: float
    rms: float
    abs_max: float
    skewness: float
    kurtosis: float

    @property
    def inf(self) -> int:
        """Number of infinite weights of both signs."""
        return self.positive_inf + self.negative_inf


class RunningMoments:
    """Statistics of the weights so far. One thread at a time may add to them."""

    def __init__(self) -> None:
        self._others = np.zeros(kernel_api.OTHERS, np.int64)
        self._figures = np.zeros((_ROOM, kernel_api.FIGURES))  # of each piece
        self._used = 0
        self._looked: tuple[int, NDArray[np.float64]] | None = None  # when so many were used
        lanes = kernel_api.LANES
        piece = np.empty((PIECE // lanes, lanes), np.float32)
        self._work = piece, np.empty(3 * lanes), np.empty(3 * lanes, np.float32)

    def add(self, values: Values) -> None:
        """Add weights, float32 [n]."""
        for start in range(0, values.size, _AT_ONCE):
            self.add_batch(Batch.of_values(values[start : start + _AT_ONCE]))

    def add_batch(self, batch: Batch) -> None:
        """Add weights, of which there are `_AT_ONCE` at most."""
        done, size = 0, batch.coded.size
        while done < size:
            done += self._measure(batch.coded.part(done, size))
            if done < size:
                stop = min(size, (done // batch.chunk + 1) * batch.chunk)
                rest = batch.decode(done, stop)
                self._measure(Coded.of_values(rest[self._count_others(rest)]))
                done = stop

    def add_counted(self, values: Values, numbers: NDArray[np.int64]) -> None:
        """Add weights: values, float32 [n], and how often each occurs, int64 [n]."""
        finite = self._count_others(values, numbers)
        figures = np.zeros((int(finite.sum()), kernel_api.FIGURES))
        figures[:, FINITE] = numbers[finite]
        figures[:, ZEROS] = np.where(values[finite] == 0, numbers[finite], 0)
        figures[:, [MIN, MAX, MEAN]] = values[finite, None]
        self.add_figures(figures)

    def add_figures(self, figures: NDArray[np.float64]) -> None:
        """Add finite weights by the figures of each group of them, float64 [n, FIGURES]."""
        self._add_figures(_together(figures, len(figures)))

    def _count_others(
        self, values: Values, numbers: NDArray[np.int64] | int = 1
    ) -> NDArray[np.bool_]:
        """Count what is not finite; return a mask of the others."""
        others = np.isnan(values), np.isposinf(values), np.isneginf(values)
        self._others += [np.where(which, numbers, 0).sum() for which in others]
        finite: NDArray[np.bool_] = np.isfinite(values)
        return finite

    def combine(self, other: RunningMoments) -> None:
        """Add the statistics of other weights."""
        self._add_figures(other.figures)
        self._others += other._others

    def _add_figures(self, figures: NDArray[np.float64]) -> None:
        if self._used:
            self._put_together()
        self._figures[self._used] = figures
        self._used += 1
        self._put_together()

    @property
    def figures(self) -> NDArray[np.float64]:
        """What is known of the finite weights, float64 [FIGURES], in the order of `kernel_api`.

        To look changes nothing: what is put together when decides how it is rounded.
        """
        if self._looked is None or self._looked[0] != self._used:
            self._looked = self._used, _together(self._figures[: self._used])
        return self._looked[1]

    @property
    def finite(self) -> int:
        """Number of finite weights."""
        return int(self.figures[FINITE])

    @property
    def low(self) -> float:
        """The least finite weight; inf if there is none."""
        return float(self.figures[MIN])

    @property
    def high(self) -> float:
        """The greatest finite weight; -inf if there is none."""
        return float(self.figures[MAX])

    def fields(self) -> dict[str, Any]:
        """Return what `Moments` holds, by the names of its attributes."""
        finite, zeros = map(int, self.figures[[FINITE, ZEROS]])
        nan, positive, negative = map(int, self._others)
        known = {
            "count": finite + nan + positive + negative,
            "finite": finite,
            "nan": nan,
            "positive_inf": positive,
            "negative_inf": negative,
            "zeros": zeros,
        }
        return known | self._described(finite)

    def moments(self) -> Moments:
        """Return the statistics so far."""
        return Moments(**self.fields())

    def _described(self, finite: int) -> dict[str, float]:
        names = ("min", "max", "mean", "std", "rms", "abs_max", "skewness", "kurtosis")
        if finite == 0:
            return dict.fromkeys(names, math.nan)
        low, high, mean, m2, m3, m4 = map(float, self.figures[[MIN, MAX, MEAN, M2, M3, M4]])
        variance = m2 / finite
        shape = (
            (m3 / finite / variance**1.5, m4 / finite / variance**2)
            if variance > 0
            else (math.nan, math.nan)
        )
        rms = math.sqrt(variance + mean * mean)
        figures = (low, high, mean, math.sqrt(variance), rms, max(abs(low), abs(high)), *shape)
        return dict(zip(names, figures, strict=True))

    def _measure(self, coded: Coded) -> int:
        """Add weights up to a piece with one that is not finite; return how many were added."""
        size = coded.size
        whole = size // kernel_api.LANES * kernel_api.LANES
        done = 0
        for start, stop in ((0, whole), (whole, size)):
            if start == stop:
                continue
            pieces = -(-(stop - start) // PIECE)
            if self._used + pieces > _ROOM:
                self._put_together()
            found = kernel_api.kernels().measure(
                coded.part(start, stop), *self._work, self._figures[self._used :]
            )
            self._used += found
            done += min(found * PIECE, stop - start)
            if found < pieces:
                break
        return done

    def _put_together(self) -> None:
        if self._used != 1:
            self._figures[0] = self.figures
            self._used = 1
        self._looked = None


def _together(figures: NDArray[np.float64], most: int = _TOGETHER) -> NDArray[np.float64]:
    """Return the figures of all weights from those of parts, float64 [parts, FIGURES].

    Args:
        most: Parts that are added up at once.
    """
    if len(figures) > most:
        groups = range(0, len(figures), most)
        return _together(np.stack([_together(figures[at : at + most]) for at in groups]))
    total = np.zeros(kernel_api.FIGURES)
    total[MIN], total[MAX] = math.inf, -math.inf
    if not figures[:, FINITE].all():
        figures = figures[figures[:, FINITE] > 0]
    if not len(figures):
        return total
    if len(figures) == 1:
        total[:] = figures[0]
        return total
    number, mean, m2, m3, m4 = (figures[:, which] for which in (FINITE, MEAN, M2, M3, M4))
    total[FINITE] = number.sum()
    total[ZEROS] = figures[:, ZEROS].sum()
    total[MIN], total[MAX] = figures[:, MIN].min(), figures[:, MAX].max()
    # of like means none is to be changed by rounding
    total[MEAN] = mean[0] + (number * (mean - mean[0])).sum() / total[FINITE]
    d = mean - total[MEAN]
    square = d * d
    total[M2] = (m2 + number * square).sum()
    total[M3] = (m3 + d * (3 * m2 + number * square)).sum()
    total[M4] = (m4 + 4 * d * m3 + square * (6 * m2 + number * square)).sum()
    return total


# Percentiles from a histogram of many bins: right to the width of a bin.


PERCENTS: Final = (0.1, 1.0, 5.0, 50.0, 95.0, 99.0, 99.9)
"""Percentiles that statistics have."""


def percentiles(
    counts: NDArray[np.int64], low: float, high: float, percents: Sequence[float] = PERCENTS
) -> list[float]:
    """Return percentiles, linearly between the two nearest weights as `numpy.percentile` has them.

    The weights of a bin are taken to lie in it at equal distances.

    Args:
        counts: int64 [bins], not all 0; equal bins from `low` to `high`.
        low: First edge.
        high: Last edge.
        percents: What to find, 0 to 100.
    """
    behind = np.cumsum(counts)
    last = int(behind[-1]) - 1
    wanted = [percent / 100 * last for percent in percents]
    ranks = [min(int(rank) + up, last) for rank in wanted for up in (0, 1)]  # 0: the least weight
    places = behind.searchsorted(ranks, side="right")
    width = (high - low) / counts.size
    # a dozen numbers: Python is done with them before NumPy has looked at its arguments
    found = zip(
        ranks, places.tolist(), counts[places].tolist(), behind[places].tolist(), strict=True
    )
    weights = []
    for rank, place, count, end in found:
        inside = (rank - (end - count) + 0.5) / count
        weights.append(low + (place + inside) * width)
    pairs = zip(wanted, weights[::2], weights[1::2], strict=True)
    return [first + rank % 1 * (second - first) for rank, first, second in pairs]
