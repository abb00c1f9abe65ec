"""The menu bar: the commands of `Actions` in menus, and a command for each panel."""

from __future__ import annotations

from functools import partial

from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QMainWindow, QMenu, QTabWidget

from explorer.qt.actions import Actions


def fill_menu_bar(window: QMainWindow, actions: Actions, recent: QMenu, tabs: QTabWidget) -> None:
    """Make the menus of a window.

    Args:
        window: The window.
        actions: Its commands.
        recent: The menu of models opened last.
        tabs: Its panels; each gets a command with Alt and its number.
    """
    bar, tr = window.menuBar(), window.tr
    file_menu = bar.addMenu(tr("&File"))
    file_menu.addActions([actions.open_files, actions.open_folder, actions.open_demo])
    file_menu.addMenu(recent)
    file_menu.addActions([actions.close_model, actions.quit])
    bar.addMenu(tr("&Edit")).addActions([actions.find, actions.go_to, actions.copy_path])
    view_menu = bar.addMenu(tr("&View"))
    for number in range(tabs.count()):  # ten of them: 0 is the last one's key
        tab = QAction(tabs.tabText(number), window)
        tab.setObjectName(f"tab_{number + 1}")
        tab.setShortcut(QKeySequence(f"Alt+{(number + 1) % 10}"))
        tab.setStatusTip(tr("Show this panel"))
        tab.triggered.connect(partial(_show, tabs, number))
        view_menu.addAction(tab)
        window.addAction(tab)
    view_menu.addMenu(tr("&Colours")).addActions(list(actions.schemes.values()))
    view_menu.addMenu(tr("&Sizes in")).addActions(list(actions.units.values()))
    view_menu.addAction(actions.reset_layout)
    help_menu = bar.addMenu(tr("&Help"))
    help_menu.addActions([actions.guide, actions.shortcuts, actions.tour])
    help_menu.addActions([actions.whats_this, actions.explain, actions.about])


def _show(tabs: QTabWidget, number: int, _checked: bool = False) -> None:
    tabs.setCurrentIndex(number)
