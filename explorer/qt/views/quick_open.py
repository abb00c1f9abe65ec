"""Ctrl+K: type a part of any name and go there."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QDialog, QLineEdit, QListWidget, QListWidgetItem, QVBoxLayout, QWidget

from explorer.display import plain_text
from explorer.qt.models.quick_open import Entry, search

_MOVES = (Qt.Key.Key_Down, Qt.Key.Key_Up, Qt.Key.Key_PageDown, Qt.Key.Key_PageUp)


class QuickOpen(QDialog):
    """A search line over a list of results.

    Signals:
        chosen: The user chose an entry.
    """

    chosen = Signal(object)

    def __init__(self, entries: Sequence[Entry], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(self.tr("Go to"))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._entries = entries
        self._found: list[Entry] = []
        self.edit = QLineEdit(self)
        self.edit.setPlaceholderText(self.tr("Model, metadata key, tensor or command"))
        self.edit.setAccessibleName(self.tr("Go to"))
        self.edit.installEventFilter(self)
        self.results = QListWidget(self)
        self.results.setUniformItemSizes(True)
        self.results.setAccessibleName(self.tr("Results"))
        self.results.itemActivated.connect(self._choose)
        layout = QVBoxLayout(self)
        layout.addWidget(self.edit)
        layout.addWidget(self.results)
        self.resize(620, 420)
        self.edit.textChanged.connect(self._search)
        self.edit.returnPressed.connect(self._choose)
        self._search("")

    def _search(self, text: str) -> None:
        self._found = search(self._entries, text)
        self.results.clear()
        for entry in self._found:
            place = entry.target.value
            if entry.document is not None:
                place += f" — {plain_text(entry.document.title)}"
            QListWidgetItem(f"{entry.text}    ({place})", self.results)
        self.results.setCurrentRow(0)

    def _choose(self) -> None:
        row = self.results.currentRow()
        if 0 <= row < len(self._found):
            self.chosen.emit(self._found[row])
            self.accept()

    # Qt

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        # the list is moved through while the cursor stays in the line
        if watched is self.edit and isinstance(event, QKeyEvent):
            pressed = event.type() == QEvent.Type.KeyPress
            if pressed and event.key() in _MOVES:
                self.results.keyPressEvent(event)
                return True
        return super().eventFilter(watched, event)
