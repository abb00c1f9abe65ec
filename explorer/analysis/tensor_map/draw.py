"""Fills a map: one walk over what a window shows of a matrix, on one thread or several.

The window is cut into tiles of whole cells, whose size depends on nothing but the grid. A cell is
filled by one thread, number after number: so a map is the same to the bit on any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from explorer.analysis import kernel_api
from explorer.analysis.blocks import BlockUnpacker, is_quantized
from explorer.analysis.errors.pairs import RUN_WEIGHTS, WeightsPair
from explorer.analysis.rounding import FloatBuffer
from explorer.analysis.tensor_map.map import Grid, TensorMap, Window
from explorer.errors import ExplorerError
from explorer.formats.tensors import Folding, Shape, Tensor
from explorer.formats.weights import SPAN_WEIGHTS, Values, WeightReader
from explorer.parallel import Check, PerThread, map_in_order, never

# Whatever is drawn is a number for each weight, in the order of the weights: of a block's scale as
# many copies as the block has weights. So all of it is reduced, zoomed and pointed at alike.

ERROR_GROUP: Final = 32
"""Consecutive weights whose RMS a relative error is divided by: a block of most types."""


class Quantity(Enum):
    """What is drawn."""

    VALUE = "value"
    ABSOLUTE_ERROR = "absolute error"
    RELATIVE_ERROR = "relative error"
    SCALE = "block scale"
    MINIMUM = "block minimum"

    @property
    def needs_reference(self) -> bool:
        """Whether it compares two sets of weights."""
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
        return Folding(self.shape).rows


def tensor_source(tensor: Tensor, quantity: Quantity) -> Source:
    """Return what is drawn of one tensor.

    Args:
        tensor: The tensor; a quantized one (`blocks.is_quantized`) for scales and minima.
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
    return BlockUnpacker(tensor).weights_per_scale if is_quantized(tensor) else 1


class _Weights:
    """The weights themselves; see `Plane`."""

    def __init__(self, tensor: Tensor) -> None:
        self._reader = WeightReader(tensor)
        self._buffer = FloatBuffer()

    def read(self, start: int, count: int, check: Check) -> Values:
        values = self._buffer.of(count)
        self._reader.read_into(start, values, check)
        return values


class _Blocks:
    """The scale, or the minimum, of each weight's block; see `Plane`."""

    def __init__(self, tensor: Tensor, minimum: bool) -> None:
        self._reader = WeightReader(tensor)
        self._unpacker = BlockUnpacker(tensor)
        if minimum and not self._unpacker.has_minimum:
            raise ExplorerError(f"blocks of type {tensor.type.name} have no minimum")
        self._minimum = minimum
        self._buffer = FloatBuffer()

    def read(self, start: int, count: int, check: Check) -> Values:
        unit, repeats = self._reader.unit, self._unpacker.weights_per_scale
        first = start // unit * unit
        stop = -(-(start + count) // unit) * unit
        values = self._buffer.of(stop - first)
        done = 0
        for stored in self._reader.runs(first, stop, check):
            found = self._unpacker.scales(stored)
            numbers = (found.minima if self._minimum else found.scales).reshape(-1, 1)
            end = done + numbers.size * repeats
            values[done:end].reshape(-1, repeats)[:] = numbers
            done = end
        return values[start - first : start - first + count]


class _Errors:
    """How far a candidate is from its reference; see `Plane`."""

    def __init__(self, pair: WeightsPair, relative: bool) -> None:
        self._reader = pair.reader()
        self._parameters = pair.parameters
        self._relative = relative
        self._buffer = FloatBuffer()

    def read(self, start: int, count: int, check: Check) -> Values:
        group = ERROR_GROUP if self._relative else 1
        first = start // group * group
        stop = min(self._parameters, -(-(start + count) // group) * group)
        reference, candidate = self._reader.read((first, stop - first), check)
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
        rms[~np.isfinite(rms)] = np.nan  # the neighbours of an infinity have no RMS
        each = np.repeat(rms.astype(np.float32), sizes)
        np.divide(errors, each, out=errors, where=(errors != 0) | np.isnan(each))


_WHOLE_ROWS: Final = 4
"""Rows are read whole where so many times what is wanted of them is as fast as picking it out."""

_SHORT_ROW: Final = 4096
"""The same for any row that is no longer: a read of its own takes some microseconds."""


def draw_map(
    source: Source, grid: Grid, *, workers: int = 1, check: Check = never
) -> Generator[TensorMap, None, None]:
    """Yield the map of a window as its tiles are filled; memory is bounded by a few of them.

    The arrays of a map go on changing; see `TensorMap.copied`. The last one is complete.

    Args:
        grid: The window and its cells, inside of the source's rows and columns.
        workers: Threads. The last map is the same to the bit for any number.
        check: Called before every run, in the thread that reads it; raises to stop.

    Raises:
        FormatError: A file is damaged there, or a type's weights cannot be decoded.
        IndexError: The window leaves the matrix.
        SourceError: A file changed since it was opened.
    """
    window = grid.window
    if not Window(0, 0, source.rows, source.columns).contains(window):
        raise IndexError(f"{window} of {source.rows} × {source.columns}")
    planes = PerThread(source.make)

    def fill(tile: _Tile, check: Check) -> None:
        tile.fill(planes.own, source.columns, check)

    growing = _GrowingMap(grid)
    if not window.weights:
        yield growing.map
    with map_in_order(_tiles(grid), fill, workers=workers, check=check) as filled:
        for tile, _ in filled:
            growing.add(tile)
            yield growing.map


class _GrowingMap:
    """A map while it is filled.

    Attributes:
        map: What there is so far; its arrays go on changing.
    """

    def __init__(self, grid: Grid) -> None:
        low, high, rms = np.full((3, *grid.shape), np.nan, np.float32)
        counts = np.zeros(grid.shape, np.uint32)
        rows, columns = (np.full(length, np.nan) for length in grid.shape)
        self._rows, self._columns = (np.zeros((2, length)) for length in grid.shape)
        self.map = TensorMap(grid, low, high, rms, counts, rows, columns, 0)

    def add(self, tile: _Tile) -> None:
        """Take a tile that is filled."""
        found = self.map
        squares, counts = tile.sums
        for cells, more in (
            (found.low, np.where(counts > 0, tile.tops[0], np.nan)),
            (found.high, np.where(counts > 0, tile.tops[1], np.nan)),
            (found.rms, np.sqrt(squares / np.where(counts, counts, np.nan))),
            (found.counts, counts),
        ):
            cells[tile.place] = more
        down, across = tile.place
        self._rows[:, down] += tile.sums.sum(axis=2)
        self._columns[:, across] += tile.sums.sum(axis=1)
        row_rms, column_rms = (
            np.sqrt(lines[0] / np.where(lines[1], lines[1], np.nan))
            for lines in (self._rows, self._columns)
        )
        done = found.done + tile.grid.window.weights
        self.map = replace(found, row_rms=row_rms, column_rms=column_rms, done=done)


@dataclass(frozen=True, slots=True)
class _Tile:
    """Some whole cells of a grid.

    Attributes:
        grid: Its own cells.
        place: Where they are among those of the whole grid.
        tops: See `kernels.fold_cells`; of no numbers until `fill`.
        sums: The same.
    """

    grid: Grid
    place: tuple[slice, slice]
    tops: NDArray[np.float32]
    sums: NDArray[np.float64]

    @classmethod
    def at(cls, grid: Grid, place: tuple[slice, slice]) -> _Tile:
        down, across = place
        first = grid.window_of((down.start, across.start))
        last = grid.window_of((down.stop - 1, across.stop - 1))
        top, left = first.top, first.left
        window = Window(top, left, last.bottom - top, last.right - left)
        own = Grid(window, grid.cell_rows, grid.cell_columns)
        tops = np.full((2, *own.shape), np.inf, np.float32)
        tops[1] = -np.inf
        return cls(own, place, tops, np.zeros((2, *own.shape)))

    def fill(self, plane: Plane, columns: int, check: Check) -> None:
        """Read what it covers of a matrix of so many columns."""
        window = self.grid.window
        fold = kernel_api.kernels().fold_cells
        cell = self.grid.cell_rows, self.grid.cell_columns
        for row, column, values in _runs(window, plane, columns, check):
            place = np.array(
                [row - window.top, column - window.left, window.width, *cell], np.int64
            )
            fold(values, place, self.tops, self.sums)


def _tiles(grid: Grid) -> Iterator[_Tile]:
    """Cut a grid into tiles of at most `SPAN_WEIGHTS` numbers, but at least one cell."""
    rows, columns = grid.shape
    if not grid.window.weights:
        return
    per_cell = grid.cell_rows * grid.cell_columns
    across = min(columns, max(1, SPAN_WEIGHTS // per_cell))
    down = max(1, SPAN_WEIGHTS // (per_cell * across)) if across == columns else 1
    for y in range(0, rows, down):
        for x in range(0, columns, across):
            place = slice(y, min(rows, y + down)), slice(x, min(columns, x + across))
            yield _Tile.at(grid, place)


def _runs(
    window: Window, plane: Plane, columns: int, check: Check
) -> Iterator[tuple[int, int, NDArray[np.float32]]]:
    """Yield row, column and numbers of runs that together are a window, row after row."""
    if columns > RUN_WEIGHTS or (window.width * _WHOLE_ROWS < columns and columns > _SHORT_ROW):
        for row in range(window.top, window.bottom):
            for column in range(window.left, window.right, RUN_WEIGHTS):
                check()
                count = min(RUN_WEIGHTS, window.right - column)
                yield row, column, plane.read(row * columns + column, count, check)
        return
    step = RUN_WEIGHTS // columns
    for row in range(window.top, window.bottom, step):
        check()
        height = min(step, window.bottom - row)
        values = plane.read(row * columns, height * columns, check)
        if window.width < columns:
            inside = values.reshape(height, columns)[:, window.left : window.right]
            values = np.ascontiguousarray(inside).reshape(-1)
        yield row, window.left, values
