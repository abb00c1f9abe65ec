"""A filter bar over a table: what the metadata, tensor and vocabulary panels have in common."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QStackedLayout, QVBoxLayout, QWidget

from explorer.present.explanations import picture_text
from explorer.qt.jobs import JobRunner
from explorer.qt.models.table import TableModel
from explorer.qt.views.labels import empty_label
from explorer.qt.views.tables.filter_bar import FilterBar
from explorer.qt.views.tables.table_view import TableView


class ListPanel(QWidget):
    """A filtered table, or a sentence where there is nothing to list.

    Attributes:
        bar: The filter.
        model: The table's model.
        table: The table.
    """

    def __init__(
        self, runner: JobRunner, hint: str, tip: str = "", parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.bar = FilterBar(hint, tip, self)
        self.bar.status.setWhatsThis(picture_text("listed"))
        self.model = TableModel(self)
        self.table = TableView(self.model, runner, self)
        self._empty = empty_label(self)
        self._area = QWidget(self)
        self._stack = QStackedLayout(self._area)
        self._stack.addWidget(self.table)
        self._stack.addWidget(self._empty)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.bar)
        layout.addWidget(self._area, 1)
        self.bar.left_down.connect(self._enter_table)

    def show_empty(self, text: str) -> None:
        """Show a sentence instead of the table."""
        self._empty.setText(text)
        self._stack.setCurrentWidget(self._empty)

    def show_table(self) -> None:
        """Show the table again."""
        self._stack.setCurrentWidget(self.table)

    def focus_search(self) -> None:
        """Put the cursor into the filter."""
        self.bar.focus()

    def _enter_table(self) -> None:
        self.table.setFocus(Qt.FocusReason.OtherFocusReason)
        if self.model.rowCount() and not self.table.currentIndex().isValid():
            self.table.setCurrentIndex(self.model.index(0, 0))
