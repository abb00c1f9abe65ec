"""A long flat table: sorting and filtering happen on arrays, not row by row through Qt.

A `QSortFilterProxyModel` over a Python model takes 28 s to sort 152,000 rows, because every
comparison crosses into Python (stack.md section 5). Here a row of the view is an entry of an index
array: sorting is one `argsort`, filtering one mask. Content is set as a whole, from columns made in
a worker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt
from PySide6.QtGui import QIcon

from explorer.present.tables.table import Column as TableColumn
from explorer.present.tables.table import Table
from explorer.qt.widgets.painting import plain_tip, swatch_icon
from explorer.text import plain_text

Row = TypeVar("Row")


class ItemRole(IntEnum):
    """Roles of the program's item models; each model answers those that apply."""

    RAW = Qt.ItemDataRole.UserRole + 1
    """The value itself, for export and tests."""
    ROW = Qt.ItemDataRole.UserRole + 2
    """Row of the item in the unsorted, unfiltered content."""
    NODE = Qt.ItemDataRole.UserRole + 3
    """The tree's node."""
    PARTS = Qt.ItemDataRole.UserRole + 4
    """How the cell is drawn where it is more than a text: `cells.Parts`."""
    BAR = Qt.ItemDataRole.UserRole + 5
    """How much of the cell a bar behind its text takes, 0 to 1; None for no bar."""


Index: TypeAlias = QModelIndex | QPersistentModelIndex
Cell: TypeAlias = str | int | float | bool | None

RIGHT: Final = int(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
"""How numbers are aligned, as a role's value."""

LEFT: Final = int(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
"""How texts are."""

_DISPLAY: Final = Qt.ItemDataRole.DisplayRole
_ALIGNMENT: Final = Qt.ItemDataRole.TextAlignmentRole
_MEANINGS: Final = Qt.ItemDataRole.ToolTipRole, Qt.ItemDataRole.WhatsThisRole
_DECORATION: Final = Qt.ItemDataRole.DecorationRole
_SPOKEN: Final = Qt.ItemDataRole.AccessibleTextRole
_OURS: Final = ItemRole.RAW, ItemRole.ROW, ItemRole.BAR
_ANSWERED = frozenset(map(int, (_DISPLAY, _DECORATION, _ALIGNMENT, _SPOKEN, *_MEANINGS, *_OURS)))


@dataclass(frozen=True)
class Column:
    """A column of a table; each function takes a row of the content.

    Attributes:
        name: Stable name, for settings and exported files.
        title: Header.
        text: What the cell shows. Plain text; must come from memory.
        raw: The value behind it, for copy and export.
        keys: Returns the sort keys of all rows, [n]; called on first sort.
        numeric: Whether to align to the right.
        tip: What the column means: the header's tool tip, and what "What's this?" says.
        row_tip: What a row means, where that is more than what the column does.
        type_name: The tensor type whose colour stands before the text; None of a row without one.
        bar: How much of a cell a bar behind the text takes, 0 to 1; None of a cell without one.
        stretches: Whether it takes the width that the others leave; else the first of words does.
    """

    name: str
    title: str
    text: Callable[[int], str]
    raw: Callable[[int], Cell]
    keys: Callable[[], NDArray[Any]]
    numeric: bool = False
    tip: str = ""
    row_tip: Callable[[int], str] | None = None
    type_name: Callable[[int], str | None] | None = None
    bar: Callable[[int], float | None] | None = None
    stretches: bool = False


def bound(table: Table[Row], rows: Sequence[Row]) -> list[Column]:
    """Return the columns of a table as the model takes them, over its rows."""
    return [_bound(table, column, rows) for column in table.flat_columns]


def _bound(table: Table[Row], column: TableColumn[Row], rows: Sequence[Row]) -> Column:
    kind, bar, row_tip = column.kind, column.bar, column.row_tip

    def raw(row: int) -> Cell:
        value = column.flat(rows[row])
        return plain_text(value) if isinstance(value, str) else value

    def text(row: int) -> str:
        # what is not known stays empty where the reason is said across the row
        empty = column.is_blank(rows[row]) and bool(table.why_blank(rows[row]))
        return "" if empty else column.cell(rows[row])

    def type_name(row: int) -> str | None:
        return column.value(rows[row]) or None

    return Column(
        column.name,
        column.head,
        (lambda row: column.cell(rows[row])) if table.problem is None else text,
        raw,
        column.keys or (lambda: kind.keys([column.value(row) for row in rows])),
        kind.numeric,
        column.tip,
        None if row_tip is None else lambda row: row_tip(rows[row]),
        type_name if kind.is_type else None,
        None if bar is None else lambda row: bar(rows[row]),
        column.stretches,
    )


class TableModel(QAbstractTableModel):
    """A table over columns.

    Attributes:
        columns: The columns.
        rows: Content row of every row shown, in the order shown.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.columns: tuple[Column, ...] = ()
        self.why_blank: Callable[[int], str] | None = None
        self.rows: NDArray[np.intp] = np.arange(0)
        self._order: NDArray[np.intp] = np.arange(0)
        self._mask: NDArray[np.bool_] | None = None
        self._sorted_by: tuple[int, Qt.SortOrder] | None = None

    def set_content(
        self,
        columns: Sequence[Column],
        row_count: int,
        why_blank: Callable[[int], str] | None = None,
    ) -> None:
        """Show other content, in its own order, unfiltered.

        Args:
            columns: What is shown of each row.
            row_count: How many rows there are.
            why_blank: Why a row has no figures; "" for one that has. The view says it across the
                row, and such rows are the last ones in every order.
        """
        self.beginResetModel()
        self.columns, self.why_blank = tuple(columns), why_blank
        self._order = self._blank_last(np.arange(row_count))
        self._mask = None
        self._sorted_by = None
        self.rows = self._order
        self.endResetModel()

    def set_filter(self, mask: NDArray[np.bool_] | None) -> None:
        """Show only the content rows where `mask` [n] is true; None shows all."""
        self.beginResetModel()
        self._mask = mask
        self.rows = self._visible()
        self.endResetModel()

    def renew(self, columns: Sequence[Column]) -> None:
        """Show other cells, in as many columns over the same rows."""
        self.columns = tuple(columns)
        if self._sorted_by is not None:
            by, self._sorted_by = self._sorted_by, None
            self.sort(*by)
        if self.columns:
            last = len(self.columns) - 1
            self.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, last)
            if len(self.rows):
                self.dataChanged.emit(self.index(0, 0), self.index(len(self.rows) - 1, last))

    @property
    def content_count(self) -> int:
        """Rows of the content, shown or not."""
        return len(self._order)

    def content_row(self, index: Index) -> int:
        """Return the content row of an index."""
        return int(self.rows[index.row()])

    def is_blank(self, index: Index) -> bool:
        """Return whether a row has no figures."""
        return self.why_blank is not None and bool(self.why_blank(self.content_row(index)))

    def index_of(self, content_row: int, column: int = 0) -> QModelIndex:
        """Return the index that shows a content row; invalid if it is filtered out."""
        places = np.flatnonzero(self.rows == content_row)
        return self.index(int(places[0]), column) if len(places) else QModelIndex()

    def cells(self, view_rows: Sequence[int], columns: Sequence[int]) -> list[list[Cell]]:
        """Return the raw values of cells, a list for each row."""
        chosen = [self.columns[column].raw for column in columns]
        return [[raw(int(self.rows[row])) for raw in chosen] for row in view_rows]

    def _blank_last(self, order: NDArray[np.intp]) -> NDArray[np.intp]:
        if self.why_blank is None:
            return order
        blank = np.array([bool(self.why_blank(int(row))) for row in order], np.bool_)
        return np.concatenate([order[~blank], order[blank]])

    def _visible(self) -> NDArray[np.intp]:
        return self._order if self._mask is None else self._order[self._mask[self._order]]

    # Qt

    def rowCount(self, parent: Index = QModelIndex()) -> int:
        return 0 if parent.isValid() else len(self.rows)

    def columnCount(self, parent: Index = QModelIndex()) -> int:
        return 0 if parent.isValid() else len(self.columns)

    def data(self, index: Index, role: int = _DISPLAY) -> Any:
        # a view asks each cell that it paints for seven roles
        if role not in _ANSWERED or not index.isValid():
            return None
        column = self.columns[index.column()]
        row = int(self.rows[index.row()])
        if role == _DISPLAY:
            return column.text(row)
        if role == _DECORATION:
            return _swatch(column, row)
        if role == _ALIGNMENT:
            return RIGHT if column.numeric else LEFT
        if role in (ItemRole.RAW, ItemRole.ROW):
            return row if role == ItemRole.ROW else column.raw(row)
        why = "" if self.why_blank is None else self.why_blank(row)
        return _meaning(column, row, role, why)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = _DISPLAY) -> Any:
        if orientation != Qt.Orientation.Horizontal or not 0 <= section < len(self.columns):
            return None
        column = self.columns[section]
        if role == _DISPLAY:
            return column.title
        if role in _MEANINGS:
            return column.tip or None
        if role == _ALIGNMENT:
            return RIGHT if column.numeric else LEFT
        return None

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        if column >= len(self.columns) or (column, order) == self._sorted_by:
            return
        self.layoutAboutToBeChanged.emit()
        before = self.persistentIndexList()
        content_rows = [self.content_row(index) for index in before]
        if column < 0:
            self._order = self._blank_last(np.arange(len(self._order)))
        else:
            keys = self.columns[column].keys()
            ascending = np.argsort(keys, kind="stable")
            wanted = ascending if order == Qt.SortOrder.AscendingOrder else ascending[::-1]
            if keys.dtype.kind == "f":  # what is not known stands last in either order
                unknown = np.isnan(keys[wanted])
                wanted = np.concatenate([wanted[~unknown], wanted[unknown]])
            self._order = self._blank_last(wanted)
        self._sorted_by = (column, order)
        self.rows = self._visible()
        place = np.empty(len(self._order), dtype=np.intp)
        place[self.rows] = np.arange(len(self.rows))
        self.changePersistentIndexList(
            before,
            [
                self.index(int(place[row]), index.column())
                for row, index in zip(content_rows, before, strict=True)
            ],
        )
        self.layoutChanged.emit()


def _swatch(column: Column, row: int) -> QIcon | None:
    name = None if column.type_name is None else column.type_name(row)
    return None if name is None else swatch_icon(name)


def _meaning(column: Column, row: int, role: int, why: str) -> str | float | None:
    """Return what a cell means; or its bar, which is asked for as rarely.

    Args:
        column: Its column.
        row: Its content row.
        role: The role that is asked for.
        why: Why the row has no figures; "" if it has.
    """
    if role == ItemRole.BAR:
        return None if column.bar is None else column.bar(row)
    if role == _SPOKEN:  # of a row without figures what the view says across it
        return ", ".join(filter(None, (column.text(row), why))) if why else None
    if why and role == Qt.ItemDataRole.ToolTipRole:
        return plain_tip(why)
    if column.row_tip is not None:
        return column.row_tip(row) or None
    # a tool tip over each cell would hide its neighbours
    return column.tip or None if role == Qt.ItemDataRole.WhatsThisRole else None
