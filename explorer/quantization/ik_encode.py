"""Rounding to the types of ik_llama.cpp that people choose between, byte for byte as it rounds.

Levels are uneven, and a bit of each sub-block selects one of two tables of them. Scales around the
obvious one are tried, with either sign and table, and the best is kept; IQ2_K tries every way to
part its sorted weights. Then the scales are rounded, the codes chosen anew, and the scale of the
block (of the row, where the type has one) is the one that suits them best. Sums run in the fork's
order, in float32.

Source: ik_llama.cpp, ggml/src/iqk/iqk_quantize.cpp, at 8337e4cd, `quantize_row_iq4_k_impl_bs16` and
those beside it, `QHelper`.
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from explorer.quantization.ik import TYPES
from explorer.quantization.jit import f32, i32, inlined, kernel, routine, u8
from explorer.quantization.registry import LANES, Encode, Work
from explorer.quantization.scale_search import (
    BEST,
    HIGH,
    INVERSE,
    MAX,
    OTHERS,
    SCALE,
    SUM_L2,
    SUM_W,
    SUM_XL,
    clamped,
    find_largest,
    finite,
    first_of_largest,
    inverse,
    mean_square,
    nearest,
    search_scale_of_signed,
)
from explorer.quantization.types import TENSOR_TYPES

# How scales are rounded: whole numbers from -n to n - 1, with the sign of the largest; odd numbers
# and a sign; the even numbers of a byte less 127.
WHOLE, ODD, BYTES = range(3)


class Search(NamedTuple):
    """How weights are rounded to a type.

    Attributes:
        tries: Scales on each side of the obvious one; 0 for IQ2_K, which parts sorted weights.
        step: Levels between them.
        spread: Whether, without importance, a quarter of the mean square is added to the weight of
            an error; and what the mean square is multiplied by first.
        anew: Whether the scale is made anew of the codes that it gives.
        how: How scales are rounded, and the largest of them.
        gain: What the scale of the block is multiplied by at last.
        zeros: Whether codes are chosen for a scale of 0, too.
    """

    tries: int
    step: int
    spread: float
    factor: float
    anew: bool
    how: tuple[int, int]
    gain: float = 1.0
    zeros: bool = False


SEARCHES: Final = {
    "IQ2_K": Search(0, 0, 0.25, 1.5, False, (WHOLE, 8), 1.03),
    "IQ3_K": Search(3, 2, 0.25, 1.5, True, (ODD, 31), 1.01),
    "IQ4_K": Search(7, 1, 0.0, 2.0, False, (WHOLE, 32), zeros=True),
    "IQ5_K": Search(5, 1, 0.25, 2.0, True, (WHOLE, 32)),
    "IQ6_K": Search(5, 1, 0.25, 2.0, True, (WHOLE, 127)),
    "IQ3_KS": Search(5, 1, 0.0, 2.0, False, (WHOLE, 16), zeros=True),
    "IQ4_KS": Search(7, 1, 0.0, 2.0, False, (BYTES, 127), zeros=True),
    "IQ5_KS": Search(5, 1, 0.0, 2.0, False, (BYTES, 127), zeros=True),
}

_LEAST: Final = 1e-16  # of a sub-block whose weights are all smaller the scale is 0
_NO_WEIGHT: Final = np.float32(1e-9)  # of a sub-block whose importance is as good as none
_P_XL: Final = OTHERS  # sums with the sign of the scale turned
_P_L2: Final = OTHERS + LANES
_TABLE: Final = OTHERS + 2 * LANES  # which table is best
_BOUND: Final = 1000.0  # beyond all levels


class Levels(NamedTuple):
    """The levels of both tables, and how the nearest is found.

    Attributes:
        levels: float32 [2, levels + 1].
        cells: int32: for each whole number from one below the lowest level to one above the highest
            the number of the nearest level, or if two come into question the lower, plus `codes`.
        codes: Levels of a table.
    """

    levels: NDArray[np.float32]
    cells: NDArray[np.int32]
    codes: int


def _levels_of(type_name: str) -> Levels:
    both = np.rint(TYPES[type_name].levels).reshape(2, -1).astype(np.float32)
    first, count = both[0], both.shape[1]
    middles = (first[1:] + first[:-1]) / 2
    whole = np.arange(first[0], first[-1] + 1)
    cells = np.searchsorted(middles, whole)
    for n, middle in enumerate(middles):
        cells[(whole == np.floor(middle)) | (whole == np.ceil(middle))] = count + n
    padded = np.array([0, *cells, count - 1], np.int32)
    return Levels(np.pad(both, ((0, 0), (0, 1))), padded, count)


@inlined
def _code(x: Any, table: Any, of: Any) -> Any:
    """Return the number of the nearest level; of numbers beyond an int32 0, as C has it."""
    low = of.levels[table, 0]
    x = x if abs(x) < f32(2147483648.0) else f32(-_BOUND)
    whole = i32(clamped(x, f32(-_BOUND), f32(_BOUND)))
    if of.codes == 64:  # IQ6_K's are told by the distance from the lowest
        place = i32(clamped(x - low, f32(-1), f32(_BOUND)))
        place = place if x >= low else i32(-1)
    else:
        place = whole - i32(low)
    most = i32(of.cells.shape[0] - 3)
    place = place if place > i32(-1) else i32(-1)
    place = place if place < most + i32(1) else most + i32(1)
    cell = of.cells[place + 1]
    if cell < of.codes:
        return cell
    cell -= of.codes
    return cell if x - of.levels[table, cell] < of.levels[table, cell + 1] - x else cell + 1


@routine
def _load(values: Any, importance: Any, place: Any, search: Any, work: Any) -> None:
    """Put a sub-block and what its errors count into a lane; place: see below."""
    b, first, count, k, square = place  # block, first weight, how many, lane, mean square
    x, w = work.x, work.w
    square = f32(search.factor) * square
    for i in range(count):
        x[LANES * i + k] = finite(values[b, first + i])
    if importance is None:
        for i in range(count):
            v = x[LANES * i + k]
            w[LANES * i + k] = f32(search.spread) * square + v * v
        return
    row = b % importance.shape[0]
    sum_w2, sum_x2, sum_wx = f32(0), f32(0), f32(0)
    for i in range(count):
        own, v = importance[row, first + i], x[LANES * i + k]
        sum_w2 += own * own
        sum_x2 += v * v
        sum_wx += own * abs(v)
    least = f32(count) * f32(_NO_WEIGHT * _NO_WEIGHT)
    some = sum_w2 > least and sum_x2 > least and sum_wx > least
    for i in range(count):
        own, v = importance[row, first + i] if some else f32(_NO_WEIGHT), x[LANES * i + k]
        w[LANES * i + k] = own * f32(math.sqrt(square + v * v))


@routine
def _sum_up(count: Any, table: Any, of: Any, work: Any) -> None:
    """Sum weights times levels, and their squares, for the scale 1 / INVERSE and its negative."""
    x, w, lanes = work.x, work.w, work.lanes
    for k in range(LANES):
        lanes[SUM_XL + k] = f32(0)
        lanes[SUM_L2 + k] = f32(0)
        lanes[_P_XL + k] = f32(0)
        lanes[_P_L2 + k] = f32(0)
    for i in range(count):
        for k in range(LANES):
            v, own = x[LANES * i + k], w[LANES * i + k]
            scaled = lanes[INVERSE + k] * v
            level = of.levels[table, _code(scaled, table, of)]
            lanes[SUM_XL + k] += own * level * v
            lanes[SUM_L2 + k] += own * level * level
            level = of.levels[table, _code(-scaled, table, of)]
            lanes[_P_XL + k] += own * level * v
            lanes[_P_L2 + k] += own * level * level


@inlined
def _keep_better(lanes: Any, k: Any, sum_xl: Any, sum_l2: Any, table: Any) -> None:
    if sum_l2 > 0 and sum_xl * sum_xl > lanes[BEST + k] * sum_l2:
        lanes[SCALE + k] = sum_xl / sum_l2
        lanes[BEST + k] = lanes[SCALE + k] * sum_xl
        lanes[_TABLE + k] = f32(table)


@routine
def _search(count: Any, search: Any, of: Any, work: Any) -> None:
    """Set SCALE and _TABLE for eight sub-blocks."""
    lanes = work.lanes
    for k in range(LANES):
        lanes[INVERSE + k] = f32(1) / (-lanes[MAX + k] / of.levels[0, 0])
    _sum_up(count, 0, of, work)
    for k in range(LANES):
        # even where its gain is too small for a float32; 0 / 0 is never bettered
        lanes[SCALE + k] = lanes[SUM_XL + k] / lanes[SUM_L2 + k]
        lanes[BEST + k] = lanes[SCALE + k] * lanes[SUM_XL + k]
        _keep_better(lanes, k, lanes[_P_XL + k], lanes[_P_L2 + k], 0)
    for n in range(2 * (2 * search.tries + 1)):
        table, level = n & 1, f32(search.step * ((n >> 1) - search.tries))
        for k in range(LANES):
            lanes[INVERSE + k] = (level + of.levels[table, 0]) / lanes[MAX + k]
        _sum_up(count, table, of, work)
        for k in range(LANES):
            _keep_better(lanes, k, lanes[SUM_XL + k], lanes[SUM_L2 + k], table)
            _keep_better(lanes, k, lanes[_P_XL + k], lanes[_P_L2 + k], table)


@routine
def _suit_codes(count: Any, of: Any, work: Any) -> None:
    """Make each scale anew of the codes that it gives."""
    lanes = work.lanes
    for k in range(LANES):
        table, sum_xl, sum_l2 = i32(lanes[_TABLE + k]), f32(0), f32(0)
        factor = f32(1) / lanes[SCALE + k]
        for i in range(count):
            v, own = work.x[LANES * i + k], work.w[LANES * i + k]
            level = of.levels[table, _code(factor * v, table, of)]
            sum_xl += own * level * v
            sum_l2 += own * level * level
        if sum_l2 > 0:
            lanes[SCALE + k] = sum_xl / sum_l2


@routine
def _part_sorted(k: Any, of: Any, work: Any) -> None:
    """Set SCALE and _TABLE for a sub-block of 16, whose codes rise or fall with its weights."""
    lanes, levels, scratch, codes = work.lanes, of.levels, work.scratch, work.codes
    for i in range(16):  # equal ones stay in order
        v, place = work.x[LANES * i + k], i
        while place > 0 and scratch[place - 1] > v:
            scratch[place], codes[place] = scratch[place - 1], codes[place - 1]
            place -= 1
        scratch[place], codes[place] = v, u8(i)
    sum_w, sum_x = scratch[16:33], scratch[40:57]
    sum_w[0], sum_x[0] = f32(0), f32(0)
    for i in range(16):
        own = work.w[LANES * codes[i] + k]
        sum_w[i + 1] = sum_w[i] + own
        sum_x[i + 1] = sum_x[i] + own * scratch[i]
    lanes[SCALE + k], lanes[BEST + k] = f32(0), f32(0)
    for first in range(16):
        for second in range(first, 16):
            for third in range(second, 16):
                x_0, x_1 = sum_x[first] - sum_x[0], sum_x[second] - sum_x[first]
                x_2, x_3 = sum_x[third] - sum_x[second], sum_x[16] - sum_x[third]
                w_0, w_1 = sum_w[first] - sum_w[0], sum_w[second] - sum_w[first]
                w_2, w_3 = sum_w[third] - sum_w[second], sum_w[16] - sum_w[third]
                for turn in range(4):
                    table, a, c = turn & 1, turn >> 1, 1 - 2 * (turn >> 1)
                    own = levels[table]
                    a, b, c, d = own[3 * a], own[3 * a + c], own[3 * a + 2 * c], own[3 - 3 * a]
                    sum_xl = x_0 * a + x_1 * b + x_2 * c + x_3 * d
                    sum_l2 = w_0 * a * a + w_1 * b * b + w_2 * c * c + w_3 * d * d
                    _keep_better(lanes, k, sum_xl, sum_l2, table)


class Task(NamedTuple):
    """Blocks that are to be rounded, and arrays to work in.

    Attributes:
        search, of: What the type is.
        size: Weights of a sub-block.
        together: Blocks that have a scale together: one, or a row's.
        work: What all encoders work in.
        found, sums: float32 [sub-blocks of those]: their scales, and how much their errors count.
        tables: int32 [sub-blocks of those].
        totals: float32 [2]: sums over all weights of those.
        codes: uint8 [blocks, 256], to be filled.
        scales: uint8 [blocks, sub-blocks]: what is stored of each scale, to be filled.
    """

    search: Search
    of: Levels
    size: int
    together: int
    work: Work
    found: NDArray[np.float32]
    sums: NDArray[np.float32]
    tables: NDArray[np.int32]
    totals: NDArray[np.float32]
    codes: NDArray[np.uint8]
    scales: NDArray[np.uint8]


@routine
def _find_scales(b: Any, values: Any, importance: Any, task: Any) -> None:
    """Find scales and tables of a block's sub-blocks."""
    square, count, work = mean_square(values, b, 256), task.size, task.work
    lanes = work.lanes
    for begin in range(0, 256 // count, LANES):
        for k in range(LANES):
            lanes[_TABLE + k] = f32(0)
            place = b, count * (begin + k), count, k, square
            _load(values, importance, place, task.search, work)
        find_largest(work.x, work.w, lanes, count)
        if task.search.tries:
            _search(count, task.search, task.of, work)
            if task.search.anew:
                _suit_codes(count, task.of, work)
        else:
            for k in range(LANES):
                _part_sorted(k, task.of, work)
        for k in range(LANES):
            s = b % task.together * (256 // count) + begin + k
            some = lanes[HIGH + k] >= f32(_LEAST)
            task.found[s] = lanes[SCALE + k] if some else f32(0)
            task.tables[s] = i32(lanes[_TABLE + k]) if some else i32(0)
            task.sums[s] = lanes[SUM_W + k]


@inlined
def _rounded(scale: Any, how: Any) -> Any:
    """Return the number nearest to a scale, as float32, and what of it is stored."""
    way, top = how
    if way == ODD:
        half = clamped(nearest(f32(0.5) * (abs(scale) - f32(1))), f32(0), f32(15))
        odd = f32(2) * half + f32(1)
        return (-odd, i32(half) + i32(16)) if scale < 0 else (odd, i32(half))
    if way == BYTES:
        even = f32(2) * clamped(nearest(f32(0.5) * (scale + f32(127))), f32(0), f32(127))
        return even - f32(127), i32(even)
    if top == 127:  # one byte with a sign
        number = clamped(nearest(scale), f32(-127), f32(127))
        return number, i32(number) & i32(255)
    number = clamped(nearest(scale), f32(-top), f32(top - 1))
    return number, i32(number) + i32(top)


@routine
def _choose_codes(values: Any, importance: Any, place: Any, scale: Any, task: Any) -> None:
    """Write the codes of a sub-block; place: block, sub-block, table, number, mean square."""
    b, sub, table, number, square = place
    count, work, of = task.size, task.work, task.of
    _load(values, importance, (b, count * sub, count, 0, square), task.search, work)
    factor, scratch = inverse(scale), work.scratch
    for i in range(count):
        v = work.x[LANES * i]
        code = _code(factor * v, table, of)
        task.codes[b, count * sub + i] = u8(table * of.codes + code)
        level = of.levels[table, code] * number
        scratch[i] = work.w[LANES * i] * level * v
        scratch[i + 32] = work.w[LANES * i] * level * level
    if task.search.how[0] == BYTES and of.codes == 16:  # IQ4_KS sums both halves up at once
        count = 16
        for i in range(16):
            scratch[i] += scratch[i + 16]
            scratch[i + 32] += scratch[i + 48]
    for i in range(count):
        task.totals[0] += scratch[i]
        task.totals[1] += scratch[i + 32]


@kernel
def _round(values: Any, importance: Any, task: Any, d: Any) -> None:
    """Fill codes and scales, and d, float32 [blocks], the scale of each block or of its row.

    Args:
        values: float32 [blocks, 256].
        importance: float32 [blocks of a row, 256], or None.
    """
    search, subs = task.search, 256 // task.size
    way, top = search.how
    for first in range(0, values.shape[0], task.together):
        for b in range(first, first + task.together):
            _find_scales(b, values, importance, task)
        most = first_of_largest(task.found, task.found.shape[0])
        whole = -most / f32(top) if way == WHOLE else abs(most) / f32(top)
        if search.tries == 0:
            whole, _ = search_scale_of_signed(task.found, task.sums, 16, top)
        factor = inverse(whole)
        task.totals[0], task.totals[1] = f32(0), f32(0)
        nothing = whole == f32(0) and not (search.zeros and subs == 16)
        for b in range(first, first + task.together):
            square = mean_square(values, b, 256)
            for sub in range(subs):
                table = task.tables[b % task.together * subs + sub]
                number, stored = _rounded(
                    factor * task.found[b % task.together * subs + sub], search.how
                )
                task.scales[b, sub] = u8(0) if nothing else u8(stored)
                if not nothing and (whole * number != f32(0) or search.zeros):
                    place = b, sub, table, number, square
                    _choose_codes(values, importance, place, whole * number, task)
                else:
                    for i in range(task.size * sub, task.size * (sub + 1)):
                        task.codes[b, i] = u8(0 if nothing else table * task.of.codes)
        if nothing and subs == 16:
            whole = f32(0)  # rather than -0
        elif task.totals[1] > 0:
            whole = task.totals[0] / task.totals[1]
        for b in range(first, first + task.together):
            d[b] = f32(search.gain) * whole


@kernel
def _store(numbers: Any, places: Any, mask: Any, up: Any, blocks: Any) -> None:
    """Store some bits of each number, uint8 [blocks, n], where they belong."""
    for b in range(numbers.shape[0]):
        for i in range(places.shape[0]):
            blocks[b, places[i] >> 3] |= u8(((numbers[b, i] >> up) & mask) << (places[i] & 7))


def _encoder(name: str) -> Encode:
    kind, search, of = TYPES[name], SEARCHES[name], _levels_of(name)
    of_row = TENSOR_TYPES[name].row_header > 0

    def encode(values: Any, importance: Any, blocks: Any, work: Work) -> None:
        size, together = kind.weights_per_scale, len(values) if of_row else 1
        subs = 256 // size
        found, sums, totals = (
            np.empty(n, np.float32) for n in (subs * together, subs * together, 2)
        )
        codes, scales = (np.empty((len(values), n), np.uint8) for n in (256, subs))
        tables, d = np.empty(subs * together, np.int32), np.empty((len(values), 1), np.float32)
        task = Task(search, of, size, together, work, found, sums, tables, totals, codes, scales)
        _round(values, importance, task, d[:, 0])
        with np.errstate(over="ignore"):
            stored = d if kind.d else d.astype(np.float16)
        blocks[:] = 0
        blocks[:, : stored.itemsize] = stored.view(np.uint8)
        selects = np.ascontiguousarray(codes[:, ::size])
        for numbers, parts in ((codes, kind.codes), (scales, kind.scales), (selects, kind.selects)):
            for part in parts:
                _store(numbers, part.places, part.mask, part.up, blocks)

    return encode


ENCODERS: Final = {name: _encoder(name) for name in SEARCHES}
