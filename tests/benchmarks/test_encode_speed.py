"""Quantizing, against NumPy code on the same weights: the `gguf` package's where it has some.

One core, one thread.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from explorer.quantization import quantize
from explorer.quantization.iq import Grid, stored_grid
from tests.benchmarks.report import Report, Row
from tests.benchmarks.timing import best_seconds

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(600)]

_WEIGHTS = 1 << 20
_ROW = 4096
_WITH_PEER = ("BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "TQ1_0", "TQ2_0", "MXFP4")
_FLOORS = {"BF16": 8}  # waits for memory; types that are not named: ten times
_SEARCHED = ("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS")
_OF_GRIDS = {  # the grid, and how many scales ggml's search tries for each group of weights
    **{"IQ1_S": (Grid.IQ1S, 1), "IQ1_M": (Grid.IQ1S, 1)},  # 560 pairs of limits, then one row
    **{"IQ2_XXS": (Grid.IQ2XXS, 13), "IQ2_XS": (Grid.IQ2XS, 19), "IQ2_S": (Grid.IQ2S, 19)},
    **{"IQ3_XXS": (Grid.IQ3XXS, 31), "IQ3_S": (Grid.IQ3S, 19)},
}
_FEWER = 1 << 18


def _weights() -> NDArray[np.float32]:
    generator = np.random.default_rng(0)
    return (generator.standard_normal((_WEIGHTS // _ROW, _ROW)) * 0.02).astype(np.float32)


def _row(
    name: str, times: tuple[float, float], peer_name: str, floor: float, weights: int = _WEIGHTS
) -> Row:
    ours, peer = times
    return Row(
        f"quantize {name}, {weights >> 10} Ki weights",
        f"{weights / ours / 1e6:,.1f} M weights/s",
        f"{peer_name} {weights / peer / 1e6:,.1f} M weights/s",
        f"{peer / ours:.1f}× faster",
        f"≥ {floor}×",
        peer / ours >= floor,
    )


@pytest.mark.parametrize("name", _WITH_PEER)
def test_quantizing_is_8_to_10_times_faster_than_the_gguf_package(
    name: str, report: Report
) -> None:
    gguf = pytest.importorskip("gguf")
    kind = gguf.GGMLQuantizationType[name]
    values = _weights()
    wanted = gguf.quants.quantize(values, kind)
    assert np.array_equal(quantize(values, name), wanted.view(np.uint8).reshape(-1))  # compiles
    ours = best_seconds(lambda: quantize(values, name))
    peer = best_seconds(lambda: gguf.quants.quantize(values, kind))
    row = _row(name, (ours, peer), "gguf package", _FLOORS.get(name, 10))
    report.add(row)
    assert row.met


@pytest.mark.parametrize("name", _SEARCHED)
def test_a_search_takes_at_most_5_times_as_long_as_the_gguf_package_without_one(
    name: str, report: Report
) -> None:
    """No peer in Python has these types: its Q4_0, which searches nothing, is the measure."""
    gguf = pytest.importorskip("gguf")
    values = _weights()
    quantize(values, name)
    ours = best_seconds(lambda: quantize(values, name))
    peer = best_seconds(lambda: gguf.quants.quantize(values, gguf.GGMLQuantizationType.Q4_0))
    row = _row(name, (ours, peer), "gguf package, Q4_0", 0.2)
    report.add(row)
    assert row.met


def _nearest_rows(values: NDArray[np.float32], rows: NDArray[np.float32]) -> NDArray[np.intp]:
    """Return the row of a grid nearest to each group, with one scale for all: no search."""
    groups = np.abs(values.reshape(-1, rows.shape[1])) * np.float32(rows.max() / values.max())
    half_squares = (rows * rows).sum(axis=1) / 2
    chunks = np.array_split(groups, len(groups) // 2048)
    return np.concatenate([np.argmin(half_squares - chunk @ rows.T, axis=1) for chunk in chunks])


@pytest.mark.parametrize("name", _OF_GRIDS)
def test_a_search_of_rows_and_scales_is_no_slower_than_as_many_tries_of_numpy(
    name: str, report: Report
) -> None:
    """No peer in Python has these types: NumPy looks up the nearest rows, once for each scale.

    ggml's own C, which makes the same bytes, is compared in docs/performance.md.
    """
    values = _weights().reshape(-1)[:_FEWER].reshape(-1, _ROW)
    importance = np.linspace(0.5, 2, _ROW, dtype=np.float32)
    grid, tries = _OF_GRIDS[name]
    rows = stored_grid(grid).astype(np.float32)
    quantize(values, name, importance)
    ours = best_seconds(lambda: quantize(values, name, importance), 3)
    peer = tries * best_seconds(lambda: _nearest_rows(values, rows), 3)
    row = _row(name, (ours, peer), f"NumPy, {tries} scales", 1, _FEWER)
    report.add(row)
    assert row.met
