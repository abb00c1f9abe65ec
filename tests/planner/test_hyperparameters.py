"""What is read of a header: every key, fallback and list rule of docs/planner.md, section 2."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from explorer.errors import PlanError
from explorer.formats import MetadataEntry, open_model
from explorer.planner import Hyperparameters
from explorer.planner.tensor_groups import split_group
from explorer.quantization import TENSOR_TYPES
from tests.helpers import gguf_writer as w
from tests.helpers.small_gguf import SmallGguf, model_from
from tests.helpers.stopwatch import in_time
from tests.planner.golden import Golden
from tests.planner.models import groups_of, header_of

TOKENS = ("tokenizer.ggml.tokens", ["a", "b", "c"])


def read(*keys: tuple[str, Any], tensors: Any = (), **more: Any) -> Hyperparameters:
    """Return what is read of a llama file with these keys."""
    entries = [("general.architecture", "llama"), TOKENS, *keys]
    return Hyperparameters.from_model(model_from(SmallGguf(keys=entries, tensors=tensors).write()))


def test_every_key_is_read() -> None:
    names = (
        "block_count", "embedding_length", "attention.head_count", "attention.head_count_kv",
        "attention.key_length", "attention.value_length", "feed_forward_length",
        "attention.sliding_window", "context_length", "ssm.conv_kernel", "ssm.state_size",
        "ssm.inner_size", "ssm.group_count",
    )  # fmt: skip
    h = read(*[(f"llama.{name}", 100 + i) for i, name in enumerate(names)])
    assert (h.block_count, h.embedding_length, h.heads, h.kv_heads) == (100, 101, 102, 103)
    assert (h.key_length, h.value_length, h.feed_forward_length) == (104, 105, 106)
    assert (h.sliding_window, h.trained_context, h.ssm_conv_kernel) == (107, 108, 109)
    assert (h.ssm_state_size, h.ssm_inner_size, h.ssm_group_count) == (110, 111, 112)
    assert h.vocabulary == 3
    assert h.origins["L"] == "llama.block_count"
    assert h.origins["Dk"] == "llama.attention.key_length"


@pytest.mark.parametrize(("kind", "what"), [("adapter", "adapter"), ("imatrix", "importance")])
def test_what_is_no_whole_model_is_not_planned(kind: str, what: str) -> None:
    file = w.GgufFile(keys=[("general.type", w.STRING, kind), ("llama.context_length", w.U32, 8)])
    with pytest.raises(PlanError, match=f"{what}.* not a whole model"):
        Hyperparameters.from_model(model_from(file.build()))


def test_absent_keys_have_ollamas_values() -> None:
    h = header_of({}, [])
    assert h.architecture == "unknown"
    assert (h.block_count, h.embedding_length, h.vocabulary) == (0, 0, 0)
    assert (h.heads, h.heads_min, h.kv_heads, h.kv_heads_min) == (1, 1, 1, 1)
    assert (h.sliding_window, h.trained_context, h.embedding_model) == (0, 0, False)
    assert h.origins["kv heads"] == "unknown.attention.head_count_kv is absent: 1"
    assert any("tokens is absent" in warning for warning in h.warnings)


def test_lengths_fall_back_to_the_width_over_the_fewest_heads() -> None:
    h = read(("llama.embedding_length", 4096), ("llama.attention.head_count", [32, 16, 32]))
    assert (h.heads, h.heads_min, h.head_length) == (32, 16, 256)
    assert (h.key_length, h.value_length) == (256, 256)
    h = read(("llama.embedding_length", 4096), ("llama.attention.head_count", [32, 0]))
    assert (h.head_length, h.key_length) == (0, 0)


@pytest.mark.parametrize(
    ("stored", "per_block", "most", "least"),
    [
        ([4], (4, 4, 4), 4, 4),
        ([4, 2], (4, 2, 1), 4, 2),
        ([4, 0, 2], (4, 0, 2), 4, 0),
        ([4, 2, 3, 9, 0], (4, 2, 3), 9, 0),
        (5, (5, 5, 5), 5, 5),
    ],
)
def test_lists_of_heads(stored: Any, per_block: tuple[int, ...], most: int, least: int) -> None:
    h = read(("llama.block_count", 3), ("llama.attention.head_count_kv", stored))
    assert h.kv_heads_per_block == per_block
    assert (h.kv_heads, h.kv_heads_min) == (most, least)


@pytest.mark.parametrize("kind", [w.U8, w.I8, w.U16, w.I16, w.U32, w.I32, w.U64, w.I64])
def test_any_integer_type_is_read(kind: int, tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    keys: list[Any] = [
        ("general.architecture", w.STRING, w.Text(b"llama")),
        ("llama.block_count", kind, 7),
        ("llama.attention.head_count", w.ARRAY, w.Array(kind, [3, 4])),
    ]
    w.GgufFile(keys=keys).write(path)
    with open_model(path) as model:
        h = Hyperparameters.from_model(model)
    assert (h.block_count, h.head_counts) == (7, (3, 4))


def test_a_list_where_a_scalar_belongs_counts_as_absent() -> None:
    h = read(("llama.feed_forward_length", [1, 2, 3]), ("llama.block_count", 2))
    assert h.feed_forward_length == 0
    assert "is a list" in h.origins["FF"]


def test_the_prefix_is_the_architecture_as_the_file_spells_it() -> None:
    keys = [("general.architecture", "gpt-oss"), ("gpt-oss.block_count", 3), TOKENS]
    h = Hyperparameters.from_model(model_from(SmallGguf(keys=keys).write()))
    assert (h.architecture, h.block_count) == ("gpt-oss", 3)


def test_pooling_and_vision_are_told_by_the_presence_of_keys() -> None:
    assert read(("llama.pooling_type", 0)).embedding_model
    assert read(("llama.vision.block_count", 0)).vision
    assert not read().embedding_model
    assert not read().vision


def test_no_token_is_decoded() -> None:
    model = model_from(SmallGguf(keys=[("general.architecture", "llama"), TOKENS]).write())
    assert Hyperparameters.from_model(model).vocabulary == 3
    tokens = model.metadata.entry("tokenizer.ggml.tokens")
    assert tokens is not None
    assert "value" not in vars(tokens)


@pytest.mark.parametrize("name", ["all-minilm", "llama-3.2-1b"])
def test_a_model_is_the_same_from_a_file_as_from_its_parts(subset: Golden, name: str) -> None:
    described = subset.content["models"][name]
    keys: list[Any] = [
        (key, ["t"] * value["count"] if isinstance(value, dict) else value)
        for key, value in described["metadata"].items()
    ]
    offset, tensors = 0, []
    for tensor, kind, dims in described["tensors"]:  # the weights themselves are not in the file
        tensors.append((tensor, tuple(dims), TENSOR_TYPES[kind].id or 0, offset))
        offset += 32
    h = Hyperparameters.from_model(model_from(SmallGguf(keys=keys, tensors=tensors).write()))
    parts = subset.model(name)
    assert replace(h, name="", file_bytes=0) == replace(parts, name="", file_bytes=0)


def test_the_files_own_context_is_that_of_the_store() -> None:
    h = read(("ollama.params.num_ctx", 12345))
    assert h.own_context == 12345
    assert read().own_context is None


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("blk.7.attn_q.weight", ("blk.7", "attn_q.weight")),
        ("v.blk.3.ln1.bias", ("v.blk.3", "ln1.bias")),
        ("mm.0.weight", ("mm.0", "weight")),
        ("mm.weight", ("mm", "weight")),
        ("v.blk.3", ("v", "blk.3")),
        ("output.weight", ("output", "weight")),
        ("rope_freqs.weight", ("rope_freqs", "weight")),
        ("token_embd", ("token_embd", "")),
        ("blk.0.ffn_gate.0.weight", ("blk.0", "ffn_gate.0.weight")),
    ],
)
def test_groups_of_tensors(name: str, group: tuple[str, str]) -> None:
    assert split_group(name) == group


def test_sizes_of_groups_and_the_tensors_that_formulas_read() -> None:
    groups = groups_of(
        [
            ("blk.0.attn_qkv.bias", "F32", [6144]),
            ("blk.0.ffn_gate_exps.weight", "Q4_K", [256, 512, 8]),
            ("blk.0.ffn_gate.0.weight", "MXFP4", [32, 17]),
            ("rope_freqs.weights", "F32", [64]),
            ("blk.1.x.weight", "TQ1_0", [256]),
            ("blk.2.x.weight", "Q8_0", [48]),
        ]
    )
    assert groups.nbytes["blk.0"] == 4 * 6144 + 4096 * 144 + 17 * 17
    assert groups.gate_experts_bytes == 4096 * 144
    assert (groups.expert_width, groups.fused_bias_length, groups.rope_weights) == (17, 6144, 64)
    assert groups.nbytes["blk.1"] == 54
    assert any("TQ1_0" in warning for warning in groups.warnings)
    assert groups.nbytes["blk.2"] == 48 * 34 // 32  # over the whole tensor, rounded down


def test_type_4_counts_as_mxfp4() -> None:
    h = read(tensors=[("blk.0.x.weight", (64,), 4, 0)])
    assert h.tensors.nbytes["blk.0"] == 2 * 17
    assert any("MXFP4" in warning for warning in h.warnings)


def test_tied_embeddings_are_the_output_layer() -> None:
    norm, embedding, output = (
        ("output_norm.weight", "F32", [8]),
        ("token_embd.weight", "F16", [100]),
        ("output.weight", "F16", [7]),
    )
    tied = header_of({}, [norm, embedding])
    apart = header_of({}, [norm, embedding, output])
    assert tied.layer_weights == (32 + 200,)
    assert apart.layer_weights == (32 + 14,)


HOSTILE: list[tuple[str, Any]] = [
    ("llama.block_count", 1 << 63),
    ("llama.block_count", 1025),
    ("llama.block_count", -1),
    ("llama.block_count", "32"),
    ("llama.block_count", 32.0),
    ("llama.block_count", True),
    ("llama.embedding_length", 1 << 62),
    ("llama.attention.head_count", [1] * 1_000_000),
    ("llama.attention.head_count_kv", [8, -8]),
    ("llama.attention.head_count_kv", ["8"]),
    ("llama.attention.head_count", [True, False]),
    ("llama.attention.key_length", -(1 << 63)),
    ("llama.attention.cross_attention_layers", [-1]),
    ("llama.block_count", 1 << 100_000),
]


@pytest.mark.parametrize(("key", "value"), HOSTILE, ids=map(str, range(len(HOSTILE))))
def test_hostile_values_are_one_clear_error(key: str, value: Any) -> None:
    metadata = {"general.architecture": "llama", "tokenizer.ggml.tokens": "x", key: value}
    before = time.process_time()
    with pytest.raises(PlanError) as caught:
        header_of(metadata, [])
    seconds = time.process_time() - before
    assert key in str(caught.value)
    assert len(str(caught.value)) < 300
    assert in_time(seconds, 0.5)  # meant are 50 ms, on a machine with nothing else to do


def test_a_list_of_a_million_is_refused_without_being_read() -> None:
    def load() -> Any:
        raise AssertionError("the list was read")

    from explorer.formats.model import Metadata
    from explorer.planner.hyperparameters import read_metadata

    entry = MetadataEntry("unknown.attention.head_count", "array[int32]", 1_000_000, load)
    with pytest.raises(PlanError, match="1,000,000 entries"):
        read_metadata(Metadata([entry]), groups_of([]), 0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"block_count": 1 << 63},
        {"embedding_length": -1},
        {"vocabulary": "many"},
        {"head_counts": ()},
        {"kv_head_counts": (1,) * 5000},
        {"kv_head_counts": (-1,)},
        {"stored_key_length": 1.5},
    ],
)
def test_absurd_numbers_cannot_be_put_together(wrong: dict[str, Any]) -> None:
    with pytest.raises(PlanError):
        Hyperparameters(**wrong)


def test_an_architecture_that_is_no_short_text_is_refused() -> None:
    for keys in ([("general.architecture", "x" * 5000)], [("general.architecture", 5)]):
        with pytest.raises(PlanError, match=r"general\.architecture"):
            Hyperparameters.from_model(model_from(SmallGguf(keys=keys).write()))


def test_zero_heads_are_planned_as_ollama_does() -> None:
    h = read(("llama.block_count", 2), ("llama.attention.head_count", 0))
    assert (h.heads, h.head_length) == (0, 0)
