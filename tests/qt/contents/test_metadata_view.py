"""The metadata panel: filter, values, arrays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from explorer.qt.main_window import MainWindow
from explorer.qt.widgets.table_model import ItemRole


@pytest.fixture
def twelve(make_window: Callable[..., MainWindow], small_path: Path) -> MainWindow:
    window = make_window(small_path)
    window.panels.setCurrentWidget(window.panels.metadata)
    return window


def test_the_filter_finds_keys_and_values(qtbot: QtBot, twelve: MainWindow) -> None:
    panel = twelve.panels.metadata.widget.list
    qtbot.keyClicks(panel.bar.edit, "needle")
    assert [panel.model.index(0, 0).data(), panel.model.rowCount()] == ["some.text", 1]
    twelve.panels.selection.select_key(0)  # hidden by the filter
    assert panel.bar.text == ""
    assert panel.table.selected_content_rows().tolist() == [0]


def test_values_are_shown_in_full(qtbot: QtBot, twelve: MainWindow) -> None:
    view = twelve.panels.metadata.widget
    view.list.table.select_row(4)
    text = "first line\nsecond needle line\nthird"
    qtbot.waitUntil(lambda: view.value.text.text.toPlainText() == text)
    view.list.table.select_row(3)
    qtbot.waitUntil(view.value.array.isVisible)
    elements = view.value.elements
    assert [elements.index(row, 1).data(ItemRole.RAW) for row in range(3)] == [30, -10, 20]


@pytest.mark.parametrize("row", [3, 4])
def test_a_value_goes_with_its_model(qtbot: QtBot, twelve: MainWindow, row: int) -> None:
    value = twelve.panels.metadata.widget.value
    twelve.panels.metadata.widget.list.table.select_row(row)
    qtbot.waitUntil(lambda: value.text.isVisible() or value.array.isVisible())
    assert value.text.text.toPlainText() or value.elements.content_count
    twelve.close_document(twelve.documents[0])
    assert value.text.text.toPlainText() == ""
    assert value.elements.content_count == 0
    assert value.elements.columns == ()
