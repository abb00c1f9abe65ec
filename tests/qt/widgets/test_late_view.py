"""A page whose view is made, and whose module is loaded, when somebody looks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLineEdit, QTabWidget, QWidget
from pytestqt.qtbot import QtBot

from explorer.errors import ExplorerError
from explorer.qt.jobs import JobRunner
from explorer.qt.widgets.labels import StatePage
from explorer.qt.widgets.lazy import LateView

_SLOW = """
import time
import tests_gate as gate
while gate.closed:
    time.sleep(0.001)
if gate.error is not None:
    raise gate.error
"""


class Gate(ModuleType):
    """Lets the module of the page load, or keeps it waiting, or has it fail."""

    closed = False
    error: ExplorerError | None = None


class Tabs:
    """Two tabs; the second holds the page."""

    def __init__(self, qtbot: QtBot, runner: JobRunner, module: str) -> None:
        self.tabs = QTabWidget()
        self.made: list[QLineEdit] = []
        self.page = LateView(runner, module, self._make, self.made.append, self.tabs)
        self.tabs.addTab(QWidget(), "one")
        self.tabs.addTab(self.page, "late")
        self.tabs.resize(400, 300)
        qtbot.addWidget(self.tabs)
        self.tabs.show()
        qtbot.waitExposed(self.tabs)

    def _make(self, parent: QWidget) -> QLineEdit:
        return QLineEdit("here it is", parent)

    @property
    def states(self) -> list[StatePage]:
        """What stands in the view's place; nothing, or one."""
        return [one for one in self.page.findChildren(StatePage) if one.isVisible()]

    @property
    def told(self) -> str:
        """What is said in the view's place."""
        return "".join(f"{one.heading.text()}|{one.sentence.text()}" for one in self.states)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate("tests_gate")
    monkeypatch.setitem(sys.modules, "tests_gate", gate)
    yield gate
    gate.closed = False


@pytest.fixture
def tabs(
    qtbot: QtBot, runner: JobRunner, gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Tabs:
    """The page's module is one that nobody has loaded."""
    monkeypatch.syspath_prepend(str(tmp_path))
    name = f"late_module_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(_SLOW)
    monkeypatch.delitem(sys.modules, name, raising=False)
    return Tabs(qtbot, runner, name)


def test_it_is_loaded_and_made_when_it_is_looked_at(
    qtbot: QtBot, runner: JobRunner, tabs: Tabs, gate: Gate
) -> None:
    assert runner.jobs == []
    assert tabs.page.existing is None
    gate.closed = True
    tabs.tabs.setCurrentIndex(1)
    assert [job.title for job in runner.jobs] == ["Preparing the view"]
    qtbot.waitUntil(lambda: tabs.told == "Preparing the view…|")
    gate.closed = False
    qtbot.waitUntil(lambda: bool(tabs.made) and tabs.made[0].isVisible())
    assert tabs.page.view is tabs.made[0]
    assert tabs.told == ""
    tabs.tabs.setCurrentIndex(0)
    tabs.tabs.setCurrentIndex(1)
    assert len(tabs.made) == 1
    assert runner.jobs == []


def test_one_that_nobody_looks_at_any_more_is_made_when_one_comes_back(
    qtbot: QtBot, runner: JobRunner, tabs: Tabs, gate: Gate
) -> None:
    gate.closed = True
    tabs.tabs.setCurrentIndex(1)
    tabs.tabs.setCurrentIndex(0)
    gate.closed = False
    qtbot.waitUntil(lambda: not runner.jobs)
    qtbot.waitUntil(lambda: not tabs.page._late._turn.isActive())
    assert tabs.made == []
    tabs.tabs.setCurrentIndex(1)
    assert len(tabs.made) == 1  # at once: it is loaded


def test_whoever_asks_for_it_gets_it(tabs: Tabs, runner: JobRunner) -> None:
    assert tabs.page.view.text() == "here it is"
    tabs.tabs.setCurrentIndex(1)
    assert runner.jobs == []
    assert tabs.page.view.isVisible()


def test_a_cancel_is_told_and_taken_back(
    qtbot: QtBot, runner: JobRunner, tabs: Tabs, gate: Gate
) -> None:
    gate.closed = True
    tabs.tabs.setCurrentIndex(1)
    runner.jobs[0].cancel()  # as the status bar does
    gate.closed = False
    qtbot.waitUntil(lambda: tabs.told == "The view could not be prepared|It was cancelled.")
    qtbot.mouseClick(tabs.states[0].button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: bool(tabs.made))


def test_a_failure_is_told_and_tried_again(qtbot: QtBot, tabs: Tabs, gate: Gate) -> None:
    gate.error = ExplorerError("the disk is gone")
    tabs.tabs.setCurrentIndex(1)
    qtbot.waitUntil(lambda: tabs.told == "The view could not be prepared|the disk is gone")
    gate.error = None
    qtbot.mouseClick(tabs.states[0].button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: bool(tabs.made))


def test_closing_in_the_middle_makes_nothing(
    qtbot: QtBot, runner: JobRunner, tabs: Tabs, gate: Gate
) -> None:
    gate.closed = True
    tabs.tabs.setCurrentIndex(1)
    tabs.tabs.close()
    gate.closed = False
    qtbot.waitUntil(lambda: not runner.jobs)
    qtbot.waitUntil(lambda: not tabs.page._late._turn.isActive())
    assert tabs.made == []
