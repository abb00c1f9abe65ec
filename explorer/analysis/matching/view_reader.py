"""Reads runs of views in bounded memory, each window by as few runs of the stored tensor as it can.

Nothing is materialized: of a matrix that is to be transposed, some columns at a time are gathered.
"""

from __future__ import annotations

from math import prod
from typing import Final

import numpy as np

from explorer.analysis.matching.views import TensorPart, TensorView
from explorer.formats.tensors import Shape
from explorer.formats.weights import Values, WeightReader
from explorer.parallel import Check, never

WINDOW_WEIGHTS: Final = 1 << 20
"""Most weights that are read at once to be put in order: 4 MiB, and as much for the result."""

GATHERED_WEIGHTS: Final = 1 << 21
"""The same where a window takes many runs: each costs some microseconds, however short it is."""

_SPARSE: Final = 4  # a window is not read of a run that is more than so many times as long


class ViewReader:
    """Reads runs of a view. Owns buffers: one thread, one reader."""

    def __init__(self, view: TensorView) -> None:
        self._view = view
        self._starts = np.cumsum([0, *(part.parameters for part in view.parts)]).tolist()
        self._current: tuple[int, _PartReader] | None = None

    def read_into(self, start: int, out: Values, check: Check = never) -> None:
        """Fill `out`, float32 [n], with the weights from flat index `start` of the view on.

        Raises:
            FormatError: The file is damaged there, or the type's weights cannot be decoded.
            IndexError: The run leaves the view.
            SourceError: The file changed since it was opened.
        """
        if not 0 <= start <= start + out.size <= self._view.parameters:
            raise IndexError(f"weights {start} to {start + out.size} of {self._view.parameters}")
        done = 0
        number = int(np.searchsorted(self._starts, start, side="right")) - 1
        while done < out.size:
            first = start + done - self._starts[number]
            count = min(out.size - done, self._view.parts[number].parameters - first)
            self._reader(number).read_into(first, out[done : done + count], check)
            done += count
            number += 1

    def _reader(self, number: int) -> _PartReader:
        # Only one is kept: a view of 256 experts would hold as many buffers.
        if self._current is None or self._current[0] != number:
            self._current = None
            self._current = (number, _PartReader(self._view.parts[number]))
        return self._current[1]


class _PartReader:
    """Reads runs of one part."""

    def __init__(self, part: TensorPart) -> None:
        self._part = part
        self._reader = WeightReader(part.tensor)
        self._windows = None if part.in_order else _Windows(part.collapsed(), self._reader)

    def read_into(self, start: int, out: Values, check: Check) -> None:
        if self._windows is None:
            self._reader.read_into(self._part.start + start, out, check)
        else:
            self._windows.read_into(start, out, check)
        if self._part.plus:
            out += np.float32(self._part.plus)


class _Windows:
    """Cuts a part that is not in order into windows, and keeps the last one.

    A window is some neighbours along one dimension (the axis) with all that is inside of them. It
    is read in one run where its weights lie close to each other, or else in a run for each index of
    the inner dimensions: that is how a transposed matrix is read, some columns at a time.
    """

    def __init__(self, part: TensorPart, reader: WeightReader) -> None:
        self._part = part
        self._reader = reader
        self._axis, self._width, self._whole = self._best()
        self._inner = prod(part.shape[self._axis + 1 :])
        self._at = -1
        self._values: Values = np.empty(0, np.float32)

    def read_into(self, start: int, out: Values, check: Check) -> None:
        """Fill `out` with the weights from `start` on."""
        per_row = self._part.shape[self._axis] * self._inner  # windows do not cross such rows
        per_window = self._width * self._inner
        in_row = -(-per_row // per_window)
        done = 0
        while done < out.size:
            row, inside = divmod(start + done, per_row)
            number, offset = divmod(inside, per_window)
            if self._at != row * in_row + number:
                check()
                self._read(row, number * self._width)
                self._at = row * in_row + number
            count = min(out.size - done, self._values.size - offset)
            out[done : done + count] = self._values[offset : offset + count]
            done += count

    def _best(self) -> tuple[int, int, bool]:
        """Return axis, width and whether a window is one run, for the most weights per run."""
        shape, strides = self._part.shape, self._part.strides
        best, found = 0.0, (len(shape) - 1, 1, True)
        for axis in range(len(shape)):
            inner = prod(shape[axis + 1 :])
            span = _span(shape[axis + 1 :], strides[axis + 1 :])
            stride = strides[axis]
            # one run over the whole window
            width = min(shape[axis], 1 + (WINDOW_WEIGHTS - span) // stride)
            run = (width - 1) * stride + span
            if width >= 1 and run <= _SPARSE * width * inner and width * inner > best:
                best, found = width * inner, (axis, width, True)
            # a run for each index of the inner dimensions
            width = min(shape[axis], GATHERED_WEIGHTS // inner)
            if stride <= _SPARSE and width > best:
                best, found = width, (axis, width, False)
        return found

    def _read(self, row: int, first: int) -> None:
        """Fill the window whose axis begins at `first`, within a row of the outer dimensions."""
        part, axis = self._part, self._axis
        outer = np.unravel_index(row, part.shape[:axis]) if axis else ()
        start = part.start + sum(
            int(i) * stride for i, stride in zip(outer, part.strides, strict=False)
        )
        start += first * part.strides[axis]
        width = min(self._width, part.shape[axis] - first)
        shape = (width, *part.shape[axis + 1 :])
        strides = part.strides[axis:]
        if self._whole:
            run = np.empty(_span(shape, strides), np.float32)
            self._reader.read_into(start, run)
            steps = tuple(4 * stride for stride in strides)
            window = np.lib.stride_tricks.as_strided(run, shape, steps, writeable=False)
            self._values = np.ascontiguousarray(window).reshape(-1)
            return
        gathered = np.empty((prod(shape[1:]), width), np.float32)
        run = np.empty((width - 1) * strides[0] + 1, np.float32)
        for line, index in zip(gathered, np.ndindex(*shape[1:]), strict=True):
            inner = sum(i * stride for i, stride in zip(index, strides[1:], strict=True))
            self._reader.read_into(start + inner, run)
            line[:] = run[:: strides[0]]
        self._values = np.ascontiguousarray(gathered.T).reshape(-1)


def _span(shape: Shape, strides: tuple[int, ...]) -> int:
    """Return the length of the run that holds weights at these strides."""
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
