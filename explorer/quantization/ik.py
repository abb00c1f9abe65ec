"""The types of ik_llama.cpp, and of BitNet's fork of llama.cpp: rows of a table.

What a row says, `bits` has. Blocks are whole ones: a header of the row, where there is one, and
then the block. Of types that store R rows together, a block of one row has the bytes that are its
own, in their order: each byte belongs to one row, and `Field.width` of them alternate with those of
the other rows.

::

    IQ4_K   d * (scale - 32) * V4[select of 16 weights][code]
    IQ4_KS  d of the row * ((scale & 254) - 127) * V4[scale & 1][code]
    IQ2_KT  d * scale * (sum of the four bytes of x & 0x3F3F3F3F) - 126), x = x * 0xCBAC1FED
    Q4_K_R4 (d * scale) * code - dmin * minimum

Source: `docs/gguf.md`, section 12; ik_llama.cpp, ggml/src/iqk/iqk_quantize.cpp, at 8337e4cd.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from explorer.quantization import bits as parts
from explorer.quantization.bits import (
    POWER,
    SINGLE,
    Bits,
    BitType,
    Field,
    Floats,
    every,
    packed,
    plane,
    split,
    spread,
)
from explorer.quantization.grids import Grid
from explorer.quantization.registry import Blocks, Weights, integers
from explorer.quantization.types import TENSOR_TYPES

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
_OF_Q4_K: Final[dict[str, Any]] = {
    "scales": (every(64, 8, 8, 4), Bits(_HIGH_OF_Q4_K, 3, 4)),
    "factors": integers(0, 63),
    "minima": (every(68, 8, 8, 4), Bits(_HIGH_OF_Q4_K + 2, 3, 4)),
    "min_factors": integers(0, 63),
    "min_at": 2,
}


def _ks(fields: tuple[Field, ...], codes: tuple[Bits, ...], levels: Floats) -> BitType:
    """Return a type with a scale of the row, and bytes of scale and select for 32 weights each."""
    return BitType(
        *(fields, codes, levels, 32, (packed(4, 8, 8),), parts.KS),
        selects=(every(32, 8, 8, 1, len(levels).bit_length() - 2),),
        d=SINGLE,
    )


def _plain(
    fields: tuple[Field, ...], codes: tuple[Bits, ...], levels: Floats, d: int = 0
) -> BitType:
    """Return a type whose blocks have a scale and no more."""
    return BitType(fields, codes, levels, len(codes[0].places), d=d)


def _bytes(fields: tuple[Field, ...], at: int, weights: int, d: int = 0) -> BitType:
    """Return a type whose codes are bytes with a sign."""
    codes = (packed(at, weights, 8),)
    return BitType(fields, codes, integers(-128, 127), weights, d=d, start=128)


def _less(
    fields: tuple[Field, ...], codes: tuple[Bits, ...], levels: Floats, minimum: int
) -> BitType:
    """Return a type that subtracts so many scales."""
    factors = integers(minimum, minimum)
    weights = len(codes[0].places)
    return BitType(fields, codes, levels, weights, minima=(), min_factors=factors)


TYPES: Final[dict[str, BitType]] = {
    "IQ2_K": BitType(
        (_D, _E, _scale_field(16, 8), _code_field(64, 2)),
        *((plane(12, 2, 32),), parts.V2, 16, (packed(4, 16, 4),), integers(-8, 7)),
        (packed(2, 16, 1, 2),),
    ),
    "IQ3_K": BitType(
        (
            *(_D, _E, Field("scales_h", 2, "u16", "minus signs of the scales")),
            *(_scale_field(16, 8), _code_field(64, 2), _code_field(32, 1, name="qh")),
        ),
        *((plane(14, 2, 32), plane(78, 1, 32, 2)), parts.V3, 16),
        *((packed(6, 16, 4), packed(4, 16, 1, 4)), parts.ODD_SIGNED, (packed(2, 16, 1, 3),)),
    ),
    "IQ4_K": BitType(
        (_D, _E, _scale_field(16, 4, "high"), _scale_field(16, 8, "low"), _code_field(128, 4)),
        *((plane(16, 4, 16),), parts.V4, 16, (packed(8, 16, 4), packed(4, 16, 2, 4)), _K),
        (packed(2, 16, 1, 4),),
    ),
    "IQ5_K": BitType(
        (
            *(_D, _E, _scale_field(16, 4, "high"), _scale_field(16, 8, "low")),
            *(_code_field(128, 4), _code_field(32, 1, name="qh")),
        ),
        *((plane(16, 4, 32), plane(144, 1, 32, 4)), parts.V5, 16),
        *((packed(8, 16, 4), packed(4, 16, 2, 4)), _K, (packed(2, 16, 1, 5),)),
    ),
    "IQ6_K": BitType(
        (
            *(_D, _E, Field("scales", 16, "i8", "scale of each 16 weights"), _code_field(128, 4)),
            _code_field(64, 2, name="qh"),
        ),
        *((plane(20, 4, 32), plane(148, 2, 32, 4)), parts.cubic(), 16, (packed(4, 16, 8),)),
        *(parts.SIGNED, (packed(2, 16, 1, 6),)),
        cubic=parts.CUBIC,
    ),
    "IQ2_KS": BitType(
        (
            *(_ROW_HALF, Field("extra", 2, "u16", _SELECTS_AND_SCALES)),
            *(_scale_field(8, 4, "low"), _code_field(64, 2)),
        ),
        *((plane(8, 2, 32),), parts.V2, 32, (packed(4, 8, 4), packed(3, 8, 1, 4))),
        *(integers(-16, 15), (packed(2, 8, 1, 2),)),
    ),
    "IQ3_KS": BitType(
        (
            *(_ROW_HALF, Field("extra", 2, "u16", _SELECTS_AND_SCALES)),
            *(_scale_field(8, 4, "low"), _code_field(64, 2), _code_field(32, 1, name="qh")),
        ),
        *((plane(8, 2, 32), plane(72, 1, 32, 2)), parts.V3, 32),
        *((split(4, 8, 4), packed(2, 8, 1, 4)), integers(-16, 15), (packed(3, 8, 1, 3),)),
    ),
    "IQ2_KL": BitType(
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
    "IQ4_KSS": BitType(
        (_ROW_D, Field("qs", 128, "u16", "codes, and in lowest bits the scale of each 32 weights")),
        *(parts.KSS_CODES, parts.V4, 32, parts.KSS_SCALES, parts.KS, (every(32, 8, 128, 1, 4),)),
        d=SINGLE,
    ),
    "IQ1_KT": BitType(
        (
            *(_ROW_D, Field("sh", 8, "u8", "scale of 32 weights, a high bit of each start")),
            Field("ql", 32, "u8", "low bits of where the generator starts for each 8 weights"),
            Field("qh", 16, "4 bits", "high bits of these starts"),
        ),
        *((), parts.TRELLIS, 32, (every(32, 8, 8, 4),), parts.V4),
        d=SINGLE,
        rows=(packed(12, 32, 8), split(44, 32, 4, 8), parts.TOP_OF_IQ1_KT),
    ),
    "IQ2_KT": BitType(
        (_ROW_D, _scale_field(8, 4), _SEEDS),
        *((), parts.TRELLIS, 32, (split(4, 8, 4),), parts.V4),
        d=SINGLE,
        rows=(packed(8, 32, 16),),
    ),
    "IQ3_KT": BitType(
        (
            *(_ROW_D, _scale_field(8, 4), _SEEDS),
            Field("qh", 32, "1-bit signs", "set where a weight is negative"),
        ),
        *((plane(72, 1, 32),), np.append(parts.TRELLIS, np.float32(-0.0)), 32, (split(4, 8, 4),)),
        integers(0, 15),
        d=SINGLE,
        rows=(packed(8, 32, 16),),
    ),
    "IQ4_KT": BitType(
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
    "IQ1_BN": BitType(
        (_ROW_HALF, Field("ql", 12, "ternary", "five digits a byte"), _code_field(1, 2, name="qh")),
        *((parts.DIGITS,), integers(-1, 1), 64),
        powers=parts.POWERS,
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
    "MXFP4 (old)": BitType(
        (Field("e", 1, "E8M0", "scale of the block"), _code_field(16, 4)),
        *((packed(1, 32, 4),), parts.E2M1_TWICE, 32),
        d=POWER,
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
    "Q2_K_R4": BitType(
        (
            *(_D, _DMIN, Field("scales", 16, "4 bits", "of each 16 weights: scale, minimum", 1)),
            _code_field(64, 2, 4),
        ),
        *((parts.x2(20),), integers(0, 3), 16, (every(32, 16, 8, 4),), integers(0, 15), ()),
        *((every(36, 16, 8, 4),), integers(0, 15), 2),
    ),
    "Q3_K_R4": BitType(
        (_D, _SH4, _SL8, _code_field(32, 1, 4, "qh"), _code_field(64, 2, 4)),
        *((parts.x2(46), parts.x1(14, 2, parts.ORDER_C)), integers(-4, 3), 16),
        *((split(6, 16, 4), split(2, 16, 2, 4)), _K),
    ),
    "Q4_K_R4": BitType(
        (
            *(_D, _DMIN, Field("scales_h", 4, "2 bits", "high bits of scales and minima", 1)),
            Field("scales_l", 8, "4 bits", "low bits of scales and minima", 1),
            _code_field(128, 4, 4),
        ),
        *((parts.x4(16),), integers(0, 15), 32),
        **_OF_Q4_K,
    ),
    "Q5_K_R4": BitType(
        (
            *(_D, _DMIN, Field("scales_h", 4, "2 bits", "high bits of scales and minima", 1)),
            Field("scales_l", 8, "4 bits", "low bits of scales and minima", 1),
            *(_code_field(32, 1, 4, "qh"), _code_field(128, 4, 4)),
        ),
        *((parts.x4(48), parts.x1(16, 4, parts.ORDER_B)), integers(0, 31), 32),
        **_OF_Q4_K,
    ),
    "Q6_K_R4": BitType(
        (
            *(_D, Field("scales", 16, "i8", "scale of each 16 weights", 1)),
            *(_code_field(64, 2, 4, "qh"), _code_field(128, 4, 4, "ql")),
        ),
        *((parts.x4(82), spread(parts.X2_OF_Q6_K, 18, 2, 256, 4)), integers(-32, 31), 16),
        *((packed(2, 16, 8),), parts.SIGNED),
    ),
    "IQ4_XS_R8": BitType(
        (_D, _scale_field(8, 2, "high", 1), _scale_field(8, 4, "low", 1), _code_field(128, 4, 4)),
        *((spread(parts.OF_IQ4_XS, 8, 4, 256),), parts.V4[:16], 32),
        *((split(4, 8, 4), split(2, 8, 2, 4)), _K),
    ),
    "IQ2_K_R4": BitType(
        (_D, _E8, _SC8, _code_field(64, 2, 4)),
        *((parts.x2(12),), parts.V2, 16, (split(4, 16, 4),), integers(-8, 7)),
        (split(2, 16, 1, 2),),
    ),
    "IQ3_K_R4": BitType(
        (
            *(_D, _E8, Field("scales_h", 2, "1 bit", "minus signs of the scales", 1), _SC8),
            *(_code_field(64, 2, 4), _code_field(32, 1, 4, "qh")),
        ),
        *((parts.x2(14), parts.x1(78, 2, parts.ORDER_C)), parts.V3, 16),
        *((split(6, 16, 4), split(4, 16, 1, 4)), parts.ODD_SIGNED, (split(2, 16, 1, 3),)),
    ),
    "IQ4_K_R4": BitType(
        (_D, _E8, _SH4, _SL8, _code_field(128, 4, 4)),
        *((parts.x4(16),), parts.V4, 16, (split(8, 16, 4), split(4, 16, 2, 4)), _K),
        (split(2, 16, 1, 4),),
    ),
    "IQ5_K_R4": BitType(
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
    "IQ2_XXS_R4": BitType(
        (
            *(_D, Field("scales_and_signs", 32, "u32", "of each 32 weights: scale, signs", 4)),
            Field("qs", 32, "u8", "the grid's row, for each 8 weights", 4),
        ),
        *((), parts.OF_IQ2, 32, parts.XXS_SCALES, _EIGHTH),
        rows=(packed(34, 32, 8),),
        table=Grid.IQ2XXS,
        signs=parts.signs_of(17, 32, 8),
    ),
    "IQ3_XXS_R4": BitType(
        (
            *(_D, Field("scales_and_signs", 32, "u32", "of each 32 weights: scale, signs", 4)),
            Field("qs", 64, "u8", "the grid's row, for each 4 weights", 8),
        ),
        *((), parts.OF_IQ3_XXS, 32, parts.XXS_SCALES, 2 * _EIGHTH),
        rows=(packed(34, 64, 8),),
        table=Grid.IQ3XXS,
        signs=parts.signs_of(17, 32, 8),
    ),
    "IQ2_XS_R4": BitType(
        (
            *(_D, Field("qs", 64, "u16", "for each 8 weights: 9-bit row, 7-bit signs", 8)),
            _scale_field(16, 8, "", 1),
        ),
        *((), parts.OF_IQ2, 16, (packed(66, 16, 4),), _EIGHTH),
        rows=(every(16, 32, 16, 9),),
        table=Grid.IQ2XS,
        signs=parts.signs_of(25, 32, 16),
    ),
    "IQ2_S_R4": BitType(
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
    "IQ3_S_R4": BitType(
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
    "IQ1_S_R4": BitType(
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
    "IQ1_M_R4": BitType(
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


def _decode_bf16(blocks: Blocks, out: Weights) -> None:
    out.view(np.uint32)[:] = blocks.view("<u2").astype(np.uint32) << 16


DECODERS: Final = {"BF16_R16": _decode_bf16}

_WIDTH_OF_BF16: Final = 4


@cache
def row_places(type_name: str) -> NDArray[np.int64]:
    """Return where each byte of a row's block is among those of rows that are stored together.

    int64 [rows, whole bytes]: a byte of the header among the headers, one of the block among the
    blocks of all these rows; see `bit_kernels.gather_rows`.
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
