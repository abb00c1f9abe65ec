"""A table that follows the planner's plans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from PySide6.QtCore import QObject

from explorer.present.tables.table import Table
from explorer.qt.widgets.table_model import Column, TableModel, bound

Row = TypeVar("Row")


class LiveTable(TableModel):
    """A table that keeps selection and scroll position while its content changes."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._kind: object = None

    def show(self, columns: Sequence[Column], row_count: int, kind: object = None) -> bool:
        """Show other content; rows of another `kind` are others, even if there are as many.

        Returns:
            Whether the table was reset, so that its columns need widths.
        """
        same = [column.title for column in self.columns] == [column.title for column in columns]
        if not same or row_count != self.content_count or kind != self._kind:
            self._kind = kind
            self.set_content(columns, row_count)
            return True
        self.columns = tuple(columns)
        if self.rowCount() and columns:  # a filter may show none of them
            last = self.index(self.rowCount() - 1, len(columns) - 1)
            self.dataChanged.emit(self.index(0, 0), last)
        return False

    def show_rows(self, table: Table[Row], rows: Sequence[Row], kind: object = None) -> bool:
        """Show the rows of a described table; see `show`."""
        return self.show(bound(table, rows), len(rows), kind)
