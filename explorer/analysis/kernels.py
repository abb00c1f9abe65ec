"""The loops that run over every weight: exact statistics, histograms, folds along rows and columns.

Most take a run of weights and decode it piece by piece in the processor's first-level cache; others
get a run of float32 that fits into the second. They add to arrays of their caller. Sums run over
`LANES` partial sums side by side, because a compiler may not reorder a float sum by itself; so they
are fast, and equal on every machine.

The user waits while these are compiled on a new machine. So a kernel makes no array (its caller
passes room to work in), takes no slice, indexes an array no more often than it must, and writes
`a if a < b else b`, where `min(a, b)` would have Numba compile a function of its own: that halved
the time.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from explorer.analysis.kernel_api import FINITE, LANES, M2, M3, M4, MAX, MEAN, MIN, PIECE, ZEROS
from explorer.quantization.jit import (
    bits_of_float32,
    count_up,
    decode_piece,
    f32,
    i32,
    inlined,
    kernel,
    routine,
    u16,
    u16_at,
    u32,
)

# Behind the first LANES entries:
_THIRD, _FOURTH = LANES, 2 * LANES  # in `sums`, where squares come first
_GREATEST, _ZEROS = LANES, 2 * LANES  # in `tops`, where the least come first


@kernel
def measure(coded: Any, piece: Any, sums: Any, tops: Any, figures: Any) -> Any:
    """Note the statistics of each piece of `PIECE` weights, which must be finite.

    The mean of a piece is taken first and then the sums of powers of the distance from it: no sum
    of raw powers is ever subtracted from another one.

    Args:
        coded: `formats.weights.Coded`: whole rows of LANES, or fewer weights than that.
        piece: float32 [PIECE / LANES, LANES], to work in.
        sums: float64 [3 * LANES], to work in.
        tops: float32 [3 * LANES], to work in.
        figures: float64 [at least weights / PIECE, FIGURES], to be filled.

    Returns:
        Number of pieces done: fewer than all if one has a value that is not finite.
    """
    weights = coded.blocks.shape[0] * coded.unit
    width = weights if weights < LANES else LANES
    done = 0
    for start in range(0, weights, PIECE):
        size = weights - start
        size = size if size < PIECE else PIECE
        decode_piece(coded, start, size, piece)
        _sum_weights(piece, size // width, width, sums, tops)
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
        mean = total / size
        _sum_powers(piece, size // width, width, mean, sums)
        m2, m3, m4 = 0.0, 0.0, 0.0
        for j in range(LANES):
            m2 += sums[j]
            m3 += sums[_THIRD + j]
            m4 += sums[_FOURTH + j]
        figures[done, FINITE] = size
        figures[done, ZEROS] = zeros
        figures[done, MIN] = least
        figures[done, MAX] = greatest
        figures[done, MEAN] = mean
        figures[done, M2] = m2
        figures[done, M3] = m3
        figures[done, M4] = m4
        done += 1
    return done


# Both add four rows to a lane at a time, one after the other, as long as there are four.


@routine
def _sum_weights(piece: Any, rows: Any, width: Any, sums: Any, tops: Any) -> None:
    for j in range(LANES):
        sums[j] = 0.0
        tops[j] = np.inf
        tops[_GREATEST + j] = -np.inf
        tops[_ZEROS + j] = 0
    fours = rows - rows % 4
    for row in range(0, fours, 4):
        for j in range(width):  # of float32 alone: twice as many fit into a register
            least, greatest, zeros = tops[j], tops[_GREATEST + j], tops[_ZEROS + j]
            for k in range(4):
                x = piece[row + k, j]
                least = x if x < least else least
                greatest = x if x > greatest else greatest
                zeros += f32(x == f32(0))
            tops[j], tops[_GREATEST + j], tops[_ZEROS + j] = least, greatest, zeros
        for j in range(width):
            total = sums[j]
            for k in range(4):
                total += piece[row + k, j]
            sums[j] = total
    for row in range(fours, rows):
        for j in range(width):
            x, least, greatest = piece[row, j], tops[j], tops[_GREATEST + j]
            tops[j] = x if x < least else least
            tops[_GREATEST + j] = x if x > greatest else greatest
            sums[j] += x
            tops[_ZEROS + j] += f32(x == f32(0))


@routine
def _sum_powers(piece: Any, rows: Any, width: Any, mean: Any, sums: Any) -> None:
    for j in range(3 * LANES):
        sums[j] = 0.0
    fours = rows - rows % 4
    for row in range(0, fours, 4):
        for j in range(width):
            m2, m3, m4 = sums[j], sums[_THIRD + j], sums[_FOURTH + j]
            for k in range(4):
                distance = piece[row + k, j] - mean
                square = distance * distance
                m2 += square
                m3 += square * distance
                m4 += square * square
            sums[j], sums[_THIRD + j], sums[_FOURTH + j] = m2, m3, m4
    for row in range(fours, rows):
        for j in range(width):
            distance = piece[row, j] - mean
            square = distance * distance
            sums[j] += square
            sums[_THIRD + j] += square * distance
            sums[_FOURTH + j] += square * square


@kernel
def count_keys(coded: Any, piece: Any, few: Any, many: Any) -> None:
    """Count weights by the upper half of their bits; piece: float32 [PIECE], counts as below.

    That needs no range beforehand, and resolves a 128th of each power of two.
    """
    weights = coded.blocks.shape[0] * coded.unit
    for start in range(0, weights, PIECE):
        size = weights - start
        size = size if size < PIECE else PIECE
        decode_piece(coded, start, size, piece)
        for i in range(size):
            count_up(few, many, bits_of_float32(piece[i]) >> u32(16))


@kernel
def count_halves(blocks: Any, few: Any, many: Any) -> None:
    """Count numbers of 16 bits by these bits.

    Args:
        blocks: uint8 [n, 2], little-endian.
        few: uint16 [HALVES]; see `jit.count_up`.
        many: int64 [HALVES].
    """
    for b in range(blocks.shape[0]):
        count_up(few, many, u16_at(blocks, b, 0))


@kernel
def find_rows(scales: Any, greatest: Any, table: Any, rows: Any) -> Any:
    """Find the row of each scale among the known ones, by its bits; a new one gets the next row.

    Args:
        scales: float32 [n].
        greatest: What a scale may be, either sign; NaN is never.
        table: int32 [2^k], a hash table of rows plus 1 with linear probing, 0 where there is none;
            int64 [2]: how many rows there are, and 32 - k; uint32 [most rows, fewer than 2^k]: the
            bits of each row's scale.
        rows: int32 [n], to be filled.

    Returns:
        Whether there was a row for each.
    """
    slots, known, keys = table
    used, down, mask = known[0], u32(known[1]), u32(slots.size - 1)
    for g in range(scales.size):
        bits = bits_of_float32(scales[g])
        at = u32(bits * u32(0x9E3779B1)) >> down  # Knuth's multiplicative hash
        found = slots[numba.uintp(at)]
        while found and keys[found - 1] != bits:
            at = u32(at + u32(1)) & mask
            found = slots[numba.uintp(at)]
        if not found:
            if used == keys.size or not -greatest <= scales[g] <= greatest:
                return False
            keys[used] = bits
            used += 1
            found = i32(used)
            slots[numba.uintp(at)] = found
            known[0] = used
        rows[g] = found - 1
    return True


@kernel
def count_codes(rows: Any, codes: Any, counts: Any) -> None:
    """Count the codes of groups, uint8 [groups, n], each in its row of uint32 [rows, codes]."""
    for g in range(codes.shape[0]):
        row = numba.uintp(rows[g])
        for i in range(codes.shape[1]):
            counts[row, numba.uintp(codes[g, i])] += u32(1)


@kernel
def list_levels(order: Any, scales: Any, levels: Any, counts: Any, out: Any) -> Any:
    """List the weights that occur, of a scale after the other, with the statistics of each scale.

    Args:
        order: int64 [n]: rows of scales.
        scales: float32 [rows].
        levels: float32 [codes]; times each scale it is finite.
        counts: uint32 [rows, codes].
        out: To be filled: the weights, float32 [more than n * codes]; how often each occurs, int64
            of the same length; float64 [n, FIGURES].

    Returns:
        Number of different weights.
    """
    values, numbers, figures = out
    used = 0
    for k in range(order.size):
        row, start = order[k], used
        for code in range(levels.size):
            values[used] = scales[row] * levels[code]
            numbers[used] = counts[row, code]
            used += counts[row, code] > 0
        size, zeros, total, least, greatest = 0, 0, 0.0, np.inf, -np.inf
        for i in range(start, used):
            x, number = np.float64(values[i]), numbers[i]
            size += number
            zeros += number if x == 0 else 0
            total += number * x
            least = x if x < least else least
            greatest = x if x > greatest else greatest
        mean, m2, m3, m4 = total / size, 0.0, 0.0, 0.0
        for i in range(start, used):
            distance = values[i] - mean
            square = distance * distance
            weighed = numbers[i] * square
            m2 += weighed
            m3 += weighed * distance
            m4 += weighed * square
        found = (float(size), float(zeros), least, greatest, mean, m2, m3, m4)
        for i in range(len(found)):
            figures[k, i] = found[i]
    return used


@kernel
def count_bins(coded: Any, numbers: Any, binning: Any, room: Any, counters: Any) -> None:
    """Count weights by bin as `numpy.histogram` does, and by equal parts of each bin.

    A weight's place is worked out by one multiplication, which is as good as numpy's division
    except near an edge. There the edges themselves decide, as numpy's correction does.

    Args:
        coded: `formats.weights.Coded`; what lies outside the edges, and NaN, is not counted.
        numbers: int64 [weights]: how often each is counted; None: once.
        binning: Edges, float32 or float64 [bins + 1], rising; the last bin has its last edge. In
            their type: steps of all bins divided by (last edge minus first); how many steps before
            the first edge, and from there to behind the last, stand for what is outside; steps of
            a bin; the logarithm to base 2 of those of a part; how near to an edge no step is sure;
            bins; 1.
        room: float32 [PIECE] and int32 [2 * PIECE], to work in.
        counters: uint16 [bins * parts], which are small so that they stay in the cache, and int64
            of the same length: what the former have no room for.
    """
    edges, geometry = binning
    # Only numbers of the edges' type: with an integer, Numba would compute in float64.
    scale, low, high, one = geometry[0], geometry[1], geometry[2], geometry[7]
    mask, shift, near = i32(geometry[3]) - i32(1), i32(geometry[4]), i32(geometry[5])
    sure = u32(mask + 1 - 2 * near if 2 * near <= mask else 0)
    piece, work = room
    counts, total = counters
    bins = edges.size - 1
    parts, places = counts.size // bins, u32(counts.size)
    first, last = edges[0], edges[bins]
    weights = coded.blocks.shape[0] * coded.unit
    for start in range(0, weights, PIECE):
        size = weights - start
        size = size if size < PIECE else PIECE
        decode_piece(coded, start, size, piece)
        for i in range(size):
            # an unsigned index cannot count from the end, of which a test would keep this slow
            f = (piece[numba.uintp(i)] * one - first) * scale
            f = f if f > low else low
            f = f if f < high else high
            step = i32(f)
            work[i] = i32(step >> (shift & 31)) if u32((step & mask) - near) < sure else i32(-1)
        unsure = 0
        for i in range(size):
            place = u32(work[i])
            if place < places and numbers is not None:
                total[place] += numbers[start + i]
            elif place < places:
                more = u16(counts[place] + u16(1))  # `count_up` is a tenth slower here
                counts[place] = more
                if more == 0:
                    total[place] += 1 << 16
            elif place == u32(0xFFFFFFFF):
                work[PIECE + unsure] = i
                unsure += 1
        for i in range(unsure):
            x = piece[work[PIECE + i]] * one
            if not first <= x <= last:
                continue
            place = _exact_place(x, edges, geometry[6], parts)
            total[place] += 1 if numbers is None else numbers[start + work[PIECE + i]]


@inlined
def _exact_place(x: Any, edges: Any, wide_bins: Any, parts: Any) -> Any:
    # the bin is that of numpy.histogram ("Fast algorithm for equal bins")
    bins = edges.size - 1
    first, last = edges[0], edges[bins]
    f = ((x - first) / (last - first)) * wide_bins
    index = int(f)
    part = int((f - np.floor(f)) * parts)
    part = part if part < parts else parts - 1
    if index >= bins:
        index, part = bins - 1, parts - 1
    if x < edges[index]:
        index, part = index - 1, parts - 1
    elif x >= edges[index + 1] and index != bins - 1:
        index, part = index + 1, 0
    return index * parts + part


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
