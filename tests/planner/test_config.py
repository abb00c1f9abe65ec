"""Models that are no GGUF files: the numbers of their config.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from explorer.errors import PlanError
from explorer.formats import Metadata, Model, TensorTable, open_model
from explorer.formats.tensors import TensorColumns
from explorer.planner import Hyperparameters

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


def read(config: dict[str, Any]) -> Hyperparameters:
    """Return what is read of a safetensors model without tensors."""

    def build(row: int) -> Any:
        raise AssertionError(f"tensor {row} was made")

    table = TensorTable(TensorColumns(), build)
    return Hyperparameters.from_model(
        Model("safetensors", Path("folder"), (), Metadata(), table, config=config)
    )


def test_every_symbol_is_mapped() -> None:
    h = read(CONFIG)
    assert h.is_safetensors
    assert (h.architecture, h.block_count, h.embedding_length) == ("llama", 2, 64)
    assert (h.heads, h.kv_heads, h.key_length, h.value_length) == (8, 2, 8, 8)
    assert (h.vocabulary, h.feed_forward_length, h.trained_context) == (1000, 128, 4096)


def test_the_language_part_comes_first() -> None:
    text = {**CONFIG, "model_type": "gemma3_text", "head_dim": 32, "sliding_window": 512}
    h = read({"model_type": "gemma3", "hidden_size": 7, "text_config": text, "vision_config": {}})
    assert (h.architecture, h.embedding_length, h.key_length) == ("gemma3_text", 64, 32)
    assert h.sliding_window == 512


def test_values_that_are_left_out() -> None:
    config = {**CONFIG, "num_key_value_heads": None, "sliding_window": None}
    h = read(config)
    assert (h.kv_heads, h.sliding_window) == (8, 0)  # a key and value head for each head


def test_latent_attention() -> None:
    more = {
        "model_type": "deepseek_v2",
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 96,
    }
    h = read(CONFIG | more)
    assert (h.architecture, h.key_length, h.value_length) == ("deepseek_v2", 192, 96)


def test_layers_without_tensors_are_warned_of() -> None:
    (warning,) = read(CONFIG).warnings
    assert warning.startswith("config.json states 2 layers, and the files have tensors of 0")


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
    ],
)
def test_what_cannot_be_used_is_one_error(wrong: dict[str, Any]) -> None:
    with pytest.raises(PlanError, match=r"config\.json"):
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
        assert h.is_safetensors is (model.format != "gguf")
