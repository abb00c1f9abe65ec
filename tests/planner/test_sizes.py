"""Which formula is used, and the rules of the KV cache, on figures worked by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from explorer.errors import PlanError
from explorer.planner import graph_size
from explorer.planner.engines.ollama_013.sizes import GraphSize, row_for
from explorer.planner.hyperparameters import Hyperparameters
from tests.planner.models import groups_of, small_model


def sizes(h: Hyperparameters, **more: object) -> GraphSize:
    """Return the sizes for 1,000 tokens in batches of 100."""
    return graph_size(h, **({"context": 1000, "batch": 100} | more))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("architecture", "tensors", "name"),
    [
        ("llama", [], "llama"),
        ("llama4", [], "llama"),
        ("llama", ["ffn_gate_exps.weight"], "llama, stacked experts"),
        ("llama", ["ffn_gate.0.weight"], "llama, split experts"),
        ("llama", ["ffn_gate.0.weight", "ffn_gate_exps.weight"], "llama, stacked experts"),
        ("gemma2", [], "gemma"),
        ("gemma3n", [], "gemma3n"),
        ("chatglm", [], "chatglm"),
        ("chatglm", ["attn_qkv.bias"], "chatglm, fused bias"),
        ("gpt-oss", [], "gptoss"),
    ],
)
def test_rows(architecture: str, tensors: list[str], name: str) -> None:
    groups = groups_of([(f"blk.0.{tensor}", "F16", [64, 128]) for tensor in tensors])
    h = replace(small_model(architecture), tensors=groups)
    row = row_for(h, flash_attention=False)
    assert row is not None
    assert row.name == name


def test_mllama_keeps_images_in_its_cross_blocks() -> None:
    h = small_model("mllama", attention__cross_attention_layers=[1, 77])
    g = sizes(h, kv_cache_type="q8_0", parallel=2)
    assert g.kv_per_layer[1] == 8 * 256 * 4 * 1601 * 4
    assert g.kv_per_layer[0] == 2000 * 256 * 8


def test_a_division_by_no_heads_is_an_error() -> None:
    groups = groups_of([("blk.0.ffn_gate.0.weight", "F16", [64, 128])])
    h = replace(small_model(attention__head_count=0), tensors=groups)
    with pytest.raises(PlanError, match="head_count is 0"):
        sizes(h)
