"""Bars, layers and tables against the plans that they show."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import assume, given, settings
from PySide6.QtCore import Qt
from pytestqt.modeltest import ModelTester

from explorer.planner import Device, Host, Hyperparameters, Settings
from explorer.planner.engines.ollama_013.engine import OLLAMA_013
from explorer.planner.inputs import PlanInputs, plan_result
from explorer.planner.plan import Level
from explorer.present.plan import Kind, answer, boundary_of, layers_text, memory_bars
from explorer.qt.planner.tables import (
    Candidate,
    ColumnMaker,
    LiveTable,
    bar_columns,
    comparison_columns,
    input_columns,
    layer_columns,
    term_columns,
)
from explorer.text import exact_text
from tests.planner.models import GIB, random_devices, random_models, random_settings, small_model

NUMBERS = ColumnMaker({"n": ""})

few = settings(max_examples=60)


@few
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
        assert bar.over_bytes == max(0, bar.held_bytes - (bar.capacity or 0))
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
    fits = not outcome.refusal and (plan.fully_offloaded or not devices)
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
    assert outcome.reason == "requires full"
    assert outcome.plan is not None
    assert answer(outcome.plan, outcome.refusal).level is Level.NOT
    assert outcome.refusal in answer(outcome.plan, outcome.refusal).sentence


def test_runs_of_layers_and_sizes_read_well() -> None:
    assert layers_text(()) == "no layers"
    assert layers_text([4]) == "layer 4"
    assert layers_text([0, 1, 2, 7]) == "4 layers: 0–2, 7"
    assert exact_text(3 * GIB) == "3.00 GiB (3,221,225,472 bytes)"
    assert exact_text(7) == "7 B"


def test_tables_keep_qts_rules_and_their_selection(qtmodeltester: ModelTester) -> None:
    h, devices = small_model(), (Device("0", "CUDA", 24 * GIB),)
    table = LiveTable()
    qtmodeltester.check(table)
    for context in (4096, 8192):
        outcome = plan_result(
            h, PlanInputs(Settings(context=context), devices, profile=OLLAMA_013.name), {}
        )
        plan = outcome.plan
        assert plan is not None
        bars = memory_bars(plan, None)
        for columns, count in (
            (bar_columns(bars), len(bars)),
            (layer_columns(plan.layers, ["GPU"]), plan.verdict.total_layers),
            (term_columns(plan.terms), len(plan.terms)),
            (input_columns(list(plan.terms[0].inputs.items())), 1),
            (comparison_columns([Candidate("now", outcome)] * 3), 3),
        ):
            table.show(columns, count)
            qtmodeltester.check(table)
            for column in range(len(columns)):
                table.sort(column, Qt.SortOrder.DescendingOrder)
                assert all(isinstance(table.index(row, column).data(), str) for row in range(count))
            qtmodeltester.check(table)
    resets: list[None] = []
    table.modelReset.connect(lambda: resets.append(None))
    assert table.show([NUMBERS.number("n", "N", [1, None])], 2)
    assert not table.show([NUMBERS.number("n", "N", [2, None])], 2)
    assert [table.index(row, 0).data() for row in (0, 1)] == ["2", "–"]
    assert table.show([NUMBERS.number("n", "N", [2, None])], 2, kind="others")
    assert len(resets) == 2


def test_a_comparison_marks_what_differs() -> None:
    h, devices = small_model(), (Device("0", "CUDA", 24 * GIB),)
    rows = [
        Candidate(
            str(context),
            plan_result(
                h, PlanInputs(Settings(context=context), devices, profile=OLLAMA_013.name), {}
            ),
        )
        for context in (4096, 8192, 2048)
    ]
    rows.append(Candidate("broken", plan_result(small_model(blocks=0), PlanInputs(), {})))
    columns = {column.name: column for column in comparison_columns(rows)}
    assert [columns["context"].text(row) for row in range(3)] == ["4,096", "≠ 8,192", "≠ 2,048"]
    first, more, less = (columns["kv_cache"].text(row) for row in range(3))
    assert "(" not in first
    assert "(+" in more
    assert "(-" in less
    assert columns["kv_cache"].raw(1) == rows[1].result.plan.cache


def test_all_layers_of_another_model_are_no_difference() -> None:
    h, inputs = (
        small_model(),
        PlanInputs(devices=(Device("0", "CUDA", 24 * GIB),), profile=OLLAMA_013.name),
    )
    part = inputs.with_settings(num_gpu=2)
    models = ((h, inputs), (replace(h, block_count=h.block_count - 1), inputs), (h, part))
    rows = [Candidate(str(n), plan_result(*one, {})) for n, one in enumerate(models)]
    columns = {column.name: column for column in comparison_columns(rows)}
    texts = [columns["gpu_layers"].text(row) for row in range(3)]
    total = h.total_layers
    assert texts == [f"{total} of {total}", f"{total - 1} of {total - 1}", f"≠ 2 of {total}"]
