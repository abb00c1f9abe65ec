"""The loop that makes a picture of a matrix: each cell of it keeps what its numbers amount to.

The module's name puts it among the sources of compiled code (`quantization.kernel_cache.SOURCES`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.quantization.jit import kernel


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
