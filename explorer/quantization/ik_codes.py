"""How the types of ik_llama.cpp store codes and scales; `ik` says which type does what.

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
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from explorer.quantization import ik_kernels as kernels
from explorer.quantization.iq import KVALUES, Grid, stored_grid
from explorer.quantization.registry import Codes, integers
from explorer.quantization.types import E2M1

Bytes: TypeAlias = NDArray[np.uint8]
Floats: TypeAlias = NDArray[np.float32]
Words: TypeAlias = NDArray[np.uint64]

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
_PAIRS: Final = (
    *((0, 2), (0, 5), (1, 0), (1, 3), (1, 5), (1, 7), (2, 1), (2, 2), (2, 4), (2, 5), (2, 6)),
    *((3, 0), (3, 4), (3, 5), (3, 7), (4, 2), (4, 3), (4, 4), (4, 5), (4, 6), (5, 1), (5, 2)),
    *((5, 3), (5, 4), (5, 5), (6, 0), (6, 2), (6, 4), (6, 6), (6, 7), (7, 2), (7, 5)),
)  # of IQ2_KL: which levels of V3 two weights have


def cubic() -> Floats:
    """Return the levels of IQ6_K, by a polynomial with each step rounded; then each and one."""
    q = np.arange(64, dtype=np.float32)
    a, b, c, d = (np.float32(x) for x in (-127, 6.2568, -0.11218, 0.0011972))
    first = a + q * (b + q * (c + q * d))
    return np.concatenate([first, first + np.float32(1)])


TRELLIS: Final = integers(-126, 126)
E2M1_TWICE: Final = np.where(np.arange(16) == 8, np.float32(0), E2M1 * np.float32(2))


# Numbers of blocks: uint8 [blocks, bytes] in, an array [blocks, numbers] out. `at` is an offset.


def stored(blocks: Bytes, at: int, count: int, dtype: str = "u1") -> NDArray[Any]:
    width = np.dtype(dtype).itemsize
    return np.ascontiguousarray(blocks[:, at : at + count * width]).view(dtype)


def half(blocks: Bytes, at: int = 0) -> Floats:
    return stored(blocks, at, 1, "<f2").astype(np.float32)


def single(blocks: Bytes, at: int = 0) -> Floats:
    return stored(blocks, at, 1, "<f4")


def split(blocks: Bytes, at: int, count: int, bits: int) -> Bytes:
    own, each = stored(blocks, at, count * bits // 8), 8 // bits
    numbers = np.empty((len(blocks), each, own.shape[1]), np.uint8)
    for k in range(each):
        numbers[:, k] = (own >> np.uint8(k * bits)) & np.uint8((1 << bits) - 1)
    return numbers.reshape(len(blocks), count)


def packed(blocks: Bytes, at: int, count: int, bits: int) -> Bytes:
    own, each = stored(blocks, at, count * bits // 8), 8 // bits
    numbers = np.empty((len(blocks), count), np.uint8)
    for k in range(each):
        numbers[:, k::each] = (own >> np.uint8(k * bits)) & np.uint8((1 << bits) - 1)
    return numbers


def power(blocks: Bytes) -> Floats:
    """Return half of an E8M0 scale, 2^(e - 128)."""
    e = stored(blocks, 0, 1).astype(np.uint32)
    return np.where(e < 2, 0x200000 << e, (e - 1) << 23).astype(np.uint32).view(np.float32)


# How codes are made: functions (blocks, codes), of parts that each add some bits to them.

Step: TypeAlias = Callable[[Bytes, Codes], None]


def steps(*steps: Step) -> Step:
    def unpack(blocks: Bytes, codes: Codes) -> None:
        codes[:] = 0
        for step in steps:
            step(blocks, codes)

    return unpack


_Place: TypeAlias = Callable[[Any], Any]


def places(where: tuple[_Place, _Place], at: int, bits: int, weights: int, up: int = 0) -> Step:
    """Take bits from groups of 32 weights: of weight p byte where[0](p), after where[1](p) bits.

    Four weights in a row, the first a multiple of four, must lie in four bytes in a row.
    """
    w = np.arange(0, weights, 4)
    place, down = where
    return quads(bits, up, at + w // 32 * (4 * bits) + place(w % 32), down(w % 32))


def quads(bits: int, up: int, places: NDArray[Any], downs: NDArray[Any]) -> Step:
    at, down = places.astype(np.int64), downs.astype(np.uint32)
    mask = ((1 << bits) - 1) * 0x01010101
    return lambda b, codes: kernels.add_bits(b, at, down, (mask, up), codes.view(np.uint32))


def plane(at: int, bits: int, run: int, up: int = 0, weights: int = 256) -> Step:
    """Take bits of which a byte holds those of codes `run` weights apart, lowest bits first."""
    w, each = np.arange(0, weights, 4), 8 // bits
    return quads(bits, up, at + w // (run * each) * run + w % run, w // run % each * bits)


def select(up: int, of_blocks: Callable[[Bytes], Bytes]) -> Step:
    return lambda blocks, codes: _add_selects(of_blocks(blocks), up, codes)


def _add_selects(bits: Bytes, up: int, codes: Codes) -> None:
    """Add a bit, uint8 [blocks, sub-blocks], to the codes of each sub-block, at bit `up`."""
    words = codes.view(np.uint64).reshape(bits.size, -1)
    kernels.add_selects((bits << np.uint8(up)).reshape(-1), words)


# Where the 32 weights of a group are, in types that store several rows together, and in Q6_0.

_X4: Final = lambda p: 4 * (p // 16 + 2 * (p % 8 // 4)) + p % 4, lambda p: 4 * (p % 16 // 8)
_X2: Final = lambda p: 4 * (p // 16) + p % 4, lambda p: 2 * (p % 16 // 4)
X2_OF_Q6_K: Final = _X2[0], lambda p: 4 * (p % 8 // 4) + 2 * (p % 16 // 8)
OF_IQ4_XS: Final = lambda p: 4 * (p // 8) + p % 4, lambda p: 4 * (p % 8 // 4)
OF_Q6_0: Final = lambda p: p % 8, lambda p: 4 * (p % 16 // 8) + 2 * (p // 16)


def x4(at: int, weights: int) -> Step:
    return places(_X4, at, 4, weights)


def x2(at: int, weights: int, up: int = 0) -> Step:
    return places(_X2, at, 2, weights, up)


def x1(at: int, weights: int, up: int, order: Sequence[int]) -> Step:
    """`order` says which weight comes first of those in each bit of four bytes."""
    bit_of = np.zeros(32, np.int64)
    for bit, first in enumerate(order):
        bit_of[first] = bit
    return places((lambda p: p % 4, lambda p: bit_of[p]), at, 1, weights, up)


ORDER_A: Final = (0, 8, 16, 24, 4, 12, 20, 28)
ORDER_B: Final = (0, 8, 4, 12, 16, 24, 20, 28)
ORDER_C: Final = (0, 4, 8, 12, 16, 20, 24, 28)
ORDER_D: Final = (0, 16, 4, 20, 8, 24, 12, 28)


def copy(at: int, mirror: int = 0) -> Step:
    """Codes are bytes; `mirror` is 128 where they are stored as signed numbers."""

    def unpack(blocks: Bytes, codes: Codes) -> None:
        np.bitwise_xor(blocks[:, at : at + codes.shape[1]], np.uint8(mirror), out=codes)

    return unpack


# Codes that groups of weights have together: rows of a grid, pairs, a generator, digits.


def _mirrored(*sizes: int) -> Floats:
    return np.array([*(-size for size in reversed(sizes)), *sizes], np.float32)


OF_IQ1: Final = np.array([-1.125, -0.875, -0.125, 0.125, 0.875, 1.125], np.float32)
OF_IQ2: Final = _mirrored(8, 25, 43)
OF_IQ3_XXS: Final = _mirrored(4, 12, 20, 28, 36, 44, 52, 62)
OF_IQ3_S: Final = _mirrored(*range(1, 16, 2))


def _words_of(codes: Bytes) -> Words:
    """Return rows of 8 codes or fewer as the bytes of one number each, uint64 [rows]."""
    padded = np.zeros((len(codes), 8), np.uint8)
    padded[:, : codes.shape[1]] = codes
    return padded.view("<u8")[:, 0]


_MASKS: Final = _words_of(
    np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
    * np.uint8(255)
)


def _put_rows(rows: NDArray[Any], table: Words, signs: Bytes | None, codes: Codes) -> None:
    """See `ik_kernels.put_rows`."""
    mirror = np.append(_MASKS, np.uint64(int(table.view(np.uint8).max()) * 0x0101010101010101))
    own = None if signs is None else np.ascontiguousarray(signs)
    kernels.put_rows(rows, table, own, mirror, codes.view(np.uint64))


@cache
def _grid_codes(grid: Grid) -> Words:
    """Return a grid as codes.

    Of IQ1's grid each row is there twice, less an eighth and then with an eighth more.
    """
    rows = stored_grid(grid)
    if grid is Grid.IQ1S:
        return _words_of(np.concatenate([2 * (rows + 1), 2 * (rows + 1) + 1]).astype(np.uint8))
    sizes = np.unique(rows)
    return _words_of((np.searchsorted(sizes, rows) + len(sizes)).astype(np.uint8))


def rows(grid: Grid, of_blocks: Callable[[Bytes], tuple[NDArray[Any], Bytes | None]]) -> Step:
    """Take codes from a grid; the function returns rows, [blocks, groups], and signs or None."""

    def unpack(blocks: Bytes, codes: Codes) -> None:
        rows, signs = of_blocks(blocks)
        _put_rows(rows.astype(np.uint16), _grid_codes(grid), signs, codes)

    return unpack


_PAIR_TABLE: Final = _words_of(np.array(_PAIRS, np.uint8))
_PAIR_NUMBERS: Final = steps(plane(8, 4, 16, 0, 128), plane(72, 1, 16, 4, 128))


def pairs(blocks: Bytes, codes: Codes) -> None:
    """IQ2_KL: a 5-bit number for two weights."""
    numbers = np.zeros((len(blocks), 128), np.uint8)
    _PAIR_NUMBERS(blocks, numbers)
    _put_rows(numbers.astype(np.uint16), _PAIR_TABLE, None, codes)


def trellis(seeds: Callable[[Bytes], NDArray[Any]], signs: Step | None = None) -> Step:
    """Take codes from the generator; `signs` unpacks the sign of each weight."""

    def unpack(blocks: Bytes, codes: Codes) -> None:
        starts = seeds(blocks).astype(np.uint32).reshape(-1)
        bits = None
        if signs is not None:
            bits = np.zeros_like(codes)
            signs(blocks, bits)
            bits = bits.reshape(len(starts), -1)
        kernels.put_trellis(starts, bits, codes.reshape(len(starts), -1))

    return unpack


_DIGITS: Final = np.array(
    [[(t + (t >> 1)) >> 7 for t in (b * k % 256 for k in (81, 27, 9, 3, 1))] for b in range(256)],
    np.uint8,
)


def ternary(blocks: Bytes, codes: Codes) -> None:
    """IQ1_BN: five digits a byte; of 16 weights the last has one of the 13th byte."""
    digits = _DIGITS[blocks[:, 2:15]]
    of_16 = codes.reshape(-1, 4, 16)
    of_16[:, :, :15] = digits[:, :12].reshape(-1, 4, 15)
    of_16[:, :, 15] = digits[:, 12, :4]


def kss_words(blocks: Bytes) -> tuple[Bytes, Bytes]:
    """IQ4_KSS: the lowest bit of each word is one of a scale's; each other bit is stored as its
    difference from the one above. Return codes as they lie in a plane, and 8 scales.
    """
    words = stored(blocks, 4, 64, "<u2")
    scales = np.packbits((words & 1).astype(np.uint8), axis=1, bitorder="little")
    rest = words & np.uint16(0xFFFE)
    return (rest ^ (rest >> 1)).astype("<u2").view(np.uint8), scales


_PLANE_OF_KSS: Final = plane(0, 4, 16)


def kss_codes(blocks: Bytes, codes: Codes) -> None:
    plane, scales = kss_words(blocks)
    codes[:] = 0
    _PLANE_OF_KSS(plane, codes)
    _add_selects(scales & np.uint8(1), 4, codes)


# The types that store four rows together and have grids: rows of the grid, and signs.


def of_xxs(blocks: Bytes, groups: int) -> tuple[NDArray[Any], Bytes]:
    """Four bits of a scale are the lowest of four bytes; the others are signs, as in IQ4_KSS."""
    rest = stored(blocks, 2, 8, "<u4") & np.uint32(0xFEFEFEFE)
    signs = (rest ^ (rest >> np.uint32(1))).astype("<u4").view(np.uint8)
    return stored(blocks, 34, groups), signs


def scale_of_xxs(blocks: Bytes, factor: float) -> Floats:
    low = stored(blocks, 2, 32).reshape(-1, 8, 4) & 1
    four = (low << np.arange(4, dtype=np.uint8)).sum(axis=2, dtype=np.uint8)
    return odd(half(blocks) * np.float32(factor), four)


def of_xs(blocks: Bytes) -> tuple[NDArray[Any], Bytes]:
    words = stored(blocks, 2, 32, "<u2")
    signs = words >> 9
    return words & 511, (signs ^ signs << 1).astype(np.uint8)


def of_iq2_s(blocks: Bytes) -> tuple[NDArray[Any], Bytes]:
    high = packed(blocks, 34, 32, 2).astype(np.uint16)
    return stored(blocks, 2, 32) | high << 8, blocks[:, 42:74]


def of_iq3_s(blocks: Bytes) -> tuple[NDArray[Any], Bytes]:
    """Both halves of 32 weights alternate: their rows, and the signs of each fourth weight."""
    low = stored(blocks, 2, 64).reshape(-1, 8, 4, 2).transpose(0, 1, 3, 2).reshape(-1, 64)
    high = packed(blocks, 66, 64, 1).astype(np.uint16)
    bits = np.unpackbits(stored(blocks, 74, 32), axis=1, bitorder="little")
    bits = bits.reshape(-1, 8, 4, 8).transpose(0, 1, 3, 2).reshape(-1, 256)
    return low | high << 8, np.packbits(bits, axis=1, bitorder="little")


def of_iq1_s(blocks: Bytes) -> tuple[NDArray[Any], None]:
    word = stored(blocks, 6, 1, "<u2")
    high = word >> np.arange(0, 12, 3, dtype=np.uint16) & 7
    plus = 1 - (word >> 15)
    return stored(blocks, 2, 4) | high << 8 | plus << 11, None


def of_iq1_m(blocks: Bytes) -> tuple[NDArray[Any], None]:
    four = packed(blocks, 6, 4, 4).astype(np.uint16)
    return stored(blocks, 2, 4) | (four & 7) << 8 | (1 - (four >> 3)) << 11, None


# Scales: functions of blocks that return scales, or scales and minima; float32 [blocks, scales].

Made: TypeAlias = Floats | tuple[Floats, Floats]


def times(d: Floats, factors: NDArray[Any], less: int = 0) -> Floats:
    made: Floats = d * (factors.astype(np.float32) - np.float32(less))
    return made


def odd(d: Floats, factors: NDArray[Any]) -> Floats:
    return d * (factors.astype(np.float32) * np.float32(2) + np.float32(1))


def shifted(d: Floats, factor: int) -> Made:
    return d, d * np.float32(factor)


def signed_odd(d: Floats, factors: Bytes, minus: Bytes) -> Floats:
    odd = factors.astype(np.float32) * np.float32(2) + np.float32(1)
    return d * np.where(minus == 1, -odd, odd)


def joined(low: NDArray[Any], high: NDArray[Any]) -> NDArray[Any]:
    joined: NDArray[Any] = low | high << np.uint8(4)
    return joined


def of_ks(blocks: Bytes) -> Floats:
    return times(single(blocks), stored(blocks, 4, 8) & np.uint8(254), 127)


def of_two(blocks: Bytes, minima: NDArray[Any], scales: NDArray[Any]) -> Made:
    return times(half(blocks), scales), times(half(blocks, 2), minima)


def of_q4_k(blocks: Bytes) -> Made:
    low, high = stored(blocks, 8, 8), split(blocks, 4, 8, 4)
    return of_two(blocks, joined(low >> 4, high >> 2), joined(low & 15, high & 3))


def of_levels(d: Floats, numbers: NDArray[Any]) -> Floats:
    made: Floats = d * V4[numbers]
    return made


def kt_words(blocks: Bytes) -> NDArray[Any]:
    return stored(blocks, 4, 8, "<u4")


def seeds_of_iq1(blocks: Bytes) -> NDArray[Any]:
    low, high = stored(blocks, 12, 32).astype(np.uint32), split(blocks, 44, 32, 4)
    top = stored(blocks, 4, 8)[:, :, None] >> np.arange(4, 8, dtype=np.uint8) & 1
    top = top.reshape(len(blocks), 32).astype(np.uint32)
    starts: NDArray[Any] = low + (high.astype(np.uint32) << 8) + (top << 12) + 4096
    return starts


def seeds_of_iq4(blocks: Bytes) -> NDArray[Any]:
    words = kt_words(blocks)
    low, high = stored(blocks, 36, 64).astype(np.uint32), split(blocks, 100, 64, 4)
    top = words[:, :, None] >> np.arange(8, 32, 3, dtype=np.uint32) & 7
    first = np.where(words & 1 == 1, 36864, 4096).repeat(8, axis=1)
    top = top.reshape(len(blocks), 64) << 12
    starts: NDArray[Any] = low + (high.astype(np.uint32) << 8) + top + first
    return starts
