"""Ollama's own choice of types: the cases of its tests, and models of its store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from explorer.analysis.recipes.fits import compare_with_recipes, rules_source, why_not_compared
from explorer.analysis.recipes.ollama import BITS, SOURCE, type_of
from explorer.formats import open_model
from explorer.present.recipes import verdict

# Names, shapes and types of Ollama's tests at fb307609: x/create/create_test.go, gemma4_test.go,
# glimmer_test.go, laguna_test.go and nemotron_h_test.go.
_GOLDEN = json.loads((Path(__file__).parents[1] / "data" / "ollama_quantize.json").read_text())


@pytest.mark.parametrize("asked", BITS)
def test_types_are_those_of_ollama_s_own_tests(asked: str) -> None:
    cases = [case for case in _GOLDEN["cases"] if case[3] == asked]
    assert len(cases) > 5
    for number, name, shape, _, wanted in cases:
        found = type_of(name, tuple(shape), asked, _GOLDEN["configs"][number])
        assert (found or "") == wanted, (name, shape)


def test_a_model_of_the_store_is_compared(shared_data: Path) -> None:
    store = shared_data / "ollama_store" / "models" / "manifests"
    manifests = store / "registry.ollama.ai" / "library"
    with open_model(manifests / "tinydense" / "int4") as model:
        assert why_not_compared(model) is None
        assert rules_source(model) == SOURCE
        fits = {fit.recipe: fit for fit in compare_with_recipes(model)}
        assert set(fits) == set(BITS)
        found = fits["int4"]
        assert found.declared
        by_role = {(one.role, one.present): one.expected for one in found.deviations}
        # k_proj of layer 0 is int8 and down_proj of layer 0, as the rules want them
        assert by_role["self_attn.v_proj", "nvfp4"] == "int8"
        assert by_role["self_attn.o_proj", "mxfp8"] == "int4"
        assert ("mlp.down_proj", "int8") not in by_role
        assert ("model.embed_tokens", "BF16") not in by_role
        shares = sum(one.parameters for one in found.deviations) + found.agreeing
        assert shares == found.parameters == model.parameters
        assert "Ollama's int4 rule" in verdict(model, list(fits.values()))


def test_architectures_are_read_as_ollama_reads_them() -> None:
    name, shape = "model.layers.4.self_attn.v_proj.weight", (4096, 4096)
    gemma = {"model_type": "gemma4_unified", "text_config": {"num_hidden_layers": 48}}
    assert type_of(name, shape, "int4", gemma) == "int8"  # of the first eighth
    assert type_of(name.replace(".4.", ".6."), shape, "int4", gemma) == "int4"
    for odd in ({"architectures": 3}, {"architectures": [None], "text_config": []}, {}):
        assert type_of(name, shape, "int4", odd) == "int8"
