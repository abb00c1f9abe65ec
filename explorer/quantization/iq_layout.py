"""The block layout of IQ types: the code of a weight is the number of its signed level.

A block stores a row of a grid for a whole group, so a weight has no bits of its own but in
IQ4. Its signed level, which the row and its sign (in IQ1 its shift) make, is what stands for a
code here. No type is called uniform, IQ3_S neither, though its levels rise in equal steps: a grid
has few of the possible rows, so a weight is not rounded to its own nearest level.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from explorer.quantization import iq, iq4
from explorer.quantization.iq import KVALUES, Grid, kernel_grid, stored_grid
from explorer.quantization.jit import i32, kernel
from explorer.quantization.registry import (
    BlockField,
    BlockLayout,
    Blocks,
    Codes,
    Scales,
    UnpackCodes,
    UnpackScales,
    block_layout,
)

_WALKS: Final = {**iq.WALKS, **iq4.WALKS}


@kernel
def _number(levels: Any, parts: Any, numbers: Any, codes: Any) -> None:
    """Look up the number of each level: that in `numbers` for `parts` times the level, a byte."""
    for b in range(len(levels)):
        for i in range(levels.shape[1]):
            codes[b, i] = numbers[i32(levels[b, i] * parts) & 255]


def _taking_apart(
    type_name: str, levels: NDArray[np.float32], weights_per_scale: int
) -> tuple[UnpackCodes, UnpackScales]:
    """Return what tells codes and scales: of these types one kernel walks over both."""
    walk, grid = _WALKS[type_name]
    parts = np.float32(8 if grid is Grid.IQ1S else 1)  # what makes each level a whole number
    numbers = np.zeros(256, np.uint8)
    numbers[(levels * parts).astype(np.int8).view(np.uint8)] = np.arange(len(levels))

    def unpack_codes(blocks: Blocks, codes: Codes) -> None:
        found = np.empty(codes.shape, np.float32)
        scales = np.empty((len(codes), codes.shape[1] // weights_per_scale), np.float32)
        walk(blocks, found, scales, kernel_grid(grid))
        _number(found, parts, numbers, codes)

    def unpack_scales(blocks: Blocks, scales: Scales, _minima: Scales) -> None:
        found = np.empty((len(scales), scales.shape[1] * weights_per_scale), np.float32)
        walk(blocks, found, scales, kernel_grid(grid))

    return unpack_codes, unpack_scales


def _layout(
    type_name: str, levels: Iterable[float], weights_per_scale: int, *fields: BlockField
) -> BlockLayout:
    level_of_code = np.array(sorted(levels), np.float32)
    unpack_codes, unpack_scales = _taking_apart(type_name, level_of_code, weights_per_scale)
    return BlockLayout(
        levels=level_of_code,
        weights_per_scale=weights_per_scale,
        has_minimum=False,
        uniform=False,
        fields=fields,
        unpack_codes=unpack_codes,
        unpack_scales=unpack_scales,
    )


def _signed(*sizes: int) -> list[int]:
    return [sign * size for size in sizes for sign in (-1, 1)]


_D = BlockField("d", 0, 2, "f16", "scale of the block")
_LOW_INDEX = "low 8 bits of the grid's row, for each 8 weights"
_SCALES_OF_16 = "scale of each 16 weights, above one half"
_IQ1_LEVELS = [grid + shift for grid in (-1, 0, 1) for shift in (-0.125, 0.125)]
_IQ2_LEVELS = _signed(8, 25, 43)

LAYOUTS: Final = {
    "IQ1_S": _layout(
        "IQ1_S",
        _IQ1_LEVELS,
        32,
        _D,
        BlockField("qs", 2, 32, "u8", _LOW_INDEX),
        BlockField(
            "qh", 34, 16, "u16", "for each 32 weights: 4 x 3 high bits of the rows, scale, shift"
        ),
    ),
    "IQ1_M": _layout(
        "IQ1_M",
        _IQ1_LEVELS,
        16,
        BlockField("qs", 0, 32, "u8", _LOW_INDEX),
        BlockField("qh", 32, 16, "4 bits", "for each 8 weights: 3 high bits of the row, shift"),
        BlockField(
            "scales", 48, 8, "u16", "for each 64 weights: 4 x 3-bit scale, 4 bits of the block's"
        ),
    ),
    "IQ2_XXS": _layout(
        "IQ2_XXS",
        _IQ2_LEVELS,
        32,
        _D,
        BlockField(
            "qs", 2, 64, "u32", "for each 32 weights: 4 x 8-bit row, then 4 x 7-bit signs, scale"
        ),
    ),
    "IQ2_XS": _layout(
        "IQ2_XS",
        _IQ2_LEVELS,
        16,
        _D,
        BlockField("qs", 2, 64, "u16", "for each 8 weights: 9-bit row, 7-bit signs"),
        BlockField("scales", 66, 8, "4-bit scales", _SCALES_OF_16),
    ),
    "IQ2_S": _layout(
        "IQ2_S",
        _IQ2_LEVELS,
        16,
        _D,
        BlockField("qs", 2, 32, "u8", _LOW_INDEX),
        BlockField("signs", 34, 32, "1-bit signs", "set where a weight is negative"),
        BlockField("qh", 66, 8, "2 bits", "high bits of the row, for each 8 weights"),
        BlockField("scales", 74, 8, "4-bit scales", _SCALES_OF_16),
    ),
    "IQ3_XXS": _layout(
        "IQ3_XXS",
        _signed(4, 12, 20, 28, 36, 44, 52, 62),
        32,
        _D,
        BlockField("qs", 2, 64, "u8", "the grid's row, for each 4 weights"),
        BlockField(
            "scales_and_signs", 66, 32, "u32", "for each 32 weights: 4 x 7-bit signs, scale"
        ),
    ),
    "IQ3_S": _layout(
        "IQ3_S",
        _signed(*range(1, 16, 2)),
        32,
        _D,
        BlockField("qs", 2, 64, "u8", "low 8 bits of the grid's row, for each 4 weights"),
        BlockField("qh", 66, 8, "1 bit", "high bit of the row, for each 4 weights"),
        BlockField("signs", 74, 32, "1-bit signs", "set where a weight is negative"),
        BlockField("scales", 106, 4, "4-bit scales", "scale of each 32 weights, odd numbers"),
    ),
    "IQ4_NL": _layout(
        "IQ4_NL",
        KVALUES,
        32,
        _D,
        BlockField("qs", 2, 16, "4-bit codes", "numbers of 16 uneven levels"),
    ),
    "IQ4_XS": _layout(
        "IQ4_XS",
        KVALUES,
        32,
        _D,
        BlockField("scales_h", 2, 2, "2 bits", "high bits of the scale of each 32 weights"),
        BlockField("scales_l", 4, 4, "4 bits", "low bits of the scale of each 32 weights"),
        BlockField("qs", 8, 128, "4-bit codes", "numbers of 16 uneven levels"),
    ),
}
"""The block layout of each IQ type, by name."""


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
    return stored_grid(iq.WALKS[type_name][1]) if type_name in iq.WALKS else None
