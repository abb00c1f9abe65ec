"""The mean square of block scales."""

from __future__ import annotations

import math

import numpy as np
import pytest

from explorer.analysis.blocks import RunningScales


@pytest.mark.parametrize("count", [1, 2, 3, 64, 1001])
def test_the_root_mean_square(count: int) -> None:
    scales = np.random.default_rng(count).normal(0, 1e-3, count).astype(np.float32)
    running = RunningScales()
    running.add(scales.reshape(count, 1))
    expected = math.sqrt(np.mean(np.square(scales.astype(np.float64))))
    assert running.rms == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("place", range(5))
@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_scales_that_are_not_finite_are_left_out(odd: float, place: int) -> None:
    scales = np.array([3, 4, 0, 3, 4], np.float32)
    known = np.delete(scales, place)
    scales[place] = odd
    running = RunningScales()
    running.add(scales)
    assert running.rms == math.sqrt(float(np.square(known).mean()))


def test_of_the_greatest_scales() -> None:
    running = RunningScales()
    running.add(np.full(9, np.finfo(np.float32).max))
    assert running.rms == pytest.approx(float(np.finfo(np.float32).max), rel=1e-14)


def test_of_no_scales() -> None:
    running = RunningScales()
    running.add(np.full((2, 2), np.nan, np.float32))
    assert math.isnan(running.rms)
