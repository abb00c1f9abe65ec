"""What a histogram plot draws of one tensor, and a coarser look at a finer histogram."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from explorer.analysis import Histogram, Moments
from explorer.analysis.moments import percentiles

ROBUST_PERCENTS = (0.1, 99.9)
"""Percentiles between which a robust range lies."""

Range: TypeAlias = tuple[float, float]


@dataclass(frozen=True, eq=False)
class HistogramCurve:
    """A histogram with the figures that are marked in it.

    Attributes:
        name: Plain text for legend and read-out.
        row: Content row of its tensor, or -1.
        histogram: Counts by bin.
        total: All that was counted, what lies outside the bins too.
        mean: Mean of all; NaN of nothing.
        std: Their standard deviation.
        minimum: The least.
        maximum: The greatest.
    """

    name: str
    row: int
    histogram: Histogram
    total: int
    mean: float
    std: float
    minimum: float
    maximum: float

    @classmethod
    def of_moments(
        cls, name: str, histogram: Histogram, moments: Moments, row: int = -1
    ) -> HistogramCurve:
        """Return the curve of a histogram of what the moments were taken of."""
        return cls(
            name,
            row,
            histogram,
            moments.count,
            moments.mean,
            moments.std,
            moments.min,
            moments.max,
        )

    @property
    def outside(self) -> int:
        """How many of all lie in no bin."""
        return self.total - int(self.histogram.counts.sum())

    def reading(self, x: float) -> BinReading | None:
        """Return what the bin at `x` holds; None outside the bins."""
        edges, counts = self.histogram.edges, self.histogram.counts
        if not edges[0] <= x <= edges[-1]:
            return None
        index = min(int(np.searchsorted(edges, x, side="right")) - 1, counts.size - 1)
        count = int(counts[index])
        share = count / self.total if self.total else 0.0
        return BinReading(
            self.name, index, float(edges[index]), float(edges[index + 1]), count, share
        )


def curve_columns(curves: Sequence[HistogramCurve]) -> list[tuple[str, list[Any]]]:
    """Return the edges and counts of curves as columns; curves with the same bins share edges."""
    columns: list[tuple[str, list[Any]]] = []
    last: NDArray[np.float64] | None = None
    for number, curve in enumerate(curves):
        edges = curve.histogram.edges
        if last is None or not np.array_equal(last, edges):
            suffix = f" {number + 1}" if number else ""
            columns.append((f"low{suffix}", edges[:-1].tolist()))
            columns.append((f"high{suffix}", edges[1:].tolist()))
            last = edges
        name = f"count {curve.name}" if len(curves) > 1 else "count"
        columns.append((name, curve.histogram.counts.tolist()))
    return columns


@dataclass(frozen=True, slots=True)
class BinReading:
    """What the cursor stands on.

    Attributes:
        curve: The curve's name.
        index: Number of the bin.
        low: The bin's left edge.
        high: Its right edge.
        count: What it holds.
        share: That as a share of all, 0 to 1.
    """

    curve: str
    index: int
    low: float
    high: float
    count: int
    share: float


def histogram_of(edges: NDArray[np.float64], counts: NDArray[np.int64]) -> Histogram:
    """Return a histogram over edges, float64 [bins + 1], with counts, int64 [bins]."""
    return Histogram(float(edges[0]), float(edges[-1]), edges, counts)


def resampled(histogram: Histogram, low: float, high: float, bins: int) -> Histogram:
    """Return about what a histogram of other bins would hold, as if each bin were spread evenly.

    Args:
        histogram: A fine histogram.
        low: First edge.
        high: Last edge, not below `low`.
        bins: Number of bins.
    """
    if not low < high:
        low, high = low - 0.5, high + 0.5
    edges = np.linspace(low, high, bins + 1)
    below = np.concatenate(([0], np.cumsum(histogram.counts)))
    at_edges = np.rint(np.interp(edges, histogram.edges, below)).astype(np.int64)
    return histogram_of(edges, at_edges[1:] - at_edges[:-1])


def robust_range(histogram: Histogram) -> Range | None:
    """Return about where all but the outermost 0.1 % on each side lie; None of nothing."""
    if not histogram.counts.any():
        return None
    low, high = percentiles(histogram.counts, histogram.low, histogram.high, ROBUST_PERCENTS)
    return low, high


def union(ranges: Sequence[Range]) -> Range | None:
    """Return the least range that holds all of some ranges; None of none."""
    if not ranges:
        return None
    return min(low for low, _ in ranges), max(high for _, high in ranges)
