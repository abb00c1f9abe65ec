"""What Ctrl+K has found, as a list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import QAbstractListModel, QModelIndex, QObject, Qt

from explorer.qt.models.quick_open.search import Entry, Target
from explorer.qt.models.roles import ItemRole
from explorer.qt.models.table import Index
from explorer.text import plain_text


class FoundList(QAbstractListModel):
    """Entries in the order of their ranks.

    Attributes:
        entries: The entries.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.entries: Sequence[Entry] = ()

    def set_entries(self, entries: Sequence[Entry]) -> None:
        """Show other entries."""
        self.beginResetModel()
        self.entries = entries
        self.endResetModel()

    def _text(self, entry: Entry) -> str:
        place = {
            Target.MODEL: self.tr("model"),
            Target.KEY: self.tr("key"),
            Target.TENSOR: self.tr("tensor"),
            Target.ACTION: self.tr("command"),
        }[entry.target]
        if entry.document is not None and entry.target is not Target.MODEL:
            place += f" — {plain_text(entry.document.title)}"
        return f"{entry.text}    ({place})"

    # Qt

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's signature
        return 0 if parent.isValid() else len(self.entries)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        entry = self.entries[index.row()]
        if role == Qt.ItemDataRole.DisplayRole:
            return self._text(entry)
        if role == ItemRole.RAW:
            return entry.text
        return None
