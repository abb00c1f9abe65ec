"""The tensor panel: filter, totals, keys."""

from __future__ import annotations

from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from explorer.qt.main_window import MainWindow


def test_typing_filters_escape_clears_and_down_enters(qtbot: QtBot, window: MainWindow) -> None:
    view = window.panels.tensors.widget
    window.panels.setCurrentWidget(window.panels.tensors)
    qtbot.keyClick(window, Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier)
    assert view.bar.edit.hasFocus()
    qtbot.keyClicks(view.bar.edit, "ffn layer:1")
    assert view.model.rowCount() == 4
    assert "4 of 22" in view.bar.status.text()
    assert "4 tensors" in view._totals.text()
    qtbot.keyClick(view.bar.edit, Qt.Key.Key_Down)
    assert view.table.hasFocus()
    assert view.table.selected_content_rows().tolist() == [16]  # blk.1.ffn_norm
    assert "Selected: 1 tensor, " in view._totals.text()
    qtbot.keyClick(view.bar.edit, Qt.Key.Key_Escape)
    assert view.bar.text == ""
    assert view.model.rowCount() == 22


def test_no_match_and_a_wrong_term_are_told(qtbot: QtBot, window: MainWindow) -> None:
    view = window.panels.tensors.widget
    window.panels.setCurrentWidget(window.panels.tensors)
    qtbot.keyClicks(view.bar.edit, "no_such_tensor")
    assert view._empty.isVisible()
    qtbot.keyClick(view.bar.edit, Qt.Key.Key_Escape)
    assert view.table.isVisible()
    qtbot.keyClicks(view.bar.edit, "layer:x")
    assert view.model.rowCount() == 22
    assert view.bar.status.text() != "22 of 22"


def test_enter_shows_the_bytes(qtbot: QtBot, window: MainWindow) -> None:
    window.panels.setCurrentWidget(window.panels.tensors)
    window.panels.tensors.widget.table.select_row(3)
    qtbot.keyClick(window.panels.tensors.widget.table, Qt.Key.Key_Return)
    assert window.panels.currentWidget() is window.panels.raw
    assert window.current is not None
    assert window.panels.raw.widget.hex.cursor_offset == window.current.model.tensors.rows[3].offset
