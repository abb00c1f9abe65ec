"""A tab whose widget is built and filled when the tab is shown."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QLabel, QLineEdit, QTableWidget, QTabWidget, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from explorer.qt.widgets.lazy import LazyTab


class _Page(QLineEdit):
    """A page that notes what it showed when it came into sight."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.seen.append(self.text())


class Tabs:
    """Two tabs; the second is built lazily and shows `text`."""

    def __init__(self, qtbot: QtBot) -> None:
        self.text = "first"
        self.built = self.filled = 0
        self.tabs = QTabWidget()
        self.tab = LazyTab(self._make, self._fill, self.tabs)
        self.tabs.addTab(QWidget(), "one")
        self.tabs.addTab(self.tab, "lazy")
        self.tabs.resize(400, 300)
        qtbot.addWidget(self.tabs)
        self.tabs.show()
        qtbot.waitExposed(self.tabs)

    def _make(self) -> _Page:
        self.built += 1
        return _Page()

    def _fill(self, page: _Page) -> None:
        self.filled += 1
        page.setText(self.text)

    def select(self, text: str) -> None:
        """Have another text to show."""
        self.text = text
        self.tab.refresh()


@pytest.fixture
def tabs(qtbot: QtBot) -> Tabs:
    return Tabs(qtbot)


def test_a_tab_is_built_once_when_it_is_shown(tabs: Tabs) -> None:
    tabs.select("second")
    assert tabs.tab.built is None
    tabs.tabs.setCurrentIndex(1)
    assert tabs.tab.widget.text() == "second"
    assert tabs.tab.widget.isVisible()
    tabs.tabs.setCurrentIndex(0)
    tabs.tabs.setCurrentIndex(1)
    assert (tabs.built, tabs.filled) == (1, 1)


def test_a_shown_tab_follows_at_once_and_a_hidden_one_when_it_is_shown(tabs: Tabs) -> None:
    tabs.tabs.setCurrentIndex(1)
    tabs.select("second")
    assert tabs.tab.widget.text() == "second"
    tabs.tabs.setCurrentIndex(0)
    tabs.select("third")
    tabs.select("fourth")
    assert tabs.filled == 2
    tabs.tabs.setCurrentIndex(1)
    assert tabs.tab.widget.text() == "fourth"
    assert tabs.tab.widget.isVisible()


def test_the_widget_never_comes_into_sight_with_what_it_showed_before(tabs: Tabs) -> None:
    tabs.tabs.setCurrentIndex(1)
    tabs.tabs.setCurrentIndex(0)
    tabs.select("second")
    tabs.tabs.setCurrentIndex(1)
    assert tabs.tab.widget.seen == ["first", "second"]


def test_asking_for_the_widget_builds_it_out_of_sight(tabs: Tabs) -> None:
    assert tabs.tab.widget.text() == "first"
    assert not tabs.tab.widget.isVisible()
    tabs.select("second")
    assert tabs.tab.widget.text() == "second"
    tabs.tabs.setCurrentIndex(1)
    assert tabs.filled == 2


def test_a_hidden_widget_can_be_brought_up_to_date(tabs: Tabs) -> None:
    tabs.tab.catch_up()
    assert tabs.tab.built is None
    tabs.tabs.setCurrentIndex(1)
    tabs.tabs.setCurrentIndex(0)
    tabs.select("second")
    tabs.tab.catch_up()
    assert tabs.tab.built is not None
    assert tabs.tab.built.text() == "second"


def test_tab_brings_all_of_a_table_into_sight(qtbot: QtBot) -> None:
    def make() -> QWidget:
        page = QWidget()
        table, lines = QTableWidget(3, 1), QVBoxLayout(page)
        table.setFixedHeight(120)
        tall = QLabel("tall")
        tall.setFixedHeight(250)
        for part in (QLineEdit(), tall, table):
            lines.addWidget(part)
        return page

    tab = LazyTab(make)
    tab.resize(400, 200)
    qtbot.addWidget(tab)
    tab.show()
    qtbot.waitExposed(tab)
    edit, table = tab.widget.findChild(QLineEdit), tab.widget.findChild(QTableWidget)
    assert edit is not None
    assert table is not None
    edit.setFocus()
    qtbot.keyClick(edit, Qt.Key.Key_Tab)
    assert tab.focusWidget() is table
    top = table.mapTo(tab, table.rect().topLeft()).y()
    assert 0 <= top <= tab.height() - table.height()
