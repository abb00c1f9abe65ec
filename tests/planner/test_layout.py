"""The layout: its search, its checks, and what always holds."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.errors import PlanError
from explorer.planner import Device, Host, Hyperparameters, Settings, effective_settings, lay_out
from explorer.planner.engines.ollama_013.layout import Layout, as_float32
from tests.helpers.stopwatch import in_time
from tests.planner.models import (
    GIB,
    MIB,
    random_devices,
    random_models,
    random_settings,
    small_model,
)

ASKED = Settings(context=4096)


@pytest.mark.parametrize("bits", range(20, 64))
def test_integers_are_rounded_to_floats_once(bits: int) -> None:
    step = 1 << max(0, bits - 24)
    for number in (
        1 << bits,
        (1 << bits) - 1,
        (1 << bits) + step // 2,
        (1 << bits) + step // 2 + 1,
    ):
        exact = as_float32(number)
        others = (np.nextafter(exact, np.float32(0)), np.nextafter(exact, np.float32(np.inf)))
        assert all(abs(int(exact) - number) <= abs(int(other) - number) for other in others)


def checked(layout: Layout, h: Hyperparameters) -> Layout:
    """Check what holds for every layout."""
    weights, caches = sum(layout.layer_weights), sum(layout.layer_kv_cache)
    assert sum(d.weights for d in layout.devices) + layout.cpu_weights == weights
    assert sum(d.kv_cache for d in layout.devices) + layout.cpu_kv_cache == caches
    runs = sorted((d.layers for d in layout.devices if d.layers), key=lambda run: run.start)
    placed = [layer for run in runs for layer in run]
    assert placed == list(range(placed[0], placed[-1] + 1)) if placed else True
    assert layout.placed == len(placed)
    assert layout.total_layers == h.block_count + 1
    assert layout.total == layout.vram_total + layout.cpu_weights + layout.cpu_kv_cache
    for held in layout.devices:
        assert held.graph in (0, layout.partial, layout.full)
        assert held.listed or not held.layers
        assert 0 <= held.reserved <= held.device.free
    return layout


@given(
    h=random_models(),
    devices=random_devices(),
    asked=random_settings,
    free=st.none() | st.integers(0, 8 * GIB),
)
def test_nothing_gets_lost_and_nothing_but_one_error_is_raised(
    h: Hyperparameters, devices: list[Device], asked: Settings, free: int | None
) -> None:
    host = None if free is None else Host(free, total=2 * free, macos=free % 2 == 0)
    try:
        e = effective_settings(h, asked, devices)
        layout = lay_out(
            h,
            e,
            devices,
            host=host,
            num_gpu=-1 if asked.num_gpu is None else asked.num_gpu,
            require_full=asked.require_full,
            overhead=e.overhead,
            spread=e.spread,
            projector=asked.projector_bytes,
        )
    except PlanError as error:
        assert error.reason in (None, "requires full", "system memory")  # noqa: PT017 - it may or may not be raised
        return
    checked(layout, h)


@given(
    h=random_models(),
    devices=random_devices(),
    context=st.integers(4, 1 << 20),  # without a cache gptoss falls back
    more=st.integers(0, 1 << 20),
    batch=st.integers(1, 2048),
)
def test_more_context_never_needs_less_memory(
    h: Hyperparameters, devices: list[Device], context: int, more: int, batch: int
) -> None:
    sizes = []
    for length in (context, context + more):
        workload = Settings(context=length, batch=batch)
        try:
            layout = lay_out(h, workload, devices)
        except PlanError:
            return
        cache = sum(layout.layer_kv_cache)
        sizes.append((cache, layout.partial, layout.full, layout.buffer))
        checked(layout, h)
    assert all(less <= greater for less, greater in zip(*sizes, strict=True))


def test_settings_are_taken_as_they_are_but_for_embedding_models() -> None:
    layout = lay_out(small_model(context_length=10), Settings(context=5000, batch=7), [])
    assert (layout.sizes.workload.context, layout.batch) == (5000, 7)
    layout = lay_out(small_model(pooling_type=1), Settings(context=5000, batch=7), [])
    assert layout.batch == 5000


def test_the_projector_goes_to_the_first_discrete_gpu() -> None:
    devices = [
        Device("0", "Vulkan", 8 * GIB, integrated=True),
        Device("1", "Vulkan", 8 * GIB),
        Device("2", "Vulkan", 8 * GIB),
    ]
    layout = lay_out(small_model(), ASKED, devices, projector=GIB)
    assert [d.projector for d in layout.devices] == [0, GIB, 0]
    assert layout.vram_total == sum(d.total for d in layout.devices)
    only = lay_out(small_model(), ASKED, devices[:1], projector=GIB)
    assert only.devices[0].projector == GIB


def test_refusals_have_a_reason() -> None:
    tight = [Device("0", "CUDA", 900 * MIB)]
    h = small_model()
    with pytest.raises(PlanError, match="of 5 layers fit") as caught:
        lay_out(h, ASKED, tight, require_full=True)
    assert caught.value.reason == "requires full"
    on_cpu = lay_out(h, ASKED, tight)
    left = on_cpu.cpu_weights + on_cpu.cpu_kv_cache
    assert lay_out(h, ASKED, tight, host=Host(left - 5, swap=5)).placed == on_cpu.placed
    with pytest.raises(PlanError, match="system memory") as caught:
        lay_out(h, ASKED, tight, host=Host(left - 5, swap=4))
    assert caught.value.reason == "system memory"
    with pytest.raises(PlanError) as caught:  # here swap does not help
        lay_out(h, ASKED, tight, host=Host(left - 1, swap=GIB), require_full=True, num_gpu=0)
    assert caught.value.reason == "requires full"


def test_macos_offloads_nothing_where_the_whole_memory_would_run_out() -> None:
    device = [Device("0", "Metal", 8 * GIB)]
    roomy = lay_out(small_model(), ASKED, device, host=Host(0, total=8 * GIB, macos=True))
    tight = lay_out(small_model(), ASKED, device, host=Host(0, total=300 * MIB, macos=True))
    assert roomy.fully_offloaded
    assert roomy.partial == roomy.full
    assert tight.placed == 0


def test_a_hopeless_request_ends() -> None:
    """Ollama itself never ends where the factor needed is 16 or more."""
    h = replace(small_model(blocks=64), trained_context=0)
    before = time.process_time()
    layout = lay_out(
        h, Settings(context=1 << 20), [Device("0", "CUDA", 490 * MIB)] * 1, num_gpu=999
    )
    assert in_time(time.process_time() - before, 5)
    checked(layout, h)


def test_numbers_beyond_63_bits_are_refused() -> None:
    with pytest.raises(PlanError, match="2\\^63"):
        lay_out(small_model(), Settings(context=1 << 40, parallel=1 << 20), [])
    with pytest.raises(PlanError, match="number of GPU layers"):
        lay_out(small_model(), ASKED, [], num_gpu=-2)
    with pytest.raises(PlanError, match="more than 64"):
        lay_out(small_model(), ASKED, [Device(str(i), "CUDA", 0) for i in range(65)])
