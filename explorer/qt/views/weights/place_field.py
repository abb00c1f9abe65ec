"""A line in which one types where in a tensor to go: a row and a column, or an index."""

from __future__ import annotations

import re

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QLineEdit, QWidget

from explorer.formats.tensors import Folding
from explorer.text import integer_text

_NUMBERS = re.compile(r"\d{1,18}")
_WIDTH = 180


class PlaceField(QLineEdit):
    """Takes a row and a column, or an index in all dimensions.

    Attributes:
        folding: How the tensor is laid out as rows and columns.

    Signals:
        place_typed: A place that there is; a `Place`.
        refused: Something else was typed; a sentence.
    """

    place_typed = Signal(object)
    refused = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.folding = Folding((0,))
        self.setAccessibleName(self.tr("Go to row, column"))
        self.setPlaceholderText(self.tr("Go to row, column"))
        self.setFixedWidth(_WIDTH)
        self.returnPressed.connect(self._go)

    def take_focus(self) -> None:
        """Put the cursor here, and select what was typed before."""
        self.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.selectAll()

    def _go(self) -> None:
        numbers = tuple(map(int, _NUMBERS.findall(self.text())))
        place = self.folding.place_of(numbers) if numbers else None
        if place is not None:
            self.place_typed.emit(place)
            return
        sentence = self.tr("Type a row below {rows}, a comma, and a column below {columns}.")
        self.refused.emit(
            sentence.format(
                rows=integer_text(self.folding.rows), columns=integer_text(self.folding.columns)
            )
        )
