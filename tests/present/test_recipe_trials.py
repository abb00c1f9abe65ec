"""A whole model by recipes: sizes and errors as the files have that llama-quantize would make."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from explorer.analysis.errors.compare import Comparison, total_of
from explorer.analysis.matching.pairing import match_models
from explorer.analysis.recipes.fits import recipe_types
from explorer.analysis.recipes.tensors import RecipeModel
from explorer.formats import Model, open_model
from explorer.formats.attachments import OpenMatrix
from explorer.formats.tensors import parse_name
from explorer.planner.inputs import PlanInputs
from explorer.present.tables.what_if import Trial
from explorer.present.what_if import WhatIfCache, WhatIfRequest, estimate_of, measure, trials_of
from tests.analysis.test_importance import legacy
from tests.helpers.model_pairs import arrays_of, write_gguf
from tests.helpers.other_types import write_with_types

RECIPES_TRIED = ("Q4_K_M", "Q2_K", "IQ4_XS", "Q8_0", "Q4_0")
SHAPES = {
    "token_embd.weight": (64, 256),
    **{
        f"blk.{layer}.{role}.weight": shape
        for layer in range(4)
        for role, shape in (
            ("attn_q", (32, 256)),
            ("attn_v", (16, 256)),
            ("attn_norm", (256,)),
            ("ffn_down", (32, 96)),  # no whole blocks of 256
        )
    },
}
KEYS = {"block_count": 4, "embedding_length": 256, "attention__head_count": 4}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    path = tmp_path_factory.mktemp("trial") / "model-f16.gguf"
    types = {name: "F16" for name, shape in SHAPES.items() if len(shape) > 1}
    with open_model(write_gguf(path, "llama", arrays_of(SHAPES), types, **KEYS)) as opened:
        yield opened


def tried(
    model: Model,
    *names: str,
    workers: int = 1,
    measured: bool = True,
    matrix: OpenMatrix | None = None,
) -> list[Trial]:
    request = WhatIfRequest(model, None, names, by_recipe=True, matrix=matrix)
    estimate, cache = estimate_of(request, PlanInputs()), WhatIfCache()
    errors = measure(estimate, cache).errors if measured else {}
    trials = trials_of(estimate, errors)[1:]
    return [replace(one, roles=estimate.roles(one.title, cache)) for one in trials]


def check_against_a_file(model: Model, trial: Trial, path: Path) -> None:
    """Write what the recipe makes with the program's own encoders, and compare the two files."""
    names = model.tensors.columns.names
    assert trial.recipe is not None
    types = {names[row]: kind for row, kind in trial.recipe.types.items()}
    with open_model(write_with_types(model, path, types)) as made:
        assert made.nbytes == trial.size.model_nbytes == trial.size.nbytes
        matches = [
            match for match in match_models(model, made).matches if match.candidate.name in types
        ]
        rows = list(Comparison(matches).rows(2))
        assert trial.errors is not None
        total = total_of(rows).metrics
        assert trial.errors.metrics.rmse == pytest.approx(total.rmse, rel=1e-12)
        assert trial.errors.metrics.relative_rmse == pytest.approx(total.relative_rmse, rel=1e-12)
        for role in trial.roles:
            some = [r for r in rows if parse_name(r.pair.candidate_name).role == role.role]
            assert sum(role.types.values()) == len(some)
            assert {row.pair.candidate_type for row in some} == set(role.types)
            parts = [row.errors.metrics for row in some if row.errors]
            noise = math.fsum(one.rmse**2 * one.count for one in parts)
            signal = math.fsum(one.reference_rms**2 * one.count for one in parts)
            assert role.errors is not None
            found = role.errors.metrics.relative_rmse
            assert found == pytest.approx(math.sqrt(noise / signal), rel=1e-9)


@pytest.mark.parametrize("name", RECIPES_TRIED)
def test_sizes_and_errors_are_those_of_the_file_that_it_would_be(
    model: Model, tmp_path: Path, name: str
) -> None:
    trial = tried(model, name)[0]
    assert trial.size.problem is None
    check_against_a_file(model, trial, tmp_path / "made.gguf")


def test_rows_without_whole_blocks_get_the_fallback(model: Model) -> None:
    trial = tried(model, "Q4_K_M", measured=False)[0]
    assert trial.errors is None
    down = next(role for role in trial.roles if role.role == "ffn_down")
    # Q5_0 in place of Q4_K, Q8_0 in place of Q6_K, whose layers get more bits
    assert set(down.types) <= {"Q5_0", "Q8_0"}
    assert sum(down.types.values()) == 4


def test_what_recipes_share_is_rounded_once_for_any_number_of_threads(model: Model) -> None:
    estimate = estimate_of(WhatIfRequest(model, None, RECIPES_TRIED, by_recipe=True), PlanInputs())
    tasks = estimate.missing(WhatIfCache())
    assert len(tasks) < sum(map(len, estimate.tasks.values()))
    found = []
    for workers in (1, 3):
        seen: list[int] = []
        found.append(
            measure(estimate, WhatIfCache(), workers, progress=lambda done, _: seen.append(done))  # noqa: B023
        )
        assert seen == sorted(seen)
        assert seen[-1] == sum(task.tensor_set.parameters for task in tasks)
    one, two = found
    assert one.errors.keys() == set(RECIPES_TRIED)
    assert one.errors == two.errors


def test_recipes_that_need_importance_say_so_and_work_with_it(model: Model, tmp_path: Path) -> None:
    seen = RecipeModel.of(model)
    names = [tensor.name for tensor in seen.tensors]
    for name in ("IQ2_XS", "IQ1_S", "Q2_K_S"):
        refused = recipe_types(seen, name)
        assert refused.problem is not None
        assert "importance matrix is missing" in refused.problem
        assert not refused.types
        partly = recipe_types(seen, name, names[:2])
        assert partly.problem is not None
        assert "does not know it" in partly.problem
        assert recipe_types(seen, name, names).problem is None
    path = tmp_path / "imatrix.dat"
    columns = {one.name: model.tensors[one.name].shape[-1] for one in seen.tensors}
    path.write_bytes(legacy(*((name, 1, np.ones(columns[name], np.float32)) for name in names)))
    matrix = OpenMatrix.load(path)
    (found,) = tried(model, "IQ2_XS", matrix=matrix)
    matrix.model.close()
    assert found.recipe is not None
    assert found.recipe.imatrix
    assert found.errors is not None
    assert 0 < found.errors.metrics.relative_rmse < 1
    assert found.size.bits_per_weight < found.now.bits_per_weight / 3
