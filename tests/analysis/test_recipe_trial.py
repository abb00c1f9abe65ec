"""Recipes of llama-quantize: types as it gives them."""

from __future__ import annotations

import gzip
import json
import math
import zlib
from pathlib import Path
from typing import Any

import pytest

from explorer.analysis.recipes.fits import expected_types
from explorer.analysis.recipes.rules import RECIPES
from explorer.analysis.recipes.tensors import RecipeModel
from explorer.formats import Model, open_model
from explorer.formats.tensors import TensorColumns, TensorTable
from explorer.quantization import TENSOR_TYPES
from tests.planner.models import plain_metadata

DATA = Path(__file__).parents[1] / "data"


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
