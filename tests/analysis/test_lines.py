"""Figures of rows and columns against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from explorer.analysis import LineFigures, tensor_lines
from explorer.analysis.tensor_map import draw as lines_module
from tests.helpers.tensors import float_tensor, random_blocks, tensor_of


def _check(found: LineFigures, weights: NDArray[np.float32]) -> None:
    """Compare with NumPy; weights: [lines, weights of a line]."""
    exact = np.where(np.isfinite(weights), weights, np.nan).astype(np.float64)
    np.testing.assert_array_equal(found.finite, np.isfinite(weights).sum(axis=1))
    np.testing.assert_allclose(found.norm, np.sqrt(np.nansum(exact**2, axis=1)), rtol=1e-12)
    some = found.finite > 0
    np.testing.assert_allclose(
        found.mean[some], np.nanmean(exact[some], axis=1), rtol=1e-9, atol=1e-12
    )
    assert np.isnan(found.mean[~some]).all()
    np.testing.assert_array_equal(found.abs_max, np.nanmax(np.abs(exact), axis=1, initial=0))


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("shape", [(1,), (7, 1), (1, 300_001), (3000, 1111), (4, 5, 6)])
def test_rows_and_columns(shape: tuple[int, ...], workers: int) -> None:
    weights = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    weights.reshape(-1)[::97] = np.nan
    weights.reshape(-1)[5::1009] = -np.inf
    found = tensor_lines(float_tensor(weights), workers)
    rows = weights.reshape(-1, shape[-1])
    per_column = found.columns.lines_per_entry
    _check(found.rows, rows)
    if per_column == 1:
        _check(found.columns, rows.T)
    else:
        assert found.columns.finite.sum() == np.isfinite(rows).sum()
    assert len(found.columns.norm) == -(-shape[-1] // per_column) <= lines_module.MAX_COLUMNS


def test_blocks_and_rows_need_not_agree() -> None:
    tensor = tensor_of("Q4_K", random_blocks("Q4_K", 1200).tobytes(), (400, 768))
    found = tensor_lines(tensor)
    _check(found.rows, tensor.dequantize())
    _check(found.columns, tensor.dequantize().T)


def test_many_lines_share_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "MAX_ROWS", 10)
    monkeypatch.setattr(lines_module, "MAX_COLUMNS", 4)
    weights = np.random.default_rng(2).normal(size=(95, 18)).astype(np.float32)
    found = tensor_lines(float_tensor(weights))
    assert (found.rows.lines_per_entry, found.columns.lines_per_entry) == (10, 5)
    _check(found.rows, np.pad(weights, ((0, 5), (0, 0)), constant_values=np.nan).reshape(10, -1))
    padded = np.pad(weights.T, ((0, 2), (0, 0)), constant_values=np.nan)
    _check(found.columns, padded.reshape(4, -1))


@pytest.mark.parametrize("shape", [(), (0,), (0, 4), (4, 0)])
def test_no_weights_and_one(shape: tuple[int, ...]) -> None:
    found = tensor_lines(float_tensor(np.full(shape, -2.0, np.float32), shape))
    assert found.rows.finite.sum() == int(np.prod(shape))
    assert len(found.columns.norm) == (shape[-1] if shape else 1)
