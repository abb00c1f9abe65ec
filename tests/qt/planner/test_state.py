"""The planner's state without a window: history, saving, scenarios."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytestqt.qtbot import QtBot

from explorer.errors import PlanError
from explorer.hardware.detect import Machine
from explorer.planner import Device, Host, together
from explorer.planner.engines.ollama_013.engine import OLLAMA_013
from explorer.planner.inputs import PlanInputs, PlanResult
from explorer.qt.jobs import JobRunner
from explorer.qt.machine import PlannedMachine
from explorer.qt.planner.state import (
    MOST_SCENARIOS,
    CurrentPlan,
    History,
    PlannedModel,
    PlannerState,
)
from tests.helpers.services import RecordingServices
from tests.planner.models import GIB, small_model
from tests.qt.planner.plan_models import MemoryNotes


def planner_state(
    environment: dict[str, str] | None = None, save: Callable[[str], None] = lambda _: None
) -> PlannerState:
    """Return a state that has not looked at any machine yet."""
    return PlannerState(
        PlannedMachine(RecordingServices(JobRunner()), MemoryNotes()), environment or {}, save
    )


def find(state: PlannerState, machine: Machine) -> None:
    """Let this be what was found of the machine."""
    state.basis.found = machine
    state.basis.changed.emit()


class Clock:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_changes_of_one_kind_in_quick_succession_are_one_step() -> None:
    clock = Clock()
    history = History(0, clock)
    for value in (1, 2, 3):
        history.put(value, "context")
        clock.now += 0.5
    history.put(4, "batch")
    clock.now += 5
    history.put(5, "batch")
    values = []
    while history.can_undo:
        history.undo()
        values.append(history.value)
    assert values == [4, 3, 0]
    while history.can_redo:
        history.redo()
    assert history.value == 5


def test_a_drag_is_one_step_however_long_it_takes() -> None:
    clock = Clock()
    history = History(0, clock)
    history.held = True
    for value in (1, 2, 3):
        history.put(value, "context")
        clock.now += 60
    history.held = False
    history.undo()
    assert history.value == 0


def test_a_change_after_undo_forgets_what_was_undone() -> None:
    history = History(0)
    history.put(1, "a")
    history.undo()
    history.put(2, "a")
    assert not history.can_redo
    history.redo()
    assert history.value == 2
    history.value = 9
    history.undo()
    assert history.value == 0


_NAMES = [
    *("scenarios", "sets", "name", "inputs", "settings", "devices", "host", "profile"),
    *("free", "context", "compute", "id", "library"),
]
_SAVED = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.floats(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_NAMES), inner, max_size=5)
    ),
    max_leaves=12,
)


@given(_SAVED)
def test_damaged_savings_are_refused_whole(saved: object) -> None:
    state = planner_state()
    before = state.scenarios, state.sets
    try:
        state.restore(json.dumps(saved))
    except PlanError:
        assert (state.scenarios, state.sets) == before


@pytest.mark.parametrize("text", ["", "[", "[" * 100_000, "3", '{"scenarios": 3}', "x" * (2 << 20)])
def test_what_is_no_saving_is_refused(text: str) -> None:
    with pytest.raises(PlanError):
        planner_state().restore(text)


def test_scenarios_get_letters_and_are_limited() -> None:
    state = planner_state()
    refused: list[PlanError] = []
    state.refused.connect(refused.append)
    for _ in range(MOST_SCENARIOS):
        state.pin()
    assert [scenario.name for scenario in state.scenarios[:3]] == ["A", "B", "C"]
    assert not refused
    state.pin()
    assert len(state.scenarios) == MOST_SCENARIOS
    state.rename(0, "B")
    state.rename(0, "  ")
    assert len(refused) == 3
    state.rename(0, "First")
    assert state.scenarios[0].name == "First"


def test_scenarios_and_sets_are_saved_when_they_change() -> None:
    saved: list[str] = []
    state = planner_state(save=saved.append)
    state.pin()
    state.set(context=8192)
    state.remember("Two")
    state.forget("Two")
    state.unpin(0)
    assert len(saved) == 4
    again = planner_state()
    again.restore(saved[1])
    assert [scenario.name for scenario in again.scenarios] == ["A"]
    assert list(again.sets) == ["Two"]


def test_a_closed_model_has_no_steps_and_what_was_asked_of_it() -> None:
    state = planner_state()
    first, second = (PlannedModel(one, Path(one), small_model()) for one in ("a", "b"))
    state.set_model(first)
    state.apply({"context": 4096})
    state.set_model(second)
    state.set_others([first])
    state.set_model(first)
    assert state.current.can_undo  # it was open all the time
    state.set_model(second)
    state.set_others([])
    state.set_model(first)
    assert not state.current.can_undo
    assert state.inputs.settings.context == 4096


def test_the_machine_does_not_replace_what_was_chosen() -> None:
    own = (Device("7", "CUDA", GIB),)
    state = planner_state()
    state.replace_inputs(devices=own)
    found = Machine((Device("0", "CUDA", 2 * GIB),), Host(GIB))
    find(state, found)
    assert state.inputs.devices == own
    assert state.inputs.host == found.host
    assert state.basis.is_chosen
    state.replace_inputs(devices=found.devices)
    assert not state.basis.is_chosen


def test_a_plan_is_made_once_for_the_same_inputs() -> None:
    state = planner_state({"OLLAMA_NUM_PARALLEL": "3", "PATH": "/bin"})
    emitted: list[CurrentPlan] = []
    state.plan_changed.connect(emitted.append)
    assert state.current.result is None
    state.set_model(PlannedModel("small", Path("small.gguf"), small_model()))
    state.replace_inputs(profile=OLLAMA_013.name)
    first = state.current
    state.pin()
    assert emitted[-1] is state.current
    assert state.current.result is first.result
    assert first.plan is not None
    assert first.plan.used("parallel") == 3  # Ollama's own variables count
    assert list(state.environment) == ["OLLAMA_NUM_PARALLEL"]


def test_a_separate_projector_is_part_of_the_plan() -> None:
    state = planner_state()
    find(state, Machine((Device("0", "CUDA", 24 * GIB),), Host(GIB)))
    model = PlannedModel("m", Path("m.gguf"), small_model(), Path("p.gguf"), GIB)
    state.set_model(model)
    state.replace_inputs(profile=OLLAMA_013.name)
    plan = state.current.plan
    assert plan is not None
    assert plan.gpus[0].projector == GIB
    assert state.inputs.settings.projector_bytes == 0  # another model has none


def test_models_that_are_loaded_already_are_planned_once_for_a_machine(
    app: RecordingServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    basis = PlannedMachine(app, MemoryNotes())
    state = PlannerState(basis, {}, runner=app.runner)
    calls: list[int] = []
    original = together.load_first

    def load(*args: Any) -> Any:
        calls.append(1)
        return original(*args)

    monkeypatch.setattr(together, "load_first", load)
    state.set_model(PlannedModel("small", Path("small.gguf"), small_model()))
    other = PlannedModel("other", Path("other.gguf"), small_model())
    asked = replace(PlanInputs().with_settings(context=512), profile=OLLAMA_013.name)
    basis.plan_for(asked, other.path)
    for host, fits in ((Host(64 * GIB), True), (Host(1), False)):  # what does not fit, too
        state.replace_inputs(devices=(), host=host, profile=OLLAMA_013.name)
        calls.clear()
        state.set_also([other])
        for tokens in (1024, 2048, 4096):
            state.set(context=tokens)
            state.flush()
        assert len(calls) == 1
        assert bool(state.loaded) == fits
        assert (state.current.plan is not None) == fits


def test_a_slow_plan_is_made_by_a_worker_and_the_last_value_wins(
    qtbot: QtBot, app: RecordingServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    basis = PlannedMachine(app, MemoryNotes())
    state = PlannerState(basis, {}, runner=app.runner)
    threads: list[str] = []
    original = state.result_of

    def plan(model: PlannedModel, inputs: PlanInputs) -> PlanResult:
        threads.append(threading.current_thread().name)
        return original(model, inputs)

    monkeypatch.setattr(state, "result_of", plan)
    state.set_model(PlannedModel("small", Path("small.gguf"), small_model()))
    state.replace_inputs(profile=OLLAMA_013.name)
    assert set(threads) == {threading.main_thread().name}
    shown = state.current.result
    state._took_s = dict.fromkeys(state._took_s, 100.0)  # as if it had taken this long
    threads.clear()
    for tokens in (1024, 2048, 4096):
        state.set(context=tokens)
        state.flush()
        assert state.current.is_late
        assert state.current.result is shown  # until the new figures are there
        assert state.current.inputs.settings.context == tokens
    qtbot.waitUntil(lambda: not state.current.is_late)
    assert state.current.plan is not None
    assert state.current.plan.used("context") == 4096
    assert threading.main_thread().name not in threads
    assert len(threads) <= 2  # of three values: the first, and the last
    state.set(context=8192)
    state.flush()
    assert not state.current.is_late  # it was quick after all
    qtbot.waitUntil(lambda: not app.runner.jobs)
