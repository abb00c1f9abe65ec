"""Where the kernel of pictures keeps what in its arrays; apart from it, to be known without Numba.

A level is the exponent of a float32 as it is stored: a pair of level n has one weight, and none
farther out, of 2^(n - 127) to 2^(n - 126). Each level has a grid over the square from -2^(n - 126)
to 2^(n - 126) in both directions, for the pairs of that level alone. Grids of two neighbours fit
into each other, four cells into one: so the counts of any level and all below it can be added up,
exactly, without looking at a weight again.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

ACROSS: Final = 256
"""Cells of a grid in each direction: rows for the candidate, columns for the reference.

Those that are in use have to stay in the second-level cache: with 512, counting pairs of BF16 and
Q4_K took 1.4 times as long.
"""

LEVELS: Final = 32
"""Grids that are kept: of the highest level there is, and of those below it. The lowest of them
also counts the pairs of all levels below."""

LEAST_TOP: Final = 38
"""The highest level is at least this, so that the width of each grid's cells has an inverse."""

NO_CELL: Final = LEVELS * ACROSS * ACROSS
"""Where pairs are counted that are not both finite, behind all cells."""

KEYS: Final = 1 << 16
"""Counters of errors: one for each upper half of a float32's bits."""

PIECE: Final = 2048
"""Pairs whose places are worked out together."""

NEXT, TOP = range(2)
"""In `state`, int64 [2]: the first pair that is not counted, and the highest level."""


class Work(NamedTuple):
    """Arrays of one thread that the kernel counts and works in.

    Attributes:
        keys: uint32 [KEYS]: number of errors by their upper bits.
        cells: uint32 [NO_CELL + 1]: number of pairs by cell, one grid behind the other.
        codes: uint32 [PIECE].
        places: uint32 [PIECE].
    """

    keys: NDArray[np.uint32]
    cells: NDArray[np.uint32]
    codes: NDArray[np.uint32]
    places: NDArray[np.uint32]


def new_work() -> Work:
    """Return arrays for one thread, with no pair counted; zeros untouched take no memory."""
    return Work(
        np.zeros(KEYS, np.uint32),
        np.zeros(NO_CELL + 1, np.uint32),
        np.empty(PIECE, np.uint32),
        np.empty(PIECE, np.uint32),
    )
