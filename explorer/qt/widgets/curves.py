"""A histogram as plots draw it, with the figures marked in it; loads no plot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.analysis import Histogram, Moments


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
        minimum: The smallest.
        maximum: The largest.
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
