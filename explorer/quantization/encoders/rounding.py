"""How encoders round, as C does, in ways that become vector instructions."""

from __future__ import annotations

from typing import Any, Final

from explorer.quantization.jit import (
    bits_of_float32,
    f32,
    float32_of_bits,
    i32,
    inlined,
    routine,
    u32,
)

_LARGEST: Final = 3.4028234663852886e38
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
    whole = i32(x)
    rest = x - f32(whole)  # exact
    if rest >= f32(0.5):
        whole = i32(whole + 1)
    if rest <= f32(-0.5):
        whole = i32(whole - 1)
    return whole


@inlined
def inverse(x: Any) -> Any:
    """Return 1 / x, and 0 for 0."""
    return f32(1) / x if x != f32(0) else f32(0)


@routine
def load(values: Any, b: Any, first: Any, count: Any, x: Any) -> None:
    """Copy some weights of block `b` to `x`, with 0 for those that are not finite."""
    for i in range(count):
        x[i] = finite(values[b, first + i])


@routine
def largest(x: Any, count: Any) -> Any:
    """Return the largest magnitude among the first weights; as integers, maxima vectorize."""
    most = u32(0)
    for i in range(count):
        magnitude = bits_of_float32(x[i]) & u32(0x7FFFFFFF)
        most = magnitude if magnitude > most else most
    return float32_of_bits(most)


@routine
def signed_largest(x: Any, count: Any) -> Any:
    """Return the first weight of the largest magnitude."""
    most = largest(x, count)
    i = 0
    while i < count - 1 and abs(x[i]) != most:
        i += 1
    return x[i]


@routine
def least_and_greatest(x: Any, count: Any) -> Any:
    """Return both; of zeros of two signs, the first one."""
    low, high = i32(0x7FFFFFFF), i32(-0x80000000)
    for i in range(count):
        bits = i32(bits_of_float32(x[i]))
        # Negative floats order the other way round than their bits.
        order = i32(bits ^ i32(i32(bits >> i32(31)) & i32(0x7FFFFFFF)))
        low = order if order < low else low
        high = order if order > high else high
    least = float32_of_bits(u32(i32(low ^ i32(i32(low >> i32(31)) & i32(0x7FFFFFFF)))))
    greatest = float32_of_bits(u32(i32(high ^ i32(i32(high >> i32(31)) & i32(0x7FFFFFFF)))))
    if least == 0:
        i = 0
        while x[i] != 0:
            i += 1
        least = x[i]
    return least, greatest
