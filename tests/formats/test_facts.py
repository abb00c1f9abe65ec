"""What a model is, from good metadata and from hostile metadata."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.errors import FormatError
from explorer.formats import Metadata, MetadataEntry, Model, open_model
from explorer.formats.facts import Facts, describe, range_text
from explorer.formats.model import Value
from explorer.formats.tensors import TensorColumns, TensorTable
from tests.helpers.demo import copy_demo


def no_tensors() -> TensorTable:
    def build(row: int) -> Any:
        raise AssertionError(row)

    return TensorTable(TensorColumns(), build)


def model_of(keys: dict[str, Any] | None = None, config: dict[str, Any] | None = None) -> Model:
    entries = []
    for key, value in (keys or {}).items():
        array = isinstance(value, list)
        kind = "array[int32]" if array else "string" if isinstance(value, str) else "int32"
        length = len(value) if array else None
        entries.append(MetadataEntry(key, kind, length, lambda value=value: value))
    return Model(
        "gguf" if keys else "safetensors",
        Path("model"),
        (),
        Metadata(entries),
        no_tensors(),
        config=config or {},
    )


def test_the_demo(tmp_path: Path) -> None:
    with open_model(copy_demo(tmp_path)) as model:
        facts = describe(model)
    assert facts.name == "Demo 2.5M"
    assert facts.architecture == "llama"
    assert facts.file_type == "Q4_0"
    assert facts.parameters == 2_499_872
    assert (facts.context_length, facts.layers, facts.embedding_length) == (4096, 2, 256)
    assert (facts.feed_forward_length, facts.heads, facts.kv_heads) == ("704", "4", "2")
    assert (facts.key_length, facts.value_length, facts.vocabulary) == (64, 64, 2000)
    assert (facts.tokenizer, facts.license) == ("llama (default)", "cc0-1.0")
    assert {share.name for share in facts.types} == {
        *("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1")
    }
    assert sum(share.share for share in facts.types) == pytest.approx(1)


def test_head_counts_of_each_layer() -> None:
    keys: dict[str, Any] = {
        "general.architecture": "openelm",
        "openelm.embedding_length": 1280,
        "openelm.attention.head_count": [12, 16, 20],
        "openelm.attention.head_count_kv": [4, 4, 4],
    }
    facts = describe(model_of(keys))
    assert (facts.heads, facts.kv_heads, facts.key_length) == ("12–20", "4", 64)
    del keys["openelm.attention.head_count_kv"]
    assert describe(model_of(keys)).kv_heads == "12–20"


def test_config_json() -> None:
    facts = describe(
        model_of(
            config={
                "model_type": "gemma3",
                "text_config": {
                    "num_hidden_layers": 18,
                    "hidden_size": 640,
                    "num_attention_heads": 4,
                    "num_key_value_heads": 1,
                    "head_dim": 256,
                    "max_position_embeddings": 32768,
                    "vocab_size": 262144,
                    "intermediate_size": 2048,
                },
                "torch_dtype": "bfloat16",
            }
        )
    )
    assert facts.architecture == "gemma3"
    assert (facts.layers, facts.embedding_length, facts.key_length) == (18, 640, 256)
    assert (facts.heads, facts.kv_heads, facts.vocabulary) == ("4", "1", 262144)
    assert (facts.feed_forward_length, facts.file_type) == ("2048", "bfloat16")


HOSTILE: tuple[Any, ...] = ("many", -1, 0, 2**64, 1.5, True, float("nan"), [], ["a"], [-1], [0, 0])


@pytest.mark.parametrize("value", HOSTILE, ids=repr)
def test_wrong_types_are_not_known(value: Any) -> None:
    numbers = ("block_count", "context_length", "embedding_length", "attention.head_count")
    keys = {"general.architecture": "llama"} | {f"llama.{name}": value for name in numbers}
    config_names = ("num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size")
    for model in (model_of(keys), model_of(config=dict.fromkeys(config_names, value))):
        facts = describe(model)
        assert facts.layers is None
        assert facts.embedding_length is None
        assert facts.heads is None
        assert facts.vocabulary is None


single = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
values = st.recursive(
    single,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=6,
)
NAMES = ("model_type", "_name_or_path", "text_config", "hidden_size", "num_attention_heads")
KEYS = ("general.architecture", "general.file_type", "general.license", "llama.block_count")


@given(
    st.dictionaries(st.sampled_from(NAMES), values), st.dictionaries(st.sampled_from(KEYS), single)
)
def test_nothing_raises(config: dict[str, Any], keys: dict[str, Any]) -> None:
    assert isinstance(describe(model_of(keys, config)), Facts)


def test_values_that_cannot_be_read_are_not_known() -> None:
    def gone() -> Value:
        raise FormatError("became shorter")

    keys = ("general.architecture", "general.name", "general.file_type", "tokenizer.ggml.model")
    metadata = Metadata([MetadataEntry(key, "string", None, gone) for key in keys])
    facts = describe(Model("gguf", Path("m"), (), metadata, no_tensors()))
    known = {f.name for f in fields(facts) if getattr(facts, f.name)}
    assert known == set()


def test_ranges() -> None:
    assert range_text([8, 8]) == "8"
    assert range_text([8, 1]) == "1–8"
    assert range_text([]) is None
