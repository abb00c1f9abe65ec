"""One selection in the survey, the tree and the table, both ways."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from pytestqt.qtbot import QtBot

from explorer.qt.main_window import MainWindow
from explorer.qt.references import Rounding
from explorer.qt.survey.panel import SurveyView
from explorer.qt.widgets.controls import BETWEEN
from explorer.qt.widgets.table_model import ItemRole
from tests.helpers.window import wait_idle

LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def window(qtbot: QtBot, make_window: Callable[..., MainWindow], demo_path: Path) -> MainWindow:
    """A window with the demo model, whose map is shown."""
    window = make_window(demo_path)
    window.panels.setCurrentWidget(window.panels.survey)
    qtbot.waitUntil(lambda: window.panels.survey.widget is not None)
    wait_idle(qtbot, window)
    return window


def survey(window: MainWindow) -> SurveyView:
    return window.panels.survey.widget


def click_cell(qtbot: QtBot, window: MainWindow, row: int) -> None:
    body, content = survey(window), survey(window).session.content
    assert content is not None
    place = body.map.map.cell_place(int(content.folded.cell_of[row])).center().toPoint()
    qtbot.mouseClick(body.map.map.viewport(), LEFT, pos=place)


def marked(window: MainWindow) -> tuple[int, list[int]]:
    """Return the rows of the cell that the map marks, and what the worst tensors have selected."""
    body, content = survey(window), survey(window).session.content
    assert content is not None
    row = content.folded.row_of(body.map.map.current, window.panels.selection.rows[0])
    return row, body.worst_tensors.table.selected_content_rows().tolist()


def test_a_cell_selects_in_tree_table_and_bytes(qtbot: QtBot, window: MainWindow) -> None:
    body = survey(window)
    body.show_page(body.worst_tensors)
    body.show_page(body.map)
    chosen: list[int] = []
    selection = window.panels.selection
    selection.changed.connect(lambda: chosen.extend(selection.rows))
    names = [f"blk.{layer}.attn_q.weight" for layer in (1, 0)]
    rows = [*map(window.documents[0].model.tensors.row_of, names), 0]
    for row in rows:
        assert row is not None
        click_cell(qtbot, window, row)
        assert window.open_models.tree.currentIndex().data(ItemRole.NODE).tensor_row == row
        assert window.panels.tensors.widget.table.selected_content_rows().tolist() == [row]
        assert window.panels.raw.widget.hex.cursor_offset == window.documents[0].arrays.offsets[row]
        assert marked(window) == (row, [row])
    assert chosen == rows  # no answer to an answer
    assert window.panels.currentWidget() is window.panels.survey


def test_tree_and_table_select_in_the_survey(qtbot: QtBot, window: MainWindow) -> None:
    body = survey(window)
    body.show_page(body.worst_tensors)
    wait_idle(qtbot, window)
    chosen: list[int] = []
    selection = window.panels.selection
    selection.changed.connect(lambda: chosen.extend(selection.rows))
    window.reveal_tensor(window.documents[0], 7)
    assert marked(window) == (7, [7])
    window.panels.tensors.widget.table.select_row(9)
    assert marked(window) == (9, [9])
    tree = window.open_models
    index = tree.model.find(window.documents[0], lambda node: node.tensor_row == 3)
    tree.tree.scrollTo(index)
    qtbot.mouseClick(tree.tree.viewport(), LEFT, pos=tree.tree.visualRect(index).center())
    assert marked(window) == (3, [3])
    assert chosen == [7, 9, 3]  # no answer to an answer


def test_a_layer_is_shown_wherever_it_is_chosen(qtbot: QtBot, window: MainWindow) -> None:
    body, panels, tree = survey(window), window.panels, window.open_models
    content, (document,) = body.session.content, window.documents
    assert content is not None
    # by its number on the map
    row = document.model.tensors.row_of("blk.0.attn_q.weight")
    assert row is not None
    area, port = body.map.map.cell_place(int(content.folded.cell_of[row])), body.map.map.viewport()
    qtbot.mouseClick(port, LEFT, pos=QPoint(4, round(area.center().y())))
    assert body.map.map.layer is not None
    assert (panels.selection.layer, panels.selection.whole_layer) == (0, True)
    assert body.map.readout.text().startswith(f"Layer 0{BETWEEN}Bits per weight")
    assert tree.tree.currentIndex().data() == "Layer 0"
    qtbot.keyClick(body.map.map, Qt.Key.Key_Down)
    assert (panels.selection.layer, panels.selection.whole_layer) == (1, True)
    qtbot.keyClick(body.map.map, Qt.Key.Key_Right)
    assert (body.map.map.layer, panels.selection.whole_layer) == (None, False)
    qtbot.keyClick(body.map.map, Qt.Key.Key_Left)
    assert (panels.selection.layer, panels.selection.whole_layer) == (1, True)
    # its tensors, and its place among the layers
    qtbot.keyClick(body.map.map, Qt.Key.Key_Return)
    assert body.map.isVisible()  # the map has a line for each layer
    body.show_page(body.by_layer)
    body.by_layer.select_tensor(row, layer=True)
    titles = [line[0] for line in body.by_layer.table.table.items]
    assert titles[0] == "Layer 0"
    assert "attn_q" in titles
    # in the tree, from another page
    panels.show_page("overview")
    index = tree.model.find(document, lambda node: node.title == "Layer 1")
    tree.tree.scrollTo(index)
    qtbot.mouseClick(tree.tree.viewport(), LEFT, pos=tree.tree.visualRect(index).center())
    assert panels.currentWidget() is panels.survey
    assert (panels.selection.layer, panels.selection.whole_layer) == (1, True)
    wait_idle(qtbot, window)
    assert body.by_layer.table.table.items[0][0] == "Layer 1"


def test_a_selection_made_before_the_survey_is_there(
    qtbot: QtBot, make_window: Callable[..., MainWindow], demo_path: Path
) -> None:
    window = make_window(demo_path)
    window.reveal_tensor(window.documents[0], 11)
    window.panels.setCurrentWidget(window.panels.survey)
    qtbot.waitUntil(lambda: window.panels.survey.built is not None)
    wait_idle(qtbot, window)
    assert marked(window)[0] == 11


def test_opening_shows_the_weights_or_what_they_lost(qtbot: QtBot, window: MainWindow) -> None:
    panels, body = window.panels, survey(window)
    click_cell(qtbot, window, 5)
    qtbot.keyClick(body.map.map, Qt.Key.Key_Return)
    assert panels.currentWidget() is panels.weights
    wait_idle(qtbot, window)
    panels.references.choose(Rounding("Q8_0"))
    panels.setCurrentWidget(panels.survey)
    wait_idle(qtbot, window)
    qtbot.keyClick(body.map.map, Qt.Key.Key_Return)
    assert panels.currentWidget() is panels.errors
    wait_idle(qtbot, window)


def test_closing_the_model_while_it_is_surveyed(qtbot: QtBot, window: MainWindow) -> None:
    survey(window).session.start()
    window.close_document(window.documents[0])
    wait_idle(qtbot, window)
    assert survey(window).state.isVisible()
