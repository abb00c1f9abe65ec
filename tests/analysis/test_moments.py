"""Exact statistics against NumPy in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from explorer.analysis.moments import PERCENTS, Moments, RunningMoments, percentiles


def _moments(*runs: NDArray[np.float32]) -> Moments:
    total = RunningMoments()
    for run in runs:
        part = RunningMoments()
        part.add(run)
        total.combine(part)
    return total.moments()


def _check(found: Moments, values: NDArray[np.float32]) -> None:
    """Compare with what NumPy says, in float64."""
    finite = values[np.isfinite(values)].astype(np.float64)
    counts = (found.count, found.finite, found.nan, found.positive_inf, found.negative_inf)
    expected = (values.size, finite.size, np.isnan(values).sum())
    assert counts == (*expected, np.isposinf(values).sum(), np.isneginf(values).sum())
    assert found.inf == np.isinf(values).sum()
    assert found.zeros == (finite == 0).sum()
    if finite.size == 0:
        assert math.isnan(found.min)
        assert math.isnan(found.mean)
        assert math.isnan(found.abs_max)
        return
    assert (found.min, found.max) == (finite.min(), finite.max())
    assert found.abs_max == np.abs(finite).max()
    scale = found.abs_max or 1.0
    mean = math.fsum(finite) / finite.size
    distance = finite - mean
    assert found.mean == pytest.approx(mean, rel=1e-12, abs=1e-15 * scale)
    assert found.rms == pytest.approx(math.sqrt(np.mean((finite / scale) ** 2)) * scale, rel=1e-12)
    std = math.sqrt(math.fsum((distance / scale) ** 2) / finite.size) * scale
    assert found.std == pytest.approx(std, rel=1e-12, abs=1e-15 * scale)
    if std > 1e-7 * scale:  # less is rounding of the weights themselves
        shape = (found.skewness, found.kurtosis)
        expected_shape = (np.mean((distance / std) ** 3), np.mean((distance / std) ** 4))
        assert shape == pytest.approx(expected_shape, rel=1e-9, abs=1e-9)


_ANY = hnp.arrays(
    np.float32,
    st.integers(0, 300),
    elements=st.one_of(st.floats(width=32), st.sampled_from([0.0, -0.0, 1e-45, math.nan, 3e38])),
)


@given(_ANY)
def test_any_weights(values: NDArray[np.float32]) -> None:
    _check(_moments(values), values)


@given(_ANY, st.lists(st.integers(0, 300), max_size=4))
def test_runs_are_combined(values: NDArray[np.float32], cuts: list[int]) -> None:
    _check(_moments(*np.split(values, sorted(cuts))), values)


@pytest.mark.parametrize("mean", [0.0, 1.0, 1e6, -3e4])
@pytest.mark.parametrize("size", [1, 63, 64, 65, 4095, 4096, 4097, 100_000])
def test_a_mean_far_from_zero_costs_no_digits(mean: float, size: int) -> None:
    values = np.random.default_rng(size).normal(mean, 0.5, size).astype(np.float32)
    _check(_moments(values), values)
    _check(_moments(*np.array_split(values, 7)), values)


def test_the_order_matters_to_no_more_than_rounding() -> None:
    random = np.random.default_rng(5)
    values = random.standard_t(3, 200_000).astype(np.float32) + np.float32(2)
    runs = np.array_split(values, 40)
    one = _moments(*runs)
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(runs))
        other = _moments(*(runs[i] for i in order))
        for name in ("mean", "std", "rms", "skewness", "kurtosis"):
            assert getattr(other, name) == pytest.approx(getattr(one, name), rel=1e-12)


def test_equal_weights_have_no_shape() -> None:
    found = _moments(np.full(10_000, 0.1, np.float32), np.full(5, 0.1, np.float32))
    assert found.mean == np.float32(0.1)
    assert found.std == 0
    assert math.isnan(found.skewness)
    assert math.isnan(found.kurtosis)


def test_known_distributions() -> None:
    random = np.random.default_rng(6)
    normal = _moments(random.normal(size=400_000).astype(np.float32))
    assert (normal.skewness, normal.kurtosis) == pytest.approx((0, 3), abs=0.05)
    even = _moments(random.uniform(size=400_000).astype(np.float32))
    assert even.kurtosis == pytest.approx(1.8, abs=0.01)


def test_nonfinite_weights_in_one_piece_do_not_touch_the_others() -> None:
    values = np.random.default_rng(7).normal(size=20_000).astype(np.float32)
    values[5000:5003] = (np.nan, np.inf, -np.inf)
    values[9000] = 0.0
    _check(_moments(values), values)


_BINS = 65_536


@pytest.mark.parametrize("size", [1, 2, 3, 10, 999, 200_000])
@pytest.mark.parametrize("kind", ["normal", "heavy", "two"])
def test_right_to_the_width_of_a_bin(size: int, kind: str) -> None:
    random = np.random.default_rng(size)
    values = {
        "normal": random.normal(size=size),
        "heavy": random.standard_t(2, size),
        "two": random.choice([-1.0, 1.0], size),
    }[kind]
    low, high = values.min() - 0.5, values.max() + 0.5
    counts, _ = np.histogram(values, _BINS, (low, high))
    found = percentiles(counts, low, high)
    expected = np.percentile(values, PERCENTS)
    np.testing.assert_allclose(found, expected, rtol=0, atol=(high - low) / _BINS)


def test_ends() -> None:
    counts = np.array([0, 5, 0, 5, 0])
    found = percentiles(counts, 0.0, 5.0, (0, 50, 100))
    assert found[0] == pytest.approx(1.1)
    assert 1.9 <= found[1] <= 3.1
    assert found[2] == pytest.approx(3.9)
