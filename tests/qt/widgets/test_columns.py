"""Columns: the first one takes the rest, nothing is elided at the usual size, widths are kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QByteArray
from PySide6.QtGui import QStandardItemModel
from PySide6.QtWidgets import QTableView
from pytestqt.qtbot import QtBot

from explorer.qt.main_window import MainWindow
from explorer.qt.widgets.columns import ColumnLayout
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
    button = table.column_layout.button
    assert button is not None
    beside = button.width() if button.isVisible() else 0
    return table.horizontalHeader().length() + beside == table.viewport().width()


def test_the_name_takes_what_the_figures_leave(qtbot: QtBot, tensors: TableView) -> None:
    qtbot.waitUntil(lambda: _filled(tensors))
    before = tensors.columnWidth(0)
    window = tensors.window()
    window.resize(1500, 800)
    qtbot.waitUntil(lambda: tensors.columnWidth(0) >= before + 200)
    assert _filled(tensors)
    window.resize(700, 800)  # too narrow for all: the name stays, the last go out of sight
    qtbot.waitUntil(lambda: tensors.columnWidth(0) < before)
    assert tensors.columnWidth(0) >= 20 * tensors.fontMetrics().averageCharWidth()
    assert tensors.horizontalScrollBar().maximum() == 0
    assert tensors.isColumnHidden(_place(tensors, "bytes"))
    window.resize(1500, 800)
    qtbot.waitUntil(lambda: not tensors.isColumnHidden(_place(tensors, "bytes")))


def _place(table: TableView, name: str) -> int:
    return [column.name for column in table.table.columns].index(name)


def test_columns_without_room_are_offered_at_the_end_of_the_header(
    qtbot: QtBot, tensors: TableView
) -> None:
    tensors.window().resize(700, 800)
    qtbot.waitUntil(lambda: tensors.isColumnHidden(_place(tensors, "bytes")))
    layout = tensors.column_layout
    assert layout.button is not None
    assert layout.button.isVisible()
    assert "Size" in layout.button.toolTip()

    chosen = {action.text(): action for action in layout.make_menu().actions()}
    seen = {text for text, action in chosen.items() if action.isChecked()}
    wanted = {"Size", "Parameters", "Shape", "Offset", "Role"} - seen
    for title in wanted:
        chosen[title].trigger()
    qtbot.waitUntil(lambda: not tensors.isColumnHidden(_place(tensors, "parameters")))
    shown = {
        column.title
        for number, column in enumerate(tensors.table.columns)
        if not tensors.isColumnHidden(number)
    }
    assert shown == {*seen, *wanted}  # what the user saw stays: now it is scrolled to
    qtbot.waitUntil(lambda: tensors.horizontalScrollBar().maximum() > 0)
    chosen["Fit widths"].trigger()
    qtbot.waitUntil(lambda: tensors.horizontalScrollBar().maximum() == 0)


def test_what_was_chosen_for_other_content_is_forgotten(qtbot: QtBot, tensors: TableView) -> None:
    tensors.window().resize(700, 800)
    qtbot.waitUntil(lambda: tensors.isColumnHidden(_place(tensors, "bytes")))
    for name in ("bytes", "parameters", "shape", "offset", "role"):
        tensors.column_layout.show_column(_place(tensors, name), on=True)
    header = tensors.horizontalHeader()
    assert header.length() > tensors.viewport().width()
    state = tensors.columns_state()
    tensors.show_columns(state)
    assert header.length() > tensors.viewport().width()
    tensors.show_columns(QByteArray())
    assert header.length() <= tensors.viewport().width()


def test_columns_without_room_are_copied_and_remembered(qtbot: QtBot, tensors: TableView) -> None:
    window = tensors.window()
    window.resize(700, 800)
    qtbot.waitUntil(lambda: tensors.isColumnHidden(_place(tensors, "bytes")))
    tensors.selectRow(0)
    assert "bytes" in json.loads(copied(qtbot, tensors.copy_json))[0]
    state = tensors.columns_state()
    window.resize(1500, 800)
    tensors.show_columns(state)
    assert not tensors.isColumnHidden(_place(tensors, "bytes"))


def test_a_column_that_is_dragged_keeps_its_width(qtbot: QtBot, tensors: TableView) -> None:
    qtbot.waitUntil(lambda: _filled(tensors))
    header = tensors.horizontalHeader()
    header.resizeSection(3, header.sectionSize(3) + 60)
    qtbot.waitUntil(lambda: _filled(tensors))  # the name makes room
    header.resizeSection(0, 222)
    tensors.window().resize(1400, 800)
    qtbot.wait(20)
    assert tensors.columnWidth(0) == 222
    state = tensors.columns_state()
    tensors.fit_columns()
    qtbot.waitUntil(lambda: _filled(tensors))
    tensors.show_columns(state)
    assert tensors.columnWidth(0) == 222


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
    assert not panels.metadata.widget.value.isVisible()  # there is nothing to show yet
    panels.metadata.widget.list.table.selectRow(3)
    qtbot.waitUntil(panels.metadata.widget.value.isVisible)


def test_a_list_too_narrow_is_laid_out_once(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns that go out of sight are resized, in effect; that must not begin it all again."""
    view = QTableView()
    qtbot.addWidget(view)
    view.setModel(QStandardItemModel(3, 6))
    layout = ColumnLayout(
        view, view.horizontalHeader(), lambda: [100] * 6, lambda: [[0]], lambda: (5, 4)
    )
    calls = 0
    fill = layout.fill

    def counted() -> None:
        nonlocal calls
        calls += 1
        fill()

    monkeypatch.setattr(layout, "fill", counted)
    view.resize(400, 200)
    view.show()
    layout.fit()
    assert view.isColumnHidden(5)
    qtbot.wait(100)
    settled = calls
    qtbot.wait(200)
    assert calls == settled
