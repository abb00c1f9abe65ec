"""Histograms: the counts of numpy, in any bins, and a cancel that ends counting."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from explorer.analysis.histogram import FINE_BINS, Binning, Histogram, RunningCounts, count_weights
from explorer.formats import open_model
from tests.helpers.weight_files import huge_model, layer_weights, weights_model

_WEIGHTS = hnp.arrays(
    np.float32,
    st.integers(1, 300),
    elements=st.one_of(
        st.floats(width=32),
        st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, -1e-45, 3e38, 0.1, 0.2, 0.3]),
        st.integers(-8, 8).map(float),
    ),
)


def _count(binning: Binning, values: NDArray[np.float32]) -> Histogram:
    counts = RunningCounts([binning])
    counts.add([values])
    return binning.histogram(counts.totals[0])


def _numpy(
    values: NDArray[np.float32], bins: int, limits: tuple[float, float] | None = None
) -> NDArray[np.int64] | None:
    """Return numpy's counts; None where it refuses the range or overflows."""
    try:
        with np.errstate(all="raise", under="ignore"):
            return np.histogram(values, bins, limits)[0]
    except (ValueError, FloatingPointError):
        return None


@given(_WEIGHTS, st.integers(1, 600))
def test_counts_over_the_range_of_the_weights(values: NDArray[np.float32], bins: int) -> None:
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (math.inf, -math.inf)
    found = _count(Binning.of_weights(low, high, bins), values)
    assert found.counts.sum() == finite.size
    expected = _numpy(finite, bins)
    if expected is None:  # too narrow or too wide for float32
        expected = _numpy(finite.astype(np.float64), bins)
    if expected is not None:
        np.testing.assert_array_equal(found.counts, expected)


def test_small_counters_carry_before_they_overflow() -> None:
    counts = RunningCounts([Binning.of_range(-1, 1, 4)])
    for _ in range(5):
        counts.add([np.zeros(50_000, np.float32)])  # 16 bits hold 65,535
    assert counts.totals[0].sum() == 250_000
    assert counts.totals[0].dtype == np.int64


@given(_WEIGHTS, st.integers(1, 600), st.floats(-5, 5), st.floats(0, 10))
def test_counts_over_a_given_range(
    values: NDArray[np.float32], bins: int, low: float, width: float
) -> None:
    limits = (low, low + width)
    expected = _numpy(values, bins, limits)
    if expected is None:
        return
    found = _count(Binning.of_range(*limits, bins), values)
    np.testing.assert_array_equal(found.counts, expected)
    if limits[0] < limits[1]:
        assert (found.low, found.high) == limits


@pytest.mark.parametrize("bins", [1, 2, 3, 7, 10, 255, 256, 512, 1000, 4096, 65_536, 100_000])
@pytest.mark.parametrize("shift", [0.0, 1.0, 100.0])
def test_counts_of_many_weights(bins: int, shift: float) -> None:
    random = np.random.default_rng(bins)
    values = (random.normal(0, 0.02, 50_000) + shift).astype(np.float32)
    values[::3] = np.round(values[::3], 2)  # so that many lie on the same spot
    binning = Binning.of_weights(float(values.min()), float(values.max()), bins)
    expected = _numpy(values, bins)
    if expected is None:
        expected = _numpy(values.astype(np.float64), bins)
    np.testing.assert_array_equal(_count(binning, values).counts, expected)
    assert binning.bins * binning.parts >= FINE_BINS


@pytest.mark.parametrize("bins", [3, 10, 256, 1000])
def test_weights_on_the_edges_and_beside_them(bins: int) -> None:
    """The worst case: every edge of the histogram, and the float32 before and behind it."""
    for low, high in ((-1.0, 1.0), (0.1, 0.7), (-3.7, 11.3), (1000.0, 1001.0), (-1e-38, 3e-38)):
        edges = np.histogram_bin_edges(np.empty(0, np.float32), bins, (low, high))
        values = np.concatenate(
            (edges, np.nextafter(edges, np.float32(-9e9)), np.nextafter(edges, np.float32(9e9)))
        )
        found = _count(Binning.of_range(low, high, bins), values)
        np.testing.assert_array_equal(found.counts, _numpy(values, bins, (low, high)))
        inside = values[(values >= edges[0]) & (values <= edges[-1])]
        found = _count(Binning.of_weights(float(edges[0]), float(edges[-1]), bins), inside)
        np.testing.assert_array_equal(found.counts, _numpy(inside, bins))


@pytest.mark.parametrize("bins", [300, 30_000, 70_000])
def test_weights_so_small_that_float32_divides_them_coarsely(bins: int) -> None:
    """Then numpy's own index decides, for its correction moves a weight by one bin only."""
    values = np.linspace(-6e-39, 6e-39, 5000).astype(np.float32)
    found = _count(Binning.of_weights(float(values[0]), float(values[-1]), bins), values)
    np.testing.assert_array_equal(found.counts, _numpy(values, bins))


def test_small_counters_carry_what_they_have_no_room_for() -> None:
    counts = RunningCounts([Binning.of_weights(0.0, 1.0, 4)])
    values = np.tile(np.array([0.3, 0.3, 0.8], np.float32), 70_000)
    counts.add([values])
    counts.add([values[:2]])
    found = counts.totals[0]
    assert sorted(found[found > 0].tolist()) == [70_000, 140_002]
    bins = Binning.of_weights(0.0, 1.0, 4).histogram(found).counts
    assert bins.tolist() == [0, 140_002, 0, 70_000]


def test_no_weights_have_a_histogram_of_zeros() -> None:
    found = _count(Binning.of_weights(math.inf, -math.inf, 5), np.array([np.nan], np.float32))
    assert (found.low, found.high, found.counts.tolist()) == (0.0, 1.0, [0] * 5)


@pytest.mark.parametrize("value", [0.0, 1.0, -7.25, 1e30, 3.4e38, 1e-45])
def test_equal_weights_have_a_histogram(value: float) -> None:
    values = np.full(9, value, np.float32)
    found = _count(Binning.of_weights(float(values[0]), float(values[0]), 8), values)
    assert found.counts.sum() == 9
    assert found.low < values[0] < found.high


@pytest.mark.parametrize("bins", [-1, 0, (1 << 20) + 1])
def test_a_number_of_bins_that_cannot_be(bins: int) -> None:
    for make in (Binning.of_range, Binning.of_weights):
        with pytest.raises(ValueError, match="1 to 1,048,576 bins"):
            make(0.0, 1.0, bins)


def test_parts_of_bins_are_in_order() -> None:
    values = np.linspace(-1, 1, 1 << 18, dtype=np.float32)
    binning = Binning.of_weights(-1.0, 1.0, 512)
    counts = RunningCounts([binning])
    counts.add([values])
    parts = counts.totals[0]
    assert parts.size == FINE_BINS
    assert abs(np.cumsum(parts) - np.arange(4, (1 << 18) + 1, 4)).max() <= 2


@pytest.mark.parametrize(
    ("low", "high"), [(1.0, 0.0), (math.nan, 1.0), (0.0, math.inf), (1.0, 1.0 + 1e-15)]
)
def test_a_range_that_cannot_be_divided(low: float, high: float) -> None:
    with pytest.raises(ValueError, match="cannot be divided into 1000 bins"):
        Binning.of_range(low, high, 1000)


def test_counts_are_those_of_numpy(tmp_path: Path) -> None:
    with open_model(weights_model().write(tmp_path / "weights.gguf")) as model:
        tensor = model.tensors["blk.3.attn_q.weight"]
        weights = layer_weights(3)
        for low, high, bins in ((-0.05, 0.08, 33), (float(weights.min()), 50.0, 256)):
            binning = Binning.of_range(low, high, bins)
            running = RunningCounts([binning])
            done = list(count_weights(tensor, running, 2))
            found = binning.histogram(running.totals[0])
            counts, edges = np.histogram(weights, bins, (low, high))
            assert found.counts.tolist() == counts.tolist()
            np.testing.assert_allclose(found.edges, edges, rtol=1e-6)
            assert done[-1] == weights.size


def test_what_cancel_raises_is_passed_on(tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    checks = 0

    def cancel() -> None:
        nonlocal checks
        checks += 1
        if checks == 3:
            raise Stop

    counts = RunningCounts([Binning.of_range(0, 1, 8)])
    with open_model(huge_model(tmp_path / "huge.gguf", 1 << 24)) as model:
        with pytest.raises(Stop):
            list(count_weights(model.tensors.rows[0], counts, check=cancel))
        assert checks == 3
