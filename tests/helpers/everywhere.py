"""A walk over everything that the window can show: each panel, each page of each tab widget.

Written for tests of what holds everywhere (names, keys, units), so that a
panel or a page that is added is looked at without anybody thinking of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from PySide6.QtWidgets import QApplication, QDialog, QTabWidget, QWidget
from pytestqt.qtbot import QtBot

from explorer.qt.main_window import MainWindow
from tests.helpers.window import wait_idle


def settle(qtbot: QtBot, window: MainWindow) -> None:
    """Wait until nothing is under way, in the background or in the event loop."""
    for _ in range(3):  # a result may ask for more
        wait_idle(qtbot, window)
        QApplication.processEvents()


def everywhere(qtbot: QtBot, window: MainWindow) -> Iterator[tuple[str, QWidget]]:
    """Show one thing after another; yield its name, and the widget that is in front.

    A tensor must be selected, so that panels of one tensor have something to show.
    """
    panels = window.panels
    for number in range(panels.count()):
        panels.setCurrentIndex(number)
        settle(qtbot, window)
        page = panels.widget(number)
        yield from _pages(qtbot, window, page, panels.panel.title)


def _pages(
    qtbot: QtBot, window: MainWindow, shown: QWidget, name: str
) -> Iterator[tuple[str, QWidget]]:
    tabs = [
        child
        for child in shown.findChildren(QTabWidget)
        if child.isVisible() and not _inside_tabs(child, shown)
    ]
    if not tabs:
        yield name, shown
    for tab in tabs:
        for number in range(tab.count()):
            if not tab.isTabVisible(number):
                continue
            tab.setCurrentIndex(number)
            settle(qtbot, window)
            label = f"{name} / {tab.tabText(number)}"
            inner = [one for one in tab.widget(number).findChildren(QTabWidget) if one.isVisible()]
            if inner:
                yield from _pages(qtbot, window, tab.widget(number), label)
            yield label, shown


def _inside_tabs(child: QWidget, top: QWidget) -> bool:
    above = child.parentWidget()
    while above is not None and above is not top:
        if isinstance(above, QTabWidget):
            return True
        above = above.parentWidget()
    return False


def dialogs(qtbot: QtBot, window: MainWindow) -> Iterator[tuple[str, QDialog]]:
    """Open each dialog of the program's own; yield its name, and close it again."""
    openers: list[tuple[str, Callable[[], object]]] = [
        ("Go to", window.show_quick_open),
        ("Keyboard shortcuts", window.actions_.shortcuts.trigger),
        ("About", window.actions_.about.trigger),
    ]
    planner = window.panels.planner.built
    if planner is not None and planner.body is not None:
        openers.append(("GPU catalogue", planner.body.devices.add.click))
    for name, open_dialog in openers:
        before = set(window.findChildren(QDialog))
        open_dialog()
        settle(qtbot, window)
        dialog = next(one for one in window.findChildren(QDialog) if one not in before)
        yield name, dialog
        dialog.reject()
        QApplication.processEvents()


def visible(top: QWidget) -> list[QWidget]:
    """Return the widgets that one can see below a widget; itself if it is shown."""
    return [each for each in (top, *top.findChildren(QWidget)) if each.isVisible()]


def named(widget: QWidget) -> str:
    """Return what tells a widget in a message of a test."""
    parent = widget.parentWidget()
    above = "" if parent is None else f" in {type(parent).__name__}"
    text = getattr(widget, "text", None)
    words = f" “{text()}”" if callable(text) else ""
    return f"{type(widget).__name__}{words}{above}"
