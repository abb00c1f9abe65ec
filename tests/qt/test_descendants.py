"""All that a window consists of is found, and nothing of it is kept."""

from __future__ import annotations

import gc
from collections import Counter

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QObject
from PySide6.QtWidgets import QComboBox, QDialog, QListWidget, QMainWindow, QScrollBar, QWidget
from pytestqt.qtbot import QtBot

from explorer.qt.locale_numbers import descendants


@pytest.fixture
def window(qtbot: QtBot) -> QMainWindow:
    window = QMainWindow()
    qtbot.addWidget(window)
    return window


@pytest.mark.parametrize("kind", [QObject, QWidget, QScrollBar])
def test_it_finds_what_qt_finds_in_the_same_order(window: QMainWindow, kind: type[QObject]) -> None:
    _fill(window)
    found = list(descendants(window, kind))
    assert found == window.findChildren(kind)
    assert len(found) > 3


def test_nothing_is_kept_of_what_is_deleted(window: QMainWindow) -> None:
    def look() -> Counter[str]:
        dialog = _fill(window)
        assert dialog in list(descendants(window, QWidget))
        dialog.deleteLater()
        del dialog
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        gc.collect()
        return Counter(type(one).__name__ for one in gc.get_objects() if isinstance(one, QObject))

    before = look()
    for _ in range(3):
        assert look() == before


def _fill(window: QMainWindow) -> QDialog:
    dialog = QDialog(window)
    QComboBox(dialog).addItem("one")
    QListWidget(dialog)
    return dialog
