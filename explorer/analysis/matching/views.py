"""A tensor's weights in another order: slices, permutations and joins, streamed.

A converter's transforms move weights about and change none (but for Gemma's norms, to which it adds
1). So all that is needed to undo one is a view: for each of its weights a place in a tensor, given
by strides as NumPy's arrays have them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Final, TypeAlias

import numpy as np

from explorer.formats.tensors import Shape, Tensor
from explorer.formats.weights import Stored, Values, WeightReader
from explorer.parallel import Check, never


@dataclass(frozen=True)
class TensorPart:
    """Some weights of a tensor, in an order of their own.

    Attributes:
        tensor: Where they are.
        shape: Of the part, outermost first.
        strides: For each dimension, how far apart neighbours are in the tensor, in weights.
        start: Flat index of the first one.
        plus: What is added to each.
    """

    tensor: Tensor
    shape: Shape
    strides: tuple[int, ...]
    start: int = 0
    plus: float = 0.0

    @classmethod
    def whole(cls, tensor: Tensor) -> TensorPart:
        """Return all weights of a tensor in their own order."""
        return cls(tensor, tensor.shape, row_major(tensor.shape))

    @property
    def parameters(self) -> int:
        """Number of weights."""
        return prod(self.shape)

    @property
    def in_order(self) -> bool:
        """Whether it is a run of the tensor as it is stored."""
        return self.collapsed().strides in {(), (1,)}

    def reshaped(self, *shape: int) -> TensorPart:
        """Return the same weights in a shape of other dimensions.

        Raises:
            ValueError: The number of weights differs, or the part is not a run of its tensor.
        """
        if prod(shape) != self.parameters or not self.in_order:
            raise ValueError(f"{self.shape} cannot be seen as {shape}")
        return replace(self, shape=shape, strides=row_major(shape))

    def transposed(self, *order: int) -> TensorPart:
        """Return it with its dimensions in another order, as `numpy.transpose` does."""
        shape, strides = zip(*((self.shape[i], self.strides[i]) for i in order), strict=True)
        return replace(self, shape=shape, strides=strides)

    def sliced(self, dimension: int, start: int, stop: int, step: int = 1) -> TensorPart:
        """Return what a slice of one dimension leaves.

        Raises:
            ValueError: The slice leaves the part.
        """
        if not 0 <= start <= stop <= self.shape[dimension] or step < 1:
            raise ValueError(f"{start}:{stop}:{step} of {self.shape} in dimension {dimension}")
        shape, strides = list(self.shape), list(self.strides)
        shape[dimension] = len(range(start, stop, step))
        strides[dimension] *= step
        first = self.start + start * self.strides[dimension]
        return replace(self, shape=tuple(shape), strides=tuple(strides), start=first)

    def added(self, plus: float) -> TensorPart:
        """Return it with a number added to each weight."""
        return replace(self, plus=self.plus + plus)

    def flat_index(self, place: int) -> int:
        """Return the flat index in the tensor of the weight at a flat index of the part."""
        indices = np.unravel_index(place, self.shape)
        steps = zip(indices, self.strides, strict=True)
        return self.start + sum(int(index) * stride for index, stride in steps)

    def collapsed(self) -> TensorPart:
        """Return the same weights in the same order, in as few dimensions as possible."""
        shape: list[int] = []
        strides: list[int] = []
        for size, stride in zip(self.shape, self.strides, strict=True):
            if size == 1:
                continue
            if shape and strides[-1] == size * stride:
                shape[-1] *= size
                strides[-1] = stride
            else:
                shape.append(size)
                strides.append(stride)
        return replace(self, shape=tuple(shape), strides=tuple(strides))


@dataclass(frozen=True)
class TensorView:
    """Weights that stand for a tensor: parts one behind the other.

    Attributes:
        name: What to call it.
        shape: Its shape, outermost first.
        parts: Whose weights, together in this order, are those of the shape.
        notes: What was done to the tensors, in words.
    """

    name: str
    shape: Shape
    parts: tuple[TensorPart, ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if prod(self.shape) != sum(part.parameters for part in self.parts):
            raise ValueError(f"{self.name}: its parts do not fill {self.shape}")

    @classmethod
    def of(cls, tensor: Tensor) -> TensorView:
        """Return a tensor as it is."""
        return cls(tensor.name, tensor.shape, (TensorPart.whole(tensor),))

    @property
    def parameters(self) -> int:
        """Number of weights."""
        return prod(self.shape)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The tensors that it is made of, each once."""
        return tuple({id(part.tensor): part.tensor for part in self.parts}.values())

    @property
    def type_name(self) -> str:
        """The type of its tensors; several are joined by a plus sign."""
        return "+".join(dict.fromkeys(tensor.type.name for tensor in self.tensors))


def without_ones(shape: Shape) -> Shape:
    """Return a shape without dimensions of 1, which some formats leave out and others keep."""
    return tuple(size for size in shape if size != 1)


def row_major(shape: Shape) -> tuple[int, ...]:
    """Return the strides of a tensor that is stored in this shape."""
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


Weights: TypeAlias = Tensor | TensorView
"""Weights in some order: a tensor as it is, or a view."""


def view_of(weights: Weights) -> TensorView:
    """Return a view of a tensor as it is; a view as it is given."""
    return TensorView.of(weights) if isinstance(weights, Tensor) else weights


# Views are read in bounded memory, each window by as few runs of the stored tensor as possible: of
# a matrix that is to be transposed, some columns at a time are gathered.

WINDOW_WEIGHTS: Final = 1 << 20
"""Most weights that are read at once to be put in order: 4 MiB, and as much for the result."""

GATHERED_WEIGHTS: Final = 1 << 21
"""The same where a window takes many runs: each costs some microseconds, however short it is."""

_SPARSE: Final = 4  # a window is not read of a run that is more than so many times as long


class ViewReader:
    """Reads runs of a view. Owns buffers: one thread, one reader.

    Args:
        seen: Called with whole blocks that are decoded.
    """

    def __init__(self, view: TensorView, seen: Callable[[Stored], object] | None = None) -> None:
        self._view, self._seen = view, seen
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
            self._current = (number, _PartReader(self._view.parts[number], self._seen))
        return self._current[1]


class _PartReader:
    """Reads runs of one part."""

    def __init__(self, part: TensorPart, seen: Callable[[Stored], object] | None) -> None:
        self._part = part
        self._reader = WeightReader(part.tensor, seen)
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
        self._at = -1  # where the last window begins in the part
        self._values: Values = np.empty(0, np.float32)

    def read_into(self, start: int, out: Values, check: Check) -> None:
        """Fill `out` with the weights from `start` on."""
        per_row = self._part.shape[self._axis] * self._inner  # windows do not cross such rows
        per_window = self._width * self._inner
        done = 0
        while done < out.size:
            in_row = (start + done) % per_row
            offset = in_row % per_window
            if self._at != start + done - offset:
                check()
                self._at = start + done - offset
                self._read(min(per_window, per_row - in_row + offset) // self._inner)
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

    def _read(self, width: int) -> None:
        part = self._part
        start = part.flat_index(self._at)
        shape = (width, *part.shape[self._axis + 1 :])
        strides = part.strides[self._axis :]
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
