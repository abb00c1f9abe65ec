"""Fills a map: one walk over what a window shows of a matrix, on one thread or several.

The window is cut into tiles of whole cells, whose size depends on nothing but the grid. A cell is
filled by one thread, number after number: so a map is the same to the bit on any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from explorer.analysis.errors.lockstep import RUN_WEIGHTS
from explorer.analysis.tensor_map.picture import Grid, TensorMap, Window
from explorer.analysis.tensor_map.planes import Plane, Source
from explorer.formats.weights import SPAN_WEIGHTS
from explorer.parallel import Check, Pool, map_in_order, never

_WHOLE_ROWS: Final = 4
"""Rows are read whole where so many times what is wanted of them is as fast as picking it out."""

_SHORT_ROW: Final = 4096
"""The same for any row that is no longer: a read of its own takes some microseconds."""


@cache
def map_kernels() -> Any:
    """Return the module of the loop; the first call loads Numba."""
    return import_module("explorer.analysis.tensor_map.kernels")


def draw_map(
    source: Source,
    grid: Grid,
    *,
    workers: int = 1,
    check: Check = never,
    watch: Callable[[Growing], object] | None = None,
) -> TensorMap:
    """Return the map of a window; memory is bounded by its cells and some MiB for each thread.

    Args:
        source: What is drawn.
        grid: The window and its cells, inside of the source's rows and columns.
        workers: Threads. The result is the same to the bit for any number.
        check: Called before every run, in the thread that reads it; raises to stop.
        watch: Called in the caller's thread as tiles are done.

    Raises:
        FormatError: A file is damaged there, or a type's weights cannot be decoded.
        IndexError: The window leaves the matrix.
        SourceError: A file changed since it was opened.
    """
    window = grid.window
    if not Window(0, 0, source.rows, source.columns).contains(window):
        raise IndexError(f"{window} of {source.rows} × {source.columns}")
    pool: Pool[Plane] = Pool(source.make)

    def work(tile: _Tile, check: Check) -> _Tile:
        with pool.one() as plane:
            tile.fill(plane, source.columns, check)
        return tile

    growing = Growing(grid)
    tiles = _tiles(grid)
    with closing(map_in_order(tiles, work, workers=workers, check=check)) as results:
        for tile in results:
            growing.add(tile)
            if watch is not None:
                watch(growing)
    return growing.map


class Growing:
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

    def snapshot(self) -> TensorMap:
        """Return what there is so far, for another thread to keep."""
        now = self.map
        return replace(
            now,
            low=now.low.copy(),
            high=now.high.copy(),
            rms=now.rms.copy(),
            counts=now.counts.copy(),
        )


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
        fold = map_kernels().fold_cells
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
