"""What llama.cpp allocates: equal to the byte with what its own code computes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.errors import PlanError
from explorer.formats.model import Model
from explorer.planner.engines.llama_cpp import compute
from explorer.planner.engines.llama_cpp.allocation import Allocation, Settings, allocate
from explorer.planner.engines.llama_cpp.architectures import ARCHITECTURES
from explorer.planner.engines.llama_cpp.graph import UnknownGraphError, made
from explorer.planner.engines.llama_cpp.header import Header
from tests.planner.models import DATA, TINY, TINY_TENSORS, header_model, packed


class _Golden:
    def __init__(self, path: Path) -> None:
        self._content = packed(path)
        self.cases: list[dict[str, Any]] = self._content["cases"]
        self.names = sorted(self._content["models"])

    @cache  # noqa: B019 - one object a session
    def header(self, name: str) -> Header:
        described = self._content["models"][name]
        metadata = {
            key: range(value["count"]) if isinstance(value, dict) else value
            for key, value in described["metadata"].items()
        }
        return Header.from_model(header_model(metadata, described["tensors"]))


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


def test_what_llama_cpp_refuses_is_refused(golden: _Golden) -> None:
    refused = [case for case in golden.cases if case.get("error")]
    assert refused
    for case in refused:
        with pytest.raises(PlanError):
            allocate(golden.header(case["model"]), Settings(**case["settings"]))


def _circumstance(settings: Mapping[str, Any]) -> str:
    """Return what is special about a case's settings."""
    special = {
        "without flash attention": not settings["flash_attention"],
        "quantized cache": settings["type_k"] != "f16",
        "experts on the CPU": settings.get("cpu_moe_layers", 0) > 0,
        "cache on the CPU": not settings.get("offload_kv", True),
        "several GPUs": settings["devices"] > 1,
        "no GPU": settings["devices"] == 0,
        "some layers on the CPU": settings["gpu_layers"] != 999,
        "several sequences": settings["parallel"] > 1,
    }
    return next((name for name, is_so in special.items() if is_so), "one GPU")


_GPUS = {
    "one GPU": 279,
    "several sequences": 124,
    "without flash attention": 155,
    "quantized cache": 90,
    "some layers on the CPU": 217,
    "cache on the CPU": 31,
    "several GPUs": 310,
    "experts on the CPU": 54,
    "no GPU": 0,
}
"""How many GPUs the golden cases have in each circumstance."""


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_is_fused")
@pytest.mark.parametrize("circumstance", _GPUS)
def test_buffers_equal_llama_cpp_s(golden: _Golden, circumstance: str) -> None:
    gpus = 0
    for case in golden.cases:
        if case.get("error") or _circumstance(case["settings"]) != circumstance:
            continue
        allocation = allocate(golden.header(case["model"]), Settings(**case["settings"]))
        assert (allocation.n_ctx, allocation.n_ctx_seq) == (case["n_ctx"], case["n_ctx_seq"])
        assert _found(allocation) == _expected(case), case["id"]
        assert allocation.accuracy == "exact"
        for name, (_, _, expected) in case["memory"].items():
            if name == "CPU_mapped":
                assert expected == 0
                continue
            assert (allocation.buffers[name].compute or 0) == expected, case["id"]
            gpus += name.startswith("GPU")
    assert gpus >= _GPUS[circumstance]


_CIRCUMSTANCES = (
    *("a short context", "two sequences", "no flash attention", "a q8_0 cache", "an f32 cache"),
    *("3 layers on a GPU", "the cache on the CPU", "4 layers on two GPUs", "a unified cache"),
    *("a q4_0 cache on the CPU", "no GPU", "experts on the CPU"),
)


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_is_fused")
@pytest.mark.parametrize("circumstance", _CIRCUMSTANCES)
def test_every_architecture_is_planned_as_llama_cpp_allocates(
    families: dict[str, Any], circumstance: str
) -> None:
    """Weights, caches and contexts to the byte; compute within 1 % where it is called exact."""
    settings = Settings(**families["settings"][circumstance])
    planned = 0
    for name, of_model in families["cases"].items():
        if circumstance not in of_model:
            continue  # llama.cpp ends there with a failed assertion
        model = header_model(
            families["models"][name]["metadata"], families["models"][name]["tensors"]
        )
        if of_model[circumstance] is None:
            with pytest.raises(PlanError):
                allocate(model, settings)
            continue
        n_ctx, n_ctx_seq, expected = of_model[circumstance]
        allocation = allocate(model, settings)
        assert (allocation.n_ctx, allocation.n_ctx_seq) == (n_ctx, n_ctx_seq), name
        for place in ("host", *(f"GPU{i}" for i in range(settings.devices))):
            held = [
                one
                for key, one in allocation.buffers.items()
                if key == place or (place == "host" and not key.startswith("GPU"))
            ]
            weights, cached, compute_bytes = expected.get(place, (0, 0, 0))
            assert sum(one.weights for one in held) == weights, (name, place)
            assert sum(one.cache for one in held) == cached, (name, place)
            if allocation.accuracy == "exact":
                found = sum(one.compute or 0 for one in held)
                assert found == pytest.approx(compute_bytes, rel=0.01), (name, place)
        planned += 1
    assert planned > 130


def test_figures_that_are_called_exact_were_tried(
    golden: _Golden, families: dict[str, Any]
) -> None:
    of_families = (one["metadata"]["general.architecture"] for one in families["models"].values())
    tried = {*of_families, *(golden.header(name).architecture for name in golden.names)}
    tried |= {"step35", "gemma3n"}  # of `test_contexts`, `test_backends`
    assert {name for name, row in ARCHITECTURES.items() if row.accuracy == "exact"} <= tried


_ANY = st.fixed_dictionaries(
    {
        "context": st.integers(1, 100_000),
        "parallel": st.sampled_from([1, 2, 5, 40]),
        "ubatch": st.sampled_from([1, 16, 512, 2048]),
        "gpu_layers": st.one_of(st.just(999), st.integers(0, 60)),
        "flash_attention": st.booleans(),
        "kv_unified": st.booleans(),
        "devices": st.integers(0, 3),
        "cpu_moe_layers": st.sampled_from([0, 0, 5]),
        "offload_kv": st.sampled_from([True, True, False]),
        "overrides": st.sampled_from(
            [(), ((r"blk\.(1|3)\.ffn_", "CPU"),), (("token_embd", "CPU"), (r"attn_", "CPU"))]
        ),
    }
)


def test_of_like_blocks_and_of_like_groups_the_first_few_are_built() -> None:
    assert compute.blocks_to_build("a" * 40) == [0, 1, 2, 3]
    assert compute.blocks_to_build("a" * 41 + "b") == [0, 1, 2, 3, 4, 41]
    assert compute.blocks_to_build("x" + "aab" * 20) == list(range(13))
    assert compute.blocks_to_build("abcdef") == list(range(6))


@given(data=st.data(), settings=st.builds(dict, _ANY))
def test_few_of_the_blocks_that_are_alike_take_as_much_as_all(
    golden: _Golden, monkeypatch: pytest.MonkeyPatch, data: st.DataObject, settings: dict[str, Any]
) -> None:
    header = golden.header(data.draw(st.sampled_from(golden.names)))
    found = allocate(replace(header), Settings(**settings))
    with monkeypatch.context() as patched:
        patched.setattr(compute, "blocks_to_build", lambda kinds: list(range(len(kinds))))
        whole = allocate(replace(header), Settings(**settings))
    assert found.buffers == whole.buffers


_BY_WIDTHS = {"cohere2": (5, 3), "llama4": (5, 3), "phi2": (5, 1), "starcoder2": (4, 1)}
"""Architecture → how often embedding and network count; else 4 and 3 (docs/planner.md)."""


_REGULAR = (
    *("llama3-8b", "llama3-70b", "mixtral-8x7b", "mistral-7b", "qwen2-7b", "qwen3-32b"),
    *("qwen3-30b-a3b", "gpt-oss-20b", "gemma2-9b", "gemma3-27b", "phi3-mini", "jamba-mini"),
    *("command-r-35b", "olmo2-7b", "granite3-8b", "glm4-9b", "qwen2moe-57b", "lfm2-1.2b"),
    *("cohere2-7b", "llama4-scout", "phi2-2.7b", "starcoder2-7b"),
)


@given(
    data=st.data(), context=st.integers(128, 200_000), ubatch=st.sampled_from([128, 256, 512, 1024])
)
def test_one_gpu_needs_masks_and_a_multiple_of_its_widths(
    golden: _Golden, data: st.DataObject, context: int, ubatch: int
) -> None:
    header = golden.header(data.draw(st.sampled_from(_REGULAR)))
    allocation = allocate(header, Settings(context=context, ubatch=ubatch))
    tokens = min(context, ubatch)  # before the context is rounded up
    masks = 2 * allocation.n_ctx_seq * tokens
    if any(header.windowed):
        seen = min(allocation.n_ctx_seq, header.window + tokens)
        masks += 2 * -(-seen // 256) * 256 * tokens
    ffn = "ffn_down_exps.weight" if header.experts_used else "ffn_down.weight"
    f = max(block[ffn].extent[0] for block in header.block_weights if ffn in block)
    e, used = header.embedding, max(header.experts_used, 1)
    a, b = _BY_WIDTHS.get(header.architecture, (4, 3))
    rows = max(a * e + b * f * used, (5 + 2 * used) * e if header.experts_used > 1 else 0)
    compute_bytes = allocation.buffers["GPU0"].compute
    assert compute_bytes == pytest.approx(masks + 4 * tokens * rows, rel=1e-3)


def _qwen2_half_billion() -> Model:
    """Return Qwen2.5-0.5B in Q4_K_M as far as memory goes: 24 equal blocks."""
    a = "qwen2"
    width, hidden, kv = 896, 4864, 128
    metadata = {
        "general.architecture": a,
        f"{a}.block_count": 24,
        f"{a}.embedding_length": width,
        f"{a}.context_length": 32768,
        f"{a}.attention.head_count": 14,
        f"{a}.attention.head_count_kv": 2,
    }
    tensors: list[tuple[str, str, list[int]]] = [
        ("token_embd.weight", "Q5_0", [width, 151936]),
        ("output.weight", "Q8_0", [width, 151936]),
        ("output_norm.weight", "F32", [width]),
    ]
    for i in range(24):
        tensors += [
            (f"blk.{i}.attn_norm.weight", "F32", [width]),
            (f"blk.{i}.attn_q.weight", "Q5_0", [width, width]),
            (f"blk.{i}.attn_k.weight", "Q5_0", [width, kv]),
            (f"blk.{i}.attn_v.weight", "Q8_0", [width, kv]),
            (f"blk.{i}.attn_q.bias", "F32", [width]),
            (f"blk.{i}.attn_k.bias", "F32", [kv]),
            (f"blk.{i}.attn_v.bias", "F32", [kv]),
            (f"blk.{i}.attn_output.weight", "Q5_0", [width, width]),
            (f"blk.{i}.ffn_norm.weight", "F32", [width]),
            (f"blk.{i}.ffn_gate.weight", "Q5_0", [width, hidden]),
            (f"blk.{i}.ffn_up.weight", "Q5_0", [width, hidden]),
            (f"blk.{i}.ffn_down.weight", "Q6_K", [hidden, width]),
        ]
    return header_model(metadata, tensors)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"context": 4096}, {"GPU0": 41433216, "host": 11552800}),
        ({"ubatch": 2048}, {"GPU0": 283172992, "host": 163651616}),
        ({"context": 16384, "parallel": 2}, {"GPU0": 45627520, "host": 15747104}),
        ({"flash_attention": False}, {"GPU0": 1016342656, "host": 74987552}),
        ({"type_k": "q8_0", "type_v": "q8_0"}, {"GPU0": 70826112, "host": 40945696}),
        ({"gpu_layers": 8}, {"GPU0": 81268736, "host": 40912928}),
        ({"devices": 0, "gpu_layers": 0}, {"CPU": 72632352}),
        ({"offload_kv": False}, {"GPU0": 79435776, "host": 40912928}),
        ({"devices": 2}, {"GPU0": 193519616, "GPU1": 176988672, "host": 152641664}),
        ({"devices": 2, "gpu_layers": 12}, {"GPU0": 81268736, "GPU1": 67119232, "host": 40912928}),
    ],
)
def test_compute_buffers_of_a_small_model(
    settings: dict[str, Any], expected: dict[str, int]
) -> None:
    allocation = allocate(_qwen2_half_billion(), Settings(**{"context": 32768, **settings}))
    found = {name: allocation.buffers[name].compute for name in expected}
    assert found == expected


def test_an_unknown_architecture_has_a_figure_and_wide_limits() -> None:
    known = _qwen2_half_billion()
    metadata = {"general.architecture": "new"} | {
        key.replace("qwen2", "new"): known.metadata[key]
        for key in known.metadata
        if key.startswith("qwen2.")
    }
    rows = known.tensors.columns
    described = [
        (name, kind.name, list(reversed(shape)))
        for name, kind, shape in zip(rows.names, rows.types, rows.shapes, strict=True)
    ]
    allocation = allocate(header_model(metadata, described), Settings())
    gpu = allocation.buffers["GPU0"]
    assert allocation.accuracy == "unknown architecture"
    assert gpu.compute == allocate(known, Settings()).buffers["GPU0"].compute
    assert gpu.compute is not None
    assert gpu.compute_low is not None
    assert gpu.compute_high is not None
    assert gpu.compute_low < 0.8 * gpu.compute < 1.2 * gpu.compute < gpu.compute_high


def test_an_architecture_that_is_not_within_1_per_cent_everywhere_has_a_band() -> None:
    metadata = {key.replace("llama", "eurobert"): value for key, value in TINY.items()}
    metadata["general.architecture"] = "eurobert"
    tensors = [
        *TINY_TENSORS[:2],
        *(
            (f"blk.{i}.{name}.weight", "F16", list(extent))
            for i in range(2)
            for extent, names in {
                (256, 256): ("attn_q", "attn_output"),
                (256, 128): ("attn_k", "attn_v"),
                (256, 512): ("ffn_up", "ffn_gate"),
                (512, 256): ("ffn_down",),
            }.items()
            for name in names
        ),
    ]
    allocation = allocate(header_model(metadata, tensors), Settings())
    gpu = allocation.buffers["GPU0"]
    assert allocation.accuracy == "band"
    assert gpu.compute is not None
    assert gpu.compute_low == gpu.compute * 90 // 100


def test_a_graph_that_is_not_known_has_limits_alone() -> None:
    gpu = allocate(header_model(TINY, TINY_TENSORS), Settings()).buffers[
        "GPU0"
    ]  # there are no queries
    assert (gpu.compute, gpu.compute_low) == (None, 0)
    assert gpu.compute_high


_BLOCK_WEIGHTS = (
    *("attn_norm", "attn_q", "attn_k", "attn_v", "attn_qkv", "attn_output", "ffn_norm", "ffn_up"),
    *("ffn_gate", "ffn_down", "ffn_gate_inp", "ffn_up_exps", "ffn_gate_exps", "ffn_down_exps"),
    *("ssm_in", "ssm_conv1d", "ssm_x", "ssm_dt", "ssm_out", "ssm_ba", "ssm_norm", "attn_q_norm"),
    *("attn_kv_a_mqa", "attn_k_b", "attn_v_b", "shortconv.in_proj", "shortconv.conv", "attn_gate"),
)


@st.composite
def _damaged_models(draw: st.DrawFn) -> Model:
    """Make a model whose header and weights do not fit one another."""
    a = draw(st.sampled_from([*ARCHITECTURES, "new"]))
    small = st.integers(0, 300)
    metadata: dict[str, Any] = {"general.architecture": a, f"{a}.block_count": 3}
    for key in (
        *("embedding_length", "context_length", "expert_used_count", "expert_group_count"),
        *("attention.head_count", "attention.head_count_kv", "attention.sliding_window"),
        *("attention.key_length", "attention.key_length_mla", "rope.dimension_count"),
        *("ssm.conv_kernel", "ssm.inner_size", "ssm.state_size", "ssm.group_count"),
        *("ssm.time_step_rank", "shortconv.l_cache"),
    ):
        if draw(st.booleans()):
            metadata[f"{a}.{key}"] = draw(small)
    names = [f"blk.{i}.{name}" for i in range(3) for name in _BLOCK_WEIGHTS]
    held = draw(st.lists(st.sampled_from(names), unique=True)) if draw(st.booleans()) else names
    sizes = st.lists(st.integers(1, 300), min_size=1, max_size=3)
    extents = {name.split(".", 2)[2]: draw(sizes) for name in names}
    tensors = [("token_embd.weight", "F32", [draw(st.integers(1, 300)), 7])]
    tensors += [(f"{name}.weight", "F32", extents[name.split(".", 2)[2]]) for name in held]
    tensors += [(f"{name}.bias", "F32", [8]) for name in held if "ssm" in name]
    tensors += [(f"blk.{i}.ssm_{one}", "F32", [8]) for i in range(3) for one in "ad"]
    return header_model(metadata, tensors)


@given(
    _damaged_models(),
    st.builds(
        Settings,
        context=st.integers(1, 5000),
        parallel=st.integers(1, 9),
        ubatch=st.integers(1, 600),
        gpu_layers=st.integers(0, 5),
        flash_attention=st.booleans(),
        kv_unified=st.booleans(),
        devices=st.integers(0, 3),
        cpu_moe_layers=st.integers(0, 3),
        offload_kv=st.booleans(),
    ),
)
def test_a_damaged_header_has_limits_or_a_clear_error(model: Model, settings: Settings) -> None:
    try:
        allocation = allocate(model, settings)
    except PlanError:
        return
    for name in (
        *(f"GPU{i}" for i in range(settings.devices)),
        "host" if settings.devices else "CPU",
    ):
        buffer = allocation.buffers[name]
        assert buffer.compute_low is not None
        assert buffer.compute_high is not None
        size = buffer.compute_high if buffer.compute is None else buffer.compute
        assert 0 <= buffer.compute_low <= size <= buffer.compute_high


@pytest.mark.parametrize("extent", [(-1, 4), (4, -1), (4, 1, -3), (-2, -2)])
def test_no_tensor_of_a_graph_has_a_negative_extent(extent: tuple[int, ...]) -> None:
    with pytest.raises(UnknownGraphError):
        made("add", extent)


_EMBEDDING, _KEYS, _EXPERTS = 100 * 8 * 34, 128 * 8 * 34, 256 * 512 * 2 * 2
_ROUTER = 256 * 2 * 4
_PADDING = 8 * 34  # rows of 256 weights are filled up to 512


@pytest.fixture
def tiny() -> Model:
    return header_model(TINY, TINY_TENSORS)


def _aligned(size: int) -> int:
    return -(-size // 128) * 128


def test_all_layers_on_one_gpu(tiny: Model) -> None:
    gpu = allocate(tiny, Settings(context=1000, parallel=2)).buffers["GPU0"]
    # a tied output: the embedding is held on both sides
    tensors = (_EMBEDDING + _PADDING, 256 * 4, _KEYS + _PADDING, _KEYS + _PADDING, _EXPERTS)
    assert gpu.weights == sum(map(_aligned, tensors)) + _ROUTER
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
    assert buffers["GPU0"].weights == _aligned(_KEYS + _PADDING) * 2 + _EXPERTS + _ROUTER
    assert buffers["GPU1"].cache == 0  # it has the output alone


def test_context_0_is_the_trained_one(tiny: Model) -> None:
    assert allocate(tiny, Settings(context=0)).n_ctx == 4096


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"type_v": "q8_0", "flash_attention": False}, "values cannot be quantized"),
        ({"type_k": "q9"}, "not a type of the cache"),
        ({"parallel": 0}, "parallel"),
        ({"context": 1 << 50}, "context"),
    ],
)
def test_what_llama_cpp_refuses(tiny: Model, settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(PlanError, match=reason):
        allocate(tiny, Settings(**settings))


def test_a_head_that_no_block_divides_has_no_quantized_cache() -> None:
    model = header_model({**TINY, "llama.attention.key_length": 80}, TINY_TENSORS)
    with pytest.raises(PlanError, match="multiple of 32 values, not of 80"):
        allocate(model, Settings(type_k="q8_0"))


@pytest.mark.parametrize("key", ["block_count", "attention.head_count", "ssm.state_size"])
def test_a_value_of_the_wrong_type_is_an_error(key: str) -> None:
    with pytest.raises(PlanError, match=key):
        Header.from_model(header_model({**TINY, f"llama.{key}": "many"}, TINY_TENSORS))


@pytest.mark.parametrize(
    ("family", "build", "same"),
    [
        ("llama", 6000, {"kv_unified": True}),
        ("gemma3", 6000, {"kv_unified": True}),
        ("gemma3", 5000, {"kv_unified": True, "swa_full": True}),
    ],
)
def test_older_builds_have_one_cache_for_all_and_before_that_no_windows(
    family: str, build: int, same: dict[str, Any]
) -> None:
    made = packed(DATA / "llama_cpp_families.json.gz")["models"][family]
    header = Header.from_model(header_model(made["metadata"], made["tensors"]))
    asked = Settings(context=16_384, parallel=4, flash_attention=False, build=build)
    found = allocate(header, asked)
    assert found == allocate(header, replace(asked, **same))
    newer = allocate(header, replace(asked, build=6097))
    assert (newer.buffers["GPU0"].compute or 0) < (found.buffers["GPU0"].compute or 0)
