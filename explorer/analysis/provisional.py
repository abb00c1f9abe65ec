"""A histogram of weights whose range is not known yet, good enough to look at.

Weights are counted by a key, the upper half of their float32 bits: sign, exponent and seven bits
of mantissa. Whatever range they turn out to have, bins are filled from these counts, where the
weights of a key are taken to be spread over the numbers that share it.
"""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

from explorer.analysis import kernel_fields
from explorer.analysis.binning import Histogram
from explorer.formats.weights import Values

_HALF = kernel_fields.KEYS // 2
_FINITE = 0x7F80  # keys of one sign that are finite numbers


class RunningKeys:
    """Weights so far, counted by key; any number of threads may add to it at once."""

    def __init__(self) -> None:
        self._own = threading.local()
        self._all: list[NDArray[np.int64]] = []

    def add(self, values: Values) -> None:
        """Count weights, float32 [n]."""
        own: NDArray[np.int64] | None = getattr(self._own, "counts", None)
        if own is None:
            own = self._own.counts = np.zeros(kernel_fields.KEYS, np.int64)
            self._all.append(own)
        kernel_fields.kernels().count_keys(values, own)

    @property
    def counts(self) -> NDArray[np.int64]:
        """What was counted, int64 [KEYS]; a thread that is at work may have counted a bit more."""
        return sum(list(self._all), np.zeros(kernel_fields.KEYS, np.int64))


def histogram(
    counts: NDArray[np.int64], low: float, high: float, bins: int, *, whole: bool
) -> Histogram:
    """Return a histogram whose counts are approximate.

    Args:
        counts: From `RunningKeys`.
        low: First edge.
        high: Last edge.
        bins: Number of bins.
        whole: Whether the edges are the least and the greatest weight: then the sum of the counts
            is right.
    """
    if not low < high:
        low, high = (low - 0.5, high + 0.5) if low == high else (0.0, 1.0)
    edges = np.linspace(low, high, bins + 1)
    # Borders between keys, in the order of numbers: of -inf, …, of -0 and 0, …, of inf.
    positive = (np.arange(_FINITE + 1, dtype=np.uint32) << 16).view(np.float32).astype(np.float64)
    borders = np.concatenate((-positive[::-1], positive))
    negative = counts[_HALF : _HALF + _FINITE][::-1]
    weights = np.concatenate((negative, [0], counts[:_FINITE]))
    below = np.concatenate(([0], np.cumsum(weights)))
    at_edges = np.rint(np.interp(edges, borders, below)).astype(np.int64)
    if whole:
        at_edges[0], at_edges[-1] = 0, below[-1]
    return Histogram(low, high, edges, np.diff(at_edges))
