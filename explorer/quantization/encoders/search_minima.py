"""Searching scales and minima that lose least, for codes that count from a minimum.

A scale is tried by rounding all weights of a sub-block to it; with the codes fixed, the best scale
and minimum are then a linear problem with a closed solution. Scales around the obvious one are
tried, and the best stays. Sums run in ggml's order, in float32.

Source: ggml/src/ggml-quants.c, `make_qkx2_quants`, `make_qkx3_quants`.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from explorer.quantization.encoders.contract import LANES
from explorer.quantization.encoders.lanes import (
    BEST,
    HIGH,
    INVERSE,
    MINIMUM,
    OTHERS,
    SCALE,
    SUM_L2,
    SUM_W,
    SUM_XL,
)
from explorer.quantization.encoders.rounding import clamped, nearest
from explorer.quantization.jit import f32, routine

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
    """

    weights: int
    top: float
    first: float
    step: float
    tries: int
    absolute: bool


@routine
def _add_errors(x: Any, w: Any, lanes: Any, steps: Any) -> None:
    """Sum up what rounding costs with the scales and minima that are tried."""
    top = f32(steps.top)
    for k in range(LANES):
        lanes[_ERROR + k] = f32(0)
    for i in range(steps.weights):
        for k in range(LANES):
            v = x[LANES * i + k]
            code = clamped(nearest(lanes[INVERSE + k] * (v - lanes[_LOW + k])), f32(0), top)
            difference = lanes[_TRIED_SCALE + k] * code + lanes[_TRIED_LOW + k] - v
            loss = abs(difference) if steps.absolute else difference * difference
            lanes[_ERROR + k] += w[LANES * i + k] * loss


@routine
def _sum_up(x: Any, w: Any, lanes: Any, steps: Any) -> None:
    top = f32(steps.top)
    for k in range(LANES):
        lanes[_SUM_L + k] = f32(0)
        lanes[SUM_L2 + k] = f32(0)
        lanes[SUM_XL + k] = f32(0)
    for i in range(steps.weights):
        for k in range(LANES):
            v = x[LANES * i + k]
            code = clamped(nearest(lanes[INVERSE + k] * (v - lanes[_LOW + k])), f32(0), top)
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
        lanes[_LOW + k] = lanes[_LOW + k] if lanes[_LOW + k] < 0 else f32(0)


@routine
def search_scales_and_minima(x: Any, w: Any, lanes: Any, steps: Any) -> None:
    """Set SCALE and MINIMUM so that codes from 0 to `top` times scale minus minimum lose least."""
    top = f32(steps.top)
    _start(x, w, lanes, steps.weights)
    for k in range(LANES):
        span = lanes[HIGH + k] - lanes[_LOW + k]
        lanes[INVERSE + k] = top / span if span > 0 else f32(0)
        lanes[_TRIED_SCALE + k] = f32(1) / lanes[INVERSE + k] if span > 0 else f32(0)
        lanes[_TRIED_LOW + k] = lanes[_LOW + k]
    _add_errors(x, w, lanes, steps)
    for k in range(LANES):
        lanes[SCALE + k] = lanes[_TRIED_SCALE + k]
        lanes[BEST + k] = lanes[_ERROR + k]
    for n in range(steps.tries + 1):
        number = f32(steps.first) + f32(steps.step) * f32(n) + top
        for k in range(LANES):
            span = lanes[HIGH + k] - lanes[_LOW + k]
            lanes[INVERSE + k] = number / span if span > 0 else f32(0)
        _sum_up(x, w, lanes, steps)
        _solve(lanes)
        _add_errors(x, w, lanes, steps)
        for k in range(LANES):
            if lanes[_ERROR + k] < lanes[BEST + k]:
                lanes[BEST + k] = lanes[_ERROR + k]
                lanes[SCALE + k] = lanes[_TRIED_SCALE + k]
                lanes[_LOW + k] = lanes[_TRIED_LOW + k]
    for k in range(LANES):
        lanes[MINIMUM + k] = -lanes[_LOW + k]
