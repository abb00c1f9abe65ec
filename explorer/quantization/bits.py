"""How blocks store codes and scales, told as data: which bits of a block each number is made of.

Weights are scale * level[code], less a minimum in a few types. What a type's row says is where its
codes and scales lie; `bit_kernels` makes the kernels of it.

::

    plane 2/32   | 0 | 32 | 64 | 96 |  | 1 | 33 | 65 | 97 |  ...   2-bit codes, lowest bits first
    plane 4/16   | 0 | 16 |  | 1 | 17 |  ...  | 15 | 31 |          and so on for each 32 weights
    split        | 0 | n |  | 1 | n + 1 |  ...                     n numbers in the low bits
    packed       | 0 | 1 |  | 2 | 3 |  ...

Source: `docs/gguf.md`, section 12; ik_llama.cpp, ggml/src/iqk/iqk_quantize.cpp, at 8337e4cd.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from explorer.quantization.grids import KVALUES, Grid, stored_grid
from explorer.quantization.registry import integers
from explorer.quantization.types import E2M1

Floats: TypeAlias = NDArray[np.float32]
Places: TypeAlias = NDArray[np.int64]

# What the scale of a block or row is; QUARTERS: the highest four bits of each of four u16
HALF, SINGLE, POWER, QUARTERS = range(4)

# The levels of types; where a bit selects one of two tables, the second follows the first.


def _two(first: Sequence[float], more: int) -> Floats:
    return np.array([*first, *(level + more for level in first)], np.float32)


V2: Final = _two((-31, -13, 1, 17), 5)
V3: Final = _two((-63, -40, -23, -10, 1, 13, 28, 47), 4)
V4: Final = _two(KVALUES, 4)
V5: Final = _two(
    (
        *(-126, -114, -103, -92, -83, -74, -65, -57, -50, -43, -36, -30, -24, -18, -12, -6, -1),
        *(5, 11, 17, 23, 29, 36, 43, 51, 59, 68, 77, 87, 97, 109, 121),
    ),
    2,
)
PAIRS: Final = (
    *((0, 2), (0, 5), (1, 0), (1, 3), (1, 5), (1, 7), (2, 1), (2, 2), (2, 4), (2, 5), (2, 6)),
    *((3, 0), (3, 4), (3, 5), (3, 7), (4, 2), (4, 3), (4, 4), (4, 5), (4, 6), (5, 1), (5, 2)),
    *((5, 3), (5, 4), (5, 5), (6, 0), (6, 2), (6, 4), (6, 6), (6, 7), (7, 2), (7, 5)),
)
"""Of IQ2_KL: which levels of V3 two weights have."""


CUBIC: Final = (-127.0, 6.2568, -0.11218, 0.0011972)


def cubic() -> Floats:
    """Return the levels of IQ6_K, by a polynomial with each step rounded; then each and one."""
    q = np.arange(64, dtype=np.float32)
    a, b, c, d = (np.float32(x) for x in CUBIC)
    first = a + q * (b + q * (c + q * d))
    return np.concatenate([first, first + np.float32(1)])


TRELLIS: Final = integers(-126, 126)
E2M1_TWICE: Final = np.where(np.arange(16) == 8, np.float32(0), E2M1 * np.float32(2))

# What the scale of a block or row is multiplied by, by the number that a sub-block stores.

ONE: Final = integers(1, 1)
ODD: Final = 2 * integers(0, 15) + 1
ODD_SIGNED: Final = np.concatenate([ODD, -ODD])
SIGNED: Final = np.concatenate([integers(0, 127), integers(-128, -1)])
# The lowest bit selects the table of levels.
KS: Final = integers(-127, 128) - np.arange(256, dtype=np.float32) % 2


class Bits(NamedTuple):
    """Bits of numbers: of number k those from places[k] on, counted from the block's beginning.

    Where two parts change the same bit of a number, it is set if one alone sets it.

    Attributes:
        places: int64 [numbers].
        mask: Which of the bits from there on count: for all numbers, or int64 [numbers].
        up: Which bit of the number the lowest of them is.
    """

    places: Places
    mask: Any
    up: int = 0


class Field(NamedTuple):
    """A run of bytes; see `BlockField`.

    Attributes:
        width: How many of a row's bytes lie together where rows alternate; 0 for all.
    """

    name: str
    nbytes: int
    dtype: str
    meaning: str
    width: int = 0


class BitType(NamedTuple):
    """How blocks make weights.

    Attributes:
        fields: The bytes of a whole block.
        codes: Bits of the codes; of the generator's, their signs.
        levels: float32 [codes]: the value of each code before scaling.
        weights_per_scale: Weights that share a scale.
        scales: Bits of the scales' numbers; without any, a number is 0.
        factors: float32 [numbers]: what the scale of the block or row is multiplied by.
        selects: Bits of the codes that all weights of a sub-block share.
        minima: As `scales`; None without minima.
        min_factors: As `factors`.
        min_at: Offset of the scale of the minima.
        d: How the scale of the block or row is stored.
        d_at: Its offset.
        rows: Of groups of weights, bits of the row of a table, or of where the generator starts.
        table: The table: uint8 [rows, codes].
        signs: Bits of eight signs each, of eight codes.
        even_signs: Whether only seven of the eight are stored: minus signs come in even numbers.
        start: What rows, or else codes, are before: bits that are stored turned.
        powers: int64 [weights]: of codes that are digits in base 3, 3 to the number of the digit.
        cubic: Of levels that are a polynomial of the code, its coefficients.
    """

    fields: tuple[Field, ...]
    codes: tuple[Bits, ...]
    levels: Floats
    weights_per_scale: int
    scales: tuple[Bits, ...] = ()
    factors: Floats = ONE
    selects: tuple[Bits, ...] = ()
    minima: tuple[Bits, ...] | None = None
    min_factors: Floats = ONE
    min_at: int = 0
    d: int = HALF
    d_at: int = 0
    rows: tuple[Bits, ...] = ()
    table: Grid | NDArray[np.uint8] | None = None
    signs: tuple[Bits, ...] = ()
    even_signs: bool = False
    start: int = 0
    powers: Places | None = None
    cubic: tuple[float, ...] = ()


def every(at: int, numbers: int, apart: int, count: int, up: int = 0) -> Bits:
    """Take so many bits of each number, from bit `at` on and so many bits apart."""
    return Bits(at + apart * np.arange(numbers), (1 << count) - 1, up)


def packed(at: int, numbers: int, count: int, up: int = 0) -> Bits:
    return every(8 * at, numbers, count, count, up)


def split(at: int, numbers: int, count: int, up: int = 0) -> Bits:
    k, own = np.arange(numbers), numbers * count // 8
    return Bits(8 * (at + k % own) + k // own * count, (1 << count) - 1, up)


def plane(at: int, count: int, run: int, up: int = 0, weights: int = 256) -> Bits:
    """Take bits of which a byte holds those of codes `run` weights apart, lowest bits first."""
    w, each = np.arange(weights), 8 // count
    places = 8 * (at + w // (run * each) * run + w % run) + w // run % each * count
    return Bits(places, (1 << count) - 1, up)


_Place: TypeAlias = Callable[[Any], Any]


def spread(where: tuple[_Place, _Place], at: int, count: int, weights: int, up: int = 0) -> Bits:
    """Take bits of groups of 32 weights: of weight p byte where[0](p), after where[1](p) bits."""
    w = np.arange(weights)
    place, down = where
    places = 8 * (at + w // 32 * (4 * count) + place(w % 32)) + down(w % 32)
    return Bits(places, (1 << count) - 1, up)


# Where the 32 weights of a group are, in types that store several rows together, and in Q6_0.

_X4: Final = lambda p: 4 * (p // 16 + 2 * (p % 8 // 4)) + p % 4, lambda p: 4 * (p % 16 // 8)
_X2: Final = lambda p: 4 * (p // 16) + p % 4, lambda p: 2 * (p % 16 // 4)
X2_OF_Q6_K: Final = _X2[0], lambda p: 4 * (p % 8 // 4) + 2 * (p % 16 // 8)
OF_IQ4_XS: Final = lambda p: 4 * (p // 8) + p % 4, lambda p: 4 * (p % 8 // 4)
OF_Q6_0: Final = lambda p: p % 8, lambda p: 4 * (p % 16 // 8) + 2 * (p // 16)


def x4(at: int, weights: int = 256) -> Bits:
    return spread(_X4, at, 4, weights)


def x2(at: int, weights: int = 256, up: int = 0) -> Bits:
    return spread(_X2, at, 2, weights, up)


def x1(at: int, up: int, order: Sequence[int], weights: int = 256) -> Bits:
    """`order` says which weight comes first of those in each bit of four bytes."""
    bit_of = np.zeros(32, np.int64)
    for bit, first in enumerate(order):
        bit_of[first : first + 4] = bit
    return spread((lambda p: p % 4, lambda p: bit_of[p]), at, 1, weights, up)


ORDER_A: Final = (0, 8, 16, 24, 4, 12, 20, 28)
ORDER_B: Final = (0, 8, 4, 12, 16, 24, 20, 28)
ORDER_C: Final = (0, 4, 8, 12, 16, 20, 24, 28)
ORDER_D: Final = (0, 16, 4, 20, 8, 24, 12, 28)


def signs_of(at: int, numbers: int, apart: int) -> tuple[Bits, ...]:
    """Take eight signs that are stored as seven bits: each is the difference from the one below."""
    return every(at, numbers, apart, 7), every(at, numbers, apart, 7, 1)


# IQ4_KSS: the lowest bit of each word of 16 is one of a scale's; each other bit of a code is stored
# as its difference from the bit above.

_NIBBLES: Final = plane(4, 4, 16).places
_OF_WORD: Final = (_NIBBLES - 32) % 16 // 4
KSS_CODES: Final = (
    Bits(_NIBBLES, np.where(_OF_WORD == 0, 14, 15)),
    Bits(_NIBBLES + 1, np.where(_OF_WORD == 3, 7, 15)),
)
OF_I2_S: Final = Bits(8 * (32 + np.arange(128) % 32) + 6 - np.arange(128) // 32 * 2, 3)
XXS_SCALES: Final = tuple(every(16 + 8 * k, 8, 32, 1, k) for k in range(4))
KSS_SCALES: Final = tuple(every(32 + 16 * k, 8, 128, 1, k) for k in range(8))

# High bits of where the generator starts, beside the scale of 32 weights.

TOP_OF_IQ1_KT: Final = Bits(32 + np.arange(32) // 4 * 8 + 4 + np.arange(32) % 4, 1, 12)
TOP_OF_IQ4_KT: Final = (
    Bits(32 * (1 + np.arange(64) // 8) + 8 + np.arange(64) % 8 * 3, 7, 12),
    Bits(32 * (1 + np.arange(64) // 8), 1, 15),
)

# IQ3_S_R4: both halves of 32 weights alternate: their rows, and the signs of each fourth weight.

_ROW: Final = np.arange(64)
_HALVES: Final = _ROW // 8 * 8 + _ROW % 4 * 2 + _ROW % 8 // 4
ROWS_OF_IQ3_S: Final = Bits(8 * (2 + _HALVES), 255), packed(66, 64, 1, 8)
_EIGHT: Final = np.arange(32)
SIGNS_OF_IQ3_S: Final = tuple(
    Bits(8 * (74 + _EIGHT // 4 * 4 + k % 4) + _EIGHT % 4 * 2 + k // 4, 1, k) for k in range(8)
)

# IQ1_BN: five digits a byte; of 16 weights the last has one of the 13th byte.

_OF_64: Final = np.arange(64)
_LAST: Final = _OF_64 % 16 == 15
DIGITS: Final = Bits(8 * (2 + np.where(_LAST, 12, _OF_64 // 16 * 3 + _OF_64 % 16 // 5)), 255)
POWERS: Final = 3 ** np.where(_LAST, 4 - _OF_64 // 16, 4 - _OF_64 % 16 % 5)


# Tables of which codes of several weights are rows.


def _mirrored(*sizes: int) -> Floats:
    return np.array([*(-size for size in reversed(sizes)), *sizes], np.float32)


OF_IQ1: Final = np.array([-1.125, -0.875, -0.125, 0.125, 0.875, 1.125], np.float32)
OF_IQ2: Final = _mirrored(8, 25, 43)
OF_IQ3_XXS: Final = _mirrored(4, 12, 20, 28, 36, 44, 52, 62)
OF_IQ3_S: Final = _mirrored(*range(1, 16, 2))


@cache
def grid_codes(grid: Grid) -> NDArray[np.uint8]:
    """Return a grid as codes.

    Of IQ1's grid each row is there twice, less an eighth and then with an eighth more.
    """
    rows = stored_grid(grid)
    if grid is Grid.IQ1S:
        return np.concatenate([2 * (rows + 1), 2 * (rows + 1) + 1]).astype(np.uint8)
    sizes = np.unique(rows)
    return (np.searchsorted(sizes, rows) + len(sizes)).astype(np.uint8)
