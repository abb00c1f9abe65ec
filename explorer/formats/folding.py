"""A tensor of any number of dimensions as rows and columns, as tables, maps and files show it.

Rows run along the last dimension and are counted through all others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from explorer.quantization.types import TensorType


@dataclass(frozen=True, slots=True)
class Folding:
    """The rows and columns of a shape.

    Attributes:
        shape: Lengths of the dimensions, outermost first; without any, it is one weight.
    """

    shape: tuple[int, ...]

    @property
    def columns(self) -> int:
        """Length of the last dimension."""
        return self.shape[-1] if self.shape else 1

    @property
    def rows(self) -> int:
        """Product of all other dimensions; 0 if a row would hold nothing."""
        return math.prod(self.shape[:-1]) if self.columns else 0

    def row_name(self, row: int) -> str:
        """Return a row's place in the dimensions that are folded: ``"3, 17"``."""
        leading = self.shape[:-1]
        if len(leading) < 2:
            return str(row)
        parts = []
        for length in reversed(leading):
            row, place = divmod(row, length)
            parts.append(str(place))
        return ", ".join(reversed(parts))

    def block_problem(self, kind: TensorType) -> str | None:
        """Return why weights of this shape cannot have a type; None if they can.

        A block never spans two rows.
        """
        columns, block = self.columns, kind.block_weights
        if columns % block == 0:
            return None
        return f"rows of {columns} weights are no whole number of blocks of {block}"

    def place_of(self, numbers: tuple[int, ...]) -> tuple[int, int] | None:
        """Return the row and column that numbers mean, or None if there is no such weight.

        Args:
            numbers: An index in all dimensions; or a folded row, or a folded row and a column.
        """
        if len(numbers) == len(self.shape) and len(self.shape) != 1:
            row = 0
            for number, length in zip(numbers[:-1], self.shape[:-1], strict=True):
                if not 0 <= number < length:
                    return None
                row = row * length + number
            place = row, numbers[-1]
        elif len(numbers) == 1:
            place = (0, numbers[0]) if len(self.shape) == 1 else (numbers[0], 0)
        elif len(numbers) == 2:
            place = numbers[0], numbers[1]
        else:
            return None
        return place if 0 <= place[0] < self.rows and 0 <= place[1] < self.columns else None
