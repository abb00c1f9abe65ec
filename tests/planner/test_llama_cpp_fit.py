"""What llama.cpp decides by itself: equal to its own decisions, and sound for any model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.errors import PlanError
from explorer.planner.engines.llama_cpp.allocation import Allocation, Buffer, Settings
from explorer.planner.engines.llama_cpp.fitting import Decision, fit
from explorer.planner.engines.llama_cpp.header import Header
from tests.planner.models import GIB, MIB, header_model, packed
from tests.planner.test_llama_cpp import _Golden


def _described(decision: Decision) -> tuple[Any, ...]:
    split, overrides = decision.tensor_split, decision.overrides
    return (
        decision.n_ctx,
        decision.gpu_layers,
        None if split is None else list(split),
        [list(override) for override in overrides],
        0 if decision.fits else 1,
    )


@pytest.mark.slow
def test_decisions_equal_llama_cpp_s(shared_reference: Path) -> None:
    golden = _Golden(shared_reference / "llama_cpp_golden.json.gz")
    cases = packed(shared_reference / "llama_cpp_fit_golden.json.gz")["cases"]
    for case in cases:
        found = fit(golden.header(case["model"]), Settings(**case["settings"]), case["gpus"])
        keys = ("n_ctx", "gpu_layers", "tensor_split", "overrides", "status")
        assert _described(found) == tuple(case[key] for key in keys), case["id"]
    assert len(cases) == 186


def _header(blocks: int, experts: int = 0) -> Header:
    """Return a model of equal blocks of 100 MiB; with experts three more of them."""
    names = ["attn_q", *["ffn_up_exps", "ffn_gate_exps", "ffn_down_exps"] * (experts > 0)]
    places = [f"blk.{i}.{name}.weight" for i in range(blocks) for name in names]
    metadata = {
        "general.architecture": "llama",
        "llama.block_count": blocks,
        "llama.embedding_length": 4096,
        "llama.context_length": 32768,
        "llama.attention.head_count": 32,
        "llama.attention.head_count_kv": 8,
        "llama.expert_used_count": experts,
    }
    tensors = [(name, "F16", [4096, 12800]) for name in (*places, "output.weight")]
    return Header.from_model(header_model(metadata, tensors))


def _used(header: Header, settings: Settings) -> Allocation:
    """Return weights as they lie, 1 KiB a position shared by the GPUs, and no compute buffer."""
    from explorer.planner.engines.llama_cpp.allocation import allocate

    real = allocate(header, settings)
    buffers = {
        name: Buffer(one.weights, settings.context * 1024 // max(settings.devices, 1), 0, 0, 0)
        for name, one in real.buffers.items()
    }
    return replace(real, buffers=buffers)


def test_what_fits_is_left_as_it_is() -> None:
    found = fit(_header(8), Settings(context=8192), [4 * GIB], measure=_used)
    assert _described(found) == (8192, -1, None, [], 0)
    assert found.settings.gpu_layers == 9


def test_an_open_context_is_lowered_to_what_is_free() -> None:
    # 900 MiB of weights and 32 MiB of cache at the trained context; 20 MiB are too few by 12
    found = fit(_header(8), Settings(context=0), [920 * MIB + GIB], measure=_used)
    assert _described(found) == (20 * 1024, -1, None, [], 0)


def test_a_context_that_was_asked_for_stays() -> None:
    found = fit(_header(8), Settings(context=32768), [920 * MIB + GIB], measure=_used)
    assert _described(found) == (32768, 8, None, [], 0)


def test_gpus_are_filled_from_the_last() -> None:
    free = [350 * MIB + GIB, 450 * MIB + GIB]
    found = fit(_header(8), Settings(context=4096), free, measure=_used)
    assert _described(found) == (4096, 7, [3, 4], [], 0)
    assert found.settings.tensor_split == (3.0, 4.0)


def test_experts_stay_on_the_cpu_first() -> None:
    # with all experts on the CPU 900 MiB are needed; 1,800 hold three blocks with theirs
    found = fit(_header(8, 2), Settings(context=4096), [1830 * MIB + GIB], measure=_used)
    assert found.gpu_layers == 9
    assert [buffer for _, buffer in found.overrides] == ["CPU"] * 6
    # names are one layer late, as in llama.cpp; the next block has its attention there
    assert found.overrides[0] == (r"blk\.3\.ffn_(gate|up|gate_up|down).*", "CPU")
    assert found.overrides[1] == (r"blk\.4\.ffn_(up|down|gate_up|gate)_(ch|)exps", "CPU")


def test_a_placement_that_was_asked_for_stays_but_an_open_context_does_not() -> None:
    settings = Settings(context=0, gpu_layers=4)
    found = fit(_header(8), settings, [420 * MIB + GIB], placed=True, measure=_used)
    assert (found.n_ctx, found.settings.gpu_layers, found.fits) == (20 * 1024, 4, True)
    small = fit(_header(8), settings, [300 * MIB + GIB], placed=True, measure=_used)
    assert (small.n_ctx, small.settings.gpu_layers, small.fits) == (4096, 4, False)


def test_without_a_gpu_main_memory_counts() -> None:
    for host, context, fits in ((None, 32768, True), (920 * MIB + GIB, 20480, True)):
        found = fit(_header(8), Settings(context=0), [], host=host, measure=_used)
        assert (found.n_ctx, found.fits) == (context, fits)
    assert not fit(_header(8), Settings(context=0), [], host=GIB, measure=_used).fits


@given(
    blocks=st.integers(1, 40),
    experts=st.integers(0, 2),
    free=st.lists(st.integers(0, 12 * GIB), min_size=1, max_size=4),
    context=st.sampled_from([0, 4096, 32768]),
)
def test_any_decision_is_one_that_can_be_allocated(
    blocks: int, experts: int, free: list[int], context: int
) -> None:
    header = _header(blocks, experts)
    found = fit(header, Settings(context=context, parallel=2), free, measure=_used)
    held = _used(header, found.settings).buffers
    layers = found.gpu_layers
    if layers >= 0:
        assert layers <= blocks + 1
        assert sum(found.tensor_split or (layers,)) == layers
    for i, room in enumerate(free):
        buffer = held[f"GPU{i}"]
        if buffer.weights:  # the margin is kept wherever anything was placed
            assert buffer.weights + buffer.cache <= room - GIB


@pytest.mark.parametrize(
    ("free", "settings", "reason"),
    [([-1], {}, "memory of a GPU"), ([GIB] * 65, {}, "more than 64")],
)
def test_what_cannot_be_decided(free: list[int], settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(PlanError, match=reason):
        fit(_header(2), Settings(**settings), free)


def test_an_open_context_needs_a_trained_one() -> None:
    header = replace(_header(2), trained_context=0)
    with pytest.raises(PlanError, match="Give a context"):
        fit(header, Settings(context=0), [GIB])
