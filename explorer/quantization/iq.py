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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from explorer.paths import resource
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
from explorer.quantization.registry import (
    BlockField,
    BlockLayout,
    Blocks,
    Codes,
    Decoder,
    Scales,
    Weights,
    block_layout,
)

# The grids of the IQ types: data of ggml, shipped in `resources/grids`.


KVALUES: Final = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
"""The 16 levels of IQ4 (ggml/src/ggml-common.h, `kvalues_iq4nl`)."""


class Grid(StrEnum):
    """A grid; the value is its name in the shipped file."""

    IQ1S = "iq1s"
    IQ2XXS = "iq2xxs"
    IQ2XS = "iq2xs"
    IQ2S = "iq2s"
    IQ3XXS = "iq3xxs"
    IQ3S = "iq3s"
    IQ4 = "kvalues"


@cache
def kernel_grid(grid: Grid) -> NDArray[Any]:
    """Return a grid as kernels read it, read-only; the file is read at first use.

    Returns:
        IQ1 and IQ2: int8 [rows, 8]; IQ1's rows are in eighths, so that its shift by an eighth is a
        whole number too. IQ3: uint32 [rows], with weight j of 4 in byte j. IQ4: its 16 levels,
        int8 [16].

    Raises:
        FileNotFoundError: The installation lacks the file.
    """
    if grid is Grid.IQ4:
        rows: NDArray[Any] = np.array(KVALUES, np.int8)
    else:
        rows = stored_grid(grid)
        if grid is Grid.IQ1S:
            rows = rows * np.int8(8)
        elif grid in {Grid.IQ3XXS, Grid.IQ3S}:
            rows = rows.view("<u4")[:, 0].astype(np.uint32)
    rows.flags.writeable = False
    return rows


def stored_grid(grid: Grid) -> NDArray[np.int8]:
    """Read a grid as it is shipped: int8 [rows, weights of a group]."""
    with (
        resource("grids/ggml_iq_grids.npz").open("rb") as file,
        np.load(file, allow_pickle=False) as grids,
    ):
        rows: NDArray[np.int8] = grids[grid.value]
    return rows


_SIGN_CODES: Final = np.arange(128, dtype=np.uint8)

SIGNS_OF_CODE: Final = _SIGN_CODES | (np.bitwise_count(_SIGN_CODES) & np.uint8(1)) << np.uint8(7)
"""The 8 signs of a 7-bit sign code, one a bit: minus signs come in even numbers (`ksigns_iq2xs`).

uint8 [128], small enough for kernels to have it as a global.
"""


# What kernels of IQ types share: the contract, reading half-bytes, signs.


Walk: TypeAlias = Callable[[Any, Any, Any, Any], None]
"""A kernel of an IQ type: walk(blocks, out, scales, grid).

`out` is float32 [blocks, weights]. `scales` is None, and `out` gets the weights; or `scales` is
float32 [blocks, scales of a block] and gets them, and `out` gets the levels. `grid` is what
`kernel_grid` returns. As in all kernels, shapes are the caller's promise.
"""


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
def _walk_iq1_s(blocks: Any, out: Any, scales: Any, grid: Any) -> None:
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 0)
        for sub in range(8):
            high = u16_at(blocks, b, 34 + 2 * sub)
            scale = _iq1_scale(d, high >> u32(12))
            if scales is not None:
                scales[b, sub], scale = scale, f32(1)
            of_eighths = scale * f32(0.125)  # exact: a power of two, and d is a half float
            for part in range(4):
                group = 4 * sub + part
                index = u32(blocks[b, 2 + group]) | (((high >> u32(3 * part)) & u32(7)) << u32(8))
                shift = _shift(high & u32(0x8000))
                for i in range(8):
                    out[b, 8 * group + i] = of_eighths * f32(i32(i32(grid[index, i]) + shift))


@kernel
def _walk_iq1_m(blocks: Any, out: Any, scales: Any, grid: Any) -> None:
    for b in range(blocks.shape[0]):
        bits = u32(0)
        for part in range(4):
            bits |= (u16_at(blocks, b, 48 + 2 * part) >> u32(12)) << u32(4 * part)
        d = float32_of_half(u16(bits))
        for sub in range(16):
            scale = _iq1_scale(d, u16_at(blocks, b, 48 + 2 * (sub >> 2)) >> u32(3 * (sub & 3)))
            if scales is not None:
                scales[b, sub], scale = scale, f32(1)
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
def _walk_iq2_xxs(blocks: Any, out: Any, scales: Any, grid: Any) -> None:
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 0)
        for sub in range(8):
            packed = u32_at(blocks, b, 6 + 8 * sub)
            scale = _iq2_scale(d, packed >> u32(28))
            if scales is not None:
                scales[b, sub], scale = scale, f32(1)
            for part in range(4):
                group = 4 * sub + part
                index = blocks[b, 2 + 8 * sub + part]
                signs = SIGNS_OF_CODE[(packed >> u32(7 * part)) & u32(127)]
                for i in range(8):
                    out[b, 8 * group + i] = scale * signed(grid[index, i], signs, i)


@kernel
def _walk_iq2_xs(blocks: Any, out: Any, scales: Any, grid: Any) -> None:
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 0)
        for sub in range(16):
            scale = _iq2_scale(d, nibble_at(blocks, b, 66, sub))
            if scales is not None:
                scales[b, sub], scale = scale, f32(1)
            for group in range(2 * sub, 2 * sub + 2):
                packed = u16_at(blocks, b, 2 + 2 * group)
                index = packed & u32(511)
                signs = SIGNS_OF_CODE[packed >> u32(9)]
                for i in range(8):
                    out[b, 8 * group + i] = scale * signed(grid[index, i], signs, i)


@kernel
def _walk_iq2_s(blocks: Any, out: Any, scales: Any, grid: Any) -> None:
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 0)
        for sub in range(16):
            scale = _iq2_scale(d, nibble_at(blocks, b, 74, sub))
            if scales is not None:
                scales[b, sub], scale = scale, f32(1)
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
def _walk_iq3_xxs(blocks: Any, out: Any, scales: Any, grid: Any) -> None:
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 0)
        for sub in range(8):
            packed = u32_at(blocks, b, 66 + 4 * sub)
            scale = (d * (f32(0.5) + f32(packed >> u32(28)))) * f32(0.5)
            if scales is not None:
                scales[b, sub], scale = scale, f32(1)
            for part in range(4):
                group = 4 * sub + part
                rows = _joined(grid[blocks[b, 2 + 2 * group]], grid[blocks[b, 3 + 2 * group]])
                signs = SIGNS_OF_CODE[(packed >> u32(7 * part)) & u32(127)]
                for i in range(8):
                    out[b, 8 * group + i] = scale * signed(_byte(rows, i), signs, i)


@kernel
def _walk_iq3_s(blocks: Any, out: Any, scales: Any, grid: Any) -> None:
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 0)
        for sub in range(8):
            scale = d * f32(u32(1) + u32(2) * nibble_at(blocks, b, 106, sub))
            if scales is not None:
                scales[b, sub], scale = scale, f32(1)
            high = u32(blocks[b, 66 + sub]) << u32(8)
            for part in range(4):
                group = 4 * sub + part
                first = u32(blocks[b, 2 + 2 * group]) | ((high >> u32(2 * part)) & u32(256))
                second = u32(blocks[b, 3 + 2 * group]) | ((high >> u32(2 * part + 1)) & u32(256))
                rows = _joined(grid[first], grid[second])
                signs = blocks[b, 74 + group]
                for i in range(8):
                    out[b, 8 * group + i] = scale * signed(_byte(rows, i), signs, i)


@kernel
def _number(levels: Any, parts: Any, numbers: Any, codes: Any) -> None:
    """Look up the number of each level: that in `numbers` for `parts` times the level, a byte."""
    for b in range(len(levels)):
        for i in range(levels.shape[1]):
            codes[b, i] = numbers[i32(levels[b, i] * parts) & 255]


class IqType(NamedTuple):
    """A type whose decoder and block layout are made of a walk.

    Attributes:
        walk: The kernel.
        grid: The grid that it is given.
        levels: The values of weights before scaling, in any order.
        weights_per_scale: Weights that share a scale.
        fields: The block's bytes.
    """

    walk: Walk
    grid: Grid
    levels: Sequence[float]
    weights_per_scale: int
    fields: tuple[BlockField, ...]


def decoder_of(kind: IqType) -> Decoder:
    """Return the decoder that a walk makes."""

    def decode(blocks: Blocks, out: Weights) -> None:
        # The grid is an argument: as a global it would be compiled into the machine code.
        kind.walk(blocks, out, None, kernel_grid(kind.grid))

    return decode


def layout_of(kind: IqType) -> BlockLayout:
    """Return the block layout of a type whose levels one kernel looks up.

    The code of a weight is the number of its signed level. A block stores a row of a grid for a
    whole group, so a weight has no bits of its own but in IQ4; its signed level, which the row and
    its sign (in IQ1 its shift) make, stands for a code.
    """
    levels = np.array(sorted(kind.levels), np.float32)
    parts = np.float32(8 if kind.grid is Grid.IQ1S else 1)  # what makes each level a whole number
    numbers = np.zeros(256, np.uint8)
    numbers[(levels * parts).astype(np.int8).view(np.uint8)] = np.arange(len(levels))

    def unpack_codes(blocks: Blocks, codes: Codes) -> None:
        found = np.empty(codes.shape, np.float32)
        scales = np.empty((len(codes), codes.shape[1] // kind.weights_per_scale), np.float32)
        kind.walk(blocks, found, scales, kernel_grid(kind.grid))
        _number(found, parts, numbers, codes)

    def unpack_scales(blocks: Blocks, scales: Scales, _minima: Scales) -> None:
        found = np.empty((len(scales), scales.shape[1] * kind.weights_per_scale), np.float32)
        kind.walk(blocks, found, scales, kernel_grid(kind.grid))

    return BlockLayout(levels, kind.weights_per_scale, kind.fields, unpack_codes, unpack_scales)


def _signed(*sizes: int) -> list[int]:
    return [sign * size for size in sizes for sign in (-1, 1)]


SCALE_OF_BLOCK: Final = BlockField("d", 0, 2, "f16", "scale of the block")
_LOW_INDEX = "low 8 bits of the grid's row, for each 8 weights"
_SCALES_OF_16 = "scale of each 16 weights, above one half"
_IQ1_LEVELS = [grid + shift for grid in (-1, 0, 1) for shift in (-0.125, 0.125)]
_IQ2_LEVELS = _signed(8, 25, 43)
_QH_OF_IQ1_S = "for each 32 weights: 4 x 3 high bits of the rows, scale, shift"
_SCALES_OF_IQ1_M = "for each 64 weights: 4 x 3-bit scale, 4 bits of the block's"
_QS_OF_IQ2_XXS = "for each 32 weights: 4 x 8-bit row, then 4 x 7-bit signs, scale"
_SCALES_AND_SIGNS = "for each 32 weights: 4 x 7-bit signs, scale"

TYPES: Final = {
    "IQ1_S": IqType(
        _walk_iq1_s,
        Grid.IQ1S,
        _IQ1_LEVELS,
        32,
        (
            SCALE_OF_BLOCK,
            BlockField("qs", 2, 32, "u8", _LOW_INDEX),
            BlockField("qh", 34, 16, "u16", _QH_OF_IQ1_S),
        ),
    ),
    "IQ1_M": IqType(
        _walk_iq1_m,
        Grid.IQ1S,
        _IQ1_LEVELS,
        16,
        (
            BlockField("qs", 0, 32, "u8", _LOW_INDEX),
            BlockField("qh", 32, 16, "4 bits", "for each 8 weights: 3 high bits of the row, shift"),
            BlockField("scales", 48, 8, "u16", _SCALES_OF_IQ1_M),
        ),
    ),
    "IQ2_XXS": IqType(
        _walk_iq2_xxs,
        Grid.IQ2XXS,
        _IQ2_LEVELS,
        32,
        (SCALE_OF_BLOCK, BlockField("qs", 2, 64, "u32", _QS_OF_IQ2_XXS)),
    ),
    "IQ2_XS": IqType(
        _walk_iq2_xs,
        Grid.IQ2XS,
        _IQ2_LEVELS,
        16,
        (
            SCALE_OF_BLOCK,
            BlockField("qs", 2, 64, "u16", "for each 8 weights: 9-bit row, 7-bit signs"),
            BlockField("scales", 66, 8, "4-bit scales", _SCALES_OF_16),
        ),
    ),
    "IQ2_S": IqType(
        _walk_iq2_s,
        Grid.IQ2S,
        _IQ2_LEVELS,
        16,
        (
            SCALE_OF_BLOCK,
            BlockField("qs", 2, 32, "u8", _LOW_INDEX),
            BlockField("signs", 34, 32, "1-bit signs", "set where a weight is negative"),
            BlockField("qh", 66, 8, "2 bits", "high bits of the row, for each 8 weights"),
            BlockField("scales", 74, 8, "4-bit scales", _SCALES_OF_16),
        ),
    ),
    "IQ3_XXS": IqType(
        _walk_iq3_xxs,
        Grid.IQ3XXS,
        _signed(4, 12, 20, 28, 36, 44, 52, 62),
        32,
        (
            SCALE_OF_BLOCK,
            BlockField("qs", 2, 64, "u8", "the grid's row, for each 4 weights"),
            BlockField("scales_and_signs", 66, 32, "u32", _SCALES_AND_SIGNS),
        ),
    ),
    "IQ3_S": IqType(
        _walk_iq3_s,
        Grid.IQ3S,
        _signed(*range(1, 16, 2)),
        32,
        (
            SCALE_OF_BLOCK,
            BlockField("qs", 2, 64, "u8", "low 8 bits of the grid's row, for each 4 weights"),
            BlockField("qh", 66, 8, "1 bit", "high bit of the row, for each 4 weights"),
            BlockField("signs", 74, 32, "1-bit signs", "set where a weight is negative"),
            BlockField("scales", 106, 4, "4-bit scales", "scale of each 32 weights, odd numbers"),
        ),
    ),
}

DECODERS: Final = {name: decoder_of(kind) for name, kind in TYPES.items()}
LAYOUTS: Final = {name: layout_of(kind) for name, kind in TYPES.items()}


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
    return stored_grid(TYPES[type_name].grid) if type_name in TYPES else None
