"""Look once at all that a window has, so that what is loaded when it is first needed is loaded.

The monkey would come to it too, but nobody knows when: modules, fonts, kernels and dialogs would
then count as memory that has grown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QTextLayout
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QApplication, QTabWidget
from shiboken6 import isValid

from explorer.qt.theme import LEAST_TEXT, MOST_TEXT
from tests.helpers.descendants import descendants
from tests.soak.monkey import Monkey, can_be_reached

_IDLE_S = 60.0
_TURNS = 5  # a panel loads its modules, makes its body, fills it, and reads weights

Do = Callable[[str, Callable[[], str]], None]


def visit_everything(monkey: Monkey, models: Sequence[Path], do: Do) -> None:
    """Show each page for each model, press each button of each page, and give each command.

    Args:
        monkey: Knows the window.
        models: What is opened, one after the other, each compared with the first.
        do: Does something of a name, and takes care of its faults.
    """
    for path in models:
        do("visit", lambda path=path: _open(monkey, path))
        if monkey.window.documents:
            visit_pages(monkey, lambda name: do("visit", lambda: name))
    if monkey.window.documents:
        visit_pages(monkey, lambda name: _press_all(monkey, name, do))
        do("visit", lambda: visit_sizes_of_text(monkey))
    for command in monkey.commands():
        do("command", lambda command=command: _give(monkey, command.trigger, command.objectName()))


def visit_sizes_of_text(monkey: Monkey) -> str:
    """Show each panel in each size of text, and a text in Thai, so that all fonts are loaded.

    A font takes 100 KiB in each size; the list of Thai words, between which lines are broken, 800.
    """
    actions, panels = monkey.window.actions_, monkey.window.panels
    for step in (actions.smaller, actions.larger):
        for _ in range(LEAST_TEXT, MOST_TEXT, 10):
            step.trigger()
            for number in range(panels.count() if step is actions.larger else 0):
                panels.setCurrentIndex(number)
                QApplication.processEvents()
    actions.usual.trigger()
    layout = QTextLayout("ไทย")
    layout.beginLayout()
    layout.createLine()
    layout.endLayout()
    return "all sizes of text"


def visit_pages(monkey: Monkey, look: Callable[[str], None]) -> None:
    """Show each page of each panel, and wait until it is filled.

    Args:
        monkey: Knows the window.
        look: Called in front of each page, with its name.
    """
    panels = monkey.window.panels
    for number in range(panels.count()):
        panels.setCurrentIndex(number)
        settle(monkey)
        look(panels.panel.title)
        seen: set[QTabWidget] = set()
        while new := set(descendants(panels.widget(number), QTabWidget)) - seen:  # pages have pages
            seen |= new
            for tabs in new:
                for page in range(tabs.count()):
                    if tabs.isTabVisible(page):
                        panels.setCurrentIndex(number)  # a button may have led away
                        tabs.setCurrentIndex(page)
                        settle(monkey)
                        look(f"{panels.panel.title}: {tabs.tabText(page)}")


def settle(monkey: Monkey) -> None:
    """Wait until nothing is under way, and nothing that was to follow is either."""
    for _ in range(_TURNS):
        QApplication.processEvents()
        monkey.wait(_IDLE_S)


def _open(monkey: Monkey, path: Path) -> str:
    window = monkey.window
    window.open_paths([path])
    settle(monkey)
    if window.documents:
        document = window.documents[-1]
        if document.model.tensors.rows:
            window.reveal_tensor(document, 0)
        window.panels.references.choose(window.documents[0])
    return path.name[:40]


def _press_all(monkey: Monkey, name: str, do: Do) -> None:
    """Press each button of the panel in front."""
    front = monkey.window.panels.currentWidget()
    for button in list(descendants(front, QAbstractButton)):
        if isValid(button) and can_be_reached(button):
            do("press", lambda button=button: _press(monkey, button, name))


def _press(monkey: Monkey, button: QAbstractButton, page: str) -> str:
    told = f"{page}: {button.text() or button.accessibleName()}"
    return _give(monkey, lambda: QTest.mouseClick(button, Qt.MouseButton.LeftButton), told)


def _give(monkey: Monkey, command: Callable[[], object], told: str) -> str:
    command()
    settle(monkey)
    monkey.close_dialogs()
    return told
