"""IQ1_S and IQ1_M: bytes as ggml makes them.

A weight is -1, 0 or 1 times a scale, all shifted by an eighth of it up or down. In a sub-block that
is sorted, the best such codes are three runs, so every pair of limits between them is tried, with
both shifts; what a run adds to the sums is a difference of two running sums. Then groups of 8
weights move to rows of the grid. Eight sub-blocks are searched side by side, one in each lane.

A weight counts by its importance times the root of its square plus twice the super-block's mean
square; in IQ1_M without importance, by its square. IQ1_S is made with importance only.

Source: ggml/src/ggml-quants.c, `quantize_row_iq1_s_impl`, `quantize_row_iq1_m_impl`,
`iq1_find_best_neighbour2`.
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from explorer.quantization.grids import Grid
from explorer.quantization.iq_search import Values, nearest_of_8, scale_code, with_grid
from explorer.quantization.jit import (
    f32,
    half_of_float32,
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
from explorer.quantization.registry import LANES
from explorer.quantization.scale_search import finite, mean_square

_DELTA: Final = 0.125
_UP: Final = Values(-1.0 + _DELTA, 1.0)
_DOWN: Final = Values(-1.0 - _DELTA, 1.0)

# Places in `Runs.search`, float32, of figures that are one number for each lane.
_BEST: Final = 0 * LANES  # what the best limits and shift so far gain
_SCALE: Final = 1 * LANES
_LOW: Final = 2 * LANES  # how many weights get the lowest code
_MIDDLE: Final = 3 * LANES  # how many get that or the middle one
_SHIFTS: Final = 4 * LANES  # which combination of shifts; -1: none found
_SUMS_X: Final = 5 * LANES  # running sums of weights, 33 for each lane; for IQ1_M 17 of each half
_SUMS_W: Final = _SUMS_X + 34 * LANES
_END: Final = _SUMS_W + 34 * LANES
_LEAST_SCORE: Final = -3.4028234663852886e38


class Runs(NamedTuple):
    """Arrays in which limits between runs are searched.

    Attributes:
        search: float32: see the places above.
        order: int32 [64]: of one sub-block, the places of its weights in order, then their ranks.
        orders: int32 [32 * LANES]: those places of eight sub-blocks.
        best: uint32 [2 * LANES]: for `nearest_of_8`.
        chosen: uint32 [32]: what each group of the block is rounded to, as a point.
    """

    search: NDArray[np.float32]
    order: NDArray[np.int32]
    orders: NDArray[np.int32]
    best: NDArray[np.uint32]
    chosen: NDArray[np.uint32]


def _new_runs() -> Runs:
    return Runs(
        np.zeros(_END, np.float32),
        np.zeros(64, np.int32),
        np.zeros(32 * LANES, np.int32),
        np.zeros(2 * LANES, np.uint32),
        np.zeros(32, np.uint32),
    )


@routine
def _load(values: Any, importance: Any, b: Any, work: Any) -> None:
    """Write a block's weights to `x` and what they count to `w`."""
    square = f32(2) * mean_square(values, b, 256)
    for i in range(256):
        v = finite(values[b, i])
        work.x[i] = v
        if importance is not None:
            factor = f32(math.sqrt(square + v * v))
            work.w[i] = importance[b % importance.shape[0], i] * factor
        else:
            work.w[i] = v * v


@routine
def _sort(first: Any, count: Any, x: Any, order: Any) -> None:
    """Write the places of `count` weights, the least first, equal ones as they are.

    A weight's rank is the number of those that come before it; ranks are behind the places.
    """
    for i in range(count):
        order[32 + i] = i32(0)
    for j in range(count):
        v = x[first + j]
        for i in range(count):
            own = x[first + i]
            before = (v < own) | ((v == own) & (j < i))
            order[32 + i] += i32(before)
    for i in range(count):
        order[order[32 + i]] = i


@inlined
def _magnitude(x: Any, first: Any, count: Any) -> Any:
    most = abs(x[first])
    for i in range(first + 1, first + count):
        most = abs(x[i]) if abs(x[i]) > most else most
    return most


@routine
def _prepare(place: Any, halves: Any, work: Any, runs: Any) -> None:
    """Sort a sub-block, and sum it up from the least weight on; place: first weight, length, lane.

    With `halves`, sums are over the first and over the second half of the sub-block.
    """
    first, count, k = place
    search, order, orders = runs.search, runs.order, runs.orders
    _sort(first, count, work.x, order)
    size = count + 1
    for half in range(2 if halves else 1):
        sum_x, sum_w = f32(0), f32(0)
        at = half * size
        search[_SUMS_X + LANES * at + k] = sum_x
        search[_SUMS_W + LANES * at + k] = sum_w
        for j in range(count):
            i = order[j]
            if not halves or (i >= count // 2) == (half == 1):
                sum_x += work.w[first + i] * work.x[first + i]
                sum_w += work.w[first + i]
            search[_SUMS_X + LANES * (at + j + 1) + k] = sum_x
            search[_SUMS_W + LANES * (at + j + 1) + k] = sum_w
    search[_BEST + k] = f32(_LEAST_SCORE)
    search[_SCALE + k] = f32(0)
    search[_SHIFTS + k] = f32(-1)
    for j in range(count):
        orders[LANES * j + k] = order[j]


@inlined
def _keep(sums: Any, limits: Any, shifts: Any, k: Any, search: Any) -> None:
    """Note limits and shifts if they gain more than the best so far."""
    sum_xl, sum_l2 = sums
    scale = sum_xl / sum_l2
    better = (sum_l2 > 0) & (sum_xl * sum_xl > search[_BEST + k] * sum_l2)
    search[_SCALE + k] = scale if better else search[_SCALE + k]
    search[_BEST + k] = scale * sum_xl if better else search[_BEST + k]
    search[_LOW + k] = limits[0] if better else search[_LOW + k]
    search[_MIDDLE + k] = limits[1] if better else search[_MIDDLE + k]
    search[_SHIFTS + k] = f32(shifts) if better else search[_SHIFTS + k]


@inlined
def _sums_of_runs(runs_x: Any, runs_w: Any, shift: Any) -> Any:
    """Return what decides, from the sums of three runs, for a shift."""
    low, middle, high = f32(-1) + shift, shift, f32(1) + shift
    sum_xl = runs_x[0] * low + runs_x[1] * middle + runs_x[2] * high
    sum_l2 = runs_w[0] * low * low + runs_w[1] * middle * middle + runs_w[2] * high * high
    return sum_xl, sum_l2


@routine
def _search_32(search: Any) -> None:
    """Find the limits and the shift (0: up, 1: down) of eight sub-blocks of 32 weights."""
    for low in range(33):
        for middle in range(low, 33):
            limits = (f32(low), f32(middle))
            for k in range(LANES):
                x1, x2 = search[_SUMS_X + LANES * low + k], search[_SUMS_X + LANES * middle + k]
                w1, w2 = search[_SUMS_W + LANES * low + k], search[_SUMS_W + LANES * middle + k]
                runs_x = (x1, x2 - x1, search[_SUMS_X + LANES * 32 + k] - x2)
                runs_w = (w1, w2 - w1, search[_SUMS_W + LANES * 32 + k] - w2)
                _keep(_sums_of_runs(runs_x, runs_w, f32(_DELTA)), limits, 0, k, search)
                _keep(_sums_of_runs(runs_x, runs_w, f32(-_DELTA)), limits, 1, k, search)


@inlined
def _sums_of_half(at: Any, k: Any, limits: Any, shift: Any, search: Any) -> Any:
    """Return what decides for a half of 16 weights; its running sums begin at `at`."""
    low, middle, high = f32(-1) + shift, shift, f32(1) + shift
    first_step, second_step = low * low - middle * middle, middle * middle - high * high
    x1 = search[_SUMS_X + LANES * (at + limits[0]) + k]
    x2 = search[_SUMS_X + LANES * (at + limits[1]) + k]
    w1 = search[_SUMS_W + LANES * (at + limits[0]) + k]
    w2 = search[_SUMS_W + LANES * (at + limits[1]) + k]
    total_x = search[_SUMS_X + LANES * (at + 16) + k]
    total_w = search[_SUMS_W + LANES * (at + 16) + k]
    sum_xl = total_x * high - (x1 + x2)
    sum_l2 = total_w * high * high + w1 * first_step + w2 * second_step
    return sum_xl, sum_l2


@routine
def _search_16(search: Any) -> None:
    """Find limits and shifts of eight sub-blocks of 16 weights.

    A half of 8 has a shift of its own: of the shifts' number, bit 1 is set where the first half's
    is down, bit 0 where the second's is.
    """
    for low in range(17):
        for middle in range(low, 17):
            places = (low, middle)
            limits = (f32(low), f32(middle))
            for k in range(LANES):
                up_x, up_w = _sums_of_half(0, k, places, f32(_DELTA), search)
                down_x, down_w = _sums_of_half(0, k, places, f32(-_DELTA), search)
                up_x2, up_w2 = _sums_of_half(17, k, places, f32(_DELTA), search)
                down_x2, down_w2 = _sums_of_half(17, k, places, f32(-_DELTA), search)
                _keep((up_x + up_x2, up_w + up_w2), limits, 0, k, search)
                _keep((up_x + down_x2, up_w + down_w2), limits, 1, k, search)
                _keep((down_x + up_x2, down_w + up_w2), limits, 2, k, search)
                _keep((down_x + down_x2, down_w + down_w2), limits, 3, k, search)


@inlined
def _values_of(shifts: Any, group: Any, groups: Any) -> Any:
    """Return what codes stand for in a group of a sub-block."""
    down = shifts & 1 if groups == 4 or group == 1 else shifts >> 1
    return _DOWN if down else _UP


@inlined
def _value(point: Any, i: Any, values: Any) -> Any:
    return f32(values.first) + f32(i32((point >> u32(2 * i)) & u32(3)))


@routine
def _choose_rows(place: Any, table: Any, work: Any, runs: Any) -> Any:
    """Move a sub-block to rows of the grid; return its scale and shifts.

    place: first weight, length, lane. The rows, as points, are written to `runs.chosen`.
    """
    first, count, k = place
    codes = work.codes
    scale, shifts = runs.search[_SCALE + k], i32(runs.search[_SHIFTS + k])
    low, middle = i32(runs.search[_LOW + k]), i32(runs.search[_MIDDLE + k])
    groups = count // 8
    turn = scale < 0
    for j in range(count):
        code = 0 if j < low else (1 if j < middle else 2)
        codes[runs.orders[LANES * j + k]] = u8(2 - code if turn else code)
    if turn:
        scale = -scale
        shifts = (1 if groups == 4 else 3) - shifts
    moved = False
    for group in range(groups):
        point = u32(0)
        for i in range(8):
            point |= u32(u32(codes[8 * group + i]) << u32(2 * i))
        if table.rows[point] < 0:
            moved = True
            at = (first + 8 * group, scale, _values_of(shifts, group, groups))
            point = nearest_of_8(table, point, at, (work.x, work.w, runs.best))
        runs.chosen[first // 8 + group] = point
    if moved:
        sum_xl, sum_l2 = f32(0), f32(0)
        for group in range(groups):
            values = _values_of(shifts, group, groups)
            for i in range(8):
                at = first + 8 * group + i
                value = _value(runs.chosen[first // 8 + group], i, values)
                sum_xl += work.w[at] * value * work.x[at]
                sum_l2 += work.w[at] * value * value
        if sum_xl > 0 and sum_l2 > 0:
            scale = sum_xl / sum_l2
    return scale, shifts


@inlined
def _search_block(count: Any, least: Any, table: Any, work: Any, runs: Any) -> Any:
    """Find rows, scales and shifts (`work.sub`) of a block's sub-blocks; return the best scale."""
    most = f32(0)
    for first in range(0, 256 // count, LANES):
        for k in range(LANES):
            place = (count * (first + k), count, k)
            _prepare(place, count == 16, work, runs)
        if count == 32:
            _search_32(runs.search)
        else:
            _search_16(runs.search)
        for k in range(LANES):
            start = count * (first + k)
            scale, shifts = f32(0), i32(0)
            if _magnitude(work.x, start, count) >= f32(least) and runs.search[_SHIFTS + k] >= 0:
                scale, shifts = _choose_rows((start, count, k), table, work, runs)
            else:
                for group in range(start // 8, (start + count) // 8):
                    runs.chosen[group] = u32(0)  # the point of row 0
            work.sub[0, first + k] = scale
            work.sub[1, first + k] = f32(shifts)
            most = most if most > scale else scale
    return most


@kernel
def _encode_iq1_s(values: Any, importance: Any, blocks: Any, arrays: Any) -> None:
    work, runs, table = arrays
    for b in range(blocks.shape[0]):
        _load(values, importance, b, work)
        most = _search_block(32, 1e-12, table, work, runs)
        d = most / f32(15)
        set_half(blocks, b, 0, d * f32(1.125))
        factor = f32(1) / d
        for sub in range(8):
            packed = u32(0)
            if most != 0:
                packed = u32(scale_code(work.sub[0, sub], factor, 7) << u32(12))
                packed |= u32(u32(work.sub[1, sub]) << u32(15))
            for part in range(4):
                row = u32(table.rows[runs.chosen[4 * sub + part]])
                blocks[b, 2 + 4 * sub + part] = u8(row & u32(255))
                packed |= u32((row >> u32(8)) << u32(3 * part))
            set_u16(blocks, b, 34 + 2 * sub, u16(packed))


@inlined
def _last_scale(d: Any, factor: Any, work: Any, runs: Any) -> Any:
    """Return the scale that is best for the whole block with all else as it is stored."""
    sum_xl, sum_l2 = f32(0), f32(0)
    for sub in range(16):
        odd = f32(i32(2 * i32(scale_code(work.sub[0, sub], factor, 7)) + 1))
        for group in range(2):
            values = _values_of(i32(work.sub[1, sub]), group, 2)
            for i in range(8):
                at = 16 * sub + 8 * group + i
                value = _value(runs.chosen[2 * sub + group], i, values) * odd
                sum_xl += work.w[at] * value * work.x[at]
                sum_l2 += work.w[at] * value * value
    return sum_xl / sum_l2 if sum_l2 > 0 else d


@kernel
def _encode_iq1_m(values: Any, importance: Any, blocks: Any, arrays: Any) -> None:
    work, runs, table = arrays
    for b in range(blocks.shape[0]):
        _load(values, importance, b, work)
        most = _search_block(16, 1e-7, table, work, runs)
        d = most / f32(15)
        factor = f32(1) / d
        for i in range(48, 56):
            blocks[b, i] = 0
        for sub in range(16):
            first = u32(table.rows[runs.chosen[2 * sub]])
            second = u32(table.rows[runs.chosen[2 * sub + 1]])
            blocks[b, 2 * sub] = u8(first & u32(255))
            blocks[b, 2 * sub + 1] = u8(second & u32(255))
            high = u32(first >> u32(8)) | u32((second >> u32(8)) << u32(4))
            if most != 0:
                shifts = u32(work.sub[1, sub])
                high |= u32((shifts >> u32(1)) << u32(3)) | u32((shifts & u32(1)) << u32(7))
            blocks[b, 32 + sub] = u8(high)
        if most != 0:
            half = u32(half_of_float32(_last_scale(d, factor, work, runs) * f32(1.1125)))
            for k in range(4):
                packed = u32(((half >> u32(4 * k)) & u32(15)) << u32(12))
                for part in range(4):
                    code = scale_code(work.sub[0, 4 * k + part], factor, 7)
                    packed |= u32(code << u32(3 * part))
                set_u16(blocks, b, 48 + 2 * k, u16(packed))


ENCODERS: Final = {
    "IQ1_S": with_grid(_encode_iq1_s, Grid.IQ1S, _new_runs),
    "IQ1_M": with_grid(_encode_iq1_m, Grid.IQ1S, _new_runs),
}
