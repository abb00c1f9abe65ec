"""The tables of the block microscope: like every other, with rows that can be marked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from PySide6.QtCore import QEvent, QModelIndex, QPersistentModelIndex, QSignalBlocker, Qt, Signal
from PySide6.QtGui import QBrush
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QStyleOptionViewItem, QWidget

from explorer.qt.jobs import JobRunner
from explorer.qt.models.table import TableModel
from explorer.qt.views.tables.table_padding import PaddedDelegate
from explorer.qt.views.tables.table_view import TableView

_EDGES = 6  # pixels that the style takes of a cell

BrushOf: TypeAlias = Callable[[int, int], QBrush | None]
"""Returns what is behind a cell, by content row and column; None for nothing special."""


class MarkedTable(TableView):
    """A table whose cells may have a brush behind them.

    Args:
        model: The table.
        runner: Runs exports.
        brush_of: What is behind a cell.

    Signals:
        row_hovered: The mouse is over a row, its content row; -1 when it has left.
    """

    row_hovered = Signal(int)

    def __init__(
        self, model: TableModel, runner: JobRunner, brush_of: BrushOf, parent: QWidget | None = None
    ) -> None:
        super().__init__(model, runner, parent)
        self.setItemDelegate(_MarkingDelegate(model, brush_of, self))
        self.setMinimumHeight(60)
        self.setMouseTracking(True)
        self.entered.connect(lambda index: self.row_hovered.emit(model.content_row(index)))
        self.viewportEntered.connect(lambda: self.row_hovered.emit(-1))

    def follow(self, content_row: int) -> None:
        """Make a row current without telling anybody; -1 makes none."""
        with QSignalBlocker(self):
            if content_row < 0:
                self.clearSelection()
                self.setCurrentIndex(QModelIndex())
            else:
                self.select_row(content_row)
        self.viewport().update()

    def share_width(self, narrow: Mapping[str, int], hidden: tuple[str, ...] = ()) -> None:
        """Give columns widths, so that nothing has to be scrolled sideways.

        Args:
            narrow: How many digits columns of these names have room for; the others share the rest.
            hidden: Names of columns that are not shown at first.
        """
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        header, digit = self.horizontalHeader(), self.fontMetrics().horizontalAdvance("0")
        header.setStretchLastSection(False)
        for number, column in enumerate(self.table.columns):
            self.setColumnHidden(number, column.name in hidden)
            digits = narrow.get(column.name)
            if digits is None:
                header.setSectionResizeMode(number, QHeaderView.ResizeMode.Stretch)
            else:
                header.setSectionResizeMode(number, QHeaderView.ResizeMode.Interactive)
                width = max((digits + 2) * digit + _EDGES, header.sectionSizeHint(number))
                self.setColumnWidth(number, width)

    def bring(self, content_row: int) -> None:
        """Scroll to a row."""
        index = self.table.index_of(content_row)
        self.scrollTo(index, QAbstractItemView.ScrollHint.EnsureVisible)

    # Qt

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self.row_hovered.emit(-1)


class _MarkingDelegate(PaddedDelegate):
    def __init__(self, model: TableModel, brush_of: BrushOf, parent: QWidget) -> None:
        super().__init__(parent)
        self._model = model
        self._brush_of = brush_of

    # Qt

    def initStyleOption(
        self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        super().initStyleOption(option, index)
        brush = self._brush_of(self._model.content_row(index), index.column())
        if brush is not None:
            option.backgroundBrush = brush
