"""IQ2_S, IQ3_XXS and IQ3_S: the rows of a grid that lose least, and scales for them.

Scales are searched as if each weight could have any level; then for each group every row of the
grid is tried, scales are solved for these rows, rounded, and every row is tried once more. ggml
tries more scales and fewer rows: with importance, errors are as ggml's, without it up to a fifth
less, because ggml then lets a weight count by its square alone.

A weight counts by the root of its square plus twice the super-block's mean square, times its
importance. A negative weight is a sign and a magnitude. Where signs
have to be even in number (IQ3_XXS), the one of eight that matters least gets the wrong sign.

Source of the weighing and of the scales that are tried: ggml/src/ggml-quants.c,
`quantize_row_iq2_s_impl`, `quantize_row_iq3_xxs_impl`, `quantize_row_iq3_s_impl`.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from explorer.quantization.iq import Grid, stored_grid
from explorer.quantization.jit import (
    bits_of_float32,
    f32,
    float32_of_half,
    half_of_float32,
    i32,
    inlined,
    kernel,
    routine,
    set_half,
    u8,
    u32,
)
from explorer.quantization.registry import Encode, Work
from explorer.quantization.scale_search import (
    clamped,
    finite,
    inverse,
    mean_square,
    nearest,
    ordered,
)


class Form(NamedTuple):
    """What differs between the types.

    Attributes:
        shared: Weights that share a scale.
        group: Weights of a row of the grid.
        levels: How many magnitudes there are, which rise about as odd numbers do.
        first: The least, if they were odd numbers.
        least: The least.
        unit: A scale is the block's times this, times an odd number from 1 to 31.
        even: Whether the minus signs of 8 weights must be even in number.
    """

    shared: int
    group: int
    levels: int
    first: float
    least: float
    unit: float
    even: bool


_IQ2_S: Final = Form(16, 8, 3, 8.5, 8.0, 0.125, even=False)
_IQ3_XXS: Final = Form(32, 4, 8, 4.0, 4.0, 0.25, even=True)
_IQ3_S: Final = Form(32, 4, 8, 1.0, 1.0, 1.0, even=False)
_TRIES: Final = 9  # on each side of the obvious scale
_INDEX_BITS: Final = 1023  # no grid has more rows


@cache
def _columns(grid: Grid) -> NDArray[np.float32]:
    """Return a grid as float32 [weights of a group, rows], read-only."""
    columns = np.ascontiguousarray(stored_grid(grid).T, np.float32)
    columns.flags.writeable = False
    return columns


@routine
def _load(values: Any, importance: Any, b: Any, form: Any, work: Any) -> None:
    """Write magnitudes to `x`, what they count to `w`, and 8 signs to each of 32 `codes`."""
    square = mean_square(values, b, 256)
    for eight in range(32):
        signs, least, which = u8(0), f32(math.inf), 0
        for i in range(8):
            at = 8 * eight + i
            v = finite(values[b, at])
            weight = f32(math.sqrt(f32(2) * square + v * v))
            if importance is not None:
                weight *= importance[b % importance.shape[0], at]
            if v < 0:
                signs |= u8(1 << i)
            if weight * v * v < least:
                least, which = weight * v * v, i
            work.x[at] = abs(v)
            # Where nothing counts, all rows would be alike.
            work.w[at] = weight + f32(1e-6) * square
        if form.even:
            odd = signs ^ signs >> 4
            odd ^= odd >> 2
            odd ^= odd >> 1
            if odd & 1:
                signs ^= u8(1 << which)
                work.x[8 * eight + which] = -work.x[8 * eight + which]
        work.codes[eight] = u8(signs)


@routine
def _first_scale(form: Any, first: Any, x: Any, w: Any) -> Any:
    """Return the best scale of a sub-block if each weight could have any level."""
    most = f32(0)
    for i in range(first, first + form.shared):
        most = x[i] if x[i] > most else most
    best, scale = f32(0), f32(0)
    if most <= 0:
        return scale
    for n in range(-_TRIES, _TRIES + 1):
        factor = (f32(2 * form.levels - 1) + f32(0.2) * f32(n)) / most
        sum_xl, sum_l2 = f32(0), f32(0)
        for i in range(first, first + form.shared):
            number = clamped(
                nearest((factor * x[i] - f32(1)) * f32(0.5)), f32(0), f32(form.levels - 1)
            )
            level = f32(form.first) * (f32(2) * number + f32(1))
            sum_xl += w[i] * x[i] * level
            sum_l2 += w[i] * level * level
        if sum_l2 > 0 and sum_xl * sum_xl > best * sum_l2:
            scale = sum_xl / sum_l2
            best = scale * sum_xl
    return scale


@routine
def _nearest_row(columns: Any, x: Any, w: Any, place: Any, costs: Any) -> Any:
    """Return the row that, times a scale, is nearest to a group; place: first weight and scale."""
    first, scale = place
    count = columns.shape[1]
    for r in range(count):
        costs[r] = f32(0)
    for j in range(columns.shape[0]):
        weight, wanted = w[first + j], x[first + j]
        square, product = weight * scale * scale, f32(2) * weight * scale * wanted
        for r in range(count):
            level = columns[j, r]
            costs[r] += (square * level - product) * level
    least = i32(0x7FFFFFFF)
    for r in range(count):
        order = ordered(i32(bits_of_float32(costs[r])))
        # The row's number in the last bits: the least contains its place.
        order = i32(i32(order & i32(~_INDEX_BITS)) | i32(r))
        least = order if order < least else least
    return i32(least & i32(_INDEX_BITS))


@routine
def _solve(form: Any, first: Any, scale: Any, columns: Any, work: Any) -> Any:
    """Find the best scale of a sub-block for the rows that are nearest with another scale.

    Returns:
        The scale, and by how much it lessens the weighted sum of squares; 0 and 0 if it does not.
    """
    sum_xl, sum_l2 = f32(0), f32(0)
    for group in range(first, first + form.shared, form.group):
        row = _nearest_row(columns, work.x, work.w, (group, scale), work.spare)
        for j in range(form.group):
            level, weight = columns[j, row], work.w[group + j]
            sum_xl += weight * work.x[group + j] * level
            sum_l2 += weight * level * level
    if sum_l2 > 0 and sum_xl > 0:
        return sum_xl / sum_l2, sum_xl * sum_xl / sum_l2
    return f32(0), f32(0)


@inlined
def _flat_scale(form: Any, first: Any, x: Any) -> Any:
    """Return the scale that puts magnitudes that are all about alike on the lowest level, else 0.

    No grid has all rows of equal levels, but each has that one.
    """
    low, high = x[first], x[first]
    for i in range(first + 1, first + form.shared):
        low = x[i] if x[i] < low else low
        high = x[i] if x[i] > high else high
    return high / f32(form.least) if low > f32(0.6) * high else f32(0)


@routine
def _search(form: Any, columns: Any, work: Any) -> Any:
    """Return a block's scale; write numbers of scales to `sub`, of rows to `lanes`."""
    count = 256 // form.shared
    most = f32(0)
    for s in range(count):
        scale = _first_scale(form, s * form.shared, work.x, work.w)
        if scale > 0:
            scale, gain = _solve(form, s * form.shared, scale, columns, work)
            flat = _flat_scale(form, s * form.shared, work.x)
            if flat > 0:
                flat, gain_of_flat = _solve(form, s * form.shared, flat, columns, work)
                scale = flat if gain_of_flat > gain else scale
        work.sub[0, s] = scale
        most = scale if scale > most else most
    d = most / (f32(31) * f32(form.unit))
    stored = float32_of_half(half_of_float32(d)) * f32(form.unit)
    factor = inverse(stored)
    for s in range(count):
        number = clamped(nearest((work.sub[0, s] * factor - f32(1)) * f32(0.5)), f32(0), f32(15))
        work.sub[1, s] = number
        scale = stored * (f32(2) * number + f32(1))
        for group in range(s * form.shared, (s + 1) * form.shared, form.group):
            row = _nearest_row(columns, work.x, work.w, (group, scale), work.spare)
            work.lanes[group // form.group] = f32(row)
    return d


@kernel
def _encode_iq3_s(values: Any, importance: Any, blocks: Any, work: Any, columns: Any) -> None:
    for b in range(blocks.shape[0]):
        _load(values, importance, b, _IQ3_S, work)
        set_half(blocks, b, 0, _search(_IQ3_S, columns, work))
        for sub in range(8):
            high = u8(0)
            for k in range(8):
                row = u32(work.lanes[8 * sub + k])
                blocks[b, 2 + 8 * sub + k] = u8(row & u32(255))
                high |= u8((row >> u32(8)) << u32(k))
            blocks[b, 66 + sub] = high
        for eight in range(32):
            blocks[b, 74 + eight] = work.codes[eight]
        for k in range(4):
            low, high = u8(work.sub[1, 2 * k]), u8(work.sub[1, 2 * k + 1])
            blocks[b, 106 + k] = u8(low | high << 4)


@kernel
def _encode_iq3_xxs(values: Any, importance: Any, blocks: Any, work: Any, columns: Any) -> None:
    for b in range(blocks.shape[0]):
        _load(values, importance, b, _IQ3_XXS, work)
        set_half(blocks, b, 0, _search(_IQ3_XXS, columns, work))
        for k in range(64):
            blocks[b, 2 + k] = u8(work.lanes[k])
        for sub in range(8):
            word = u32(u32(work.sub[1, sub]) << u32(28))
            for part in range(4):
                word |= u32(u32(work.codes[4 * sub + part] & 127) << u32(7 * part))
            for k in range(4):
                blocks[b, 66 + 4 * sub + k] = u8((word >> u32(8 * k)) & u32(255))


@kernel
def _encode_iq2_s(values: Any, importance: Any, blocks: Any, work: Any, columns: Any) -> None:
    for b in range(blocks.shape[0]):
        _load(values, importance, b, _IQ2_S, work)
        set_half(blocks, b, 0, _search(_IQ2_S, columns, work))
        for k in range(8):
            high = u8(0)
            for part in range(4):
                row = u32(work.lanes[4 * k + part])
                blocks[b, 2 + 4 * k + part] = u8(row & u32(255))
                high |= u8((row >> u32(8)) << u32(2 * part))
            blocks[b, 66 + k] = high
            low, high = u8(work.sub[1, 2 * k]), u8(work.sub[1, 2 * k + 1])
            blocks[b, 74 + k] = u8(low | high << 4)
        for eight in range(32):
            blocks[b, 34 + eight] = work.codes[eight]


def _with_grid(encode: Any, grid: Grid) -> Encode:
    def encode_with(values: Any, importance: Any, blocks: Any, work: Work) -> None:
        encode(values, importance, blocks, work, _columns(grid))

    return encode_with


ENCODERS: Final = {
    "IQ2_S": _with_grid(_encode_iq2_s, Grid.IQ2S),
    "IQ3_XXS": _with_grid(_encode_iq3_xxs, Grid.IQ3XXS),
    "IQ3_S": _with_grid(_encode_iq3_s, Grid.IQ3S),
}
