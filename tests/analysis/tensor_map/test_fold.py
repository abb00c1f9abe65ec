"""Maps of tensors against NumPy, on every kind of window; outliers are never lost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from explorer.analysis.tensor_map import draw as tensor_map_fold
from explorer.analysis.tensor_map.draw import Quantity, draw_map, tensor_source
from explorer.analysis.tensor_map.map import (
    MOST_CELLS,
    MOST_SIDE,
    Grid,
    Reduction,
    TensorMap,
    Window,
    levels_of,
)
from explorer.errors import SourceError
from explorer.formats.tensors import Tensor
from tests.helpers.tensors import CountingSource, float_tensor, tensor_of


def whole_of(tensor: Tensor) -> Window:
    source = tensor_source(tensor, Quantity.VALUE)
    return Window(0, 0, source.rows, source.columns)


def drawn(tensor: Tensor, grid: Grid, workers: int = 1) -> TensorMap:
    *_, last = draw_map(tensor_source(tensor, Quantity.VALUE), grid, workers=workers)
    return last


def rms(numbers: NDArray[np.float64]) -> float:
    finite = numbers[np.isfinite(numbers)]
    return float(np.sqrt(np.mean(finite**2))) if finite.size else float("nan")


def check(found: TensorMap, matrix: NDArray[np.float32]) -> None:
    """Compare every cell, and every row and column of cells, with NumPy's float64."""
    grid = found.grid
    exact = matrix.astype(np.float64)
    rows, columns = grid.shape
    assert found.complete
    for y in range(rows):
        for x in range(columns):
            at = grid.window_of((y, x))
            cell = exact[at.top : at.bottom, at.left : at.right]
            finite = cell[np.isfinite(cell)]
            assert found.counts[y, x] == finite.size
            assert found.not_finite[y, x] == cell.size - finite.size
            if finite.size:
                assert (found.low[y, x], found.high[y, x]) == (finite.min(), finite.max())
                assert found.rms[y, x] == np.float32(rms(cell)) or np.isclose(
                    found.rms[y, x], rms(cell), rtol=1e-7
                )
            else:
                assert np.isnan([found.low[y, x], found.high[y, x], found.rms[y, x]]).all()
    inside = exact[grid.window.top : grid.window.bottom, grid.window.left : grid.window.right]
    for y in range(rows):
        line = inside[y * grid.cell_rows : (y + 1) * grid.cell_rows]
        np.testing.assert_allclose(found.row_rms[y], rms(line), rtol=1e-12)
    for x in range(columns):
        line = inside[:, x * grid.cell_columns : (x + 1) * grid.cell_columns]
        np.testing.assert_allclose(found.column_rms[x], rms(line), rtol=1e-12)


def matrix_of(rows: int, columns: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(0, 0.1, (rows, columns)).astype(np.float32)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    "grid",
    [
        Grid(Window(0, 0, 70, 90), 8, 16),
        Grid(Window(0, 0, 70, 90), 1, 1),
        Grid(Window(8, 16, 32, 64), 4, 2),
        Grid(Window(69, 0, 1, 90), 1, 4),
        Grid(Window(0, 89, 70, 1), 128, 1),
        Grid(Window(3, 5, 0, 0), 1, 1),
    ],
)
def test_every_cell_is_what_numpy_says(grid: Grid, workers: int) -> None:
    matrix = matrix_of(70, 90)
    matrix[::9, ::7] = np.nan
    matrix[11, 13], matrix[40, 2] = np.inf, -np.inf
    matrix[16:24, 16:32] = np.nan  # a whole cell, and more
    check(drawn(float_tensor(matrix), grid, workers), matrix)


@given(
    st.integers(1, 40),
    st.integers(1, 300),
    st.tuples(st.sampled_from([1, 2, 4, 32]), st.sampled_from([1, 2, 8, 64])),
    st.integers(0, 99),
    st.data(),
)
def test_any_window_however_it_is_read(
    rows: int, columns: int, cell: tuple[int, int], seed: int, data: st.DataObject
) -> None:
    top, left = data.draw(st.integers(0, rows - 1)), data.draw(st.integers(0, columns - 1))
    height = data.draw(st.integers(1, rows - top))
    width = data.draw(st.integers(1, columns - left))
    matrix = matrix_of(rows, columns, seed)
    grid = Grid(Window(top, left, height, width), *cell)
    with pytest.MonkeyPatch.context() as patch:  # small runs and tiles, rows read in pieces
        patch.setattr(tensor_map_fold, "RUN_WEIGHTS", data.draw(st.sampled_from([50, 1000])))
        patch.setattr(tensor_map_fold, "SPAN_WEIGHTS", data.draw(st.sampled_from([1, 100, 9999])))
        patch.setattr(tensor_map_fold, "_SHORT_ROW", data.draw(st.sampled_from([1, 1000])))
        check(drawn(float_tensor(matrix), grid), matrix)


def test_the_number_of_threads_changes_no_bit() -> None:
    matrix = matrix_of(3000, 2500)
    tensor = float_tensor(matrix)
    grid = Grid.of(whole_of(tensor), whole_of(tensor), 300, 300)
    one, two = drawn(tensor, grid), drawn(tensor, grid, 2)
    for name in ("low", "high", "rms", "counts", "row_rms", "column_rms"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    np.testing.assert_allclose(
        one.column_rms[0], rms(matrix[:, : grid.cell_columns].astype(np.float64)), rtol=1e-12
    )


def test_an_outlier_is_seen_in_any_picture() -> None:
    matrix = matrix_of(512, 512)
    matrix[300, 77] = -42
    for most in (512, 100, 10, 1):
        whole = Window(0, 0, 512, 512)
        found = drawn(float_tensor(matrix), Grid.of(whole, whole, most, most))
        for shown in (
            found,
            found.fitted(Grid(whole, 64, 32)),
            found.fitted(Grid(whole, 512, 512)),
        ):
            image = shown.image(Reduction.EXTREME)
            assert image.min() == -42
            place = shown.grid.cell_of(300, 77)
            assert place is not None
            assert image[place] == -42


def test_a_number_that_is_not_finite_is_seen_in_any_picture() -> None:
    matrix = matrix_of(64, 64)
    matrix[60, 3] = np.nan
    whole = Window(0, 0, 64, 64)
    found = drawn(float_tensor(matrix), Grid.of(whole, whole, 8, 8))
    for reduction in Reduction:
        assert np.isnan(found.image(reduction)).sum() == 1
        assert np.isnan(found.image(reduction)[7, 0])
    assert found.not_finite.sum() == 1


def test_pictures_of_one_number_to_a_cell_are_the_matrix() -> None:
    matrix = matrix_of(20, 30)
    found = drawn(float_tensor(matrix), Grid(Window(4, 6, 10, 20), 1, 1))
    np.testing.assert_array_equal(found.image(Reduction.EXTREME), matrix[4:14, 6:26])
    np.testing.assert_allclose(found.image(Reduction.RMS), np.abs(matrix[4:14, 6:26]), rtol=1e-6)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (2, 4), (16, 1), (64, 128)])
def test_joined_cells_are_those_of_a_coarser_grid(rows: int, columns: int) -> None:
    matrix = matrix_of(100, 70)
    matrix[5, 5] = np.nan
    matrix[32:48] = np.inf
    fine = drawn(float_tensor(matrix), Grid(Window(0, 0, 100, 70), 2, 2))
    coarse = fine.coarsened(rows, columns)
    same = drawn(float_tensor(matrix), Grid(Window(0, 0, 100, 70), 2 * rows, 2 * columns))
    assert coarse.grid == same.grid
    for name in ("low", "high", "counts"):
        np.testing.assert_array_equal(getattr(coarse, name), getattr(same, name))
    np.testing.assert_allclose(coarse.rms, same.rms, rtol=1e-6)


@given(
    st.integers(1, 10**6),
    st.integers(1, 10**6),
    st.integers(1, 3000),
    st.integers(1, 3000),
    st.data(),
)
def test_a_grid_covers_what_is_seen_and_stays_small(
    rows: int, columns: int, most_rows: int, most_columns: int, data: st.DataObject
) -> None:
    whole = Window(7, 0, rows, columns)
    top, left = data.draw(st.integers(0, rows - 1)), data.draw(st.integers(0, columns - 1))
    height = data.draw(st.integers(1, rows - top))
    width = data.draw(st.integers(1, columns - left))
    seen = Window(7 + top, left, height, width)
    grid = Grid.of(seen, whole, most_rows, most_columns)
    assert grid.window.contains(seen)
    assert whole.contains(grid.window)
    assert (grid.window.top - 7) % grid.cell_rows == grid.window.left % grid.cell_columns == 0
    down, across = grid.shape
    # one more where what is seen begins inside of a cell
    assert down <= min(most_rows, MOST_SIDE) + 1
    assert across <= min(most_columns, MOST_SIDE) + 1
    assert (down - 1) * (across - 1) <= MOST_CELLS
    assert grid.heights.sum() == grid.window.height
    assert grid.widths.sum() == grid.window.width


def test_cells_and_their_windows() -> None:
    grid = Grid(Window(8, 4, 10, 7), 4, 2)
    assert grid.shape == (3, 4)
    assert grid.cell_of(8, 4) == (0, 0)
    assert grid.cell_of(17, 10) == (2, 3)
    assert grid.window_of((2, 3)) == Window(16, 10, 2, 1)
    assert grid.cell_of(18, 4) is None
    assert grid.cell_of(8, 3) is None


@pytest.mark.parametrize(
    ("image", "share", "levels"),
    [
        ([-1.0, 0.5, 2.0], 1, (-2.0, 2.0)),
        ([0.0, 0.5, 2.0], 1, (0.0, 2.0)),
        ([*range(1000), 1e9], 0.999, (0.0, 999.0)),
        ([*range(1000), 1e9], 1, (0.0, 1e9)),
        ([0.0] * 5000 + [-7.0], 0.999, (-7.0, 7.0)),  # the rare one is not black on black
        ([0.0, 0.0], 0.999, (0.0, 1.0)),
        ([np.nan, np.inf], 1, (0.0, 1.0)),
        ([], 1, (0.0, 1.0)),
    ],
)
def test_levels(image: list[float], share: float, levels: tuple[float, float]) -> None:
    assert levels_of(np.array(image, np.float32), share) == levels


def test_only_what_is_in_the_window_is_read() -> None:
    matrix = matrix_of(64, 8192)
    source = CountingSource(matrix.tobytes())
    tensor = tensor_of("F32", source, matrix.shape)
    drawn(tensor, Grid(Window(10, 4000, 3, 16), 1, 1))
    assert source.runs == [(4 * (row * 8192 + 4000), 64) for row in (10, 11, 12)]


def test_a_copy_of_the_map_so_far_does_not_change() -> None:
    matrix = matrix_of(4096, 1024)
    tensor = float_tensor(matrix)
    whole = whole_of(tensor)
    grid = Grid.of(whole, whole, 64, 64)
    states = []
    for found in draw_map(tensor_source(tensor, Quantity.VALUE), grid):
        states.append(found.copied())
    assert [state.done for state in states] == [1 << 21, 1 << 22]
    assert np.isnan(states[0].low[32:]).all()
    np.testing.assert_array_equal(states[0].low[:32], found.low[:32])
    assert not states[0].complete


class _Stopped(Exception):
    pass


def test_drawing_can_be_cancelled() -> None:
    calls = 0

    def check() -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise _Stopped

    tensor = float_tensor(matrix_of(2048, 1024))
    source = tensor_source(tensor, Quantity.VALUE)
    with pytest.raises(_Stopped):
        list(draw_map(source, Grid(whole_of(tensor), 64, 64), check=check, workers=2))


@pytest.mark.parametrize("shape", [(), (0,), (5,), (0, 4), (4, 0), (2, 3, 4), (2, 1, 3, 1)])
def test_any_number_of_dimensions(shape: tuple[int, ...]) -> None:
    weights = np.random.default_rng(3).normal(size=shape).astype(np.float32)
    tensor = float_tensor(weights, shape)
    whole = whole_of(tensor)
    assert whole.weights == weights.size
    found = drawn(tensor, Grid(whole, 1, 1))
    np.testing.assert_array_equal(found.image(Reduction.EXTREME).reshape(-1), weights.reshape(-1))


def test_a_window_outside_of_the_matrix_is_refused() -> None:
    tensor = float_tensor(matrix_of(4, 4))
    with pytest.raises(IndexError):
        drawn(tensor, Grid(Window(2, 0, 3, 4), 1, 1))


class _CutSource(CountingSource):
    def read_into(self, offset: int, buffer: bytearray | memoryview) -> None:
        raise SourceError("the file changed since it was opened", "cut.gguf", offset)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_file_that_was_cut_is_one_clear_error(workers: int) -> None:
    tensor = tensor_of("F32", _CutSource(bytes(4 * 64)), (8, 8))
    with pytest.raises(SourceError, match="changed"):
        drawn(tensor, Grid(Window(0, 0, 8, 8), 2, 2), workers)
