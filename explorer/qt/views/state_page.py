"""What stands in the panel's place when there is nothing to draw: why, and what to do."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFont
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from explorer.qt.views.labels import plain_label
from explorer.text import plain_text, shorten

_LONGEST: Final = 1000


class StatePage(QWidget):
    """A heading, a sentence, and perhaps a button.

    Signals:
        pressed: The button was pressed.
    """

    pressed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.heading = self._label()
        font = QFont(self.heading.font())
        font.setPointSizeF(font.pointSizeF() * 1.35)
        font.setWeight(QFont.Weight.DemiBold)
        self.heading.setFont(font)
        self.sentence = self._label()
        self.sentence.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse
            | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.button = QPushButton(self)
        self.button.clicked.connect(self.pressed)
        row = QHBoxLayout()
        row.addStretch(1)
        row.addWidget(self.button)
        row.addStretch(1)
        column = QVBoxLayout()
        column.setSpacing(10)
        column.addStretch(2)
        column.addWidget(self.heading)
        column.addWidget(self.sentence)
        column.addLayout(row)
        column.addStretch(3)
        layout = QHBoxLayout(self)
        layout.addStretch(1)
        layout.addLayout(column, 8)
        layout.addStretch(1)

    def tell(self, heading: str, sentence: str, button: str = "") -> None:
        """Say something; texts may come from a file."""
        self.heading.setText(shorten(plain_text(heading), _LONGEST))
        self.sentence.setText(shorten(plain_text(sentence), _LONGEST))
        self.sentence.setVisible(bool(sentence))  # the keyboard would stop at an empty one
        self.button.setText(button)
        self.button.setVisible(bool(button))

    def _label(self) -> QLabel:
        label = plain_label(self)
        label.setAlignment(Qt.AlignmentFlag.AlignCenter)
        label.setWordWrap(True)
        return label
