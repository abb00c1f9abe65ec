"""What llama.cpp allocates: equal to the byte with what its own code computes."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from explorer.errors import PlanError
from explorer.formats.model import Model
from explorer.formats.tensors import TensorColumns, TensorTable
from explorer.planner.hyperparameters import plain_metadata
from explorer.planner.llama_cpp import Allocation, Header, Settings, allocate
from explorer.quantization import TENSOR_TYPES


def _model(metadata: Mapping[str, Any], tensors: list[tuple[str, str, list[int]]]) -> Model:
    """Return a model that has a header and nothing else; dimensions in GGUF's order."""
    columns = TensorColumns(
        names=[name for name, _, _ in tensors],
        shapes=[tuple(reversed(dims)) for _, _, dims in tensors],
        types=[TENSOR_TYPES[kind] for _, kind, _ in tensors],
        parameters=[math.prod(dims) for _, _, dims in tensors],
    )

    def build(row: int) -> Any:
        raise AssertionError("no weights are read")

    path = Path("model.gguf")
    return Model("gguf", path, (), plain_metadata(metadata), TensorTable(columns, build))


class _Golden:
    def __init__(self, path: Path) -> None:
        with gzip.open(path) as file:
            self._content = json.load(file)
        self.cases: list[dict[str, Any]] = self._content["cases"]

    @cache  # noqa: B019 - one object a session
    def header(self, name: str) -> Header:
        described = self._content["models"][name]
        metadata = {
            key: range(value["count"]) if isinstance(value, dict) else value
            for key, value in described["metadata"].items()
        }
        return Header.from_model(_model(metadata, described["tensors"]))


@pytest.fixture(scope="session")
def golden(shared_reference: Path) -> _Golden:
    return _Golden(shared_reference / "llama_cpp_golden.json.gz")


def _expected(case: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """Return weights and cache by buffer; what is mapped counts as the host's."""
    found: dict[str, tuple[int, int]] = {}
    for name, (weights, held, _) in case["memory"].items():
        place = "host" if name == "CPU_mapped" else name
        before = found.get(place, (0, 0))
        found[place] = before[0] + weights, before[1] + held
    return {name: sizes for name, sizes in found.items() if any(sizes)}


def _found(allocation: Allocation) -> dict[str, tuple[int, int]]:
    sizes = {name: (one.weights, one.cache) for name, one in allocation.buffers.items()}
    return {name: size for name, size in sizes.items() if any(size)}


def test_weights_cache_and_refusals_equal_llama_cpp_s(golden: _Golden) -> None:
    for case in golden.cases:
        header, settings = golden.header(case["model"]), Settings(**case["settings"])
        if case.get("error"):
            with pytest.raises(PlanError):
                allocate(header, settings)
            continue
        allocation = allocate(header, settings)
        assert (allocation.n_ctx, allocation.n_ctx_seq) == (case["n_ctx"], case["n_ctx_seq"])
        assert _found(allocation) == _expected(case), case["id"]
    assert len(golden.cases) >= 1099


def test_compute_buffers_are_within_a_thousandth_where_a_law_is_known(golden: _Golden) -> None:
    known = 0
    for case in golden.cases:
        if case.get("error"):
            continue
        allocation = allocate(golden.header(case["model"]), Settings(**case["settings"]))
        found = allocation.buffers["GPU0"].compute if "GPU0" in allocation.buffers else None
        if found is not None:
            known += 1
            assert found == pytest.approx(case["memory"]["GPU0"][2], rel=1e-3), case["id"]
    assert known > 250


_TINY = {
    "general.architecture": "llama",
    "llama.block_count": 2,
    "llama.embedding_length": 256,
    "llama.feed_forward_length": 512,
    "llama.context_length": 4096,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2,
}
_TENSORS = [
    ("token_embd.weight", "Q8_0", [256, 100]),
    ("output_norm.weight", "F32", [256]),
    ("blk.0.attn_k.weight", "Q8_0", [256, 128]),
    ("blk.1.attn_k.weight", "Q8_0", [256, 128]),
    ("blk.1.ffn_up_exps.weight", "F16", [256, 512, 2]),
]
_EMBEDDING, _KEYS, _EXPERTS = 100 * 8 * 34, 128 * 8 * 34, 256 * 512 * 2 * 2
_PADDING = 8 * 34  # rows of 256 weights are filled up to 512


@pytest.fixture
def tiny() -> Model:
    return _model(_TINY, _TENSORS)


def _aligned(size: int) -> int:
    return -(-size // 128) * 128


def test_all_layers_on_one_gpu(tiny: Model) -> None:
    gpu = allocate(tiny, Settings(context=1000, parallel=2)).buffers["GPU0"]
    # a tied output: the embedding is held on both sides
    tensors = (_EMBEDDING + _PADDING, 256 * 4, _KEYS + _PADDING, _KEYS + _PADDING, _EXPERTS)
    assert gpu.weights == sum(map(_aligned, tensors))
    cells = 512 * 2  # 1000 → 1024, of two sequences
    assert gpu.cache == 2 * 2 * (64 * 2 * 2 * cells)


def test_the_first_layers_stay_on_the_host(tiny: Model) -> None:
    allocation = allocate(tiny, Settings(gpu_layers=2))
    assert allocation.buffers["host"].weights == _EMBEDDING + _KEYS
    assert allocation.buffers["CPU"].cache == allocation.buffers["GPU0"].cache


def test_experts_stay_on_the_host_if_asked(tiny: Model) -> None:
    for settings in (
        Settings(cpu_moe_layers=2),
        Settings(overrides=[(r"blk\.1\.ffn_up_exps", "CPU")]),
    ):
        assert allocate(tiny, settings).buffers["host"].weights == _EMBEDDING + _EXPERTS


def test_devices_share_by_the_split(tiny: Model) -> None:
    buffers = allocate(tiny, Settings(devices=2, tensor_split=[2, 1])).buffers
    assert buffers["GPU0"].weights == _aligned(_KEYS + _PADDING) * 2 + _EXPERTS
    assert buffers["GPU1"].cache == 0  # it has the output alone


def test_context_0_is_the_trained_one(tiny: Model) -> None:
    assert allocate(tiny, Settings(context=0)).n_ctx == 4096


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"type_v": "q8_0", "flash_attention": False}, "values cannot be quantized"),
        ({"type_k": "q9"}, "no type of the cache"),
        ({"parallel": 0}, "parallel"),
        ({"context": 1 << 50}, "context"),
    ],
)
def test_what_llama_cpp_refuses(tiny: Model, settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(PlanError, match=reason):
        allocate(tiny, Settings(**settings))


def test_a_head_that_no_block_divides_has_no_quantized_cache() -> None:
    model = _model({**_TINY, "llama.attention.key_length": 80}, _TENSORS)
    with pytest.raises(PlanError, match="multiple of 32; 80 is none"):
        allocate(model, Settings(type_k="q8_0"))


@pytest.mark.parametrize("key", ["block_count", "attention.head_count", "ssm.state_size"])
def test_a_value_of_the_wrong_type_is_an_error(key: str) -> None:
    with pytest.raises(PlanError, match=key):
        Header.from_model(_model({**_TINY, f"llama.{key}": "many"}, _TENSORS))
