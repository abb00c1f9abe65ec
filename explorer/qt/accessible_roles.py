"""Tells screen readers what the program's own widgets are: Qt calls everything it did not draw a
client area.

A class says it itself, in its attribute `accessible_role`. Names and descriptions stay those of the
widget; only the role comes from here.
"""

from __future__ import annotations

from PySide6.QtCore import QObject
from PySide6.QtGui import QAccessible, QAccessibleInterface
from PySide6.QtWidgets import QAccessibleWidget, QWidget


def tell_roles() -> None:
    """Have Qt ask the program's classes what they are; a second call changes nothing."""
    QAccessible.installFactory(_interface_of)


def _interface_of(_class_name: str, thing: QObject) -> QAccessibleInterface | None:
    role = getattr(thing, "accessible_role", None)
    if not isinstance(role, QAccessible.Role) or not isinstance(thing, QWidget):
        return None
    return QAccessibleWidget(thing, role)
