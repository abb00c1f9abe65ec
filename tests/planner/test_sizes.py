"""Which formula is used, and the rules of the KV cache, on figures worked by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from explorer.errors import PlanError
from explorer.planner import graph_size
from explorer.planner.engines.ollama_013.sizes import GraphSize, row_for
from explorer.planner.hyperparameters import Hyperparameters
from explorer.planner.tensor_groups import group_list
from tests.planner.models import MIB, small_model


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
    groups = group_list([(f"blk.0.{tensor}", "F16", [64, 128]) for tensor in tensors])
    h = replace(small_model(architecture), tensors=groups)
    row = row_for(h, flash_attention=False)
    assert row is not None
    assert row.name == name


@pytest.mark.parametrize("name", ["qwen2moe", "qwen2vl", "qwen3", "phi3", "mistral3", "bert", "x"])
def test_architectures_without_a_row_have_the_fallback(name: str) -> None:
    g = sizes(small_model(name))
    assert (g.row, g.partial, g.full) == (None, 0, 0)
    assert g.partial_resolved == g.full_resolved == 16 // 8 * g.kv_total // 6


def test_flash_attention_changes_the_row_of_gptoss_only() -> None:
    for name in ("llama", "gemma3", "qwen2"):
        h = small_model(name)
        assert row_for(h, flash_attention=True) is row_for(h, flash_attention=False)
    g = sizes(small_model("gptoss"), flash_attention=True, parallel=3)
    assert g.partial == (4 * 3 + 3000 // 1024 + 110) * MIB
    assert (g.full, g.full_resolved) == (0, g.partial)


@pytest.mark.parametrize(
    ("kind", "per_element"),
    [("f32", 4), ("f16", 2), ("q8_0", 1), ("q4_0", 0.5), ("", 2), ("bf16", 2), ("q5_1", 2)],
)
def test_bytes_of_an_element(kind: str, per_element: float) -> None:
    g = sizes(small_model(), kv_cache_type=kind)
    assert set(g.kv_per_layer) == {int(1000 * 256 * 8 * per_element)}


def test_blocks_without_heads_are_recurrent() -> None:
    ssm = {
        "ssm__conv_kernel": 4,
        "ssm__inner_size": 10,
        "ssm__group_count": 2,
        "ssm__state_size": 5,
    }
    h = small_model("jamba", attention__head_count_kv=[8, 0, 8, 0], **ssm)
    recurrent = (3 * (10 + 2 * 2 * 5) + 5 * 10) * 4
    for kind, parallel in (("f16", 1), ("q4_0", 3)):
        g = sizes(h, kv_cache_type=kind, parallel=parallel)
        assert (g.kv_per_layer[1], g.kv_per_layer[3]) == (recurrent, recurrent)
        assert g.kv_kinds == ("attention", "recurrent") * 2
    no_conv = small_model(
        "jamba", attention__head_count_kv=[0], ssm__inner_size=10, ssm__state_size=5
    )
    assert sizes(no_conv).kv_per_layer == (5 * 10 * 4,) * 4


def test_mllama_keeps_images_in_its_cross_blocks() -> None:
    h = small_model("mllama", attention__cross_attention_layers=[1, 77])
    g = sizes(h, kv_cache_type="q8_0", parallel=2)
    assert g.kv_per_layer[1] == 8 * 256 * 4 * 1601 * 4
    assert g.kv_per_layer[0] == 2000 * 256 * 8


def test_a_division_by_no_heads_is_an_error() -> None:
    groups = group_list([("blk.0.ffn_gate.0.weight", "F16", [64, 128])])
    h = replace(small_model(attention__head_count=0), tensors=groups)
    with pytest.raises(PlanError, match="head_count is 0"):
        sizes(h)
