"""Profiles; `ollama-0.30` with cases worked by hand from docs/planner.md, section 12."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from explorer.errors import PlanError
from explorer.planner import Device, Host, Settings, plan
from explorer.planner.profiles import PROFILES, choose_batch, next_context
from explorer.planner.result import Plan, PlanRequest
from tests.planner.models import GIB, MIB, small_model

NAME = "ollama-0.30"
GPU = Device("0", "CUDA", 24 * GIB)


def predict(settings: Settings | None = None, *devices: Device, **keys: Any) -> Plan:
    """Return the plan of a small model: 4 blocks, width 2048, 16 heads, 8 for keys and values."""
    return plan(small_model(**keys), settings, devices or (GPU,), profile=NAME)


def test_the_prediction() -> None:
    p = predict(Settings(context=8192, parallel=2))
    # 2 · 4 blocks · 8 heads · (2048 // 16 = 128) · (8192 · 2) · 2 bytes
    assert p.kv_total == 2 * 4 * 8 * 128 * 16384 * 2 == 268_435_456
    # 4 blocks of 2048 × 8192 F16, an embedding of 2048 × 32000 F16, a norm of 2048 F32
    assert p.weights == 4 * 33_554_432 + 131_072_000 + 8192
    assert p.effective.batch == 1024  # 16,384 cells
    assert p.total == p.weights + p.kv_total + 768 * MIB
    assert (p.gpu_layers, p.vram_total, p.layout) == (None, None, None)


def test_the_head_size_divides_by_the_most_heads() -> None:
    p = predict(Settings(context=4096), attention__head_count=[16, 32])
    assert p.kv_total == 2 * 4 * 8 * 64 * 4096 * 2
    assert predict(Settings(context=4096), attention__head_count=0).kv_total == 0
    assert predict(Settings(context=4096), attention__head_count_kv=[8, 0]).kv_total == (
        2 * 4 * 1 * 128 * 4096 * 2
    )


@pytest.mark.parametrize(
    ("vram", "context"), [(22, 4096), (23, 32_768), (46, 32_768), (47, 262_144)]
)
def test_the_default_context(vram: int, context: int) -> None:
    device = Device("0", "CUDA", GIB, total=vram * GIB)
    assert predict(None, device, context_length=1 << 20).effective.context == context
    assert predict(None, device).effective.context == min(context, 32_768)  # the trained one
    assert predict(Settings(context=77), device).effective.context == 77


def test_the_trained_context_is_the_most() -> None:
    p = predict(Settings(context=100_000))
    assert p.effective.context == 32_768
    assert any("trained for 32,768" in note for note in p.notes)


@pytest.mark.parametrize("family", ["mllama", "qwen3next", "lfm2", "nemotron_h"])
def test_some_families_run_one_sequence(family: str) -> None:
    p = plan(small_model(family), Settings(parallel=4, context=100), [GPU], profile=NAME)
    assert p.effective.parallel == 1


@pytest.mark.parametrize(
    ("cells", "predicted", "available", "batch"),
    [
        (4096, 1, 100 * GIB, 512),
        (4097, 1, 100 * GIB, 1024),
        (32_769, 1, 100 * GIB, 2048),
        (32_769, 60 * GIB, 100 * GIB, 2048),  # 60 % at most
        (32_769, 60 * GIB + 1, 100 * GIB, 1024),
        (32_769, 75 * GIB + 1, 100 * GIB, 512),  # 75 % at most
        (32_769, 5 * GIB, 8 * GIB, 1024),  # 2 GiB do not fit into 6.4 - 5, 768 MiB do
        (4097, 6 * GIB, 8 * GIB, 512),  # 768 MiB do not fit into 6.4 - 6
        (32_769, 81 * GIB, 100 * GIB, 512),
        (32_769, 1, 0, 512),
    ],
)
def test_the_default_batch(cells: int, predicted: int, available: int, batch: int) -> None:
    assert choose_batch(cells, predicted, available, [GPU], flash_attention=True) == batch


@pytest.mark.parametrize(
    ("cells", "free", "total", "batch"),
    [
        (100_000, 24, None, 512),
        (4096, 8, None, 512),
        (4097, 8, None, 256),
        (4097, 6, 24, 256),
        (4097, 9, 8, 256),
        (4097, 9, 24, 512),
    ],
)
def test_without_flash_attention_cuda_has_small_batches(
    cells: int, free: int, total: int | None, batch: int
) -> None:
    cards = [Device("0", "CUDA", free * GIB, total=total and total * GIB), Device("1", "ROCm", GIB)]
    assert choose_batch(cells, 1, 100 * GIB, cards, flash_attention=False) == batch
    assert choose_batch(cells, 1, 100 * GIB, cards[1:], flash_attention=False) >= 512


def test_a_batch_that_was_asked_for_stays() -> None:
    assert predict(Settings(context=8192, batch=64)).effective.batch == 64


def test_fits_within_80_per_cent() -> None:
    needed = predict(Settings(context=4096)).total
    tight = Device("0", "ROCm", -(-needed * 100 // 80))
    assert predict(Settings(context=4096), tight).fully_offloaded
    short = Device("0", "ROCm", needed * 100 // 80 - 2)
    assert not predict(Settings(context=4096), short).fully_offloaded


@pytest.mark.parametrize(
    ("taken", "reserve", "free"), [(10, 20, 70), (80, 20, 0), (90, 10, 0), (101, 0, 0)]
)
def test_a_fifth_is_left_to_other_models(taken: int, reserve: int, free: int) -> None:
    found = predict().prediction
    assert found is not None
    found = replace(found, file_bytes=taken, cache_bytes=0, surcharge_bytes=0, available_bytes=100)
    assert (found.usable_bytes, found.reserve_left, found.free_left) == (80, reserve, free)
    assert found.fits == (taken <= 80)


def test_without_gpus_the_memory_of_the_machine_counts() -> None:
    p = plan(small_model(), Settings(context=100), [], host=Host(64 * GIB), profile=NAME)
    assert p.prediction is not None
    assert p.prediction.fits
    assert not p.fully_offloaded


def test_how_a_failed_load_goes_on() -> None:
    assert [next_context(c) for c in (262_144, 32_769, 32_768, 4097, 4096)] == [
        32_768, 32_768, 4096, 4096, None,
    ]  # fmt: skip
    assert any("tried again with a context of 4,096" in note for note in predict().notes)
    asked = predict(Settings(context=32_768))
    assert not any("tried again" in note for note in asked.notes)


def test_the_cache_type_moves_nothing_and_the_plan_says_so() -> None:
    totals = {predict(Settings(kv_cache_type=kind)).total for kind in ("f16", "q8_0", "q4_0")}
    assert len(totals) == 1
    assert any("KV cache type changes nothing" in note for note in predict().notes)


def test_profiles_side_by_side() -> None:
    request = PlanRequest(small_model(), Settings(context=8192), (GPU,))
    assert list(PROFILES) == ["llama.cpp", "ollama", "ollama-0.30", "ollama-graphsize"]
    old = [PROFILES[name].plan(request) for name in ("ollama-graphsize", "ollama-0.30")]
    assert [p.profile for p in old] == ["ollama-graphsize", "ollama-0.30"]
    assert old[0].layout is not None
    with pytest.raises(PlanError, match="ollama-graphsize"):
        plan(small_model(), profile="ollama-9")
