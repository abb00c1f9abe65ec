"""Engines that start llama.cpp's server: with which arguments, and what that takes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from explorer.errors import PlanError
from explorer.formats.model import Model
from explorer.planner import Device, Host, Hyperparameters, Settings, plan
from explorer.planner.engines.registry import ENGINES, default_engine
from explorer.planner.folder import Folder
from explorer.planner.plans import Level, Plan
from explorer.planner.settings import SETTINGS
from explorer.present.plan import answer
from tests.planner.models import GIB, MIB, TINY, TINY_TENSORS, header_model, tiny
from tests.planner.plans import check_terms, evaluate, record_of

GPU = Device("0", "CUDA", 8 * GIB, name="NVIDIA L4")
SECOND = Device("1", "CUDA", 4 * GIB)


@pytest.fixture(scope="module")
def h() -> Hyperparameters:
    return tiny()


def planned(
    h: Hyperparameters, profile: str = "llama.cpp", *devices: Device, **settings: Any
) -> Plan:
    return plan(h, Settings(**settings), devices or (GPU,), profile=profile)


record = partial(record_of, part="llama_cpp")


def test_the_server_s_own_choices(h: Hyperparameters) -> None:
    found = record(planned(h))
    asked = planned(h).effective["parallel"]
    assert (asked.value, "4 requests" in asked.origin) == (1, True)  # one person chats
    assert found["n_ctx"] == found["n_ctx_seq"] == 4096  # the trained one: it fits
    assert (found["decided_by"], found["gpu_layers"], found["tensor_split"]) == ("fit", -1, None)
    assert found["arguments"] == [
        *("--ctx-size", "4096", "--parallel", "1", "--no-kv-unified", "--batch-size", "2048"),
        *("--ubatch-size", "512", "--cache-type-k", "f16", "--cache-type-v", "f16"),
        *("--flash-attn", "auto", "--n-gpu-layers", "all"),
    ]
    assert found["buffers"]["GPU0"]["reserve_low"] == 73 * MIB
    assert found["buffers"]["GPU0"]["reserve"] == 703 * MIB
    keys = {
        *("weights", "cache", "compute", "compute_low", "compute_high", "reserve"),
        "reserve_low",
        *("draft", "draft_parts", "projector", "projector_compute", "lora"),
    }
    assert all(set(buffer) == keys for buffer in found["buffers"].values())


def test_what_is_asked_for_is_not_decided(h: Hyperparameters) -> None:
    found = record(
        planned(h, context=2000, parallel=2, num_gpu=2, ubatch=128, batch=256, kv_cache_type="q8_0")
    )
    assert (found["decided_by"], found["gpu_layers"]) == ("you", 2)
    assert (found["n_ctx"], found["n_ctx_seq"]) == (2048, 1024)
    words = " ".join(found["arguments"])
    assert "--ctx-size 2048 --parallel 2 --no-kv-unified --batch-size 256" in words
    assert "--ubatch-size 128 --cache-type-k q8_0 --cache-type-v q8_0" in words
    assert words.endswith("--n-gpu-layers 2")


def test_an_open_context_is_lowered_for_a_placement_that_was_asked_for(h: Hyperparameters) -> None:
    model = replace(h, llama_cpp=_with_context(h, 1 << 22))
    found = record(planned(model, "llama.cpp", num_gpu=3))
    assert found["decided_by"] == "fit"
    assert 4096 < found["n_ctx"] < 1 << 22
    assert found["arguments"][-2:] == ["--n-gpu-layers", "all"]


def _with_context(h: Hyperparameters, tokens: int) -> Any:
    assert not isinstance(h.llama_cpp, str)
    return replace(h.llama_cpp, trained_context=tokens)


def test_ollama_states_the_number_of_sequences_and_one_batch(h: Hyperparameters) -> None:
    found = record(planned(h, "ollama", context=1024, parallel=2, batch=64))
    assert (found["n_ctx"], found["n_ctx_seq"]) == (2048, 1024)
    words = " ".join(found["arguments"])
    assert "--parallel 2 --no-kv-unified --batch-size 64 --ubatch-size 64" in words
    variables = {"OLLAMA_KV_CACHE_TYPE": "q8_0", "OLLAMA_FLASH_ATTENTION": "1"}
    made = plan(h, Settings(context=1024), (GPU,), environment=variables, profile="ollama")
    assert "--cache-type-k q8_0 --cache-type-v q8_0" in " ".join(record(made)["arguments"])
    off = {**variables, "OLLAMA_FLASH_ATTENTION": "0"}
    with pytest.raises(PlanError, match="values cannot be quantized"):
        plan(h, Settings(context=1024), (GPU,), environment=off, profile="ollama")


def test_llama_cpp_reads_none_of_ollama_s_variables(h: Hyperparameters) -> None:
    variables = {"OLLAMA_KV_CACHE_TYPE": "q8_0", "OLLAMA_CONTEXT_LENGTH": "1024"}
    made = plan(h, Settings(), (GPU,), environment=variables, profile="llama.cpp")
    assert record(made)["n_ctx"] == 4096
    assert made.used("kv_cache_type") == "f16"


def test_gpus_share_by_free_memory_and_each_has_its_reserve(h: Hyperparameters) -> None:
    second = replace(SECOND, reserve=2 * GIB)
    found = record(planned(h, "llama.cpp", GPU, second, context=4096, num_gpu=3, reserve=GIB))
    assert [found["buffers"][name]["reserve"] for name in ("GPU0", "GPU1")] == [GIB, 2 * GIB]
    assert "--tensor-split 2,1" in " ".join(found["arguments"])
    one = record(planned(h, "llama.cpp", GPU, SECOND, context=4096, split_mode="none"))
    assert "GPU1" not in one["buffers"]
    assert "--split-mode none" in " ".join(one["arguments"])


def test_integrated_gpus_are_left_out_where_there_are_others(h: Hyperparameters) -> None:
    shared = Device("0", "Vulkan", 16 * GIB, integrated=True)
    assert len(planned(h, "llama.cpp", shared, GPU).gpus) == 1
    assert len(planned(h, "llama.cpp", shared).gpus) == 1


@pytest.mark.parametrize("profile", ["llama.cpp", "ollama"])
@pytest.mark.parametrize(
    "settings", [{}, {"num_gpu": 2}, {"num_gpu": 0}, {"cpu_moe_layers": 2}, {"offload_kv": False}]
)
def test_every_formula_gives_its_figure(
    h: Hyperparameters, profile: str, settings: dict[str, Any]
) -> None:
    for devices in ((GPU,), (GPU, SECOND)):
        made = planned(h, profile, *devices, projector_bytes=MIB, **settings)
        check_terms(made)


_NO_QUANTIZED_CACHE = ("grok-moe", "laguna-moe")
"""The first knows no flash attention, and no block divides the second's heads."""


@pytest.mark.parametrize("settings", [{}, {"num_gpu": 3, "cache_type_k": "q4_0"}, {"parallel": 3}])
def test_the_formula_of_every_cache_gives_its_figure(
    families: dict[str, Any], settings: dict[str, Any]
) -> None:
    """Also of indexers, states, windows and what DeepSeek V4 keeps; on GPUs and on the host."""
    settings = settings | {"context": 4096, "flash_attention": True, "kv_unified": False}
    if "cache_type_k" in settings:
        settings["cache_type_v"] = settings["cache_type_k"]
    for name, described in families["models"].items():
        h = Hyperparameters.from_model(header_model(described["metadata"], described["tensors"]))
        if "cache_type_k" in settings and name in _NO_QUANTIZED_CACHE:
            with pytest.raises(PlanError):
                planned(h, **settings)
            continue
        made = planned(h, **settings)
        terms = [term for term in made.terms if term.name.startswith("kv_cache.per_layer")]
        assert terms, name
        for term in terms:
            assert evaluate(term) == term.value, (name, term)


@pytest.mark.parametrize(
    ("settings", "free", "level", "words"),
    [
        ({}, 8 * GIB, Level.FITS, "Fits: 3 of 3 layers on L4"),
        ({"num_gpu": 1, "context": 512}, 8 * GIB, Level.PARTLY, "2 of 3 layers stay on the CPU"),
        ({"num_gpu": 2, "context": 512}, 8 * GIB, Level.PARTLY, "1 of 3 layers stays on the CPU"),
        ({"cpu_moe_layers": 2, "context": 512}, 8 * GIB, Level.PARTLY, "experts of 1 of 3 layers"),
        ({"offload_kv": False}, 8 * GIB, Level.PARTLY, "the KV cache stays on the CPU"),
        ({"num_gpu": 3, "context": 512}, 512 * MIB, Level.PARTLY, "Should fit: it depends on how"),
        ({"num_gpu": 3, "context": 512}, 60 * MIB, Level.NOT, "too much for L4"),
        ({"num_gpu": 0, "context": 512}, 8 * GIB, Level.NOT, "all 3 layers stay on the CPU"),
    ],
)
def test_a_verdict(
    h: Hyperparameters, settings: dict[str, Any], free: int, level: Level, words: str
) -> None:
    found = answer(planned(h, "llama.cpp", replace(GPU, free=free), **settings))
    assert found.level is level
    assert words in found.sentence


def test_without_a_gpu_all_is_in_main_memory(h: Hyperparameters) -> None:
    made = plan(h, Settings(context=512), (), host=Host(8 * GIB), profile="llama.cpp")
    assert made.gpu_layers == 0
    assert made.vram_total == 0
    assert "Runs on the CPU" in answer(made).sentence
    small = plan(h, Settings(context=512), (), host=Host(1), profile="llama.cpp")
    assert "too much for main memory" in answer(small).sentence


def test_engines_are_found_by_name() -> None:
    folders, others = ["vllm", "mlx", "transformers"], ["ik_llama.cpp", "ollama-graphsize"]
    assert list(ENGINES) == ["llama.cpp", "ollama", "ollama-mlx", *folders, *others]
    with pytest.raises(PlanError, match="ollama-graphsize"):
        plan(Hyperparameters(), profile="ollama-0.30")
    known = {setting.name for setting in SETTINGS}
    for name, engine in ENGINES.items():
        assert engine.name == name
        own = {setting.name for setting in engine.settings}
        assert own <= known


def test_what_is_no_gguf_file_is_refused_and_planned_otherwise() -> None:
    other = Hyperparameters(folder=Folder({"model_type": "new", "num_hidden_layers": 2}, (), ()))
    assert default_engine(other).name == "transformers"
    for name in ("llama.cpp", "ollama", "ollama-graphsize"):
        refusal = ENGINES[name].refusal(other)
        assert refusal.endswith("GGUF files")
        with pytest.raises(PlanError):
            plan(other, profile=name)


def test_the_default_is_what_runs_a_model_where_it_was_found(h: Hyperparameters) -> None:
    assert default_engine(h).name == "llama.cpp"
    named = header_model({**TINY, "ollama.name": "tiny:latest"}, TINY_TENSORS)
    assert default_engine(Hyperparameters.from_model(named)).name == "ollama"
    blob: Model = replace(named, path=named.path / "blobs" / ("sha256-" + "0" * 64))
    assert default_engine(Hyperparameters.from_model(blob)).name == "ollama"


@pytest.mark.parametrize(
    "settings",
    [
        *({"split_mode": "row"}, {"tensor_split": (0, 0)}, {"tensor_split": (float("nan"), 1)}),
        *({"tensor_split": "1,2"}, {"tensor_split": (10**400,)}, {"ubatch": 0}, {"reserve": -1}),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, Any]) -> None:
    with pytest.raises(PlanError):
        Settings(**settings)
