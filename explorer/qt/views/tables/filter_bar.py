"""The line above a list: filter as you type, and how much of the list is shown."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QWidget

from explorer.qt.views.labels import plain_label


class FilterBar(QWidget):
    """A filter's text and a count.

    Signals:
        changed: The text changed.
        left_down: The user wants to go on in the list (Down or Enter).
    """

    changed = Signal(str)
    left_down = Signal()

    def __init__(self, hint: str, tip: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.edit = _FilterEdit(self)
        self.edit.setPlaceholderText(hint)
        self.edit.setToolTip(tip)
        self.edit.setAccessibleName(self.tr("Filter"))
        self.edit.setAccessibleDescription(hint)
        self.edit.setClearButtonEnabled(True)
        self.edit.textChanged.connect(self.changed)
        self.edit.left_down.connect(self.left_down)
        self.status = plain_label(self)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(6, 6, 6, 4)
        layout.addWidget(self.edit, 1)
        layout.addWidget(self.status)

    @property
    def text(self) -> str:
        """The filter."""
        return self.edit.text()

    def focus(self) -> None:
        """Put the cursor into the filter and select its text."""
        self.edit.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.edit.selectAll()


class _FilterEdit(QLineEdit):
    left_down = Signal()

    # Qt

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape and self.text():
            self.clear()
        elif event.key() in (Qt.Key.Key_Down, Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.left_down.emit()
        else:
            super().keyPressEvent(event)
