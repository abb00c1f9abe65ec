"""Super-blocks of 256 weights: scales (and minima) searched, then rounded to a scale of their own.

A weight counts by its magnitude, as in ggml; with importance, by that times the root of its square
plus the super-block's mean square. Codes are chosen last, for the scales as they are stored.

Source: ggml/src/ggml-quants.c, `quantize_row_q2_K_ref` and its siblings (without importance),
`quantize_row_q2_K_impl` and its siblings (with).
"""

from __future__ import annotations

import math
from typing import Any, Final

from explorer.quantization.jit import f32, i32, inlined, kernel, routine, set_half, u8
from explorer.quantization.registry import LANES
from explorer.quantization.scale_search import (
    CHOSEN,
    CHOSEN_LOW,
    EPSILON,
    MINIMUM,
    SCALE,
    SUM_W,
    WIDE,
    Steps,
    clamped,
    code_above,
    code_of,
    finite,
    first_of_largest,
    greatest,
    low_byte,
    mean_square,
    nearest,
    search_codes,
    search_scale_of_positive,
    search_scale_of_signed,
    search_scales,
    search_scales_and_minima,
)

# What K-quants' encoders share: loading and weighing sub-blocks, rounding, packing.


@inlined
def _q3_k_scale(blocks: Any, b: Any, k: Any) -> Any:
    """Return the scale of sub-block k of 16, from -32 to 31."""
    low = blocks[b, 96 + (k & 7)] >> (k >> 3) * 4 & 15
    high = blocks[b, 104 + (k & 3)] >> (k >> 2) * 2 & 3
    return (low | high << 4) - 32


@inlined
def _q4_k_scale(blocks: Any, b: Any, k: Any) -> Any:
    """Return the scale of sub-block k of 8 in Q4_K and Q5_K, from 0 to 63."""
    if k < 4:
        return blocks[b, 4 + k] & 63
    return blocks[b, 8 + k] & 15 | blocks[b, k] >> 6 << 4


@inlined
def _q4_k_minimum(blocks: Any, b: Any, k: Any) -> Any:
    """Return the minimum of sub-block k of 8 in Q4_K and Q5_K, from 0 to 63."""
    if k < 4:
        return blocks[b, 8 + k] & 63
    return blocks[b, 8 + k] >> 4 | blocks[b, 4 + k] >> 6 << 4


SCALES: Final = 0  # rows of Work.sub
_MINIMA: Final = 1
WEIGHTS: Final = 2
NUMBERS: Final = 3  # that scales are rounded to
MINIMUM_NUMBERS: Final = 4
_FACTORS: Final = 5  # with what codes were made while scales were searched
_LOWS: Final = 6

# How a weight counts without importance.
MAGNITUDE: Final = 1  # |x|
MAGNITUDE_AND_MEAN: Final = 2  # |x| and the sub-block's root mean square
SQUARE: Final = 3


@routine
def load_lanes(values: Any, b: Any, first: Any, count: Any, x: Any) -> None:
    """Spread eight sub-blocks of `count` weights over the lanes, from sub-block `first` on."""
    for k in range(LANES):
        for i in range(count):
            x[LANES * i + k] = finite(values[b, (first + k) * count + i])


@routine
def weigh(count: Any, how: Any, work: Any) -> None:
    """Set how much each weight in the lanes counts."""
    x, w, lanes = work.x, work.w, work.lanes
    for k in range(LANES):
        lanes[SCALE + k] = f32(0)
    if how == MAGNITUDE_AND_MEAN:
        for i in range(count):
            for k in range(LANES):
                lanes[SCALE + k] += x[LANES * i + k] * x[LANES * i + k]
        for k in range(LANES):
            lanes[SCALE + k] = f32(math.sqrt(lanes[SCALE + k] / f32(count)))
    for i in range(count):
        for k in range(LANES):
            v = x[LANES * i + k]
            w[LANES * i + k] = v * v if how == SQUARE else abs(v) + lanes[SCALE + k]


@routine
def weigh_by_importance(importance: Any, b: Any, place: Any, square: Any, work: Any) -> None:
    """The same where importance is given; place: first sub-block and weights of each."""
    first, count = place
    row = b % importance.shape[0]
    for k in range(LANES):
        for i in range(count):
            v = work.x[LANES * i + k]
            factor = f32(math.sqrt(square + v * v))
            work.w[LANES * i + k] = importance[row, (first + k) * count + i] * factor


@inlined
def keep(first: Any, work: Any) -> None:
    """Note what was found in the lanes for sub-blocks `first` to `first` + 7."""
    for k in range(LANES):
        work.sub[SCALES, first + k] = work.lanes[SCALE + k]
        work.sub[_MINIMA, first + k] = work.lanes[MINIMUM + k]
        work.sub[WEIGHTS, first + k] = work.lanes[SUM_W + k]
        work.sub[_FACTORS, first + k] = work.lanes[CHOSEN + k]
        work.sub[_LOWS, first + k] = work.lanes[CHOSEN_LOW + k]


@inlined
def _round_positive(figures: Any, codes: Any, count: Any, top: Any) -> Any:
    """Round scales or minima to numbers up to `top`, and return their scale.

    Of a negative scale's number the low byte is kept, as in C.
    """
    d = greatest(figures, count) / f32(top)
    factor = f32(top) / greatest(figures, count) if d > 0 else f32(0)
    for k in range(count):
        codes[k] = low_byte(nearest(factor * figures[k]))
    return d


@inlined
def round_scales(importance: Any, count: Any, top: Any, work: Any) -> Any:
    """Round scales and minima to numbers in `work.sub`, and return the scale of each."""
    scales, minima, weights = work.sub[SCALES], work.sub[_MINIMA], work.sub[WEIGHTS]
    numbers, numbers_min = work.sub[NUMBERS], work.sub[MINIMUM_NUMBERS]
    if importance is not None:
        d = search_scale_of_positive(scales, weights, numbers, count, top)
        dmin = search_scale_of_positive(minima, weights, numbers_min, count, top)
    else:
        d = _round_positive(scales, numbers, count, top)
        dmin = _round_positive(minima, numbers_min, count, top)
    return d, dmin


@inlined
def rounded(figure: Any, factor: Any, low: Any, high: Any) -> Any:
    """Return the whole number nearest to a product, between two bounds."""
    return i32(clamped(nearest(figure * factor), f32(low), f32(high)))


@routine
def round_with_minimum(values: Any, b: Any, place: Any, scales: Any, work: Any) -> None:
    """Write the codes of a sub-block; place: its number, and how its scale was searched.

    scales: its scale and minimum. Where the scale was rounded to 0, codes stay what they were
    while it was searched, which decodes to the same.
    """
    sub, steps = place
    scale, minimum = scales
    factor, low = work.sub[_FACTORS, sub], work.sub[_LOWS, sub]
    for i in range(steps.weights * sub, steps.weights * (sub + 1)):
        if scale != 0:
            code = nearest((finite(values[b, i]) + minimum) / scale)
            code = clamped(code, f32(0), f32(steps.top))
        else:
            code = code_above(finite(values[b, i]), factor, low, steps)
        work.codes[i] = u8(i32(code))


@routine
def round_symmetric(values: Any, b: Any, place: Any, scale: Any, work: Any) -> None:
    """Write the codes of a sub-block of 16; place: its number, codes below 0."""
    sub, half = place
    factor = work.sub[_FACTORS, sub]
    for i in range(16 * sub, 16 * (sub + 1)):
        code = code_of(finite(values[b, i]), factor, half)
        if scale != 0:
            code = clamped(nearest(finite(values[b, i]) / scale), f32(-half), f32(half - 1))
            code += f32(half)
        work.codes[i] = u8(i32(code))


@routine
def store_pairs_of_bits(codes: Any, shift: Any, blocks: Any, b: Any, offset: Any) -> None:
    """Store two bits of each code, from bit `shift` on, as Q2_K does."""
    for half in range(2):
        for i in range(32):
            packed = u8(0)
            for j in range(4):
                packed |= u8((codes[128 * half + 32 * j + i] >> shift & 3) << 2 * j)
            blocks[b, offset + 32 * half + i] = packed


@routine
def store_quarters(codes: Any, blocks: Any, b: Any, offset: Any) -> None:
    """Store the low four bits of each code, as Q4_K does."""
    for quarter in range(4):
        for i in range(32):
            low, high = codes[64 * quarter + i] & 15, codes[64 * quarter + 32 + i] & 15
            blocks[b, offset + 32 * quarter + i] = u8(low | high << 4)


# Without importance and with it.
_STEPS_2: Final = Steps(16, 3.0, -0.5, 0.1, 15, absolute=True, guarded=False)
_STEPS_2_WEIGHTED: Final = Steps(16, 3.0, -0.9, 0.05, 36, absolute=False, guarded=True)
_STEPS_4: Final = Steps(32, 15.0, -1.0, 0.1, 20, absolute=False, guarded=False)
_STEPS_4_WEIGHTED: Final = Steps(32, 15.0, -0.9, 0.05, 36, absolute=False, guarded=True)
_STEPS_5: Final = Steps(32, 31.0, -0.5, 0.1, 15, absolute=False, guarded=False)
_STEPS_5_WEIGHTED: Final = Steps(32, 31.0, -0.9, 0.05, 36, absolute=False, guarded=True)


@kernel
def _encode_q2_k(values: Any, importance: Any, blocks: Any, work: Any) -> None:
    for b in range(blocks.shape[0]):
        for first in range(0, 16, LANES):
            load_lanes(values, b, first, 16, work.x)
            if importance is not None:
                weigh_by_importance(importance, b, (first, 16), mean_square(values, b, 256), work)
                search_scales_and_minima(work.x, work.w, work.lanes, _STEPS_2_WEIGHTED)
            else:
                weigh(16, MAGNITUDE, work)
                search_scales_and_minima(work.x, work.w, work.lanes, _STEPS_2)
            keep(first, work)
        d, dmin = round_scales(importance, 16, 15, work)
        stored, stored_min = set_half(blocks, b, 80, d), set_half(blocks, b, 82, dmin)
        for k in range(16):
            scale = i32(work.sub[NUMBERS, k])
            minimum = i32(work.sub[MINIMUM_NUMBERS, k])
            packed = u8(scale | minimum << 4)
            blocks[b, k] = packed
            scales = (stored * f32(packed & 15), stored_min * f32(packed >> 4))
            steps = _STEPS_2 if importance is None else _STEPS_2_WEIGHTED
            round_with_minimum(values, b, (k, steps), scales, work)
        store_pairs_of_bits(work.codes, 0, blocks, b, 16)


@inlined
def _store_q3_k_scale(blocks: Any, b: Any, k: Any, number: Any) -> None:
    """Store the scale of sub-block k of 16, -32 to 31, in bytes that were 0."""
    code = u8(number + i32(32))
    blocks[b, 96 + (k & 7)] |= u8((code & 15) << (k >> 3) * 4)
    blocks[b, 104 + (k & 3)] |= u8((code >> 4) << (k >> 2) * 2)


@inlined
def _write_searched_codes(k: Any, work: Any) -> None:
    """Write the codes that `search_codes` left of a sub-block."""
    negligible = work.sub[_FACTORS, k] == 0
    for i in range(16):
        code = work.scratch[WIDE * i + k] + f32(4)
        work.codes[16 * k + i] = u8(0) if negligible else u8(i32(code))


@kernel
def _encode_q3_k(values: Any, importance: Any, blocks: Any, work: Any) -> None:
    for b in range(blocks.shape[0]):
        scales = work.sub[SCALES]
        if importance is not None:
            square = mean_square(values, b, 256) * f32(2)
            for first in range(0, 16, LANES):
                load_lanes(values, b, first, 16, work.x)
                weigh_by_importance(importance, b, (first, 16), square, work)
                search_scales(work.x, work.w, work.lanes, 16, 4)
                keep(first, work)
            d, factor = search_scale_of_signed(scales, work.sub[WEIGHTS], 16, 32)
            found = abs(first_of_largest(scales, 16)) >= f32(EPSILON)  # an infinite one, too
        else:
            for i in range(256):
                work.x[WIDE * (i & 15) + (i >> 4)] = finite(values[b, i])
            search_codes(work.x, work.lanes, work.scratch, (scales, work.sub[_FACTORS]), 4)
            most = first_of_largest(scales, 16)
            found = most != 0
            factor = f32(-32) / most if found else f32(0)
            d = f32(1) / factor if found else f32(0)
        stored = set_half(blocks, b, 108, d)
        for i in range(96, 108):
            blocks[b, i] = 0
        for k in range(16):
            number = rounded(scales[k], factor, -32, 31)
            _store_q3_k_scale(blocks, b, k, number if found else i32(-32))
            scale = stored * f32(i32(_q3_k_scale(blocks, b, k)))
            round_symmetric(values, b, (k, 4), scale, work)
            if importance is None and scale == 0:
                _write_searched_codes(k, work)
        store_pairs_of_bits(work.codes, 0, blocks, b, 32)
        for i in range(32):
            bits = u8(0)
            for k in range(8):
                bits |= u8((work.codes[32 * k + i] >> 2) << k)
            blocks[b, i] = bits


@inlined
def _store_q4_k_pair(blocks: Any, b: Any, k: Any, scale: Any, minimum: Any) -> None:
    """Store scale and minimum of sub-block k of 8, bytes; in the order of k."""
    if k < 4:
        blocks[b, 4 + k] = u8(scale)
        blocks[b, 8 + k] = u8(minimum)
    else:
        blocks[b, 8 + k] = u8((scale & 15) | (minimum & 15) << 4)
        blocks[b, k] |= u8((scale >> 4) << 6)
        blocks[b, 4 + k] |= u8((minimum >> 4) << 6)


@inlined
def _encode_with_minima(values: Any, importance: Any, blocks: Any, b: Any, search: Any) -> None:
    """Store the scales of a block of Q4_K or Q5_K, which are the same, and write its codes."""
    steps, steps_weighted, work = search
    load_lanes(values, b, 0, 32, work.x)
    if importance is not None:
        square = mean_square(values, b, 256) * f32(2)
        weigh_by_importance(importance, b, (0, 32), square, work)
        search_scales_and_minima(work.x, work.w, work.lanes, steps_weighted)
    else:
        weigh(32, MAGNITUDE_AND_MEAN, work)
        search_scales_and_minima(work.x, work.w, work.lanes, steps)
    keep(0, work)
    d, dmin = round_scales(importance, 8, 63, work)
    stored, stored_min = set_half(blocks, b, 0, d), set_half(blocks, b, 2, dmin)
    # A byte above 63 is the low one of a negative number. C limits it, but not in this one case.
    limit = f32(255) if importance is not None and steps.top == 15 else f32(63)
    for k in range(8):
        scale = i32(min(work.sub[NUMBERS, k], limit))
        minimum = i32(min(work.sub[MINIMUM_NUMBERS, k], limit))
        _store_q4_k_pair(blocks, b, k, scale, minimum)
    for k in range(8):
        scale = stored * f32(i32(_q4_k_scale(blocks, b, k)))
        minimum = stored_min * f32(i32(_q4_k_minimum(blocks, b, k)))
        used = steps if importance is None else steps_weighted
        round_with_minimum(values, b, (k, used), (scale, minimum), work)


@kernel
def _encode_q4_k(values: Any, importance: Any, blocks: Any, work: Any) -> None:
    for b in range(blocks.shape[0]):
        _encode_with_minima(values, importance, blocks, b, (_STEPS_4, _STEPS_4_WEIGHTED, work))
        store_quarters(work.codes, blocks, b, 16)


@kernel
def _encode_q5_k(values: Any, importance: Any, blocks: Any, work: Any) -> None:
    for b in range(blocks.shape[0]):
        _encode_with_minima(values, importance, blocks, b, (_STEPS_5, _STEPS_5_WEIGHTED, work))
        store_quarters(work.codes, blocks, b, 48)
        for i in range(32):
            bits = u8(0)
            for k in range(8):
                bits |= u8((work.codes[32 * k + i] >> 4) << k)
            blocks[b, 16 + i] = bits


@kernel
def _encode_q6_k(values: Any, importance: Any, blocks: Any, work: Any) -> None:
    for b in range(blocks.shape[0]):
        for first in range(0, 16, LANES):
            load_lanes(values, b, first, 16, work.x)
            weigh(16, SQUARE, work)
            if importance is not None:
                row = b % importance.shape[0]
                for k in range(LANES):
                    for i in range(16):
                        work.w[LANES * i + k] = importance[row, (first + k) * 16 + i]
            search_scales(work.x, work.w, work.lanes, 16, 32)
            keep(first, work)
        scales = work.sub[SCALES]
        most = first_of_largest(scales, 16)
        if abs(most) < f32(EPSILON):
            for i in range(210):
                blocks[b, i] = 0
            continue
        factor = f32(-128) / most
        stored = set_half(blocks, b, 208, f32(1) / factor)
        for k in range(16):
            number = rounded(scales[k], factor, -128, 127)
            blocks[b, 192 + k] = u8(number)
            round_symmetric(values, b, (k, 32), stored * f32(number), work)
        store_pairs_of_bits(work.codes, 4, blocks, b, 128)
        for half in range(2):
            for i in range(64):
                low, high = work.codes[128 * half + i] & 15, work.codes[128 * half + 64 + i] & 15
                blocks[b, 64 * half + i] = u8(low | high << 4)


ENCODERS = {
    "Q2_K": _encode_q2_k,
    "Q3_K": _encode_q3_k,
    "Q4_K": _encode_q4_k,
    "Q5_K": _encode_q5_k,
    "Q6_K": _encode_q6_k,
}
