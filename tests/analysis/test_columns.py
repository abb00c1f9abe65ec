"""Sums and means by role, by layer and of the model, against NumPy over all weights at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.analysis.columns import (
    ErrorColumns,
    Known,
    StatisticsColumns,
    Summaries,
    is_matrix,
    percentiles_within,
    summaries,
)
from explorer.analysis.errors.compare import compare_tensors
from explorer.analysis.model_grid import model_grid
from explorer.analysis.statistics import tensor_statistics
from explorer.formats import open_model
from explorer.formats.columns import tensor_arrays
from tests.helpers.model_pairs import write_gguf

RANDOM = np.random.default_rng(19)
SHAPES = {
    **{f"blk.{layer}.attn_q.weight": (4, 64) for layer in range(3)},
    **{f"blk.{layer}.attn_q.bias": (64,) for layer in range(3)},
    **{f"blk.{layer}.ffn_down.weight": (8, 64 * (layer + 1)) for layer in (0, 2)},
    **{f"v.blk.{layer}.attn_q.weight": (2, 64) for layer in range(2)},
    "token_embd.weight": (16, 64),
    "output_norm.weight": (64,),
}
VALUES = {name: RANDOM.normal(1, 2, shape).astype(np.float32) for name, shape in SHAPES.items()}
OTHERS = {
    name: (values + RANDOM.normal(0, 0.01 * (1 + len(name)), values.shape)).astype(np.float32)
    for name, values in VALUES.items()
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Summaries:
    folder = tmp_path_factory.mktemp("columns")
    reference = write_gguf(folder / "reference.gguf", "llama", VALUES)
    candidate = write_gguf(folder / "candidate.gguf", "llama", OTHERS)
    with open_model(reference) as one, open_model(candidate) as two:
        count = len(SHAPES)
        statistics, errors = StatisticsColumns(count), ErrorColumns(count)
        for row, tensor in enumerate(two.tensors.rows):
            statistics.put(row, tensor_statistics(tensor))
            errors.put({row: 1.0}, compare_tensors(one.tensors[tensor.name], tensor))
        known = Known(tensor_arrays(two.tensors), statistics, errors)
        assert is_matrix(known.arrays).sum() == sum(len(shape) == 2 for shape in SHAPES.values())
        return summaries(known, model_grid(two.tensors.columns.names))


def together(names: list[str]) -> dict[str, float]:
    r, c = (
        np.concatenate([table[name].reshape(-1) for name in names]).astype(float)
        for table in (VALUES, OTHERS)
    )
    error = c - r
    parts = [OTHERS[name].astype(float).reshape(-1) for name in names]
    sizes = [part.size for part in parts]
    fourth = [np.mean((p - p.mean()) ** 4) / p.var() ** 2 for p in parts]
    relative = float(np.sqrt(np.sum(error**2) / np.sum(r**2)))
    return {
        "bits_per_weight": 32.0,
        "range": max(float(p.max()) for p in parts) - min(float(p.min()) for p in parts),
        "kurtosis": float(np.average(fourth, weights=sizes)),
        "outlier_ratio": float(
            np.average([np.abs(p).max() / np.sqrt(np.mean(p**2)) for p in parts], weights=sizes)
        ),
        "relative_rmse": relative,
        "sqnr_db": float(-20 * np.log10(relative)),
        "rmse": float(np.sqrt(np.mean(error**2))),
        "max_abs_error": float(np.abs(error).max()),
    }


def chosen(stack: str = "", role: str = "", layer: int | None = None) -> list[str]:
    parts = [
        part for part in (stack, None if layer is None else f".{layer}.", role) if part is not None
    ]
    return [
        name
        for name in SHAPES
        if all(part in name for part in parts) and (not stack or name.startswith(f"{stack}."))
    ]


def test_the_model_is_all_its_weights(found: Summaries) -> None:
    matrices = [name for name, shape in SHAPES.items() if len(shape) == 2]
    for one, names in ((found.total, list(SHAPES)), (found.matrices, matrices)):
        assert one.tensors == len(names)
        assert one.parameters == sum(VALUES[name].size for name in names)
        assert one.nbytes == 4 * one.parameters
        for figure, value in together(names).items():
            assert one.figures[figure] == pytest.approx(value, rel=1e-9), figure


def test_each_role_of_each_stack(found: Summaries) -> None:
    of_layers = [(one.stack, one.role) for one in found.roles if one.stack]
    assert of_layers == [
        ("blk", "attn_q"),
        ("blk", "attn_q.bias"),
        ("blk", "ffn_down"),
        ("v.blk", "attn_q"),
    ]
    assert {one.role for one in found.roles if not one.stack} == {"token_embd", "output_norm"}
    assert sum(one.tensors for one in found.roles) == found.total.tensors
    down = next(one for one in found.roles if one.role == "ffn_down")
    for figure, value in together(chosen("blk", "ffn_down")).items():
        assert down.figures[figure] == pytest.approx(value, rel=1e-9), figure


def test_layers_are_summed_up_without_norms_and_biases(found: Summaries) -> None:
    assert [(one.stack, one.layer) for one in found.layers] == [
        *(("blk", layer) for layer in range(3)),
        *(("v.blk", layer) for layer in range(2)),
    ]
    for one in found.layers:
        names = [n for n in chosen(one.stack, layer=one.layer) if not n.endswith(".bias")]
        assert one.tensors == len(names)
        for figure, value in together(names).items():
            assert one.figures[figure] == pytest.approx(value, rel=1e-9), (one.layer, figure)


def test_what_is_not_known_is_nan_and_a_model_may_be_empty(tmp_path: Path) -> None:
    with open_model(write_gguf(tmp_path / "empty.gguf", "llama", {})) as model:
        known = Known(tensor_arrays(model.tensors), StatisticsColumns(0), None)
        nothing = summaries(known, model_grid([]))
    assert nothing.total.tensors == nothing.matrices.parameters == 0
    assert not nothing.roles
    assert not nothing.layers
    assert all(np.isnan(nothing.total.figures[name]) for name in ("kurtosis", "relative_rmse"))


@given(
    values=st.lists(st.one_of(st.integers(0, 3), st.none()), max_size=12),
    low_is_worse=st.booleans(),
    data=st.data(),
)
def test_percentiles_are_places_among_those_of_the_group(
    values: list[int | None], low_is_worse: bool, data: st.DataObject
) -> None:
    codes = data.draw(st.lists(st.integers(0, 2), min_size=len(values), max_size=len(values)))
    numbers = np.array([np.nan if value is None else value for value in values], np.float64)
    found = percentiles_within(
        numbers, np.array(codes, np.int64), low_is_worse=low_is_worse
    ).tolist()
    for place, value in enumerate(values):
        others = [
            other
            for n, other in enumerate(values)
            if n != place and other is not None and codes[n] == codes[place]
        ]
        if value is None or not others:
            assert np.isnan(found[place])
            continue
        better = sum((other > value) if low_is_worse else (other < value) for other in others)
        equal = sum(other == value for other in others)
        assert found[place] == pytest.approx((better + equal / 2) / len(others))
