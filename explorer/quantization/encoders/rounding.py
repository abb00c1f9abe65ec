"""How encoders read weights, and round as C does, in ways that become vector instructions."""

from __future__ import annotations

from typing import Any, Final

from explorer.quantization.jit import (
    bits_of_float32,
    f32,
    float32_of_bits,
    i32,
    inlined,
    u32,
)

_LARGEST: Final = 3.4028234663852886e38
_BELOW_HALF: Final = 0.49999997  # the greatest float32 below 0.5
_ROUNDER: Final = 12582912.0  # 1.5 * 2^23, beyond which a float32 has no fraction


@inlined
def finite(x: Any) -> Any:
    """Return x, but 0 for NaN and infinities, which no block can hold."""
    return x if abs(x) <= f32(_LARGEST) else f32(0)


@inlined
def nearest(x: Any) -> Any:
    """Return the nearest whole number, as float32, ties to even; |x| below 2^22."""
    return (x + f32(_ROUNDER)) - f32(_ROUNDER)


@inlined
def clamped(x: Any, low: Any, high: Any) -> Any:
    """Return x between two bounds; NaN gives the lower one."""
    x = x if x > low else low
    return x if x < high else high


@inlined
def away_from_zero(x: Any) -> Any:
    """Return the nearest whole number, as int32, ties away from zero (C's roundf); |x| < 2^31."""
    # Just less than a half, so that what lies just below a half is not rounded up by the sum.
    half = f32(_BELOW_HALF) if x >= 0 else f32(-_BELOW_HALF)
    return i32(x + half)


@inlined
def inverse(x: Any) -> Any:
    """Return 1 / x, and 0 for 0."""
    return f32(1) / x if x != f32(0) else f32(0)


@inlined
def load(values: Any, b: Any, first: Any, count: Any, x: Any) -> None:
    """Copy some weights of block `b` to `x`, with 0 for those that are not finite."""
    for i in range(count):
        x[i] = finite(values[b, first + i])


@inlined
def largest(x: Any, count: Any) -> Any:
    """Return the largest magnitude among the first weights; as integers, maxima vectorize."""
    most = u32(0)
    for i in range(count):
        magnitude = bits_of_float32(x[i]) & u32(0x7FFFFFFF)
        most = magnitude if magnitude > most else most
    return float32_of_bits(most)


@inlined
def mean_square(values: Any, b: Any, count: Any) -> Any:
    """Return the mean square of the weights of block `b`; those that are not finite count as 0."""
    total = f32(0)
    for i in range(count):
        x = finite(values[b, i])
        total += x * x
    return total / f32(count)


@inlined
def ordered(bits: Any) -> Any:
    """Return an int32 that orders as the float32 of these bits does; and the other way back."""
    return i32(bits ^ i32(i32(bits >> i32(31)) & i32(0x7FFFFFFF)))


@inlined
def load_range(values: Any, b: Any, count: Any, x: Any) -> Any:
    """Copy the weights of block `b` to `x`, as `load` does, and return the least and greatest."""
    low, high = i32(0x7FFFFFFF), i32(-0x80000000)
    for i in range(count):
        v = finite(values[b, i])
        x[i] = v
        order = ordered(i32(bits_of_float32(v)))
        low = order if order < low else low
        high = order if order > high else high
    return float32_of_bits(u32(ordered(low))), float32_of_bits(u32(ordered(high)))


@inlined
def first_of(x: Any, value: Any, count: Any) -> Any:
    """Return the first weight whose magnitude is that of `value`: there may be one of each sign."""
    i = 0
    while i < count - 1 and abs(x[i]) != abs(value):
        i += 1
    return x[i]
