"""Exact statistics that one walk over the weights gives: counts, extremes and moments.

The way and its source are told in `kernels.py`. What is here gathers for a run of weights and is
combined run by run, so that the order of the runs matters to no more than rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from explorer.analysis import places
from explorer.formats.weights_runs import Values


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
    """Statistics of the weights so far."""

    def __init__(self) -> None:
        self.counts = np.zeros(places.COUNTS, np.int64)
        self.sums = np.zeros(places.MOMENTS, np.float64)
        self.sums[places.MIN], self.sums[places.MAX] = math.inf, -math.inf

    def add(self, values: Values) -> None:
        """Add weights, float32 [n]."""
        places.kernels().measure(values, self.counts, self.sums)

    def combine(self, other: RunningMoments) -> None:
        """Add the statistics of other weights."""
        places.kernels().combine(self.counts, self.sums, other.counts, other.sums)

    @property
    def finite(self) -> int:
        """Number of finite weights."""
        return int(self.counts[places.FINITE])

    @property
    def low(self) -> float:
        """The least finite weight; inf if there is none."""
        return float(self.sums[places.MIN])

    @property
    def high(self) -> float:
        """The greatest finite weight; -inf if there is none."""
        return float(self.sums[places.MAX])

    def fields(self) -> dict[str, Any]:
        """Return what `Moments` holds, by the names of its attributes."""
        finite, nan, positive, negative, zeros = map(int, self.counts)
        known = {
            "count": finite + nan + positive + negative,
            "finite": finite,
            "nan": nan,
            "positive_inf": positive,
            "negative_inf": negative,
            "zeros": zeros,
        }
        return known | self._figures(finite)

    def moments(self) -> Moments:
        """Return the statistics so far."""
        return Moments(**self.fields())

    def _figures(self, finite: int) -> dict[str, float]:
        names = ("min", "max", "mean", "std", "rms", "abs_max", "skewness", "kurtosis")
        if finite == 0:
            return dict.fromkeys(names, math.nan)
        low, high, mean, m2, m3, m4 = map(float, self.sums)
        variance = m2 / finite
        shape = (
            (m3 / finite / variance**1.5, m4 / finite / variance**2)
            if variance > 0
            else (math.nan, math.nan)
        )
        rms = math.sqrt(variance + mean * mean)
        figures = (low, high, mean, math.sqrt(variance), rms, max(abs(low), abs(high)), *shape)
        return dict(zip(names, figures, strict=True))
