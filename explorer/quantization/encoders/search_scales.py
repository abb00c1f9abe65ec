"""Searching scales that lose least, for codes on both sides of zero; and scales of scales.

A scale is tried by rounding all weights to it; with the codes fixed, the best scale is then the
solution of a least squares problem. Sums run in ggml's order, in float32.

Source: ggml/src/ggml-quants.c, `make_qx_quants`, `make_q3_quants`, `make_qp_quants`.
"""

from __future__ import annotations

import math
from typing import Any

from explorer.quantization.encoders.contract import LANES
from explorer.quantization.encoders.lanes import (
    BEST,
    EPSILON,
    HIGH,
    INVERSE,
    MAX,
    SCALE,
    SHIFTS,
    SUM_L2,
    SUM_XL,
    find_largest,
    first_of_largest,
    greatest,
)
from explorer.quantization.encoders.rounding import clamped, nearest
from explorer.quantization.jit import f32, routine


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
            if sum_l2 > 0 and (n == 0 or sum_xl * sum_xl > lanes[BEST + k] * sum_l2):
                lanes[SCALE + k] = sum_xl / sum_l2
                lanes[BEST + k] = lanes[SCALE + k] * sum_xl


@routine
def search_codes(x: Any, w: Any, lanes: Any, codes: Any, half: Any) -> None:
    """Set SCALE, for sub-blocks of 16, by improving one code after the other.

    `codes`, float32 [16 * LANES], is worked in.
    """
    low, high = f32(-half), f32(half - 1)
    find_largest(x, w, lanes, 16)
    for k in range(LANES):
        enough = lanes[HIGH + k] >= f32(EPSILON)
        lanes[INVERSE + k] = low / lanes[MAX + k] if enough else f32(0)
        lanes[SUM_XL + k] = f32(0)
        lanes[SUM_L2 + k] = f32(0)
    for i in range(16):
        for k in range(LANES):
            v = x[LANES * i + k]
            code = clamped(nearest(lanes[INVERSE + k] * v), low, high)
            codes[LANES * i + k] = code
            lanes[SUM_XL + k] += w[LANES * i + k] * v * code
            lanes[SUM_L2 + k] += w[LANES * i + k] * code * code
    for _ in range(5):
        for i in range(16):
            for k in range(LANES):
                v, u, code = x[LANES * i + k], w[LANES * i + k], codes[LANES * i + k]
                old_xl, old_l2 = lanes[SUM_XL + k], lanes[SUM_L2 + k]
                sum_xl = old_xl - u * v * code
                sum_l2 = old_l2 - u * code * code
                other = clamped(nearest(v * sum_l2 / sum_xl), low, high)
                new_xl = sum_xl + u * v * other
                new_l2 = sum_l2 + u * other * other
                better = (
                    (sum_xl > 0)
                    & (other != code)
                    & (new_l2 > 0)
                    & (new_xl * new_xl * old_l2 > old_xl * old_xl * new_l2)
                )
                codes[LANES * i + k] = other if better else code
                lanes[SUM_XL + k] = new_xl if better else old_xl
                lanes[SUM_L2 + k] = new_l2 if better else old_l2
    for k in range(LANES):
        sum_l2 = lanes[SUM_L2 + k]
        lanes[SCALE + k] = lanes[SUM_XL + k] / sum_l2 if sum_l2 > 0 else f32(0)


@routine
def search_scale_of_signed(scales: Any, weights: Any, count: Any, half: Any) -> Any:
    """Return the scale with which numbers from -half to half - 1 come nearest to scales.

    Args:
        scales: float32 [count]: what is to be rounded.
        weights: float32 [count]: how much the square error of each counts.
        count: How many.
        half: How many numbers there are below 0.
    """
    low, high = f32(-half), f32(half - 1)
    most = first_of_largest(scales, count)
    best, found = f32(0), f32(0)
    if abs(most) < f32(EPSILON):
        return found
    for n in range(19):
        factor = -(f32(half) + f32(0.1) * f32(SHIFTS[n])) / most
        sum_xl, sum_l2 = f32(0), f32(0)
        for k in range(count):
            code = clamped(nearest(factor * scales[k]), low, high)
            sum_xl += weights[k] * scales[k] * code
            sum_l2 += weights[k] * code * code
        if sum_l2 > 0 and (n == 0 or sum_xl * sum_xl > best * sum_l2):
            found = sum_xl / sum_l2
            best = found * sum_xl
    return found


@routine
def search_scale_of_positive(scales: Any, weights: Any, codes: Any, count: Any, top: Any) -> Any:
    """Return the scale with which numbers from 0 to `top` come nearest to scales.

    Args:
        scales: float32 [count]: what is to be rounded; none is negative.
        weights: float32 [count]: how much the square error of each counts.
        codes: float32 [count], filled with the numbers.
        count: How many.
        top: The highest number.
    """
    high = f32(top)
    most = greatest(scales, count)
    if most < f32(EPSILON):
        for k in range(count):
            codes[k] = f32(0)
        return f32(0)
    best, factor = f32(math.inf), f32(0)
    for n in range(9):
        tried = (f32(0.1) * f32((0, -4, -3, -2, -1, 1, 2, 3, 4)[n]) + high) / most
        scale = f32(1) / tried
        error = f32(0)
        for k in range(count):
            difference = scales[k] - scale * clamped(nearest(tried * scales[k]), f32(0), high)
            error += weights[k] * difference * difference
        if error < best:
            best, factor = error, tried
    sum_xl, sum_l2 = f32(0), f32(0)
    for k in range(count):
        codes[k] = clamped(nearest(factor * scales[k]), f32(0), high)
        sum_xl += weights[k] * scales[k] * codes[k]
        sum_l2 += weights[k] * codes[k] * codes[k]
    for _ in range(5):
        for k in range(count):
            rest_xl = sum_xl - weights[k] * scales[k] * codes[k]
            rest_l2 = sum_l2 - weights[k] * codes[k] * codes[k]
            if rest_xl > 0 and rest_l2 > 0:
                other = clamped(nearest(scales[k] * rest_l2 / rest_xl), f32(0), high)
                new_xl = rest_xl + weights[k] * scales[k] * other
                new_l2 = rest_l2 + weights[k] * other * other
                if other != codes[k] and new_xl * new_xl * sum_l2 > sum_xl * sum_xl * new_l2:
                    codes[k], sum_xl, sum_l2 = other, new_xl, new_l2
    return sum_xl / sum_l2 if sum_l2 > 0 else f32(0)
