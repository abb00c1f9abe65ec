"""Where the kernel of errors keeps what in its arrays; apart from it, to be known without Numba."""

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
        keys: int64 [KEYS]: number of |e|, rounded to float32, by their upper bits.
        lanes: float64 [SUMS + 1, LANES].
        part: float64 [SUMS].
        clean_r: float32 [PIECE].
        clean_c: float32 [PIECE].
        codes: uint32 [PIECE].
    """

    keys: NDArray[np.int64]
    lanes: NDArray[np.float64]
    part: NDArray[np.float64]
    clean_r: NDArray[np.float32]
    clean_c: NDArray[np.float32]
    codes: NDArray[np.uint32]


def new_work() -> Work:
    """Return arrays for one thread, with no |e| counted."""
    return Work(
        np.zeros(KEYS, np.int64),
        np.empty((SUMS + 1, LANES)),
        np.empty(SUMS),
        np.empty(PIECE, np.float32),
        np.empty(PIECE, np.float32),
        np.empty(PIECE, np.uint32),
    )
