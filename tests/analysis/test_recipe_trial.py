"""A whole model by recipes: types as llama-quantize gives them, sizes and errors as files have."""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from explorer.analysis.errors.compare import Comparison, total_of
from explorer.analysis.matching.pairing import match_models
from explorer.analysis.recipes.fits import (
    RecipeTrial,
    expected_types,
    recipe_types,
    trial_tasks,
    try_recipes,
)
from explorer.analysis.recipes.rules import RECIPES
from explorer.analysis.recipes.tensors import RecipeModel
from explorer.analysis.what_if import TaskErrors, matrix_rows, own_sets, present_size, weighed
from explorer.formats import Model, open_model
from explorer.formats.tensors import TensorColumns, TensorTable, parse_name
from explorer.quantization import TENSOR_TYPES
from tests.helpers.model_pairs import arrays_of, write_gguf
from tests.helpers.other_types import write_with_types
from tests.planner.models import plain_metadata

DATA = Path(__file__).parents[1] / "data"
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


def tried(model: Model, *names: str, workers: int = 1, **options: Any) -> list[RecipeTrial]:
    seen = RecipeModel.of(model)
    recipes = [recipe_types(seen, name) for name in names]
    sets = own_sets(model, matrix_rows(model))
    present = present_size(model, range(model.tensors.main_rows))
    return list(try_recipes(model, present, sets, recipes, workers=workers, **options))


def check_against_a_file(model: Model, trial: RecipeTrial, path: Path) -> None:
    """Write what the recipe makes with the program's own encoders, and compare the two files."""
    names = model.tensors.columns.names
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
    assert trial.recipe.problem is None
    check_against_a_file(model, trial, tmp_path / "made.gguf")


def test_rows_without_whole_blocks_get_the_fallback(model: Model) -> None:
    trial = tried(model, "Q4_K_M", measured=False)[0]
    assert trial.errors is None
    down = next(role for role in trial.roles if role.role == "ffn_down")
    # Q5_0 in place of Q4_K, Q8_0 in place of Q6_K, whose layers get more bits
    assert set(down.types) <= {"Q5_0", "Q8_0"}
    assert sum(down.types.values()) == 4


def test_what_recipes_share_is_rounded_once_for_any_number_of_threads(model: Model) -> None:
    seen: list[int] = []
    one = tried(model, *RECIPES_TRIED, progress=seen.append)
    recipes = [trial.recipe for trial in one]
    sets = own_sets(model, matrix_rows(model))
    tasks = trial_tasks(sets, recipes)
    assert seen[-1] == sum(task.tensor_set.parameters for task in tasks)
    assert seen == sorted(seen)
    assert len(tasks) < sum(len(trial_tasks(sets, [recipe])) for recipe in recipes)
    two = tried(model, *RECIPES_TRIED, workers=3)
    for first, second in zip(one, two, strict=True):
        assert first.errors is not None
        assert second.errors is not None
        assert first.errors.metrics.rmse == second.errors.metrics.rmse


def test_recipes_that_need_importance_say_so_and_work_with_it(model: Model) -> None:
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
    recipe = recipe_types(seen, "IQ2_XS", names)
    assert recipe.imatrix
    sets = weighed(model, own_sets(model, matrix_rows(model)), names)
    present = present_size(model, range(model.tensors.main_rows))
    importance = np.ones((1, 256), np.float32)
    found = next(
        iter(
            try_recipes(
                model,
                present,
                sets,
                [recipe],
                TaskErrors(importance=lambda one: importance[:, : one.original.shape[-1]]),
            )
        )
    )
    assert found.errors is not None
    assert 0 < found.errors.metrics.relative_rmse < 1
    assert found.size.bits_per_weight < present.bits_per_weight / 3


def test_types_are_those_of_llama_quantize(shared_reference: Path) -> None:
    """All 930 dry runs of build 11434 over real models' headers."""
    with gzip.open(shared_reference / "llama_cpp_golden.json.gz") as file:
        models = json.load(file)["models"]
    with gzip.open(shared_reference / "recipes_golden.json.gz") as file:
        golden = json.load(file)
    seen: dict[str, RecipeModel] = {}
    wrong = []
    for case in golden["cases"]:
        name = case["model"]
        if name not in seen:
            seen[name] = RecipeModel.of(_header(models[name], golden["tensors"][name]))
        expected = [kind for count, kind in case["types"] for _ in range(count)]
        of = dict(zip(golden["tensors"][name], expected, strict=True))
        found = expected_types(seen[name], RECIPES[case["recipe"]], imatrix=False)
        wrong += [
            (name, case["recipe"], tensor.name, kind, of[tensor.name])
            for tensor, kind in zip(seen[name].tensors, found, strict=True)
            if kind is not None and kind != of[tensor.name].upper()
        ]
    assert len(golden["cases"]) == 930
    assert not wrong, wrong[:5]


def _header(described: Any, names: list[str]) -> Model:
    """Return a model that has a header and nothing else, its tensors in an order."""
    by_name = {name: (kind, dims) for name, kind, dims in described["tensors"]}
    columns = TensorColumns(
        names=names,
        shapes=[tuple(reversed(by_name[name][1])) for name in names],
        types=[TENSOR_TYPES[by_name[name][0]] for name in names],
        parameters=[math.prod(by_name[name][1]) for name in names],
        nbytes=[0] * len(names),
    )
    metadata = {
        key: [0] if isinstance(value, dict) else value
        for key, value in described["metadata"].items()
    }

    def build(row: int) -> Any:
        raise AssertionError("no weights are read")

    table = TensorTable(columns, build)
    return Model("gguf", Path("model.gguf"), (), plain_metadata(metadata), table)


@pytest.mark.network
def test_every_recipe_gives_the_real_model_the_types_of_llama_quantize(real_model: Path) -> None:
    """With and without an importance matrix, as llama-quant.cpp of build 11434 gives them.

    Its functions were compiled and called for the header of the real model; a checksum is of the
    lines "NAME TYPE" in their order, "-" being a tensor that is left alone.
    """
    golden = json.loads((DATA / "recipes_real.json").read_text())
    with open_model(real_model) as model:
        seen = RecipeModel.of(model)
        own = [model.tensors[tensor.name].type.name for tensor in seen.tensors]
    assert golden.keys() == RECIPES.keys()
    found = expected_types(seen, RECIPES["Q4_K_M"], imatrix=False)
    assert [kind or one for kind, one in zip(found, own, strict=True)] == own
    for name, wanted in golden.items():
        for imatrix in (False, True):
            types = expected_types(seen, RECIPES[name], imatrix=imatrix)
            pairs = zip(seen.tensors, types, strict=True)
            lines = "".join(f"{tensor.name} {kind or '-'}\n" for tensor, kind in pairs)
            assert zlib.crc32(lines.encode()) == wanted[imatrix], (name, imatrix)
