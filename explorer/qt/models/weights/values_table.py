"""The values of a tensor as a table that decodes only what is looked at.

Rows run along the last dimension and are counted through all others. Values are held in tiles that
somebody else reads, in a worker; a cell whose tile is not there shows a mark and asks for it. Qt
keeps some bytes for each row and column of a table, so a very large tensor is shown through a
window that moves.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, Qt, Signal

from explorer.formats.tensors import Folding, Tensor
from explorer.formats.weights import WeightReader
from explorer.qt.models.roles import ItemRole
from explorer.qt.models.table import RIGHT, Index
from explorer.text import float_text

TILE_ROWS: Final = 32
TILE_COLUMNS: Final = 256
MOST_ROWS: Final = 1 << 20
MOST_COLUMNS: Final = 1 << 16
_MOST_TILES: Final = 128
"""Tiles that are kept: 4 MiB, and more than a screen shows."""

Place: TypeAlias = tuple[int, int]
"""Row and column in the folded tensor, or of a tile."""

Tile: TypeAlias = NDArray[np.float32]
"""float32 [rows, columns], up to TILE_ROWS × TILE_COLUMNS."""

_DIGITS = 6
_WAITING = "…"
_UNREADABLE = "?"


def read_tile(reader: WeightReader, tile: Place, check: Callable[[], None]) -> Tile:
    """Return a tile of a tensor; reads only the blocks that it lies in. For a worker.

    Raises:
        SourceError: The file changed since it was opened.
    """
    folding = Folding(reader.tensor.shape)
    first, left = tile[0] * TILE_ROWS, tile[1] * TILE_COLUMNS
    stop = min(first + TILE_ROWS, folding.rows)
    right = min(left + TILE_COLUMNS, folding.columns)
    values = np.empty((stop - first, right - left), np.float32)
    for row in range(first, stop):
        reader.read_into(row * folding.columns + left, values[row - first], check)
    return values


class ValuesTable(QAbstractTableModel):
    """The values of a tensor, or of nothing.

    Attributes:
        folding: How the tensor is laid out as rows and columns.
        first_row: Folded row of the window's first row.
        first_column: Column of the window's first column.

    Signals:
        tile_wanted: A tile that is not here was looked at; a `Place`.
    """

    tile_wanted = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.folding = Folding((0,))
        self.first_row = 0
        self.first_column = 0
        self._tiles: OrderedDict[Place, Tile] = OrderedDict()
        self._failed: set[Place] = set()

    def set_tensor(self, tensor: Tensor | None) -> None:
        """Show another tensor from its start; None shows nothing."""
        self.beginResetModel()
        self.folding = Folding((0,) if tensor is None else tensor.shape)
        self.first_row = self.first_column = 0
        self._tiles.clear()
        self._failed.clear()
        self.endResetModel()

    def index_of(self, place: Place) -> QModelIndex:
        """Return the index of a folded row and column; the window moves there if need be."""
        row, column = place
        first = _window(row, self.folding.rows, MOST_ROWS, self.first_row)
        left = _window(column, self.folding.columns, MOST_COLUMNS, self.first_column)
        if (first, left) != (self.first_row, self.first_column):
            self.beginResetModel()
            self.first_row, self.first_column = first, left
            self.endResetModel()
        return self.index(row - first, column - left)

    def place(self, index: Index) -> Place:
        """Return the folded row and column of an index."""
        return self.first_row + index.row(), self.first_column + index.column()

    def set_tile(self, place: Place, tile: Tile) -> None:
        """Take a tile that was read."""
        self._tiles[place] = tile
        self._tiles.move_to_end(place)
        self._failed.discard(place)
        while len(self._tiles) > _MOST_TILES:
            self._tiles.popitem(last=False)
        self._tell((place,))

    def set_failed(self, places: Iterable[Place]) -> None:
        """Note tiles that cannot be read; they are not asked for again."""
        places = tuple(places)
        self._failed.update(places)
        self._tell(places)

    def retry(self) -> None:
        """Ask again for what could not be read."""
        places = tuple(self._failed)
        self._failed.clear()
        self._tell(places)

    def value(self, index: Index) -> float | None:
        """Return a value, or None if it is not here."""
        row, column = self.place(index)
        key = row // TILE_ROWS, column // TILE_COLUMNS
        tile = self._tiles.get(key)
        if tile is None:
            return None
        return float(tile[row % TILE_ROWS, column % TILE_COLUMNS])

    def has_tile(self, place: Place) -> bool:
        """Whether a tile is here, or known to be unreadable."""
        return place in self._tiles or place in self._failed

    def _text(self, index: Index) -> str:
        value = self.value(index)
        if value is not None:
            return float_text(value, _DIGITS)
        row, column = self.place(index)
        key = row // TILE_ROWS, column // TILE_COLUMNS
        if key in self._failed:
            return _UNREADABLE
        self.tile_wanted.emit(key)
        return _WAITING

    def _tell(self, tiles: Iterable[Place]) -> None:
        """Have the cells of tiles painted again, as far as they are in the window."""
        for row, column in tiles:
            top = max(0, row * TILE_ROWS - self.first_row)
            left = max(0, column * TILE_COLUMNS - self.first_column)
            bottom = min(self.rowCount(), (row + 1) * TILE_ROWS - self.first_row) - 1
            right = min(self.columnCount(), (column + 1) * TILE_COLUMNS - self.first_column) - 1
            if top <= bottom and left <= right:
                self.dataChanged.emit(self.index(top, left), self.index(bottom, right))

    # Qt

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's signature
        return 0 if parent.isValid() else min(MOST_ROWS, self.folding.rows - self.first_row)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's signature
        if parent.isValid():
            return 0
        return min(MOST_COLUMNS, self.folding.columns - self.first_column)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return self._text(index)
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return RIGHT
        return self.value(index) if role == ItemRole.RAW else None

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return RIGHT
        if role != Qt.ItemDataRole.DisplayRole or section < 0:
            return None
        if orientation == Qt.Orientation.Horizontal:
            return str(self.first_column + section)
        return self.folding.row_name(self.first_row + section)


def _window(wanted: int, length: int, most: int, first: int) -> int:
    """Return where a window of at most `most` places begins, so that it holds one of them."""
    if first <= wanted < first + most:
        return first
    return max(0, min(wanted - most // 2, length - most))
