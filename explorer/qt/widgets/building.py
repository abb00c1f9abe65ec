"""Columns, commands and context menus, as most widgets need them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QPoint, Qt, SignalInstance
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QLayout, QMenu, QVBoxLayout, QWidget


def add_column(
    owner: QWidget, *parts: QWidget | QLayout, grows: QWidget | None = None
) -> QVBoxLayout:
    """Stack parts in a widget without gaps; the one that grows gets the room that is left."""
    column = QVBoxLayout(owner)
    column.setContentsMargins(0, 0, 0, 0)
    column.setSpacing(0)
    for part in parts:
        if isinstance(part, QLayout):
            column.addLayout(part)
        else:
            column.addWidget(part, int(part is grows))
    return column


def add_action(
    owner: QWidget,
    text: str,
    slot: Callable[[], object] | SignalInstance,
    *keys: QKeySequence.StandardKey | str,
    children: bool = False,
) -> QAction:
    """Give a widget a command whose keys work while it, or one of its children, has the focus."""
    action = QAction(text, owner)
    action.setShortcuts([QKeySequence(key) for key in keys])
    context = Qt.ShortcutContext
    action.setShortcutContext(
        context.WidgetWithChildrenShortcut if children else context.WidgetShortcut
    )
    action.triggered.connect(slot)
    owner.addAction(action)
    return action


def show_menu(owner: QWidget, place: QPoint, *groups: Sequence[QAction]) -> None:
    """Open a menu of groups of commands at a place of the screen; closing it deletes it."""
    menu = QMenu(owner)
    menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    for group in groups:
        menu.addSeparator()  # Qt hides the first
        menu.addActions(group)
    menu.popup(place)
