"""Every golden case, to the byte; a failure prints the figures that differ."""

from __future__ import annotations

import pytest

from tests.planner.golden import Golden, runs

KINDS = ("graph_cases", "settings_cases", "layout_cases", "quirk_cases")
"""The last: where Ollama wraps around or never ends, and the layout is safe."""

SHOWN = 10


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("which", ["golden", "subset"])
def test_golden_cases(which: str, kind: str, request: pytest.FixtureRequest) -> None:
    golden: Golden = request.getfixturevalue(which)
    assert golden.cases(kind)
    differences = list(golden.differences(kind))
    more = f"\n… and {len(differences) - SHOWN} more" if len(differences) > SHOWN else ""
    assert not differences, "\n" + "\n".join(differences[:SHOWN]) + more


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
            "tensor_bytes_total": sum(h.tensors.nbytes.values()),
            "other_groups": {group: groups[group] for group in facts["other_groups"]},
        } == {key: value for key, value in facts.items() if key[:5] not in ("flash", "ollam")}, name
