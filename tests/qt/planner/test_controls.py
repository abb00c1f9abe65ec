"""Settings by mouse, wheel, keyboard and typed value; what is shown equals `plan()` each time."""

from __future__ import annotations

import html
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QCheckBox, QComboBox, QLineEdit, QSpinBox, QToolTip
from pytestqt.qtbot import QtBot

from explorer.planner import Device
from explorer.planner.engines.registry import ENGINES
from explorer.qt.document import Document
from explorer.qt.planner.controls import StopSlider
from tests.qt.planner.plan_models import GIB, Panel, drag, turn_wheel, write_model

KEY = Qt.Key


@pytest.mark.parametrize(
    ("name", "wanted", "beside"),
    [
        ("context", 32_768, 0),
        ("context", 65_536, 3),  # drawn to a snap point close by
        ("parallel", 12, 0),
        ("parallel", 64, -3),
    ],
)
def test_a_slider_is_dragged_to_a_value_that_is_planned_for(
    qtbot: QtBot, panel: Panel, name: str, wanted: int, beside: int
) -> None:
    panel.body.controls.advanced.setChecked(True)
    row = panel.body.controls.rows[name]
    slider = row.slider
    assert isinstance(slider, StopSlider)
    start = slider.x_of(slider.value())
    target = slider.x_of(slider.stops.position(wanted)) + beside
    drag(qtbot, slider, [start + (target - start) * i // 10 for i in range(11)], y=8)
    assert getattr(panel.state.inputs.settings, name) == wanted
    assert panel.assert_shown().used(name) == wanted
    assert row.editor.text() == slider.accessibleDescription() == f"{wanted:,}"
    panel.state.undo()
    assert getattr(panel.state.inputs.settings, name) is None  # the drag is one step


def test_a_click_a_key_and_the_wheel_move_the_slider(qtbot: QtBot, panel: Panel) -> None:
    slider = panel.body.controls.context
    stops = slider.stops
    steps: list[tuple[Callable[[], object], int]] = [
        (lambda: drag(qtbot, slider, [slider.x_of(stops.position(8192))], y=8), 8192),
        (lambda: qtbot.keyClick(slider, KEY.Key_Right), stops.step(8192, 1)),
        (lambda: qtbot.keyClick(slider, KEY.Key_Left), 8192),
        (lambda: qtbot.keyClick(slider, KEY.Key_PageUp), 16_384),
        (lambda: qtbot.keyClick(slider, KEY.Key_End), stops.values[-1]),
        (lambda: qtbot.keyClick(slider, KEY.Key_Home), 512),
        (lambda: turn_wheel(slider, 2), stops.step(512, 2)),
        (lambda: turn_wheel(slider, -2), 512),
    ]
    slider.setFocus()
    for act, expected in steps:
        act()
        assert panel.state.inputs.settings.context == expected
        panel.assert_shown()


def test_a_context_is_typed_as_people_write_it(qtbot: QtBot, panel: Panel) -> None:
    edit, before = panel.body.controls.context_edit, None
    edit.setFocus()
    for typed, tokens in (("32k", 32_768), ("1m", 1 << 20), ("12,345", 12_345), ("0.5k", 512)):
        edit.selectAll()
        qtbot.keyClicks(edit, typed)
        assert panel.state.inputs.settings.context == before  # not for 3, and not for 32
        qtbot.keyClick(edit, KEY.Key_Return)
        before = panel.state.inputs.settings.context
        assert before == tokens
        panel.assert_shown()


def test_what_is_no_context_is_not_taken(qtbot: QtBot, panel: Panel) -> None:
    edit = panel.body.controls.context_edit
    edit.setFocus()
    edit.selectAll()
    qtbot.keyClicks(edit, "lots")
    qtbot.keyClick(edit, KEY.Key_Return)
    panel.body.controls.rows["kv_cache_type"].editor.setFocus()
    assert panel.state.inputs.settings.context is None
    assert edit.value() == 4096


def test_says_what_holds_where_it_is_not_what_was_asked_for(panel: Panel) -> None:
    panel.state.set(context=1 << 20)
    panel.settle()
    controls = panel.body.controls
    assert controls.context_edit.text() == "1,048,576"
    assert controls.rows["context"].holds.text() == "≠ 131,072"
    row = controls.rows["context"]
    assert "trained for 131,072" in row.holds.accessibleDescription()
    controls.rows["context"].reset.click()
    assert panel.state.inputs.settings.context == 8192  # as of all models
    panel.settle()
    assert controls.rows["context"].holds.text() == ""  # the field says it
    assert controls.context_edit.text() == "8,192"
    assert controls.rows["context"].reset.isHidden()


def test_the_trained_context_is_marked_and_reached(
    qtbot: QtBot, panel: Panel, load: Callable[[Path], Document], tmp_path: Path
) -> None:
    panel.show(load(write_model(tmp_path / "odd.gguf", trained=40_960)))
    slider = panel.body.controls.context
    assert 40_960 in slider.stops.snaps
    assert slider.stops.names[slider.stops.important] == "trained 40,960"
    drag(qtbot, slider, [slider.x_of(slider.stops.position(40_960)) - 2], y=8)
    assert panel.assert_shown().used("context") == 40_960


def test_unfolding_leaves_what_is_beside_it_where_it_is(panel: Panel) -> None:
    panel.settle()
    body = panel.body
    places = []
    for _ in range(2):
        places.append((body.splitter.sizes(), body.pages.geometry().topLeft()))
        body.controls.advanced.click()
        panel.settle()
    assert places[0] == places[1]


def test_names_of_stops_never_overlap_and_stay_inside(panel: Panel) -> None:
    slider = panel.body.controls.context
    boxes = [box for _, box in slider._label_boxes()]
    assert len(boxes) >= 4
    assert all(slider.rect().contains(box) for box in boxes)
    pairs = [(a, b) for i, a in enumerate(boxes) for b in boxes[i + 1 :]]
    assert not any(a.intersects(b) for a, b in pairs)


def test_requests_and_the_cache_type_are_typed_and_chosen(qtbot: QtBot, panel: Panel) -> None:
    panel.state.set(flash_attention=True)
    controls = panel.body.controls
    assert controls.rows["parallel"].editor.isHidden()  # one request is what most people run
    controls.advanced.setChecked(True)
    requests, kind = controls.rows["parallel"].editor, controls.rows["kv_cache_type"].editor
    requests.setFocus()
    requests.selectAll()
    qtbot.keyClicks(requests, "3")
    qtbot.keyClick(requests, KEY.Key_Return)
    assert panel.assert_shown().used("parallel") == 3
    full = panel.assert_shown().cache
    qtbot.keyClicks(kind, "q8_0")
    smaller = panel.assert_shown()
    assert smaller.used("kv_cache_type") == "q8_0"
    assert smaller.cache < full


def test_a_quantized_cache_without_flash_attention_says_that_it_does_not_hold(panel: Panel) -> None:
    panel.state.set(kv_cache_type="q4_0")
    panel.assert_shown()
    assert panel.body.controls.rows["kv_cache_type"].holds.text() == "≠ f16"


def test_the_other_settings_reach_the_plan(qtbot: QtBot, panel: Panel) -> None:
    controls = panel.body.controls
    two = (Device("0", "CUDA", 12 * GIB), Device("1", "CUDA", 12 * GIB))
    panel.state.replace_inputs(devices=two)

    def editor(kind: type, name: str) -> object:
        return controls.findChild(kind, f"planner_{name}")

    batch = editor(QSpinBox, "batch")
    assert isinstance(batch, QSpinBox)
    batch.setFocus()
    batch.selectAll()
    qtbot.keyClicks(batch, "1024")
    qtbot.keyClick(batch, KEY.Key_Return)
    assert panel.assert_shown().used("batch") == 1024
    attention = editor(QComboBox, "flash_attention")
    assert isinstance(attention, QComboBox)
    attention.setFocus()
    qtbot.keyClick(attention, KEY.Key_Down)
    assert panel.assert_shown().used("flash_attention")
    layers = editor(QSpinBox, "num_gpu")
    assert isinstance(layers, QSpinBox)
    assert layers.text() == "auto"
    layers.setFocus()
    layers.selectAll()
    qtbot.keyClicks(layers, "5")
    qtbot.keyClick(layers, KEY.Key_Return)
    assert panel.assert_shown().gpu_layers == 5
    controls.rows["num_gpu"].reset.click()
    overhead = editor(QLineEdit, "overhead")
    assert isinstance(overhead, QLineEdit)
    overhead.setFocus()
    qtbot.keyClicks(overhead, "512MiB")
    qtbot.keyClick(overhead, KEY.Key_Return)
    assert panel.assert_shown().used("overhead") == 512 << 20
    spread = editor(QCheckBox, "spread")
    assert isinstance(spread, QCheckBox)
    assert sum(held.is_used for held in panel.assert_shown().gpus) == 1
    qtbot.keyClick(spread, KEY.Key_Space)
    assert sum(held.is_used for held in panel.assert_shown().gpus) == 2


def test_a_size_that_is_none_is_refused_with_a_sentence(qtbot: QtBot, panel: Panel) -> None:
    overhead = panel.body.controls.findChild(QLineEdit, "planner_overhead")
    overhead.setFocus()
    qtbot.keyClicks(overhead, "much")
    qtbot.keyClick(overhead, KEY.Key_Return)
    assert not panel.failures  # it is said beside the field
    assert "is not a size" in QToolTip.text()
    assert overhead.text() == ""


def test_32_in_a_field_of_memory_is_32_gb_and_says_so_while_it_is_typed(
    qtbot: QtBot, panel: Panel
) -> None:
    ram = panel.body.devices.ram
    ram.setFocus()
    ram.selectAll()
    qtbot.keyClicks(ram, "32")
    assert "= 32 GiB" in QToolTip.text()
    assert ram.accessibleDescription() == "= 32 GiB"
    qtbot.keyClick(ram, KEY.Key_Return)
    assert panel.state.inputs.host.free == 32 << 30
    ram.selectAll()
    qtbot.keyClicks(ram, "48 pears")
    assert "32 GiB stays" in QToolTip.text()
    qtbot.keyClick(ram, KEY.Key_Return)
    assert ram.text() == "32 GiB"
    assert panel.state.inputs.host.free == 32 << 30
    QToolTip.hideText()


@pytest.mark.parametrize(
    ("name", "typed", "why"),
    [
        ("context", "0", "'0' is not a number from 1 to 1,073,741,824. Until then 4,096 stays."),
        ("context", "0k", "'0k' is not a number from 1 to 1,073,741,824. Until then 4,096 stays."),
        ("context", "pears", "'pears' is not a number of tokens. Write 32768 or 32k. Until then"),
        ("ubatch", "0", "'0' is not a number from 1 to "),
    ],
)
def test_a_number_that_cannot_be_is_refused_with_a_sentence(
    qtbot: QtBot, panel: Panel, name: str, typed: str, why: str
) -> None:
    panel.state.set(context=4096)
    panel.body.controls.advanced.setChecked(True)
    edit = panel.body.controls.rows[name].editor
    assert isinstance(edit, QSpinBox)
    before, line = edit.value(), edit.lineEdit()
    line.setFocus()
    line.selectAll()
    qtbot.keyClicks(line, typed)
    assert why in html.unescape(QToolTip.text())
    assert why in edit.accessibleDescription()
    qtbot.keyClick(line, KEY.Key_Return)
    assert edit.value() == before
    assert why in html.unescape(QToolTip.text())
    line.selectAll()
    qtbot.keyClicks(line, "2")
    assert edit.accessibleDescription() == ""
    qtbot.keyClick(line, KEY.Key_Return)
    assert edit.value() == 2
    QToolTip.hideText()


def test_a_profile_is_that_of_where_the_model_comes_from_until_one_is_chosen(
    qtbot: QtBot, panel: Panel, document: Document, load: Callable[[Path], Document], tmp_path: Path
) -> None:
    panel.state.replace_inputs(profile=None)
    chooser = panel.body.controls.findChild(QComboBox, "planner_profile")
    shown = [chooser.itemText(i) for i in range(chooser.count())]
    able = [ENGINES[name] for name in _OF_GGUF]  # no program is offered that cannot load the file
    assert shown == [profile.title for profile in able]
    assert chooser.currentData() == panel.plan().engine.name == "llama.cpp"
    assert panel.body.controls.rows["profile"].reset.isHidden()
    assert all(button.isEnabled() for button in panel.body.answer.questions.values())

    store = tmp_path / "models" / "blobs"
    store.mkdir(parents=True)
    stored = load(write_model(store / f"sha256-{'0' * 64}"))
    panel.view.show_document(stored)
    qtbot.waitUntil(lambda: panel.state.model is not None and panel.state.model.path == stored.path)
    panel.settle()
    assert chooser.currentData() == panel.state.current.plan.engine.name == "ollama"

    chooser.setCurrentIndex(chooser.findData("ollama-graphsize"))
    panel.assert_shown()
    panel.view.show_document(document)  # of which nothing else was asked
    qtbot.waitUntil(lambda: panel.state.model.path == document.path)
    panel.settle()
    assert chooser.currentData() == "llama.cpp"
    panel.view.show_document(stored)
    qtbot.waitUntil(lambda: panel.state.model.path == stored.path)
    panel.settle()
    assert chooser.currentData() == "ollama-graphsize"
    panel.state.undo()
    panel.settle()
    assert chooser.currentData() == "ollama"
    panel.state.redo()
    panel.body.controls.rows["profile"].reset.click()
    assert panel.state.inputs.profile is None


def test_an_answer_by_llama_cpp_puts_all_layers_on_the_gpus(qtbot: QtBot, panel: Panel) -> None:
    panel.state.replace_inputs(profile=None)
    panel.state.replace_inputs(devices=(Device("0", "CUDA", 6 * GIB, name="Test GPU"),))
    panel.settle()
    panel.body.answer.questions["context"].trigger()
    qtbot.waitUntil(lambda: panel.body.answer._advice is not None)
    panel.offered[-1].click()
    panel.settle()
    assert panel.state.current.plan.fully_offloaded
    assert not panel.state.current.plan.verdict.short
    panel.state.undo()
    assert panel.state.inputs.settings.context is None
    assert panel.state.inputs.settings.num_gpu is None


def test_undo_and_redo_take_a_drag_as_one_step(qtbot: QtBot, panel: Panel) -> None:
    slider = panel.body.controls.context
    drag(qtbot, slider, [slider.x_of(n) for n in range(40, 100)], y=8)
    dragged = panel.state.inputs.settings.context
    drag(qtbot, slider, [slider.x_of(n) for n in range(100, 20, -1)], y=8)
    slider.setFocus()
    control, shift = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier
    qtbot.keyClick(slider, KEY.Key_Z, control)
    assert panel.state.inputs.settings.context == dragged
    qtbot.keyClick(slider, KEY.Key_Z, control)
    assert panel.state.inputs.settings.context is None
    qtbot.keyClick(slider, KEY.Key_Z, control | shift)
    assert panel.state.inputs.settings.context == dragged
    panel.assert_shown()


def test_undo_works_from_a_field_in_which_nothing_is_typed(qtbot: QtBot, panel: Panel) -> None:
    edit = panel.body.controls.context_edit
    edit.setFocus()
    edit.selectAll()
    qtbot.keyClicks(edit, "16k")
    qtbot.keyClick(edit, KEY.Key_Return)
    assert panel.state.inputs.settings.context == 16_384
    qtbot.keyClick(edit, KEY.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert panel.state.inputs.settings.context is None
    assert edit.value() == 4096


def test_fields_let_the_wheel_scroll_past_them(panel: Panel) -> None:
    edit = panel.body.controls.context_edit
    panel.body.controls.context.setFocus()
    turn_wheel(edit, 1)
    assert panel.state.inputs.settings.context is None
    edit.setFocus()
    turn_wheel(edit, 1)
    assert panel.state.inputs.settings.context == edit.stops.step(4096, 1)


def test_only_the_last_of_many_values_is_planned_for(panel: Panel) -> None:
    planned: list[int] = []
    note = panel.state.plan_changed.connect(lambda now: planned.append(now.plan.used("context")))
    for context in range(5000, 5200):
        panel.state.set(context=context)
    panel.settle()
    panel.state.plan_changed.disconnect(note)
    assert planned == [5199]
    panel.assert_shown()


def test_settings_of_llama_cpp_are_made_shown_and_undone(qtbot: QtBot, panel: Panel) -> None:
    panel.state.replace_inputs(profile=None)
    rows = panel.body.controls.rows
    before = panel.state.current.plan.gpus[0].compute
    ubatch = rows["ubatch"].editor
    assert isinstance(ubatch, QSpinBox)
    assert ubatch.value() == 512
    ubatch.setValue(128)
    panel.settle()
    assert rows["ubatch"].holds.text() == ""  # the field says it
    assert panel.state.current.plan.used("ubatch") == 128
    assert panel.state.current.plan.gpus[0].compute < before
    panel.state.undo()
    panel.settle()
    assert ubatch.value() == 512
    assert panel.state.current.plan.gpus[0].compute == before

    panel.state.set(parallel=2)
    unified = rows["kv_unified"].editor
    assert isinstance(unified, QComboBox)
    unified.setCurrentIndex(unified.findData(True))
    panel.settle()
    assert panel.state.current.plan.used("kv_unified")
    assert rows["kv_unified"].holds.text() == ""


_OF_GGUF = ("llama.cpp", "ollama", "ollama-graphsize")


@pytest.mark.parametrize("profile", _OF_GGUF)
def test_only_what_a_profile_knows_is_shown(panel: Panel, profile: str) -> None:
    panel.state.replace_inputs(profile=profile)
    panel.body.controls.advanced.click()
    panel.settle()
    shown = {name for name, row in panel.body.controls.rows.items() if not row.editor.isHidden()}
    known = {one.name for one in ENGINES[profile].settings if one.title}
    assert shown == {"profile", *known} - {"tensor_split"}  # of one GPU
