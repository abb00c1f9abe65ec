"""What the rows and columns of a tensor amount to: norms, means and maxima, for maps and profiles.

Rows run along the last dimension and are counted through all others; columns run across them all.
However long a tensor is, the figures stay of bounded size: then several neighbours share an entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from explorer.analysis import kernel_fields
from explorer.formats.tensors import Folding, Tensor
from explorer.formats.weights import Chunk, WeightReader, map_spans
from explorer.parallel import Check, never

MAX_ROWS: Final = 1 << 20
"""Most entries for rows."""

MAX_COLUMNS: Final = 1 << 16
"""Most entries for columns; each thread holds so many."""

_FIGURES = 4  # number, sum, sum of squares, greatest absolute value


@dataclass(frozen=True, slots=True)
class LineFigures:
    """Figures of the finite weights of each row, or of each column.

    Attributes:
        lines_per_entry: Neighbouring rows (columns) that share an entry; 1 unless there are very
            many.
        finite: Number of finite weights, int64 [entries].
        norm: Root of the sum of squares, float64 [entries].
        mean: Mean, float64 [entries]; NaN where there is no finite weight.
        abs_max: Greatest absolute value, float64 [entries]; 0 where there is none.
    """

    lines_per_entry: int
    finite: NDArray[np.int64]
    norm: NDArray[np.float64]
    mean: NDArray[np.float64]
    abs_max: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Lines:
    """Figures of a tensor's rows and columns."""

    rows: LineFigures
    columns: LineFigures


def tensor_lines(tensor: Tensor, workers: int = 1, cancel: Check | None = None) -> Lines:
    """Return the figures of all rows and columns, from one walk over the weights.

    Args:
        tensor: The tensor.
        workers: Threads. The result is the same to the bit for any number.
        cancel: Called before every chunk, in the thread that reads it; what it raises is passed on.

    Raises:
        FormatError: The file is damaged there, or the type's weights cannot be decoded.
        SourceError: The file changed since it was opened.
    """
    width = Folding(tensor.shape).columns
    count = tensor.parameters // width if width else 0
    per_row, row_entries = _entries(count, MAX_ROWS)
    per_column, column_entries = _entries(width, MAX_COLUMNS)

    def work(
        chunks: Iterator[Chunk],
    ) -> tuple[list[tuple[int, NDArray[np.float64]]], NDArray[np.float64]]:
        columns = np.zeros((_FIGURES, column_entries))
        runs = []
        for chunk in chunks:
            first, last = (
                i // width // per_row for i in (chunk.start, chunk.start + chunk.values.size - 1)
            )
            rows = np.zeros((_FIGURES, last + 1 - first))
            place = np.array([chunk.start, width, per_row, per_column, first], np.int64)
            kernel_fields.kernels().fold_lines(chunk.values, place, rows, columns)
            runs.append((first, rows))
        return runs, columns

    rows = np.zeros((_FIGURES, row_entries))
    columns = np.zeros((_FIGURES, column_entries))
    check = never if cancel is None else cancel
    spans = map_spans(tensor, work, walk=WeightReader.chunks, workers=workers, check=check)
    with closing(spans):
        for span in spans:
            runs, more = span.result
            for first, part in runs:
                _combine(rows[:, first : first + part.shape[1]], part)
            _combine(columns, more)
    return Lines(_figures(rows, per_row), _figures(columns, per_column))


def _entries(lines: int, most: int) -> tuple[int, int]:
    """Return how many lines share an entry, and how many entries there are."""
    per_entry = max(1, -(-lines // most))
    return per_entry, -(-lines // per_entry)


def _combine(figures: NDArray[np.float64], more: NDArray[np.float64]) -> None:
    figures[:3] += more[:3]
    np.maximum(figures[3], more[3], out=figures[3])


def _figures(figures: NDArray[np.float64], per_entry: int) -> LineFigures:
    number, total, squares, greatest = figures
    mean = np.full(number.shape, np.nan)
    np.divide(total, number, out=mean, where=number > 0)
    return LineFigures(per_entry, number.astype(np.int64), np.sqrt(squares), mean, greatest)
