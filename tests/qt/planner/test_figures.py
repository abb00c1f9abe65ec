"""Bars, layers and tables against the plans that they show."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import assume, given

from explorer.planner import Device, Host, Hyperparameters, Settings
from explorer.planner.engines.ollama_013.engine import OLLAMA_013
from explorer.planner.inputs import PlanInputs, plan_result
from explorer.planner.plans import Level
from explorer.present.engines import PlanRow
from explorer.present.plan import Kind, answer, boundary_of, layers_text, memory_bars
from explorer.present.tables.plans import comparison
from explorer.present.tables.table import INTEGER, Column, Table
from explorer.qt.widgets.table_model import TableModel
from explorer.text import exact_text
from tests.planner.models import GIB, random_devices, random_models, random_settings, small_model

NUMBERS = Table[int | None](Column("n", "N", INTEGER, of=lambda value: value, blank="–"))


@given(random_models(), random_settings, random_devices())
def test_every_bar_adds_up_to_what_is_free_and_all_bars_to_the_plan(
    h: Hyperparameters, asked: Settings, devices: list[Device]
) -> None:
    host = Host(64 * GIB, GIB)
    outcome = plan_result(h, PlanInputs(asked, tuple(devices), host, OLLAMA_013.name), {})
    assume(outcome.plan is not None)
    plan = outcome.plan
    assert plan is not None
    bars = memory_bars(plan, host)
    assert sum(bar.held_bytes for bar in bars) == plan.total
    for bar in bars:
        total = sum(part.nbytes for part in bar.parts)
        assert total == max(bar.capacity or 0, bar.held_bytes)
    for number, missing in plan.verdict.short.items():
        assert bars[number].over_bytes == missing
    layers = plan.layers
    assert sum(layer.weights for layer in layers) == plan.weights
    for number, held in enumerate(plan.gpus):
        on_it = [layer.index for layer in layers if layer.device == number]
        assert on_it == list(held.layers)
    terms = {term.name: term.value for term in plan.terms}
    for bar in bars:
        for part in bar.parts:
            if part.term and part.kind not in (Kind.RESERVED, Kind.PROJECTOR):
                assert terms[part.term] == part.nbytes
    found = answer(outcome.plan, outcome.refusal)
    over = [bar.over_bytes for bar, held in zip(bars, plan.gpus, strict=False) if held.layers]
    fits = not outcome.refusal and ((plan.fully_offloaded and not any(over)) or not devices)
    assert (found.level is Level.FITS) == fits


def test_a_boundary_asks_for_the_layers_right_of_it() -> None:
    h = small_model(blocks=10)
    devices = (Device("0", "CUDA", 24 * GIB),)
    for boundary in range(11):
        plan = plan_result(h, PlanInputs(devices=devices, profile=OLLAMA_013.name), {}).plan
        assert plan is not None
        count = plan.engine.layers_asked(boundary, plan.verdict.total_layers)
        moved = plan_result(
            h, PlanInputs(Settings(num_gpu=count), devices, profile=OLLAMA_013.name), {}
        ).plan
        assert moved is not None
        assert moved.gpu_layers == count
        if count:
            assert boundary_of(moved) == boundary


def test_a_refused_plan_is_drawn_all_the_same() -> None:
    inputs = PlanInputs(
        Settings(require_full=True), (Device("0", "CUDA", GIB),), Host(1), OLLAMA_013.name
    )
    outcome = plan_result(small_model(blocks=30), inputs, {})
    assert outcome.plan is not None
    assert answer(outcome.plan, outcome.refusal).level is Level.NOT
    assert outcome.refusal in answer(outcome.plan, outcome.refusal).sentence


def test_runs_of_layers_and_sizes_read_well() -> None:
    assert layers_text(()) == "no layers"
    assert layers_text([4]) == "layer 4"
    assert layers_text([0, 1, 2, 7]) == "4 layers: 0–2, 7"
    assert exact_text(3 * GIB) == "3.00 GiB (3,221,225,472 bytes)"
    assert exact_text(7) == "7 B"


def test_a_table_that_is_renewed_keeps_its_selection(qapp: object) -> None:
    table = TableModel()
    resets: list[None] = []
    table.modelReset.connect(lambda: resets.append(None))
    assert table.update(NUMBERS, [1, None])
    assert not table.update(NUMBERS, [2, None])
    assert [table.index(row, 0).data() for row in (0, 1)] == ["2", "–"]
    assert table.update(NUMBERS, [2, None], kind="others")
    assert len(resets) == 2


def planned(h: Hyperparameters, inputs: PlanInputs) -> PlanRow:
    made = plan_result(h, inputs, {})
    return PlanRow("", made.plan, made.refusal)


def test_a_comparison_marks_what_differs() -> None:
    h = small_model()
    usual = PlanInputs(devices=(Device("0", "CUDA", 24 * GIB),), profile=OLLAMA_013.name)
    rows = [planned(h, usual.with_settings(context=context)) for context in (4096, 8192, 2048)]
    rows.append(planned(small_model(blocks=0), PlanInputs()))
    table = comparison(rows)
    assert [table["context"].cell(row) for row in rows[:3]] == ["4,096", "≠ 8,192", "≠ 2,048"]
    first, more, less = (table["kv_cache"].cell(row) for row in rows[:3])
    assert "(" not in first
    assert "(+" in more
    assert "(-" in less
    assert rows[1].plan is not None
    assert table["kv_cache"].value(rows[1]) == rows[1].plan.cache


def test_all_layers_of_another_model_are_no_difference() -> None:
    h = small_model()
    inputs = PlanInputs(devices=(Device("0", "CUDA", 24 * GIB),), profile=OLLAMA_013.name)
    part, smaller = inputs.with_settings(num_gpu=2), replace(h, block_count=h.block_count - 1)
    rows = [planned(h, inputs), planned(smaller, inputs), planned(h, part)]
    column, total = comparison(rows)["gpu_layers"], h.total_layers
    texts = [column.cell(row) for row in rows]
    assert texts == [f"{total} of {total}", f"{total - 1} of {total - 1}", f"≠ 2 of {total}"]
