"""The loops that run over every weight: exact statistics, histograms, folds along rows and columns.

Each takes a run of float32 that fits into the processor's cache and adds to arrays of its caller.
Sums run over `_LANES` partial sums side by side, because a compiler may not reorder a float sum by
itself; so they are fast, and equal on every machine.

Moments: each piece of `_PIECE` values has its mean taken first and then its central sums, which are
combined by the formulas of Chan, Golub and LeVeque (1979) as extended by Pébay, "Formulas for
Robust, One-Pass Parallel Computation of Covariances and Arbitrary-Order Statistical Moments",
SAND2008-6212, equations 2.1 and 3.1. All in float64; no sum of raw powers is ever subtracted from
another one.
"""

from __future__ import annotations

from typing import Any, Final

import numba
import numpy as np

from explorer.analysis.places import (
    COUNTS,
    FINITE,
    M2,
    M3,
    M4,
    MAX,
    MEAN,
    MIN,
    MOMENTS,
    NAN,
    NEGATIVE_INF,
    POSITIVE_INF,
    ZEROS,
)
from explorer.quantization.jit import bits_of_float32, kernel

_LANES: Final = 64
_PIECE: Final = 4096  # 16 KiB: two walks over it stay in the first-level cache


@kernel
def measure(values: Any, counts: Any, moments: Any) -> None:
    """Add values to running statistics.

    Args:
        values: float32 [n].
        counts: int64 [COUNTS], zeros at first.
        moments: float64 [MOMENTS], zeros at first, but MIN = inf and MAX = -inf. M2 to M4 are sums
            of powers of the distance from the mean. Only finite values enter.
    """
    sums = np.empty((3, _LANES), np.float64)
    clean = np.empty(_PIECE, np.float32)
    part = np.empty(MOMENTS, np.float64)
    part_counts = np.zeros(COUNTS, np.int64)
    for start in range(0, values.size, _PIECE):
        piece = values[start : start + _PIECE]
        total = _scan(piece, part_counts, part)
        if not np.isfinite(total):
            piece = clean[: _keep_finite(piece, clean, counts)]
            total = _scan(piece, part_counts, part)
        if piece.size:
            _central_sums(piece, total / piece.size, sums, part)
            part_counts[FINITE] = piece.size
            combine(counts, moments, part_counts, part)


@kernel
def _scan(piece: Any, part_counts: Any, part: Any) -> Any:
    """Note least, greatest and number of zeros; return the sum, which tells if all are finite."""
    total = np.empty(_LANES, np.float64)
    least = np.empty(_LANES, np.float32)
    greatest = np.empty(_LANES, np.float32)
    zeros = np.empty(_LANES, np.int32)
    for j in range(_LANES):
        total[j], least[j], greatest[j], zeros[j] = 0, np.inf, -np.inf, 0
    whole = piece.size // _LANES * _LANES
    for start in range(0, whole, _LANES):
        x = piece[start : start + _LANES]
        for j in range(_LANES):
            total[j] += x[j]
            least[j] = x[j] if x[j] < least[j] else least[j]
            greatest[j] = x[j] if x[j] > greatest[j] else greatest[j]
            zeros[j] += numba.int32(x[j] == 0)
    for i in range(whole, piece.size):
        total[0] += piece[i]
        least[0] = min(least[0], piece[i])
        greatest[0] = max(greatest[0], piece[i])
        zeros[0] += numba.int32(piece[i] == 0)
    for j in range(1, _LANES):  # NumPy's functions would take seconds to compile
        total[0] += total[j]
        least[0] = min(least[0], least[j])
        greatest[0] = max(greatest[0], greatest[j])
        zeros[0] += zeros[j]
    part[MIN], part[MAX] = least[0], greatest[0]
    part_counts[ZEROS] = zeros[0]
    return total[0]


@kernel
def _keep_finite(piece: Any, clean: Any, counts: Any) -> Any:
    """Copy the finite values to `clean`, count the others, and return how many were copied."""
    kept = 0
    for x in piece:
        if np.isnan(x):
            counts[NAN] += 1
        elif np.isinf(x):
            counts[POSITIVE_INF if x > 0 else NEGATIVE_INF] += 1
        else:
            clean[kept] = x
            kept += 1
    return kept


@kernel
def _central_sums(piece: Any, mean: Any, sums: Any, part: Any) -> None:
    """Note the mean and the sums of powers of the distance from it."""
    second, third, fourth = sums[0], sums[1], sums[2]
    for j in range(_LANES):
        second[j], third[j], fourth[j] = 0, 0, 0
    whole = piece.size // _LANES * _LANES
    for start in range(0, whole, _LANES):
        x = piece[start : start + _LANES]
        for j in range(_LANES):
            d = x[j] - mean
            square = d * d
            second[j] += square
            third[j] += square * d
            fourth[j] += square * square
    for i in range(whole, piece.size):
        d = piece[i] - mean
        square = d * d
        second[0] += square
        third[0] += square * d
        fourth[0] += square * square
    for j in range(1, _LANES):
        second[0] += second[j]
        third[0] += third[j]
        fourth[0] += fourth[j]
    part[MEAN], part[M2], part[M3], part[M4] = mean, second[0], third[0], fourth[0]


@kernel
def combine(counts: Any, moments: Any, other_counts: Any, other: Any) -> None:
    """Add the statistics of other values, as `measure` makes them, to `counts` and `moments`."""
    na, nb = float(counts[FINITE]), float(other_counts[FINITE])
    for i in range(COUNTS):
        counts[i] += other_counts[i]
    if nb == 0:
        return
    n = na + nb
    delta = other[MEAN] - moments[MEAN]
    step = delta / n
    between = delta * step * na * nb  # delta^2 na nb / n
    m2, m3 = moments[M2], moments[M3]
    moments[MIN] = min(moments[MIN], other[MIN])
    moments[MAX] = max(moments[MAX], other[MAX])
    moments[M4] += (
        other[M4]
        + between * step * step * (na * na - na * nb + nb * nb)
        + 6 * step * step * (na * na * other[M2] + nb * nb * m2)
        + 4 * step * (na * other[M3] - nb * m3)
    )
    moments[M3] += other[M3] + between * step * (na - nb) + 3 * step * (na * other[M2] - nb * m2)
    moments[M2] += other[M2] + between
    # of two like means neither is to be changed by rounding
    moments[MEAN] = other[MEAN] if na == 0 else moments[MEAN] + step * nb


@kernel
def count_keys(values: Any, counts: Any) -> None:
    """Count values by the upper half of their bits; values: float32 [n], counts: int64 [KEYS].

    That needs no range beforehand, and resolves a 128th of each power of two.
    """
    for x in values:
        counts[bits_of_float32(x) >> numba.uint32(16)] += 1


@kernel
def count_bins(values: Any, edges: Any, geometry: Any, counts: Any) -> None:
    """Count values by bin as `numpy.histogram` does, and by equal parts of each bin.

    A value's place is worked out by one multiplication, which is as good as numpy's division except
    near an edge. There the edges themselves decide, as numpy's correction does.

    Args:
        values: float32 [n]; what lies outside the edges, and NaN, is not counted.
        edges: float32 or float64 [bins + 1], rising; the last bin has its last edge.
        geometry: In the edges' type: bins divided by (last edge minus first), parts of each bin,
            how near to an edge a place is uncertain (in bins), 1, bins.
        counts: int32 [bins * parts], at most 2^24 of them.
    """
    # Only numbers of the edges' type: with an integer, Numba would compute in float64.
    scale, pieces, margin, one = geometry[0], geometry[1], geometry[2], geometry[3]
    first, last = edges[0], edges[-1]
    outside = -one - one
    places = np.empty(_PIECE, np.int32)
    unsure = np.empty(_PIECE, np.int32)
    for start in range(0, values.size, _PIECE):
        piece = values[start : start + _PIECE]
        for i in range(piece.size):
            x = piece[i] * one
            f = (x - first) * scale
            whole = np.floor(f)
            rest = f - whole
            place = whole * pieces + np.floor(rest * pieces)
            place = place if (rest > margin) & (rest < one - margin) else -one
            places[i] = numba.int32(place if (x >= first) & (x <= last) else outside)
        left = 0
        for i in range(piece.size):
            place = places[i]
            if place >= 0:
                counts[place] += 1
            elif place == -1:
                unsure[left] = i
                left += 1
        for i in range(left):
            counts[_place(piece[unsure[i]] * one, edges, geometry)] += 1


@kernel
def _place(x: Any, edges: Any, geometry: Any) -> Any:
    """Return the place of a value between the first and the last edge, by comparing it with them.

    The bin is that of numpy.histogram ("Fast algorithm for equal bins"), its arithmetic included.
    """
    bins, parts = edges.size - 1, int(geometry[1])
    f = ((x - edges[0]) / (edges[-1] - edges[0])) * geometry[4]
    index = int(f)
    part = min(parts - 1, int((f - np.floor(f)) * geometry[1]))
    if index >= bins:
        index, part = bins - 1, parts - 1
    if x < edges[index]:
        index, part = index - 1, parts - 1
    elif x >= edges[index + 1] and index != bins - 1:
        index, part = index + 1, 0
    return index * parts + part


@kernel
def count_codes(codes: Any, counts: Any) -> None:
    """Count how often each code is used; codes: uint8 [n], counts: int64 [256]."""
    # Two tables, because a counter that was just written is slow to read.
    other = np.zeros(256, np.int64)
    even = codes.size // 2 * 2
    for i in range(0, even, 2):
        counts[codes[i]] += 1
        other[codes[i + 1]] += 1
    for i in range(even, codes.size):
        counts[codes[i]] += 1
    for code in range(256):
        counts[code] += other[code]


@kernel
def sum_squares(values: Any, sums: Any) -> None:
    """Add the squares and the number of finite values; values: float32 [n], sums: float64 [2]."""
    for x in values:
        if np.isfinite(x):
            sums[0] += np.float64(x) * np.float64(x)
            sums[1] += 1


@kernel
def fold_lines(values: Any, place: Any, rows: Any, columns: Any) -> None:
    """Add weights to the figures of their rows and columns; only finite ones enter.

    Args:
        values: float32 [n].
        place: int64 [5]: flat index of the first weight, columns of the tensor, rows that share an
            entry, columns that share an entry, entry of the first row of `rows`.
        rows: float64 [4, entries]: number, sum, sum of squares, greatest absolute value.
        columns: The same for the columns.
    """
    index, width, per_row, per_column, first = place[0], place[1], place[2], place[3], place[4]
    done = 0
    while done < values.size:
        row = index // width
        column = index - row * width
        length = min(width - column, values.size - done)
        entry = row // per_row - first
        number, total, squares, greatest = 0, 0.0, 0.0, rows[3, entry]
        for i in range(length):
            x = np.float64(values[done + i])
            if np.isfinite(x):
                c = (column + i) // per_column
                number += 1
                total += x
                squares += x * x
                greatest = max(greatest, abs(x))
                columns[0, c] += 1
                columns[1, c] += x
                columns[2, c] += x * x
                columns[3, c] = max(columns[3, c], abs(x))
        rows[0, entry] += number
        rows[1, entry] += total
        rows[2, entry] += squares
        rows[3, entry] = greatest
        done += length
        index += length
