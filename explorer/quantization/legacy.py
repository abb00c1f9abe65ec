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
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from explorer.quantization.bits import Bits, BitType, Field, packed, plane
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
from explorer.quantization.registry import LANES, integers
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

_ADDED: Final = integers(-1, -1)  # a minimum that is added, where minima are subtracted


def _type(
    levels: NDArray[np.float32], weights: int, codes: tuple[Bits, ...], *fields: Field
) -> BitType:
    """Return a type whose blocks begin with their scale, and perhaps with a minimum."""
    more: dict[str, Any] = {}
    if fields[0] is _MINIMUM:
        more = {"minima": (), "min_factors": _ADDED, "min_at": 2}
    start = 128 if len(levels) == 256 else 0  # codes with a sign
    return BitType((_SCALE, *fields), codes, levels, weights, start=start, **more)


_SCALE: Final = Field("d", 2, "f16", "scale of all weights")
_MINIMUM: Final = Field("m", 2, "f16", "added to all weights")
_HALVES: Final = "weights 0-15 in the low halves, 16-31 in high"
_NIBBLES: Final = Field("qs", 16, "4-bit codes", _HALVES)
_LOW_BITS: Final = Field("qs", 16, "4-bit codes", "low four bits, halves as in Q4_0")
_FIFTH_BITS: Final = Field("qh", 4, "1-bit codes", "highest bit of each code, weight 0 lowest")
_BYTES: Final = Field("qs", 32, "i8", "one code for each weight")
_SUM: Final = Field("s", 2, "f16", "scale times the sum of the codes, for dot products")
_SIGNS: Final = Field("qs", 16, "1-bit codes", "set: plus the scale, clear: minus the scale")
_PAIRS: Final = Field("qs", 16, "2-bit codes", "four consecutive weights in each byte")


def _nibbles(at: int) -> Bits:
    return plane(at, 4, 16, 0, 32)


TYPES: Final = {
    "Q4_0": _type(integers(-8, 7), 32, (_nibbles(2),), _NIBBLES),
    "Q4_1": _type(integers(0, 15), 32, (_nibbles(4),), _MINIMUM, _NIBBLES),
    "Q5_0": _type(
        *(integers(-16, 15), 32, (_nibbles(6), packed(2, 32, 1, 4)), _FIFTH_BITS, _LOW_BITS)
    ),
    "Q5_1": _type(
        *(integers(0, 31), 32, (_nibbles(8), packed(4, 32, 1, 4))),
        *(_MINIMUM, _FIFTH_BITS, _LOW_BITS),
    ),
    "Q8_0": _type(integers(-128, 127), 32, (packed(2, 32, 8),), _BYTES),
    "Q8_1": _type(integers(-128, 127), 32, (packed(4, 32, 8),), _SUM, _BYTES),
    "Q1_0": _type(np.array([-1, 1], np.float32), 128, (packed(2, 128, 1),), _SIGNS),
    "Q2_0": _type(integers(-1, 2), 64, (packed(2, 64, 2),), _PAIRS),
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
