"""How encoders read weights, and round as C does, in ways that become vector instructions."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from explorer.quantization.jit import (
    bits_of_float32,
    f32,
    float32_of_bits,
    i32,
    inlined,
    routine,
    u8,
    u32,
)
from explorer.quantization.registry import LANES

_LARGEST: Final = 3.4028234663852886e38
_BELOW_HALF: Final = 0.49999997  # the greatest float32 below 0.5
_ROUNDER: Final = 12582912.0  # 1.5 * 2^23, beyond which a float32 has no fraction


@inlined
def finite(x: Any) -> Any:
    """Return x, but 0 for NaN and infinities, which no block can hold."""
    return x if abs(x) <= f32(_LARGEST) else f32(0)


@inlined
def nearest(x: Any) -> Any:
    """Return the nearest whole number, as float32, ties to even; |x| below 2^22.

    Beyond, the number that ggml's `nearest_int` takes from the bits, which is 0 for NaN.
    """
    bits = bits_of_float32(x + f32(_ROUNDER)) & u32(0x7FFFFF)
    return f32(i32(i32(bits) - i32(0x400000)))


@inlined
def low_byte(x: Any) -> Any:
    """Return a whole number as C keeps it in a byte without a sign, as float32."""
    return f32(u8(i32(x)))


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


# Eight sub-blocks side by side, in the lanes of vector registers.
#
# Within one sub-block nothing could be vectorized, because float sums keep their order. So `x`
# and `w` hold weight i of sub-block k at [8 i + k], and `lanes` its figure F at [F + k].


SCALE: Final = 0 * LANES  # results
MINIMUM: Final = 1 * LANES
SUM_W: Final = 2 * LANES
HIGH: Final = 3 * LANES  # the largest magnitude, or the greatest weight
MAX: Final = 4 * LANES  # the weight of the largest magnitude
BEST: Final = 5 * LANES  # what the best scale so far gains or costs
INVERSE: Final = 6 * LANES  # what weights are multiplied by before they are rounded
SUM_L2: Final = 7 * LANES  # weighted sums over codes l and weights x, named as in ggml
SUM_XL: Final = 8 * LANES
CHOSEN: Final = 9 * LANES  # what weights were multiplied by for the codes that were best
CHOSEN_LOW: Final = 10 * LANES  # what was subtracted from them before
OTHERS: Final = 11 * LANES  # the first place that is free

SHIFTS: Final = (0, -9, -8, -7, -6, -5, -4, -3, -2, -1, 1, 2, 3, 4, 5, 6, 7, 8, 9)
"""Tenths of a code by which tried scales differ from the obvious one, which comes first."""

EPSILON: Final = 1e-15
"""Sub-blocks whose weights are all smaller have the scale 0 (ggml: `GROUP_MAX_EPS`)."""


@inlined
def greatest(figures: Any, count: Any) -> Any:
    """Return the greatest figure, and 0 if none is positive."""
    most = f32(0)
    for k in range(count):
        most = figures[k] if figures[k] > most else most
    return most


@inlined
def first_of_largest(figures: Any, count: Any) -> Any:
    """Return the first figure of the largest magnitude."""
    most = f32(0)
    for k in range(count):
        most = figures[k] if abs(figures[k]) > abs(most) else most
    return most


@routine
def find_largest(x: Any, w: Any, lanes: Any, count: Any) -> None:
    """Find the first weight of the largest magnitude, with its sign."""
    for k in range(LANES):
        lanes[HIGH + k] = f32(0)
        lanes[MAX + k] = f32(0)
        lanes[SUM_W + k] = f32(0)
    for i in range(count):
        for k in range(LANES):
            v = x[LANES * i + k]
            more = abs(v) > lanes[HIGH + k]
            lanes[HIGH + k] = abs(v) if more else lanes[HIGH + k]
            lanes[MAX + k] = v if more else lanes[MAX + k]
            lanes[SUM_W + k] += w[LANES * i + k]


# Searching scales and minima that lose least, for codes that count from a minimum.
#
# A scale is tried by rounding all weights of a sub-block to it; with the codes fixed, the best
# scale and minimum are then a linear problem with a closed solution. Scales around the obvious
# one are tried, and the best stays. Sums run in ggml's order, in float32.
#
# Source: ggml/src/ggml-quants.c, `make_qkx2_quants`, `make_qkx3_quants`.


_LOW: Final = OTHERS
_SUM_X: Final = OTHERS + LANES
_SUM_L: Final = OTHERS + 2 * LANES
_TRIED_SCALE: Final = OTHERS + 3 * LANES
_TRIED_LOW: Final = OTHERS + 4 * LANES
_ERROR: Final = OTHERS + 5 * LANES


class Steps(NamedTuple):
    """Which scales are tried: those that put `top` + `first` + n * `step` codes into the range.

    Attributes:
        weights: Weights of a sub-block.
        top: The highest code.
        first: By how much the first try's number of codes differs from `top`.
        step: By how much tries differ from each other.
        tries: The last n.
        absolute: Whether absolute errors are summed, rather than square ones.
        guarded: Whether codes of tries are limited before they are rounded, and not after it:
            `make_qkx3_quants` does so, `make_qkx2_quants` does not.
    """

    weights: int
    top: float
    first: float
    step: float
    tries: int
    absolute: bool
    guarded: bool


@inlined
def code_above(x: Any, factor: Any, low: Any, steps: Any) -> Any:
    """Return the code, as float32, of a weight over a scale of 1 / factor above a minimum."""
    top = f32(steps.top)
    if steps.guarded:
        return nearest(clamped(factor * (x - low), f32(0), top))
    return clamped(nearest(factor * (x - low)), f32(0), top)


@routine
def _add_errors(x: Any, w: Any, lanes: Any, steps: Any) -> None:
    """Sum up what rounding costs with the scales and minima that are tried."""
    for k in range(LANES):
        lanes[_ERROR + k] = f32(0)
    for i in range(steps.weights):
        for k in range(LANES):
            v = x[LANES * i + k]
            code = code_above(v, lanes[INVERSE + k], lanes[_LOW + k], steps)
            difference = lanes[_TRIED_SCALE + k] * code + lanes[_TRIED_LOW + k] - v
            loss = abs(difference) if steps.absolute else difference * difference
            lanes[_ERROR + k] += w[LANES * i + k] * loss


@routine
def _sum_up(x: Any, w: Any, lanes: Any, steps: Any) -> None:
    for k in range(LANES):
        lanes[_SUM_L + k] = f32(0)
        lanes[SUM_L2 + k] = f32(0)
        lanes[SUM_XL + k] = f32(0)
    for i in range(steps.weights):
        for k in range(LANES):
            v = x[LANES * i + k]
            code = code_above(v, lanes[INVERSE + k], lanes[_LOW + k], steps)
            weighted = w[LANES * i + k] * code
            lanes[_SUM_L + k] += weighted
            lanes[SUM_L2 + k] += weighted * code
            lanes[SUM_XL + k] += weighted * v


@routine
def _solve(lanes: Any) -> None:
    """Find the scales and minima that are best for the codes; a minimum above 0 is not allowed."""
    for k in range(LANES):
        sum_l, sum_l2, sum_xl = lanes[_SUM_L + k], lanes[SUM_L2 + k], lanes[SUM_XL + k]
        determinant = lanes[SUM_W + k] * sum_l2 - sum_l * sum_l
        scale = (lanes[SUM_W + k] * sum_xl - lanes[_SUM_X + k] * sum_l) / determinant
        low = (sum_l2 * lanes[_SUM_X + k] - sum_l * sum_xl) / determinant
        if low > 0:
            low = f32(0)
            scale = sum_xl / sum_l2
        lanes[_TRIED_SCALE + k] = scale
        lanes[_TRIED_LOW + k] = low
        if not determinant > 0:
            lanes[_TRIED_SCALE + k] = f32(float("nan"))  # is never better


@routine
def _start(x: Any, w: Any, lanes: Any, count: Any) -> None:
    """Find the range of each sub-block, which holds 0, and sum up its weights."""
    for k in range(LANES):
        lanes[_LOW + k] = lanes[HIGH + k] = x[k]
        lanes[SUM_W + k] = w[k]
        lanes[_SUM_X + k] = w[k] * x[k]
    for i in range(1, count):
        for k in range(LANES):
            v = x[LANES * i + k]
            lanes[_LOW + k] = v if v < lanes[_LOW + k] else lanes[_LOW + k]
            lanes[HIGH + k] = v if v > lanes[HIGH + k] else lanes[HIGH + k]
            lanes[SUM_W + k] += w[LANES * i + k]
            lanes[_SUM_X + k] += w[LANES * i + k] * v
    for k in range(LANES):
        lanes[_LOW + k] = f32(0) if lanes[_LOW + k] > 0 else lanes[_LOW + k]  # -0 stays, as in C


@routine
def search_scales_and_minima(x: Any, w: Any, lanes: Any, steps: Any) -> None:
    """Set SCALE and MINIMUM so that codes from 0 to `top` times scale minus minimum lose least."""
    top = f32(steps.top)
    _start(x, w, lanes, steps.weights)
    for k in range(LANES):
        span = lanes[HIGH + k] - lanes[_LOW + k]
        factor = top / span if span > 0 else f32(0)
        lanes[_TRIED_SCALE + k] = f32(1) / factor if span > 0 else f32(0)
        # Where it is infinite, C rounds infinities and NaN, and all codes are 0.
        lanes[INVERSE + k] = finite(factor)
        lanes[_TRIED_LOW + k] = lanes[_LOW + k]
    _add_errors(x, w, lanes, steps)
    for k in range(LANES):
        lanes[SCALE + k] = lanes[_TRIED_SCALE + k]
        lanes[BEST + k] = lanes[_ERROR + k]
        lanes[CHOSEN + k] = lanes[INVERSE + k]
        lanes[CHOSEN_LOW + k] = lanes[_LOW + k]
    for n in range(steps.tries + 1):
        number = f32(steps.first) + f32(steps.step) * f32(n) + top
        for k in range(LANES):
            # The best minimum so far may be above all weights: then both factors are negative.
            lanes[INVERSE + k] = number / (lanes[HIGH + k] - lanes[_LOW + k])
        _sum_up(x, w, lanes, steps)
        _solve(lanes)
        _add_errors(x, w, lanes, steps)
        for k in range(LANES):
            if lanes[_ERROR + k] < lanes[BEST + k]:
                lanes[BEST + k] = lanes[_ERROR + k]
                lanes[CHOSEN + k] = lanes[INVERSE + k]
                lanes[CHOSEN_LOW + k] = lanes[_LOW + k]
                lanes[SCALE + k] = lanes[_TRIED_SCALE + k]
                lanes[_LOW + k] = lanes[_TRIED_LOW + k]
    for k in range(LANES):
        lanes[MINIMUM + k] = -lanes[_LOW + k]


# Searching scales that lose least, for codes on both sides of zero; and scales of scales.
#
# A scale is tried by rounding all weights to it; with the codes fixed, the best scale is then the
# solution of a least squares problem. Sums run in ggml's order, in float32.
#
# Source: ggml/src/ggml-quants.c, `make_qx_quants`, `make_q3_quants`, `make_qp_quants`.


@routine
def search_scales(x: Any, w: Any, lanes: Any, count: Any, half: Any) -> None:
    """Set SCALE so that codes from -half to half - 1 times scale lose least."""
    low, high = f32(-half), f32(half - 1)
    find_largest(x, w, lanes, count)
    for k in range(LANES):
        lanes[SCALE + k] = f32(0)
        lanes[BEST + k] = f32(0)
    for n in range(19):
        number = -(f32(half) + f32(0.1) * f32(SHIFTS[n]))
        for k in range(LANES):
            enough = lanes[HIGH + k] >= f32(EPSILON)
            lanes[INVERSE + k] = number / lanes[MAX + k] if enough else f32(0)
            lanes[SUM_XL + k] = f32(0)
            lanes[SUM_L2 + k] = f32(0)
        for i in range(count):
            for k in range(LANES):
                v = x[LANES * i + k]
                code = clamped(nearest(lanes[INVERSE + k] * v), low, high)
                lanes[SUM_XL + k] += w[LANES * i + k] * v * code
                lanes[SUM_L2 + k] += w[LANES * i + k] * code * code
        for k in range(LANES):
            sum_xl, sum_l2 = lanes[SUM_XL + k], lanes[SUM_L2 + k]
            if n == 0:
                lanes[CHOSEN + k] = lanes[INVERSE + k]
            better = sum_l2 > 0 and sum_xl * sum_xl > lanes[BEST + k] * sum_l2
            if better or (n == 0 and sum_l2 != 0):  # NaN, where sums overflow, is no 0
                lanes[SCALE + k] = sum_xl / sum_l2
                lanes[BEST + k] = lanes[SCALE + k] * sum_xl
                lanes[CHOSEN + k] = lanes[INVERSE + k]


@inlined
def code_of(x: Any, factor: Any, half: Any) -> Any:
    """Return the code, from 0 on, of a weight whose scale is 1 / factor.

    Where all weights are negligible, the factor is 0, and ggml has the lowest code.
    """
    code = clamped(nearest(factor * x), f32(-half), f32(half - 1)) + f32(half)
    return code if factor != 0 else f32(0)


WIDE: Final = 2 * LANES
"""Lanes of `search_codes`: each step waits for the one before, so two vectors take no longer."""

_WIDE_HIGH: Final = 0 * WIDE  # figures of `lanes`, as above
_WIDE_FACTOR: Final = 1 * WIDE
_WIDE_XL: Final = 2 * WIDE
_WIDE_L2: Final = 3 * WIDE
_WIDE_CHANGED: Final = 4 * WIDE


@routine
def _improve_codes(x: Any, lanes: Any, codes: Any, half: Any) -> None:
    """Try another code for one weight of each sub-block after the other."""
    low, high = f32(-half), f32(half - 1)
    for i in range(16):
        for k in range(WIDE):
            v, code = x[WIDE * i + k], codes[WIDE * i + k]
            old_xl, old_l2 = lanes[_WIDE_XL + k], lanes[_WIDE_L2 + k]
            sum_xl = old_xl - v * v * v * code
            sum_l2 = old_l2 - v * v * code * code
            other = clamped(nearest(v * sum_l2 / sum_xl), low, high)
            new_xl = sum_xl + v * v * v * other
            new_l2 = sum_l2 + v * v * other * other
            better = (
                (sum_xl > 0)
                & (other != code)
                & (new_l2 > 0)
                & (new_xl * new_xl * old_l2 > old_xl * old_xl * new_l2)
            )
            codes[WIDE * i + k] = other if better else code
            lanes[_WIDE_XL + k] = new_xl if better else old_xl
            lanes[_WIDE_L2 + k] = new_l2 if better else old_l2
            lanes[_WIDE_CHANGED + k] = f32(1) if better else lanes[_WIDE_CHANGED + k]


@routine
def search_codes(x: Any, lanes: Any, codes: Any, found: Any, half: Any) -> None:
    """Search scales for sixteen sub-blocks of 16, by improving one code after the other.

    A weight counts by its square.

    Args:
        x: float32 [16 * WIDE]: weight i of sub-block k at [WIDE i + k].
        lanes: float32: worked in.
        codes: float32 [16 * WIDE]: gets the codes, from -half to half - 1, in the order of x.
        found: Two float32 [WIDE], which get the scales and what weights were first multiplied by:
            0 for sub-blocks that are negligible.
        half: As many codes are negative.
    """
    low, high = f32(-half), f32(half - 1)
    scales, factors = found
    for k in range(WIDE):
        lanes[_WIDE_HIGH + k] = f32(0)
        lanes[_WIDE_FACTOR + k] = f32(0)
        lanes[_WIDE_XL + k] = f32(0)
        lanes[_WIDE_L2 + k] = f32(0)
    for i in range(16):
        for k in range(WIDE):
            v = x[WIDE * i + k]
            more = abs(v) > lanes[_WIDE_HIGH + k]
            lanes[_WIDE_HIGH + k] = abs(v) if more else lanes[_WIDE_HIGH + k]
            lanes[_WIDE_FACTOR + k] = v if more else lanes[_WIDE_FACTOR + k]
    for k in range(WIDE):
        enough = lanes[_WIDE_HIGH + k] >= f32(EPSILON)
        lanes[_WIDE_FACTOR + k] = low / lanes[_WIDE_FACTOR + k] if enough else f32(0)
    for i in range(16):
        for k in range(WIDE):
            v = x[WIDE * i + k]
            code = clamped(nearest(lanes[_WIDE_FACTOR + k] * v), low, high)
            codes[WIDE * i + k] = code
            lanes[_WIDE_XL + k] += v * v * v * code
            lanes[_WIDE_L2 + k] += v * v * code * code
    for _ in range(5):
        for k in range(WIDE):
            lanes[_WIDE_CHANGED + k] = f32(0)
        _improve_codes(x, lanes, codes, half)
        if greatest(lanes[_WIDE_CHANGED : _WIDE_CHANGED + WIDE], WIDE) == 0:
            break
    for k in range(WIDE):
        sum_l2 = lanes[_WIDE_L2 + k]
        scales[k] = lanes[_WIDE_XL + k] / sum_l2 if sum_l2 > 0 else f32(0)
        factors[k] = lanes[_WIDE_FACTOR + k]


@routine
def search_scale_of_signed(scales: Any, weights: Any, count: Any, half: Any) -> Any:
    """Return the scale with which numbers from -half to half - 1 come nearest to scales.

    And what scales are to be multiplied by, before they are rounded to these numbers; 0 if there is
    none. `weights` say how much the square error of each scale counts.
    """
    low, high = f32(-half), f32(half - 1)
    most = first_of_largest(scales, count)
    best, found, chosen = f32(0), f32(0), f32(0)
    if abs(most) < f32(EPSILON):
        return found, chosen
    for n in range(19):
        factor = -(f32(half) + f32(0.1) * f32(SHIFTS[n])) / most
        sum_xl, sum_l2 = f32(0), f32(0)
        for k in range(count):
            code = clamped(nearest(factor * scales[k]), low, high)
            sum_xl += weights[k] * scales[k] * code
            sum_l2 += weights[k] * code * code
        if n == 0:
            chosen = factor
        if sum_l2 > 0 and (n == 0 or sum_xl * sum_xl > best * sum_l2):
            found = sum_xl / sum_l2
            best = found * sum_xl
            chosen = factor
    return found, chosen


@routine
def search_scale_of_positive(scales: Any, weights: Any, codes: Any, count: Any, top: Any) -> Any:
    """Return the scale with which numbers up to `top` come nearest to scales.

    `weights` are as before; the numbers are written to `codes`, float32 [count]. A scale that is
    negative, as few are, has a negative one, of which the low byte is kept, as in C.
    """
    high = f32(top)
    most = greatest(scales, count)
    if most < f32(EPSILON):
        for k in range(count):
            codes[k] = f32(0)
        return f32(0)
    best, factor = f32(0), high / most
    for n in range(9):
        tried = (f32(0.1) * f32((0, -4, -3, -2, -1, 1, 2, 3, 4)[n]) + high) / most
        scale = f32(1) / tried
        error = f32(0)
        for k in range(count):
            code = nearest(tried * scales[k])
            code = low_byte(code) if n == 0 else min(code, high)
            difference = scales[k] - scale * code
            error += weights[k] * difference * difference
        if n == 0 or error < best:
            best, factor = error, tried
    sum_xl, sum_l2 = f32(0), f32(0)
    for k in range(count):
        code = min(nearest(factor * scales[k]), high)
        codes[k] = low_byte(code)
        sum_xl += weights[k] * scales[k] * code
        sum_l2 += weights[k] * code * code
    for _ in range(5):
        for k in range(count):
            rest_xl = sum_xl - weights[k] * scales[k] * codes[k]
            rest_l2 = sum_l2 - weights[k] * codes[k] * codes[k]
            if rest_xl > 0 and rest_l2 > 0:
                other = min(nearest(scales[k] * rest_l2 / rest_xl), high)
                new_xl = rest_xl + weights[k] * scales[k] * other
                new_l2 = rest_l2 + weights[k] * other * other
                if other != codes[k] and new_xl * new_xl * sum_l2 > sum_xl * sum_xl * new_l2:
                    codes[k], sum_xl, sum_l2 = low_byte(other), new_xl, new_l2
    return sum_xl / sum_l2 if sum_l2 > 0 else f32(0)
