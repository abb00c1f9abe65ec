"""Inverse questions: the answers are those of trying every value."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.errors import PlanError
from explorer.planner import Device, Host, Hyperparameters, Settings, plan
from explorer.planner.advice import QUESTIONS, Advice
from explorer.planner.advice import solve as solve_for
from explorer.planner.engines.ollama_013.engine import OLLAMA_013
from explorer.planner.plans import Trial
from explorer.planner.request import PlanRequest
from explorer.planner.searching import Found, largest
from tests.planner.golden import Golden
from tests.planner.models import GIB, MIB, random_devices, random_models, small_model

GPU = (Device("0", "CUDA", 2 * GIB),)


def solve(what: str, request: PlanRequest) -> Advice:
    """Return the answer for Ollama's old estimate, whose plans need not grow."""
    return solve_for(what, request, OLLAMA_013)


def fits(request: PlanRequest, **changes: object) -> bool:
    """Return whether all layers are on GPUs, by making the plan."""
    asked = replace(request.settings, **changes)  # type: ignore[arg-type]
    try:
        return plan(request.h, asked, request.devices, host=request.host).fully_offloaded
    except PlanError:
        return False


@given(
    h=random_models(),
    devices=random_devices(),
    window=st.integers(0, 1000),
    spread=st.booleans(),
    forced=st.sampled_from([None, 999, 3]),
)
def test_the_largest_context_is_that_of_trying_all(
    h: Hyperparameters, devices: list[Device], window: int, spread: bool, forced: int | None
) -> None:
    h = replace(h, trained_context=min(h.trained_context or 300, 300) + window)
    asked = Settings(spread=spread, num_gpu=forced)
    request = PlanRequest(h, asked, tuple(devices), Host(64 * GIB))
    try:
        answer = solve("context", request)
    except PlanError:
        return
    step = range(4, h.trained_context + 1)
    if answer.value is None:
        assert not any(fits(request, context=c) for c in [*step[::37], *step[-3:]])
        return
    assert isinstance(answer.value, int)
    assert fits(request, context=answer.value)
    larger = range(answer.value + 1, h.trained_context + 1)
    assert not any(fits(request, context=c) for c in [*larger[:5], *larger[::29]])


def test_where_fitting_is_not_monotone_the_largest_is_found(subset: Golden) -> None:
    """Uneven GPUs, of which a longer context leaves the charged one out: bisection would err."""
    devices = tuple(Device(str(i), "CUDA", (10 - i) * GIB) for i in range(4))
    request = PlanRequest(subset.model("phi-2"), Settings(parallel=9), devices)
    answer = solve("context", request)
    tried = [c for c in range(4, 2049) if fits(request, context=c)]
    assert answer.value == (tried[-1] if tried else None)


@pytest.mark.parametrize("free", [600 * MIB, 900 * MIB, 2 * GIB, 24 * GIB])
def test_parallel_and_cache_types_are_those_of_trying_all(free: int) -> None:
    devices = (Device("0", "CUDA", free),)
    request = PlanRequest(small_model(), Settings(context=4096, flash_attention=True), devices)
    most = [n for n in range(1, 200) if fits(request, parallel=n)]
    assert solve("parallel", request).value == (most[-1] if most else None)
    kinds = [kind for kind in ("f16", "q8_0", "q4_0") if fits(request, kv_cache_type=kind)]
    assert solve("kv-cache-type", request).value == (kinds[0] if kinds else None)


def test_the_answer_names_what_binds() -> None:
    request = PlanRequest(small_model(), Settings(context=4096), GPU)
    context = solve("context", request)
    assert isinstance(context.value, int)
    assert context.limited_by.startswith(f"the next step, {context.value + 1:,} tokens, ")
    assert "the 2.00 GiB that are free on CUDA 0" in context.limited_by
    roomy = PlanRequest(small_model(), Settings(), (Device("0", "CUDA", 80 * GIB),))
    assert solve("context", roomy).value == 32768
    assert "the model was trained for 32,768 tokens" in solve("context", roomy).limited_by
    assert "no better one" in solve("kv-cache-type", roomy).limited_by
    single = PlanRequest(small_model("mllama"), Settings(), (Device("0", "CUDA", 80 * GIB),))
    assert solve("parallel", single).value == 1
    assert "one request" in solve("parallel", single).limited_by
    nothing = PlanRequest(small_model(), Settings(), ())
    assert solve("context", nothing).record() == {
        "what": "context",
        "value": None,
        "limited_by": "there is no GPU",
    }


def test_a_quantized_cache_needs_flash_attention() -> None:
    tight = (Device("0", "CUDA", 1200 * MIB),)
    off = PlanRequest(small_model(), Settings(context=8192, flash_attention=False), tight)
    assert not fits(off)
    answer = solve("kv-cache-type", off)
    assert answer.value is None
    assert "needs flash attention" in answer.limited_by


def test_layers() -> None:
    request = PlanRequest(small_model(), Settings(context=4096), (Device("0", "CUDA", 900 * MIB),))
    most = solve("gpu-layers", request)
    assert isinstance(most.value, int)
    assert 0 < most.value < 5
    found = plan(request.h, replace(request.settings, num_gpu=most.value), request.devices)
    assert found.gpu_layers == most.value
    assert not found.gpus[0].short
    assert f"with {most.value + 1} layers on GPUs, " in most.limited_by

    poor = replace(request, host=Host(found.main.total))
    fewest = solve("fewest-gpu-layers", poor)
    assert fewest.value == most.value
    assert "is free of main memory" in fewest.limited_by
    assert solve("fewest-gpu-layers", replace(request, host=Host(64 * GIB))).value == 0


def test_a_search_that_is_cut_short_says_so() -> None:
    def outcome(value: int) -> Trial:
        # every value decides otherwise
        return Trial(value < 100 or value == 777, [(value,)], value > 800)

    assert largest(outcome, 1, 1000) == Found(777)
    assert largest(outcome, 1, 1000, most_trials=5) == Found(99, exact=False)
    assert largest(outcome, 200, 700) == Found(None)


def test_unknown_questions_are_refused() -> None:
    with pytest.raises(PlanError, match=", ".join(QUESTIONS)):
        solve("everything", PlanRequest(small_model()))
