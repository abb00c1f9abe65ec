"""What Ollama 0.30 and later asks of llama.cpp's server: docs/planner.md, section 12, by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from explorer.planner import Device, Host, Settings, plan
from explorer.planner.engines.ollama import choose_batch
from explorer.planner.plans import Plan
from tests.planner.models import GIB, tiny

GPU = Device("0", "CUDA", 24 * GIB)


def ollama(settings: Settings | None, *devices: Device, trained: int = 1 << 20) -> Plan:
    h = replace(tiny(), trained_context=trained)
    return plan(h, settings, devices or (GPU,), host=Host(64 * GIB), profile="ollama")


@pytest.mark.parametrize(
    ("vram", "context"), [(22, 4096), (23, 32_768), (46, 32_768), (47, 262_144)]
)
def test_the_default_context(vram: int, context: int) -> None:
    device = Device("0", "CUDA", 22 * GIB, total=vram * GIB)
    assert ollama(None, device).used("context") == context
    assert ollama(None, device, trained=32_768).used("context") == min(context, 32_768)
    assert ollama(Settings(context=0), device).used("context") == context  # as if not given
    assert ollama(Settings(context=512), device).used("context") == 512


def test_the_trained_context_is_the_most() -> None:
    p = ollama(Settings(context=100_000), trained=32_768)
    assert p.used("context") == 32_768
    assert any("trained for 32,768" in note for note in p.notes)


@pytest.mark.parametrize("family", ["mllama", "qwen3next", "lfm2", "nemotron_h"])
def test_some_families_run_one_sequence(family: str) -> None:
    asked = Settings(parallel=4, context=256)
    p = plan(replace(tiny(), architecture=family), asked, [GPU], profile="ollama")
    assert p.used("parallel") == 1
    assert p.effective["parallel"].asked == 4


@pytest.mark.parametrize(
    ("cells", "expected", "available", "batch"),
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
def test_the_default_batch(cells: int, expected: int, available: int, batch: int) -> None:
    assert choose_batch(cells, expected, available, [GPU], flash_attention=True) == batch


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
    assert ollama(Settings(context=8192, batch=64)).used("batch") == 64
    assert ollama(Settings(context=8192)).used("batch") == 1024
