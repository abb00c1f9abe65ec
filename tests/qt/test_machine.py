"""One plan in one program: the machine and what is asked of models, over panels and restarts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLineEdit
from pytestqt.qtbot import QtBot

from explorer.hardware import detect
from explorer.planner import Device, Host
from explorer.planner.environment import VARIABLES
from explorer.planner.inputs import PlanInputs
from explorer.present.tables.what_if import what_if_table
from explorer.qt.jobs import JobRunner
from explorer.qt.machine import PlannedMachine
from explorer.qt.main_window import MainWindow
from explorer.qt.planner.panel import PlannerView
from explorer.qt.settings import Settings
from tests.helpers.services import RecordingServices
from tests.helpers.window import wait_idle
from tests.qt.planner.plan_models import GIB, MACHINE, MemoryNotes

KEY = Qt.Key
OWN = Device("1", "CUDA", 24 * GIB, name="NVIDIA GeForce RTX 4090")
Windows = Callable[..., MainWindow]


@pytest.fixture(autouse=True)
def known_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at a machine of the test's own."""
    monkeypatch.setattr(detect, "detect", lambda: MACHINE)
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def open_planner(qtbot: QtBot, window: MainWindow) -> PlannerView:
    """Go to the planner and wait for its first plan of the machine."""
    panels = window.panels
    panels.setCurrentWidget(panels.planner)
    view = panels.planner.widget
    qtbot.waitUntil(lambda: view.body is not None and view.state.machine is not None)
    settle(qtbot, window)
    return view


def settle(qtbot: QtBot, window: MainWindow) -> None:
    view = window.panels.planner.built
    qtbot.waitUntil(lambda: view is None or not view.state._frame.isActive())
    wait_idle(qtbot, window)


def answer(qtbot: QtBot, window: MainWindow) -> str:
    """Return the whole verdict: that of the plan, and what was then found that would help."""
    settle(qtbot, window)
    body = window.panels.planner.widget.body
    assert body is not None
    qtbot.waitUntil(lambda: body.answer._searched)
    return body.answer.sentence.text()


def type_in(qtbot: QtBot, view: PlannerView, name: str, text: str) -> None:
    """Type into a field of the panel as a person does."""
    assert view.body is not None
    field: Any = view.body.controls.rows[name].editor
    field.setFocus()
    field.selectAll()
    line = field if isinstance(field, QLineEdit) else field.lineEdit()
    qtbot.keyClicks(line, text)
    qtbot.keyClick(line, KEY.Key_Return)


def what_if_total(qtbot: QtBot, window: MainWindow) -> tuple[int, str]:
    """Return what What if says of the model as it is: bytes, and what it is planned for."""
    panels = window.panels
    panels.tensors.widget.table.select_row(0)
    panels.setCurrentWidget(panels.what_if)
    page = panels.what_if.widget
    page.controls.types.set_types(["Q8_0"])
    qtbot.waitUntil(lambda: page.estimate is not None)
    settle(qtbot, window)
    now = next(line for line in page.panel.lines if line.type_name == "")
    return int(what_if_table()["memory_total"].value(now) or 0), page.panel.resting


def library_fit(qtbot: QtBot, window: MainWindow, path: Path) -> Any:
    """Return how the library says that a model fits."""
    panels = window.panels
    panels.setCurrentWidget(panels.library)
    view = panels.library.widget
    qtbot.waitUntil(lambda: any(entry.path == path for entry in view.model.fits))
    settle(qtbot, window)
    return next(fit for entry, fit in view.model.fits.items() if entry.path == path)


def test_machine_and_settings_survive_a_restart(
    qtbot: QtBot, make_window: Windows, demo_path: Path, settings_file: Path
) -> None:
    window = make_window(demo_path)
    view = open_planner(qtbot, window)
    assert view.body is not None
    view.body.devices.add_devices(OWN)
    memory = view.body.devices.ram
    memory.setFocus()
    memory.selectAll()
    qtbot.keyClicks(memory, "100 GiB")
    qtbot.keyClick(memory, KEY.Key_Return)
    type_in(qtbot, view, "context", "3k")
    type_in(qtbot, view, "parallel", "2")
    kind = view.body.controls.rows["kv_cache_type"].editor
    kind.setCurrentIndex(kind.findData("q8_0"))
    chooser = view.body.controls.rows["profile"].editor
    chooser.setCurrentIndex(chooser.findData("ollama"))  # type: ignore[attr-defined]
    before, shown = view.state.inputs, answer(qtbot, window)
    window.close()
    window.settings.write()

    again = make_window(demo_path, settings=Settings(settings_file))
    view = open_planner(qtbot, again)
    assert view.body is not None
    assert view.state.inputs == before
    asked = before.settings
    assert (asked.context, asked.parallel, asked.kv_cache_type) == (3072, 2, "q8_0")
    assert [one.name for one in before.devices] == ["Test GPU", OWN.name]
    assert before.host == Host(100 * GIB, 8 * GIB)
    assert answer(qtbot, again) == shown
    assert again.panels.machine.is_chosen
    assert again.panels.machine.text == (
        "Test GPU, 12.0 GiB · RTX 4090, 24.0 GiB · 100 GiB main memory"
    )
    again.close()


def test_there_is_one_plan(
    qtbot: QtBot, make_window: Windows, demo_path: Path, settings: Settings
) -> None:
    """What if, the library and the planner say the same, whichever was looked at first."""
    settings.library_folders = [demo_path.parent]
    window = make_window(demo_path)
    unseen, words = what_if_total(qtbot, window)
    fit = library_fit(qtbot, window, demo_path)
    view = open_planner(qtbot, window)
    plan = view.state.current.plan
    assert plan is not None
    assert unseen == plan.total
    assert f"for {plan.used('context'):,} tokens, on Test GPU" in words
    assert fit.engine == plan.engine.name
    assert fit.sentence in view.body.answer.sentence.text()
    assert what_if_total(qtbot, window) == (unseen, words)  # looking changed nothing

    view = open_planner(qtbot, window)
    type_in(qtbot, view, "context", "1024")
    type_in(qtbot, view, "parallel", "1")
    settle(qtbot, window)
    plan = view.state.current.plan
    assert plan is not None
    assert plan.total < unseen
    total, words = what_if_total(qtbot, window)
    assert total == plan.total
    assert "for 1,024 tokens" in words
    assert library_fit(qtbot, window, demo_path).sentence in (view.body.answer.sentence.text())
    window.close()


def test_other_hardware_found_is_planned_for_unless_something_was_chosen(
    qtbot: QtBot, app: RecordingServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = MemoryNotes()
    machine = PlannedMachine(app, notes)
    assert not machine.known
    with qtbot.waitSignal(machine.changed):
        machine.look()
    path = Path("model.gguf")
    machine.plan_for(machine.inputs(path, 0), path)
    assert not machine.is_chosen
    assert notes.texts == {}  # nothing was chosen, so nothing is kept
    reserved = Device("0", "CUDA", 12 * GIB, name="Test GPU", reserve=GIB)
    machine.plan_for(PlanInputs(devices=(reserved,), host=MACHINE.host))
    assert not machine.is_chosen  # the same GPU, of which something was learned

    other = detect.Machine((Device("0", "CUDA", 4 * GIB, name="test  gpu"),), Host(GIB))
    monkeypatch.setattr(detect, "detect", lambda: other)
    machine = PlannedMachine(app, notes)
    with qtbot.waitSignal(machine.changed):
        machine.look()
    assert [(one.free, one.reserve) for one in machine.devices] == [(4 * GIB, GIB)]
    machine.plan_for(PlanInputs(devices=(), host=None))
    again = PlannedMachine(app, notes)
    assert again.known
    assert (again.devices, again.host) == ((), None)
    assert again.text == "No GPU"


def test_a_machine_that_cannot_be_looked_at_says_so(
    qtbot: QtBot, app: RecordingServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> detect.Machine:
        raise detect.PlanError("the driver is away")

    monkeypatch.setattr(detect, "detect", fail)
    machine = PlannedMachine(app, MemoryNotes())
    machine.look()
    qtbot.waitUntil(lambda: bool(app.errors))
    assert "Looking" in machine.text


_JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.floats(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["devices", "host", "reserves", "bandwidths", "context", "cache_type"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@given(_JUNK | st.text())
def test_what_was_kept_may_be_damaged(saved: object) -> None:
    notes, path = MemoryNotes(), Path("model.gguf")
    text = saved if isinstance(saved, str) else json.dumps(saved)
    notes.set_note("machine", text)
    notes.set_model_note(path, "plan", text)
    machine = PlannedMachine(RecordingServices(JobRunner()), notes)
    assert isinstance(machine.inputs(path, 0), PlanInputs)
    assert isinstance(machine.text, str)


def test_settings_of_many_models_are_bounded(settings: Settings) -> None:
    for number in range(230):
        settings.set_model_note(Path(f"{number}.gguf"), "plan", str(number))
    assert settings.model_note(Path("229.gguf"), "plan") == "229"
    assert settings.model_note(Path("0.gguf"), "plan") == ""
    kept = [n for n in range(230) if settings.model_note(Path(f"{n}.gguf"), "plan")]
    assert len(kept) == 200


def test_a_model_of_which_nothing_was_asked_is_planned_as_all(app: RecordingServices) -> None:
    notes, path = MemoryNotes(), Path("model.gguf")
    notes.set_model_note(path, "plan", '{"settings": {}, "profile": null}')
    machine = PlannedMachine(app, notes)
    assert machine.asked_of(path) is None
    machine.plan_for(PlanInputs(), path, 4096)  # the program's own context, as no field asks it
    assert machine.asked_of(path) == PlanInputs()
    machine.plan_for(machine.target().inputs(4096), path, 4096)
    assert machine.asked_of(path) is None
    machine.ask_of_all(2048, "q8_0")
    asked = machine.inputs(path, 1024).settings
    assert (asked.context, asked.kv_cache_type) == (1024, "q8_0")
