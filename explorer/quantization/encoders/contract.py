"""What every encoder is given: weights, their importance, and arrays to work in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

LANES: Final = 8
"""Sub-blocks that are searched side by side, one in each lane of a vector register."""

BLOCK: Final = 256
"""Weights of the longest block."""


class Work(NamedTuple):
    """Arrays that a kernel works in; it is given them, since arguments are known not to overlap.

    Attributes:
        x: float32 [BLOCK]: a block's weights.
        w: float32 [BLOCK]: how much the square error of each counts.
        lanes: float32 [32 * LANES]: figures of the sub-blocks that are searched.
        spare: float32 [1024]: for what else there is.
        codes: uint8 [BLOCK + 4]: a block's codes.
        sub: float32 [5, 16]: of a block's sub-blocks: scales, minima, sums of weights, and what
            scales and minima are rounded to.
    """

    x: NDArray[np.float32]
    w: NDArray[np.float32]
    lanes: NDArray[np.float32]
    spare: NDArray[np.float32]
    codes: NDArray[np.uint8]
    sub: NDArray[np.float32]


def new_work() -> Work:
    """Return arrays to work in, for one call of an encoder."""
    return Work(
        np.zeros(BLOCK, np.float32),
        np.zeros(BLOCK, np.float32),
        np.zeros(32 * LANES, np.float32),
        np.zeros(1024, np.float32),
        np.zeros(BLOCK + 4, np.uint8),
        np.zeros((5, 16), np.float32),
    )


Encode: TypeAlias = Callable[[Any, Any, Any, Work], None]
"""encode(values, importance, blocks, work) fills `blocks`, uint8 [n, block_bytes].

values: float32 [n, block_weights]. importance: float32 [blocks of a row, block_weights], or None; a
kernel is compiled once for each of the two. All C-contiguous and apart in memory.
"""
