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
the block and so not applied here. Source: `gguf.md` section 8; ggml/src/ggml-quants.c,
`dequantize_row_mxfp4`, `dequantize_row_nvfp4`; ggml-impl.h, `ggml_e8m0_to_fp32_half`,
`ggml_ue4m3_to_fp32`.
"""

from __future__ import annotations

from typing import Any

from explorer.quantization.jit import callback_kernel, f32, float32_of_bits, i32, inlined, u32

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


@callback_kernel
def decode_mxfp4(blocks: Any, out: Any) -> None:
    """Decode MXFP4; blocks: uint8 [n, 17], out: float32 [n, 32]."""
    for b in range(blocks.shape[0]):
        scale = mxfp4_scale(blocks, b)
        for i in range(16):
            codes = blocks[b, 1 + i]
            out[b, i] = _doubled_e2m1(codes & 15) * scale
            out[b, 16 + i] = _doubled_e2m1(codes >> 4) * scale


@callback_kernel
def decode_nvfp4(blocks: Any, out: Any) -> None:
    """Decode NVFP4; blocks: uint8 [n, 36], out: float32 [n, 64]."""
    for b in range(blocks.shape[0]):
        for k in range(4):
            scale = nvfp4_scale(blocks, b, k)
            for i in range(8):
                codes = blocks[b, 4 + 8 * k + i]
                out[b, 16 * k + i] = _doubled_e2m1(codes & 15) * scale
                out[b, 16 * k + 8 + i] = _doubled_e2m1(codes >> 4) * scale


DECODERS = {"MXFP4": decode_mxfp4, "NVFP4": decode_nvfp4}
