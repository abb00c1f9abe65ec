"""Errors of pairs of weights: by hand, and against NumPy in float64."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from explorer.analysis.errors.kernel_api import new_work
from explorer.analysis.errors.metrics import (
    ERROR_PERCENTS,
    ColumnErrors,
    ErrorMetrics,
    RunningErrors,
)
from explorer.quantization import dequantize

Weights = NDArray[np.float32]

_FLOAT32_MAX = float(np.finfo(np.float32).max)


def _errors(*runs: tuple[Weights, Weights]) -> ErrorMetrics:
    work, total = new_work(), RunningErrors()
    for reference, candidate in runs:
        part = RunningErrors()
        part.add(reference, candidate, work)
        total.combine(part)
    total.keys = work.keys
    return total.metrics()


def _one_minus_cosine(r: NDArray[np.float64], c: NDArray[np.float64]) -> float:
    """Return it by the half angle: 2 sin²(a / 2) = |r/|r| - c/|c||² / 2, in long doubles."""
    a, b = r.astype(np.longdouble), c.astype(np.longdouble)
    difference = a / np.sqrt((a * a).sum()) - b / np.sqrt((b * b).sum())
    return float((difference * difference).sum() / 2)


def _check(found: ErrorMetrics, reference: Weights, candidate: Weights) -> None:
    """Compare with what NumPy and math.fsum say, in float64."""
    finite = np.isfinite(reference) & np.isfinite(candidate)
    assert found.count == reference.size
    assert found.compared == finite.sum()
    assert found.reference_not_finite == (~np.isfinite(reference)).sum()
    assert found.candidate_not_finite == (~np.isfinite(candidate)).sum()
    r, c = reference[finite].astype(np.float64), candidate[finite].astype(np.float64)
    e = c - r
    assert found.equal == (e == 0).sum()
    assert found.sign_flips == (np.sign(r) * np.sign(c) < 0).sum()
    assert found.zeroed == ((c == 0) & (r != 0)).sum()
    if not r.size:
        assert math.isnan(found.rmse)
        assert math.isnan(found.max_abs_error)
        assert all(map(math.isnan, found.percentiles.values()))
        return
    mean_abs = math.fsum(np.abs(e)) / e.size
    rms = math.sqrt(math.fsum(r * r) / r.size)
    assert found.rmse == pytest.approx(math.sqrt(math.fsum(e * e) / e.size), rel=1e-12)
    assert found.reference_rms == pytest.approx(rms, rel=1e-12)
    assert found.candidate_rms == pytest.approx(math.sqrt(math.fsum(c * c) / c.size), rel=1e-12)
    assert found.mean_abs_error == pytest.approx(mean_abs, rel=1e-12)
    assert found.mean_error == pytest.approx(math.fsum(e) / e.size, rel=1e-12, abs=1e-15 * mean_abs)
    assert found.max_abs_error == np.abs(e).max()
    if found.rmse == 0:
        assert (found.relative_rmse, found.sqnr_db) == (0, math.inf)
    elif rms == 0:
        assert (found.relative_rmse, found.sqnr_db) == (math.inf, -math.inf)
    else:
        assert found.relative_rmse == pytest.approx(found.rmse / rms, rel=1e-12)
        assert found.sqnr_db == pytest.approx(-20 * math.log10(found.rmse / rms), abs=1e-9)
    for percent, value in found.percentiles.items():
        wanted = float(np.percentile(np.abs(e), percent))
        if found.max_abs_error <= _FLOAT32_MAX:
            assert value == pytest.approx(wanted, rel=2e-3, abs=1e-38)
        else:  # all errors beyond float32 count as the greatest
            assert wanted * (1 - 2e-3) <= value <= found.max_abs_error


_ELEMENTS = st.one_of(
    st.floats(width=32, allow_subnormal=False),
    st.sampled_from([0.0, -0.0, 1.0, -1.0, math.nan, math.inf, 1e-20]),
)
_PAIRS = st.integers(0, 200).flatmap(
    lambda n: st.tuples(*[hnp.arrays(np.float32, n, elements=_ELEMENTS)] * 2)
)


@given(_PAIRS)
def test_any_weights(pair: tuple[Weights, Weights]) -> None:
    _check(_errors(pair), *pair)


@given(_PAIRS, st.lists(st.integers(0, 200), max_size=4))
def test_runs_are_combined(pair: tuple[Weights, Weights], cuts: list[int]) -> None:
    places = [0, *sorted(min(cut, pair[0].size) for cut in cuts), pair[0].size]
    runs = [(pair[0][a:b], pair[1][a:b]) for a, b in pairwise(places)]
    _check(_errors(*runs), *pair)


@pytest.mark.parametrize("size", [1, 2, 127, 128, 129, 2047, 2048, 2049, 70_001])
@pytest.mark.parametrize("error", [1e-6, 1e-3, 0.3, 3.0])
def test_random_weights(size: int, error: float) -> None:
    random = np.random.default_rng(size)
    reference = random.standard_t(4, size).astype(np.float32)
    candidate = (reference + random.normal(1e-3, 1, size) * error).astype(np.float32)
    found = _errors((reference, candidate))
    _check(found, reference, candidate)
    if size > 1:
        wanted = _one_minus_cosine(reference.astype(np.float64), candidate.astype(np.float64))
        assert found.one_minus_cosine == pytest.approx(wanted, rel=1e-12, abs=1e-16 * error)
        assert found.cosine == 1 - found.one_minus_cosine


def test_by_hand() -> None:
    reference = np.array([3, -4, 0, 1, 2], np.float32)
    candidate = np.array([3, -2, 0, 0, -2], np.float32)
    found = _errors((reference, candidate))
    assert found.count == found.compared == 5
    assert (found.equal, found.sign_flips, found.zeroed) == (2, 1, 1)
    assert found.rmse == math.sqrt((4 + 1 + 16) / 5)
    assert found.relative_rmse == pytest.approx(math.sqrt(21 / 30), rel=1e-15)
    assert found.sqnr_db == pytest.approx(10 * math.log10(30 / 21), rel=1e-14)
    assert found.mean_error == pytest.approx((2 - 1 - 4) / 5, rel=1e-15)
    assert found.mean_abs_error == 7 / 5
    assert found.max_abs_error == 4
    assert found.cosine == pytest.approx((9 + 8 - 4) / math.sqrt(30 * 17), rel=1e-15)
    assert found.percentiles[50.0] == pytest.approx(1, rel=1e-3)


def test_a_tensor_has_no_error_against_itself() -> None:
    values = np.random.default_rng(1).normal(size=100_000).astype(np.float32)
    values[[5, 5000]] = np.nan, np.inf
    found = _errors((values, values.copy()))
    assert found.rmse == found.relative_rmse == found.mean_error == found.max_abs_error == 0
    assert found.mean_abs_error == found.one_minus_cosine == 0
    assert (found.cosine, found.sqnr_db) == (1, math.inf)
    assert found.equal == found.compared == values.size - 2
    assert found.percentiles == dict.fromkeys(ERROR_PERCENTS, 0.0)


def test_a_tiny_angle_keeps_its_digits() -> None:
    """A float64 dot product would give 0 for 1 - cosine, or as noise."""
    random = np.random.default_rng(2)
    reference = random.normal(size=50_000).astype(np.float32)
    candidate = np.nextafter(reference, np.float32(np.inf))
    found = _errors((reference, candidate))
    wanted = _one_minus_cosine(reference.astype(np.float64), candidate.astype(np.float64))
    assert 0 < wanted < 1e-14
    assert found.one_minus_cosine == pytest.approx(
        wanted, rel=1e-4
    )  # what long doubles are good for


@pytest.mark.parametrize(
    ("factor", "wanted"), [(1.0, 0.0), (2.0, 0.0), (-1.0, 2.0), (-0.5, 2.0), (1e-3, 0.0)]
)
def test_angles_of_multiples(factor: float, wanted: float) -> None:
    reference = np.random.default_rng(3).normal(size=5000).astype(np.float32)
    found = _errors((reference, reference * np.float32(factor)))
    assert found.one_minus_cosine == pytest.approx(wanted, abs=1e-10 if factor == 1e-3 else 1e-13)


def test_weights_of_all_zeros_have_no_angle() -> None:
    zeros, ones = np.zeros(10, np.float32), np.ones(10, np.float32)
    assert math.isnan(_errors((zeros, ones)).cosine)
    assert _errors((zeros, ones)).relative_rmse == math.inf
    assert _errors((ones, zeros)).relative_rmse == 1
    assert _errors((ones, zeros)).zeroed == 10


def test_the_order_matters_to_no_more_than_rounding() -> None:
    random = np.random.default_rng(5)
    reference = random.standard_t(3, 300_000).astype(np.float32)
    candidate = reference + random.normal(0, 0.01, reference.size).astype(np.float32)
    one = _errors((reference, candidate))
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(reference.size)
        runs = zip(
            np.array_split(reference[order], 7), np.array_split(candidate[order], 7), strict=True
        )
        other = _errors(*runs)
        for name in ("rmse", "relative_rmse", "mean_abs_error", "one_minus_cosine", "sqnr_db"):
            assert getattr(other, name) == pytest.approx(getattr(one, name), rel=1e-13)
        assert other.mean_error == pytest.approx(one.mean_error, abs=1e-15)
        assert other.percentiles == pytest.approx(one.percentiles, rel=1e-12)


def test_many_runs_lose_nothing() -> None:
    """Plain float64 sums of 30,000 runs of a growing and a tiny error would be 1e-13 off."""
    total, work = RunningErrors(), new_work()
    zero, value = np.zeros(1, np.float32), np.full(1, 0.1, np.float32)
    part = RunningErrors()
    part.add(zero, value, work)
    for _ in range(30_000):
        total.combine(part)
    assert total.metrics().mean_error == float(np.float32(0.1))


@given(
    shape=st.tuples(st.integers(1, 3), st.integers(1, 5), st.integers(1, 40)),
    length=st.integers(1, 150),
    shared=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_errors_by_importance_are_those_of_numpy(
    shape: tuple[int, int, int], length: int, shared: bool, seed: int
) -> None:
    random = np.random.default_rng(seed)
    reference = random.standard_normal(shape).astype(np.float32)
    candidate = (reference + random.standard_normal(shape) / 8).astype(np.float32)
    for weights in (reference, candidate):
        weights.flat[random.integers(weights.size)] = random.choice([np.nan, np.inf, 0, 1])
    importance = random.random((1 if shared else shape[0], shape[2]), np.float32)
    found = ColumnErrors(shape)
    for start in range(0, reference.size, length):  # runs begin and end anywhere in a row
        run, part = slice(start, start + length), ColumnErrors(shape)
        part.add(reference.reshape(-1)[run], candidate.reshape(-1)[run], start)
        found.combine(part)
    r, c = reference.astype(np.float64), candidate.astype(np.float64)
    finite = np.isfinite(r) & np.isfinite(c)
    r, c = np.where(finite, r, 0), np.where(finite, c, 0)
    a = np.broadcast_to(importance[:, None].astype(np.float64), shape)
    squares, signal = (a * (c - r) ** 2).sum(), (a * r * r).sum()
    weighted = found.weighted(importance)
    assert weighted.squares == pytest.approx(squares, rel=1e-12)
    assert weighted.signal == pytest.approx(signal, rel=1e-12)
    if squares and signal:
        assert weighted.relative_rmse == pytest.approx(math.sqrt(squares / signal), rel=1e-12)
        assert weighted.sqnr_db == pytest.approx(-10 * math.log10(squares / signal), abs=1e-9)


def test_weighted_errors_of_what_ggml_makes_are_those_of_numpy() -> None:
    golden = np.load(Path(__file__).parents[2] / "data" / "encoders_golden.npz", allow_pickle=False)
    importance = golden["importance"].astype(np.float32).reshape(1, -1)
    weights = golden["weights"].astype(np.float32).reshape(-1, importance.shape[1])
    names = [key.removesuffix(".weighted") for key in golden if key.endswith(".weighted")]
    assert len(names) > 10
    for name in names:
        blocks = np.ascontiguousarray(golden[f"{name}.weighted"]).reshape(-1)
        candidate = dequantize(blocks, name).reshape(weights.shape)
        columns = ColumnErrors(weights.shape)
        columns.add(weights.reshape(-1), candidate.reshape(-1), 0)
        wide = weights.astype(np.float64)
        squares = (importance * (candidate - wide) ** 2).sum()
        relative = np.sqrt(squares / (importance * wide**2).sum())
        found = columns.weighted(importance).relative_rmse
        assert found == pytest.approx(relative, rel=1e-12), name
