"""What is said of a memory plan."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from explorer.planner import Device, Hyperparameters, Settings
from explorer.planner import advice as planner_advice
from explorer.planner.advice import Advice
from explorer.planner.devices import parse_context, parse_size
from explorer.planner.engines.registry import engine_named
from explorer.planner.plans import Level, Plan
from explorer.planner.request import PlanRequest
from explorer.present.plan import (
    PLAN,
    Kind,
    amount_text,
    answer,
    context_text,
    layers_text,
    memory_bars,
    size_text,
)
from explorer.present.suggestions import QUESTION_TEXTS, advice_changes, advice_text
from explorer.text import bytes_text, exact_text
from tests.planner.models import GIB, small_model


def planned(*free: int, profile: str = "ollama-graphsize", **settings: int) -> Plan:
    h: Hyperparameters = small_model(blocks=10)
    devices = tuple(Device(str(i), "CUDA", n, name="GPU") for i, n in enumerate(free))
    request = PlanRequest(h, Settings(**settings), devices, None, {"OLLAMA_SCHED_SPREAD": "1"})
    return engine_named(profile).plan(request)


def test_the_graph_is_named_on_each_gpu_and_in_sum() -> None:
    plan = planned(24 * GIB, 24 * GIB)
    graphs = [held.compute.high for held in plan.gpus]
    assert graphs[0] == graphs[1] > 0
    found = {figure.label: figure.of(plan) for figure in PLAN.values()}
    assert found["Compute on each GPU"] == graphs[0]
    assert found["Compute on all GPUs"] == 2 * graphs[0]


def test_sizes_in_full() -> None:
    assert exact_text(7) == "7 B"
    assert exact_text(3 * GIB) == "3.00 GiB (3,221,225,472 bytes)"


def test_the_verdict_has_one_wording() -> None:
    fits = answer(planned(24 * GIB))
    assert fits.level is Level.FITS
    assert fits.sentence.startswith("Fits: 11 of 11 layers on GPU, ")
    four = planned(24 * GIB, num_gpu=4)
    partly, room = answer(four), four.gpus[0].room or 0
    assert (partly.level, partly.sentence) == (
        Level.PARTLY,
        f"Fits partly: 7 of 11 layers stay on the CPU, {bytes_text(room)} of GPU free.",
    )
    dense = replace(four.verdict, expert_layers=1, part="part")
    said = "Fits partly: 7 of 11 layers and part of another stay on the CPU"
    assert answer(replace(four, verdict=dense)).sentence.startswith(said)
    main = memory_bars(replace(four, verdict=dense), None)[-1]
    assert main.layers == "7 layers: 0–5, 10 and part of 1 layer"
    assert answer(planned(24 * GIB, num_gpu=0)).level is Level.NOT
    assert answer(planned()).sentence.startswith("Runs on the CPU: there is no GPU")
    assert answer(None, "it is odd").sentence == "No plan: it is odd."
    assert "would refuse" in answer(planned(GIB), "too large").sentence
    assert (fits.shown, fits.mark) == (Level.FITS, "✔")
    both = answer(planned(24 * GIB, 24 * GIB)).sentence
    assert "11 of 11 layers on 2 × GPU, " in both


def test_what_is_left_of_a_gpu_is_reserved_or_free() -> None:
    plan = planned(24 * GIB)
    held, main = plan.holdings
    for free, left, told in (
        (held.total + held.reserve.high + 7, (held.reserve.high, 7), "7 B free"),
        # what is computed may take of the reserve in the end
        (held.total + 5, (5, 0), f"reserve lacks {bytes_text(held.reserve.high - 5)}"),
        (held.total - 5, (0, 0), f"reserve lacks {bytes_text(held.reserve.high)}"),
    ):
        bar = memory_bars(replace(plan, holdings=(replace(held, free=free), main)), None)[0]
        assert (bar.nbytes(Kind.RESERVED), bar.nbytes(Kind.FREE)) == left
        assert bar.over_bytes == max(0, held.total - free)
        assert amount_text(bar).endswith(f", {told}")


def test_a_damaged_model_is_planned_with_caution() -> None:
    plan = planned(24 * GIB)
    h = replace(plan.request.h, damage="the file is cut short")
    found = answer(replace(plan, request=replace(plan.request, h=h)))
    assert found.level is Level.FITS  # nothing has to change for it to fit
    assert (found.shown, found.mark) == (Level.PARTLY, "⚠")
    assert found.sentence == f"Damaged. Planned from its header. {answer(plan).sentence}"


def test_runs_of_layers_have_one_wording() -> None:
    assert layers_text(()) == "no layers"
    assert layers_text([4]) == "layer 4"
    assert layers_text([*range(12), 20]) == "13 layers: 0–11, 20"
    plan = planned(24 * GIB, num_gpu=4)
    assert layers_text(plan.main.layers) == "7 layers: 0–5, 10"


@pytest.mark.parametrize("what", planner_advice.QUESTIONS)
def test_each_answer_has_a_title_and_a_setting(what: str) -> None:
    answer = Advice(what, 3, "memory")
    title = QUESTION_TEXTS[what].title
    assert advice_text(answer) == f"{title}: 3. Memory."
    assert advice_changes(answer).keys() <= {part.name for part in fields(Settings)}
    assert advice_text(Advice(what, None, "memory")) == f"{title}: none. Memory."
    assert not advice_changes(Advice(what, None, "memory"))


@pytest.mark.parametrize(
    ("tokens", "text"), [(32_768, "32k"), (1 << 20, "1M"), (40_960, "40,960"), (512, "512")]
)
def test_contexts_are_written_as_they_are_typed(tokens: int, text: str) -> None:
    assert context_text(tokens) == text
    assert parse_context(text) == tokens


@pytest.mark.parametrize("nbytes", [0, 1, 1023, 512 << 20, 24 * GIB, 22 * GIB + GIB // 2])
def test_short_sizes_are_exact(nbytes: int) -> None:
    assert parse_size(size_text(nbytes)) == nbytes


def test_a_long_size_is_rounded() -> None:
    assert size_text(24_567_890_123) == "22.9 GiB"
