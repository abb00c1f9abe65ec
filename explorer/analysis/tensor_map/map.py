"""A matrix as a picture of bounded size, each cell of which summarizes the numbers behind it.

A cell keeps the least and the greatest number and the root mean square, so that an outlier among a
million weights is still there to see. Where a cell holds one number, the picture is the matrix.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from explorer.analysis.block_detail import BlockReader
from explorer.analysis.blocks import is_quantized
from explorer.analysis.errors.pairs import WeightsPair
from explorer.formats.tensors import Tensor
from explorer.formats.weights import WeightReader
from explorer.parallel import Check, never

Cells = TypeVar("Cells", bound=NDArray[Any])

MOST_SIDE: Final = 1024
"""Most cells along a side."""

MOST_CELLS: Final = 1 << 19
"""Most cells: what a map keeps is then 8 MiB."""


class Reduction(Enum):
    """What a cell of several numbers shows."""

    EXTREME = "extreme"
    """The number of the largest magnitude, with its sign."""

    RMS = "rms"
    """The root of the mean square."""


@dataclass(frozen=True, slots=True)
class Window:
    """A rectangle of a matrix.

    Attributes:
        top: Its first row.
        left: Its first column.
        height: Number of rows.
        width: Number of columns.
    """

    top: int
    left: int
    height: int
    width: int

    @property
    def bottom(self) -> int:
        """Behind the last row."""
        return self.top + self.height

    @property
    def right(self) -> int:
        """Behind the last column."""
        return self.left + self.width

    @property
    def weights(self) -> int:
        """How many numbers it holds."""
        return self.height * self.width

    def contains(self, other: Window) -> bool:
        """Whether another window lies inside."""
        across = self.left <= other.left and other.right <= self.right
        return across and self.top <= other.top and other.bottom <= self.bottom

    def intersected(self, other: Window) -> Window:
        """Return what both have in common; of no height or width if they are apart."""
        top, left = max(self.top, other.top), max(self.left, other.left)
        bottom, right = min(self.bottom, other.bottom), min(self.right, other.right)
        return Window(top, left, max(0, bottom - top), max(0, right - left))


@dataclass(frozen=True, slots=True)
class Grid:
    """A window cut into equal cells; those at its lower and right edge may be smaller."""

    window: Window
    cell_rows: int
    cell_columns: int

    @classmethod
    def of(cls, seen: Window, whole: Window, most_rows: int, most_columns: int) -> Grid:
        """Cut what is seen of a matrix into as many cells as there is room for.

        Cells are powers of two and begin at the matrix's own corner: so they agree with blocks, and
        with the cells of other windows.

        Args:
            seen: A part of the matrix.
            whole: The matrix; the grid stays inside of it and covers all that is seen.
            most_rows: Room for cells from top to bottom, such as pixels.
            most_columns: The same from left to right.
        """
        rows = _power(seen.height, min(most_rows, MOST_SIDE))
        columns = _power(seen.width, min(most_columns, MOST_SIDE))
        while _cells(seen.height, rows) * _cells(seen.width, columns) > MOST_CELLS:
            rows *= 2
        top = whole.top + (seen.top - whole.top) // rows * rows
        left = whole.left + (seen.left - whole.left) // columns * columns
        bottom = min(whole.bottom, top + _cells(seen.bottom - top, rows) * rows)
        right = min(whole.right, left + _cells(seen.right - left, columns) * columns)
        return cls(Window(top, left, bottom - top, right - left), rows, columns)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of cells from top to bottom, and from left to right."""
        window = self.window
        return _cells(window.height, self.cell_rows), _cells(window.width, self.cell_columns)

    @property
    def exact(self) -> bool:
        """Whether each cell is a single number."""
        return self.cell_rows == self.cell_columns == 1

    @property
    def heights(self) -> NDArray[np.int64]:
        """Rows of each row of cells, int64 [rows]."""
        return _sizes(self.window.height, self.cell_rows)

    @property
    def widths(self) -> NDArray[np.int64]:
        """Columns of each column of cells, int64 [columns]."""
        return _sizes(self.window.width, self.cell_columns)

    def cell_of(self, row: int, column: int) -> tuple[int, int] | None:
        """Return the cell that holds a row and column of the matrix, or None."""
        window = self.window
        if not (window.top <= row < window.bottom and window.left <= column < window.right):
            return None
        y, x = (row - window.top) // self.cell_rows, (column - window.left) // self.cell_columns
        return y, x

    def window_of(self, cell: tuple[int, int]) -> Window:
        """Return what a cell covers of the matrix."""
        top = self.window.top + cell[0] * self.cell_rows
        left = self.window.left + cell[1] * self.cell_columns
        return Window(top, left, self.cell_rows, self.cell_columns).intersected(self.window)


@dataclass(frozen=True, slots=True)
class TensorMap:
    """What the numbers of each cell amount to; those that are not finite are only counted.

    Attributes:
        grid: The cells.
        low: Least number, float32 [rows, columns]; NaN where there is no finite one, or not yet.
        high: Greatest number, the same.
        rms: Root of the mean square, the same.
        counts: How many numbers of a cell are finite, uint32 [rows, columns].
        row_rms: Root of the mean square of each row of cells, float64 [rows]; NaN if there is none.
        column_rms: The same for columns.
        done: Numbers read so far; all of them when the map is complete.
    """

    grid: Grid
    low: NDArray[np.float32]
    high: NDArray[np.float32]
    rms: NDArray[np.float32]
    counts: NDArray[np.uint32]
    row_rms: NDArray[np.float64]
    column_rms: NDArray[np.float64]
    done: int

    @property
    def complete(self) -> bool:
        """Whether all of the window was read."""
        return self.done == self.grid.window.weights

    @property
    def not_finite(self) -> NDArray[np.int64]:
        """How many numbers of each cell are not finite, or not read yet; int64 [rows, columns]."""
        whole: NDArray[np.int64] = np.multiply.outer(self.grid.heights, self.grid.widths)
        whole -= self.counts
        return whole

    def copied(self) -> TensorMap:
        """Return a map that stays as it is while this one is filled."""
        arrays = {name: getattr(self, name).copy() for name in ("low", "high", "rms", "counts")}
        return replace(self, **arrays)

    def image(self, reduction: Reduction) -> NDArray[np.float32]:
        """Return what each cell shows, float32 [rows, columns].

        It is NaN where any number of a cell is not finite: that, too, must not get lost.
        """
        if reduction is Reduction.EXTREME:
            shown = np.where(self.high >= -self.low, self.high, self.low)
        else:
            shown = self.rms.copy()
        shown[self.not_finite > 0] = np.nan
        return shown

    def coarsened(self, rows: int, columns: int) -> TensorMap:
        """Return the map with so many cells joined along each side."""
        if rows == columns == 1:
            return self
        grid = Grid(self.grid.window, self.grid.cell_rows * rows, self.grid.cell_columns * columns)
        squares = np.square(self.rms, dtype=np.float64) * self.counts
        squares[self.counts == 0] = 0
        counts = _joined(np.add, self.counts, rows, columns)
        mean = _joined(np.add, squares, rows, columns) / np.where(counts, counts, np.nan)
        heights, widths = self.grid.heights, self.grid.widths
        return TensorMap(
            grid,
            _joined(np.fmin, self.low, rows, columns),
            _joined(np.fmax, self.high, rows, columns),
            np.sqrt(mean).astype(np.float32),
            counts,
            _joined_rms(self.row_rms, heights, rows),
            _joined_rms(self.column_rms, widths, columns),
            self.done,
        )

    def fitted(self, grid: Grid) -> TensorMap:
        """Return the map with cells that are no smaller than those of another grid."""
        return self.coarsened(
            max(1, grid.cell_rows // self.grid.cell_rows),
            max(1, grid.cell_columns // self.grid.cell_columns),
        )


def levels_of(image: NDArray[np.float32], share: float) -> tuple[float, float]:
    """Return the range of a colour scale.

    They lie around 0 alike if there is any negative number, else the lower one is 0: so a colour
    always means one sign.

    Args:
        image: What is shown, float32.
        share: Of all finite numbers, those that have a colour of their own; the magnitudes of the
            others are larger and share the last one. 1 is all.
    """
    finite = image[np.isfinite(image)]
    sizes = np.abs(finite)
    if not sizes.size:
        return 0.0, 1.0
    place = min(sizes.size - 1, int(share * sizes.size))
    greatest = float(sizes.max() if share >= 1 else np.partition(sizes, place)[place])
    greatest = greatest or float(sizes.max()) or 1.0
    return (-greatest if float(finite.min()) < 0 else 0.0), greatest


def _cells(length: int, size: int) -> int:
    return -(-length // size)


def _power(length: int, most: int) -> int:
    """Return the least power of two that cuts a length into at most so many parts."""
    return 1 << max(0, _cells(length, max(1, most)) - 1).bit_length()


def _sizes(length: int, size: int) -> NDArray[np.int64]:
    edges = np.minimum(np.arange(_cells(length, size) + 1) * size, length)
    return np.diff(edges)


def _joined(how: np.ufunc, cells: Cells, rows: int, columns: int) -> Cells:
    """Join so many cells along each side; `numpy.ufunc.reduceat` takes five times as long."""
    joined: Any = cells
    for step in (rows, columns):
        first = joined[::step].copy()
        for place in range(1, step):
            more = joined[place::step]
            how(first[: len(more)], more, out=first[: len(more)])
        joined = first.T
    return cast("Cells", np.ascontiguousarray(joined))


def _joined_rms(
    rms: NDArray[np.float64], sizes: NDArray[np.int64], step: int
) -> NDArray[np.float64]:
    """Return the RMS of neighbouring lines, taken to be of finite numbers or of none."""
    known = np.isfinite(rms)
    starts = np.arange(0, rms.size, step)
    squares = np.add.reduceat(np.where(known, rms, 0) ** 2 * sizes, starts)
    counts = np.add.reduceat(np.where(known, sizes, 0), starts)
    return np.sqrt(squares / np.where(counts, counts, np.nan))


@dataclass(frozen=True, slots=True)
class WeightFacts:
    """One weight of a tensor.

    Attributes:
        value: Its value.
        block: Number of its block; None if the type has no blocks.
        place: Its place in the block.
        code: Its code; None, as what follows, if the type has none.
        level: What the code stands for before scaling.
        scale: The scale that it is multiplied by.
        minimum: What is subtracted then; None if the type has no minima.
    """

    value: float
    block: int | None = None
    place: int = 0
    code: int | None = None
    level: float | None = None
    scale: float | None = None
    minimum: float | None = None


def weight_facts(tensor: Tensor, index: int, check: Check = never) -> WeightFacts:
    """Return the facts of a weight; reads its block only.

    Args:
        index: Flat, row-major index of the weight.

    Raises:
        FormatError: The file is damaged there, or the type's weights cannot be decoded.
        IndexError: There is no such weight.
        SourceError: The file changed since it was opened.
    """
    if not 0 <= index < tensor.parameters:
        raise IndexError(f"weight {index} of {tensor.parameters}")
    if not is_quantized(tensor):
        reader, value = WeightReader(tensor), np.empty(1, np.float32)
        reader.read_into(index, value, check)
        block, place = divmod(index, reader.unit)
        return WeightFacts(float(value[0]), block if reader.unit > 1 else None, place)
    block, place = divmod(index, tensor.type.block_weights)
    found = BlockReader(tensor).read(block, check)
    code, scale = int(found.codes[place]), place // found.weights_per_scale
    return WeightFacts(
        float(found.values[place]),
        block,
        place,
        code,
        float(found.levels[code]),
        float(found.scales[scale]),
        None if found.minima is None else float(found.minima[scale]),
    )


def pair_facts(pair: WeightsPair, index: int, check: Check = never) -> tuple[float, float]:
    """Return a weight of the reference and of the candidate; raises as `weight_facts` does."""
    if not 0 <= index < pair.parameters:
        raise IndexError(f"weight {index} of {pair.parameters}")
    reference, candidate = pair.reader().read((index, 1), check)
    return float(reference[0]), float(candidate[0])


def places_agree(pair: WeightsPair, tensor: Tensor) -> bool:
    """Return whether a place in a pair is the same place in the tensor that it was made for.

    It is not where tensors were joined, or rows brought into the reference's order.
    """
    parts = pair.candidate.parts
    same_shape = pair.shape == tensor.shape
    return same_shape and len(parts) == 1 and parts[0].in_order and parts[0].tensor is tensor
