"""Percentiles from a histogram of many bins: right to the width of a bin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

PERCENTS: Final = (0.1, 1.0, 5.0, 50.0, 95.0, 99.0, 99.9)
"""Percentiles that statistics tell."""


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
    wanted = np.asarray(percents, np.float64) / 100 * last
    before = np.floor(wanted).astype(np.int64)
    ranks = np.stack([before, np.minimum(before + 1, last)])  # 0 for the least weight
    found = np.searchsorted(behind, ranks, side="right")
    inside = (ranks - (behind[found] - counts[found]) + 0.5) / counts[found]
    first, second = low + (found + inside) * ((high - low) / counts.size)
    between: list[float] = (first + (wanted - before) * (second - first)).tolist()
    return between
