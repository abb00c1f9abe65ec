"""Names and tips for those who cannot see the window, or do not know it yet."""

from __future__ import annotations

from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from explorer.qt.main_window import MainWindow


def test_every_command_tells_itself_in_the_status_bar(window: MainWindow) -> None:
    for action in window.actions_.all():
        assert action.text()
        assert action.objectName()
        if action not in window.actions_.schemes.values():
            assert action.statusTip(), action.text()


def test_columns_whose_names_do_not_explain_them_have_tips(window: MainWindow) -> None:
    columns = {column.name: column for column in window.panels.tensors.widget.model.columns}
    header = window.panels.tensors.widget.model.headerData
    for name in ("role", "shape", "bits_per_weight", "offset"):
        number = list(columns).index(name)
        role = Qt.ItemDataRole.ToolTipRole
        assert header(number, Qt.Orientation.Horizontal, role) == columns[name].tip != ""
    assert "type:q4_k" in window.panels.tensors.widget.bar.edit.toolTip()


def test_the_panels_describe_what_is_under_the_cursor(qtbot: QtBot, window: MainWindow) -> None:
    window.panels.setCurrentWidget(window.panels.raw)
    qtbot.waitUntil(lambda: window.panels.raw.widget.hex.field_at(0) is not None)
    assert window.panels.raw.widget.hex.accessibleDescription().startswith("Magic")
    assert window.panels.raw.widget._legend.accessibleDescription().startswith("Magic, Version")
    qtbot.waitUntil(lambda: not window.runner.jobs)
