"""The planner's state without a window: history, stops, saving, curves, and what is taken away."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from explorer.errors import PlanError
from explorer.hardware.detect import Machine
from explorer.planner import Device, Host, Settings
from explorer.planner.devices import parse_context, parse_gpu, parse_size
from explorer.planner.inputs import PlanInputs
from explorer.present.plan import context_text, size_text
from explorer.present.plan_export import (
    Stops,
    context_stops,
    curve_contexts,
    device_spec,
    make_curves,
    parallel_stops,
    server_command,
)
from explorer.qt.planner.devices import added
from explorer.qt.planner.state import (
    MOST_SCENARIOS,
    CurrentPlan,
    History,
    PlannedModel,
    PlannerState,
)
from tests.planner.models import GIB, random_devices, random_settings, small_model

few = settings(max_examples=40)


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


@few
@given(st.integers(0, 1 << 26) | st.integers(500, 2100))
@example(513)
def test_every_context_has_its_nearest_stop(trained: int) -> None:
    stops = context_stops(trained)
    assert list(stops.values) == sorted(set(stops.values))
    for snap in stops.snaps:
        assert stops.values[stops.position(snap)] == snap
    for power in range(11, 21):
        assert 1 << power in stops.snaps
    if 512 <= trained <= 1 << 24:
        assert trained in stops.snaps
        assert trained <= stops.values[-1]
    assert stops.values[0] == 512


@few
@given(st.integers(1, 1 << 21), st.integers(-3, 3))
def test_steps_go_the_right_way_from_any_value(value: int, steps: int) -> None:
    stops = context_stops(131_072)
    stepped = stops.step(value, steps)
    if steps > 0 and value < stops.values[-1]:
        assert stepped > value
    if steps < 0 and value > stops.values[0]:
        assert stepped < value
    assert stepped in stops.values


def test_stops_of_sequences_hold_all_small_numbers() -> None:
    stops = parallel_stops()
    assert set(range(1, 9)) <= set(stops.values)
    assert stops.values[-1] == 64
    assert Stops([3], []).position(7) == 0


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


@few
@given(random_settings, random_devices(), st.sampled_from([None, Host(GIB), Host(1, 2, 3, True)]))
def test_inputs_survive_being_saved(
    settings_: Settings, devices: list[Device], host: Host | None
) -> None:
    inputs = PlanInputs(settings_, tuple(devices), host, "ollama-0.30")
    assert PlanInputs.from_record(json.loads(json.dumps(inputs.record()))) == inputs


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


@few
@given(_SAVED)
def test_damaged_savings_are_refused_whole(saved: object) -> None:
    state = PlannerState({})
    before = state.scenarios, state.sets
    try:
        state.restore(json.dumps(saved))
    except PlanError:
        assert (state.scenarios, state.sets) == before


@pytest.mark.parametrize("text", ["", "[", "[" * 100_000, "3", '{"scenarios": 3}', "x" * (2 << 20)])
def test_what_is_no_saving_is_refused(text: str) -> None:
    with pytest.raises(PlanError):
        PlannerState({}).restore(text)


def test_scenarios_get_letters_and_are_limited() -> None:
    state = PlannerState({})
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
    state = PlannerState({}, saved.append)
    state.pin()
    state.set(context=8192)
    state.remember("Two")
    state.forget("Two")
    state.unpin(0)
    assert len(saved) == 4
    again = PlannerState({})
    again.restore(saved[1])
    assert [scenario.name for scenario in again.scenarios] == ["A"]
    assert list(again.sets) == ["Two"]


def test_the_machine_does_not_replace_what_was_chosen() -> None:
    own = (Device("7", "CUDA", GIB),)
    state = PlannerState({})
    state.history.put(replace(state.inputs, devices=own), "devices")
    state.set_machine(Machine((Device("0", "CUDA", 2 * GIB),), Host(GIB)))
    assert state.inputs.devices == own
    assert state.machine is not None


def test_a_plan_is_made_once_for_the_same_inputs() -> None:
    state = PlannerState({"OLLAMA_NUM_PARALLEL": "3", "PATH": "/bin"})
    emitted: list[CurrentPlan] = []
    state.plan_changed.connect(emitted.append)
    state.flush()
    assert state.current.result is None
    state.set_model(PlannedModel("small", Path("small.gguf"), small_model()))
    first = state.current
    state.pin()
    assert emitted[-1] is state.current
    assert state.current.result is first.result
    assert first.plan is not None
    assert first.plan.effective.parallel == 3  # Ollama's own variables count
    assert list(state.environment) == ["OLLAMA_NUM_PARALLEL"]


def test_a_separate_projector_is_part_of_the_plan() -> None:
    state = PlannerState({})
    state.set_machine(Machine((Device("0", "CUDA", 24 * GIB),), Host(GIB)))
    model = PlannedModel("m", Path("m.gguf"), small_model(), Path("p.gguf"), GIB)
    state.set_model(model)
    plan = state.current.plan
    assert plan is not None
    assert plan.layout is not None
    assert plan.layout.devices[0].projector == GIB
    assert state.inputs.settings.projector_bytes == 0  # another model has none
    command = server_command(model.path, plan, model.projector)
    assert command.endswith("--mmproj p.gguf")


def test_curves_end_at_the_trained_context_and_can_be_stopped() -> None:
    assert curve_contexts(40_960)[-1] == 40_960
    assert curve_contexts(0)[-1] == 1 << 20
    asked = 0

    def check() -> None:
        nonlocal asked
        asked += 1
        if asked == 5:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        make_curves(small_model(), PlanInputs(), {}, check)


@few
@given(random_devices())
def test_a_device_is_described_so_that_the_command_line_reads_it(devices: list[Device]) -> None:
    for position, device in enumerate(devices):
        named = replace(
            device, name="A, strange = name\x1b", driver_major=12, total=device.free + 1
        )
        read = parse_gpu(device_spec(named), position + 5)
        assert replace(read, name="") == replace(named, name="")
        assert read.name == "A strange name\\x1b"


def test_added_devices_have_ids_of_their_own() -> None:
    devices = added((Device("1", "CUDA", 1),), Device("0", "CUDA", 5), 3)
    assert [device.id for device in devices] == ["1", "0", "2", "3"]
    devices = added(devices, Device("0", "ROCm", 5))
    assert len({device.key for device in devices}) == 5
