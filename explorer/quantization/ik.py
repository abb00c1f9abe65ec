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

from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from explorer.quantization import ik_codes as parts
from explorer.quantization import ik_kernels as kernels
from explorer.quantization.ik_codes import Bits, Floats, every, packed, plane, split, spread
from explorer.quantization.ik_kernels import POWER, SINGLE
from explorer.quantization.iq import Grid
from explorer.quantization.registry import (
    BlockField,
    BlockLayout,
    Blocks,
    Codes,
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


class IkType(NamedTuple):
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
        rows: Of groups of weights, bits of the row of a table, or of where the generator starts.
        table: The table: uint8 [rows, codes].
        signs: Bits of eight signs each, of eight codes.
        start: What rows, or else codes, are before: bits that are stored turned.
    """

    fields: tuple[Field, ...]
    codes: tuple[Bits, ...]
    levels: Floats
    weights_per_scale: int
    scales: tuple[Bits, ...] = ()
    factors: Floats = parts.ONE
    selects: tuple[Bits, ...] = ()
    minima: tuple[Bits, ...] | None = None
    min_factors: Floats = parts.ONE
    min_at: int = 0
    d: int = kernels.HALF
    rows: tuple[Bits, ...] = ()
    table: Grid | NDArray[np.uint8] | None = None
    signs: tuple[Bits, ...] = ()
    start: Any = 0


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


_K: Final = integers(-32, 31)
_EIGHTH: Final = parts.ODD * np.float32(0.125)
_HIGH_OF_Q4_K: Final = split(4, 8, 4).places  # of each pair of a scale and a minimum
_HIGH_HIGH_HIGH_OF_Q4_K: Final = split(4, 8, 4).places  # of each pair of a scale and a minimum
_OF_Q4_K: Final[dict[str, Any]] = {
    "scales": (every(64, 8, 8, 4), Bits(_HIGH_OF_Q4_K, 3, 4)),
    "factors": integers(0, 63),
    "minima": (every(68, 8, 8, 4), Bits(_HIGH_OF_Q4_K + 2, 3, 4)),
    "min_factors": integers(0, 63),
    "min_at": 2,
}


def _ks(fields: tuple[Field, ...], codes: tuple[Bits, ...], levels: Floats) -> IkType:
    """Return a type with a scale of the row, and bytes of scale and select for 32 weights each."""
    return IkType(
        *(fields, codes, levels, 32, (packed(4, 8, 8),), parts.KS),
        selects=(every(32, 8, 8, 1, len(levels).bit_length() - 2),),
        d=SINGLE,
    )


def _plain(
    fields: tuple[Field, ...], codes: tuple[Bits, ...], levels: Floats, d: int = 0
) -> IkType:
    """Return a type whose blocks have a scale and no more."""
    return IkType(fields, codes, levels, len(codes[0].places), d=d)


def _bytes(fields: tuple[Field, ...], at: int, weights: int, d: int = 0) -> IkType:
    """Return a type whose codes are bytes with a sign."""
    codes = (packed(at, weights, 8),)
    return IkType(fields, codes, integers(-128, 127), weights, d=d, start=128)


def _less(
    fields: tuple[Field, ...], codes: tuple[Bits, ...], levels: Floats, minimum: int
) -> IkType:
    """Return a type that subtracts so many scales."""
    factors = integers(minimum, minimum)
    weights = len(codes[0].places)
    return IkType(fields, codes, levels, weights, minima=(), min_factors=factors)


TYPES: Final[dict[str, IkType]] = {
    "IQ2_K": IkType(
        (_D, _E, _scale_field(16, 8), _code_field(64, 2)),
        *((plane(12, 2, 32),), parts.V2, 16, (packed(4, 16, 4),), integers(-8, 7)),
        (packed(2, 16, 1, 2),),
    ),
    "IQ3_K": IkType(
        (
            *(_D, _E, Field("scales_h", 2, "u16", "minus signs of the scales")),
            *(_scale_field(16, 8), _code_field(64, 2), _code_field(32, 1, name="qh")),
        ),
        *((plane(14, 2, 32), plane(78, 1, 32, 2)), parts.V3, 16),
        *((packed(6, 16, 4), packed(4, 16, 1, 4)), parts.ODD_SIGNED, (packed(2, 16, 1, 3),)),
    ),
    "IQ4_K": IkType(
        (_D, _E, _scale_field(16, 4, "high"), _scale_field(16, 8, "low"), _code_field(128, 4)),
        *((plane(16, 4, 16),), parts.V4, 16, (packed(8, 16, 4), packed(4, 16, 2, 4)), _K),
        (packed(2, 16, 1, 4),),
    ),
    "IQ5_K": IkType(
        (
            *(_D, _E, _scale_field(16, 4, "high"), _scale_field(16, 8, "low")),
            *(_code_field(128, 4), _code_field(32, 1, name="qh")),
        ),
        *((plane(16, 4, 32), plane(144, 1, 32, 4)), parts.V5, 16),
        *((packed(8, 16, 4), packed(4, 16, 2, 4)), _K, (packed(2, 16, 1, 5),)),
    ),
    "IQ6_K": IkType(
        (
            *(_D, _E, Field("scales", 16, "i8", "scale of each 16 weights"), _code_field(128, 4)),
            _code_field(64, 2, name="qh"),
        ),
        *((plane(20, 4, 32), plane(148, 2, 32, 4)), parts.cubic(), 16, (packed(4, 16, 8),)),
        *(parts.SIGNED, (packed(2, 16, 1, 6),)),
    ),
    "IQ2_KS": IkType(
        (
            *(_ROW_HALF, Field("extra", 2, "u16", _SELECTS_AND_SCALES)),
            *(_scale_field(8, 4, "low"), _code_field(64, 2)),
        ),
        *((plane(8, 2, 32),), parts.V2, 32, (packed(4, 8, 4), packed(3, 8, 1, 4))),
        *(integers(-16, 15), (packed(2, 8, 1, 2),)),
    ),
    "IQ3_KS": IkType(
        (
            *(_ROW_HALF, Field("extra", 2, "u16", _SELECTS_AND_SCALES)),
            *(_scale_field(8, 4, "low"), _code_field(64, 2), _code_field(32, 1, name="qh")),
        ),
        *((plane(8, 2, 32), plane(72, 1, 32, 2)), parts.V3, 32),
        *((split(4, 8, 4), packed(2, 8, 1, 4)), integers(-16, 15), (packed(3, 8, 1, 3),)),
    ),
    "IQ2_KL": IkType(
        (
            *(_ROW_HALF, _scale_field(8, 2, "high"), _scale_field(8, 4, "low")),
            Field("qs", 64, "4 bits", "low bits of the pair of levels of two weights"),
            Field("qh", 16, "1 bit", "high bit of the pair"),
        ),
        *((), parts.V3[:8], 32, (split(4, 8, 4), packed(2, 8, 2, 4)), _K),
        rows=(plane(8, 4, 16, 0, 128), plane(72, 1, 16, 4, 128)),
        table=np.array(parts.PAIRS, np.uint8),
    ),
    "IQ4_KS": _ks((_ROW_D, _KS, _code_field(128, 4)), (plane(12, 4, 16),), parts.V4),
    "IQ5_KS": _ks(
        (_ROW_D, _KS, _code_field(128, 4), _code_field(32, 1, name="qh")),
        *((plane(12, 4, 32), plane(140, 1, 32, 4)), parts.V5),
    ),
    "IQ4_KSS": IkType(
        (_ROW_D, Field("qs", 128, "u16", "codes, and in lowest bits the scale of each 32 weights")),
        *(parts.KSS_CODES, parts.V4, 32, parts.KSS_SCALES, parts.KS, (every(32, 8, 128, 1, 4),)),
        d=SINGLE,
    ),
    "IQ1_KT": IkType(
        (
            *(_ROW_D, Field("sh", 8, "u8", "scale of 32 weights, a high bit of each start")),
            Field("ql", 32, "u8", "low bits of where the generator starts for each 8 weights"),
            Field("qh", 16, "4 bits", "high bits of these starts"),
        ),
        *((), parts.TRELLIS, 32, (every(32, 8, 8, 4),), parts.V4),
        d=SINGLE,
        rows=(packed(12, 32, 8), split(44, 32, 4, 8), parts.TOP_OF_IQ1_KT),
    ),
    "IQ2_KT": IkType(
        (_ROW_D, _scale_field(8, 4), _SEEDS),
        *((), parts.TRELLIS, 32, (split(4, 8, 4),), parts.V4),
        d=SINGLE,
        rows=(packed(8, 32, 16),),
    ),
    "IQ3_KT": IkType(
        (
            *(_ROW_D, _scale_field(8, 4), _SEEDS),
            Field("qh", 32, "1-bit signs", "set where a weight is negative"),
        ),
        *((plane(72, 1, 32),), np.append(parts.TRELLIS, np.float32(-0.0)), 32, (split(4, 8, 4),)),
        integers(0, 15),
        d=SINGLE,
        rows=(packed(8, 32, 16),),
    ),
    "IQ4_KT": IkType(
        (
            *(_ROW_D, Field("sh", 32, "u32", "of 32 weights: scale, high bits of the starts")),
            Field("ql", 64, "u8", "low bits of where the generator starts for each 4 weights"),
            Field("qh", 32, "4 bits", "high bits of these starts"),
        ),
        *((), parts.TRELLIS, 32, (every(33, 8, 32, 7),), integers(-64, 63)),
        d=SINGLE,
        rows=(packed(36, 64, 8), split(100, 64, 4, 8), *parts.TOP_OF_IQ4_KT),
    ),
    "Q6_0": _plain(
        (_D, _code_field(8, 2, name="qh"), _code_field(16, 4)),
        *((plane(10, 4, 16, 0, 32), spread(parts.OF_Q6_0, 2, 2, 32, 4)), integers(-32, 31)),
    ),
    "Q8_KV": _bytes(
        (_ROW_D, Field("sum", 4, "u8", "sum of the row's codes"), Field("qs", 32, "i8", "codes")),
        *(8, 32, SINGLE),
    ),
    "IQ1_BN": IkType(
        (_ROW_HALF, Field("ql", 12, "ternary", "five digits a byte"), _code_field(1, 2, name="qh")),
        *((), integers(-1, 1), 64),
        rows=(parts.DIGITS,),
        table=parts.TERNARY,
        start=parts.WHICH_DIGIT,
    ),
    "IQ2_BN": _plain(
        (_ROW_D, _code_field(16, 2)), *((plane(4, 2, 16, 0, 64),), integers(-1, 2), SINGLE)
    ),
    "I2_S": _plain(
        (
            *(Field("d", 4, "f32", "scale of the tensor"), Field("unused", 28, "u8", "nothing")),
            _code_field(32, 2),
        ),
        *((parts.OF_I2_S,), integers(-1, 2), SINGLE),
    ),
    "MXFP4 (old)": IkType(
        (Field("e", 1, "E8M0", "scale of the block"), _code_field(16, 4)),
        *((), parts.E2M1_TWICE, 32),
        d=POWER,
        rows=(packed(1, 32, 4),),
        table=np.arange(16, dtype=np.uint8)[:, None],
    ),
    "Q4_0_R8": _plain((_D, _code_field(16, 4, 4)), (plane(2, 4, 16, 0, 32),), integers(-8, 7)),
    "Q5_0_R4": _less(
        (_D, _code_field(4, 1, 4, "qh"), _code_field(16, 4, 4)),
        *((parts.x4(6, 32), parts.x1(2, 4, parts.ORDER_D, 32)), integers(0, 31), 16),
    ),
    "Q6_0_R4": _less(
        (_D, _code_field(8, 2, 4, "qh"), _code_field(16, 4, 4)),
        *((parts.x4(10, 32), parts.x2(2, 32, 4)), integers(0, 63), 32),
    ),
    "Q8_0_R8": _bytes((_D, Field("qs", 32, "i8", "codes", 4)), 2, 32),
    "IQ4_NL_R4": _plain((_D, _code_field(16, 4, 4)), (parts.x4(2, 32),), parts.V4[:16]),
    "MXFP4_R8": _plain(
        (Field("e", 1, "E8M0", "scale of the block"), _code_field(16, 4, 4)),
        *((plane(1, 4, 16, 0, 32),), parts.E2M1_TWICE, POWER),
    ),
    "Q2_K_R4": IkType(
        (
            *(_D, _DMIN, Field("scales", 16, "4 bits", "of each 16 weights: scale, minimum", 1)),
            _code_field(64, 2, 4),
        ),
        *((parts.x2(20),), integers(0, 3), 16, (every(32, 16, 8, 4),), integers(0, 15), ()),
        *((every(36, 16, 8, 4),), integers(0, 15), 2),
    ),
    "Q3_K_R4": IkType(
        (_D, _SH4, _SL8, _code_field(32, 1, 4, "qh"), _code_field(64, 2, 4)),
        *((parts.x2(46), parts.x1(14, 2, parts.ORDER_C)), integers(-4, 3), 16),
        *((split(6, 16, 4), split(2, 16, 2, 4)), _K),
    ),
    "Q4_K_R4": IkType(
        (
            *(_D, _DMIN, Field("scales_h", 4, "2 bits", "high bits of scales and minima", 1)),
            Field("scales_l", 8, "4 bits", "low bits of scales and minima", 1),
            _code_field(128, 4, 4),
        ),
        *((parts.x4(16),), integers(0, 15), 32),
        **_OF_Q4_K,
    ),
    "Q5_K_R4": IkType(
        (
            *(_D, _DMIN, Field("scales_h", 4, "2 bits", "high bits of scales and minima", 1)),
            Field("scales_l", 8, "4 bits", "low bits of scales and minima", 1),
            *(_code_field(32, 1, 4, "qh"), _code_field(128, 4, 4)),
        ),
        *((parts.x4(48), parts.x1(16, 4, parts.ORDER_B)), integers(0, 31), 32),
        **_OF_Q4_K,
    ),
    "Q6_K_R4": IkType(
        (
            *(_D, Field("scales", 16, "i8", "scale of each 16 weights", 1)),
            *(_code_field(64, 2, 4, "qh"), _code_field(128, 4, 4, "ql")),
        ),
        *((parts.x4(82), spread(parts.X2_OF_Q6_K, 18, 2, 256, 4)), integers(-32, 31), 16),
        *((packed(2, 16, 8),), parts.SIGNED),
    ),
    "IQ4_XS_R8": IkType(
        (_D, _scale_field(8, 2, "high", 1), _scale_field(8, 4, "low", 1), _code_field(128, 4, 4)),
        *((spread(parts.OF_IQ4_XS, 8, 4, 256),), parts.V4[:16], 32),
        *((split(4, 8, 4), split(2, 8, 2, 4)), _K),
    ),
    "IQ2_K_R4": IkType(
        (_D, _E8, _SC8, _code_field(64, 2, 4)),
        *((parts.x2(12),), parts.V2, 16, (split(4, 16, 4),), integers(-8, 7)),
        (split(2, 16, 1, 2),),
    ),
    "IQ3_K_R4": IkType(
        (
            *(_D, _E8, Field("scales_h", 2, "1 bit", "minus signs of the scales", 1), _SC8),
            *(_code_field(64, 2, 4), _code_field(32, 1, 4, "qh")),
        ),
        *((parts.x2(14), parts.x1(78, 2, parts.ORDER_C)), parts.V3, 16),
        *((split(6, 16, 4), split(4, 16, 1, 4)), parts.ODD_SIGNED, (split(2, 16, 1, 3),)),
    ),
    "IQ4_K_R4": IkType(
        (_D, _E8, _SH4, _SL8, _code_field(128, 4, 4)),
        *((parts.x4(16),), parts.V4, 16, (split(8, 16, 4), split(4, 16, 2, 4)), _K),
        (split(2, 16, 1, 4),),
    ),
    "IQ5_K_R4": IkType(
        (_D, _E8, _SH4, _SL8, _code_field(128, 4, 4), _code_field(32, 1, 4, "qh")),
        *((parts.x4(16), parts.x1(144, 4, parts.ORDER_A)), parts.V5, 16),
        *((split(8, 16, 4), split(4, 16, 2, 4)), _K, (split(2, 16, 1, 5),)),
    ),
    "IQ4_KS_R4": _ks(
        (_ROW_D, _KS._replace(width=1), _code_field(128, 4, 4)), *((parts.x4(12),), parts.V4)
    ),
    "IQ5_KS_R4": _ks(
        (_ROW_D, _KS._replace(width=1), _code_field(128, 4, 4), _code_field(32, 1, 4, "qh")),
        *((parts.x4(12), parts.x1(140, 4, parts.ORDER_A)), parts.V5),
    ),
    "IQ2_BN_R4": _plain(
        (_ROW_D, _code_field(16, 2, 4)), *((parts.x2(4, 64),), integers(-1, 2), SINGLE)
    ),
    "Q8_KV_R8": _bytes((_ROW_D, Field("qs", 32, "i8", "codes", 4)), 4, 32, SINGLE),
    "Q8_K_R8": _bytes((_D, Field("qs", 256, "i8", "codes", 4)), 2, 256),
    "Q8_K_R16": _less(
        (_D, Field("qs", 256, "u8", "codes", 4)), *((packed(2, 256, 8),), integers(0, 255), 128)
    ),
    "IQ2_XXS_R4": IkType(
        (
            *(_D, Field("scales_and_signs", 32, "u32", "of each 32 weights: scale, signs", 4)),
            Field("qs", 32, "u8", "the grid's row, for each 8 weights", 4),
        ),
        *((), parts.OF_IQ2, 32, parts.XXS_SCALES, _EIGHTH),
        rows=(packed(34, 32, 8),),
        table=Grid.IQ2XXS,
        signs=parts.signs_of(17, 32, 8),
    ),
    "IQ3_XXS_R4": IkType(
        (
            *(_D, Field("scales_and_signs", 32, "u32", "of each 32 weights: scale, signs", 4)),
            Field("qs", 64, "u8", "the grid's row, for each 4 weights", 8),
        ),
        *((), parts.OF_IQ3_XXS, 32, parts.XXS_SCALES, 2 * _EIGHTH),
        rows=(packed(34, 64, 8),),
        table=Grid.IQ3XXS,
        signs=parts.signs_of(17, 32, 8),
    ),
    "IQ2_XS_R4": IkType(
        (
            *(_D, Field("qs", 64, "u16", "for each 8 weights: 9-bit row, 7-bit signs", 8)),
            _scale_field(16, 8, "", 1),
        ),
        *((), parts.OF_IQ2, 16, (packed(66, 16, 4),), _EIGHTH),
        rows=(every(16, 32, 16, 9),),
        table=Grid.IQ2XS,
        signs=parts.signs_of(25, 32, 16),
    ),
    "IQ2_S_R4": IkType(
        (
            *(_D, Field("qs", 32, "u8", "low 8 bits of the grid's row, for each 8 weights", 4)),
            Field("qh", 8, "2 bits", "high bits of the row, for each 8 weights", 1),
            Field("signs", 32, "1-bit signs", "set where a weight is negative", 4),
            _scale_field(16, 8, "", 1),
        ),
        *((), parts.OF_IQ2, 16, (packed(74, 16, 4),), _EIGHTH),
        rows=(packed(2, 32, 8), packed(34, 32, 2, 8)),
        table=Grid.IQ2S,
        signs=(packed(42, 32, 8),),
    ),
    "IQ3_S_R4": IkType(
        (
            *(_D, Field("qs", 64, "u8", "low 8 bits of the grid's row, for each 4 weights", 1)),
            Field("qh", 8, "1 bit", "high bit of the row, for each 4 weights", 1),
            Field("signs", 32, "1-bit signs", "set where a weight is negative", 4),
            _scale_field(8, 4, "", 1),
        ),
        *((), parts.OF_IQ3_S, 32, (split(106, 8, 4),), parts.ODD),
        rows=parts.ROWS_OF_IQ3_S,
        table=Grid.IQ3S,
        signs=parts.SIGNS_OF_IQ3_S,
    ),
    "IQ1_S_R4": IkType(
        (
            _ROW_HALF,
            Field("qs", 4, "u8", "low bits of the grid's row, for each 8 weights", 1),
            Field("qh", 2, "u16", "4 x 3 high bits of the rows, scale, shift"),
        ),
        *((), parts.OF_IQ1, 32, (every(60, 1, 1, 3),), parts.ODD),
        rows=(packed(2, 4, 8), every(48, 4, 3, 3, 8), every(63, 4, 0, 1, 11)),
        table=Grid.IQ1S,
        start=1 << 11,
    ),
    "IQ1_M_R4": IkType(
        (
            _ROW_HALF,
            Field("qs", 4, "u8", "low bits of the grid's row, for each 8 weights", 1),
            Field("qh", 2, "4 bits", "for each 8 weights: 3 high bits of the row, shift", 1),
            Field("scales", 1, "4 bits", "scale of each 16 weights", 1),
        ),
        *((), parts.OF_IQ1, 16, (packed(8, 2, 4),), integers(0, 15)),
        rows=(packed(2, 4, 8), every(48, 4, 4, 3, 8), every(51, 4, 4, 1, 11)),
        table=Grid.IQ1S,
        start=1 << 11,
    ),
}

_NONE: Final = np.zeros(0, np.uint64)


def _program(kind: IkType) -> kernels.Program:
    """Return what kernels read of a type."""
    weights, levels, table = _weights(kind), kind.levels, _NONE
    eights, subs = weights // 8, weights // kind.weights_per_scale
    mode = kernels.BITS
    if kind.table is not None:
        given = parts.grid_codes(kind.table) if isinstance(kind.table, Grid) else kind.table
        mode, table = kernels.ROWS, parts.as_words(given)
    elif kind.rows:
        mode = kernels.TRELLIS
    whole = len(levels) <= kernels.LEVELS and bool((levels == np.rint(levels)).all())
    even = bool((np.diff(levels) == 1).all())
    short = np.zeros(kernels.LEVELS, np.int8)
    if whole:
        short[: len(levels)] = levels
    of_eights = np.arange(eights) * (len(kind.selects[0].places) if kind.selects else 1) // eights
    numbers = (
        parts.numbers(kind.selects, of_eights if kind.selects else of_eights[:0]),
        parts.numbers(
            kind.rows, np.arange(len(kind.rows[0].places) if kind.rows else 0), kind.start
        ),
        parts.numbers(kind.signs, np.arange(eights if kind.signs else 0)),
        parts.numbers(kind.scales, np.arange(subs)),
        parts.numbers(kind.minima or (), np.arange(0 if kind.minima is None else subs)),
    )
    of_levels = kernels.EVEN if even else kernels.WHOLE if whole else kernels.ANY
    pairs = kind.weights_per_scale // 16
    code_start = np.array([0 if kind.rows else kernels.EACH_OF_8 * kind.start], np.uint64)
    size = sum(field.nbytes for field in kind.fields)
    bits = (*parts.code_bits(kind.codes, weights), code_start, *parts.windows_of(numbers, size))
    return kernels.Program(
        np.array([mode, kind.d, of_levels, kind.min_at, pairs.bit_length() - 1]),
        *bits,
        table,
        parts.mirror_of(table) if kind.signs else _NONE,
        kind.factors,
        kind.min_factors,
        levels,
        short,
    )


def _weights(kind: IkType) -> int:
    """Return the weights of a block."""
    if kind.codes:
        return len(kind.codes[0].places)
    if kind.scales:
        return len(kind.scales[0].places) * kind.weights_per_scale
    return kind.weights_per_scale


def _room(kind: IkType) -> kernels.Room:
    weights = _weights(kind)
    subs = weights // kind.weights_per_scale
    return kernels.Room(
        np.empty(kernels.MOST, np.uint64),
        np.empty(weights // 8, np.uint64),
        np.empty(subs, np.float32),
        np.zeros(subs, np.float32),
    )


def _fields(kind: IkType) -> tuple[BlockField, ...]:
    found, at = [], 0
    for field in kind.fields:
        found.append(BlockField(field.name, at, field.nbytes, field.dtype, field.meaning))
        at += field.nbytes
    return tuple(found)


def _decoder(kind: IkType, program: kernels.Program) -> Decoder:
    return lambda blocks, out: kernels.decode(blocks, program, _room(kind), out)


def _layout(kind: IkType, program: kernels.Program) -> BlockLayout:
    def unpack_codes(blocks: Blocks, codes: Codes) -> None:
        kernels.unpack_codes(blocks, program, _room(kind), codes)

    def unpack_scales(blocks: Blocks, scales: Scales, minima: Scales) -> None:
        kernels.unpack_scales(blocks, program, _room(kind), scales, minima)

    return BlockLayout(
        levels=kind.levels,
        weights_per_scale=kind.weights_per_scale,
        fields=_fields(kind),
        unpack_codes=unpack_codes,
        unpack_scales=unpack_scales,
        has_minimum=kind.minima is not None,
    )


def _decode_bf16(blocks: Blocks, out: Weights) -> None:
    out.view(np.uint32)[:] = blocks.view("<u2").astype(np.uint32) << 16


_PROGRAMS: Final = {name: _program(kind) for name, kind in TYPES.items()}
DECODERS: Final = {
    **{name: _decoder(kind, _PROGRAMS[name]) for name, kind in TYPES.items()},
    "BF16_R16": _decode_bf16,
}
LAYOUTS: Final = {name: _layout(kind, _PROGRAMS[name]) for name, kind in TYPES.items()}

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
