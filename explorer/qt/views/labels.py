"""Labels that show text as it is: names from files must not be taken for rich text."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QWidget


def plain_label(parent: QWidget, text: str = "") -> QLabel:
    """Return a label in whose text nothing has a meaning of its own."""
    label = QLabel(text, parent)
    label.setTextFormat(Qt.TextFormat.PlainText)
    return label


def empty_label(parent: QWidget) -> QLabel:
    """Return a label for the middle of a place where there is nothing else to show."""
    label = plain_label(parent)
    label.setAlignment(Qt.AlignmentFlag.AlignCenter)
    label.setWordWrap(True)
    label.setEnabled(False)
    return label
