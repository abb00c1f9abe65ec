"""The tensors of a model as a table, with the filter that every such table has."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget

from explorer.formats.columns import TensorArrays
from explorer.formats.tensor_filter import parse_filter
from explorer.present.tables.tensors import TENSOR_FILTER
from explorer.qt.services import Services
from explorer.qt.widgets.table_view import ListPanel


class TensorList(ListPanel):
    """A table whose content rows are the tensors of a model."""

    def __init__(self, app: Services, parent: QWidget | None = None) -> None:
        super().__init__(app, *TENSOR_FILTER, parent)

    def filter_tensors(self, text: str, arrays: TensorArrays) -> None:
        """Show the tensors that a text asks for, and say what of it cannot be understood."""
        parsed = parse_filter(text)
        self.bar.say(parsed.problems)
        mask = None if parsed.is_empty else parsed.mask(arrays)
        self.show_matches(mask, "No tensor matches. Press Escape in the filter to see all.")

    def chosen_tensors(self) -> list[int]:
        """Return the selected tensors, the current one first."""
        current = self.table.currentIndex()
        first = self.model.content_row(current) if current.isValid() else -1
        rows: list[int] = self.table.selected_content_rows().tolist()
        return sorted(rows, key=lambda row: row != first)
