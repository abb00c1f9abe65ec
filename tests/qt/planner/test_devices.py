"""Devices: this machine's, those of the catalogue, edited, reordered, remembered."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtWidgets import QInputDialog, QLineEdit
from pytestqt.modeltest import ModelTester
from pytestqt.qtbot import QtBot

from explorer.hardware.catalogue import load_catalogue
from explorer.planner import Device
from explorer.qt.planner.devices import FREE, NAME, RESERVE, CatalogueDialog, added
from explorer.qt.widgets.table_model import ItemRole
from explorer.text import bytes_text
from tests.qt.planner.plan_models import GIB, MACHINE, Panel

KEY = Qt.Key
TWO = (Device("0", "CUDA", 4 * GIB, name="First"), Device("1", "CUDA", 3 * GIB, name="Second"))


def _open_catalogue(qtbot: QtBot, panel: Panel) -> CatalogueDialog:
    panel.body.devices.add.click()
    dialog = panel.body.devices.findChild(CatalogueDialog)
    assert dialog is not None
    qtbot.waitExposed(dialog)
    return dialog


def test_plans_for_this_machine_at_first(panel: Panel) -> None:
    assert panel.state.inputs.devices == MACHINE.devices
    assert panel.state.inputs.host == MACHINE.host
    assert not panel.state.history.can_undo  # nothing was changed yet
    assert panel.body.devices.ram.text() == "64 GiB"


@pytest.mark.parametrize(
    ("typed", "found", "count"),
    [
        ("rtx 3090 ti", "NVIDIA GeForce RTX 3090 Ti", 1),
        ("2x rtx 4090", "NVIDIA GeForce RTX 4090", 2),
        ("17.5GiB", 17 * GIB + GIB // 2, 1),
        ("3 × 17GiB", 17 * GIB, 3),
        ("no such thing", 0, 0),  # neither a name nor a size
    ],
)
def test_gpus_are_added_by_words_or_by_their_size(
    qtbot: QtBot, panel: Panel, typed: str, found: str | int, count: int
) -> None:
    dialog = _open_catalogue(qtbot, panel)
    everything = dialog.model.rowCount()
    qtbot.keyClicks(dialog.search.edit, typed)
    assert dialog.model.rowCount() < everything
    assert dialog.add.isEnabled() == bool(count)
    if not count:
        qtbot.keyClick(dialog.search.edit, KEY.Key_Down)  # nothing to go down to
        assert dialog.isVisible()
    qtbot.keyClick(dialog.search.edit, KEY.Key_Return)
    assert dialog.isVisible() == (not count)
    dialog.close()
    added_ones = panel.state.inputs.devices[1:]
    is_name = isinstance(found, str)
    wanted = (found, load_catalogue().find(found).usable_bytes) if is_name else ("", found)
    assert [(one.name, one.free) for one in added_ones] == [wanted] * count
    assert len({device.key for device in panel.state.inputs.devices}) == 1 + count
    panel.assert_shown()


def test_down_goes_on_from_the_card_that_enter_would_add(qtbot: QtBot, panel: Panel) -> None:
    dialog = _open_catalogue(qtbot, panel)
    qtbot.keyClicks(dialog.search.edit, "3060")
    names = [dialog.model.index(row, 0).data() for row in range(2)]
    assert dialog.chosen().name == names[0]
    qtbot.keyClick(dialog.search.edit, KEY.Key_Down)
    qtbot.keyClick(dialog.table, KEY.Key_Return)
    assert panel.state.inputs.devices[-1].name == names[1] == "NVIDIA GeForce RTX 3060 12 GB"


def test_how_many_are_added_can_be_set_too(qtbot: QtBot, panel: Panel) -> None:
    dialog = _open_catalogue(qtbot, panel)
    qtbot.keyClicks(dialog.search.edit, "rtx 4090")
    dialog.count.setValue(2)
    qtbot.mouseClick(dialog.add, Qt.MouseButton.LeftButton)
    assert len(panel.state.inputs.devices) == 3
    panel.state.undo()
    assert len(panel.state.inputs.devices) == 1


def test_a_size_finds_cards_newest_first_or_adds_one_of_no_name(qtbot: QtBot, panel: Panel) -> None:
    dialog = _open_catalogue(qtbot, panel)
    qtbot.keyClicks(dialog.search.edit, "12GB")
    rows = range(dialog.model.rowCount())
    years = [int(dialog.model.index(row, 5).data()) for row in rows]
    assert len(years) > 5
    assert years == sorted(years, reverse=True)
    dialog.search.edit.setText("voodoo")
    assert dialog.search.status.text() == "Not known. Type its memory: 12 GB"
    assert not dialog.add.isEnabled()
    dialog.search.edit.setText("17 GB")
    assert dialog.model.rowCount() == 0
    assert dialog.add.text() == "&Add a card of 17 GB"
    dialog.add.click()
    assert panel.state.inputs.devices[-1].free == 17 * GIB


def test_remove_is_offered_where_it_is_clear_what_goes(qtbot: QtBot, panel: Panel) -> None:
    box = panel.body.devices
    assert box.remove.isEnabled()  # the only one
    box.add_devices(Device("0", "CUDA", GIB, name="Other GPU"))
    panel.settle()
    assert not box.remove.isEnabled()
    box.table.selectRow(0)
    qtbot.mouseClick(box.remove, Qt.MouseButton.LeftButton)
    assert [device.name for device in panel.state.inputs.devices] == ["Other GPU"]
    panel.settle()
    qtbot.mouseClick(box.remove, Qt.MouseButton.LeftButton)
    assert panel.state.inputs.devices == ()


def test_free_memory_is_edited_in_its_cell(qtbot: QtBot, panel: Panel) -> None:
    table = panel.body.devices.table
    cell = panel.body.devices.model.index(0, FREE)
    table.setCurrentIndex(cell)
    table.edit(cell)
    editor = table.findChild(QLineEdit)
    assert editor is not None
    editor.selectAll()
    qtbot.keyClicks(editor, "6.5 GiB")
    qtbot.keyClick(editor, KEY.Key_Return)
    qtbot.waitUntil(lambda: panel.state.inputs.devices[0].free == 6 * GIB + GIB // 2)
    panel.assert_shown()
    model = panel.body.devices.model
    assert not model.setData(cell, "a lot")
    assert "is not a size" in str(panel.failures[-1])
    panel.state.undo()
    assert panel.state.inputs.devices == MACHINE.devices


def test_rows_are_reordered_by_dropping_and_by_keys(qtbot: QtBot, panel: Panel) -> None:
    panel.state.replace_inputs(devices=(*TWO, Device("2", "CUDA", 2 * GIB, name="Third")))
    model, table = panel.body.devices.model, panel.body.devices.table
    dragged = model.mimeData([model.index(2, NAME), model.index(2, FREE)])
    move = Qt.DropAction.MoveAction
    assert not model.dropMimeData(dragged, move, 0, 0, QModelIndex())  # the view removes nothing
    names = [device.name for device in panel.state.inputs.devices]
    assert names == ["Third", "First", "Second"]
    panel.assert_shown()
    table.setCurrentIndex(model.index(0, NAME))
    table.setFocus()
    qtbot.keyClick(table, KEY.Key_Down, Qt.KeyboardModifier.AltModifier)
    names = [device.name for device in panel.state.inputs.devices]
    assert names == ["First", "Third", "Second"]
    assert table.currentIndex().row() == 1
    qtbot.keyClick(table, KEY.Key_Delete)
    assert [device.name for device in panel.state.inputs.devices] == ["First", "Second"]


def test_the_model_of_devices_keeps_qts_rules(panel: Panel, qtmodeltester: ModelTester) -> None:
    model = panel.body.devices.model
    qtmodeltester.check(model)
    panel.state.replace_inputs(devices=TWO)
    qtmodeltester.check(model)
    model.move(0, 2)
    panel.state.replace_inputs(devices=())
    qtmodeltester.check(model)
    assert model.rowCount() == 0
    panel.state.undo()
    assert model.index(0, FREE).data(ItemRole.RAW) == 3 * GIB


def test_main_memory_and_swap_are_the_cpus_bar(qtbot: QtBot, panel: Panel) -> None:
    ram = panel.body.devices.ram
    ram.setFocus()
    ram.selectAll()
    qtbot.keyClicks(ram, "10GiB")
    qtbot.keyClick(ram, KEY.Key_Return)
    panel.assert_shown()
    bar = panel.body.picture.bars.bars[-1]
    assert bar.capacity == 18 * GIB
    assert bar.mark == 10 * GIB
    ram.selectAll()
    qtbot.keyClick(ram, KEY.Key_Backspace)
    qtbot.keyClick(ram, KEY.Key_Return)
    assert panel.state.inputs.host is None  # nothing is checked against it
    panel.settle()
    assert panel.body.picture.bars.bars[-1].capacity is None


def test_sets_are_remembered_chosen_and_forgotten(
    panel: Panel, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = panel.body.devices

    def choose(text: str) -> None:
        box.sets.menu().aboutToShow.emit()  # as when it is opened
        next(a for a in box.sets.menu().actions() if text in a.text()).trigger()

    panel.state.replace_inputs(devices=TWO)
    monkeypatch.setattr(QInputDialog, "getText", lambda *_: ("2 × small & odd", True))
    choose("Save")
    choose("This machine")
    assert panel.state.inputs.devices == MACHINE.devices
    choose("2 × small && odd")
    assert panel.state.inputs.devices == TWO
    assert "2 \\u00d7 small & odd" in panel.notes.note("planner")
    box.forget.actions()[0].trigger()
    assert panel.state.sets == {}


def test_added_devices_have_ids_of_their_own() -> None:
    devices = added((Device("1", "CUDA", 1),), Device("0", "CUDA", 5), 3)
    assert [device.id for device in devices] == ["1", "0", "2", "3"]
    devices = added(devices, Device("0", "ROCm", 5))
    assert len({device.key for device in devices}) == 5


def test_each_gpu_has_a_reserve_that_is_edited_in_place(panel: Panel) -> None:
    model = panel.body.devices.model
    panel.state.replace_inputs(profile="llama.cpp")
    panel.settle()
    cell = model.index(0, RESERVE)
    kept = panel.state.current.plan.gpus[0].reserve.high
    assert cell.data() == bytes_text(kept) == "703 MiB"  # as the bars have it
    assert "73.0 MiB to 703 MiB by logs" in cell.data(Qt.ItemDataRole.ToolTipRole)
    assert model.setData(cell, "1 GiB")
    panel.settle()
    assert panel.state.inputs.devices[0].reserve == GIB
    assert panel.state.current.plan.gpus[0].reserve.high == GIB
    assert panel.view.machine.reserves == {"Test GPU": GIB}  # remembered for that GPU
    panel.body.devices.add_devices(replace(panel.state.inputs.devices[0], reserve=None))
    assert panel.state.inputs.devices[1].reserve == GIB
    panel.state.undo()
    assert not model.setData(cell, "much")
    assert "not a size" in str(panel.failures[-1])
    assert model.setData(cell, "")
    assert panel.state.inputs.devices[0].reserve is None
    panel.settle()
    assert cell.data() == "703 MiB"


def test_without_a_gpu_one_is_asked_for_and_nothing_is_alarming(panel: Panel) -> None:
    box, qtbot = panel.body.devices, panel.qtbot
    panel.state.replace_inputs(devices=())
    panel.settle()
    assert box.add.text() == "&Add your GPU…"
    assert not box.table.isVisible()
    assert panel.body.answer.sentence.text().startswith("✔  Runs on the CPU")
    qtbot.waitUntil(box.add.isEnabled)
    box.add.setFocus()
    qtbot.keyClick(box.add, KEY.Key_Space)
    dialog = box.findChild(CatalogueDialog)
    assert dialog is not None
    dialog.search.edit.setText("rtx 4070 ti super")
    qtbot.keyClick(dialog.search.edit, KEY.Key_Return)
    assert len(panel.state.inputs.devices) == 1
    panel.settle()
    # not on Remove, which stands where it stood
    qtbot.waitUntil(lambda: box.window().focusWidget() is box.add)


def test_a_split_is_typed(panel: Panel) -> None:
    qtbot, state = panel.qtbot, panel.state
    gpus = tuple(Device(str(i), "CUDA", 12 * GIB, name=f"GPU {i}") for i in range(3))
    state.replace_inputs(devices=gpus, profile="llama.cpp")
    state.apply({"context": 4096, "num_gpu": 33})
    controls = panel.body.controls
    controls.advanced.setChecked(True)
    panel.settle()

    def layers() -> list[int]:
        return [len(one.layers) for one in state.current.plan.gpus]

    assert layers() == [11, 11, 11]
    row = controls.rows["tensor_split"]
    row.editor.setFocus()
    row.editor.selectAll()
    qtbot.keyClicks(row.editor, "1,1,31")
    qtbot.keyClick(row.editor, Qt.Key.Key_Return)
    panel.settle()
    assert layers() == [1, 1, 31]
    assert row.holds.text() == "1,1,31"
    assert "1 changed" not in controls.advanced.text()  # layers and split
    row.reset.click()
    panel.settle()
    assert layers() == [11, 11, 11]
