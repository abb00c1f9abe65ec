"""Groups of small floats with a scale: nvfp4, mxfp4 and mxfp8. `grouped` has the layout.

The same numbers as ggml's NVFP4 and MXFP4 (`microscaling`), but packed otherwise, with scales that
may be negative or NaN, and with a minus zero. Codes are turned into floats by arithmetic, not by a
table, because arithmetic vectorizes. Every product but the one with a global scale is exact in
float32's normal range.

Source: `safetensors_and_blobs.md` section 4; mlx/backend/metal/kernels/fp_quantized.h.
"""

from __future__ import annotations

from typing import Any

from explorer.quantization.jit import (
    bits_of_float32,
    f32,
    float32_of_bits,
    float32_of_half,
    i32,
    inlined,
    kernel,
    u8,
    u16,
    u32,
)


@inlined
def _twice_e2m1(code: Any) -> Any:
    # Twice the magnitude is an integer below 16, and all eight fit one word: 12 8 6 4 3 2 1 0.
    nibble = (u32(code) & u32(7)) << u32(2)
    magnitude = f32(i32((u32(0xC8643210) >> nibble) & u32(15)))
    sign = (u32(code) & u32(8)) << u32(28)
    return float32_of_bits(bits_of_float32(magnitude) | sign)  # code 8 is -0


@inlined
def _e4m3(code: Any) -> Any:
    # Moved up by 7 bits it is a half float of 2^-8 the value, subnormal numbers included.
    magnitude = u16((u16(code) & u16(0x7F)) << u16(7))
    if magnitude == u16(0x7F << 7):
        magnitude = u16(0x7E00)  # NaN
    half = u16(magnitude | ((u16(code) & u16(0x80)) << u16(8)))
    return float32_of_half(half) * f32(256)


@kernel
def decode_nvfp4(packed: Any, scales: Any, global_scales: Any, out: Any) -> None:
    """Decode nvfp4.

    Args:
        packed: uint8 [groups, 8].
        scales: float32 [groups].
        global_scales: float32 [groups], or [1] for all of them.
        out: float32 [groups, 16], filled.
    """
    step = 0 if global_scales.size == 1 else 1
    for g in range(len(out)):
        # Half of a scale is exact, and undoes the doubling.
        scale, factor = scales[g] * f32(0.5), global_scales[g * step]
        for j in range(8):
            pair = packed[g, j]
            out[g, 2 * j] = _twice_e2m1(pair & u8(15)) * scale * factor
            out[g, 2 * j + 1] = _twice_e2m1(pair >> u8(4)) * scale * factor


@kernel
def decode_mxfp4(packed: Any, scales: Any, out: Any) -> None:
    """Decode mxfp4; packed: uint8 [groups, 16], scales: float32 [groups], out: [groups, 32]."""
    for g in range(len(out)):
        scale = scales[g] * f32(0.5)
        for j in range(16):
            pair = packed[g, j]
            out[g, 2 * j] = _twice_e2m1(pair & u8(15)) * scale
            out[g, 2 * j + 1] = _twice_e2m1(pair >> u8(4)) * scale


@kernel
def decode_mxfp8(packed: Any, scales: Any, out: Any) -> None:
    """Decode mxfp8; packed: uint8 [groups, 32], scales: float32 [groups], out: [groups, 32]."""
    for g in range(len(out)):
        scale = scales[g]
        for j in range(32):
            out[g, j] = _e4m3(packed[g, j]) * scale
