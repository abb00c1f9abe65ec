"""Every golden case, to the byte; a failure prints the figures that differ."""

from __future__ import annotations

import pytest

from tests.planner.golden import Golden, runs

KINDS = ("graph_cases", "settings_cases", "layout_cases", "quirk_cases")
MODELS = (
    "llama-3.1-8b", "llama-3.2-1b", "llama-2-7b", "mixtral-8x7b-split", "llama-4-scout",
    "llama-3.2-11b-vision", "gemma-2b", "gemma-2-9b", "gemma-3-4b", "gemma-3-27b", "gemma-3n-e2b",
    "command-r-08-2024", "qwen2.5-7b", "qwen2.5-0.5b", "phi-2", "stablelm-3b", "deepseek-v2-lite",
    "glm-4-9b", "chatglm-nobias", "gpt-oss-20b", "qwen3-8b", "qwen3-30b-a3b", "phi-3-mini",
    "falcon-7b", "falcon-40b", "all-minilm", "nomic-embed", "granite-4-h-tiny", "jamba-mini",
    "openelm-1.1b", "deci-49b", "one-entry-arrays",
)  # fmt: skip
SHOWN = 10


def _check(golden: Golden, kind: str, model: str | None = None) -> None:
    differences = list(golden.differences(kind, model))
    more = f"\n… and {len(differences) - SHOWN} more" if len(differences) > SHOWN else ""
    assert not differences, "\n" + "\n".join(differences[:SHOWN]) + more


@pytest.mark.parametrize("kind", KINDS[:3])
@pytest.mark.parametrize("model", MODELS)
def test_golden_cases_of_a_model(golden: Golden, kind: str, model: str) -> None:
    assert golden.cases(kind, model)
    _check(golden, kind, model)


def test_where_ollama_wraps_around_or_never_ends_the_layout_is_safe(golden: Golden) -> None:
    assert len(golden.cases("quirk_cases")) == 5
    _check(golden, "quirk_cases")


def test_no_golden_case_is_left_out(golden: Golden) -> None:
    assert set(golden.content["models"]) == set(MODELS)
    for kind in KINDS:
        assert len(golden.content[kind]) == sum(len(golden.cases(kind, m)) for m in MODELS)


@pytest.mark.parametrize("kind", KINDS)
def test_golden_cases_of_the_repository(subset: Golden, kind: str) -> None:
    assert subset.cases(kind)
    _check(subset, kind)


@pytest.mark.parametrize("which", ["golden", "subset"])
def test_facts_of_the_models(which: str, request: pytest.FixtureRequest) -> None:
    golden: Golden = request.getfixturevalue(which)
    for name, facts in golden.content["model_facts"].items():
        h = golden.model(name)
        groups = h.tensors.nbytes
        assert {
            "block_weight_runs": runs(h.layer_weights[:-1]),
            "heads_max": h.heads,
            "heads_min": h.heads_min,
            "heads_kv_max": h.kv_heads,
            "heads_kv_min": h.kv_heads_min,
            "heads_per_layer": runs(h.heads_per_block),
            "heads_kv_per_layer": runs(h.kv_heads_per_block),
            "embedding_heads_max": h.head_length,
            "key_length": h.key_length,
            "value_length": h.value_length,
            "tensor_bytes_total": h.tensors.total_bytes,
            "other_groups": {group: groups[group] for group in facts["other_groups"]},
        } == {key: value for key, value in facts.items() if key[:5] not in ("flash", "ollam")}, name
