"""A tensor's weights in another order: slices, permutations and joins, streamed.

A converter's transforms move weights about and change none (but for Gemma's norms, to which it adds
1). So all that is needed to undo one is a view: for each of its weights a place in a tensor, told
by strides as NumPy's arrays have them. `view_reader.py` reads them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod
from typing import TypeAlias

from explorer.formats.tensors import Shape, Tensor


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
        return cls(tensor, tensor.shape, _row_major(tensor.shape))

    @property
    def parameters(self) -> int:
        """Number of weights."""
        return prod(self.shape)

    @property
    def in_order(self) -> bool:
        """Whether it is a run of the tensor as it is stored."""
        return len(self.collapsed().shape) <= 1 and self.collapsed().strides in {(), (1,)}

    def reshaped(self, *shape: int) -> TensorPart:
        """Return the same weights in a shape of other dimensions.

        Raises:
            ValueError: The number of weights differs, or the part is no run of its tensor.
        """
        if prod(shape) != self.parameters or not self.in_order:
            raise ValueError(f"{self.shape} cannot be seen as {shape}")
        return replace(self, shape=shape, strides=_row_major(shape))

    def transposed(self, *order: int) -> TensorPart:
        """Return it with its dimensions in another order, as `numpy.transpose` does."""
        return replace(
            self,
            shape=tuple(self.shape[i] for i in order),
            strides=tuple(self.strides[i] for i in order),
        )

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
    notes: tuple[str, ...] = field(default=())

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


def _row_major(shape: Shape) -> tuple[int, ...]:
    strides = [1]
    for size in shape[:0:-1]:
        strides.append(strides[-1] * size)
    return tuple(reversed(strides)) if shape else ()


Weights: TypeAlias = Tensor | TensorView
"""Weights in some order: a tensor as it is, or a view."""


def view_of(weights: Weights) -> TensorView:
    """Return a view of a tensor as it is; a view as it is given."""
    return TensorView.of(weights) if isinstance(weights, Tensor) else weights
