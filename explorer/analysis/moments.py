"""Exact statistics that one walk over the weights gives: counts, extremes and moments.

A kernel takes them piece by piece. Pieces, and then runs of weights, are put together by the
formulas of Chan, Golub and LeVeque (1979) as extended by Pébay, "Formulas for Robust, One-Pass
Parallel Computation of Covariances and Arbitrary-Order Statistical Moments", SAND2008-6212,
section 3: their sums of powers are moved to the common mean and added. So the order of the runs
matters to no more than rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from explorer.analysis import kernel_fields
from explorer.analysis.decoding import BlockDecoding
from explorer.analysis.kernel_fields import FINITE, M2, M3, M4, MAX, MEAN, MIN, ZEROS
from explorer.formats.weights import CHUNK_WEIGHTS
from explorer.formats.weights_runs import Values
from explorer.quantization.arrays import Blocks, read_only

_AT_ONCE: Final = 1 << 21  # weights, of which the finite ones may have to be copied


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
    """Statistics of the weights so far. One thread at a time may add to them.

    Attributes:
        figures: What is known of the finite weights, float64 [FIGURES], in the order of
            `kernel_fields`.
    """

    def __init__(self) -> None:
        self._others = np.zeros(kernel_fields.OTHERS, np.int64)
        self.figures = np.zeros(kernel_fields.FIGURES)
        self.figures[MIN], self.figures[MAX] = math.inf, -math.inf
        self._sums = np.empty(3 * kernel_fields.LANES)
        self._tops = np.empty(3 * kernel_fields.LANES, np.float32)

    def add(self, values: Values) -> None:
        """Add weights, float32 [n]."""
        for start in range(0, values.size, _AT_ONCE):
            part = values[start : start + _AT_ONCE]
            done = self._measure(part)
            if done < part.size:
                rest = part[done:]
                clean = np.empty_like(rest)
                kept = kernel_fields.kernels().keep_finite(rest, clean, self._others)
                self._measure(clean[:kept])

    def add_blocks(self, blocks: Blocks, decoding: BlockDecoding) -> None:
        """Add the weights of blocks, as if `add` got them chunk by chunk; the same to the bit."""
        per_piece, per_chunk = kernel_fields.PIECE // decoding.unit, CHUNK_WEIGHTS // decoding.unit
        start = 0
        while start < len(blocks):
            done = self._measure_blocks(blocks[start:], decoding)
            start += done * per_piece
            end = min(len(blocks), (start // per_chunk + 1) * per_chunk)
            if start < end:  # less than a piece, or one with a weight that is not finite
                self.add(decoding.decode(blocks[start:end]))
                start = end

    def combine(self, other: RunningMoments) -> None:
        """Add the statistics of other weights."""
        mine, others = self.figures, other.figures
        if others[FINITE]:
            # what the kernel calls, too, here as the Python that it was made of
            kernel_fields.kernels().take_up.py_func(mine, *others[[FINITE, MEAN, M2, M3, M4]])
            mine[ZEROS] += others[ZEROS]
            mine[MIN] = min(mine[MIN], others[MIN])
            mine[MAX] = max(mine[MAX], others[MAX])
        self._others += other._others

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

    def _measure(self, values: Values) -> int:
        """Add weights up to a piece with one that is not finite; return how many were added."""
        whole = values.size // kernel_fields.LANES * kernel_fields.LANES
        done = 0
        for run in (values[:whole].reshape(-1, kernel_fields.LANES), values[whole:].reshape(1, -1)):
            if run.size == 0:
                continue
            found = kernel_fields.kernels().measure(run, self._sums, self._tops, self.figures)
            done += min(found * kernel_fields.PIECE, run.size)
            if found * kernel_fields.PIECE < run.size:
                break
        return done

    def _measure_blocks(self, blocks: Blocks, decoding: BlockDecoding) -> int:
        """Add the weights of whole pieces; return how many were added: see `_measure`."""
        per_piece = len(decoding.weights)
        pieces = len(blocks) // per_piece
        if not pieces:
            return 0
        found: int = kernel_fields.kernels_blocks().measure_blocks(
            decoding.callback,
            read_only(blocks[: pieces * per_piece]),
            decoding.weights,
            self._sums,
            self._tops,
            self.figures,
        )
        return found
