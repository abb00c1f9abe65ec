"""Labels that show text as it is: names from files must not be taken for rich text."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QCoreApplication, QSize, Qt
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QLabel, QWidget

_LARGEST: Final = QSize(1000, 16_000)


class _PlainLabel(QLabel):
    """Never asks for more room than a window has, whatever its text.

    A name may be a single word of 65,000 letters. A window that is as wide as that word takes
    gigabytes for its picture.
    """

    # Qt

    def sizeHint(self) -> QSize:
        return super().sizeHint().boundedTo(_LARGEST)

    def minimumSizeHint(self) -> QSize:
        return super().minimumSizeHint().boundedTo(_LARGEST)


def plain_label(parent: QWidget, text: str = "") -> QLabel:
    """Return a label in whose text nothing has a meaning of its own."""
    label = _PlainLabel(text, parent)
    label.setTextFormat(Qt.TextFormat.PlainText)
    return label


def empty_label(parent: QWidget) -> QLabel:
    """Return a label for the middle of a place where there is nothing else to show."""
    label = plain_label(parent)
    label.setAlignment(Qt.AlignmentFlag.AlignCenter)
    label.setWordWrap(True)
    label.setEnabled(False)
    return label


def error_caution(parent: QWidget) -> QLabel:
    """Return a label that says what errors of weights do not tell."""
    text = QCoreApplication.translate(
        "Labels",
        "Weight error ranks tensors of one role. It does not by itself predict the quality of a "
        "model's answers.",
    )
    label = plain_label(parent, text)
    label.setForegroundRole(QPalette.ColorRole.PlaceholderText)
    label.setWordWrap(True)
    label.setContentsMargins(8, 3, 8, 4)
    return label
