"""FP4: each weight to the nearest of 15 numbers, of two that are equally near to the smaller.

Source: ggml/src/ggml-quants.c, `quantize_row_mxfp4_ref`, `quantize_row_nvfp4_ref`; ggml-impl.h,
`ggml_fp32_to_ue4m3`.
"""

from __future__ import annotations

import math
from typing import Any

import numba

from explorer.quantization.decoders.microscaling import mxfp4_scale, nvfp4_scale
from explorer.quantization.encoders.rounding import clamped, largest, load
from explorer.quantization.jit import bits_of_float32, f32, i32, inlined, kernel, u8, u32


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
def _exponent(most: Any) -> Any:
    """Return the E8M0 code with which the largest magnitude is 4 to 8 times the scale."""
    if most == 0:
        return u8(0)
    # As in C, the logarithm is rounded to float32 before it is rounded down.
    whole = math.floor(f32(math.log2(numba.float64(most))))
    return u8(min(max(whole - 2 + 127, 0), 254))


@inlined
def _ue4m3(x: Any) -> Any:
    """Return the nearest UE4M3 code of a number that is not negative, ties up, 448 at most."""
    if x >= f32(2.0**-6):
        bits = bits_of_float32(x) + u32(1 << 19)  # half of the last place that is kept
        code = i32(bits >> u32(20)) - i32((127 - 7) << 3)
        return u8(min(code, i32(0x7E)))
    return u8(clamped(x * f32(512) + f32(0.5), f32(0), f32(7)))  # C does not round 7.5 up to 8


@kernel
def encode_mxfp4(values: Any, _importance: Any, blocks: Any, work: Any) -> None:
    """Encode MXFP4; see `Encode`."""
    x = work.x
    for b in range(blocks.shape[0]):
        load(values, b, 0, 32, x)
        blocks[b, 0] = _exponent(largest(x, 32))
        scale = mxfp4_scale(blocks, b)
        for i in range(16):
            blocks[b, 1 + i] = _e2m1(x[i], scale) | _e2m1(x[16 + i], scale) << 4


@kernel
def encode_nvfp4(values: Any, _importance: Any, blocks: Any, work: Any) -> None:
    """Encode NVFP4; see `Encode`."""
    x = work.x
    for b in range(blocks.shape[0]):
        for k in range(4):
            load(values, b, 16 * k, 16, x)
            blocks[b, k] = _ue4m3(largest(x, 16) / f32(6))
            scale = nvfp4_scale(blocks, b, k)
            if scale == 0:
                for i in range(8):
                    blocks[b, 4 + 8 * k + i] = 0
            else:
                for i in range(8):
                    blocks[b, 4 + 8 * k + i] = _e2m1(x[i], scale) | _e2m1(x[8 + i], scale) << 4


ENCODERS = {"MXFP4": encode_mxfp4, "NVFP4": encode_nvfp4}
