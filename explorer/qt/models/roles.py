"""Roles under which item models hand out what they show, beside Qt's own."""

from __future__ import annotations

from enum import IntEnum

from PySide6.QtCore import Qt


class ItemRole(IntEnum):
    """Our roles; every item model of the program answers those that apply."""

    RAW = Qt.ItemDataRole.UserRole + 1
    """The value itself, for export and tests."""
    ROW = Qt.ItemDataRole.UserRole + 2
    """Row of the item in the unsorted, unfiltered content."""
    NODE = Qt.ItemDataRole.UserRole + 3
    """The tree's node."""
