"""Rounding groups of weights to rows of a grid, as ggml does: what IQ1, IQ2 and IQ3 share.

The codes of a group's weights, packed into one number, are a *point*: 8 codes of 2 bits (IQ1, IQ2)
or 4 of 3 bits (IQ3), the first weight in the lowest bits. A grid has some of all points for rows. A
group whose point is not a row gets the row that loses least of those near the point, where "near"
is a matter of codes alone, and so of a table.

IQ2 and IQ3 search the scale of a sub-block by trying some: magnitudes are rounded to odd numbers of
it, groups are moved to rows of the grid, and with these rows the best scale is the solution of a
least squares problem. Tries lie side by side in the lanes of vector registers, because the sums of
one try keep ggml's order. Bytes are ggml's.

Source: ggml/src/ggml-quants.c, `iq2xs_init_impl`, `iq3xs_init_impl` (tables),
`iq2_find_best_neighbour` and its siblings, `quantize_row_iq2_xxs_impl` and its siblings (tries).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from explorer.quantization.grids import Grid, stored_grid
from explorer.quantization.jit import (
    bits_of_float32,
    f32,
    i32,
    inlined,
    kernel,
    routine,
    u8,
    u16,
    u32,
)
from explorer.quantization.registry import LANES, Encode, Work
from explorer.quantization.scale_search import finite, mean_square

# Tables of the rows near to each point.


class _Lattice(NamedTuple):
    """How rows of a grid are points.

    Attributes:
        bits: Bits of a code.
        top: The highest code.
        shells: How many of the least distances from a point count as near.
        levels: The value of codes 0 and 1 in the stored grid.
    """

    bits: int
    top: int
    shells: int
    levels: tuple[int, int]


_OF_IQ2: Final = (8, 25)  # the stored levels 8, 25, 43 are not even steps, but nearly
_LATTICES: Final = {
    Grid.IQ1S: _Lattice(2, 2, 3, (-1, 0)),
    Grid.IQ2XXS: _Lattice(2, 2, 2, _OF_IQ2),
    Grid.IQ2XS: _Lattice(2, 2, 2, _OF_IQ2),
    Grid.IQ2S: _Lattice(2, 2, 1, _OF_IQ2),
    Grid.IQ3XXS: _Lattice(3, 7, 2, (4, 12)),
    Grid.IQ3S: _Lattice(3, 7, 3, (1, 3)),
}


class Neighbours(NamedTuple):
    """Where each point is on a grid, or which rows are near to it.

    Attributes:
        rows: int16 [points]: the row that is this point, or -1.
        starts: int32 [points]: where its near rows begin in `near`.
        chunks: uint16 [points]: how many times eight of them there are.
        near: uint16 [any]: points of rows, the nearest first; of equal ones the lower row. Lists
            are filled up to eights with their first point, which changes nothing.
    """

    rows: NDArray[np.int16]
    starts: NDArray[np.int32]
    chunks: NDArray[np.uint16]
    near: NDArray[np.uint16]


@inlined
def _measure(point: Any, codes: Any, lattice: Any, distances: Any) -> None:
    """Write the square distance of each row from a point."""
    bits = lattice[0]
    for r in range(codes.shape[1]):
        distances[r] = 0
    for i in range(codes.shape[0]):
        own = i32((point >> (bits * i)) & ((1 << bits) - 1))
        for r in range(codes.shape[1]):
            difference = i32(codes[i, r] - own)
            distances[r] += i32(difference * difference)


@inlined
def _is_reached(point: Any, codes: Any, lattice: Any) -> Any:
    """Return whether no code of a point is above the highest."""
    bits, top = lattice[0], lattice[1]
    reached = True
    for i in range(codes.shape[0]):
        reached &= (point >> (bits * i)) & ((1 << bits) - 1) <= top
    return reached


@inlined
def _next_shell(distances: Any, beyond: Any) -> Any:
    """Return the least distance that is greater than another."""
    least = i32(0x7FFFFFFF)
    for r in range(len(distances)):
        d = distances[r] if distances[r] > beyond else i32(0x7FFFFFFF)
        least = d if d < least else least
    return least


@kernel
def _list_near(rows: Any, codes: Any, lattice: Any, places: Any, near: Any) -> None:
    """Count the rows near to each point into `counts`, or list them where `near` is given.

    places: `counts`, `starts`, and distances to work in.
    """
    counts, starts, distances = places
    bits = lattice[0]
    for point in range(len(rows)):
        if rows[point] >= 0 or not _is_reached(point, codes, lattice):
            continue
        _measure(point, codes, lattice, distances)
        count, shell = 0, i32(-1)
        for _ in range(lattice[2]):
            shell = _next_shell(distances, shell)
            for r in range(len(distances)):
                if distances[r] == shell:
                    if near is not None:
                        packed = 0
                        for i in range(codes.shape[0]):
                            packed |= codes[i, r] << (bits * i)
                        near[starts[point] + count] = u16(packed)
                    count += 1
        if near is not None:
            while count < counts[point]:
                near[starts[point] + count] = near[starts[point]]
                count += 1
        else:
            counts[point] = count


@cache
def neighbours(grid: Grid) -> Neighbours:
    """Return the table of a grid, made when it is first asked for: 0.1 s and 1 MB at most.

    Raises:
        FileNotFoundError: The installation lacks the file of grids.
    """
    lattice = _LATTICES[grid]
    stored = stored_grid(grid).astype(np.int32)
    low, high = lattice.levels
    # Stored levels, odd numbers of half a step, rise evenly but for rounding.
    codes = np.ascontiguousarray(np.rint((stored - low) / (high - low)).astype(np.int32).T)
    points = (codes << (lattice.bits * np.arange(len(codes), dtype=np.int32))[:, None]).sum(axis=0)
    rows = np.full(1 << (lattice.bits * len(codes)), -1, np.int16)
    rows[points] = np.arange(len(points))
    distances = np.empty(codes.shape[1], np.int32)
    counts, starts = np.zeros((2, len(rows)), np.int32)
    shape = lattice[:3]
    _list_near(rows, codes, shape, (counts, starts, distances), None)
    counts = (counts + (LANES - 1)) // LANES * LANES
    starts = (np.cumsum(counts) - counts).astype(np.int32)
    near = np.empty(int(counts.sum()), np.uint16)
    _list_near(rows, codes, shape, (counts, starts, distances), near)
    table = Neighbours(rows, starts, (counts // LANES).astype(np.uint16), near)
    for array in table:
        array.flags.writeable = False
    return table


# The row that loses least, of those near to a point.


_GREATEST: Final = 0x7F7FFFFF  # the bits of the greatest float32: ggml takes no row that loses more


class Values(NamedTuple):
    """What codes stand for: `first` + `step` * code, times a scale."""

    first: float
    step: float


ODD_NUMBERS: Final = Values(1.0, 2.0)


@inlined
def _value(point: Any, shift: Any, mask: Any, values: Any) -> Any:
    """Return what a code of a point stands for."""
    code = f32(i32((point >> u32(shift)) & u32(mask)))
    return f32(values.first) + f32(values.step) * code


@inlined
def _loss(value: Any, scale: Any, x: Any, w: Any) -> Any:
    difference = scale * value - x
    return w * difference * difference


@inlined
def _keep_better(loss: Any, at: Any, k: Any, best: Any) -> None:
    """Note a place in lane k if less is lost there; bits of what is not negative are ordered."""
    bits = bits_of_float32(loss)
    better = bits < best[k]
    best[k] = bits if better else best[k]
    best[LANES + k] = u32(at) if better else best[LANES + k]


@inlined
def _first_best(best: Any) -> Any:
    """Return the first of the places with the least loss."""
    least = u32(0xFFFFFFFF)
    for k in range(LANES):
        least = best[k] if best[k] < least else least
    at = u32(0xFFFFFFFF)
    for k in range(LANES):
        place = best[LANES + k] if best[k] == least else u32(0xFFFFFFFF)
        at = place if place < at else at
    return at


@routine
def nearest_of_8(table: Any, point: Any, place: Any, arrays: Any) -> Any:
    """Return the row, as a point, that loses least for a group of 8 weights.

    place: the group's first weight, the scale, and the values of codes. arrays: weights, what they
    count, and `best`, which is worked in.
    """
    first, scale, values = place
    x, w, best = arrays
    x0, x1, x2, x3 = x[first], x[first + 1], x[first + 2], x[first + 3]
    x4, x5, x6, x7 = x[first + 4], x[first + 5], x[first + 6], x[first + 7]
    w0, w1, w2, w3 = w[first], w[first + 1], w[first + 2], w[first + 3]
    w4, w5, w6, w7 = w[first + 4], w[first + 5], w[first + 6], w[first + 7]
    start = table.starts[point]
    for k in range(LANES):
        best[k] = u32(_GREATEST)
        best[LANES + k] = u32(start)
    for chunk in range(table.chunks[point]):
        for k in range(LANES):
            at = start + LANES * chunk + k
            p = u32(table.near[at])
            loss = _loss(_value(p, 0, 3, values), scale, x0, w0)
            loss += _loss(_value(p, 2, 3, values), scale, x1, w1)
            loss += _loss(_value(p, 4, 3, values), scale, x2, w2)
            loss += _loss(_value(p, 6, 3, values), scale, x3, w3)
            loss += _loss(_value(p, 8, 3, values), scale, x4, w4)
            loss += _loss(_value(p, 10, 3, values), scale, x5, w5)
            loss += _loss(_value(p, 12, 3, values), scale, x6, w6)
            loss += _loss(_value(p, 14, 3, values), scale, x7, w7)
            _keep_better(loss, at, k, best)
    return u32(table.near[_first_best(best)])


@routine
def nearest_of_4(table: Any, point: Any, place: Any, arrays: Any) -> Any:
    """The same for a group of 4 weights."""
    first, scale, values = place
    x, w, best = arrays
    x0, x1, x2, x3 = x[first], x[first + 1], x[first + 2], x[first + 3]
    w0, w1, w2, w3 = w[first], w[first + 1], w[first + 2], w[first + 3]
    start = table.starts[point]
    for k in range(LANES):
        best[k] = u32(_GREATEST)
        best[LANES + k] = u32(start)
    for chunk in range(table.chunks[point]):
        for k in range(LANES):
            at = start + LANES * chunk + k
            p = u32(table.near[at])
            loss = _loss(_value(p, 0, 7, values), scale, x0, w0)
            loss += _loss(_value(p, 3, 7, values), scale, x1, w1)
            loss += _loss(_value(p, 6, 7, values), scale, x2, w2)
            loss += _loss(_value(p, 9, 7, values), scale, x3, w3)
            _keep_better(loss, at, k, best)
    return u32(table.near[_first_best(best)])


# Magnitudes, signs and what weights count.


OWN_SQUARE: Final = 0  # how a weight counts without importance: by its square
MEAN_AND_SQUARE: Final = 1  # by its square plus half the block's mean square


@routine
def load_magnitudes(values: Any, importance: Any, b: Any, form: Any, work: Any) -> None:
    """Write magnitudes to `x`, what they count to `w`, and 8 signs to each of 32 `codes`.

    Where minus signs must be even in number, the weight that matters least gets the wrong one, and
    a negative magnitude.
    """
    square = mean_square(values, b, 256) * f32(form.squares)
    for i in range(256):
        v = finite(values[b, i])
        work.x[i] = v
        if importance is not None:
            factor = f32(math.sqrt(square + v * v))
            work.w[i] = importance[b % importance.shape[0], i] * factor
        elif form.plain == MEAN_AND_SQUARE:
            work.w[i] = f32(0.25) * square + v * v
        else:
            work.w[i] = v * v
    for eight in range(32):
        signs, odd, least, which = u8(0), False, f32(0), 0
        for i in range(8):
            at = 8 * eight + i
            v = work.x[at]
            if v < 0:
                signs |= u8(1 << i)
                odd = not odd
            loss = work.w[at] * v * v
            if i == 0 or loss < least:
                least, which = loss, i
            work.x[at] = v if v >= 0 else -v
        if form.even and odd:
            signs ^= u8(1 << which)
            work.x[8 * eight + which] = -work.x[8 * eight + which]
        work.codes[eight] = signs


# The scale of a sub-block.


class Form(NamedTuple):
    """What differs between the types.

    Attributes:
        shared: Weights that share a scale.
        group: Weights of a row of the grid, 8 or 4.
        bits: Bits of a code, 2 or 3.
        top: The highest code.
        tries: Scales tried on each side of the obvious one.
        step: By how many odd numbers they differ from each other.
        squares: How many times the block's mean square counts beside a weight's square.
        plain: How a weight counts without importance.
        even: Whether the minus signs of 8 weights must be even in number.
        again: Which groups are rounded once more with the scale found: see below.
    """

    shared: int
    group: int
    bits: int
    top: int
    tries: int
    step: float
    squares: float
    plain: int
    even: bool
    again: int


MOVED: Final = 0  # those that had to be moved to a row of the grid
ALL_IF_MOVED: Final = 1  # all, if one had to be moved, or if no try was good
ALL: Final = 2

_MOVED: Final = 1 << 16  # a bit beyond those of a point
_TRIED: Final = 32  # the most tries
_INVERSE: Final = 0 * _TRIED  # places in `Tries.figures`
_SCALE: Final = 1 * _TRIED
_SUM_XL: Final = 2 * _TRIED
_SUM_L2: Final = 3 * _TRIED


class Tries(NamedTuple):
    """Arrays in which the scales of a sub-block are tried, one try in each column.

    Attributes:
        figures: float32 [4 * 32]: inverses, scales, sums of weights times values, of square values.
        points: uint32 [8, 32]: what each group is rounded to.
        best: uint32 [2 * LANES]: for `nearest_of_8` and `nearest_of_4`.
        chosen: uint32 [64]: what each group of the block is rounded to.
        root: float32 [256]: the roots of what weights count.
        spread: float32 [3, 256]: for what else lies in lanes.
    """

    figures: NDArray[np.float32]
    points: NDArray[np.uint32]
    best: NDArray[np.uint32]
    chosen: NDArray[np.uint32]
    root: NDArray[np.float32]
    spread: NDArray[np.float32]


def new_tries() -> Tries:
    """Return arrays to try scales in, for one call of an encoder."""
    return Tries(
        np.zeros(4 * _TRIED, np.float32),
        np.zeros((8, _TRIED), np.uint32),
        np.zeros(2 * LANES, np.uint32),
        np.zeros(64, np.uint32),
        np.zeros(256, np.float32),
        np.zeros((3, 256), np.float32),
    )


def with_grid(encode: Any, grid: Grid, more_work: Callable[[], Any] = new_tries) -> Encode:
    """Return an encoder that is given the table of its grid, and more arrays to work in."""

    def encode_with(values: Any, importance: Any, blocks: Any, work: Work) -> None:
        encode(values, importance, blocks, (work, more_work(), neighbours(grid)))

    return encode_with


@inlined
def whole(x: Any) -> Any:
    """Return the nearest whole number, as int32; beyond 2^22 what C makes of it (`nearest_int`)."""
    return i32(i32(bits_of_float32(x + f32(12582912.0)) & u32(0x7FFFFF)) - i32(0x400000))


@inlined
def within(number: Any, top: Any) -> Any:
    """Return a whole number between 0 and another."""
    number = number if number > i32(0) else i32(0)
    return number if number < i32(top) else i32(top)


@inlined
def odd_code(factor: Any, x: Any, top: Any) -> Any:
    """Return the code of the odd number that is nearest to a product."""
    return within(whole(f32(0.5) * (factor * x - f32(1))), top)


@inlined
def _nearest_row(form: Any, table: Any, point: Any, place: Any, arrays: Any) -> Any:
    if form.group == 8:
        return nearest_of_8(table, point, place, arrays)
    return nearest_of_4(table, point, place, arrays)


@routine
def _round_tries(form: Any, first: Any, columns: Any, x: Any, tries: Any) -> None:
    """Round the groups of a sub-block with the inverse scale of each try."""
    figures, points = tries.figures, tries.points
    for group in range(form.shared // form.group):
        for chunk in range(columns):
            for k in range(LANES):
                points[group, LANES * chunk + k] = u32(0)
        for i in range(form.group):
            v = x[first + form.group * group + i]
            shift = u32(form.bits * i)
            for chunk in range(columns):
                for k in range(LANES):
                    at = LANES * chunk + k
                    code = u32(odd_code(figures[_INVERSE + at], v, form.top))
                    points[group, at] |= u32(code << shift)


@routine
def _sum_tries(form: Any, first: Any, columns: Any, work: Any, tries: Any) -> None:
    """Sum up what decides between tries."""
    figures, points = tries.figures, tries.points
    for t in range(_TRIED):
        figures[_SUM_XL + t] = f32(0)
        figures[_SUM_L2 + t] = f32(0)
    mask = u32((1 << form.bits) - 1)
    for group in range(form.shared // form.group):
        for i in range(form.group):
            weight = work.w[first + form.group * group + i]
            weighted = weight * work.x[first + form.group * group + i]
            shift = u32(form.bits * i)
            for chunk in range(columns):
                for k in range(LANES):
                    at = LANES * chunk + k
                    code = i32((points[group, at] >> shift) & mask)
                    level = f32(i32(i32(2) * code + i32(1)))
                    figures[_SUM_XL + at] += weighted * level
                    figures[_SUM_L2 + at] += weight * level * level


@routine
def _sums(form: Any, first: Any, work: Any, chosen: Any) -> Any:
    """Return the same sums for the rows that were chosen."""
    sum_xl, sum_l2 = f32(0), f32(0)
    mask = u32((1 << form.bits) - 1)
    for i in range(form.shared):
        group, part = i // form.group, i % form.group
        code = i32((chosen[first // form.group + group] >> u32(form.bits * part)) & mask)
        level = f32(i32(i32(2) * code + i32(1)))
        weight = work.w[first + i]
        sum_xl += weight * work.x[first + i] * level
        sum_l2 += weight * level * level
    return sum_xl, sum_l2


@inlined
def _best_try(form: Any, scale: Any, tries: Any) -> Any:
    """Return the best try, -1 if none is good, and its scale."""
    best, found = f32(0), -1
    for t in range(2 * form.tries + 1):
        sum_xl, sum_l2 = tries.figures[_SUM_XL + t], tries.figures[_SUM_L2 + t]
        if sum_l2 > 0 and sum_xl * sum_xl > best * sum_l2:
            scale = sum_xl / sum_l2
            best = scale * sum_xl
            found = t
    return found, scale


@routine
def _round_again(form: Any, first: Any, scale: Any, table: Any, parts: Any) -> Any:
    """Round groups of a sub-block with the scale that was found, and return a better scale."""
    work, tries, all_groups = parts
    arrays = (work.x, tries.root, tries.best)
    factor = f32(1) / scale
    for group in range(form.shared // form.group):
        number = first // form.group + group
        if not all_groups and not tries.chosen[number] & u32(_MOVED):
            continue
        start = first + form.group * group
        point = u32(0)
        for i in range(form.group):
            point |= u32(u32(odd_code(factor, work.x[start + i], form.top)) << u32(form.bits * i))
        if table.rows[point] < 0:
            point = _nearest_row(form, table, point, (start, scale, ODD_NUMBERS), arrays)
        tries.chosen[number] = point
    sum_xl, sum_l2 = _sums(form, first, work, tries.chosen)
    return sum_xl / sum_l2 if sum_l2 > 0 else scale


@routine
def search_rows(form: Any, first: Any, start: Any, table: Any, parts: Any) -> Any:
    """Choose the rows of a sub-block, in `tries.chosen`, and return its scale.

    start: what odd numbers are reached for: the greatest magnitude, and the scale if no try is
    good. parts: `Work` and `Tries`.
    """
    work, tries = parts
    most, scale = start
    arrays = (work.x, tries.root, tries.best)
    groups = form.shared // form.group
    count = 2 * form.tries + 1
    columns = (count + LANES - 1) // LANES
    for t in range(_TRIED):
        shift = f32(min(t, count - 1) - form.tries) * f32(form.step)
        tries.figures[_INVERSE + t] = (f32(2 * form.top + 1) + shift) / most
        tries.figures[_SCALE + t] = f32(1) / tries.figures[_INVERSE + t]
    for i in range(first, first + form.shared):
        tries.root[i] = f32(math.sqrt(work.w[i]))
    _round_tries(form, first, columns, work.x, tries)
    for group in range(groups):
        for t in range(count):
            point = tries.points[group, t]
            if table.rows[point] < 0:
                place = (first + form.group * group, tries.figures[_SCALE + t], ODD_NUMBERS)
                row = _nearest_row(form, table, point, place, arrays)
                tries.points[group, t] = row | u32(_MOVED)
    _sum_tries(form, first, columns, work, tries)
    found, scale = _best_try(form, scale, tries)
    moved = form.again == ALL or (form.again == ALL_IF_MOVED and found < 0)
    for group in range(groups):
        point = tries.points[group, found] if found >= 0 else u32(0)
        moved = moved or point & u32(_MOVED) != 0
        tries.chosen[first // form.group + group] = point
    if moved and scale > 0:
        scale = _round_again(form, first, scale, table, (work, tries, form.again != MOVED))
    return scale


@inlined
def greatest(x: Any, first: Any, count: Any) -> Any:
    """Return the greatest of some weights."""
    most = x[first]
    for i in range(first + 1, first + count):
        most = x[i] if x[i] > most else most
    return most


@inlined
def turned(signs: Any, first: Any, count: Any, scale: Any) -> Any:
    """Return a scale without its sign, which goes to the signs of the weights."""
    if scale < 0:
        for k in range(first, first + count):
            signs[k] = u8(signs[k] ^ 255)
        scale = -scale
    return scale


@inlined
def forget(first: Any, count: Any, figures: Any) -> None:
    """Set the rows or signs of a sub-block whose scale is 0 to 0."""
    for k in range(first, first + count):
        figures[k] = 0


@inlined
def chosen_row(table: Any, tries: Any, group: Any) -> Any:
    """Return the number of the row that was chosen for a group of the block."""
    return u32(table.rows[tries.chosen[group] & u32(0xFFFF)])


# How scales of sub-blocks are stored: as odd numbers from 1 to 31 of the block's.


@inlined
def scale_code(scale: Any, factor: Any, top: Any) -> Any:
    """Return the code of a sub-block's scale; factor: 1 over the block's."""
    return u32(odd_code(factor, scale, top))


@inlined
def set_u32(blocks: Any, b: Any, offset: Any, number: Any) -> None:
    """Store a uint32 at a byte offset of block `b`, little-endian."""
    for k in range(4):
        blocks[b, offset + k] = u8((number >> u32(8 * k)) & u32(255))
