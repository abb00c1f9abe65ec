"""The values of a tensor, as a table of any size that reads what is visible."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PySide6 import QtCore, QtWidgets
from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFontMetrics, QKeySequence

from explorer.errors import ExplorerError
from explorer.formats.export import write_csv, write_npy
from explorer.formats.tensors import Folding, Tensor
from explorer.formats.weights import WeightReader
from explorer.present.explanations import picture_text
from explorer.qt.addresses import agrees_to_tensors
from explorer.qt.jobs import Job, JobSlot
from explorer.qt.services import Services
from explorer.qt.theme import monospace_font
from explorer.qt.weights.curves import SelectedTensor
from explorer.qt.widgets import building
from explorer.qt.widgets.building import LINE, NOTE
from explorer.qt.widgets.controls import button
from explorer.qt.widgets.labels import ElidedLabel, plain_label
from explorer.qt.widgets.pages import Phase, ReadingPage, Request
from explorer.qt.widgets.painting import stand_on_page
from explorer.qt.widgets.saving import FileSaver, file_name
from explorer.qt.widgets.table_model import RIGHT, Index, ItemRole
from explorer.tabular import to_tsv, write_atomically
from explorer.text import digits_text, float_text, integer_text, plain_text, shape_text

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


class ValuesTable(QtCore.QAbstractTableModel):
    """The values of a tensor, or of nothing; only those in sight are decoded.

    Rows run along the last dimension and are counted through all others. Values are held in tiles
    that a worker reads; a cell whose tile is not there shows a mark and asks for it. Qt keeps some
    bytes for each row and column of a table, so a very large tensor is shown through a window that
    moves.

    Attributes:
        folding: How the tensor is laid out as rows and columns.
        first_row: Folded row of the window's first row.
        first_column: Column of the window's first column.

    Signals:
        tile_wanted: A tile that is not here was looked at; a `Place`.
    """

    tile_wanted = Signal(object)

    def __init__(self, parent: QtCore.QObject | None = None) -> None:
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

    def index_of(self, place: Place) -> QtCore.QModelIndex:
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
        self._repaint((place,))

    def set_failed(self, places: Iterable[Place]) -> None:
        """Note tiles that cannot be read; they are not asked for again."""
        places = tuple(places)
        self._failed.update(places)
        self._repaint(places)

    def retry(self) -> dict[Place, None]:
        """Forget which tiles cannot be read, so that they are asked for again; return them."""
        places = dict.fromkeys(self._failed)
        self._failed.clear()
        self._repaint(places)
        return places

    @property
    def has_values(self) -> bool:
        """Whether any tile is here."""
        return bool(self._tiles)

    def value(self, index: Index) -> float | None:
        """Return a value, or None if it is not here."""
        row, column = self.place(index)
        tile = self._tiles.get(_tile_of(row, column))
        return None if tile is None else float(tile[row % TILE_ROWS, column % TILE_COLUMNS])

    def has_tile(self, place: Place) -> bool:
        """Whether a tile is here, or known to be unreadable."""
        return place in self._tiles or place in self._failed

    def _text(self, index: Index) -> str:
        value = self.value(index)
        if value is not None:
            return digits_text(value, _DIGITS)
        tile = _tile_of(*self.place(index))
        if tile in self._failed:
            return _UNREADABLE
        self.tile_wanted.emit(tile)
        return _WAITING

    def _repaint(self, tiles: Iterable[Place]) -> None:
        """Paint the cells of tiles again, as far as they are in the window."""
        for row, column in tiles:
            top = max(0, row * TILE_ROWS - self.first_row)
            left = max(0, column * TILE_COLUMNS - self.first_column)
            bottom = min(self.rowCount(), (row + 1) * TILE_ROWS - self.first_row) - 1
            right = min(self.columnCount(), (column + 1) * TILE_COLUMNS - self.first_column) - 1
            if top <= bottom and left <= right:
                self.dataChanged.emit(self.index(top, left), self.index(bottom, right))

    # Qt

    def rowCount(self, parent: Index = QtCore.QModelIndex()) -> int:
        return 0 if parent.isValid() else min(MOST_ROWS, self.folding.rows - self.first_row)

    def columnCount(self, parent: Index = QtCore.QModelIndex()) -> int:
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


def _tile_of(row: int, column: int) -> Place:
    return row // TILE_ROWS, column // TILE_COLUMNS


def _window(wanted: int, length: int, most: int, first: int) -> int:
    """Return where a window of at most `most` places begins, so that it holds one of them."""
    if first <= wanted < first + most:
        return first
    return max(0, min(wanted - most // 2, length - most))


_NUMBERS = re.compile(r"\d{1,18}")
_WIDTH = 180


class PlaceField(QtWidgets.QLineEdit):
    """A line for a place in a tensor: a row and a column, or an index in all dimensions.

    Attributes:
        folding: How the tensor is laid out as rows and columns.

    Signals:
        place_typed: A place that there is; a `Place`.
        refused: Something else was typed; a sentence.
    """

    place_typed = Signal(object)
    refused = Signal(str)

    def __init__(self, parent: QtWidgets.QWidget | None = None) -> None:
        super().__init__(parent)
        self.folding = Folding((0,))
        self.setAccessibleName("Go to row, column")
        self.setPlaceholderText("Go to row, column")
        self.setMinimumWidth(_WIDTH // 2)
        self.setMaximumWidth(_WIDTH)
        self.returnPressed.connect(self._go)

    def take_focus(self) -> None:
        """Put the cursor here, and select what was typed before."""
        self.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.selectAll()

    def _go(self) -> None:
        numbers = tuple(map(int, _NUMBERS.findall(self.text())))
        place = self.folding.place_of(numbers) if numbers else None
        if place is not None:
            self.place_typed.emit(place)
            return
        rows, columns = map(integer_text, (self.folding.rows, self.folding.columns))
        self.refused.emit(f"Type a row below {rows}, a comma, and a column below {columns}.")


class ValuesExport(FileSaver):
    """Saves weights, and reports how that went; see `FileSaver`."""

    def ask(self, tensor: Tensor) -> None:
        """Ask for a file, and save all weights of a tensor into it."""
        kinds = {"NumPy array": ".npy", "CSV": ".csv"}
        path = self.ask_path("Save all values", file_name(tensor.name, "values"), kinds)
        if path is not None:
            self.save(tensor, path)

    def save(self, tensor: Tensor, path: Path) -> Job:
        """Save all weights of a tensor, float32: CSV if the name says so, else a NumPy array.

        The file appears when it is complete.
        """

        def work(job: Job) -> None:
            def report(done: int) -> None:
                job.report(done, tensor.parameters)

            with write_atomically(path) as stream:
                if path.suffix.lower() == ".csv":
                    write_csv(tensor, stream, job.check, report)
                else:
                    write_npy(tensor, stream.buffer, job.check, report)

        return self.write(f"Saving {path.name}", path, work)


MOST_COPIED = 1 << 18
"""Most values that are copied: a clipboard is not a file format."""

_MOST_AT_ONCE: Final = 64  # tiles of a burst, the last ones: a fast scroll passes thousands
_WIDEST = "-0.000000e-00"


Tiles: TypeAlias = dict[Place, Tile]


class ValuesPage(ReadingPage[Tiles]):
    """A table of values, and a line to go to a row and column; reads the tiles that are painted."""

    def __init__(self, app: Services, parent: QtWidgets.QWidget | None = None) -> None:
        self.grid = QtWidgets.QTableView()
        super().__init__(parent, self.grid)
        self._tensor: Tensor | None = None
        self._wanted: dict[Place, None] = {}  # tiles, in the order in which they were painted
        self._read_now: list[Place] = []
        self._copying = JobSlot(app.runner, self)
        self.export = ValuesExport(app, self)
        self.model = ValuesTable(self)
        # all tiles of one paint together
        self._painted = QtCore.QTimer(self, singleShot=True, interval=0)
        self.title = plain_label(self)
        self.goto = PlaceField(self)
        tip = "Save all values of the tensor as a NumPy file or CSV"
        self.save_button = button(self, "Save all…", tip, self.ask_export)
        self.place = ElidedLabel(self)
        self.place.setAccessibleName("Current value")
        self._set_up_grid()
        bar = building.row((self.title, 1), self.goto, self.save_button, margins=LINE)
        self.frame.insertLayout(0, bar)
        building.tab_through(self.goto, self.save_button, self.content)
        self.frame.addWidget(self.place)
        self.place.setContentsMargins(*NOTE)
        self.goto.place_typed.connect(self._go)
        self.goto.refused.connect(self._say)
        self.model.tile_wanted.connect(self._want)
        self._painted.timeout.connect(self.load)
        self.hidden.connect(self.cancel)
        self.model.dataChanged.connect(lambda *_: self._show_place())
        self.grid.selectionModel().currentChanged.connect(lambda *_: self._show_place())
        self.begin_life(app, (self,))
        self.show_content()

    def show_subject(self, subject: SelectedTensor | None, *, named: bool = False) -> None:
        """Show another tensor from its start, with its name if it is one of several."""
        self._tensor = None if subject is None else subject.tensor
        self._copying.cancel()
        self.restart()
        self.model.set_tensor(self._tensor)
        self.goto.folding = self.model.folding
        prefix = f"{subject.name}:   " if named and subject is not None else ""
        self.title.setText("" if self._tensor is None else prefix + self._title_of(self._tensor))
        self.place.setText("")
        metrics = QFontMetrics(self.grid.font())
        widest = self.model.folding.row_name(max(0, self.model.folding.rows - 1))
        # a fixed width: Qt would measure up to 10,000 texts
        self.grid.verticalHeader().setFixedWidth(metrics.horizontalAdvance(widest) + 18)

    def focus_search(self) -> None:
        """Put the cursor into the line for a row and column."""
        self.goto.take_focus()

    def go_to(self, place: Place) -> None:
        index = self.model.index_of(place)
        flags = QtCore.QItemSelectionModel.SelectionFlag
        self.grid.selectionModel().setCurrentIndex(index, flags.ClearAndSelect)
        self.grid.scrollTo(index, QtWidgets.QAbstractItemView.ScrollHint.PositionAtCenter)

    def ask_export(self) -> None:
        """Ask for a file and save all values of the tensor into it."""
        if self._tensor is not None and agrees_to_tensors([self._tensor], self):
            self.export.ask(self._tensor)

    def copy(self) -> None:
        """Copy the selected values as tab-separated text; those not here are read first."""
        tensor = self._tensor
        selection = self.grid.selectionModel().selection()
        if tensor is None or selection.isEmpty():
            return
        area = selection.at(0)
        first, left = self.model.place(area.topLeft())
        height, width = area.height(), area.width()
        if height * width > MOST_COPIED:
            self._say(
                f"At most {integer_text(MOST_COPIED)} values can be copied; “Save all…” saves "
                "them all."
            )
            return
        columns = self.model.folding.columns

        def read(job: Job) -> str:
            reader = WeightReader(tensor)
            values = np.empty((height, width), np.float32)
            for row in range(height):
                reader.read_into((first + row) * columns + left, values[row], job.check)
            return to_tsv([float_text(x, 9) for x in row] for row in values.tolist())

        def take(text: str) -> None:
            building.copy_text(text)
            self._say(f"Values copied: {integer_text(height * width)}")

        self._copying.run("Copying values", read, take, lambda error: self._say(str(error)))

    def cancel(self) -> None:
        self._painted.stop()
        self._copying.cancel()
        super().cancel()

    # Reading of tiles

    def clear(self) -> None:
        self._painted.stop()
        self._wanted.clear()
        self.show_content()

    def refill(self) -> None:
        self.show_content()

    def request(self) -> Request[Tiles] | None:
        tensor = self._tensor
        if tensor is None or self.busy:  # what is painted meanwhile is read next
            return None
        places = [place for place in self._wanted if not self.model.has_tile(place)]
        self._wanted.clear()
        if not places:
            self.show_content()
            return None
        self._read_now = places = places[-_MOST_AT_ONCE:]

        def read(job: Job) -> Tiles:
            reader = WeightReader(tensor)
            return {place: read_tile(reader, place, job.check) for place in places}

        return Request(
            key=object(),
            title="Reading values",
            heading="Reading values…",
            failure="The values could not be read",
            work=read,
        )

    def show_result(self, result: Tiles) -> None:
        for place, tile in result.items():
            self.model.set_tile(place, tile)
        self.show_content()
        self.load()

    def show_cancelled(self) -> None:
        self._painted.stop()
        self._wanted |= dict.fromkeys(self._read_now)
        self.show_message("", "")  # instead of cells that nothing fills
        super().show_cancelled()

    def show_failed(self, heading: str, error: ExplorerError) -> None:
        self.model.set_failed(self._read_now)
        self._say(f"{heading}: {error}")
        if self.model.has_values:
            self.load()
        else:
            super().show_failed(heading, error)

    def read_again(self) -> None:
        self._wanted |= self.model.retry()
        self.load()

    def _want(self, place: Place) -> None:
        self._wanted.pop(place, None)
        self._wanted[place] = None
        if not self.busy and not self._slot.stopped and self.phase is not Phase.CANCELLED:
            self._painted.start()

    def _set_up_grid(self) -> None:
        grid = self.grid
        grid.setFont(monospace_font())
        stand_on_page(grid)
        metrics = QFontMetrics(grid.font())
        for header, size in (
            (grid.horizontalHeader(), metrics.horizontalAdvance(_WIDEST) + 10),
            (grid.verticalHeader(), metrics.height() + 7),
        ):
            # before there is a model: later it takes seconds for a million rows
            header.setDefaultSectionSize(size)
            header.setSectionResizeMode(QtWidgets.QHeaderView.ResizeMode.Fixed)
            header.setHighlightSections(False)
        grid.setModel(self.model)
        for header in (grid.horizontalHeader(), grid.verticalHeader()):
            # painting a header asks of every cell behind it whether it is selected
            header.setSelectionModel(QtCore.QItemSelectionModel(self.model, header))
        grid.setAccessibleName("Values")
        grid.setCornerButtonEnabled(False)  # nobody sees it; Ctrl+A selects all
        grid.setWhatsThis(picture_text("values"))
        grid.setSelectionMode(QtWidgets.QAbstractItemView.SelectionMode.ContiguousSelection)
        grid.setTabKeyNavigation(False)
        grid.setWordWrap(False)
        grid.setHorizontalScrollMode(QtWidgets.QAbstractItemView.ScrollMode.ScrollPerItem)
        copy = QKeySequence.StandardKey.Copy
        self.copy_action = building.add_action(grid, "&Copy values", self.copy, copy)
        building.add_action(grid, "&Save all values…", self.ask_export)
        building.add_action(grid, "&Reload", self.read_again)
        grid.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        grid.customContextMenuRequested.connect(
            lambda place: building.show_menu(
                grid, grid.viewport().mapToGlobal(place), grid.actions()
            )
        )

    def _title_of(self, tensor: Tensor) -> str:
        rows, columns = map(integer_text, (self.model.folding.rows, self.model.folding.columns))
        dimensions = len(tensor.shape)
        if dimensions < 2:
            return f"{columns} values in one row"
        text = f"{rows} × {columns} values"
        if dimensions > 2:
            shape = shape_text(tensor.shape)
            text += f": of {shape}, all dimensions but the last are folded into rows"
        return text

    def _show_place(self) -> None:
        index = self.grid.currentIndex()
        if index.isValid():
            row, column = self.model.place(index)
            name, value = self.model.folding.row_name(row), self.model.value(index)
            shown = "…" if value is None else float_text(value, 9)
            self._say(f"Row {name}, column {column}: {shown}")

    def _go(self, place: Place) -> None:
        self.go_to(place)
        self.grid.setFocus(Qt.FocusReason.OtherFocusReason)

    def _say(self, sentence: str) -> None:
        self.place.setText(plain_text(sentence))
