"""A long flat table: sorting and filtering happen on arrays, not row by row through Qt.

A `QSortFilterProxyModel` over a Python model takes 28 s to sort 152,000 rows, because every
comparison crosses into Python (docs/libraries.md, 3). Here a row of the view is an entry of an
index array: sorting is one `argsort`, filtering one mask. Content is set as a whole, from columns
made in a worker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from explorer.present.tables.table import Column, Table
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
    """How the cell is drawn where it is more than a text: `cells.CellParts`."""
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


def _raw(items: Sequence[Any], column: Column[Any], row: int) -> Cell:
    value = column.flat(items[row])
    return plain_text(value) if isinstance(value, str) else value


class TableModel(QAbstractTableModel):
    """A table of `present.tables` over its rows, the items.

    Attributes:
        table: The table.
        columns: Its columns, but those that only JSON can hold.
        items: Its rows; the number of one is its content row.
        rows: Content row of every row shown, in the order shown.
        why_blank: Returns why a content row has no figures, "" for one that has; None if all have.
            The view says it across the row, and such rows are the last ones in every order.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.table: Table[Any] = Table()
        self.columns: list[Column[Any]] = []
        self.items: Sequence[Any] = ()
        self.rows: NDArray[np.intp] = np.arange(0)
        self._kind: object = None
        self._order: NDArray[np.intp] = np.arange(0)
        self._mask: NDArray[np.bool_] | None = None
        self._sorted_by: tuple[int, Qt.SortOrder] | None = None

    def set_content(self, table: Table[Row], items: Sequence[Row]) -> None:
        """Show other content, in its own order, unfiltered."""
        self.beginResetModel()
        self.table, self.columns, self.items = table, table.flat_columns, items
        self._order = self._blank_last(np.arange(len(items)))
        self._mask = None
        self._sorted_by = None
        self.rows = self._order
        self.endResetModel()

    def clear(self) -> None:
        self.set_content(Table[Any](), ())

    def update(self, table: Table[Row], items: Sequence[Row], kind: object = None) -> bool:
        """Show other content; like columns over as many items of one kind keep what is selected.

        Returns:
            Whether the model was reset, so that its columns need widths.
        """
        heads = [[(column.name, column.title) for column in one] for one in (self.table, table)]
        if heads[0] == heads[1] and len(items) == len(self.items) and kind == self._kind:
            self.renew(table, items)
            return False
        self._kind = kind
        self.set_content(table, items)
        return True

    def set_filter(self, mask: NDArray[np.bool_] | None) -> None:
        """Show only the content rows where `mask` [n] is true; None shows all."""
        self.beginResetModel()
        self._mask = mask
        self.rows = self._visible()
        self.endResetModel()

    def renew(self, table: Table[Row], items: Sequence[Row]) -> None:
        """Show other cells, in as many columns over as many items."""
        self.table, self.columns, self.items = table, table.flat_columns, items
        if self._sorted_by is not None:
            by, self._sorted_by = self._sorted_by, None
            self.sort(*by)
        if self.columns:
            last = len(self.columns) - 1
            self.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, last)
            if len(self.rows):
                self.dataChanged.emit(self.index(0, 0), self.index(len(self.rows) - 1, last))

    @property
    def why_blank(self) -> Callable[[int], str] | None:
        return None if self.table.problem is None else self._why_blank

    def _why_blank(self, row: int) -> str:
        return self.table.why_blank(self.items[row])

    def text(self, column: Column[Any], row: int) -> str:
        """Return the text of a column in a content row; "" where it is said across the row."""
        item = self.items[row]
        if self.table.problem is not None and column.is_blank(item) and self.table.why_blank(item):
            return ""
        return column.cell(item)

    def raw(self, column: Column[Any], row: int) -> Cell:
        """Return the value of a column in a content row, safe to show."""
        return _raw(self.items, column, row)

    def raws(self, columns: Iterable[int]) -> list[Callable[[int], Cell]]:
        """Return what gives the values of columns by content row, also in a worker, later."""
        return [partial(_raw, self.items, self.columns[column]) for column in columns]

    @property
    def content_count(self) -> int:
        """Rows of the content, shown or not."""
        return len(self.items)

    def content_row(self, index: Index) -> int:
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
        chosen = self.raws(columns)
        return [[raw(int(self.rows[row])) for raw in chosen] for row in view_rows]

    def _keys(self, column: Column[Any]) -> NDArray[Any]:
        if column.keys is not None:
            return column.keys()
        return column.kind.order([column.value(item) for item in self.items])

    def _meaning(self, column: Column[Any], row: int, role: int) -> str | float | None:
        """Return what a cell means; or its bar, which is asked for as rarely."""
        item = self.items[row]
        if role == ItemRole.BAR:
            return None if column.bar is None else column.bar(item)
        why = self.table.why_blank(item)
        if role == _SPOKEN:  # of a row without figures what the view says across it
            return ", ".join(filter(None, (self.text(column, row), why))) if why else None
        if why and role == Qt.ItemDataRole.ToolTipRole:
            return plain_tip(why)
        if column.row_tip is not None:
            return column.row_tip(item) or None
        # a tool tip over each cell would hide its neighbours
        return column.tip or None if role == Qt.ItemDataRole.WhatsThisRole else None

    def _blank_last(self, order: NDArray[np.intp]) -> NDArray[np.intp]:
        if self.table.problem is None:
            return order
        blank = np.array([bool(self._why_blank(int(row))) for row in order], np.bool_)
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
            return self.text(column, row)
        if role == _DECORATION:
            name = column.value(self.items[row]) if column.kind.is_type else None
            return swatch_icon(name) if name else None
        if role == _ALIGNMENT:
            return RIGHT if column.kind.numeric else LEFT
        if role in (ItemRole.RAW, ItemRole.ROW):
            return row if role == ItemRole.ROW else self.raw(column, row)
        return self._meaning(column, row, role)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = _DISPLAY) -> Any:
        if orientation != Qt.Orientation.Horizontal or not 0 <= section < len(self.columns):
            return None
        column = self.columns[section]
        if role == _DISPLAY:
            return column.head
        if role in _MEANINGS:
            return column.tip or None
        if role == _ALIGNMENT:
            return RIGHT if column.kind.numeric else LEFT
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
            keys = self._keys(self.columns[column])
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
