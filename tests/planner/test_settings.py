"""From the request to what holds: each step of docs/planner.md, section 3, with its reason."""

from __future__ import annotations

from typing import Any

import pytest

from explorer.errors import PlanError
from explorer.planner import Device, Settings, effective_settings
from explorer.planner.engines.ollama_013.settings import EffectiveSettings
from tests.planner.models import GIB, small_model

CUDA = Device("0", "CUDA", 24 * GIB, driver_major=12, compute=(8, 6))


def reason(e: EffectiveSettings, name: str) -> str:
    """Return why a setting is not as requested."""
    return e.differences[name].reason


@pytest.mark.parametrize(
    ("settings", "own", "environment", "context", "origin"),
    [
        (Settings(context=5000), 6000, {"OLLAMA_CONTEXT_LENGTH": "7000"}, 5000, "setting context"),
        (Settings(), 6000, {"OLLAMA_CONTEXT_LENGTH": "7000"}, 6000, "own parameter"),
        (Settings(), None, {"OLLAMA_CONTEXT_LENGTH": "7000"}, 7000, "OLLAMA_CONTEXT_LENGTH"),
        (Settings(), None, {"OLLAMA_CONTEXT_LENGTH": "many"}, 4096, "default 4096"),
        (Settings(), None, {}, 4096, "default 4096"),
    ],
)
def test_the_context_comes_from_the_first_that_says_one(
    settings: Settings, own: int | None, environment: dict[str, str], context: int, origin: str
) -> None:
    from dataclasses import replace

    h = replace(small_model(), own_context=own)
    e = effective_settings(h, settings, [], environment)
    assert e.context == context
    assert origin in e.origins["context"]
    assert not e.differences


def test_the_trained_context_is_the_most() -> None:
    e = effective_settings(small_model(context_length=1000), Settings(context=4096))
    assert (e.context, e.batch) == (1000, 512)
    assert "trained for 1,000 tokens (llama.context_length)" in reason(e, "context")
    assert e.differences["context"].asked == 4096


@pytest.mark.parametrize(
    ("keys", "devices", "asked", "context"),
    [
        ({}, [CUDA], 0, 4),
        ({"vision__block_count": 2}, [CUDA], 100, 2048),
        ({"vision__block_count": 2, "context_length": 1024}, [CUDA], 100, 1024),
    ],
)
def test_the_least_contexts(
    keys: dict[str, Any], devices: list[Device], asked: int, context: int
) -> None:
    e = effective_settings(small_model(**keys), Settings(context=asked), devices, server_rules=True)
    assert e.context == context
    assert reason(e, "context")


@pytest.mark.parametrize("family", ["gptoss", "gpt-oss", "qwen3vl", "qwen3vlmoe"])
def test_some_families_have_8192_tokens_where_there_is_memory(family: str) -> None:
    h = small_model(family)
    large = [Device("0", "CUDA", GIB, total=12 * GIB), Device("1", "CUDA", 8 * GIB)]
    assert effective_settings(h, Settings(context=4096), large, server_rules=True).context == 8192
    assert (
        effective_settings(h, Settings(context=4096), large[:1], server_rules=True).context == 4096
    )
    assert effective_settings(h, Settings(context=9000), large, server_rules=True).context == 9000
    assert effective_settings(h, Settings(), large).context == 8192
    assert effective_settings(h, Settings(context=4096), large).context == 4096, "as the loader"


def test_a_projector_makes_a_model_see() -> None:
    e = effective_settings(
        small_model(), Settings(context=100, projector_bytes=5), server_rules=True
    )
    assert e.context == 2048


@pytest.mark.parametrize(("asked", "batch"), [(None, 512), (0, 512), (100, 100), (9999, 4096)])
def test_the_batch_is_no_longer_than_the_context(asked: int | None, batch: int) -> None:
    assert effective_settings(small_model(), Settings(batch=asked)).batch == batch


def test_parallel_sequences() -> None:
    h = small_model()
    assert effective_settings(h, Settings()).parallel == 1
    assert effective_settings(h, Settings(), [], {"OLLAMA_NUM_PARALLEL": "3"}).parallel == 3
    assert (
        effective_settings(h, Settings(parallel=2), [], {"OLLAMA_NUM_PARALLEL": "3"}).parallel == 2
    )
    assert effective_settings(h, Settings(parallel=0)).parallel == 1
    for one in (small_model(pooling_type=1), small_model("mllama"), small_model("qwen3vl")):
        e = effective_settings(one, Settings(parallel=4), server_rules=True)
        assert e.parallel == 1
        assert "one request" in reason(e, "parallel")


@pytest.mark.parametrize(
    ("architecture", "request_", "variable", "on"),
    [
        ("llama", None, None, False),
        ("llama", None, "1", True),
        ("llama", None, "yes", True),  # any other text counts as true
        ("llama", None, "", False),
        ("llama", True, "0", True),
        ("gemma3", None, None, True),
        ("gemma3", None, "False", False),
        ("gemma3", False, "1", False),
        ("gemma2", True, None, False),
    ],
)
def test_flash_attention(
    architecture: str, request_: bool | None, variable: str | None, on: bool
) -> None:
    environment = {} if variable is None else {"OLLAMA_FLASH_ATTENTION": variable}
    e = effective_settings(
        small_model(architecture), Settings(flash_attention=request_), [CUDA], environment
    )
    assert e.flash_attention is on


@pytest.mark.parametrize(
    ("device", "supported"),
    [
        (Device("0", "Metal", GIB), True),
        (Device("0", "ROCm", GIB), True),
        (Device("0", "Vulkan", GIB), True),
        (Device("0", "oneAPI", GIB), False),
        (Device("0", "CUDA", GIB), True),
        (Device("0", "CUDA", GIB, driver_major=6), False),
        (Device("0", "CUDA", GIB, driver_major=7, compute=(7, 2)), False),
        (Device("0", "CUDA", GIB, driver_major=7, compute=(7, 5)), True),
    ],
)
def test_one_gpu_without_flash_attention_turns_it_off(device: Device, supported: bool) -> None:
    devices = [Device("9", "CUDA", GIB), device]
    e = effective_settings(small_model(), Settings(flash_attention=True), devices)
    assert e.flash_attention is supported
    assert supported or device.key in reason(e, "flash_attention")


@pytest.mark.parametrize(
    "keys",
    [
        {"pooling_type": 1},
        {"attention__key_length": 192, "attention__value_length": 128},
        {"attention__key_length": 0, "attention__value_length": 0},
    ],
)
def test_models_without_flash_attention(keys: dict[str, Any]) -> None:
    e = effective_settings(small_model(**keys), Settings(flash_attention=True), [CUDA])
    assert not e.flash_attention
    assert reason(e, "flash_attention")


@pytest.mark.parametrize(
    ("asked", "variable", "flash_attention", "effective"),
    [
        ("q8_0", None, True, "q8_0"),
        ("Q4_0", None, True, "q4_0"),
        ("q8_0", None, False, "f16"),
        (None, "Q8_0", True, "q8_0"),
        (None, "q5_1", True, "f16"),
        (None, "f32", True, "f16"),  # no choice that a server accepts
        ("f32", None, False, "f32"),  # but a what-if
        (None, None, True, "f16"),
        ("f16", "q8_0", True, "f16"),
    ],
)
def test_types_of_the_kv_cache(
    asked: str | None, variable: str | None, flash_attention: bool, effective: str
) -> None:
    environment = {} if variable is None else {"OLLAMA_KV_CACHE_TYPE": variable}
    settings = Settings(kv_cache_type=asked, flash_attention=flash_attention)
    e = effective_settings(small_model(), settings, [CUDA], environment)
    assert e.kv_cache_type == effective
    assert e.what_if is (effective == "f32")
    wanted = (asked or variable or "f16").lower()
    assert (wanted == effective) is ("kv_cache_type" not in e.differences)


def test_overhead_and_spread_come_from_the_environment_unless_set() -> None:
    environment = {"OLLAMA_GPU_OVERHEAD": "1000", "OLLAMA_SCHED_SPREAD": "1"}
    h = small_model()
    e = effective_settings(h, Settings(), [], environment)
    assert (e.overhead, e.spread) == (1000, True)
    e = effective_settings(h, Settings(overhead=5, spread=False), [], environment)
    assert (e.overhead, e.spread) == (5, False)


@pytest.mark.parametrize(
    "wrong",
    [
        {"context": -1},
        {"context": "4096"},
        {"context": 1 << 63},
        {"parallel": 1 << 40},
        {"batch": True},
        {"num_gpu": -2},
        {"overhead": 0.5},
        {"kv_cache_type": 8},
        {"projector_bytes": -1},
    ],
)
def test_absurd_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(PlanError):
        Settings(**wrong)


def test_two_gpus_cannot_be_the_same_one() -> None:
    with pytest.raises(PlanError, match="CUDA 0"):
        effective_settings(small_model(), Settings(), [CUDA, CUDA])


def test_what_the_golden_cases_leave_out_are_the_rules_of_the_server(subset: Any) -> None:
    """The loader's result differs from the whole only by least contexts and single sequences."""
    from tests.planner.golden import devices_of

    for case in subset.cases("settings_cases"):
        h = subset.model(case["model"])
        asked = Settings(context=case["num_ctx"], parallel=case["parallel"])
        loader = effective_settings(h, asked, devices_of(case), case["env"])
        whole = effective_settings(h, asked, devices_of(case), case["env"], server_rules=True)
        assert (whole.kv_cache_type, whole.flash_attention) == (
            loader.kv_cache_type,
            loader.flash_attention,
        )
        if whole.context != loader.context:
            assert "at least" in whole.origins["context"]
        if whole.parallel != loader.parallel:
            assert "one request" in whole.origins["parallel"]
