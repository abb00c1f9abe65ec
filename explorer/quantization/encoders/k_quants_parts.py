"""What K-quants' encoders share: loading and weighing sub-blocks, rounding, packing."""

from __future__ import annotations

import math
from typing import Any, Final

from explorer.quantization.encoders.contract import LANES
from explorer.quantization.encoders.lanes import MINIMUM, SCALE, SUM_W, greatest
from explorer.quantization.encoders.rounding import clamped, finite, nearest
from explorer.quantization.encoders.search_scales import search_scale_of_positive
from explorer.quantization.jit import f32, i32, inlined, routine, u8

SCALES: Final = 0  # rows of Work.sub
_MINIMA: Final = 1
WEIGHTS: Final = 2
NUMBERS: Final = 3  # that scales are rounded to
MINIMUM_NUMBERS: Final = 4

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


@inlined
def _round_positive(figures: Any, codes: Any, count: Any, top: Any) -> Any:
    """Round scales or minima to numbers from 0 to `top`, and return their scale."""
    d = greatest(figures, count) / f32(top)
    factor = f32(top) / greatest(figures, count) if d > 0 else f32(0)
    for k in range(count):
        codes[k] = clamped(nearest(figures[k] * factor), f32(0), f32(top))
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
def round_with_minimum(values: Any, b: Any, place: Any, scale: Any, minimum: Any) -> None:
    """Write the codes of a sub-block; place: its first weight, its length, top code, codes."""
    first, count, top, codes = place
    for i in range(first, first + count):
        code = f32(0)
        if scale != 0:
            code = clamped(nearest((finite(values[b, i]) + minimum) / scale), f32(0), f32(top))
        codes[i] = u8(i32(code))


@routine
def round_symmetric(values: Any, b: Any, place: Any, scale: Any) -> None:
    """Write the codes of a sub-block of 16; place: first weight, codes below 0, codes."""
    first, half, codes = place
    for i in range(first, first + 16):
        code = f32(0)
        if scale != 0:
            code = clamped(nearest(finite(values[b, i]) / scale), f32(-half), f32(half - 1))
        codes[i] = u8(i32(code) + i32(half))


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
