"""FP4: 4-bit floats with a small float as scale.

::

    MXFP4  | e: scale, E8M0 | qs 16 B: 4-bit codes |                     32 weights
    NVFP4  | d 4 B: scales, UE4M3 | qs 32 B: 4-bit codes |               64 weights, 16 a scale

    MXFP4: low halves of qs are weights 0-15, high halves 16-31; NVFP4: the same with 8 bytes and
    16 weights for each scale
    code    sign | exponent 2 bits | mantissa 1 bit (E2M1); both types keep twice its value:
            0 1 2 3 4 6 8 12, with sign bit 0 -1 -2 -3 -4 -6 -8 -12; their scales are halved
    E8M0    2^(e - 127); e = 255, NaN in the OCP standard, is not treated apart
    UE4M3   bit 7 unused | exponent 4 bits, bias 7 | mantissa 3 bits; 0x7F, a NaN, counts as 0

Converted NVFP4 files carry one more float32 factor in a tensor beside the weights, which is not in
the block and so not applied here. Source: `docs/gguf.md`, section 8; ggml/src/ggml-quants.c,
`dequantize_row_mxfp4`, `dequantize_row_nvfp4`; ggml-impl.h, `ggml_e8m0_to_fp32_half`,
`ggml_ue4m3_to_fp32`.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

from explorer.quantization.jit import (
    bits_of_float32,
    f32,
    float32_of_bits,
    i32,
    inlined,
    kernel,
    u8,
    u32,
)
from explorer.quantization.registry import BlockField, BlockLayout
from explorer.quantization.scale_search import clamped, largest, load

# Magnitudes of the eight codes without sign, four bits each, code 0 lowest. Shifting a number by
# the code is a vector instruction; looking into a table is not.
_MAGNITUDES = 0xC8643210


@inlined
def _doubled_e2m1(code: Any) -> Any:
    magnitude = i32(u32(_MAGNITUDES) >> u32(u32(code & 7) * u32(4)) & u32(15))
    if code > 7:
        magnitude = i32(-magnitude)  # of the integer, which has no -0
    return f32(i32(magnitude))


@inlined
def mxfp4_scale(blocks: Any, b: Any) -> Any:
    """Return half of the block's E8M0 scale, 2^(e - 128); the least two are subnormal."""
    e = u32(blocks[b, 0])
    return float32_of_bits(u32(0x200000) << e if e < 2 else e - u32(1) << u32(23))


@inlined
def nvfp4_scale(blocks: Any, b: Any, k: Any) -> Any:
    """Return half of the UE4M3 scale of sub-block k of 4."""
    byte = blocks[b, k]
    if byte == 0x7F:
        return f32(0.0)
    exponent = u32(byte >> 3 & 15)
    mantissa = f32(byte & 7)
    if exponent == 0:
        return mantissa * f32(2.0**-10)
    # 2^(exponent - 7) / 2, by its bits; all products here are exact.
    return (f32(1.0) + mantissa * f32(0.125)) * float32_of_bits(exponent + u32(119) << u32(23))


@kernel
def _decode_mxfp4(blocks: Any, out: Any) -> None:
    for b in range(blocks.shape[0]):
        scale = mxfp4_scale(blocks, b)
        for i in range(16):
            codes = blocks[b, 1 + i]
            out[b, i] = _doubled_e2m1(codes & 15) * scale
            out[b, 16 + i] = _doubled_e2m1(codes >> 4) * scale


@kernel
def _decode_nvfp4(blocks: Any, out: Any) -> None:
    for b in range(blocks.shape[0]):
        for k in range(4):
            scale = nvfp4_scale(blocks, b, k)
            for i in range(8):
                codes = blocks[b, 4 + 8 * k + i]
                out[b, 16 * k + i] = _doubled_e2m1(codes & 15) * scale
                out[b, 16 * k + 8 + i] = _doubled_e2m1(codes >> 4) * scale


DECODERS = {"MXFP4": _decode_mxfp4, "NVFP4": _decode_nvfp4}


# Codes and scales of FP4 blocks.
#
# Levels are E2M1's own values and scales the stored ones. The decoders double the former and
# halve the latter, as ggml does, which gives the same products.


_E2M1_MAGNITUDES = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
# ggml reads the code of -0 as 0.
_LEVELS = np.array(
    _E2M1_MAGNITUDES + [0.0 - magnitude for magnitude in _E2M1_MAGNITUDES], np.float32
)


@kernel
def _codes_of_mxfp4(blocks: Any, codes: Any) -> None:
    for b in range(blocks.shape[0]):
        for i in range(16):
            codes[b, i] = blocks[b, 1 + i] & 15
            codes[b, 16 + i] = blocks[b, 1 + i] >> 4


@kernel
def _scales_of_mxfp4(blocks: Any, scales: Any, _minima: Any) -> None:
    for b in range(blocks.shape[0]):
        scales[b, 0] = mxfp4_scale(blocks, b) * f32(2.0)


@kernel
def _codes_of_nvfp4(blocks: Any, codes: Any) -> None:
    for b in range(blocks.shape[0]):
        for k in range(4):
            for i in range(8):
                codes[b, 16 * k + i] = blocks[b, 4 + 8 * k + i] & 15
                codes[b, 16 * k + 8 + i] = blocks[b, 4 + 8 * k + i] >> 4


@kernel
def _scales_of_nvfp4(blocks: Any, scales: Any, _minima: Any) -> None:
    for b in range(blocks.shape[0]):
        for k in range(4):
            scales[b, k] = nvfp4_scale(blocks, b, k) * f32(2.0)


LAYOUTS = {
    "MXFP4": BlockLayout(
        levels=_LEVELS,
        weights_per_scale=32,
        fields=(
            BlockField("e", 0, 1, "E8M0", "scale of all weights, a power of two"),
            BlockField("qs", 1, 16, "4-bit codes", "weights 0-15 in the low halves, 16-31 in high"),
        ),
        unpack_codes=_codes_of_mxfp4,
        unpack_scales=_scales_of_mxfp4,
    ),
    "NVFP4": BlockLayout(
        levels=_LEVELS,
        weights_per_scale=16,
        fields=(
            BlockField("d", 0, 4, "UE4M3", "one scale for each 16 weights"),
            BlockField("qs", 4, 32, "4-bit codes", "of each 16 weights: 0-7 low halves, 8-15 high"),
        ),
        unpack_codes=_codes_of_nvfp4,
        unpack_scales=_scales_of_nvfp4,
    ),
}


# FP4: each weight to the nearest of 15 numbers, of two that are equally near to the smaller.
#
# Source: ggml/src/ggml-quants.c, `quantize_row_mxfp4_ref`, `quantize_row_nvfp4_ref`; ggml-impl.h,
# `ggml_fp32_to_ue4m3`.


@inlined
def _e2m1(x: Any, scale: Any) -> Any:
    """Return the code for x, where `scale` is half of the block's: codes are 0 1 2 3 4 6 8 12."""
    magnitude = abs(x)
    code = u8(magnitude > f32(0.5) * scale)
    code += u8(magnitude > f32(1.5) * scale)
    code += u8(magnitude > f32(2.5) * scale)
    code += u8(magnitude > f32(3.5) * scale)
    code += u8(magnitude > f32(5) * scale)
    code += u8(magnitude > f32(7) * scale)
    code += u8(magnitude > f32(10) * scale)
    if x < 0 and code > 0:
        code += u8(8)
    return u8(code)


@inlined
def _e2m1_of_far(x: Any, scale: Any) -> Any:
    """Return the same for x so large that rounded distances are alike: C takes the first."""
    least, code = abs(x), u8(0)
    for n in range(1, 8):
        distance = abs(f32(_LEVELS[n]) * f32(2) * scale - abs(x))
        if distance < least:
            least, code = distance, u8(n)
    return u8(code + u8(8)) if x < 0 and code > 0 else code


@inlined
def _exponent(most: Any) -> Any:
    """Return the E8M0 code with which the largest magnitude is 4 to 8 times the scale.

    Below 2^-125 it would be negative, and in C, too, its low byte is taken: a scale so large that
    all weights become 0.
    """
    if most == 0:
        return u8(0)
    # As in C, the logarithm is rounded to float32 before it is rounded down.
    whole = math.floor(f32(math.log2(numba.float64(most))))
    return u8(i32(whole) + i32(127 - 2))


@inlined
def _ue4m3(x: Any) -> Any:
    """Return the nearest UE4M3 code of a number that is not negative, ties up.

    From 256 on it is 448, as in C, though the type has five numbers between them.
    """
    if x >= f32(2.0**-6):
        bits = bits_of_float32(x) + u32(1 << 19)  # half of the last place that is kept
        code = i32(bits >> u32(20)) - i32((127 - 7) << 3)
        return u8(code) if code < i32(15 << 3) else u8(0x7E)
    return u8(clamped(x * f32(512) + f32(0.5), f32(0), f32(7)))  # C does not round 7.5 up to 8


@kernel
def _encode_mxfp4(values: Any, _importance: Any, blocks: Any, work: Any) -> None:
    x = work.x
    for b in range(blocks.shape[0]):
        load(values, b, 0, 32, x)
        blocks[b, 0] = _exponent(largest(x, 32))
        scale = mxfp4_scale(blocks, b)
        for i in range(16):
            blocks[b, 1 + i] = _e2m1(x[i], scale) | _e2m1(x[16 + i], scale) << 4


@kernel
def _encode_nvfp4(values: Any, _importance: Any, blocks: Any, work: Any) -> None:
    x = work.x
    for b in range(blocks.shape[0]):
        for k in range(4):
            load(values, b, 16 * k, 16, x)
            most = largest(x, 16)
            blocks[b, k] = _ue4m3(most / f32(6))
            scale = nvfp4_scale(blocks, b, k)
            if scale == 0:
                for i in range(8):
                    blocks[b, 4 + 8 * k + i] = 0
            elif most > f32(1 << 31):
                for i in range(8):
                    low, high = _e2m1_of_far(x[i], scale), _e2m1_of_far(x[8 + i], scale)
                    blocks[b, 4 + 8 * k + i] = low | high << 4
            else:
                for i in range(8):
                    blocks[b, 4 + 8 * k + i] = _e2m1(x[i], scale) | _e2m1(x[8 + i], scale) << 4


ENCODERS = {"MXFP4": _encode_mxfp4, "NVFP4": _encode_nvfp4}
