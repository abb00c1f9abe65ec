"""Columns: the first one takes the rest, nothing is elided at the usual size, a menu has others."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QByteArray
from pytestqt.qtbot import QtBot

from explorer.qt.main_window import MainWindow
from explorer.qt.widgets.table_view import TableView
from tests.helpers.elided import elided
from tests.helpers.services import RecordingServices
from tests.helpers.window import copied, wait_idle


@pytest.fixture
def tensors(window: MainWindow) -> TableView:
    window.showNormal()
    window.resize(1280, 800)
    window.panels.setCurrentWidget(window.panels.tensors)
    return window.panels.tensors.widget.table


def _filled(table: TableView) -> bool:
    return table.horizontalHeader().length() == table.viewport().width()


def _place(table: TableView, name: str) -> int:
    return [column.name for column in table.table.columns].index(name)


def test_the_name_takes_what_the_figures_leave(qtbot: QtBot, tensors: TableView) -> None:
    qtbot.waitUntil(lambda: _filled(tensors))
    before = tensors.columnWidth(0)
    window = tensors.window()
    window.resize(1500, 800)
    qtbot.waitUntil(lambda: tensors.columnWidth(0) >= before + 200)
    assert _filled(tensors)
    header = tensors.horizontalHeader()
    header.resizeSection(3, header.sectionSize(3) + 60)  # the name makes room
    assert _filled(tensors)
    window.resize(700, 800)  # too narrow for all: the name can be read, and figures are scrolled to
    qtbot.waitUntil(lambda: tensors.horizontalScrollBar().maximum() > 0)
    assert tensors.columnWidth(0) >= 20 * tensors.fontMetrics().averageCharWidth()
    window.resize(1500, 800)
    qtbot.waitUntil(lambda: _filled(tensors))


def test_a_menu_shows_rare_columns_which_are_remembered(qtbot: QtBot, tensors: TableView) -> None:
    assert tensors.isColumnHidden(_place(tensors, "offset"))
    qtbot.waitUntil(lambda: _filled(tensors))
    offered = {action.text(): action for action in tensors.column_layout.make_menu().actions()}
    assert [text for text, one in offered.items() if one.isChecked()] == [
        *("Name", "Layer", "Type", "Shape", "Parameters", "Size", "Bits/weight")
    ]
    offered["Offset"].trigger()
    assert tensors.columnWidth(_place(tensors, "offset")) > 0
    qtbot.waitUntil(lambda: _filled(tensors))
    tensors.selectRow(0)
    assert "offset" in json.loads(copied(qtbot, tensors.copy_json))[0]
    state = tensors.columns_state()
    tensors.show_columns(QByteArray(), {"offset"})
    assert tensors.isColumnHidden(_place(tensors, "offset"))
    tensors.show_columns(state)
    assert not tensors.isColumnHidden(_place(tensors, "offset"))
    tensors.show_columns(QByteArray(b"own:" + bytes(state.data())), {"offset"})  # of older versions
    assert tensors.isColumnHidden(_place(tensors, "offset"))
    shown = [one for one in tensors.column_layout.make_menu().actions() if one.isChecked()]
    for action in shown[1:]:
        action.trigger()
    left = [one for one in tensors.column_layout.make_menu().actions() if one.isChecked()]
    assert [action.isEnabled() for action in left] == [False]  # the last one stays


@pytest.mark.slow
def test_no_text_is_elided_in_the_lists_of_the_real_model(
    qtbot: QtBot, make_window: Callable[..., MainWindow], real_model: Path, app: RecordingServices
) -> None:
    window = make_window(real_model)
    window.showNormal()
    window.resize(1280, 800)
    panels = window.panels
    for panel in (panels.tensors, panels.metadata):
        panels.setCurrentWidget(panel)
        wait_idle(qtbot, window)
        table = panel.widget.table if panel is panels.tensors else panel.widget.list.table
        qtbot.waitUntil(lambda table=table: _filled(table))
        assert elided(table) == []
