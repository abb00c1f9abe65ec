"""F1: every command with its keys, from the actions themselves."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QHeaderView,
    QTableWidget,
    QTableWidgetItem,
    QVBoxLayout,
    QWidget,
)


class ShortcutList(QDialog):
    """A table of commands and keys."""

    def __init__(self, actions: Sequence[QAction], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(self.tr("Keyboard shortcuts"))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        rows = [
            (action.text().replace("&", "").removesuffix("…"), _keys(action))
            for action in actions
            if not action.shortcut().isEmpty()
        ]
        # keys of the panels, which are no commands of the window
        rows += [
            (self.tr("Copy the selected rows"), "Ctrl+C"),
            (self.tr("Copy the cell"), "Ctrl+Shift+C"),
            (self.tr("Clear the filter"), "Escape"),
            (self.tr("From the filter into the list"), "Down"),
            (self.tr("Show a tensor's bytes"), "Enter"),
            (self.tr("Find next in Raw"), "F3"),
            (self.tr("Read the library again"), "F5"),
            (self.tr("Copy “ollama run …” in the library"), "Ctrl+Shift+R"),
            (self.tr("Undo the last zoom of a plot, see all of it"), "Backspace, Home"),
            (self.tr("Read a histogram bin by bin"), "Left, Right"),
            (self.tr("Undo and redo in the planner"), "Ctrl+Z, Ctrl+Shift+Z"),
        ]
        table = QTableWidget(len(rows), 2, self)
        table.setHorizontalHeaderLabels([self.tr("Command"), self.tr("Keys")])
        table.setEditTriggers(QTableWidget.EditTrigger.NoEditTriggers)
        table.setSelectionBehavior(QTableWidget.SelectionBehavior.SelectRows)
        table.setShowGrid(False)
        table.setAccessibleName(self.tr("Keyboard shortcuts"))
        table.verticalHeader().hide()
        table.horizontalHeader().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        table.horizontalHeader().setSectionResizeMode(1, QHeaderView.ResizeMode.ResizeToContents)
        for row, cells in enumerate(rows):
            for column, text in enumerate(cells):
                table.setItem(row, column, QTableWidgetItem(text))
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, self)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.addWidget(table)
        layout.addWidget(buttons)
        self.resize(520, 520)


def _keys(action: QAction) -> str:
    return action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
