"""The loops over pairs of weights: all sums and counts that errors need, in one walk.

Sums: each piece of `PIECE` pairs is summed in float64 over `LANES` sums side by side, four pairs
in a tree at a time. The sums of pieces are added with what each addition loses kept beside them
(Knuth's TwoSum; Ogita, Rump, Oishi, "Accurate Sum and Dot Product", 2005). So the relative error of
a sum of numbers of one sign is some 10^-15, however many there are and in whatever order.

No metric is the small difference of large sums: the sum of r e, from which the angle between two
nearly equal tensors is computed, is added up itself.
"""

from __future__ import annotations

from typing import Any, Final

import numba
import numpy as np

from explorer.analysis.errors import kernel_api as at
from explorer.quantization.jit import (
    bits_of_float32,
    count_up,
    f32,
    float32_of_bits,
    i32,
    kernel,
    routine,
    u32,
)

_TREE: Final = 4 * at.LANES


@kernel
def measure_errors(reference: Any, candidate: Any, counts: Any, sums: Any, work: Any) -> None:
    """Add pairs of weights to counts and sums; pairs that are not both finite are counted only.

    Args:
        reference: float32 [n].
        candidate: float32 [n].
        counts: int64 [COUNTS], zeros at first.
        sums: float64 [3, SUMS], zeros at first.
        work: `kernel_api.Work`; its counts of |e| are added to.
    """
    for start in range(0, reference.size, at.PIECE):
        r = reference[start : start + at.PIECE]
        c = candidate[start : start + at.PIECE]
        greatest = _sum_piece(r, c, work.lanes, work.part)
        if not np.isfinite(work.part[at.RR] + work.part[at.CC]):
            kept = _keep_finite(r, c, work.clean_r, work.clean_c, counts)
            r, c = work.clean_r[:kept], work.clean_c[:kept]
            greatest = _sum_piece(r, c, work.lanes, work.part)
        counts[at.PAIRS] += r.size
        sums[2, 0] = max(sums[2, 0], greatest)
        for k in range(at.SUMS):
            add_exactly(sums, k, work.part[k])
        _count_signs(r, c, counts)
        _count_keys(r, c, work.codes, work.few, work.many)


@routine
def add_exactly(sums: Any, k: Any, x: Any) -> None:
    """Add x to sums[0, k], and what rounding loses of it to sums[1, k]."""
    before = sums[0, k]
    total = before + x
    shift = total - before
    sums[0, k] = total
    sums[1, k] += (before - (total - shift)) + (x - shift)


@routine
def _sum_piece(r: Any, c: Any, lanes: Any, part: Any) -> Any:
    """Fill `part` with the sums over a piece; return the greatest |e|."""
    for k in range(at.SUMS + 1):
        for j in range(at.LANES):
            lanes[k, j] = 0
    whole = r.size // _TREE * _TREE
    for start in range(0, whole, _TREE):
        for j in range(at.LANES):
            i = start + j
            r0, r1 = np.float64(r[i]), np.float64(r[i + at.LANES])
            r2, r3 = np.float64(r[i + 2 * at.LANES]), np.float64(r[i + 3 * at.LANES])
            c0, c1 = np.float64(c[i]), np.float64(c[i + at.LANES])
            c2, c3 = np.float64(c[i + 2 * at.LANES]), np.float64(c[i + 3 * at.LANES])
            e0, e1, e2, e3 = c0 - r0, c1 - r1, c2 - r2, c3 - r3
            a0, a1, a2, a3 = abs(e0), abs(e1), abs(e2), abs(e3)
            lanes[at.RR, j] += (r0 * r0 + r1 * r1) + (r2 * r2 + r3 * r3)
            lanes[at.CC, j] += (c0 * c0 + c1 * c1) + (c2 * c2 + c3 * c3)
            lanes[at.RC, j] += (r0 * c0 + r1 * c1) + (r2 * c2 + r3 * c3)
            lanes[at.RE, j] += (r0 * e0 + r1 * e1) + (r2 * e2 + r3 * e3)
            lanes[at.E, j] += (e0 + e1) + (e2 + e3)
            lanes[at.EE, j] += (e0 * e0 + e1 * e1) + (e2 * e2 + e3 * e3)
            lanes[at.ABS, j] += (a0 + a1) + (a2 + a3)
            a0 = a0 if a0 > a1 else a1
            a2 = a2 if a2 > a3 else a3
            a0 = a0 if a0 > a2 else a2
            lanes[at.SUMS, j] = a0 if a0 > lanes[at.SUMS, j] else lanes[at.SUMS, j]
    for i in range(whole, r.size):
        x, y = np.float64(r[i]), np.float64(c[i])
        e = y - x
        lanes[at.RR, 0] += x * x
        lanes[at.CC, 0] += y * y
        lanes[at.RC, 0] += x * y
        lanes[at.RE, 0] += x * e
        lanes[at.E, 0] += e
        lanes[at.EE, 0] += e * e
        lanes[at.ABS, 0] += abs(e)
        lanes[at.SUMS, 0] = max(lanes[at.SUMS, 0], abs(e))
    greatest = lanes[at.SUMS, 0]
    for j in range(1, at.LANES):
        greatest = max(greatest, lanes[at.SUMS, j])
    for k in range(at.SUMS):
        width = at.LANES
        while width > 1:  # a tree again
            width //= 2
            for j in range(width):
                lanes[k, j] += lanes[k, j + width]
        part[k] = lanes[k, 0]
    return greatest


@kernel
def sum_columns(reference: Any, candidate: Any, first: Any, sums: Any) -> None:
    """Add the squares of pairs to the sums of their columns; only pairs of finite weights enter.

    Args:
        reference: float32 [n].
        candidate: float32 [n].
        first: Column of the first weight.
        sums: float64 [2, columns]: squares of errors, and of the reference.
    """
    columns = sums.shape[1]
    done, column = 0, first
    while done < reference.size:
        length, rest = columns - column, reference.size - done
        length = length if length < rest else rest
        r, c = reference[done : done + length], candidate[done : done + length]
        squares, signal = sums[0, column : column + length], sums[1, column : column + length]
        for j in range(length):
            x = np.float64(r[j])
            e = np.float64(c[j]) - x
            known = e - e == 0  # if both are finite
            squares[j] += e * e if known else 0.0
            signal[j] += x * x if known else 0.0
        done += length
        column = 0


@routine
def _keep_finite(r: Any, c: Any, clean_r: Any, clean_c: Any, counts: Any) -> Any:
    """Copy the pairs that are finite, count the others; return how many were copied."""
    kept = 0
    for i in range(r.size):
        known, found = np.isfinite(r[i]), np.isfinite(c[i])
        counts[at.REFERENCE_NOT_FINITE] += not known
        counts[at.CANDIDATE_NOT_FINITE] += not found
        if known and found:
            clean_r[kept], clean_c[kept] = r[i], c[i]
            kept += 1
    return kept


@routine
def _count_signs(r: Any, c: Any, counts: Any) -> None:
    equal, flips, zeroed = i32(0), i32(0), i32(0)
    for i in range(r.size):
        x, y = r[i], c[i]
        equal = i32(equal + i32(x == y))
        flips = i32(flips + i32(((x < f32(0)) & (y > f32(0))) | ((x > f32(0)) & (y < f32(0)))))
        zeroed = i32(zeroed + i32((y == f32(0)) & (x != f32(0))))
    counts[at.EQUAL] += equal
    counts[at.SIGN_FLIPS] += flips
    counts[at.ZEROED] += zeroed


@routine
def _count_keys(r: Any, c: Any, codes: Any, few: Any, many: Any) -> None:
    # Not in one loop: the first is vectorized. A float32 difference of float32 numbers is the
    # rounded one of float64; where it overflows, infinity has a key as well.
    for i in range(r.size):
        codes[i] = bits_of_float32(abs(c[i] - r[i])) >> u32(31 - at.KEY_BITS)
    for i in range(r.size):
        count_up(few, many, codes[i])


# The loop that counts pairs of weights for pictures, whatever range they turn out to have.

_HALF: Final = at.ACROSS // 2
_ROW_BITS: Final = at.ACROSS.bit_length() - 1
_LEVEL_BITS: Final = 2 * _ROW_BITS
_SCALE: Final = 126 + 127 + _ROW_BITS - 1  # of a level: its cells become 1 wide
_SIMPLE_TOP: Final = 126 + _ROW_BITS - 1  # up to here cells are at most 1 wide
_INFINITE: Final = 0x7F800000
_GREATEST: Final = 0x7F7FFFFF  # infinity's bits, and those of -inf as taken here, are not below


@kernel
def count_pairs(reference: Any, candidate: Any, state: Any, work: Any) -> None:
    """Count pairs by cell, and errors by key, from pair `state[NEXT]` on.

    It ends early, at a piece with a level above `state[TOP]`: the caller makes room for it.

    The bits of a float32 rise with its size. A cell holds its lower edge and not its upper one, as
    the bins of `numpy.histogram` do. So negative numbers are taken to be a bit smaller than they
    are where their level or key is asked for: at an edge, that is the one towards 0.

    Each piece goes through a loop that is vectorized and takes all numbers to be finite and of a
    usual size. The codes and places of others are corrected behind it.

    Args:
        reference: float32 [n].
        candidate: float32 [n].
        state: int64 [2]; see `kernel_api`.
        work: `kernel_api.PairWork`; its keys and cells are added to.
    """
    codes, places, keys, cells = work.codes, work.places, work.keys, work.cells
    top = u32(state[at.TOP])
    lowest = top - u32(at.LEVELS - 1)
    above = (top + u32(1)) << u32(23)
    suspect = above if above < u32(_GREATEST) else u32(_GREATEST)
    for start in range(state[at.NEXT], reference.size, at.PIECE):
        size = reference.size - start
        size = size if size < at.PIECE else at.PIECE
        suspects = i32(top > u32(_SIMPLE_TOP))
        for i in range(size):
            # an unsigned index cannot count from the end, of which a test would keep this slow;
            # adding 0 makes 0 of -0
            x = reference[numba.uintp(start + i)] + f32(0)
            y = candidate[numba.uintp(start + i)] + f32(0)
            error = bits_of_float32((y - x) + f32(0))
            codes[i] = (error - (error >> u32(31))) >> u32(16)
            a, b = bits_of_float32(x), bits_of_float32(y)
            a = (a - (a >> u32(31))) & u32(0x7FFFFFFF)
            b = (b - (b >> u32(31))) & u32(0x7FFFFFFF)
            size_bits = a if a > b else b
            suspects += i32(size_bits >= suspect)
            level = size_bits >> u32(23)
            level = level if level > lowest else lowest
            scale = float32_of_bits((u32(_SCALE) - level) << u32(23))
            place = (level & u32(at.LEVELS - 1)) << u32(_LEVEL_BITS)
            place |= u32(i32(np.floor(y * scale)) + i32(_HALF)) << u32(_ROW_BITS)
            place |= u32(i32(np.floor(x * scale)) + i32(_HALF))
            places[i] = place
        if suspects and _correct_unusual(reference, candidate, start, above, work):
            state[at.NEXT] = start
            return
        for i in range(size):
            keys[codes[i]] += u32(1)
            cells[places[i]] += u32(1)
    state[at.NEXT] = reference.size


@routine
def _correct_unusual(reference: Any, candidate: Any, start: Any, above: Any, work: Any) -> Any:
    """Correct codes and places of unusual numbers; return whether a level is above the top."""
    codes, places = work.codes, work.places
    size = reference.size - start
    size = size if size < at.PIECE else at.PIECE
    higher = False
    for i in range(size):
        x, y = reference[start + i], candidate[start + i]
        a, b = bits_of_float32(x + f32(0)), bits_of_float32(y + f32(0))
        a = (a - (a >> u32(31))) & u32(0x7FFFFFFF)
        b = (b - (b >> u32(31))) & u32(0x7FFFFFFF)
        place = places[i]
        if (x - x) + (y - y) != 0:
            place = u32(at.NO_CELL)
        elif a >= above or b >= above:
            higher = True
        else:  # a tiny number below 0 may have been rounded to 0
            if x < 0 and place & u32(at.ACROSS - 1) == u32(_HALF):
                place -= u32(1)
            if y < 0 and place >> u32(_ROW_BITS) & u32(at.ACROSS - 1) == u32(_HALF):
                place -= u32(at.ACROSS)
        places[i] = place
        if (y - x) - (y - x) != 0:
            codes[i] = u32(_INFINITE >> 16)
    return higher
