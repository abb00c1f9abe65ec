"""Blocks of one scale: from the range of the block, or searched where importance is given.

Without importance, bytes are those of ggml's reference code. With it a weight counts as in ggml, by
importance times the root of its square plus the row's mean square.

Source: ggml/src/ggml-quants.c, `quantize_row_q4_0_ref` and its siblings, `quantize_row_q4_0_impl`
and its siblings.
"""

from __future__ import annotations

import math
from typing import Any

from explorer.quantization.encoders.contract import LANES
from explorer.quantization.encoders.lanes import MINIMUM, SCALE
from explorer.quantization.encoders.rounding import (
    away_from_zero,
    clamped,
    finite,
    first_of,
    inverse,
    largest,
    load,
    load_range,
    nearest,
)
from explorer.quantization.encoders.search_minima import Steps, search_scales_and_minima
from explorer.quantization.encoders.search_scales import search_scales
from explorer.quantization.jit import (
    f32,
    i32,
    inlined,
    kernel,
    routine,
    set_half,
    set_u16,
    u8,
    u16,
    u32,
)

_STEPS_4_1 = Steps(32, 15.0, -0.9, 0.05, 36, absolute=False)
_STEPS_5_1 = Steps(32, 31.0, -0.9, 0.05, 36, absolute=False)


@routine
def _mean_square(values: Any, b: Any, row: Any) -> Any:
    """Return the mean square of a row of blocks, the one that block `b` is in."""
    total = 0.0
    first = b - b % row
    for other in range(first, min(first + row, values.shape[0])):
        for i in range(32):
            x = finite(values[other, i])
            total += x * x
    return f32(total / (32 * row))


@routine
def _weigh(importance: Any, b: Any, mean_square: Any, work: Any) -> None:
    """Spread the block in `work.x` over lane 0, with what its weights count; other lanes are 0."""
    row = b % importance.shape[0]
    for i in range(31, -1, -1):  # from the end, because x is spread over itself
        x = work.x[i]
        for k in range(1, LANES):
            work.x[LANES * i + k] = f32(0)
            work.w[LANES * i + k] = f32(0)
        work.x[LANES * i] = x
        work.w[LANES * i] = importance[row, i] * f32(math.sqrt(mean_square + x * x))


@inlined
def _symmetric(values: Any, importance: Any, b: Any, half: Any, work: Any) -> Any:
    """Write what is to be truncated to codes of Q4_0 (half = 8) or Q5_0 (16), return the scale."""
    x, middle = work.x, f32(half)
    low, high = load_range(values, b, 32, x)
    if importance is None:
        most = high if high > -low else low
        if high == -low:
            most = first_of(x, high, 32)
        d = most / f32(-half)
        factor = inverse(d)
        for i in range(32):
            x[i] = clamped(x[i] * factor + (middle + f32(0.5)), f32(0), f32(2 * half - 1))
    else:
        _weigh(importance, b, _mean_square(values, b, importance.shape[0]), work)
        search_scales(x, work.w, work.lanes, 32, half)
        d = work.lanes[SCALE]
        factor = inverse(d)
        for i in range(32):
            x[i] = clamped(nearest(x[LANES * i] * factor) + middle, f32(0), f32(2 * half - 1))
    return d


@inlined
def _affine(values: Any, importance: Any, b: Any, steps: Any, work: Any) -> Any:
    """Write what is to be truncated to codes of Q4_1 or Q5_1, return scale and minimum."""
    x, top = work.x, f32(steps.top)
    m, high = load_range(values, b, 32, x)
    if importance is None:
        if m == 0:
            m = first_of(x, m, 32)  # of 0 and -0, as in C
        d = (high - m) / top
        factor = inverse(d)
        for i in range(32):
            x[i] = clamped((x[i] - m) * factor + f32(0.5), f32(0), top)
    else:
        _weigh(importance, b, _mean_square(values, b, importance.shape[0]), work)
        search_scales_and_minima(x, work.w, work.lanes, steps)
        d, m = work.lanes[SCALE], -work.lanes[MINIMUM]
        factor = inverse(d)
        for i in range(32):
            x[i] = clamped(nearest((x[LANES * i] - m) * factor), f32(0), top)
    return d, m


@inlined
def _store_nibbles(x: Any, blocks: Any, b: Any, offset: Any) -> None:
    for i in range(16):
        low, high = i32(x[i]), i32(x[16 + i])
        blocks[b, offset + i] = u8((low & i32(15)) | (high & i32(15)) << i32(4))


@inlined
def _store_fifth_bits(x: Any, blocks: Any, b: Any, offset: Any) -> None:
    bits = u32(0)
    for i in range(32):
        bits = u32(bits | u32(u32(u32(i32(x[i])) >> u32(4)) << u32(i)))
    set_u16(blocks, b, offset, u16(bits & u32(0xFFFF)))
    set_u16(blocks, b, offset + 2, u16(bits >> u32(16)))


@kernel
def encode_q4_0(values: Any, importance: Any, blocks: Any, work: Any) -> None:
    """Encode Q4_0; see `Encode`."""
    for b in range(blocks.shape[0]):
        set_half(blocks, b, 0, _symmetric(values, importance, b, 8, work))
        _store_nibbles(work.x, blocks, b, 2)


@kernel
def encode_q5_0(values: Any, importance: Any, blocks: Any, work: Any) -> None:
    """Encode Q5_0; see `Encode`."""
    for b in range(blocks.shape[0]):
        set_half(blocks, b, 0, _symmetric(values, importance, b, 16, work))
        _store_fifth_bits(work.x, blocks, b, 2)
        _store_nibbles(work.x, blocks, b, 6)


@kernel
def encode_q4_1(values: Any, importance: Any, blocks: Any, work: Any) -> None:
    """Encode Q4_1; see `Encode`."""
    for b in range(blocks.shape[0]):
        d, m = _affine(values, importance, b, _STEPS_4_1, work)
        set_half(blocks, b, 0, d)
        set_half(blocks, b, 2, m)
        _store_nibbles(work.x, blocks, b, 4)


@kernel
def encode_q5_1(values: Any, importance: Any, blocks: Any, work: Any) -> None:
    """Encode Q5_1; see `Encode`."""
    for b in range(blocks.shape[0]):
        d, m = _affine(values, importance, b, _STEPS_5_1, work)
        set_half(blocks, b, 0, d)
        set_half(blocks, b, 2, m)
        _store_fifth_bits(work.x, blocks, b, 4)
        _store_nibbles(work.x, blocks, b, 8)


@kernel
def encode_q8_0(values: Any, _importance: Any, blocks: Any, work: Any) -> None:
    """Encode Q8_0, which importance does not change; see `Encode`."""
    x = work.x
    for b in range(blocks.shape[0]):
        load(values, b, 0, 32, x)
        d = largest(x, 32) / f32(127)
        factor = inverse(d)
        set_half(blocks, b, 0, d)
        for i in range(32):
            code = clamped(x[i] * factor, f32(-128), f32(127))
            blocks[b, 2 + i] = u8(away_from_zero(code))


@kernel
def encode_q1_0(values: Any, _importance: Any, blocks: Any, work: Any) -> None:
    """Encode Q1_0: signs, and the mean magnitude; see `Encode`."""
    x = work.x
    for b in range(blocks.shape[0]):
        load(values, b, 0, 128, x)
        total = f32(0)
        for i in range(128):
            total += abs(x[i])
        set_half(blocks, b, 0, total / f32(128))
        for j in range(16):
            bits = u8(0)
            for i in range(8):
                bits |= u8(u8(x[8 * j + i] >= 0) << i)
            blocks[b, 2 + j] = bits


@kernel
def encode_q2_0(values: Any, _importance: Any, blocks: Any, work: Any) -> None:
    """Encode Q2_0: -1, 0 and 1 times the largest magnitude; see `Encode`."""
    x = work.x
    for b in range(blocks.shape[0]):
        load(values, b, 0, 64, x)
        d = largest(x, 64)
        factor = inverse(d)
        set_half(blocks, b, 0, d)
        for j in range(16):
            packed = u8(0)
            for i in range(4):
                code = clamped(x[4 * j + i] * factor, f32(-1), f32(2))
                packed |= u8(u8(away_from_zero(code) + i32(1)) << (2 * i))
            blocks[b, 2 + j] = packed


ENCODERS = {
    "Q4_0": encode_q4_0,
    "Q4_1": encode_q4_1,
    "Q5_0": encode_q5_0,
    "Q5_1": encode_q5_1,
    "Q8_0": encode_q8_0,
    "Q1_0": encode_q1_0,
    "Q2_0": encode_q2_0,
}
