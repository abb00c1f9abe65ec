"""Models that are no GGUF files: what they would need after conversion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from explorer.errors import PlanError
from explorer.formats import Metadata, Model, TensorTable, open_model
from explorer.formats.tensors import TensorColumns
from explorer.planner import Hyperparameters, plan
from explorer.quantization import TENSOR_TYPES

CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "intermediate_size": 128,
    "max_position_embeddings": 4096,
}
TENSORS = {
    "model.embed_tokens.weight": (1000, 64),
    "model.layers.0.self_attn.q_proj.weight": (64, 64),
    "model.layers.0.mlp.gate_proj.weight": (128, 64),
    "model.layers.1.mlp.gate_proj.weight": (128, 64),
    "model.norm.weight": (64,),
    "lm_head.weight": (1000, 64),
    "vision_tower.encoder.layers.0.mlp.fc1.weight": (64, 64),
}


def read(
    config: dict[str, Any], tensors: dict[str, tuple[int, ...]] | None = None
) -> Hyperparameters:
    """Return what is read of a safetensors model in BF16."""
    shapes = TENSORS if tensors is None else tensors
    columns = TensorColumns()
    for name, shape in shapes.items():
        count = 1
        for extent in shape:
            count *= extent
        columns.names.append(name)
        columns.shapes.append(shape)
        columns.types.append(TENSOR_TYPES["BF16"])
        columns.parameters.append(count)
        columns.nbytes.append(2 * count)

    def build(row: int) -> Any:
        raise AssertionError(f"tensor {row} was made")

    model = Model(
        "safetensors", Path("folder"), (), Metadata(), TensorTable(columns, build), config=config
    )
    return Hyperparameters.from_model(model)


def test_every_symbol_is_mapped() -> None:
    h = read(CONFIG)
    assert h.after_conversion
    assert (h.architecture, h.block_count, h.embedding_length) == ("llama", 2, 64)
    assert (h.heads, h.kv_heads, h.key_length, h.value_length) == (8, 2, 8, 8)
    assert (h.vocabulary, h.feed_forward_length, h.trained_context) == (1000, 128, 4096)
    assert h.origins["L"] == "config.json num_hidden_layers"


def test_the_language_part_comes_first() -> None:
    text = {**CONFIG, "model_type": "gemma3_text", "head_dim": 32, "sliding_window": 512}
    h = read({"model_type": "gemma3", "hidden_size": 7, "text_config": text, "vision_config": {}})
    assert (h.architecture, h.embedding_length, h.key_length) == ("gemma3", 64, 32)
    assert (h.sliding_window, h.vision) == (512, True)
    assert h.origins["E"] == "config.json text_config.hidden_size"


def test_values_that_are_left_out() -> None:
    config = {**CONFIG, "num_key_value_heads": None, "sliding_window": None}
    h = read(config)
    assert (h.kv_heads, h.sliding_window) == (8, 0)  # a key and value head for each head
    assert "one for each head" in h.origins["kv heads"]


def test_latent_attention() -> None:
    more = {
        "model_type": "deepseek_v2",
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 96,
    }
    h = read(CONFIG | more)
    assert (h.architecture, h.key_length, h.value_length) == ("deepseek2", 192, 96)


def test_tensors_are_mapped_to_layers() -> None:
    h = read(CONFIG)
    assert h.layer_weights == (
        2 * (64 * 64 + 128 * 64),
        2 * 128 * 64,
        2 * (64 + 1000 * 64),  # the last norm and the output
    )
    tied = read(CONFIG, {k: v for k, v in TENSORS.items() if k != "lm_head.weight"})
    assert tied.layer_weights[-1] == 2 * (64 + 1000 * 64)


def test_experts_count_as_stacked() -> None:
    experts = {
        f"model.layers.0.block_sparse_moe.experts.{i}.w1.weight": (128, 64) for i in range(4)
    }
    h = read({**CONFIG, "model_type": "mixtral"}, TENSORS | experts)
    assert (h.architecture, h.tensors.gate_experts_bytes) == ("llama", 4 * 2 * 128 * 64)


def test_a_plan_says_that_it_is_one_after_conversion() -> None:
    p = plan(read(CONFIG))
    assert any("after conversion" in note for note in p.notes)


@pytest.mark.parametrize(
    ("name", "converted"),
    [("gptq_4bit_g128", False), ("awq_gemm_g64", False), ("gpt_oss_mxfp4", True)],
)
def test_a_plan_of_quantized_weights_counts_all_parts_and_says_who_loads_them(
    shared_data: Path, name: str, converted: bool
) -> None:
    with open_model(shared_data / "hf_quantized" / name) as model:
        h = Hyperparameters.from_model(model)
        assert h.tensors.total_bytes == model.tensors.nbytes
        p = plan(h)
    assert any("after conversion" in note for note in p.notes) is converted
    assert any("vLLM" in note for note in p.notes) is not converted


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"model_type": 5},
        {**CONFIG, "num_hidden_layers": "32"},
        {**CONFIG, "num_hidden_layers": 1 << 63},
        {**CONFIG, "hidden_size": -1},
        {**CONFIG, "hidden_size": 1.5},
        {**CONFIG, "num_key_value_heads": [1] * 100_000},
        {**CONFIG, "num_attention_heads": [[1]]},
        {**CONFIG, "head_dim": {}},
        {**CONFIG, "mamba_n_heads": 1 << 39, "mamba_d_head": 1 << 39},
    ],
)
def test_what_cannot_be_used_is_one_error(wrong: dict[str, Any]) -> None:
    with pytest.raises(PlanError, match=r"config\.json|mamba"):
        read(wrong)


@pytest.mark.parametrize(
    ("name", "architecture", "blocks"),
    [("tinydense/int4", "qwen2", 2), ("tinyclassic/latest", "llama", 1)],
)
def test_models_of_a_real_store(
    shared_data: Path, name: str, architecture: str, blocks: int
) -> None:
    manifest = shared_data / "ollama_store/models/manifests/registry.ollama.ai/library" / name
    with open_model(manifest) as model:
        h = Hyperparameters.from_model(model)
        assert (h.architecture, h.block_count) == (architecture, blocks)
        assert h.after_conversion is (model.format != "gguf")
        assert all(h.layer_weights)
        # everything is in the layers but the input embedding and tables
        assert h.tensors.total_bytes == model.tensors.nbytes
