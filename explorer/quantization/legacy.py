"""Blocks of one scale: 4, 5 and 8 bits a weight from ggml's first days, and the newer 1 and 2 bits.

::

    Q4_0  | d f16 | qs 16 B: 4-bit codes |                             d * (code - 8)
    Q4_1  | d f16 | m f16 | qs 16 B: 4-bit codes |                     d * code + m
    Q5_0  | d f16 | qh u32: 5th bits | qs 16 B: low 4 bits |           d * (code - 16)
    Q5_1  | d f16 | m f16 | qh u32: 5th bits | qs 16 B: low 4 bits |   d * code + m
    Q8_0  | d f16 | qs 32 B: int8 codes |                              d * code
    Q8_1  | d f16 | s f16: d * sum of codes | qs 32 B: int8 codes |    d * code
    Q1_0  | d f16 | qs 16 B: 128 bits |                                d or -d
    Q2_0  | d f16 | qs 16 B: 64 codes of 2 bits |                      d * (code - 1)

    nibbles of qs:     byte 0     byte 1          byte 15       Q1_0, Q2_0: from the lowest bit
      low half:      weight 0   weight 1   ...   weight 15      on, one weight after the other
      high half:     weight 16  weight 17  ...   weight 31

Source: `docs/gguf.md`, section 8; ggml/src/ggml-quants.c, `dequantize_row_q4_0` and its siblings.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.quantization.jit import (
    f32,
    half_at,
    i8,
    i32,
    inlined,
    kernel,
    routine,
    set_half,
    set_u16,
    u8,
    u16,
    u32,
    u32_at,
)
from explorer.quantization.registry import LANES, BlockField, BlockLayout, UnpackCodes, integers
from explorer.quantization.scale_search import (
    CHOSEN,
    CHOSEN_LOW,
    MINIMUM,
    SCALE,
    Steps,
    away_from_zero,
    clamped,
    code_above,
    code_of,
    finite,
    first_of,
    inverse,
    largest,
    load,
    load_range,
    search_scales,
    search_scales_and_minima,
)


@kernel
def _decode_q4_0(blocks: Any, out: Any) -> None:
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 0)
        for i in range(16):
            codes = blocks[b, 2 + i]
            out[b, i] = f32(i32((codes & 15) - 8)) * d
            out[b, 16 + i] = f32(i32((codes >> 4) - 8)) * d


@kernel
def _decode_q4_1(blocks: Any, out: Any) -> None:
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 0)
        m = half_at(blocks, b, 2)
        for i in range(16):
            codes = blocks[b, 4 + i]
            out[b, i] = f32(i32(codes & 15)) * d + m
            out[b, 16 + i] = f32(i32(codes >> 4)) * d + m


@kernel
def _decode_q5_0(blocks: Any, out: Any) -> None:
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 0)
        high = u32_at(blocks, b, 2)
        for i in range(16):
            low_code = i32(blocks[b, 6 + i] & 15)
            high_code = i32(blocks[b, 6 + i] >> 4)
            if not high & u32(u32(1) << u32(i)):
                low_code -= 16
            if not high & u32(u32(1) << u32(16 + i)):
                high_code -= 16
            out[b, i] = f32(i32(low_code)) * d
            out[b, 16 + i] = f32(i32(high_code)) * d


@kernel
def _decode_q5_1(blocks: Any, out: Any) -> None:
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 0)
        m = half_at(blocks, b, 2)
        high = u32_at(blocks, b, 4)
        for i in range(16):
            low_code = i32(blocks[b, 8 + i] & 15)
            high_code = i32(blocks[b, 8 + i] >> 4)
            if high & u32(u32(1) << u32(i)):
                low_code += 16
            if high & u32(u32(1) << u32(16 + i)):
                high_code += 16
            out[b, i] = f32(i32(low_code)) * d + m
            out[b, 16 + i] = f32(i32(high_code)) * d + m


@kernel
def _decode_q8_0(blocks: Any, out: Any) -> None:
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 0)
        for i in range(32):
            out[b, i] = f32(i8(blocks[b, 2 + i])) * d


@kernel
def _decode_q8_1(blocks: Any, out: Any) -> None:
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 0)
        for i in range(32):
            out[b, i] = f32(i8(blocks[b, 4 + i])) * d


@kernel
def _decode_q1_0(blocks: Any, out: Any) -> None:
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 0)
        for group in range(4):
            bits = u32_at(blocks, b, 2 + 4 * group)
            for i in range(32):
                out[b, 32 * group + i] = d if bits & u32(u32(1) << u32(i)) else -d


@kernel
def _decode_q2_0(blocks: Any, out: Any) -> None:
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 0)
        for group in range(4):
            codes = u32_at(blocks, b, 2 + 4 * group)
            for i in range(16):
                code = u32(codes >> u32(2 * i)) & u32(3)
                out[b, 16 * group + i] = f32(i32(i32(code) - i32(1))) * d


DECODERS = {
    "Q4_0": _decode_q4_0,
    "Q4_1": _decode_q4_1,
    "Q5_0": _decode_q5_0,
    "Q5_1": _decode_q5_1,
    "Q8_0": _decode_q8_0,
    "Q8_1": _decode_q8_1,
    "Q1_0": _decode_q1_0,
    "Q2_0": _decode_q2_0,
}


# Codes and scales of blocks of one scale.


_SCALE = BlockField("d", 0, 2, "f16", "scale of all weights")
_MINIMUM = BlockField("m", 2, 2, "f16", "added to all weights")


@inlined
def copy_nibbles(blocks: Any, b: Any, offset: Any, codes: Any) -> None:
    """Write the low halves of 16 bytes as codes of weights 0 to 15, the high ones as 16 to 31."""
    for i in range(16):
        codes[b, i] = blocks[b, offset + i] & 15
        codes[b, 16 + i] = blocks[b, offset + i] >> 4


@inlined
def _add_fifth_bits(bits: Any, b: Any, codes: Any) -> None:
    for i in range(32):
        if bits & u32(u32(1) << u32(i)):
            codes[b, i] |= 16


@kernel
def scales_at_the_start(blocks: Any, scales: Any, _minima: Any) -> None:
    """Unpack the scales of blocks that begin with one; blocks: uint8 [n, any], scales: [n, 1]."""
    for b in range(blocks.shape[0]):
        scales[b, 0] = half_at(blocks, b, 0)


@kernel
def scales_and_minima_at_the_start(blocks: Any, scales: Any, minima: Any) -> None:
    """The same of blocks in which a number that is added comes next; minima: [n, 1]."""
    for b in range(blocks.shape[0]):
        scales[b, 0] = half_at(blocks, b, 0)
        minima[b, 0] = -half_at(blocks, b, 2)


@kernel
def _codes_of_q4_0(blocks: Any, codes: Any) -> None:
    for b in range(blocks.shape[0]):
        copy_nibbles(blocks, b, 2, codes)


@kernel
def _codes_of_q4_1(blocks: Any, codes: Any) -> None:
    for b in range(blocks.shape[0]):
        copy_nibbles(blocks, b, 4, codes)


@kernel
def _codes_of_q5_0(blocks: Any, codes: Any) -> None:
    for b in range(blocks.shape[0]):
        copy_nibbles(blocks, b, 6, codes)
        _add_fifth_bits(u32_at(blocks, b, 2), b, codes)


@kernel
def _codes_of_q5_1(blocks: Any, codes: Any) -> None:
    for b in range(blocks.shape[0]):
        copy_nibbles(blocks, b, 8, codes)
        _add_fifth_bits(u32_at(blocks, b, 4), b, codes)


@kernel
def _codes_of_q8_0(blocks: Any, codes: Any) -> None:
    for b in range(blocks.shape[0]):
        for i in range(32):
            codes[b, i] = blocks[b, 2 + i] ^ 128  # int8 + 128


@kernel
def _codes_of_q8_1(blocks: Any, codes: Any) -> None:
    for b in range(blocks.shape[0]):
        for i in range(32):
            codes[b, i] = blocks[b, 4 + i] ^ 128


@kernel
def _codes_of_q1_0(blocks: Any, codes: Any) -> None:
    for b in range(blocks.shape[0]):
        for group in range(4):
            bits = u32_at(blocks, b, 2 + 4 * group)
            for i in range(32):
                codes[b, 32 * group + i] = u32(bits >> u32(i)) & u32(1)


@kernel
def _codes_of_q2_0(blocks: Any, codes: Any) -> None:
    for b in range(blocks.shape[0]):
        for group in range(4):
            packed = u32_at(blocks, b, 2 + 4 * group)
            for i in range(16):
                codes[b, 16 * group + i] = u32(packed >> u32(2 * i)) & u32(3)


def _layout(
    levels: NDArray[np.float32], weights: int, unpack_codes: UnpackCodes, *fields: BlockField
) -> BlockLayout:
    """Return the layout of blocks that begin with their scale, and perhaps with a minimum."""
    minimum = fields[0] is _MINIMUM
    unpack_scales = scales_and_minima_at_the_start if minimum else scales_at_the_start
    return BlockLayout(levels, weights, (_SCALE, *fields), unpack_codes, unpack_scales, minimum)


_HALVES = "weights 0-15 in the low halves, 16-31 in high"
_LOW_BITS = "low four bits, halves as in Q4_0"
_FIFTH_BITS = "highest bit of each code, weight 0 lowest"
_SUM = "scale times the sum of the codes, for dot products"
_SIGNS = "set: plus the scale, clear: minus the scale"

LAYOUTS = {
    "Q4_0": _layout(
        integers(-8, 7), 32, _codes_of_q4_0, BlockField("qs", 2, 16, "4-bit codes", _HALVES)
    ),
    "Q4_1": _layout(
        integers(0, 15),
        32,
        _codes_of_q4_1,
        _MINIMUM,
        BlockField("qs", 4, 16, "4-bit codes", _HALVES),
    ),
    "Q5_0": _layout(
        integers(-16, 15),
        32,
        _codes_of_q5_0,
        BlockField("qh", 2, 4, "1-bit codes", _FIFTH_BITS),
        BlockField("qs", 6, 16, "4-bit codes", _LOW_BITS),
    ),
    "Q5_1": _layout(
        integers(0, 31),
        32,
        _codes_of_q5_1,
        _MINIMUM,
        BlockField("qh", 4, 4, "1-bit codes", _FIFTH_BITS),
        BlockField("qs", 8, 16, "4-bit codes", _LOW_BITS),
    ),
    "Q8_0": _layout(
        integers(-128, 127),
        32,
        _codes_of_q8_0,
        BlockField("qs", 2, 32, "i8", "one code for each weight"),
    ),
    "Q8_1": _layout(
        integers(-128, 127),
        32,
        _codes_of_q8_1,
        BlockField("s", 2, 2, "f16", _SUM),
        BlockField("qs", 4, 32, "i8", "one code for each weight"),
    ),
    "Q1_0": _layout(
        np.array([-1, 1], np.float32),
        128,
        _codes_of_q1_0,
        BlockField("qs", 2, 16, "1-bit codes", _SIGNS),
    ),
    "Q2_0": _layout(
        integers(-1, 2),
        64,
        _codes_of_q2_0,
        BlockField("qs", 2, 16, "2-bit codes", "four consecutive weights in each byte"),
    ),
}


# Blocks of one scale: from the range of the block, or searched where importance is given.
#
# With importance a weight counts by that times the root of its square plus the row's mean square.
# Codes are those of the search, not the nearest ones with the scale that is stored.
#
# Source: ggml/src/ggml-quants.c, `quantize_row_q4_0_ref` and its siblings,
# `quantize_row_q4_0_impl` and its siblings.


_STEPS_4_1 = Steps(32, 15.0, -0.9, 0.05, 36, absolute=False, guarded=True)
_STEPS_5_1 = Steps(32, 31.0, -0.9, 0.05, 36, absolute=False, guarded=True)


@inlined
def _symmetric(values: Any, b: Any, half: Any, x: Any) -> Any:
    """Write what is to be truncated to codes of Q4_0 (half = 8) or Q5_0 (16), return the scale."""
    middle = f32(half)
    low, high = load_range(values, b, 32, x)
    most = high if high > -low else low
    if high == -low:
        most = first_of(x, high, 32)
    d = (most if most != 0 else f32(0)) / f32(-half)  # 0 without a sign
    factor = inverse(d)
    if finite(factor) != factor:  # C converts infinities and NaN to bytes, which are then 0
        factor, middle = f32(0), f32(-0.5)
    for i in range(32):
        x[i] = clamped(x[i] * factor + (middle + f32(0.5)), f32(0), f32(2 * half - 1))
    return d


@inlined
def _affine(values: Any, b: Any, steps: Any, x: Any) -> Any:
    """Write what is to be truncated to codes of Q4_1 or Q5_1, return scale and minimum."""
    top = f32(steps.top)
    m, high = load_range(values, b, 32, x)
    if m == 0:
        m = first_of(x, m, 32)  # of 0 and -0, as in C
    d = (high - m) / top
    factor = finite(inverse(d))
    for i in range(32):
        x[i] = clamped((x[i] - m) * factor + f32(0.5), f32(0), top)
    return d, m


@inlined
def _mean_square_of_row(values: Any, first: Any, count: Any) -> Any:
    total = f32(0)
    for b in range(first, min(first + count, values.shape[0])):
        for i in range(32):
            x = finite(values[b, i])
            total += x * x
    return total / f32(32 * count)


@routine
def _load_eight(values: Any, importance: Any, first: Any, work: Any) -> None:
    """Spread eight blocks over the lanes, with what their weights count; behind the last, zeros.

    The mean square of the row that the blocks are in stays in `work.sub`.
    """
    x, w = work.x, work.w
    for k in range(LANES):
        b = first + k
        if b >= values.shape[0]:
            for i in range(32):
                x[LANES * i + k] = f32(0)
                w[LANES * i + k] = f32(0)
            continue
        row = b % importance.shape[0]
        if row == 0:
            work.sub[0, 0] = _mean_square_of_row(values, b, importance.shape[0])
        for i in range(32):
            v = finite(values[b, i])
            x[LANES * i + k] = v
            w[LANES * i + k] = importance[row, i] * f32(math.sqrt(work.sub[0, 0] + v * v))


@routine
def _search_symmetric(values: Any, importance: Any, first: Any, half: Any, work: Any) -> None:
    """Set SCALE of eight blocks, and write their codes over their weights."""
    _load_eight(values, importance, first, work)
    search_scales(work.x, work.w, work.lanes, 32, half)
    for i in range(32):
        for k in range(LANES):
            at = LANES * i + k
            work.x[at] = code_of(work.x[at], work.lanes[CHOSEN + k], half)


@routine
def _search_affine(values: Any, importance: Any, first: Any, steps: Any, work: Any) -> None:
    """The same for SCALE and MINIMUM."""
    _load_eight(values, importance, first, work)
    search_scales_and_minima(work.x, work.w, work.lanes, steps)
    lanes = work.lanes
    for i in range(32):
        for k in range(LANES):
            at = LANES * i + k
            work.x[at] = code_above(work.x[at], lanes[CHOSEN + k], lanes[CHOSEN_LOW + k], steps)


@inlined
def _take_lane(k: Any, work: Any) -> None:
    """Put the 32 codes in a lane to `scratch`; functions of kernels return no arrays."""
    for i in range(32):
        work.scratch[i] = work.x[LANES * i + k]


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


@inlined
def _store_q5_0(x: Any, d: Any, blocks: Any, b: Any) -> None:
    set_half(blocks, b, 0, d)
    _store_fifth_bits(x, blocks, b, 2)
    _store_nibbles(x, blocks, b, 6)


@inlined
def _store_q4_1(x: Any, scales: Any, blocks: Any, b: Any) -> None:
    set_half(blocks, b, 0, scales[0])
    set_half(blocks, b, 2, scales[1])
    _store_nibbles(x, blocks, b, 4)


@inlined
def _store_q5_1(x: Any, scales: Any, blocks: Any, b: Any) -> None:
    set_half(blocks, b, 0, scales[0])
    set_half(blocks, b, 2, scales[1])
    _store_fifth_bits(x, blocks, b, 4)
    _store_nibbles(x, blocks, b, 8)


@kernel
def _encode_q4_0(values: Any, importance: Any, blocks: Any, work: Any) -> None:
    if importance is None:
        for b in range(blocks.shape[0]):
            set_half(blocks, b, 0, _symmetric(values, b, 8, work.x))
            _store_nibbles(work.x, blocks, b, 2)
    else:
        for first in range(0, blocks.shape[0], LANES):
            _search_symmetric(values, importance, first, 8, work)
            for k in range(min(LANES, blocks.shape[0] - first)):
                set_half(blocks, first + k, 0, work.lanes[SCALE + k])
                _take_lane(k, work)
                _store_nibbles(work.scratch, blocks, first + k, 2)


@kernel
def _encode_q5_0(values: Any, importance: Any, blocks: Any, work: Any) -> None:
    if importance is None:
        for b in range(blocks.shape[0]):
            _store_q5_0(work.x, _symmetric(values, b, 16, work.x), blocks, b)
    else:
        for first in range(0, blocks.shape[0], LANES):
            _search_symmetric(values, importance, first, 16, work)
            for k in range(min(LANES, blocks.shape[0] - first)):
                _take_lane(k, work)
                _store_q5_0(work.scratch, work.lanes[SCALE + k], blocks, first + k)


@kernel
def _encode_q4_1(values: Any, importance: Any, blocks: Any, work: Any) -> None:
    if importance is None:
        for b in range(blocks.shape[0]):
            _store_q4_1(work.x, _affine(values, b, _STEPS_4_1, work.x), blocks, b)
    else:
        for first in range(0, blocks.shape[0], LANES):
            _search_affine(values, importance, first, _STEPS_4_1, work)
            for k in range(min(LANES, blocks.shape[0] - first)):
                scales = (work.lanes[SCALE + k], -work.lanes[MINIMUM + k])
                _take_lane(k, work)
                _store_q4_1(work.scratch, scales, blocks, first + k)


@kernel
def _encode_q5_1(values: Any, importance: Any, blocks: Any, work: Any) -> None:
    if importance is None:
        for b in range(blocks.shape[0]):
            _store_q5_1(work.x, _affine(values, b, _STEPS_5_1, work.x), blocks, b)
    else:
        for first in range(0, blocks.shape[0], LANES):
            _search_affine(values, importance, first, _STEPS_5_1, work)
            for k in range(min(LANES, blocks.shape[0] - first)):
                scales = (work.lanes[SCALE + k], -work.lanes[MINIMUM + k])
                _take_lane(k, work)
                _store_q5_1(work.scratch, scales, blocks, first + k)


@kernel
def _encode_q8_0(values: Any, _importance: Any, blocks: Any, work: Any) -> None:
    x = work.x
    for b in range(blocks.shape[0]):
        load(values, b, 0, 32, x)
        d = largest(x, 32) / f32(127)
        factor = finite(inverse(d))
        set_half(blocks, b, 0, d)
        for i in range(32):
            code = clamped(x[i] * factor, f32(-128), f32(127))
            blocks[b, 2 + i] = u8(away_from_zero(code))


@kernel
def _encode_q1_0(values: Any, _importance: Any, blocks: Any, work: Any) -> None:
    """Signs, and the mean magnitude."""
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
def _encode_q2_0(values: Any, _importance: Any, blocks: Any, work: Any) -> None:
    """-1, 0 and 1 times the largest magnitude."""
    x = work.x
    for b in range(blocks.shape[0]):
        load(values, b, 0, 64, x)
        d = largest(x, 64)
        factor = inverse(d)
        top = f32(2) if finite(factor) == factor else f32(-1)  # infinities and NaN are code 0 in C
        set_half(blocks, b, 0, d)
        for j in range(16):
            packed = u8(0)
            for i in range(4):
                code = clamped(x[4 * j + i] * factor, f32(-1), top)
                packed |= u8(u8(away_from_zero(code) + i32(1)) << (2 * i))
            blocks[b, 2 + j] = packed


ENCODERS = {
    "Q4_0": _encode_q4_0,
    "Q4_1": _encode_q4_1,
    "Q5_0": _encode_q5_0,
    "Q5_1": _encode_q5_1,
    "Q8_0": _encode_q8_0,
    "Q1_0": _encode_q1_0,
    "Q2_0": _encode_q2_0,
}
