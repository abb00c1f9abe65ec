"""Small models, GPUs and requests for tests, and strategies that make random ones."""

from __future__ import annotations

import gzip
import importlib.util
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from hypothesis import strategies as st

from explorer.formats.model import Metadata, MetadataEntry, Model, loaded_entry
from explorer.formats.tensors import TensorColumns, TensorTable
from explorer.planner import Device, Hyperparameters, Settings
from explorer.planner.header_keys import TOKENS
from explorer.planner.hyperparameters import read_metadata
from explorer.planner.tensor_groups import TensorGroups, group_table
from explorer.quantization import TENSOR_TYPES

MIB, GIB = 1 << 20, 1 << 30
DATA = Path(__file__).parents[1] / "data" / "planner"


def packed(path: Path) -> dict[str, Any]:
    """Return the JSON of a compressed file of golden cases."""
    found: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return found


def module_of(path: Path) -> ModuleType:
    """Return a script as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def plain_metadata(values: Mapping[str, Any]) -> Metadata:
    """Return plain Python values as metadata, integers as uint32 and lists of them as int32.

    Of ``tokenizer.ggml.tokens`` only the length is kept.
    """
    entries = []
    for key, value in values.items():
        if key == TOKENS:
            entries.append(MetadataEntry(key, "array[string]", len(value), list))
        elif isinstance(value, list):
            kinds = {type(item) for item in value}
            kind = "int32" if kinds <= {int} else "bool" if kinds == {bool} else "string"
            entries.append(loaded_entry(key, f"array[{kind}]", value))
        else:
            names = {bool: "bool", int: "uint32", float: "float32"}
            entries.append(loaded_entry(key, names.get(type(value), "string"), value))
    return Metadata(entries)


Tensors: TypeAlias = Iterable[tuple[str, str, Sequence[int]]]
"""Names, names of types, and dimensions in GGUF's order."""


def header_model(metadata: Mapping[str, Any], tensors: Tensors) -> Model:
    """Return a model that has a header and nothing else."""
    return Model("gguf", Path("model.gguf"), (), plain_metadata(metadata), tensor_table(tensors))


def tensor_table(described: Tensors) -> TensorTable:
    """Return a table of tensors without weights."""
    tensors = list(described)
    columns = TensorColumns(
        names=[name for name, _, _ in tensors],
        shapes=[tuple(reversed(dims)) for _, _, dims in tensors],
        types=[TENSOR_TYPES[kind] for _, kind, _ in tensors],
        parameters=[math.prod(dims) for _, _, dims in tensors],
        nbytes=[TENSOR_TYPES[kind].nbytes(math.prod(dims)) or 0 for _, kind, dims in tensors],
    )

    def build(row: int) -> Any:
        raise AssertionError("no weights are read")

    return TensorTable(columns, build)


def groups_of(tensors: Tensors) -> TensorGroups:
    """Return the groups of tensors that Ollama places as one."""
    return group_table(tensor_table(tensors))


def header_of(metadata: Mapping[str, Any], tensors: Tensors, name: str = "") -> Hyperparameters:
    """Return what is read of a header for Ollama's formulas, and nothing for other engines."""
    groups = groups_of(tensors)
    return read_metadata(plain_metadata(metadata), groups, sum(groups.nbytes.values()), name)


TINY = {
    "general.architecture": "llama",
    "llama.block_count": 2,
    "llama.embedding_length": 256,
    "llama.feed_forward_length": 512,
    "llama.context_length": 4096,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2,
}
TINY_TENSORS = [
    ("token_embd.weight", "Q8_0", [256, 100]),
    ("output_norm.weight", "F32", [256]),
    ("blk.0.attn_k.weight", "Q8_0", [256, 128]),
    ("blk.1.attn_k.weight", "Q8_0", [256, 128]),
    ("blk.1.ffn_gate_inp.weight", "F32", [256, 2]),
    ("blk.1.ffn_up_exps.weight", "F16", [256, 512, 2]),
]

ARCHITECTURES = (
    "llama", "llama4", "mllama", "gemma", "gemma2", "gemma3", "gemma3n", "command-r", "qwen2",
    "phi2", "stablelm", "deepseek2", "chatglm", "gptoss", "gpt-oss", "qwen3", "jamba", "nothing",
)  # fmt: skip
LIBRARIES = ("CUDA", "ROCm", "Vulkan", "Metal", "oneAPI")


def tiny() -> Hyperparameters:
    """Return what is read of a header with experts in one of two blocks."""
    return Hyperparameters.from_model(
        header_model({**TINY, "tokenizer.ggml.tokens": ["a"] * 100}, TINY_TENSORS)
    )


def small_model(architecture: str = "llama", blocks: int = 4, **keys: Any) -> Hyperparameters:
    """Return a model of some hundred MB; `keys` are GGUF keys with ``__`` for the dots."""
    a = architecture
    metadata: dict[str, Any] = {
        "general.architecture": a,
        f"{a}.block_count": blocks,
        f"{a}.embedding_length": 2048,
        f"{a}.context_length": 32768,
        f"{a}.feed_forward_length": 8192,
        f"{a}.attention.head_count": 16,
        f"{a}.attention.head_count_kv": 8,
        "tokenizer.ggml.tokens": range(32000),
    }
    metadata |= {f"{a}.{key.replace('__', '.')}": value for key, value in keys.items()}
    metadata = {key: value for key, value in metadata.items() if value is not None}
    tensors = [(f"blk.{i}.ffn.weight", "F16", [2048, 8192]) for i in range(blocks)]
    tensors += [("token_embd.weight", "F16", [2048, 32000]), ("output_norm.weight", "F32", [2048])]
    return header_of(metadata, tensors, "small")


@st.composite
def random_models(draw: st.DrawFn) -> Hyperparameters:
    """Make models of any family: uneven blocks, lists of heads, experts, recurrent blocks."""
    a = draw(st.sampled_from(ARCHITECTURES))
    blocks = draw(st.integers(0, 12))
    heads = st.integers(1, 64) | st.lists(st.integers(0, 32), min_size=1, max_size=blocks + 2)
    metadata: dict[str, Any] = {
        "general.architecture": a,
        f"{a}.block_count": blocks,
        f"{a}.embedding_length": draw(st.integers(0, 16384)),
        f"{a}.attention.head_count": draw(st.integers(1, 64)),
        f"{a}.attention.head_count_kv": draw(heads),
        f"{a}.attention.sliding_window": draw(st.integers(0, 4096)),
        f"{a}.context_length": draw(st.integers(0, 1 << 20)),
        f"{a}.feed_forward_length": draw(st.integers(0, 30000)),
        "tokenizer.ggml.tokens": range(draw(st.integers(0, 300_000))),
    }
    if draw(st.booleans()):
        metadata[f"{a}.attention.key_length"] = draw(st.integers(0, 512))
        metadata[f"{a}.attention.value_length"] = draw(st.integers(0, 512))
    if draw(st.booleans()):
        metadata |= {
            f"{a}.ssm.{key}": draw(st.integers(0, 4096))
            for key in ("conv_kernel", "state_size", "inner_size", "group_count")
        }
    if draw(st.integers(0, 4)) == 0:
        metadata[f"{a}.pooling_type"] = 1
    size = st.integers(0, 1 << 27)
    tensors = [(f"blk.{i}.x.weight", "F16", [draw(size)]) for i in range(blocks)]
    tensors += [("output_norm.weight", "F32", [8]), ("token_embd.weight", "F16", [draw(size)])]
    extra = draw(st.sampled_from([None, "ffn_gate_exps.weight", "ffn_gate.0.weight"]))
    if extra and blocks:
        tensors.append((f"blk.0.{extra}", "F16", [64, 128]))
    return header_of(metadata, tensors)


@st.composite
def random_devices(draw: st.DrawFn, most: int = 4) -> list[Device]:
    """Make up to `most` GPUs of up to two libraries, some integrated, some nearly full."""
    libraries = draw(st.lists(st.sampled_from(LIBRARIES), min_size=1, max_size=2, unique=True))
    return [
        Device(
            str(i),
            draw(st.sampled_from(libraries)),
            draw(st.integers(0, 4 * GIB) | st.integers(0, 64 * GIB)),
            integrated=draw(st.booleans()),
            compute=draw(st.sampled_from([None, (7, 2), (8, 6)])),
        )
        for i in range(draw(st.integers(0, most)))
    ]


random_settings = st.builds(
    Settings,
    context=st.none() | st.integers(0, 1 << 18),
    parallel=st.none() | st.integers(0, 8),
    batch=st.none() | st.integers(0, 4096),
    kv_cache_type=st.sampled_from([None, "f16", "q8_0", "q4_0", "f32", "q5_1", "nonsense"]),
    flash_attention=st.none() | st.booleans(),
    num_gpu=st.none() | st.integers(-1, 20) | st.just(999),
    overhead=st.none() | st.integers(0, GIB),
    spread=st.none() | st.booleans(),
    require_full=st.booleans(),
    projector_bytes=st.just(0) | st.integers(0, GIB),
)
