"""Layout of the arrays of the kernels of errors and of pictures; needs no Numba."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

# In `counts`, int64 [COUNTS]: pairs of finite weights, weights that are not finite on either side,
# and of the pairs: equal ones, ones of opposite sign, ones that only the reference has not as 0.
PAIRS, REFERENCE_NOT_FINITE, CANDIDATE_NOT_FINITE, EQUAL, SIGN_FLIPS, ZEROED, COUNTS = range(7)

# In `sums`, float64 [3, SUMS], of reference r, candidate c and error e = c - r: sums of r², c²,
# r c, r e, e, e², |e|. The second row is what rounding lost of the first; the third begins with the
# greatest |e|.
RR, CC, RC, RE, E, EE, ABS, SUMS = range(8)

KEY_BITS: Final = 18
"""Upper bits of |e| as a float32, of which the sign is 0: exponent and 10 bits of mantissa."""

KEYS: Final = 1 << KEY_BITS

LANES: Final = 32
"""Sums side by side."""

PIECE: Final = 2048
"""Pairs that are summed together: 8 KiB of each side, which stay in the first-level cache."""


class Work(NamedTuple):
    """Arrays that the kernel works in: made here, since making them there takes long to compile.

    Attributes:
        few: uint16 [KEYS]: number of |e|, rounded to float32, by their upper bits.
        many: int64 [KEYS]: what the former have no room for.
        lanes: float64 [SUMS + 1, LANES].
        part: float64 [SUMS].
        clean_r: float32 [PIECE].
        clean_c: float32 [PIECE].
        codes: uint32 [PIECE].
    """

    few: NDArray[np.uint16]
    many: NDArray[np.int64]
    lanes: NDArray[np.float64]
    part: NDArray[np.float64]
    clean_r: NDArray[np.float32]
    clean_c: NDArray[np.float32]
    codes: NDArray[np.uint32]

    @property
    def keys(self) -> NDArray[np.int64]:
        """Number of |e| by key, int64 [KEYS]."""
        return self.many + self.few


def new_work() -> Work:
    """Return arrays for one thread, with no |e| counted."""
    return Work(
        np.zeros(KEYS, np.uint16),
        np.zeros(KEYS, np.int64),
        np.empty((SUMS + 1, LANES)),
        np.empty(SUMS),
        np.empty(PIECE, np.float32),
        np.empty(PIECE, np.float32),
        np.empty(PIECE, np.uint32),
    )


# Kernel of pictures. A level is the exponent of a float32 as it is stored: a pair of level n has
# one weight, and none farther out, of 2^(n-127) to 2^(n-126). Each level has a grid over the square
# from -2^(n-126) to 2^(n-126) in both directions, for the pairs of that level alone. Grids of two
# neighbours fit into each other, four cells into one: so the counts of any level and all below it
# can be added up, exactly, without looking at a weight again.

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

PAIR_KEYS: Final = 1 << 16
"""Counters of errors: one for each upper half of a float32's bits."""

NEXT, TOP = range(2)
"""In `state`, int64 [2]: the first pair that is not counted, and the highest level."""


class PairWork(NamedTuple):
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


def new_pair_work() -> PairWork:
    """Return arrays for one thread, with no pair counted; zeros untouched take no memory."""
    return PairWork(
        np.zeros(PAIR_KEYS, np.uint32),
        np.zeros(NO_CELL + 1, np.uint32),
        np.empty(PIECE, np.uint32),
        np.empty(PIECE, np.uint32),
    )
