"""The loops that run over every weight: exact statistics, histograms, folds along rows and columns.

Each takes a run of float32 that fits into the processor's cache and adds to arrays of its caller.
Sums run over `LANES` partial sums side by side, because a compiler may not reorder a float sum by
itself; so they are fast, and equal on every machine.

The user waits while these are compiled on a new machine. So a kernel calls no other one and makes
no array (its caller passes room to work in), takes no slice, indexes an array no more often
than it must, and writes `a if a < b else b`, where `min(a, b)` would have Numba compile a function
of its own: that halved the time.
"""

from __future__ import annotations

from typing import Any, Final

import numba
import numpy as np

from explorer.analysis.kernel_api import (
    FINITE,
    LANES,
    M2,
    M3,
    M4,
    MAX,
    MEAN,
    MIN,
    NAN,
    NEGATIVE_INF,
    PIECE,
    POSITIVE_INF,
    ZEROS,
)
from explorer.quantization.jit import bits_of_float32, f32, kernel, u32

_ROWS: Final = PIECE // LANES
# Behind the first LANES entries:
_THIRD, _FOURTH = LANES, 2 * LANES  # in `sums`, where squares come first
_GREATEST, _ZEROS = LANES, 2 * LANES  # in `tops`, where the least come first


@kernel
def measure(rows: Any, sums: Any, tops: Any, figures: Any) -> Any:
    """Note the statistics of each piece of `PIECE` values, which must be finite.

    The mean of a piece is taken first and then the sums of powers of the distance from it: no sum
    of raw powers is ever subtracted from another one.

    Args:
        rows: float32 [n, up to LANES].
        sums: float64 [3 * LANES], to work in.
        tops: float32 [3 * LANES], to work in.
        figures: float64 [at least n / (PIECE / LANES), FIGURES], to be filled.

    Returns:
        Number of pieces done: fewer than all if one has a value that is not finite.
    """
    count, width = rows.shape
    piece = 0
    for first in range(0, count, _ROWS):
        last = first + _ROWS
        last = last if last < count else count
        for j in range(LANES):
            sums[j] = 0.0
            tops[j] = np.inf
            tops[_GREATEST + j] = -np.inf
            tops[_ZEROS + j] = 0
        for row in range(first, last):
            for j in range(width):  # two loops are faster than one with all four
                x = rows[row, j]
                least = tops[j]
                tops[j] = x if x < least else least
                greatest = tops[_GREATEST + j]
                tops[_GREATEST + j] = x if x > greatest else greatest
            for j in range(width):
                x = rows[row, j]
                sums[j] += x
                tops[_ZEROS + j] += f32(x == f32(0))
        total, least, greatest, zeros = 0.0, tops[0], tops[_GREATEST], f32(0)
        for j in range(LANES):  # NumPy's functions would take seconds to compile
            total += sums[j]
            x = tops[j]
            least = x if x < least else least
            x = tops[_GREATEST + j]
            greatest = x if x > greatest else greatest
            zeros += tops[_ZEROS + j]
        if total - total != 0:
            break
        size = (last - first) * width
        mean = total / size
        for j in range(3 * LANES):
            sums[j] = 0.0
        for row in range(first, last):
            for j in range(width):
                distance = rows[row, j] - mean
                square = distance * distance
                sums[j] += square
                sums[_THIRD + j] += square * distance
                sums[_FOURTH + j] += square * square
        m2, m3, m4 = 0.0, 0.0, 0.0
        for j in range(LANES):
            m2 += sums[j]
            m3 += sums[_THIRD + j]
            m4 += sums[_FOURTH + j]
        figures[piece, FINITE] = size
        figures[piece, ZEROS] = zeros
        figures[piece, MIN] = least
        figures[piece, MAX] = greatest
        figures[piece, MEAN] = mean
        figures[piece, M2] = m2
        figures[piece, M3] = m3
        figures[piece, M4] = m4
        piece += 1
    return piece


@kernel
def keep_finite(values: Any, clean: Any, counts: Any) -> Any:
    """Copy the finite values to `clean`, count the others, and return how many were copied.

    Args:
        values: float32 [n].
        clean: float32 [at least n].
        counts: int64 [OTHERS], to be added to.
    """
    kept = 0
    for i in range(values.size):
        x = values[i]
        if x - x == 0:
            clean[kept] = x
            kept += 1
        elif x > 0:
            counts[POSITIVE_INF] += 1
        elif x < 0:
            counts[NEGATIVE_INF] += 1
        else:
            counts[NAN] += 1
    return kept


@kernel
def count_keys(values: Any, counts: Any) -> None:
    """Count values by the upper half of their bits; values: float32 [n], counts: int64 [KEYS].

    That needs no range beforehand, and resolves a 128th of each power of two.
    """
    for i in range(values.size):
        counts[bits_of_float32(values[i]) >> u32(16)] += 1


@kernel
def count_bins(values: Any, edges: Any, geometry: Any, work: Any, counts: Any) -> None:
    """Count values by bin as `numpy.histogram` does, and by equal parts of each bin.

    A value's place is worked out by one multiplication, which is as good as numpy's division except
    near an edge. There the edges themselves decide, as numpy's correction does.

    Args:
        values: float32 [n]; what lies outside the edges, and NaN, is not counted.
        edges: float32 or float64 [bins + 1], rising; the last bin has its last edge.
        geometry: In the edges' type: bins divided by (last edge minus first), parts of each bin,
            how near to an edge a place is uncertain (in bins), 1, bins.
        work: int32 [2 * PIECE], to work in.
        counts: int32 [bins * parts], at most 2^24 of them.
    """
    # Only numbers of the edges' type: with an integer, Numba would compute in float64.
    scale, pieces, margin, one = geometry[0], geometry[1], geometry[2], geometry[3]
    bins, parts = edges.size - 1, int(pieces)
    first, last = edges[0], edges[bins]
    outside = -one - one
    for start in range(0, values.size, PIECE):
        size = values.size - start
        size = size if size < PIECE else PIECE
        for i in range(size):
            # an unsigned index cannot count from the end, of which a test would keep this slow
            x = values[numba.uintp(start + i)] * one
            f = (x - first) * scale
            whole = np.floor(f)
            rest = f - whole
            place = whole * pieces + np.floor(rest * pieces)
            place = place if (rest > margin) & (rest < one - margin) else -one
            work[i] = numba.int32(place if (x >= first) & (x <= last) else outside)
        unsure = 0
        for i in range(size):
            place = work[i]
            if place >= 0:
                counts[place] += 1
            elif place == -1:
                work[PIECE + unsure] = i
                unsure += 1
        for i in range(unsure):
            x = values[numba.uintp(start + work[PIECE + i])] * one
            # the bin is that of numpy.histogram ("Fast algorithm for equal bins")
            f = ((x - first) / (last - first)) * geometry[4]
            index = int(f)
            part = int((f - np.floor(f)) * pieces)
            part = part if part < parts else parts - 1
            if index >= bins:
                index, part = bins - 1, parts - 1
            if x < edges[index]:
                index, part = index - 1, parts - 1
            elif x >= edges[index + 1] and index != bins - 1:
                index, part = index + 1, 0
            counts[index * parts + part] += 1


@kernel
def count_codes(codes: Any, counts: Any, other: Any) -> None:
    """Count how often each code is used.

    Args:
        codes: uint8 [n].
        counts: int64 [256], to be added to.
        other: The same. A counter that was just written is slow to read, so there are two of each.
    """
    even = codes.size // 2 * 2
    for i in range(0, even, 2):
        counts[codes[i]] += 1
        other[codes[i + 1]] += 1
    if even < codes.size:
        counts[codes[even]] += 1


@kernel
def sum_squares(values: Any, sums: Any) -> None:
    """Add the squares and the number of finite values; values: float32 [n], sums: float64 [2]."""
    size = values.size
    start = size // 2 * 2
    even, odd, one = 0.0, 0.0, 1.0  # each sum waits for its own last addition only
    for i in range(0, start, 2):
        x, y = values[i] * one, values[i + 1] * one
        even += x * x
        odd += y * y
    total, number = even + odd, start
    if total - total != 0:  # float64 has room for all squares, so some value is not finite
        start, total, number = 0, 0.0, 0
    for i in range(start, size):
        x = values[i] * one
        if x - x == 0:
            total += x * x
            number += 1
    sums[0] += total
    sums[1] += number


# The loop that makes a picture of a matrix: each cell of it keeps what its numbers amount to.
#
# The module's name puts it among the sources of compiled code
# (`quantization.kernel_cache.SOURCES`).


@kernel
def fold_cells(values: Any, place: Any, tops: Any, sums: Any) -> None:
    """Add a run of numbers to the cells that they lie in; only finite ones enter.

    Folding rows into one another first, which becomes vector instructions, was no faster and took
    twice as long to compile.

    Args:
        values: float32 [n].
        place: int64 [5]: row and column of the first number, columns of the matrix, rows of a
            cell, columns of a cell.
        tops: float32 [2, cell rows, cell columns]: least and greatest number; infinity and
            -infinity at first.
        sums: float64 of the same shape: sum of squares, and how many numbers entered.
    """
    row, first, width, per_row, per_column = place[0], place[1], place[2], place[3], place[4]
    done = 0
    while done < values.size:
        length, rest = width - first, values.size - done
        length = length if length < rest else rest
        y, cell = row // per_row, first // per_column
        column, stop = 0, (cell + 1) * per_column - first
        while column < length:
            stop = stop if stop < length else length
            least, greatest, total, number = tops[0, y, cell], tops[1, y, cell], 0.0, 0
            for i in range(done + column, done + stop):
                x = values[i]
                if x - x == 0:
                    least = x if x < least else least
                    greatest = x if x > greatest else greatest
                    total += np.float64(x) * x
                    number += 1
            tops[0, y, cell] = least
            tops[1, y, cell] = greatest
            sums[0, y, cell] += total
            sums[1, y, cell] += number
            column = stop
            stop += per_column
            cell += 1
        done += length
        row += 1
        first = 0
