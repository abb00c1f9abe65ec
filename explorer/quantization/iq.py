"""IQ1, IQ2 and IQ3: groups of weights are rows of a grid. IQ4 has none (`iq4`).

IQ2 and IQ3 are drawn at their kernels. IQ1_S and IQ1_M are groups of 8 weights from a grid of 2,048
with -1, 0, 1, shifted by an eighth.

::

    IQ1_S, 50 bytes             IQ1_M, 56 bytes
    0   d    f16                0   qs     u8 x 32
    2   qs   u8 x 32            32  qh     4 bits x 32
    34  qh   u16 x 8            48  scales u16 x 4

    qh of IQ1_S, for sub-block B      | minus | scale | high of group 3 | 2 | 1 | 0 |
                                        bit 15  3 bits  3 bits each
    qh of IQ1_M, for group l          | minus | high |
                                        bit 3   3 bits
    scales of IQ1_M, for two B's      | part of d | scale of 16 weights | x 4
                                        4 bits      3 bits each

    index = qs | high << 8     shift = minus ? -1/8 : +1/8
    value = (d * (2 * scale + 1)) * (grid[index] + shift)

IQ1_M has no field d: its half float is made of the four top parts, the lowest first.

Source: `docs/gguf.md`, section 8; ggml/src/ggml-quants.c, `dequantize_row_iq1_s` and
`dequantize_row_iq1_m`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from explorer.quantization.bit_kernels import QUARTERS
from explorer.quantization.bits import (
    ODD,
    OF_IQ1,
    OF_IQ2,
    OF_IQ3_S,
    OF_IQ3_XXS,
    Bits,
    BitType,
    Field,
    every,
    layout_of,
    packed,
    with_parity,
)
from explorer.quantization.grids import Grid, kernel_grid, stored_grid
from explorer.quantization.jit import (
    f32,
    float32_of_half,
    half_at,
    i32,
    inlined,
    kernel,
    u16,
    u16_at,
    u32,
    u32_at,
    u64,
)
from explorer.quantization.registry import Decoder, block_layout
from explorer.quantization.types import TENSOR_TYPES

_SIGN_CODES: Final = np.arange(128, dtype=np.uint8)

SIGNS_OF_CODE: Final = _SIGN_CODES | (np.bitwise_count(_SIGN_CODES) & np.uint8(1)) << np.uint8(7)
"""The 8 signs of a 7-bit sign code, one a bit: minus signs come in even numbers (`ksigns_iq2xs`).

uint8 [128], small enough for kernels to have it as a global.
"""


# Decoders: decode(blocks, out, grid), where `grid` is what `kernel_grid` returns.


@inlined
def nibble_at(blocks: Any, b: Any, offset: Any, k: Any) -> Any:
    """Return half-byte k, low halves first, of the bytes of block `b` from an offset on."""
    return (u32(blocks[b, offset + (k >> 1)]) >> u32(4 * (k & 1))) & u32(15)


@inlined
def signed(level: Any, signs: Any, i: Any) -> Any:
    """Return a level as float32, with a minus if bit i of `signs` is set."""
    value = f32(i32(level))
    if u32(signs) & u32(u32(1) << u32(i)):
        value = -value
    return value


@inlined
def _iq1_scale(d: Any, three_bits: Any) -> Any:
    return d * f32(u32(2) * (three_bits & u32(7)) + u32(1))


@inlined
def _shift(minus: Any) -> Any:
    return i32(-1) if minus else i32(1)


@kernel
def _decode_iq1_s(blocks: Any, out: Any, grid: Any) -> None:
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 0)
        for sub in range(8):
            high = u16_at(blocks, b, 34 + 2 * sub)
            scale = _iq1_scale(d, high >> u32(12))
            of_eighths = scale * f32(0.125)  # exact: a power of two, and d is a half float
            for part in range(4):
                group = 4 * sub + part
                index = u32(blocks[b, 2 + group]) | (((high >> u32(3 * part)) & u32(7)) << u32(8))
                shift = _shift(high & u32(0x8000))
                for i in range(8):
                    out[b, 8 * group + i] = of_eighths * f32(i32(i32(grid[index, i]) + shift))


@kernel
def _decode_iq1_m(blocks: Any, out: Any, grid: Any) -> None:
    for b in range(blocks.shape[0]):
        bits = u32(0)
        for part in range(4):
            bits |= (u16_at(blocks, b, 48 + 2 * part) >> u32(12)) << u32(4 * part)
        d = float32_of_half(u16(bits))
        for sub in range(16):
            scale = _iq1_scale(d, u16_at(blocks, b, 48 + 2 * (sub >> 2)) >> u32(3 * (sub & 3)))
            of_eighths = scale * f32(0.125)
            for group in range(2 * sub, 2 * sub + 2):
                high = nibble_at(blocks, b, 32, group)
                index = u32(blocks[b, group]) | ((high & u32(7)) << u32(8))
                shift = _shift(high & u32(8))
                for i in range(8):
                    out[b, 8 * group + i] = of_eighths * f32(i32(i32(grid[index, i]) + shift))


# IQ2_XXS, IQ2_XS and IQ2_S: 8 weights are a row of a grid with 8, 25, 43, and a sign each.
#
# ::
#
#     IQ2_XXS, 66 bytes           IQ2_XS, 74 bytes            IQ2_S, 82 bytes
#     0   d    f16                0   d      f16              0   d      f16
#     2   8 x  u8 x 4, u32        2   qs     u16 x 32         2   qs     u8 x 32
#                                 66  scales 4 bits x 16      34  signs  u8 x 32
#                                                             66  qh     2 bits x 32
#                                                             74  scales 4 bits x 16
#
#     IQ2_XXS, for sub-block B    | index, 8 bits x 4 |
#                                 | scale, 4 bits | sign code of group 3, 7 bits | 2 | 1 | 0 |
#     IQ2_XS, for a group         | sign code, 7 bits | index, 9 bits |
#     IQ2_S, for a group          index = qs | qh << 8
#
#     value = (((d * (0.5 + scale)) * 0.25) * grid[index]) * sign
#
# A scale is for 32 weights in IQ2_XXS and for 16 in the others. A sign code is 7 signs; the
# eighth makes the minus signs even.
#
# Source: `docs/gguf.md`, section 8; ggml/src/ggml-quants.c, `dequantize_row_iq2_xxs`, `_iq2_xs`,
# `_iq2_s`.


@inlined
def _iq2_scale(d: Any, four_bits: Any) -> Any:
    return (d * (f32(0.5) + f32(four_bits))) * f32(0.25)


@kernel
def _decode_iq2_xxs(blocks: Any, out: Any, grid: Any) -> None:
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 0)
        for sub in range(8):
            packed = u32_at(blocks, b, 6 + 8 * sub)
            scale = _iq2_scale(d, packed >> u32(28))
            for part in range(4):
                group = 4 * sub + part
                index = blocks[b, 2 + 8 * sub + part]
                signs = SIGNS_OF_CODE[(packed >> u32(7 * part)) & u32(127)]
                for i in range(8):
                    out[b, 8 * group + i] = scale * signed(grid[index, i], signs, i)


@kernel
def _decode_iq2_xs(blocks: Any, out: Any, grid: Any) -> None:
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 0)
        for sub in range(16):
            scale = _iq2_scale(d, nibble_at(blocks, b, 66, sub))
            for group in range(2 * sub, 2 * sub + 2):
                packed = u16_at(blocks, b, 2 + 2 * group)
                index = packed & u32(511)
                signs = SIGNS_OF_CODE[packed >> u32(9)]
                for i in range(8):
                    out[b, 8 * group + i] = scale * signed(grid[index, i], signs, i)


@kernel
def _decode_iq2_s(blocks: Any, out: Any, grid: Any) -> None:
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 0)
        for sub in range(16):
            scale = _iq2_scale(d, nibble_at(blocks, b, 74, sub))
            for group in range(2 * sub, 2 * sub + 2):
                high = u32(blocks[b, 66 + (group >> 2)]) >> u32(2 * (group & 3))
                index = u32(blocks[b, 2 + group]) | ((high & u32(3)) << u32(8))
                signs = blocks[b, 34 + group]
                for i in range(8):
                    out[b, 8 * group + i] = scale * signed(grid[index, i], signs, i)


# IQ3_XXS and IQ3_S: 8 weights are two rows of a grid with four sizes each, and a sign each.
#
# ::
#
#     IQ3_XXS, 98 bytes           IQ3_S, 110 bytes
#     0   d    f16                0    d      f16
#     2   qs   u8 x 64            2    qs     u8 x 64
#     66  a    u32 x 8            66   qh     1 bit x 64
#                                 74   signs  u8 x 32
#                                 106  scales 4 bits x 8
#
#     a, for sub-block B          | scale | sign code of group 3 | 2 | 1 | 0 |
#                                   4 bits  7 bits each
#     IQ3_S, for half a group     index = qs | qh << 8
#
#     IQ3_XXS value = (((d * (0.5 + scale)) * 0.5) * grid[index]) * sign
#     IQ3_S   value = ((d * (1 + 2 * scale)) * grid[index]) * sign
#
# Sizes are 4, 12, 20, 28, 36, 44, 52, 62 in IQ3_XXS, and 1, 3, .. 15 in IQ3_S. A scale is for 32
# weights. A sign code is 7 signs; the eighth makes the minus signs even.
#
# Source: `docs/gguf.md`, section 8; ggml/src/ggml-quants.c, `dequantize_row_iq3_xxs`, `_iq3_s`.


# Two rows in one word, because two loops of four would not become vector instructions.
@inlined
def _joined(first: Any, second: Any) -> Any:
    return u64(first) | (u64(second) << u64(32))


@inlined
def _byte(word: Any, i: Any) -> Any:
    return u32(word >> u64(8 * i)) & u32(255)


@kernel
def _decode_iq3_xxs(blocks: Any, out: Any, grid: Any) -> None:
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 0)
        for sub in range(8):
            packed = u32_at(blocks, b, 66 + 4 * sub)
            scale = (d * (f32(0.5) + f32(packed >> u32(28)))) * f32(0.5)
            for part in range(4):
                group = 4 * sub + part
                rows = _joined(grid[blocks[b, 2 + 2 * group]], grid[blocks[b, 3 + 2 * group]])
                signs = SIGNS_OF_CODE[(packed >> u32(7 * part)) & u32(127)]
                for i in range(8):
                    out[b, 8 * group + i] = scale * signed(_byte(rows, i), signs, i)


@kernel
def _decode_iq3_s(blocks: Any, out: Any, grid: Any) -> None:
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 0)
        for sub in range(8):
            scale = d * f32(u32(1) + u32(2) * nibble_at(blocks, b, 106, sub))
            high = u32(blocks[b, 66 + sub]) << u32(8)
            for part in range(4):
                group = 4 * sub + part
                first = u32(blocks[b, 2 + 2 * group]) | ((high >> u32(2 * part)) & u32(256))
                second = u32(blocks[b, 3 + 2 * group]) | ((high >> u32(2 * part + 1)) & u32(256))
                rows = _joined(grid[first], grid[second])
                signs = blocks[b, 74 + group]
                for i in range(8):
                    out[b, 8 * group + i] = scale * signed(_byte(rows, i), signs, i)


def _with_grid(decode: Any, grid: Grid) -> Decoder:
    # The grid is an argument: as a global it would be compiled into the machine code.
    return lambda blocks, out: decode(blocks, out, kernel_grid(grid))


DECODERS: Final = {
    "IQ1_S": _with_grid(_decode_iq1_s, Grid.IQ1S),
    "IQ1_M": _with_grid(_decode_iq1_m, Grid.IQ1S),
    "IQ2_XXS": _with_grid(_decode_iq2_xxs, Grid.IQ2XXS),
    "IQ2_XS": _with_grid(_decode_iq2_xs, Grid.IQ2XS),
    "IQ2_S": _with_grid(_decode_iq2_s, Grid.IQ2S),
    "IQ3_XXS": _with_grid(_decode_iq3_xxs, Grid.IQ3XXS),
    "IQ3_S": _with_grid(_decode_iq3_s, Grid.IQ3S),
}


# Codes and scales. The code of a weight is the number of its signed level. A block stores a row of
# a grid for a whole group, so a weight has no bits of its own; its signed level, which the row and
# its sign (in IQ1 its shift) make, stands for a code.

_D: Final = Field("d", 2, "f16", "scale of the block")
_INDEX: Final = Field("qs", 32, "u8", "low 8 bits of the grid's row, for each 8 weights")
_SIGNS: Final = Field("signs", 32, "1-bit signs", "set where a weight is negative")
_SCALES_OF_16: Final = Field(
    "scales", 8, "4-bit scales", "scale of each 16 weights, above one half"
)
_HIGH_AND_SCALES: Final = "for each 32 weights: 4 x 3 high bits of the rows, scale, shift"
_SCALES_AND_D: Final = "for each 64 weights: 4 x 3-bit scale, 4 bits of the block's"
_ROWS_AND_SIGNS: Final = "for each 32 weights: 4 x 8-bit row, then 4 x 7-bit signs, scale"
_EIGHTH: Final = ODD * np.float32(0.125)
_GROUPS: Final = np.arange(32)  # of 8 weights
_SUB, _PART = _GROUPS // 4, _GROUPS % 4
_MINUS: Final = 1 << 11  # rows of IQ1's grid are there twice, less an eighth at first
_TWO: Final = np.arange(16)

TYPES: Final = {
    "IQ1_S": BitType(
        (_D, _INDEX, Field("qh", 16, "u16", _HIGH_AND_SCALES)),
        *((), OF_IQ1, 32, (every(8 * 34 + 12, 8, 16, 3),), ODD),
        rows=(
            packed(2, 32, 8),
            Bits(8 * 34 + 16 * _SUB + 3 * _PART, 7, 8),
            Bits(8 * 34 + 16 * _SUB + 15, 1, 11),
        ),
        table=Grid.IQ1S,
        start=_MINUS,
    ),
    "IQ1_M": BitType(
        (
            _INDEX,
            Field("qh", 16, "4 bits", "for each 8 weights: 3 high bits of the row, shift"),
            Field("scales", 8, "u16", _SCALES_AND_D),
        ),
        *((), OF_IQ1, 16, (Bits(8 * 48 + 16 * (_TWO // 4) + 3 * (_TWO % 4), 7),), ODD),
        rows=(packed(0, 32, 8), every(8 * 32, 32, 4, 3, 8), every(8 * 32 + 3, 32, 4, 1, 11)),
        table=Grid.IQ1S,
        start=_MINUS,
        d=QUARTERS,
        d_at=48,
    ),
    "IQ2_XXS": BitType(
        (_D, Field("qs", 64, "u32", _ROWS_AND_SIGNS)),
        *((), OF_IQ2, 32, (every(8 * 6 + 28, 8, 64, 4),), _EIGHTH),
        rows=(Bits(8 * (2 + 8 * _SUB + _PART), 255),),
        table=Grid.IQ2XXS,
        signs=with_parity(8 * 6 + 64 * _SUB + 7 * _PART),
    ),
    "IQ2_XS": BitType(
        (_D, Field("qs", 64, "u16", "for each 8 weights: 9-bit row, 7-bit signs"), _SCALES_OF_16),
        *((), OF_IQ2, 16, (packed(66, 16, 4),), _EIGHTH),
        rows=(every(16, 32, 16, 9),),
        table=Grid.IQ2XS,
        signs=with_parity(16 + 9 + 16 * _GROUPS),
    ),
    "IQ2_S": BitType(
        (
            *(_D, _INDEX, _SIGNS),
            Field("qh", 8, "2 bits", "high bits of the row, for each 8 weights"),
            _SCALES_OF_16,
        ),
        *((), OF_IQ2, 16, (packed(74, 16, 4),), _EIGHTH),
        rows=(packed(2, 32, 8), packed(66, 32, 2, 8)),
        table=Grid.IQ2S,
        signs=(packed(34, 32, 8),),
    ),
    "IQ3_XXS": BitType(
        (
            *(_D, Field("qs", 64, "u8", "the grid's row, for each 4 weights")),
            Field("scales_and_signs", 32, "u32", "for each 32 weights: 4 x 7-bit signs, scale"),
        ),
        *((), OF_IQ3_XXS, 32, (every(8 * 66 + 28, 8, 32, 4),), 2 * _EIGHTH),
        rows=(packed(2, 64, 8),),
        table=Grid.IQ3XXS,
        signs=with_parity(8 * 66 + 32 * _SUB + 7 * _PART),
    ),
    "IQ3_S": BitType(
        (
            *(_D, Field("qs", 64, "u8", "low 8 bits of the grid's row, for each 4 weights")),
            Field("qh", 8, "1 bit", "high bit of the row, for each 4 weights"),
            *(_SIGNS, Field("scales", 4, "4-bit scales", "scale of each 32 weights, odd numbers")),
        ),
        *((), OF_IQ3_S, 32, (packed(106, 8, 4),), ODD),
        rows=(packed(2, 64, 8), packed(66, 64, 1, 8)),
        table=Grid.IQ3S,
        signs=(packed(74, 32, 8),),
    ),
}
LAYOUTS: Final = {
    name: layout_of(kind, TENSOR_TYPES[name].block_weights) for name, kind in TYPES.items()
}


# Which rows of a grid the groups of a block hold, for types that have grids.
#
# A row is found again by its levels: no two rows of a grid are equal. So the layouts of indices
# and signs, which the decoders know, are not written down again.


@dataclass(frozen=True, slots=True)
class GridRows:
    """The rows of a block's groups.

    Attributes:
        rows_in_grid: How many rows the grid has.
        group_weights: Consecutive weights that a row is for.
        indices: int64 [groups]: the row of each group.
        signs: uint8 [groups]: bit i is set where weight i of the group is negative; in IQ1, whose
            rows are signed, 0.
        shifts: float32 [groups]: what is added to all levels of the group; 0 except in IQ1.
    """

    rows_in_grid: int
    group_weights: int
    indices: NDArray[np.int64]
    signs: NDArray[np.uint8]
    shifts: NDArray[np.float32]


def group_weights(type_name: str) -> int:
    """Return how many weights a row of the type's grid is for; 1 for a type without a grid."""
    grid = _grid(type_name)
    return 1 if grid is None else grid.shape[1]


def grid_rows(type_name: str, codes: NDArray[np.uint8]) -> GridRows | None:
    """Return the rows that codes come from; None for a type without a grid of rows.

    Args:
        type_name: A quantized tensor type.
        codes: uint8 [weights of a block], as its block layout gives them.
    """
    grid = _grid(type_name)
    if grid is None:
        return None
    size = grid.shape[1]
    levels = block_layout(type_name).levels[codes].reshape(-1, size)
    signed = bool((grid < 0).any())
    if signed:
        shifts = (levels - np.rint(levels))[:, 0]
        rows, signs = np.rint(levels), np.zeros(len(levels), np.uint8)
    else:
        shifts = np.zeros(len(levels), np.float32)
        rows = np.abs(levels)
        signs = np.packbits(levels < 0, axis=1, bitorder="little")[:, 0]
    numbers = _numbers(type_name)
    indices = [numbers[row.tobytes()] for row in rows.astype(np.int8)]
    return GridRows(len(grid), size, np.array(indices, np.int64), signs, shifts)


@cache
def _numbers(type_name: str) -> dict[bytes, int]:
    grid = _grid(type_name)
    assert grid is not None
    return {row.tobytes(): number for number, row in enumerate(grid)}


@cache
def _grid(type_name: str) -> NDArray[np.int8] | None:
    """Return the grid as it is shipped: int8 [rows, weights]; None if there is none."""
    grid = TYPES[type_name].table if type_name in TYPES else None
    return stored_grid(grid) if isinstance(grid, Grid) else None
