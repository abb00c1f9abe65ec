"""What can be drawn of a matrix: its values, errors against a reference, scales of its blocks.

Whatever it is, it is a number for each weight, in the order of the weights: of a block's scale as
many copies as the block has weights. So all of it is reduced, zoomed and pointed at alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from explorer.analysis.errors.weights_pair import WeightsPair
from explorer.analysis.splitting import Splitter, splitter_of
from explorer.errors import ExplorerError
from explorer.formats.tensors import Folding, Shape, Tensor
from explorer.formats.weights import Values, WeightReader
from explorer.parallel import Check

ERROR_GROUP: Final = 32
"""Consecutive weights whose RMS a relative error is told in: a block of most types."""


class Quantity(Enum):
    """What is drawn."""

    VALUE = "value"
    ABSOLUTE_ERROR = "absolute error"
    RELATIVE_ERROR = "relative error"
    SCALE = "block scale"
    MINIMUM = "block minimum"

    @property
    def needs_reference(self) -> bool:
        """Whether it is told of two sets of weights."""
        return self in {Quantity.ABSOLUTE_ERROR, Quantity.RELATIVE_ERROR}

    @property
    def needs_blocks(self) -> bool:
        """Whether only a quantized tensor has it."""
        return self in {Quantity.SCALE, Quantity.MINIMUM}


class Plane(Protocol):
    """Reads runs of what is drawn. Owns buffers: for one thread."""

    def read(self, start: int, count: int, check: Check) -> Values:
        """Return a run from a flat index on, float32 [count]; overwritten by the next call."""


@dataclass(frozen=True, slots=True)
class Source:
    """A matrix to draw.

    Attributes:
        shape: Of all weights, outermost first; see `Folding`.
        make: Makes what reads it, once for each thread.
    """

    shape: Shape
    make: Callable[[], Plane]

    @property
    def columns(self) -> int:
        """Length of its rows."""
        return Folding(self.shape).columns

    @property
    def rows(self) -> int:
        """Number of its rows."""
        return Folding(self.shape).rows


def tensor_source(tensor: Tensor, quantity: Quantity) -> Source:
    """Return what is drawn of one tensor.

    Args:
        tensor: The tensor; a quantized one (`splitting.is_quantized`) for scales and minima.
        quantity: Nothing that needs a reference. Making what reads minima raises an
            `ExplorerError` if the type has none.
    """
    if quantity is Quantity.VALUE:
        return Source(tensor.shape, lambda: _Weights(tensor))
    return Source(tensor.shape, lambda: _Blocks(tensor, quantity is Quantity.MINIMUM))


def pair_source(pair: WeightsPair, quantity: Quantity) -> Source:
    """Return what is drawn of a reference and a candidate; a quantity that needs both."""
    relative = quantity is Quantity.RELATIVE_ERROR
    return Source(pair.shape, lambda: _Errors(pair, relative))


def weights_per_scale(tensor: Tensor) -> int:
    """Return how many consecutive weights share a scale, 1 if it is not quantized; for a worker."""
    splitter = splitter_of(tensor)
    return 1 if splitter is None else splitter.weights_per_scale


class _Buffer:
    """A float32 array that grows."""

    def __init__(self) -> None:
        self._values: Values = np.empty(0, np.float32)

    def of(self, count: int) -> Values:
        if self._values.size < count:
            self._values = np.empty(count, np.float32)
        return self._values[:count]


class _Weights:
    """The weights themselves; see `Plane`."""

    def __init__(self, tensor: Tensor) -> None:
        self._reader = WeightReader(tensor)
        self._buffer = _Buffer()

    def read(self, start: int, count: int, check: Check) -> Values:
        values = self._buffer.of(count)
        self._reader.read_into(start, values, check)
        return values


class _Blocks:
    """The scale, or the minimum, of each weight's block; see `Plane`."""

    def __init__(self, tensor: Tensor, minimum: bool) -> None:
        self._reader = WeightReader(tensor)
        self._splitter = Splitter(tensor)
        if minimum and not self._splitter.has_minimum:
            raise ExplorerError(f"blocks of type {tensor.type.name} have no minimum")
        self._minimum = minimum
        self._buffer = _Buffer()

    def read(self, start: int, count: int, check: Check) -> Values:
        unit, repeats = self._reader.unit, self._splitter.weights_per_scale
        first = start // unit * unit
        stop = -(-(start + count) // unit) * unit
        values = self._buffer.of(stop - first)
        done = 0
        for stored in self._reader.runs(first, stop, check):
            found = self._splitter.scales(stored)
            numbers = (found.minima if self._minimum else found.scales).reshape(-1, 1)
            end = done + numbers.size * repeats
            values[done:end].reshape(-1, repeats)[:] = numbers
            done = end
        return values[start - first : start - first + count]


class _Errors:
    """How far a candidate is from its reference; see `Plane`."""

    def __init__(self, pair: WeightsPair, relative: bool) -> None:
        self._pairs = pair.pairs()
        self._parameters = pair.parameters
        self._relative = relative
        self._buffer = _Buffer()

    def read(self, start: int, count: int, check: Check) -> Values:
        group = ERROR_GROUP if self._relative else 1
        first = start // group * group
        stop = min(self._parameters, -(-(start + count) // group) * group)
        reference, candidate = self._pairs.read((first, stop - first), check)
        errors = self._buffer.of(stop - first)
        with np.errstate(invalid="ignore", over="ignore"):  # infinity minus infinity
            np.subtract(candidate, reference, out=errors)
        np.abs(errors, out=errors)
        if self._relative:
            _divide_by_rms(errors, reference)
        return errors[start - first : start - first + count]


def _divide_by_rms(errors: Values, reference: Values) -> None:
    """Divide errors by the RMS of the group of reference weights that each belongs to.

    No error is 0 of any RMS; an error of weights that are all 0 is infinite.
    """
    starts = np.arange(0, reference.size, ERROR_GROUP)
    sizes = np.diff(np.append(starts, reference.size))
    with np.errstate(invalid="ignore", divide="ignore"):
        squares = np.square(reference, dtype=np.float64)
        rms: NDArray[np.float64] = np.sqrt(np.add.reduceat(squares, starts) / sizes)
        rms[~np.isfinite(rms)] = np.nan  # nothing can be told of the neighbours of an infinity
        each = np.repeat(rms.astype(np.float32), sizes)
        np.divide(errors, each, out=errors, where=(errors != 0) | np.isnan(each))
