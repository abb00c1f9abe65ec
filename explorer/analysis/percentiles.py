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
