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
from typing import Final

import numpy as np
from numpy.typing import NDArray

from explorer.quantization.bits import (
    ODD,
    OF_IQ1,
    OF_IQ2,
    OF_IQ3_S,
    OF_IQ3_XXS,
    QUARTERS,
    Bits,
    BitType,
    Field,
    every,
    packed,
)
from explorer.quantization.grids import Grid, stored_grid
from explorer.quantization.registry import block_layout

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
        signs=(Bits(8 * 6 + 64 * _SUB + 7 * _PART, 127),),
        even_signs=True,
    ),
    "IQ2_XS": BitType(
        (_D, Field("qs", 64, "u16", "for each 8 weights: 9-bit row, 7-bit signs"), _SCALES_OF_16),
        *((), OF_IQ2, 16, (packed(66, 16, 4),), _EIGHTH),
        rows=(every(16, 32, 16, 9),),
        table=Grid.IQ2XS,
        signs=(Bits(16 + 9 + 16 * _GROUPS, 127),),
        even_signs=True,
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
        signs=(Bits(8 * 66 + 32 * _SUB + 7 * _PART, 127),),
        even_signs=True,
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
