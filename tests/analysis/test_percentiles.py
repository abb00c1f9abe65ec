"""Percentiles from counts, against `numpy.percentile`."""

from __future__ import annotations

import numpy as np
import pytest

from explorer.analysis.moments import PERCENTS, percentiles

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
