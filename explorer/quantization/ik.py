"""The types of ik_llama.cpp, and of BitNet's fork of llama.cpp: rows of a table.

Weights are scale * level[code], less a minimum in a few types. What a type's row says is where its
codes and scales lie (`ik_codes`); the kernels are shared (`ik_kernels`). Blocks are whole ones: a
header of the row, where there is one, and then the block. Of types that store R rows together, a
block of one row has the bytes that are its own, in their order: each byte belongs to one row, and
`Field.width` of them alternate with those of the other rows.

::

    IQ4_K   d * (scale - 32) * V4[select of 16 weights][code]
    IQ4_KS  d of the row * ((scale & 254) - 127) * V4[scale & 1][code]
    IQ2_KT  d * scale * (sum of the four bytes of x & 0x3F3F3F3F) - 126), x = x * 0xCBAC1FED
    Q4_K_R4 (d * scale) * code - dmin * minimum

Source: `docs/gguf.md`, section 12; ik_llama.cpp, ggml/src/iqk/iqk_quantize.cpp, at 8337e4cd.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from explorer.quantization import ik_codes as parts
from explorer.quantization import ik_kernels as kernels
from explorer.quantization.ik_codes import Bytes, Floats, Made, Step
from explorer.quantization.iq import Grid
from explorer.quantization.registry import (
    BlockField,
    BlockLayout,
    Blocks,
    Decoder,
    Scales,
    Weights,
    integers,
)
from explorer.quantization.types import TENSOR_TYPES


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


@dataclass(frozen=True, slots=True)
class IkType:
    """How blocks make weights.

    Attributes:
        fields: The bytes of a whole block.
        codes: Unpacks the codes.
        scales: Returns the scales, or scales and minima.
        levels: float32 [codes]: the value of each code before scaling.
        weights_per_scale: Weights that share a scale.
        has_minimum: Whether there are minima.
    """

    fields: tuple[Field, ...]
    codes: Step
    scales: Callable[[Bytes], Made]
    levels: Floats
    weights_per_scale: int
    has_minimum: bool = False


# Fields of which many types have the like.
_D: Final = Field("d", 2, "f16", "scale of the block")
_ROW_D: Final = Field("d", 4, "f32", "scale of the row")
_ROW_HALF: Final = Field("d", 2, "f16", "scale of the row")
_DMIN: Final = Field("dmin", 2, "f16", "scale of the block's minima")
_CODES: Final = "numbers of levels"
_SELECTS: Final = "which table of levels each 16 weights use"
_E: Final = Field("extra", 2, "u16", _SELECTS)
_SELECTS_AND_SCALES: Final = "for each 32 weights: the table of levels, a high bit of the scale"


def _scale_field(count: int, nbytes: int, part: str = "", width: int = 0) -> Field:
    name = {"": "scales", "low": "scales_l", "high": "scales_h"}[part]
    bits = nbytes * 8 // count
    of = {"": "scale", "low": "low bits of the scale", "high": "high bits of the scale"}[part]
    return Field(name, nbytes, f"{bits} bits", f"{of} of each {256 // count} weights", width)


def _code_field(nbytes: int, bits: int, width: int = 0, name: str = "qs") -> Field:
    dtype = f"{bits}-bit codes" if name == "qs" else f"{bits} bits"
    part = {"qs": _CODES, "ql": "low bits of the codes", "qh": "high bits of the codes"}[name]
    return Field(name, nbytes, dtype, part, width)


_KS: Final = Field("scales", 8, "u8", "of each 32 weights: scale and, lowest bit, table of levels")
_E8: Final = Field("extra", 2, "1 bit", _SELECTS, 1)
_SC8: Final = _scale_field(16, 8, "", 1)
_SL8: Final = _scale_field(16, 8, "low", 1)
_SH4: Final = _scale_field(16, 4, "high", 1)
_SEEDS: Final = Field("ql", 64, "u16", "where the generator starts for each 8 weights")


def _selects_16(up: int) -> Step:
    return parts.select(up, lambda blocks: parts.packed(blocks, 2, 16, 1))


def _selects_r4(up: int) -> Step:
    return parts.select(up, lambda blocks: parts.split(blocks, 2, 16, 1))


def _selects_ks(up: int) -> Step:
    return parts.select(up, lambda blocks: parts.stored(blocks, 4, 8) & np.uint8(1))


def _of_k(blocks: Bytes, at_high: int = 4) -> Floats:
    high = parts.packed(blocks, at_high, 16, 2)
    return parts.times(parts.half(blocks), parts.joined(parts.packed(blocks, 8, 16, 4), high), 32)


def _of_k_r4(blocks: Bytes, at_high: int, at_low: int) -> Floats:
    numbers = parts.joined(parts.split(blocks, at_low, 16, 4), parts.split(blocks, at_high, 16, 2))
    return parts.times(parts.half(blocks), numbers, 32)


_N: Final = 256
TYPES: Final[dict[str, IkType]] = {
    "IQ2_K": IkType(
        (_D, _E, _scale_field(16, 8), _code_field(64, 2)),
        parts.steps(parts.plane(12, 2, 32), _selects_16(2)),
        lambda b: parts.times(parts.half(b), parts.packed(b, 4, 16, 4), 8),
        *(parts.V2, 16),
    ),
    "IQ3_K": IkType(
        (
            *(_D, _E, Field("scales_h", 2, "u16", "minus signs of the scales")),
            *(_scale_field(16, 8), _code_field(64, 2), _code_field(32, 1, name="qh")),
        ),
        parts.steps(parts.plane(14, 2, 32), parts.plane(78, 1, 32, 2), _selects_16(3)),
        lambda b: parts.signed_odd(
            parts.half(b), parts.packed(b, 6, 16, 4), parts.packed(b, 4, 16, 1)
        ),
        *(parts.V3, 16),
    ),
    "IQ4_K": IkType(
        (*(_D, _E, _scale_field(16, 4, "high"), _scale_field(16, 8, "low")), _code_field(128, 4)),
        parts.steps(parts.plane(16, 4, 16), _selects_16(4)),
        _of_k,
        *(parts.V4, 16),
    ),
    "IQ5_K": IkType(
        (
            *(_D, _E, _scale_field(16, 4, "high"), _scale_field(16, 8, "low")),
            *(_code_field(128, 4), _code_field(32, 1, name="qh")),
        ),
        parts.steps(parts.plane(16, 4, 32), parts.plane(144, 1, 32, 4), _selects_16(5)),
        _of_k,
        *(parts.V5, 16),
    ),
    "IQ6_K": IkType(
        (
            *(_D, _E, Field("scales", 16, "i8", "scale of each 16 weights")),
            *(_code_field(128, 4), _code_field(64, 2, name="qh")),
        ),
        parts.steps(parts.plane(20, 4, 32), parts.plane(148, 2, 32, 4), _selects_16(6)),
        lambda b: parts.times(parts.half(b), parts.stored(b, 4, 16, "i1")),
        *(parts.cubic(), 16),
    ),
    "IQ2_KS": IkType(
        (
            *(_ROW_HALF, Field("extra", 2, "u16", _SELECTS_AND_SCALES)),
            *(_scale_field(8, 4, "low"), _code_field(64, 2)),
        ),
        parts.steps(parts.plane(8, 2, 32), parts.select(2, lambda b: parts.packed(b, 2, 8, 1))),
        lambda b: parts.times(
            parts.half(b), parts.joined(parts.packed(b, 4, 8, 4), parts.packed(b, 3, 8, 1)), 16
        ),
        *(parts.V2, 32),
    ),
    "IQ3_KS": IkType(
        (
            *(_ROW_HALF, Field("extra", 2, "u16", _SELECTS_AND_SCALES)),
            *(_scale_field(8, 4, "low"), _code_field(64, 2), _code_field(32, 1, name="qh")),
        ),
        parts.steps(
            parts.plane(8, 2, 32),
            parts.plane(72, 1, 32, 2),
            parts.select(3, lambda b: parts.packed(b, 3, 8, 1)),
        ),
        lambda b: parts.times(
            parts.half(b), parts.joined(parts.split(b, 4, 8, 4), parts.packed(b, 2, 8, 1)), 16
        ),
        *(parts.V3, 32),
    ),
    "IQ2_KL": IkType(
        (
            *(_ROW_HALF, _scale_field(8, 2, "high"), _scale_field(8, 4, "low")),
            Field("qs", 64, "4 bits", "low bits of the pair of levels of two weights"),
            Field("qh", 16, "1 bit", "high bit of the pair"),
        ),
        parts.pairs,
        lambda b: parts.times(
            parts.half(b), parts.joined(parts.split(b, 4, 8, 4), parts.packed(b, 2, 8, 2)), 32
        ),
        *(parts.V3[:8], 32),
    ),
    "IQ4_KS": IkType(
        (_ROW_D, _KS, _code_field(128, 4)),
        parts.steps(parts.plane(12, 4, 16), _selects_ks(4)),
        *(parts.of_ks, parts.V4, 32),
    ),
    "IQ5_KS": IkType(
        (_ROW_D, _KS, _code_field(128, 4), _code_field(32, 1, name="qh")),
        parts.steps(parts.plane(12, 4, 32), parts.plane(140, 1, 32, 4), _selects_ks(5)),
        *(parts.of_ks, parts.V5, 32),
    ),
    "IQ4_KSS": IkType(
        (_ROW_D, Field("qs", 128, "u16", "codes, and in lowest bits the scale of each 32 weights")),
        parts.kss_codes,
        lambda b: parts.times(parts.single(b), parts.kss_words(b)[1] & np.uint8(254), 127),
        *(parts.V4, 32),
    ),
    "IQ1_KT": IkType(
        (
            *(_ROW_D, Field("sh", 8, "u8", "scale of 32 weights, a high bit of each start")),
            Field("ql", 32, "u8", "low bits of where the generator starts for each 8 weights"),
            Field("qh", 16, "4 bits", "high bits of these starts"),
        ),
        parts.trellis(parts.seeds_of_iq1),
        lambda b: parts.of_levels(parts.single(b), parts.stored(b, 4, 8) & 15),
        *(parts.TRELLIS, 32),
    ),
    "IQ2_KT": IkType(
        (_ROW_D, _scale_field(8, 4), _SEEDS),
        parts.trellis(lambda b: parts.stored(b, 8, 32, "<u2").astype(np.uint32) + 4096),
        lambda b: parts.of_levels(parts.single(b), parts.split(b, 4, 8, 4)),
        *(parts.TRELLIS, 32),
    ),
    "IQ3_KT": IkType(
        (
            *(_ROW_D, _scale_field(8, 4), _SEEDS),
            Field("qh", 32, "1-bit signs", "set where a weight is negative"),
        ),
        parts.trellis(
            lambda b: parts.stored(b, 8, 32, "<u2").astype(np.uint32) + 4096, parts.plane(72, 1, 32)
        ),
        lambda b: parts.times(parts.single(b), parts.split(b, 4, 8, 4)),
        *(np.append(parts.TRELLIS, np.float32(-0.0)), 32),
    ),
    "IQ4_KT": IkType(
        (
            *(_ROW_D, Field("sh", 32, "u32", "of 32 weights: scale, high bits of the starts")),
            Field("ql", 64, "u8", "low bits of where the generator starts for each 4 weights"),
            Field("qh", 32, "4 bits", "high bits of these starts"),
        ),
        parts.trellis(parts.seeds_of_iq4),
        lambda b: parts.times(parts.single(b), (parts.kt_words(b) & 255) >> 1, 64),
        *(parts.TRELLIS, 32),
    ),
    "Q6_0": IkType(
        (_D, _code_field(8, 2, name="qh"), _code_field(16, 4)),
        parts.steps(parts.plane(10, 4, 16, 0, 32), parts.places(parts.OF_Q6_0, 2, 2, 32, 4)),
        parts.half,
        *(integers(-32, 31), 32),
    ),
    "Q8_KV": IkType(
        (
            *(_ROW_D, Field("sum", 4, "u8", "sum of the row's codes")),
            Field("qs", 32, "i8", "codes"),
        ),
        *(parts.copy(8, 128), parts.single, integers(-128, 127), 32),
    ),
    "IQ1_BN": IkType(
        (_ROW_HALF, Field("ql", 12, "ternary", "five digits a byte"), _code_field(1, 2, name="qh")),
        *(parts.ternary, parts.half, integers(-1, 1), 64),
    ),
    "IQ2_BN": IkType(
        (_ROW_D, _code_field(16, 2)),
        *(parts.steps(parts.plane(4, 2, 16, 0, 64)), parts.single, integers(-1, 2), 64),
    ),
    "I2_S": IkType(
        (
            *(Field("d", 4, "f32", "scale of the tensor"), Field("unused", 28, "u8", "nothing")),
            _code_field(32, 2),
        ),
        parts.steps(
            parts.quads(2, 0, 32 + np.arange(0, 128, 4) % 32, 6 - np.arange(0, 128, 4) // 32 * 2)
        ),
        *(parts.single, integers(-1, 2), 128),
    ),
    "MXFP4 (old)": IkType(
        (Field("e", 1, "E8M0", "scale of the block"), _code_field(16, 4)),
        lambda b, codes: np.copyto(codes, parts.packed(b, 1, 32, 4)),
        *(parts.power, parts.E2M1_TWICE, 32),
    ),
    "Q4_0_R8": IkType(
        (_D, _code_field(16, 4, 4)),
        *(parts.steps(parts.plane(2, 4, 16, 0, 32)), parts.half, integers(-8, 7), 32),
    ),
    "Q5_0_R4": IkType(
        (_D, _code_field(4, 1, 4, "qh"), _code_field(16, 4, 4)),
        parts.steps(parts.x4(6, 32), parts.x1(2, 32, 4, parts.ORDER_D)),
        lambda b: parts.shifted(parts.half(b), 16),
        *(integers(0, 31), 32, True),
    ),
    "Q6_0_R4": IkType(
        (_D, _code_field(8, 2, 4, "qh"), _code_field(16, 4, 4)),
        parts.steps(parts.x4(10, 32), parts.x2(2, 32, 4)),
        lambda b: parts.shifted(parts.half(b), 32),
        *(integers(0, 63), 32, True),
    ),
    "Q8_0_R8": IkType(
        (_D, Field("qs", 32, "i8", "codes", 4)),
        *(parts.copy(2, 128), parts.half, integers(-128, 127), 32),
    ),
    "IQ4_NL_R4": IkType(
        (_D, _code_field(16, 4, 4)), parts.steps(parts.x4(2, 32)), *(parts.half, parts.V4[:16], 32)
    ),
    "MXFP4_R8": IkType(
        (Field("e", 1, "E8M0", "scale of the block"), _code_field(16, 4, 4)),
        *(parts.steps(parts.plane(1, 4, 16, 0, 32)), parts.power, parts.E2M1_TWICE, 32),
    ),
    "Q2_K_R4": IkType(
        (
            *(_D, _DMIN, Field("scales", 16, "4 bits", "of each 16 weights: scale, minimum", 1)),
            _code_field(64, 2, 4),
        ),
        parts.steps(parts.x2(20, _N)),
        lambda b: parts.of_two(b, parts.stored(b, 4, 16) >> 4, parts.stored(b, 4, 16) & 15),
        *(integers(0, 3), 16, True),
    ),
    "Q3_K_R4": IkType(
        (_D, _SH4, _SL8, _code_field(32, 1, 4, "qh"), _code_field(64, 2, 4)),
        parts.steps(parts.x2(46, _N), parts.x1(14, _N, 2, parts.ORDER_C)),
        lambda b: _of_k_r4(b, 2, 6),
        *(integers(-4, 3), 16),
    ),
    "Q4_K_R4": IkType(
        (
            *(_D, _DMIN, Field("scales_h", 4, "2 bits", "high bits of scales and minima", 1)),
            *(Field("scales_l", 8, "4 bits", "low bits of scales and minima", 1),),
            _code_field(128, 4, 4),
        ),
        *(parts.steps(parts.x4(16, _N)), parts.of_q4_k, integers(0, 15), 32, True),
    ),
    "Q5_K_R4": IkType(
        (
            *(_D, _DMIN, Field("scales_h", 4, "2 bits", "high bits of scales and minima", 1)),
            *(Field("scales_l", 8, "4 bits", "low bits of scales and minima", 1),),
            *(_code_field(32, 1, 4, "qh"), _code_field(128, 4, 4)),
        ),
        *(
            parts.steps(parts.x4(48, _N), parts.x1(16, _N, 4, parts.ORDER_B)),
            parts.of_q4_k,
            integers(0, 31),
            32,
            True,
        ),
    ),
    "Q6_K_R4": IkType(
        (
            *(_D, Field("scales", 16, "i8", "scale of each 16 weights", 1)),
            *(_code_field(64, 2, 4, "qh"), _code_field(128, 4, 4, "ql")),
        ),
        parts.steps(parts.x4(82, _N), parts.places(parts.X2_OF_Q6_K, 18, 2, _N, 4)),
        lambda b: parts.times(parts.half(b), parts.stored(b, 2, 16, "i1")),
        *(integers(-32, 31), 16),
    ),
    "IQ4_XS_R8": IkType(
        (
            *(_D, _scale_field(8, 2, "high", 1), _scale_field(8, 4, "low", 1)),
            _code_field(128, 4, 4),
        ),
        parts.steps(parts.places(parts.OF_IQ4_XS, 8, 4, _N)),
        lambda b: parts.times(
            parts.half(b), parts.joined(parts.split(b, 4, 8, 4), parts.split(b, 2, 8, 2)), 32
        ),
        *(parts.V4[:16], 32),
    ),
    "IQ2_K_R4": IkType(
        (_D, _E8, _SC8, _code_field(64, 2, 4)),
        parts.steps(parts.x2(12, _N), _selects_r4(2)),
        lambda b: parts.times(parts.half(b), parts.split(b, 4, 16, 4), 8),
        *(parts.V2, 16),
    ),
    "IQ3_K_R4": IkType(
        (
            *(_D, _E8, Field("scales_h", 2, "1 bit", "minus signs of the scales", 1)),
            *(_SC8, _code_field(64, 2, 4), _code_field(32, 1, 4, "qh")),
        ),
        parts.steps(parts.x2(14, _N), parts.x1(78, _N, 2, parts.ORDER_C), _selects_r4(3)),
        lambda b: parts.signed_odd(
            parts.half(b), parts.split(b, 6, 16, 4), parts.split(b, 4, 16, 1)
        ),
        *(parts.V3, 16),
    ),
    "IQ4_K_R4": IkType(
        (_D, _E8, _SH4, _SL8, _code_field(128, 4, 4)),
        parts.steps(parts.x4(16, _N), _selects_r4(4)),
        lambda b: _of_k_r4(b, 4, 8),
        *(parts.V4, 16),
    ),
    "IQ5_K_R4": IkType(
        (_D, _E8, _SH4, _SL8, _code_field(128, 4, 4), _code_field(32, 1, 4, "qh")),
        parts.steps(parts.x4(16, _N), parts.x1(144, _N, 4, parts.ORDER_A), _selects_r4(5)),
        lambda b: _of_k_r4(b, 4, 8),
        *(parts.V5, 16),
    ),
    "IQ4_KS_R4": IkType(
        (_ROW_D, _KS._replace(width=1), _code_field(128, 4, 4)),
        parts.steps(parts.x4(12, _N), _selects_ks(4)),
        *(parts.of_ks, parts.V4, 32),
    ),
    "IQ5_KS_R4": IkType(
        (*(_ROW_D, _KS._replace(width=1), _code_field(128, 4, 4)), _code_field(32, 1, 4, "qh")),
        parts.steps(parts.x4(12, _N), parts.x1(140, _N, 4, parts.ORDER_A), _selects_ks(5)),
        *(parts.of_ks, parts.V5, 32),
    ),
    "IQ2_BN_R4": IkType(
        (_ROW_D, _code_field(16, 2, 4)),
        parts.steps(parts.x2(4, 64)),
        *(parts.single, integers(-1, 2), 64),
    ),
    "Q8_KV_R8": IkType(
        (_ROW_D, Field("qs", 32, "i8", "codes", 4)),
        *(parts.copy(4, 128), parts.single, integers(-128, 127), 32),
    ),
    "Q8_K_R8": IkType(
        (_D, Field("qs", 256, "i8", "codes", 4)),
        *(parts.copy(2, 128), parts.half, integers(-128, 127), 256),
    ),
    "Q8_K_R16": IkType(
        (_D, Field("qs", 256, "u8", "codes", 4)),
        *(parts.copy(2), lambda b: parts.shifted(parts.half(b), 128), integers(0, 255), 256, True),
    ),
    "IQ2_XXS_R4": IkType(
        (
            *(_D, Field("scales_and_signs", 32, "u32", "of each 32 weights: scale, signs", 4)),
            Field("qs", 32, "u8", "the grid's row, for each 8 weights", 4),
        ),
        parts.rows(Grid.IQ2XXS, lambda b: parts.of_xxs(b, 32)),
        lambda b: parts.scale_of_xxs(b, 0.125),
        *(parts.OF_IQ2, 32),
    ),
    "IQ3_XXS_R4": IkType(
        (
            *(_D, Field("scales_and_signs", 32, "u32", "of each 32 weights: scale, signs", 4)),
            Field("qs", 64, "u8", "the grid's row, for each 4 weights", 8),
        ),
        parts.rows(Grid.IQ3XXS, lambda b: parts.of_xxs(b, 64)),
        lambda b: parts.scale_of_xxs(b, 0.25),
        *(parts.OF_IQ3_XXS, 32),
    ),
    "IQ2_XS_R4": IkType(
        (
            *(_D, Field("qs", 64, "u16", "for each 8 weights: 9-bit row, 7-bit signs", 8)),
            _scale_field(16, 8, "", 1),
        ),
        parts.rows(Grid.IQ2XS, parts.of_xs),
        lambda b: parts.odd(parts.half(b) * np.float32(0.125), parts.packed(b, 66, 16, 4)),
        *(parts.OF_IQ2, 16),
    ),
    "IQ2_S_R4": IkType(
        (
            *(_D, Field("qs", 32, "u8", "low 8 bits of the grid's row, for each 8 weights", 4)),
            Field("qh", 8, "2 bits", "high bits of the row, for each 8 weights", 1),
            Field("signs", 32, "1-bit signs", "set where a weight is negative", 4),
            _scale_field(16, 8, "", 1),
        ),
        parts.rows(Grid.IQ2S, parts.of_iq2_s),
        lambda b: parts.odd(parts.half(b) * np.float32(0.125), parts.packed(b, 74, 16, 4)),
        *(parts.OF_IQ2, 16),
    ),
    "IQ3_S_R4": IkType(
        (
            *(_D, Field("qs", 64, "u8", "low 8 bits of the grid's row, for each 4 weights", 1)),
            Field("qh", 8, "1 bit", "high bit of the row, for each 4 weights", 1),
            Field("signs", 32, "1-bit signs", "set where a weight is negative", 4),
            _scale_field(8, 4, "", 1),
        ),
        parts.rows(Grid.IQ3S, parts.of_iq3_s),
        lambda b: parts.odd(parts.half(b), parts.split(b, 106, 8, 4)),
        *(parts.OF_IQ3_S, 32),
    ),
    "IQ1_S_R4": IkType(
        (
            *(_ROW_HALF, Field("qs", 4, "u8", "low bits of the grid's row, for each 8 weights", 1)),
            Field("qh", 2, "u16", "4 x 3 high bits of the rows, scale, shift"),
        ),
        parts.rows(Grid.IQ1S, parts.of_iq1_s),
        lambda b: parts.odd(parts.half(b), parts.stored(b, 6, 1, "<u2") >> 12 & 7),
        *(parts.OF_IQ1, 32),
    ),
    "IQ1_M_R4": IkType(
        (
            *(_ROW_HALF, Field("qs", 4, "u8", "low bits of the grid's row, for each 8 weights", 1)),
            Field("qh", 2, "4 bits", "for each 8 weights: 3 high bits of the row, shift", 1),
            Field("scales", 1, "4 bits", "scale of each 16 weights", 1),
        ),
        parts.rows(Grid.IQ1S, parts.of_iq1_m),
        lambda b: parts.times(parts.half(b), parts.packed(b, 8, 2, 4)),
        *(parts.OF_IQ1, 16),
    ),
}


def _fields(kind: IkType) -> tuple[BlockField, ...]:
    found, at = [], 0
    for field in kind.fields:
        found.append(BlockField(field.name, at, field.nbytes, field.dtype, field.meaning))
        at += field.nbytes
    return tuple(found)


def _decoder(kind: IkType) -> Decoder:
    levels = kind.levels
    even = bool((np.diff(levels) == 1).all())
    table = np.zeros(kernels.TABLE, np.int8)
    whole = len(levels) <= kernels.TABLE and bool((levels == np.rint(levels)).all())
    if whole:
        table[: len(levels)] = levels

    def decode(blocks: Blocks, out: Weights) -> None:
        codes = np.empty(out.shape, np.uint8)
        kind.codes(blocks, codes)
        with np.errstate(all="ignore"):  # scales may be anything
            made = kind.scales(blocks)
        scales, minima = made if isinstance(made, tuple) else (made, None)
        size = kind.weights_per_scale
        own, scales, weights = codes.reshape(-1, size), scales.reshape(-1), out.reshape(-1, size)
        if even:
            minima = None if minima is None else minima.reshape(-1)
            kernels.combine_numbers(own, levels[0], scales, minima, weights)
        elif whole:
            kernels.combine_levels(own, table, scales, weights)
        else:
            kernels.combine_any(own, levels, scales, weights)

    return decode


def _layout(kind: IkType) -> BlockLayout:
    def unpack_scales(blocks: Blocks, scales: Scales, minima: Scales) -> None:
        with np.errstate(all="ignore"):
            made = kind.scales(blocks)
        if isinstance(made, tuple):
            scales[:], minima[:] = made
        else:
            scales[:] = made

    return BlockLayout(
        levels=kind.levels,
        weights_per_scale=kind.weights_per_scale,
        fields=_fields(kind),
        unpack_codes=kind.codes,
        unpack_scales=unpack_scales,
        has_minimum=kind.has_minimum,
    )


def _decode_bf16(blocks: Blocks, out: Weights) -> None:
    out.view(np.uint32)[:] = parts.stored(blocks, 0, 2, "<u2").astype(np.uint32) << 16


DECODERS: Final = {
    **{name: _decoder(kind) for name, kind in TYPES.items()},
    "BF16_R16": _decode_bf16,
}
LAYOUTS: Final = {name: _layout(kind) for name, kind in TYPES.items()}

_WIDTH_OF_BF16: Final = 4


@cache
def row_places(type_name: str) -> NDArray[np.int64]:
    """Return where each byte of a row's block is among those of rows that are stored together.

    int64 [rows, whole bytes]: a byte of the header among the headers, one of the block among the
    blocks of all these rows; see `ik_kernels.gather_rows`.
    """
    kind = TENSOR_TYPES[type_name]
    if type_name in TYPES:
        fields = [(field.nbytes, field.width) for field in TYPES[type_name].fields]
    else:
        fields = [(kind.block_bytes, _WIDTH_OF_BF16)]
    places = np.empty((kind.rows, kind.whole_bytes), np.int64)
    rows = np.arange(kind.rows)[:, None]
    at = 0
    for nbytes, together in fields:
        base = at if at < kind.row_header else at - kind.row_header
        byte, width = np.arange(nbytes), together or nbytes
        own = (byte // width * kind.rows + rows) * width + byte % width
        places[:, at : at + nbytes] = base * kind.rows + own
        at += nbytes
    return places
