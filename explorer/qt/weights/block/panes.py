"""What one block looks like: bytes and fields at the left, weights and sub-blocks at the right.

Pointing at something in one pane marks what belongs to it in the others. A click or a key keeps the
mark; otherwise it follows the mouse.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from PySide6 import QtCore, QtWidgets
from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QBrush, QColor, QPalette

from explorer.analysis.block_detail import BlockDetail
from explorer.analysis.block_search import ComparedBlock
from explorer.present.tables.blocks import field_table, sub_block_table, weight_table
from explorer.present.tables.table import Table
from explorer.qt.services import Services
from explorer.qt.theme import Space
from explorer.qt.weights.block.plot import BlockPlot
from explorer.qt.weights.block.strip import (
    BlockPart,
    BlockStrip,
    PartKind,
    block_field_tint,
    links_of,
)
from explorer.qt.widgets.building import column, row
from explorer.qt.widgets.controls import readout, split
from explorer.qt.widgets.segments import segmented
from explorer.qt.widgets.table_model import TableModel
from explorer.qt.widgets.table_view import PaddedDelegate, TableView

BrushOf: TypeAlias = Callable[[int, int], QBrush | None]
"""Returns what is behind a cell, by content row and column; None for nothing special."""


class MarkedTable(TableView):
    """A table whose cells may have a brush behind them.

    Signals:
        row_hovered: The mouse is over a row, its content row; -1 when it has left.
    """

    row_hovered = Signal(int)

    def __init__(
        self,
        model: TableModel,
        app: Services,
        brush_of: BrushOf,
        parent: QtWidgets.QWidget | None = None,
    ) -> None:
        super().__init__(model, app, parent)
        self.setItemDelegate(_MarkingDelegate(model, brush_of, self))
        self.setMinimumHeight(60)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.column_layout.least = _LEAST_CHARACTERS
        self.setMouseTracking(True)
        self.entered.connect(lambda index: self.row_hovered.emit(model.content_row(index)))
        self.viewportEntered.connect(lambda: self.row_hovered.emit(-1))

    def follow(self, content_row: int) -> None:
        """Make a row current without emitting a signal; -1 makes none."""
        with QtCore.QSignalBlocker(self):
            if content_row < 0:
                self.clearSelection()
                self.setCurrentIndex(QtCore.QModelIndex())
            else:
                self.select_row(content_row)
        self.viewport().update()

    def bring(self, content_row: int) -> None:
        index = self.table.index_of(content_row)
        self.scrollTo(index, QtWidgets.QAbstractItemView.ScrollHint.EnsureVisible)

    # Qt

    def leaveEvent(self, event: QtCore.QEvent) -> None:
        super().leaveEvent(event)
        self.row_hovered.emit(-1)


class _MarkingDelegate(PaddedDelegate):
    def __init__(self, model: TableModel, brush_of: BrushOf, parent: QtWidgets.QWidget) -> None:
        super().__init__(parent)
        self._model = model
        self._brush_of = brush_of

    # Qt

    def initStyleOption(
        self,
        option: QtWidgets.QStyleOptionViewItem,
        index: QtCore.QModelIndex | QtCore.QPersistentModelIndex,
    ) -> None:
        super().initStyleOption(option, index)
        brush = self._brush_of(self._model.content_row(index), index.column())
        if brush is not None:
            option.backgroundBrush = brush


_LEAST_CHARACTERS = 6  # of a column: nothing has to be scrolled sideways
_PLOT_HEIGHT = 210
_TABLE_HEIGHT = 230
_MARK_ALPHA = 60


class BlockPanes(QtWidgets.QWidget):
    """Shows one block."""

    def __init__(self, app: Services, parent: QtWidgets.QWidget | None = None) -> None:
        super().__init__(parent)
        self._detail: BlockDetail | None = None
        self._compared: ComparedBlock | None = None
        self._layout: tuple[object, ...] = ()
        self._marked: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self.looked_at: BlockPart | None = None
        self._hovered: BlockPart | None = None
        self.strip = BlockStrip(self)
        self.fields = MarkedTable(TableModel(self), app, self._field_brush, self)
        self.fields.setWordWrap(True)  # meanings are sentences, and rows are few
        self.fields.verticalHeader().setSectionResizeMode(
            QtWidgets.QHeaderView.ResizeMode.ResizeToContents
        )
        self.plot = BlockPlot(self)
        self.weights = MarkedTable(TableModel(self), app, self._weight_brush, self)
        self.sub_blocks = MarkedTable(TableModel(self), app, lambda *_: None, self)
        self._tables = {
            PartKind.FIELD: self.fields,
            PartKind.WEIGHT: self.weights,
            PartKind.SUB_BLOCK: self.sub_blocks,
        }
        self.readout = readout(self, 2)
        self._lay_out()
        self._connect()

    def show_block(self, detail: BlockDetail, compared: ComparedBlock | None) -> None:
        """Show another block."""
        self._detail, self._compared = detail, compared
        self.strip.show_block(detail)
        self._scroll.setMaximumHeight(self.strip.height() + 2 * self._scroll.frameWidth())
        self.plot.show_block(detail, compared)
        rounded = compared is None or compared.is_rounding
        layout = (detail.tensor.type.name, rounded, compared is None)
        renewed = layout != self._layout
        self._layout = layout
        for table, described, count in (
            (self.fields, field_table(detail), len(detail.fields)),
            (self.weights, weight_table(detail, compared), detail.values.size),
            (self.sub_blocks, sub_block_table(detail, compared), detail.scales.size),
        ):
            _fill(table, described, range(count), renewed=renewed)
        self._hovered = None
        if self.looked_at is not None and not self._exists(self.looked_at):
            self.looked_at = None
        self._follow(self.looked_at)

    def look_at(self, look: BlockPart | None) -> None:
        """Mark something, and what belongs to it, until something else is chosen."""
        self.looked_at, self._hovered = look, None
        if look is not None and not self._exists(look):
            self.looked_at = None
        self._follow(self.looked_at)

    def _lay_out(self) -> None:
        self._scroll = QtWidgets.QScrollArea(self)
        self._scroll.setWidget(self.strip)
        self._scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._scroll.setFrameShape(QtWidgets.QFrame.Shape.NoFrame)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._scroll.setBackgroundRole(QPalette.ColorRole.Window)
        self._scroll.setAccessibleName("Bytes")
        bar = self._scroll.verticalScrollBar().sizeHint().width()
        left = QtWidgets.QWidget(self)
        left.setFixedWidth(self.strip.width() + bar + 2)
        column((self._scroll, 3), (self.fields, 2), of=left, spacing=Space.TIGHT)
        self.tabs = segmented(QtWidgets.QTabWidget(self), "Tables of the block")
        self.tabs.addTab(self.weights, "Weights")
        self.tabs.addTab(self.sub_blocks, "Sub-blocks")
        parts = (self.plot, _PLOT_HEIGHT), (self.tabs, _TABLE_HEIGHT)
        self.splitter = split(self, *parts, vertical=True)
        row(left, (self.splitter, 1), of=self, margins=(0, 0, 0, 0), spacing=Space.NEAR)

    def _connect(self) -> None:
        self.strip.read.connect(lambda n: self._hover(PartKind.BYTE, -1 if n is None else n))
        self.strip.chosen.connect(lambda n: self.look_at(BlockPart(PartKind.BYTE, n)))
        self.plot.weight_hovered.connect(lambda weight: self._hover(PartKind.WEIGHT, weight))
        self.plot.weight_chosen.connect(lambda n: self.look_at(BlockPart(PartKind.WEIGHT, n)))
        for part, table in self._tables.items():
            table.row_selected.connect(lambda row, part=part: self._choose(BlockPart(part, row)))
            table.row_hovered.connect(lambda row, part=part: self._hover(part, row))

    def _exists(self, look: BlockPart) -> bool:
        detail = self._detail
        if detail is None:
            return False
        counts = {
            PartKind.BYTE: len(detail.stored),
            PartKind.FIELD: len(detail.fields),
            PartKind.SUB_BLOCK: detail.scales.size,
            PartKind.WEIGHT: detail.values.size,
        }
        return look.number < counts[look.part]

    def _choose(self, look: BlockPart) -> None:
        """Take a row of a table that the user has moved to."""
        self.looked_at, self._hovered = look, None
        self._follow(look, chosen=look.part)

    def _hover(self, part: PartKind, number: int) -> None:
        look = BlockPart(part, number) if number >= 0 else None
        if look != self._hovered:
            self._hovered = look
            self._mark(look or self.looked_at)

    def _follow(self, look: BlockPart | None, chosen: PartKind | None = None) -> None:
        """Mark something, and make tables stand there, but for the one where it was chosen."""
        self._mark(look)
        for part, table in self._tables.items():
            if part is not chosen:
                table.follow(look.number if look is not None and look.part is part else -1)
        marked = np.flatnonzero(self._marked)
        if look is not None and look.part is not PartKind.WEIGHT and marked.size:
            self.weights.bring(int(marked[0]))

    def _mark(self, look: BlockPart | None) -> None:
        detail = self._detail
        if detail is None:
            return
        if look is None:
            self._marked = np.zeros(detail.values.size, np.bool_)
            text = "Point at a byte, a field, a sub-block or a weight to see what belongs to it."
            masks, cursor = np.zeros(len(detail.stored), np.uint8), -1
        else:
            links = links_of(detail, look, self._compared)
            self._marked, masks, text = links.weights, links.masks, links.text
            cursor = int(self._marked.argmax()) if self._marked.any() else -1
        self.strip.show_bits(masks, text)
        self.plot.show_weights(self._marked, cursor)
        self.plot.speak(text)
        self.readout.setText(text)
        self.weights.viewport().update()

    def _field_brush(self, row: int, column: int) -> QBrush | None:
        return QBrush(block_field_tint(row, self.palette())) if column == 0 else None

    def _weight_brush(self, row: int, _column: int) -> QBrush | None:
        if row >= self._marked.size or not self._marked[row] or self._marked.all():
            return None
        colour = QColor(self.palette().color(QPalette.ColorRole.Highlight))
        colour.setAlpha(_MARK_ALPHA)
        return QBrush(colour)


def _fill(table: MarkedTable, described: Table[int], rows: range, *, renewed: bool) -> None:
    """Give a table another block; widths and sorting stay as long as the columns do."""
    table.show_rows(described, rows, QtCore.QByteArray() if renewed else table.columns_state())
