"""What tensors are coloured and ranked by: against NumPy, alone and together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from explorer.analysis.columns import (
    ErrorColumns,
    Groups,
    Known,
    StatisticsColumns,
    parameter_shares,
    shares,
)
from explorer.analysis.errors.compare import compare_tensors
from explorer.analysis.errors.metrics import WeightedErrors
from explorer.analysis.statistics import tensor_statistics
from explorer.present.tables.survey import METRICS, metric_named
from explorer.qt.document import Document
from tests.helpers.model_pairs import write_gguf

RANDOM = np.random.default_rng(3)
VALUES = {
    "blk.0.experts.0.w1.weight": RANDOM.normal(0, 1, (4, 64)).astype(np.float32),
    "blk.0.experts.1.w1.weight": RANDOM.normal(1, 2, (8, 64)).astype(np.float32),
    "norm.weight": np.array([0, 0, 3, -4], np.float32),
}
OTHERS = {
    name: (values + RANDOM.normal(0, 0.01, values.shape)).astype(np.float32)
    for name, values in VALUES.items()
}
OTHERS["norm.weight"][0] = 0
Load = Callable[[Path], Document]


@pytest.fixture
def document(load: Load, tmp_path: Path) -> Document:
    return load(write_gguf(tmp_path / "model.gguf", "llama", OTHERS))


@pytest.fixture
def known(load: Load, tmp_path: Path, document: Document) -> Known:
    reference = load(write_gguf(tmp_path / "reference.gguf", "llama", VALUES))
    statistics, errors = StatisticsColumns(3), ErrorColumns(3)
    for row, tensor in enumerate(document.model.tensors.rows):
        statistics.put(row, tensor_statistics(tensor))
        found = compare_tensors(reference.model.tensors[tensor.name], tensor)
        errors.put({row: 1.0}, found, WeightedErrors(float(row + 1), 9.0))
    return Known(document.arrays, statistics, errors)


def expected(reference: np.ndarray, candidate: np.ndarray) -> dict[str, float]:
    """Return all figures of some weights, in float64."""
    r, c = (
        np.concatenate([a.reshape(-1) for a in one]).astype(float) for one in (reference, candidate)
    )
    rms, error = np.sqrt(np.mean(c**2)), c - r
    relative = np.sqrt(np.sum(error**2) / np.sum(r**2))
    return {
        "bits_per_weight": 32.0,
        "bytes": 4.0 * c.size,
        "std": c.std(),
        "range": c.max() - c.min(),
        "outlier_ratio": np.abs(c).max() / rms,
        "kurtosis": np.mean((c - c.mean()) ** 4) / c.var() ** 2,
        "zero_share": np.mean(c == 0),
        "step_error": np.nan,
        "relative_rmse": relative,
        "sqnr_db": -20 * np.log10(relative),
        "rmse": np.sqrt(np.mean(error**2)),
        "max_abs_error": np.abs(error).max(),
    }


def test_each_tensor_against_numpy(known: Known) -> None:
    for row, name in enumerate(VALUES):
        for figure, value in expected([VALUES[name]], [OTHERS[name]]).items():
            found = metric_named(figure).of_tensors(known)[row]
            assert found == pytest.approx(value, rel=1e-9, nan_ok=True), figure


def test_several_tensors_together_are_all_their_weights(known: Known) -> None:
    names = list(VALUES)[:2]
    groups = Groups(np.array([0, 0, 1]), 2)
    together = expected([VALUES[n] for n in names], [OTHERS[n] for n in names])
    for figure in ("bits_per_weight", "bytes", "zero_share", "relative_rmse", "sqnr_db", "rmse"):
        found = metric_named(figure).of_groups(known, groups)[0]
        assert found == pytest.approx(together[figure], rel=1e-9), figure
    for figure in ("outlier_ratio", "kurtosis", "max_abs_error"):
        metric = metric_named(figure)
        assert metric.of_groups(known, groups)[0] == metric.of_tensors(known)[:2].max()
    deviations = metric_named("std").of_tensors(known)[:2]
    sizes = known.weights[:2]
    pooled = np.sqrt(np.sum(deviations**2 * sizes) / sizes.sum())
    assert metric_named("std").of_groups(known, groups)[0] == pytest.approx(pooled, rel=1e-12)


def test_a_group_of_one_is_the_tensor(known: Known) -> None:
    groups = Groups(np.arange(3), 3)
    for metric in METRICS:
        alone, grouped = metric.of_tensors(known), metric.of_groups(known, groups)
        np.testing.assert_allclose(grouped, alone, rtol=1e-12, err_msg=metric.name)


def test_what_is_not_known_is_nan(document: Document) -> None:
    nothing = Known(document.arrays, StatisticsColumns(3), None)
    groups = Groups(np.zeros(3, np.int64), 1)
    for metric in METRICS[2:]:
        assert np.isnan(metric.of_tensors(nothing)).all(), metric.name
        assert np.isnan(metric.of_groups(nothing, groups)).all(), metric.name
        assert np.isnan(shares(metric.contribution(nothing))).all(), metric.name


def test_figures_of_a_group_are_of_what_is_known(known: Known) -> None:
    statistics = StatisticsColumns(3)
    for name in ("std", "rms", "zeros", "finite", "min", "max"):
        getattr(statistics, name)[0] = getattr(known.statistics, name)[0]
    half = Known(known.arrays, statistics, None)
    groups = Groups(np.array([0, 0, 1]), 2)
    for figure in ("std", "zero_share"):
        metric = metric_named(figure)
        assert metric.of_groups(half, groups)[0] == metric.of_tensors(known)[0]
        assert np.isnan(metric.of_groups(half, groups)[1])


def test_shares_of_squared_error_add_up_to_one(known: Known) -> None:
    contribution = metric_named("relative_rmse").contribution(known)
    squares = [np.sum((OTHERS[name].astype(float) - VALUES[name]) ** 2) for name in VALUES]
    np.testing.assert_allclose(shares(contribution), np.array(squares) / sum(squares), rtol=1e-9)
    for metric in METRICS:
        if metric.name != "step_error":
            assert np.nansum(shares(metric.contribution(known))) == pytest.approx(1)


def test_a_joined_tensor_gives_each_part_its_share(document: Document, known: Known) -> None:
    tensors = document.model.tensors.rows[:2]
    found = compare_tensors(tensors[0], tensors[0])
    errors = ErrorColumns(3)
    errors.put(parameter_shares([0, 1], tensors), found)
    assert errors.compared[:2].tolist() == [256 / 3, 512 / 3]
    assert errors.relative_rmse[:2].tolist() == [0, 0]
    assert errors.sqnr_db[0] == np.inf
    assert np.isnan(errors.sqnr_db[2])
    assert errors.known.tolist() == [True, True, False]


def test_several_pairs_of_one_tensor_add_up(document: Document) -> None:
    """A fused tensor is compared in parts: its figures are those of all of them."""
    tensor = document.model.tensors.rows[0]
    errors = ErrorColumns(3)
    for other in document.model.tensors.rows[:1] * 2:
        errors.put({0: 1.0}, compare_tensors(tensor, other))
    assert errors.compared[0] == 512


def test_maximum() -> None:
    found = Groups(np.array([0, 0, 1, 2]), 4).maxima(np.array([1.0, np.nan, np.nan, -np.inf]))
    np.testing.assert_array_equal(found, [1, np.nan, -np.inf, np.nan])
