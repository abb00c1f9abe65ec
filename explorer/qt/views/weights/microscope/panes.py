"""What one block looks like: bytes and fields at the left, weights and sub-blocks at the right.

All of it shows the same thing: what one points at in one place is marked in the others. A click or
a key keeps it, the mouse shows it for as long as it is there.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QByteArray, Qt, Signal
from PySide6.QtGui import QBrush, QColor, QPalette
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QScrollArea,
    QSplitter,
    QTabWidget,
    QVBoxLayout,
    QWidget,
)

from explorer.analysis.block_detail import BlockDetail
from explorer.analysis.block_search import Beside
from explorer.present.explanations import picture_text
from explorer.qt.jobs import JobRunner
from explorer.qt.models.table import Column, TableModel
from explorer.qt.models.weights.block_columns import (
    field_columns,
    sub_block_columns,
    weight_columns,
)
from explorer.qt.models.weights.block_links import Look, Part, links_of
from explorer.qt.views.labels import plain_label
from explorer.qt.views.weights.microscope.plot import BlockPlot
from explorer.qt.views.weights.microscope.strip import BlockStrip
from explorer.qt.views.weights.microscope.style import block_field_tint
from explorer.qt.views.weights.microscope.tables import MarkedTable

_PLOT_HEIGHT = 210
_TABLE_HEIGHT = 230
_MARK_ALPHA = 60
_DIGITS_OF = {  # columns whose texts are short
    **{"field": 8, "bytes": 8, "value_text": 17},
    **{"weight": 5, "code": 4, "row": 5, "level": 6},
    **{"weights": 7, "factor": 5, "minimum_factor": 5, "codes_used": 8},
}


class BlockPanes(QWidget):
    """Shows one block.

    Attributes:
        strip: Its bytes.
        fields: The table of its fields.
        plot: The picture of its weights.
        weights: The table of its weights.
        sub_blocks: The table of its sub-blocks.
        readout: What is under the cursor, in words.
        looked_at: What was chosen last; None for nothing.

    Signals:
        exported: A file was written; its path.
        failed: A file could not be written; an `ExplorerError`.
    """

    exported = Signal(str)
    failed = Signal(object)

    def __init__(self, runner: JobRunner, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._detail: BlockDetail | None = None
        self._beside: Beside | None = None
        self._layout: tuple[object, ...] = ()
        self._marked: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self.looked_at: Look | None = None
        self._hovered: Look | None = None
        self.strip = BlockStrip(self)
        self.fields = MarkedTable(TableModel(self), runner, self._field_brush, self)
        self.fields.setAccessibleName(self.tr("Fields of the block"))
        self.plot = BlockPlot(self)
        self.weights = MarkedTable(TableModel(self), runner, self._weight_brush, self)
        self.weights.setAccessibleName(self.tr("Weights of the block, a table"))
        self.sub_blocks = MarkedTable(TableModel(self), runner, lambda *_: None, self)
        self.sub_blocks.setAccessibleName(self.tr("Sub-blocks"))
        self.readout = plain_label(self)
        self.readout.setWordWrap(True)
        self.readout.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft)
        self.readout.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.readout.setAccessibleName(self.tr("Under the cursor"))
        self.readout.setWhatsThis(picture_text("readout"))
        # its place stays, whatever it says: the panes above must not move under the mouse
        self.readout.setFixedHeight(2 * self.readout.fontMetrics().lineSpacing() + 4)
        self._lay_out()
        self._connect()

    def show_block(self, detail: BlockDetail, beside: Beside | None) -> None:
        """Show another block.

        Args:
            detail: The block.
            beside: What it is compared with; None for nothing.
        """
        self._detail, self._beside = detail, beside
        self.strip.show_block(detail)
        self._scroll.setMaximumHeight(self.strip.height() + 2 * self._scroll.frameWidth())
        self.plot.show_block(detail, beside)
        layout = (detail.tensor.type.name, beside is None or beside.is_rounding, beside is None)
        renewed = layout != self._layout
        self._layout = layout
        for table, columns, count in (
            (self.fields, field_columns(detail), len(detail.fields)),
            (self.weights, weight_columns(detail, beside), detail.values.size),
            (self.sub_blocks, sub_block_columns(detail, beside), detail.scales.size),
        ):
            _fill(table, columns, count, renewed=renewed)
        self._hovered = None
        if self.looked_at is not None and not self._exists(self.looked_at):
            self.looked_at = None
        self._follow(self.looked_at)

    def look_at(self, look: Look | None) -> None:
        """Mark something, and what belongs to it, until something else is chosen."""
        self.looked_at, self._hovered = look, None
        if look is not None and not self._exists(look):
            self.looked_at = None
        self._follow(self.looked_at)

    def _lay_out(self) -> None:
        self._scroll = QScrollArea(self)
        self._scroll.setWidget(self.strip)
        self._scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._scroll.setFrameShape(QFrame.Shape.NoFrame)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._scroll.setBackgroundRole(QPalette.ColorRole.Base)
        self._scroll.setAccessibleName(self.tr("Bytes"))
        bar = self._scroll.verticalScrollBar().sizeHint().width()
        left = QWidget(self)
        left.setFixedWidth(self.strip.width() + bar + 2)
        column = QVBoxLayout(left)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        column.addWidget(self._scroll, 3)
        column.addWidget(self.fields, 2)
        self.tabs = QTabWidget(self)
        self.tabs.setDocumentMode(True)
        self.tabs.setAccessibleName(self.tr("Tables of the block"))
        self.tabs.addTab(self.weights, self.tr("Weights"))
        self.tabs.addTab(self.sub_blocks, self.tr("Sub-blocks"))
        self.splitter = QSplitter(Qt.Orientation.Vertical, self)
        self.splitter.addWidget(self.plot)
        self.splitter.addWidget(self.tabs)
        self.splitter.setChildrenCollapsible(False)
        self.splitter.setSizes([_PLOT_HEIGHT, _TABLE_HEIGHT])
        layout = QHBoxLayout(self)
        layout.setContentsMargins(8, 0, 0, 0)
        layout.setSpacing(6)
        layout.addWidget(left)
        layout.addWidget(self.splitter, 1)

    def _connect(self) -> None:
        self.strip.byte_hovered.connect(lambda byte: self._hover(Part.BYTE, byte))
        self.strip.byte_chosen.connect(lambda byte: self.look_at(Look(Part.BYTE, byte)))
        self.plot.weight_hovered.connect(lambda weight: self._hover(Part.WEIGHT, weight))
        self.plot.weight_chosen.connect(lambda weight: self.look_at(Look(Part.WEIGHT, weight)))
        for table, part in (
            (self.fields, Part.FIELD),
            (self.weights, Part.WEIGHT),
            (self.sub_blocks, Part.SUB_BLOCK),
        ):
            table.row_selected.connect(lambda row, part=part: self._choose(Look(part, row)))
            table.row_hovered.connect(lambda row, part=part: self._hover(part, row))
            table.exported.connect(self.exported)
            table.failed.connect(self.failed)

    def _exists(self, look: Look) -> bool:
        detail = self._detail
        if detail is None:
            return False
        counts = {
            Part.BYTE: len(detail.stored),
            Part.FIELD: len(detail.fields),
            Part.SUB_BLOCK: detail.scales.size,
            Part.WEIGHT: detail.values.size,
        }
        return look.number < counts[look.part]

    def _choose(self, look: Look) -> None:
        """Take a row of a table that the user has moved to."""
        self.looked_at, self._hovered = look, None
        self._follow(look, chosen=look.part)

    def _hover(self, part: Part, number: int) -> None:
        look = Look(part, number) if number >= 0 else None
        if look != self._hovered:
            self._hovered = look
            self._mark(look or self.looked_at)

    def _follow(self, look: Look | None, chosen: Part | None = None) -> None:
        """Mark something, and make tables stand there, but for the one where it was chosen."""
        self._mark(look)
        rows = {
            Part.FIELD: (self.fields, -1),
            Part.WEIGHT: (self.weights, -1),
            Part.SUB_BLOCK: (self.sub_blocks, -1),
        }
        if look is not None and look.part in rows:
            rows[look.part] = (rows[look.part][0], look.number)
        for part, (table, row) in rows.items():
            if part is not chosen:
                table.follow(row)
        marked = np.flatnonzero(self._marked)
        if look is not None and look.part is not Part.WEIGHT and marked.size:
            self.weights.bring(int(marked[0]))

    def _mark(self, look: Look | None) -> None:
        """Mark something and what belongs to it."""
        detail = self._detail
        if detail is None:
            return
        if look is None:
            self._marked = np.zeros(detail.values.size, np.bool_)
            masks, text, cursor = np.zeros(len(detail.stored), np.uint8), self._resting(), -1
        else:
            links = links_of(detail, look, self._beside)
            self._marked, masks, text = links.weights, links.masks, links.text
            cursor = int(self._marked.argmax()) if self._marked.any() else -1
        self.strip.show_bits(masks, text)
        self.plot.show_weights(self._marked, cursor)
        self.plot.speak(text)
        self.readout.setText(text)
        self.weights.viewport().update()

    def _resting(self) -> str:
        return self.tr(
            "Point at a byte, a field, a sub-block or a weight to see what belongs to it."
        )

    def _field_brush(self, row: int, column: int) -> QBrush | None:
        return QBrush(block_field_tint(row, self.palette())) if column == 0 else None

    def _weight_brush(self, row: int, _column: int) -> QBrush | None:
        if row >= self._marked.size or not self._marked[row] or self._marked.all():
            return None
        colour = QColor(self.palette().color(QPalette.ColorRole.Highlight))
        colour.setAlpha(_MARK_ALPHA)
        return QBrush(colour)


def _fill(table: MarkedTable, columns: list[Column], count: int, *, renewed: bool) -> None:
    """Give a table another block; widths and sorting stay as long as the columns do."""
    table.table.set_content(columns, count)
    if renewed:
        table.show_columns(QByteArray())
        table.share_width(_DIGITS_OF, ("type",))
        return
    header = table.horizontalHeader()
    if header.sortIndicatorSection() >= 0:
        table.sortByColumn(header.sortIndicatorSection(), header.sortIndicatorOrder())
