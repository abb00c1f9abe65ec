"""Layouts."""

from __future__ import annotations

from PySide6.QtWidgets import QLabel, QWidget
from pytestqt.qtbot import QtBot
from shiboken6 import delete, isValid

from explorer.qt.widgets.building import Flow


def test_a_flow_goes_with_its_widget_and_its_items_with_it(qtbot: QtBot) -> None:
    widget, label = QWidget(), QLabel()
    flow = Flow(QLabel(), QLabel(), label)
    widget.setLayout(flow)
    items = [flow.itemAt(place) for place in range(3)]
    delete(label)
    assert [item is not None and isValid(item) for item in items[:2]] == [True, True]
    assert flow.count() == 2
    delete(widget)
    assert [isValid(item) for item in items[:2]] == [False, False]  # Qt deleted the last
