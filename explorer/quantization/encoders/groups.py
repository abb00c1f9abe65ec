"""Groups with scales of their own, as MLX makes them: affine, nvfp4, mxfp4 and mxfp8.

Source: mlx/backend/cpu/quantized.cpp, `quantize` and `fp_quantize`; mlx/ops.cpp, `fp_quantize`.
"""

from __future__ import annotations

import math
from typing import Any

from explorer.quantization.encoders.rounding import clamped, finite, nearest
from explorer.quantization.jit import (
    bits_of_float32,
    f32,
    float32_of_bits,
    i32,
    inlined,
    kernel,
    u8,
    u32,
    u64,
)


@inlined
def _e4m3(x: Any) -> Any:
    """Return the nearest E4M3 code, ties to even, 448 at most."""
    bits = bits_of_float32(clamped(abs(x), f32(0), f32(448)))
    if bits >= u32((127 - 6) << 23):
        rounded = bits + u32(0x7FFFF) + ((bits >> u32(20)) & u32(1))
        code = u8((rounded >> u32(20)) - u32((127 - 7) << 3))
    else:
        code = u8(i32(nearest(float32_of_bits(bits) * f32(512))))  # steps of 2^-9
    return u8(code | u8((bits_of_float32(x) >> u32(24)) & u32(0x80)))


@inlined
def _e2m1(x: Any) -> Any:
    """Return the nearest E2M1 code, of two that are equally near the smaller; never that of -0."""
    magnitude = abs(x)
    code = u8(magnitude > f32(0.25))
    code += u8(magnitude > f32(0.75))
    code += u8(magnitude > f32(1.25))
    code += u8(magnitude > f32(1.75))
    code += u8(magnitude > f32(2.5))
    code += u8(magnitude > f32(3.5))
    code += u8(magnitude > f32(5))
    if x < 0 and code > 0:
        code += u8(8)
    return u8(code)


@inlined
def _largest(values: Any, g: Any) -> Any:
    most = f32(0)
    for i in range(values.shape[1]):
        x = abs(finite(values[g, i]))
        most = x if x > most else most
    return most


@inlined
def _power(most: Any, top: Any) -> Any:
    """Return the E8M0 code of the least power of two that brings `most` to `top` or below."""
    if most == 0:
        return u8(0)
    power = f32(math.ceil(math.log2(most / top)))
    return u8(i32(clamped(power, f32(-127), f32(127))) + i32(127))


@kernel
def encode_affine(values: Any, bits: Any, scales: Any, biases: Any, packed: Any) -> None:
    """Encode affine groups.

    Args:
        values: float32 [groups, group size].
        bits: Bits of a code, 2 to 8.
        scales: float32 [groups], filled; not yet rounded to the type that they are stored in.
        biases: The same.
        packed: uint8 [groups, bytes of a group's codes], filled.
    """
    top = f32((1 << bits) - 1)
    for g in range(values.shape[0]):
        low = high = finite(values[g, 0])
        for i in range(values.shape[1]):
            x = finite(values[g, i])
            low = x if x < low else low
            high = x if x > high else high
        # The end that is farther from zero becomes exact, and zero too.
        edge = low if abs(low) > abs(high) else high
        scale = max((high - low) / top, f32(1e-7))
        scale = scale if abs(low) > abs(high) else -scale
        steps = nearest(edge / scale)
        bias = f32(0)
        if steps != 0:
            scale, bias = edge / steps, edge
        scales[g], biases[g] = scale, bias
        for i in range(values.shape[1] // 8):
            word = u64(0)
            for j in range(8):
                x = (finite(values[g, 8 * i + j]) - bias) / scale
                code = i32(clamped(nearest(x), f32(0), top))
                word |= u64(code) << u64(j * bits)
            for j in range(bits):
                packed[g, i * bits + j] = u8((word >> u64(8 * j)) & u64(255))


@inlined
def _store_e2m1(values: Any, g: Any, scale: Any, packed: Any) -> None:
    divisor = scale if scale != 0 else f32(math.inf)
    for i in range(packed.shape[1]):
        low, high = finite(values[g, 2 * i]), finite(values[g, 2 * i + 1])
        packed[g, i] = _e2m1(low / divisor) | _e2m1(high / divisor) << 4


@kernel
def encode_nvfp4(values: Any, scales: Any, decoded: Any, packed: Any) -> None:
    """Encode nvfp4.

    Args:
        values: float32 [groups, 16].
        scales: uint8 [groups], filled: E4M3.
        decoded: float32 [256]: what each E4M3 code is worth.
        packed: uint8 [groups, 8], filled.
    """
    for g in range(values.shape[0]):
        scales[g] = _e4m3(_largest(values, g) / f32(6))
        _store_e2m1(values, g, decoded[scales[g]], packed)


@kernel
def encode_mxfp4(values: Any, scales: Any, decoded: Any, packed: Any) -> None:
    """Encode mxfp4; values: float32 [groups, 32], scales: E8M0, packed: uint8 [groups, 16]."""
    for g in range(values.shape[0]):
        scales[g] = _power(_largest(values, g), f32(6))
        _store_e2m1(values, g, decoded[scales[g]], packed)


@kernel
def encode_mxfp8(values: Any, scales: Any, decoded: Any, packed: Any) -> None:
    """Encode mxfp8; values: float32 [groups, 32], scales: E8M0, packed: uint8 [groups, 32]."""
    for g in range(values.shape[0]):
        scales[g] = _power(_largest(values, g), f32(448))
        scale = decoded[scales[g]]
        for i in range(values.shape[1]):
            packed[g, i] = _e4m3(finite(values[g, i]) / scale)
