"""One selection in every panel: what the mouse and the keys choose in one, the others show."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtWidgets import QAbstractItemView
from pytestqt.qtbot import QtBot

from explorer.formats import Model
from explorer.qt.contents.nodes import Node
from explorer.qt.main_window import MainWindow
from explorer.qt.widgets.table_model import ItemRole
from tests.helpers.gguf_files import write_shards
from tests.helpers.raw_views import settled
from tests.helpers.window import wait_idle

KEY = Qt.Key
LEFT = Qt.MouseButton.LeftButton
NONE, CONTROL = Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.ControlModifier


@pytest.fixture
def window(
    qtbot: QtBot, make_window: Callable[..., MainWindow], demo_path: Path, small_path: Path
) -> MainWindow:
    """A window with two models; the one of twelve layers is shown, in Raw."""
    window = make_window(demo_path, small_path)
    window.panels.setCurrentWidget(window.panels.raw)
    settled(qtbot, window.panels.raw.widget)
    wait_idle(qtbot, window)
    return window


def model(window: MainWindow) -> Model:
    assert window.current is not None
    return window.current.model


def selected(window: MainWindow) -> tuple[str, list[int], list[int]]:
    """Return what the tree, the tensor table and the metadata table have selected."""
    node = window.open_models.tree.currentIndex().data(ItemRole.NODE)
    assert isinstance(node, Node)
    return (
        node.key or (str(node.tensor_row) if node.tensor_row >= 0 else node.title),
        window.panels.tensors.widget.table.selected_content_rows().tolist(),
        window.panels.metadata.widget.list.table.selected_content_rows().tolist(),
    )


def click_byte(qtbot: QtBot, window: MainWindow, offset: int) -> None:
    """Click on a byte that the user has scrolled to."""
    hexes = window.panels.raw.widget.hex
    bar = hexes.verticalScrollBar()
    bar.setValue(max(0, offset // hexes.columns - 3))
    assert offset in hexes.visible_bytes
    qtbot.mouseClick(hexes.viewport(), LEFT, NONE, hexes.place_of(offset))
    assert hexes.cursor_offset == offset


def click_row(qtbot: QtBot, view: QAbstractItemView, index: QModelIndex) -> None:
    view.scrollTo(index)
    qtbot.mouseClick(view.viewport(), LEFT, NONE, view.visualRect(index).center())


def test_a_click_on_weights_selects_their_tensor(qtbot: QtBot, window: MainWindow) -> None:
    for row in (2, 9):
        extent = model(window).tensors.rows[row].extents[0]
        click_byte(qtbot, window, extent.offset + 3)
        assert selected(window)[:2] == (str(row), [row])
        assert (
            window.panels.raw.widget.hex.cursor_offset == extent.offset + 3
        )  # the answer moves nothing
    assert window.panels.currentWidget() is window.panels.raw


def test_a_click_on_a_tensors_record_selects_it(qtbot: QtBot, window: MainWindow) -> None:
    click_byte(qtbot, window, int(model(window).files[0].record_offsets[5]) + 9)
    assert selected(window)[:2] == ("5", [5])


def test_a_click_on_a_key_or_its_value_selects_it(qtbot: QtBot, window: MainWindow) -> None:
    entries = model(window).metadata.entries
    click_byte(qtbot, window, entries[1].offset + 9)
    assert selected(window) == ("general.name", [], [1])
    click_byte(qtbot, window, entries[4].end - 1)
    assert selected(window) == ("some.text", [], [4])
    click_byte(qtbot, window, entries[3].end - 1)  # an element of the array
    assert selected(window) == ("some.numbers", [], [3])
    assert "element 2 of some.numbers" in window.panels.raw.widget.status.place.text()


def test_keys_move_from_field_to_field_and_take_the_selection_along(
    qtbot: QtBot, window: MainWindow
) -> None:
    window.panels.raw.widget.hex.setFocus()
    told = []
    for _ in range(14):
        qtbot.keyClick(window.panels.raw.widget.hex, KEY.Key_Right, CONTROL)
        told.append(selected(window)[0])
    assert told == (
        ["twelve.gguf"] * 3 + ["general.architecture"] * 5 + ["general.name"] * 5
        + ["llama.block_count"]
    )  # fmt: skip
    assert (
        len(window.panels.metadata.widget.list.table.selected_content_rows()) == 1
    )  # Ctrl adds nothing
    qtbot.keyClick(window.panels.raw.widget.hex, KEY.Key_End, CONTROL)
    assert selected(window)[:2] == ("11", [11])


def test_a_click_in_the_tree_moves_the_bytes(qtbot: QtBot, window: MainWindow) -> None:
    tree, document = window.open_models, window.current
    assert document is not None
    index = tree.model.find(document, lambda node: node.tensor_row == 7)
    click_row(qtbot, tree.tree, index)
    assert window.panels.raw.widget.hex.cursor_offset == model(window).tensors.rows[7].offset
    assert selected(window)[:2] == ("7", [7])
    assert window.panels.currentWidget() is window.panels.raw
    index = tree.model.find(document, lambda node: node.key == "some.numbers")
    click_row(qtbot, tree.tree, index)
    assert window.panels.raw.widget.hex.cursor_offset == model(window).metadata.entries[3].offset
    assert selected(window)[2] == [3]


def test_arrow_keys_in_the_tree_move_the_bytes(qtbot: QtBot, window: MainWindow) -> None:
    tree, document = window.open_models, window.current
    assert document is not None
    index = tree.model.find(document, lambda node: node.key == "general.architecture")
    click_row(qtbot, tree.tree, index)
    qtbot.keyClick(tree.tree, KEY.Key_Down)
    assert selected(window)[0] == "general.name"
    assert window.panels.raw.widget.hex.cursor_offset == model(window).metadata.entries[1].offset


def test_a_row_of_the_tensor_table_moves_the_bytes_and_enter_shows_the_weights(
    qtbot: QtBot, window: MainWindow
) -> None:
    window.panels.setCurrentWidget(window.panels.tensors)
    table = window.panels.tensors.widget.table
    click_row(qtbot, table, table.table.index_of(4))
    assert window.panels.raw.widget.hex.cursor_offset == model(window).tensors.rows[4].offset
    assert selected(window)[0] == "4"
    qtbot.keyClick(table, KEY.Key_Down)
    row = table.table.content_row(table.currentIndex())
    assert window.panels.raw.widget.hex.cursor_offset == model(window).tensors.rows[row].offset
    qtbot.keyClick(table, KEY.Key_Return)
    assert window.panels.currentWidget() is window.panels.weights
    wait_idle(qtbot, window)


def test_a_row_of_the_metadata_moves_tree_and_bytes(qtbot: QtBot, window: MainWindow) -> None:
    window.panels.setCurrentWidget(window.panels.metadata)
    table = window.panels.metadata.widget.list.table
    click_row(qtbot, table, table.table.index_of(4))
    assert selected(window)[0] == "some.text"
    assert window.panels.raw.widget.hex.cursor_offset == model(window).metadata.entries[4].offset
    wait_idle(qtbot, window)


def test_a_selection_in_another_model_shows_that_model(qtbot: QtBot, window: MainWindow) -> None:
    demo = window.documents[0]
    index = window.open_models.model.find(demo, lambda node: node.tensor_row == 21)
    click_row(qtbot, window.open_models.tree, index)
    assert window.current is demo
    assert selected(window)[:2] == ("21", [21])
    assert window.panels.raw.widget.hex.cursor_offset == demo.model.tensors.rows[21].offset
    wait_idle(qtbot, window)


def test_a_tensor_of_another_shard_shows_its_file(
    qtbot: QtBot, make_window: Callable[..., MainWindow], tmp_path: Path
) -> None:
    window = make_window(write_shards(tmp_path, 2)[0])
    window.panels.setCurrentWidget(window.panels.raw)
    settled(qtbot, window.panels.raw.widget)
    window.panels.raw.widget.files.setFocus()
    qtbot.keyClick(window.panels.raw.widget.files, KEY.Key_Down)
    assert window.panels.raw.widget.file_index == 1
    settled(qtbot, window.panels.raw.widget)
    click_byte(qtbot, window, model(window).tensors.rows[2].offset + 1)
    assert selected(window)[:2] == ("2", [2])
    click_row(
        qtbot,
        window.panels.tensors.widget.table,
        window.panels.tensors.widget.table.table.index_of(0),
    )
    assert window.panels.raw.widget.file_index == 0
    assert window.panels.raw.widget.hex.cursor_offset == model(window).tensors.rows[0].offset
    wait_idle(qtbot, window)


def test_the_weights_panel_follows_the_selection(qtbot: QtBot, window: MainWindow) -> None:
    panels = window.panels
    window.reveal_tensor(window.documents[0], 3)
    assert panels.weights.widget.shown_rows == (3,)
    panels.tensors.widget.table.selectAll()
    assert len(panels.weights.widget.shown_rows) > 1
    window.reveal_tensor(window.documents[0], 5)
    assert panels.weights.widget.shown_rows == (5,)


def test_the_planner_s_layers_follow_and_lead(qtbot: QtBot, window: MainWindow) -> None:
    panels, document = window.panels, window.documents[0]
    window.show_document(document)
    panels.setCurrentWidget(panels.planner)
    wait_idle(qtbot, window)
    panels.planner.widget.body._choose_layer(1)
    row = panels.tensors.widget.table.selected_content_rows().tolist()[0]
    assert document.model.tensors.rows[row].parsed_name.layer == 1
    panels.planner.widget.body._choose_layer(document.facts.layers)
    row = panels.tensors.widget.table.selected_content_rows().tolist()[0]
    assert document.model.tensors.rows[row].name.startswith("output")
    panels.setCurrentWidget(panels.overview)
