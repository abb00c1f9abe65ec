"""The bound of speed: what a token reads, and how long that takes at least."""

from __future__ import annotations

import json
from dataclasses import replace
from math import prod
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.formats.tensors import Spec
from explorer.hardware.catalogue import MAIN_MEMORY_BANDWIDTH, find_bandwidths, load_catalogue
from explorer.planner import Device
from explorer.planner.devices import CPU
from explorer.planner.engines.llama_cpp.allocation import Settings
from explorer.planner.engines.llama_cpp.reading import read_header, reads
from explorer.planner.folder import Folder
from explorer.planner.speed import REACHED, Bandwidth, SpeedBound, speed_bound, speed_record
from explorer.present import speed as words
from explorer.quantization import TENSOR_TYPES
from tests.planner.log_samples import tiny_model
from tests.planner.models import header_model

RATES = {
    "GPU0": Bandwidth("GPU0", 500 * 10**9, "test"),
    "GPU1": Bandwidth("GPU1", 250 * 10**9, "test"),
    CPU: Bandwidth(CPU, 50 * 10**9, "test"),
}
Q4_K, Q6_K, F32 = 144 / 256, 210 / 256, 4


def bound(settings: Settings, depth: int = 0, experts: int = 0) -> SpeedBound:
    return speed_bound(reads(read_header(tiny_model(experts)), settings, depth), RATES, depth)


def test_a_token_reads_all_weights_but_the_input() -> None:
    blocks = 8 * (512 * 512 + 512 * 1024) * Q4_K
    assert bound(Settings()).reads == {"GPU0": blocks + 512 * 1000 * Q6_K + 512 * F32}


def test_of_experts_it_reads_those_that_are_used() -> None:
    every = bound(Settings(), experts=2).bytes_per_token
    assert bound(Settings(), experts=16).bytes_per_token == every


def test_a_tied_input_is_read_once_as_the_output() -> None:
    metadata = {"general.architecture": "llama", "llama.block_count": 0}
    model = header_model(metadata, [("token_embd.weight", "F16", [512, 1000])])
    for layers, device in ((999, "GPU0"), (0, CPU)):
        held = reads(read_header(model), Settings(gpu_layers=layers), 0)
        found = speed_bound(held, RATES, 0)
        assert found.reads == {device: 512 * 1000 * 2}


def test_times_of_devices_add_up() -> None:
    whole = bound(Settings())
    parts = bound(Settings(devices=2, gpu_layers=6))
    assert set(parts.reads) == {"GPU0", "GPU1", CPU}
    assert parts.bytes_per_token == whole.bytes_per_token
    seconds = sum(parts.reads[name] / (RATES[name].bytes_per_second or 1) for name in parts.reads)
    assert parts.tokens_per_second == pytest.approx(1 / seconds)


@given(st.integers(0, 30_000), st.integers(0, 30_000), st.integers(0, 9))
def test_more_in_the_cache_is_never_faster(a: int, b: int, layers: int) -> None:
    low, high = sorted((a, b))
    first = bound(Settings(gpu_layers=layers), low).tokens_per_second
    second = bound(Settings(gpu_layers=layers), high).tokens_per_second
    assert first is not None
    assert second is not None
    assert second <= first


def test_a_window_caps_the_cache_that_is_read() -> None:
    metadata = {
        "general.architecture": "gemma3",
        "gemma3.block_count": 6,
        "gemma3.embedding_length": 512,
        "gemma3.attention.head_count": 4,
        "gemma3.attention.head_count_kv": 1,
        "gemma3.attention.key_length": 128,
        "gemma3.attention.value_length": 128,
        "gemma3.attention.sliding_window": 512,
        "gemma3.context_length": 32768,
    }
    model = header_model(metadata, [("token_embd.weight", "F16", [512, 100])])
    read = read_header(model)
    near, far = (sum(reads(read, Settings(), depth).values()) for depth in (8192, 16384))
    assert far - near == 8192 * 2 * 128 * 2, "one block of six"


def test_without_a_bandwidth_there_is_no_bound() -> None:
    unknown = {"GPU0": Bandwidth("GPU0", None, "not known")}
    found = speed_bound(reads(read_header(tiny_model()), Settings(), 0), unknown, 0)
    assert found.tokens_per_second is None
    assert speed_record(found, found)["bandwidth"][0]["bytes_per_second"] is None


def test_bandwidths_come_from_the_catalogue_or_the_user() -> None:
    card = load_catalogue().find("RTX 4070").device()
    unnamed = Device("1", "CUDA", 1 << 30)
    found = find_bandwidths([card, unnamed])
    assert found["GPU0"].bytes_per_second == 504 * 10**9
    assert "RTX 4070" in found["GPU0"].origin
    assert found["GPU1"].bytes_per_second is None
    assert found[CPU].bytes_per_second == MAIN_MEMORY_BANDWIDTH
    given_by_user = find_bandwidths([card], {"GPU0": 7, "CPU": 8, "GPU9": 1})
    assert [one.bytes_per_second for one in given_by_user.values()] == [7, 8]
    mac = load_catalogue().find("M3 Max 64GB").device()
    shared = find_bandwidths([mac])
    assert shared[CPU].bytes_per_second == shared["GPU0"].bytes_per_second


def test_real_programs_reach_a_part_of_it_by_kind_of_model() -> None:
    dense = bound(Settings())
    most = dense.tokens_per_second
    assert most is not None
    assert dense.likely == pytest.approx((0.4 * most, 0.95 * most))
    assert replace(dense, kind="experts").likely == pytest.approx((0.25 * most, 0.6 * most))
    drafting = replace(dense, drafted=2)
    assert drafting.likely == pytest.approx((0.4 * most, 3 * 0.95 * most)), "none or all accepted"


def test_published_runs_lie_in_these_ranges(shared_reference: Path) -> None:
    cases = json.loads((shared_reference / "real_plans.json").read_text("utf-8"))["speed"]
    for case in (one for one in cases if "speculation" not in one["what"]):
        has_experts = any(word in case["what"] for word in ("A3B", "gpt-oss"))
        low, high = REACHED["experts" if has_experts else "dense"]
        assert low <= case["ratio"] <= high, case


def test_of_a_folder_a_token_reads_the_experts_that_are_used_and_the_output() -> None:
    config = {"num_hidden_layers": 1, "num_experts": 4, "num_experts_per_tok": 1}
    shapes = {
        "model.embed_tokens.weight": (1000, 8),
        "model.layers.0.self_attn.q_proj.weight": (8, 8),
        "model.layers.0.mlp.gate.weight": (4, 8),
        "model.layers.0.mlp.switch_mlp.up_proj.weight": (4, 16, 8),
        **{f"model.layers.0.mlp.experts.{i}.w1.weight": (8, 4) for i in range(4)},
    }
    layer = 8 * 8 + 4 * 8 + 16 * 8 + 8 * 4
    assert _folder(config, shapes).read_bytes() == [2 * layer, 2 * 8000]  # a tied output
    shapes["lm_head.weight"] = (900, 8)
    assert _folder(config, shapes).read_bytes() == [2 * layer, 2 * 7200]
    unknown = {"num_hidden_layers": 1}
    assert _folder(unknown, shapes).read_bytes()[0] <= 2 * (layer + 3 * 16 * 8), "still a bound"


def _folder(config: dict[str, int], shapes: dict[str, tuple[int, ...]]) -> Folder:
    specs = [Spec(TENSOR_TYPES["BF16"], shape, 0, 2 * prod(shape)) for shape in shapes.values()]
    return Folder(config, list(shapes), specs)


def test_what_a_token_reads_is_told_by_device() -> None:
    first, second = words.speed_details(bound(replace(Settings(), gpu_layers=3)))
    assert first.startswith("GPU 0: ")
    assert "500 GB/s, test" in first
    assert second.startswith("CPU: ")
