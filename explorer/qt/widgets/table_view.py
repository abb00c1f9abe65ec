"""The table that every list of the program uses: sorting, copying, exporting, choosing columns."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PySide6 import QtCore, QtWidgets
from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFontMetrics,
    QGuiApplication,
    QHelpEvent,
    QKeyEvent,
    QKeySequence,
    QPainter,
    QPaintEvent,
    QPalette,
)

from explorer.parallel import Check, never
from explorer.present.tables.table import Table
from explorer.qt.jobs import Job
from explorer.qt.services import Services
from explorer.qt.theme import Space, TextSize, ink_of, style_text
from explorer.qt.widgets import building
from explorer.qt.widgets.building import LINE
from explorer.qt.widgets.columns import ColumnLayout
from explorer.qt.widgets.icons import paint_icon
from explorer.qt.widgets.labels import NoteLabel, empty_label, plain_label
from explorer.qt.widgets.painting import (
    SWATCH_SIZE,
    inks_of,
    outline_current,
    plain_tip,
    stand_on_page,
)
from explorer.qt.widgets.saving import FileSaver, file_name
from explorer.qt.widgets.table_model import Cell, Index, ItemRole, Row, TableModel
from explorer.tabular import to_tsv, write_atomically, write_csv, write_json
from explorer.text import integer_text, locale_free, plain_text, shorten

_BAR_PIXELS: Final = 3
_BAR_EDGE: Final = 4
_BLANK: Final = "\N{NO-BREAK SPACE}"
_MOST_PAINTED: Final = 1024  # characters; laying out a name of 65,000 takes Qt 40 ms a cell


_FIGURE: Final = re.compile(r"(.*\d)[ \u00a0]([A-Za-z%×/]{1,5})")  # a number and its unit
_LONGEST_FIGURE: Final = 32
_TEXT_MARGIN: Final = 3  # pixels that Qt leaves beside the text of a cell


class PaddedDelegate(QtWidgets.QStyledItemDelegate):
    """Paints cells with a blank at both ends, so that a number does not touch the text beside it.

    Units of numbers are quieter than the numbers.

    Qt's styles have no setting for it, and a style sheet makes the table slower and look different.
    What is copied, exported or read aloud comes from the model and has no blanks.
    """

    # Qt

    def initStyleOption(self, option: QtWidgets.QStyleOptionViewItem, index: Index) -> None:
        super().initStyleOption(option, index)
        option.state &= ~QtWidgets.QStyle.StateFlag.State_HasFocus  # see `outline_current`
        model = index.model()
        if isinstance(model, TableModel) and model.is_blank(index):
            selected = bool(option.state & QtWidgets.QStyle.StateFlag.State_Selected)
            muted = inks_of(option.palette, selected=selected)[1]
            option.palette.setColor(QPalette.ColorRole.Text, muted)
            option.palette.setColor(QPalette.ColorRole.HighlightedText, muted)

    def paint(
        self, painter: QPainter, option: QtWidgets.QStyleOptionViewItem, index: Index
    ) -> None:
        text = index.data()
        short = isinstance(text, str) and len(text) < _LONGEST_FIGURE
        figure = _FIGURE.fullmatch(text) if short else None
        if figure is None or not self._paint_figure(painter, option, index, *figure.groups()):
            super().paint(painter, option, index)

    def _paint_figure(
        self,
        painter: QPainter,
        option: QtWidgets.QStyleOptionViewItem,
        index: Index,
        number: str,
        unit: str,
    ) -> bool:
        """Paint a number with its unit at the right, if it stands there and has room."""
        shown = QtWidgets.QStyleOptionViewItem(option)
        self.initStyleOption(shown, index)
        wide = shown.fontMetrics.horizontalAdvance(shown.text)
        room = shown.rect.width() - 2 * _TEXT_MARGIN
        right = shown.displayAlignment & Qt.AlignmentFlag.AlignRight
        if not right or wide > room:
            return False
        shown.text = ""
        style = shown.widget.style()
        style.drawControl(QtWidgets.QStyle.ControlElement.CE_ItemViewItem, shown, painter)
        selected = bool(shown.state & QtWidgets.QStyle.StateFlag.State_Selected)
        area = shown.rect.adjusted(_TEXT_MARGIN, 0, -_TEXT_MARGIN, 0)
        flags = int(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        painter.setFont(shown.font)
        inks = inks_of(shown.palette, selected=selected)
        for words, ink in ((f" {unit}{_BLANK}", inks[1]), (number, inks[0])):
            painter.setPen(ink)
            painter.drawText(area, flags, words)
            area.setRight(area.right() - shown.fontMetrics.horizontalAdvance(words))
        return True

    def helpEvent(
        self,
        event: QHelpEvent,
        view: QtWidgets.QAbstractItemView,
        option: QtWidgets.QStyleOptionViewItem,
        index: Index,
    ) -> bool:
        """Say all of a text whose end is cut off, or that the cell says shorter."""
        text, raw = str(index.data() or ""), index.data(ItemRole.RAW)
        whole = raw if isinstance(raw, str) and len(raw) > len(text) else text
        cut = self.sizeHint(option, index).width() > option.rect.width()
        if index.data(Qt.ItemDataRole.ToolTipRole) or not (cut or whole != text):
            return super().helpEvent(event, view, option, index)
        whole = plain_tip(plain_text(shorten(whole, _MOST_PAINTED)))
        QtWidgets.QToolTip.showText(event.globalPos(), whole, view)
        return True

    def displayText(self, value: Any, locale: QtCore.QLocale | QtCore.QLocale.Language) -> str:
        text = value if isinstance(value, str) else super().displayText(value, locale)
        text = shorten(text, _MOST_PAINTED)
        return f"{_BLANK}{text}{_BLANK}"


class BarDelegate(PaddedDelegate):
    """Paints a bar below the text of cells that have one (`ItemRole.BAR`)."""

    # Qt

    def paint(
        self, painter: QPainter, option: QtWidgets.QStyleOptionViewItem, index: Index
    ) -> None:
        super().paint(painter, option, index)
        share = index.data(ItemRole.BAR)
        if share is None:
            return
        ink, area = ink_of(option.palette), QtCore.QRectF(option.rect)
        area.adjust(_BAR_EDGE, area.height() - _BAR_PIXELS - 1, -_BAR_EDGE, -1)
        painter.fillRect(area, QColor(ink.raised))
        area.setWidth(area.width() * min(1.0, max(0.0, share)))
        painter.fillRect(area, QColor(ink.control))


class PaddedHeader(QtWidgets.QHeaderView):
    """The header above such cells."""

    def __init__(self, parent: QtWidgets.QWidget | None = None) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self.setSectionsClickable(True)
        style_text(self, TextSize.CAPTION, strong=True)

    # Qt

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        line = QColor(ink_of(QGuiApplication.palette()).line)  # its own is what a style sheet made
        painter = QPainter(self.viewport())
        painter.fillRect(0, self.height() - 1, self.width(), 1, line)  # behind the last column, too
        painter.end()

    def initStyleOptionForIndex(
        self, option: QtWidgets.QStyleOptionHeader, logicalIndex: int
    ) -> None:
        super().initStyleOptionForIndex(option, logicalIndex)
        option.text = f"{_BLANK}{option.text}{_BLANK}"


_COPIED_AT_ONCE = 20_000  # cells: some 30 ms
_CHECK_EVERY = 4096


def _lines(
    rows: NDArray[np.intp], raws: Sequence[Callable[[int], Cell]], check: Check
) -> Iterator[list[Cell]]:
    """Yield the raw values of content rows; `check` is called now and then, and raises to stop."""
    for done, row in enumerate(rows.tolist()):
        if not done % _CHECK_EVERY:
            check()
        yield [raw(row) for raw in raws]


ROW_PADDING: Final = 10
_SAMPLE_ROWS: Final = 500  # spread over all of them
_MEASURED: Final = 20  # texts of a column, the longest ones
_WIDEST_CHARACTERS = 60
_CELL_ROOM, _TITLE_ROOM = 18, 18  # pixels beside a text


class TableView(QtWidgets.QTableView):
    """A `QTableView` over a `TableModel`.

    Attributes:
        of_model: Whether it shows something of the current model, which names what is exported.

    Signals:
        row_selected: The current row changed, by the user or by `select_row`; its content row.
        row_opened: A row was double-clicked or entered; its content row.
    """

    row_selected = Signal(int)
    row_opened = Signal(int)
    selection_moved = Signal()

    def __init__(
        self, model: TableModel, app: Services, parent: QtWidgets.QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.table = model
        self.app = app
        self.of_model = True
        self._saver = FileSaver(app, self)
        self.setHorizontalHeader(PaddedHeader(self))
        self.setModel(model)
        self.setItemDelegate(PaddedDelegate(self))
        self.setSelectionBehavior(QtWidgets.QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QtWidgets.QAbstractItemView.SelectionMode.ExtendedSelection)
        stand_on_page(self)
        self.setIconSize(SWATCH_SIZE)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setTabKeyNavigation(False)
        self.setHorizontalScrollMode(QtWidgets.QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setTextElideMode(Qt.TextElideMode.ElideRight)
        self.verticalHeader().hide()
        self.verticalHeader().setDefaultSectionSize(self.fontMetrics().height() + ROW_PADDING)
        header = self.horizontalHeader()
        header.setHighlightSections(False)
        # Painting a header asks whether all of its column is selected, cell by cell: seconds for
        # 262,144 rows after Ctrl+A. Nothing shows the answer, so the header gets no selection.
        header.setSelectionModel(QtCore.QItemSelectionModel(model, header))
        header.setSectionsMovable(True)
        header.setSortIndicatorClearable(True)
        header.setSortIndicator(-1, Qt.SortOrder.AscendingOrder)
        self.setSortingEnabled(True)
        self.column_layout = ColumnLayout(
            self, header, self._fitting_widths, self._stretching_columns
        )
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.customContextMenuRequested.connect(self._show_menu)
        self._make_actions()
        self.activated.connect(lambda index: self.row_opened.emit(model.content_row(index)))
        self.selectionModel().selectionChanged.connect(lambda *_: self.selection_moved.emit())

    def _make_actions(self) -> None:
        add = partial(building.add_action, self, children=True)
        copy = QKeySequence.StandardKey.Copy
        self.copy_action = add("&Copy rows", self.copy_rows, copy)
        self.copy_cell_action = add("Copy c&ell", self.copy_cell, "Ctrl+Shift+C")
        self.copy_json_action = add("Copy rows as &JSON", self.copy_json)
        self.export_action = add("E&xport table…", self.ask_export)
        # what the mouse does in the header, which keys do not reach
        self.sort_action = add("&Sort by this column", self.sort_by_current, "Ctrl+Shift+S")
        self.columns_action = add("Col&umns…", self._show_columns_here, "Ctrl+Shift+L")

    def show_rows(
        self,
        described: Table[Row],
        rows: Sequence[Row],
        state: QtCore.QByteArray = QtCore.QByteArray(),  # noqa: B008 - empty, and never changed
        first: Collection[str] = (),
    ) -> None:
        """Show a table of `present.tables`.

        Args:
            described: The table.
            rows: Its rows.
            state: A saved state of the header; may be empty.
            first: Columns that are seen at first, where there is no room for all.
        """
        seen = [one.name for one in described.shown(rows) if not first or one.name in first]
        hidden = [column.name for column in described.flat_columns if column.name not in seen]
        self.setAccessibleName(described.title)
        self.table.set_content(described, rows)
        self.show_columns(state, hidden)

    def show_columns(self, state: QtCore.QByteArray, hidden: Collection[str] = ()) -> None:
        """Restore widths, order and visibility of the columns, or choose them.

        Args:
            state: Saved state of the header; may be empty.
            hidden: Names of columns to hide if nothing was saved.
        """
        header = self.horizontalHeader()
        if self.column_layout.restore(state):
            self.sortByColumn(header.sortIndicatorSection(), header.sortIndicatorOrder())
            return
        header.setSortIndicator(-1, Qt.SortOrder.AscendingOrder)  # new content is unsorted
        for number, column in enumerate(self.table.columns):
            self.setColumnHidden(number, column.name in hidden)
        self.column_layout.fit()

    def columns_state(self) -> QtCore.QByteArray:
        """Return widths, order, sorting and visibility of the columns, for `show_columns`."""
        return self.horizontalHeader().saveState()

    def _stretching_columns(self) -> list[int]:
        """Return who shares the rest: columns that say so, else the first one of words."""
        columns = self.table.columns
        shown = [place for place in self.column_order() if not self.isColumnHidden(place)]
        words = [place for place in shown if not columns[place].kind.numeric]
        return [place for place in shown if columns[place].stretches] or words[:1]

    def fit_columns(self) -> None:
        """Set each column to the width of its header and its first rows; one takes the rest."""
        self.column_layout.fit()

    def _fitting_widths(self) -> Iterator[int]:
        # resizeColumnToContents asks for far more rows than are seen (docs/libraries.md, 3)
        metrics, rows, header = QFontMetrics(self.font()), self.table.rows, self.horizontalHeader()
        step = max(1, len(rows) // _SAMPLE_ROWS)
        sample = rows[::step].tolist()
        swatch = self.iconSize().width() + Space.NEAR
        for column in self.table.columns:
            cells = (self.table.text(column, row)[:_WIDEST_CHARACTERS] for row in sample)
            texts = sorted(cells, key=len)
            texts = [f"{text}  " for text in texts[-_MEASURED:]]
            room = _CELL_ROOM + swatch if column.kind.is_type else _CELL_ROOM
            title = QFontMetrics(header.font()).horizontalAdvance(f"{column.head}  ") + _TITLE_ROOM
            yield max([title, *(metrics.horizontalAdvance(text) + room for text in texts)])

    def widen_numbers(self) -> None:
        """Give columns of numbers what their texts need now, and none less than it has."""
        columns = self.table.columns
        self.column_layout.widen(
            place for place, column in enumerate(columns) if column.kind.numeric
        )

    def select_row(self, content_row: int) -> bool:
        """Make a content row current and show it; return whether it is in the list."""
        # in the column where the cursor is: a selection that comes back must not move it
        index = self.table.index_of(content_row, max(0, self.currentIndex().column()))
        if not index.isValid():
            return False
        # not `setCurrentIndex`: it adds to the selection while Ctrl is held (Ctrl+Right in Raw)
        flags = QtCore.QItemSelectionModel.SelectionFlag
        self.selectionModel().setCurrentIndex(index, flags.ClearAndSelect | flags.Rows)
        self.scrollTo(index, QtWidgets.QAbstractItemView.ScrollHint.PositionAtCenter)
        return True

    def selected_content_rows(self) -> NDArray[np.intp]:
        """Return the selected rows, as content rows, in the order shown."""
        return self.table.rows[self._selected_rows()]

    def _selected_rows(self) -> NDArray[np.intp]:
        selection = self.selectionModel().selection()
        ranges = [selection.at(place) for place in range(selection.count())]
        if not ranges:
            return np.zeros(0, dtype=np.intp)
        runs = [np.arange(part.top(), part.bottom() + 1, dtype=np.intp) for part in ranges]
        return runs[0] if len(runs) == 1 else np.unique(np.concatenate(runs))

    def column_order(self) -> list[int]:
        """Return the columns from left to right, those that are hidden too."""
        header = self.horizontalHeader()
        # while its content is replaced, the model has other columns than the header
        count = min(header.count(), len(self.table.columns))
        order = [header.logicalIndex(place) for place in range(header.count())]
        return [column for column in order if column < count]

    def chosen_columns(self) -> list[int]:
        """Return the columns that are not hidden, from left to right."""
        return [column for column in self.column_order() if not self.isColumnHidden(column)]

    def sort_by_current(self) -> None:
        """Sort by the column of the cursor, the other way round if it is sorted by already."""
        column = max(self.currentIndex().column(), 0)
        header = self.horizontalHeader()
        order = Qt.SortOrder.AscendingOrder
        if header.sortIndicatorSection() == column and header.sortIndicatorOrder() == order:
            order = Qt.SortOrder.DescendingOrder
        self.sortByColumn(column, order)

    def copy_rows(self) -> None:
        """Copy the selected rows as tab-separated text; several below their heads, as in a CSV."""

        def text(names: Sequence[str], lines: Iterable[list[Cell]]) -> str:
            return to_tsv(chain([names] if several else [], lines))

        several = len(self._selected_rows()) > 1
        if self.selectionModel().hasSelection():
            self._copy(text)

    def copy_cell(self) -> None:
        """Copy the current cell as it is shown, a number as every country writes it."""
        index = self.currentIndex()
        if index.isValid():
            with locale_free():
                QGuiApplication.clipboard().setText(str(index.data()))

    def copy_json(self) -> None:
        """Copy the selected rows as a JSON list of objects."""

        def text(names: Sequence[str], lines: Iterable[list[Cell]]) -> str:
            stream = io.StringIO()
            write_json(stream, names, lines)
            return stream.getvalue()

        self._copy(text)

    def _copy(self, text_of: Callable[[Sequence[str], Iterable[list[Cell]]], str]) -> None:
        """Copy the selected rows; many of them are written in the background."""
        rows, columns = self.table.rows[self._selected_rows()], self.chosen_columns()
        names = [self.table.columns[column].name for column in columns]
        raws = self.table.raws(columns)
        clipboard = QGuiApplication.clipboard()
        if len(rows) * len(raws) <= _COPIED_AT_ONCE:
            clipboard.setText(text_of(names, _lines(rows, raws, never)))
            return
        title = f"Copying {integer_text(len(rows))} rows"

        def write(job: Job) -> str:
            return text_of(names, _lines(rows, raws, job.check))

        self.app.runner.run(title, write, clipboard.setText, self.app.report)

    def ask_export(self) -> None:
        """Ask for a file and write what is shown into it."""
        kinds = {"CSV": ".csv", "JSON": ".json"}
        document = self.app.selection.document
        model = f"{document.title} " if document is not None and self.of_model else ""
        name = file_name(f"{model}{self.accessibleName()}", "table")
        path = self._saver.ask_path("Export table", name, kinds)
        if path is not None:
            self.export(path)

    def export(self, path: Path) -> Job:
        """Write the rows shown with all columns, in the background: JSON by the name, else CSV."""
        columns = self.column_order()
        names = [self.table.columns[column].name for column in columns]
        raws = self.table.raws(columns)
        rows = self.table.rows.copy()

        def write(job: Job) -> None:
            done = count(step=_CHECK_EVERY)

            def check() -> None:
                job.check()
                job.report(next(done), len(rows))

            with write_atomically(path) as stream:
                writer = write_json if path.suffix.lower() == ".json" else write_csv
                writer(stream, names, _lines(rows, raws, check))

        title = f"Exporting {path.name}"
        return self._saver.write(title, path, write)

    def _show_menu(self, place: QtCore.QPoint) -> None:
        copying = [self.copy_action, self.copy_cell_action, self.copy_json_action]
        columns = [self.sort_action, self.columns_action]
        building.show_menu(
            self, self.viewport().mapToGlobal(place), [*copying, self.export_action], columns
        )

    def _show_columns_here(self) -> None:
        header = self.horizontalHeader()
        left = header.sectionViewportPosition(max(self.currentIndex().column(), 0))
        self.column_layout.show_menu(QtCore.QPoint(left, header.height()))

    # Qt

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        painter, line = QPainter(self.viewport()), QColor(ink_of(self.palette()).line)
        outline_current(self, painter, self.visualRect(self.currentIndex()))
        first, area = self.rowAt(event.rect().top()), event.rect()
        last = self.rowAt(area.bottom())
        for place in range(max(first, 0), (last if last >= 0 else self.model().rowCount() - 1) + 1):
            edge = self.rowViewportPosition(place) + self.rowHeight(place) - 1
            _paint_rest(self, painter, place)
            painter.fillRect(area.left(), edge, area.width(), 1, line)
            if self.table.why_blank is not None:
                _paint_why(self, painter, place)
        painter.end()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        super().keyPressEvent(event)
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            event.accept()  # the row was opened; else the default button of a dialog acts too

    def currentChanged(self, current: QtCore.QModelIndex, previous: QtCore.QModelIndex) -> None:  # type: ignore[override] # the stub wants the persistent kind too
        super().currentChanged(current, previous)
        if current.isValid():
            self.row_selected.emit(self.table.content_row(current))


def _paint_rest(view: TableView, painter: QPainter, place: int) -> None:
    """Continue the ground of a selected row behind the last column."""
    model, header = view.selectionModel(), view.horizontalHeader()
    length, width = header.length() - header.offset(), view.viewport().width()
    if length >= width or not model.isSelected(view.table.index(place, 0)):
        return
    active = view.hasFocus() or view.isActiveWindow()
    group = QPalette.ColorGroup.Active if active else QPalette.ColorGroup.Inactive
    area = (length, view.rowViewportPosition(place), width - length, view.rowHeight(place))
    painter.fillRect(*area, view.palette().color(group, QPalette.ColorRole.Highlight))


def _paint_why(view: TableView, painter: QPainter, place: int) -> None:
    """Say across a row why it has no figures."""
    why = view.table.why_blank
    text = "" if why is None else why(int(view.table.rows[place]))
    shown = [each for each in view.column_order() if not view.isColumnHidden(each)]
    if not text or not shown:
        return
    index = view.table.index(place, shown[0])
    first, area = view.visualRect(index), view.viewport().rect()
    area.setTop(first.top())
    area.setHeight(first.height())
    area.setLeft(first.right() + Space.NEAR)
    selected = view.selectionModel().isSelected(index)
    painter.setPen(inks_of(view.palette(), selected=selected)[1])
    text = view.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, area.width())
    flags = int(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
    painter.drawText(area, flags, text)


class RoomyDelegate(QtWidgets.QStyledItemDelegate):
    """Gives the rows of trees and lists the height that the tables' rows have."""

    # Qt

    def sizeHint(self, option: QtWidgets.QStyleOptionViewItem, index: Index) -> QtCore.QSize:
        hint = super().sizeHint(option, index)
        # not the style's own margins: they differ between trees and lists
        return QtCore.QSize(
            hint.width(), max(hint.height(), option.fontMetrics.height() + ROW_PADDING)
        )


_LONGEST_NOTE: Final = 600


class FilterBar(QtWidgets.QWidget):
    """The line above a list: filter as you type, and how much of the list is shown.

    Signals:
        changed: The text changed.
        left_down: The user wants to go on in the list (Down or Enter).
    """

    changed = Signal(str)
    left_down = Signal()

    def __init__(self, hint: str, tip: str = "", parent: QtWidgets.QWidget | None = None) -> None:
        super().__init__(parent)
        self.edit = _FilterEdit(self)
        self.edit.setAccessibleName("Filter")
        self.show_hint(hint, tip)
        self.edit.setClearButtonEnabled(True)
        self.edit.textChanged.connect(self.changed)
        self.edit.left_down.connect(self.left_down)
        self.status = plain_label(self)
        self.note = NoteLabel("What of the filter cannot be used", self)
        line = building.row((self.edit, 1), self.status)
        building.column(line, self.note, of=self, margins=LINE, spacing=Space.TIGHT)

    def show_hint(self, hint: str, tip: str = "") -> None:
        """Say what can be typed: examples in the empty line, and a tool tip."""
        self.edit.setPlaceholderText(hint)
        self.edit.setToolTip(tip)
        self.edit.setAccessibleDescription(hint)

    def say(self, problems: Sequence[str]) -> None:
        """Say what of the text cannot be used: sentences, none for nothing."""
        self.note.say(shorten(" ".join(problems), _LONGEST_NOTE))

    @property
    def text(self) -> str:
        return self.edit.text()

    def focus(self) -> None:
        """Put the cursor into the filter and select its text."""
        self.edit.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.edit.selectAll()


_SIGN: Final = 16  # pixels of the sign that a field is to search in


class SearchEdit(QtWidgets.QLineEdit):
    """A field to search in, with a sign that says so."""

    def __init__(self, parent: QtWidgets.QWidget) -> None:
        super().__init__(parent)
        self.setTextMargins(_SIGN + Space.TIGHT, 0, 0, 0)

    # Qt

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        area, painter = QtCore.QRectF(Space.NEAR, 0, _SIGN, _SIGN), QPainter(self)
        area.moveTop((self.height() - _SIGN) / 2)
        paint_icon(painter, area, "search", ink_of(self.palette()).muted)
        painter.end()


class _FilterEdit(SearchEdit):
    left_down = Signal()

    # Qt

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape and self.text():
            self.clear()
        elif event.key() == Qt.Key.Key_Down:
            self.left_down.emit()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.returnPressed.emit()  # not by Qt, which hands the key on to a dialog's button
            self.left_down.emit()
        else:
            super().keyPressEvent(event)


class ListPanel(QtWidgets.QWidget):
    """A filter above a table, or a sentence where there is nothing to list."""

    def __init__(
        self, app: Services, hint: str, tip: str = "", parent: QtWidgets.QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.app = app
        self.bar = FilterBar(hint, tip, self)
        self.model = TableModel(self)
        self.table = TableView(self.model, app, self)
        self._empty = empty_label(self)
        self._area = QtWidgets.QWidget(self)
        self._stack = QtWidgets.QStackedLayout(self._area)
        self._stack.addWidget(self.table)
        self._stack.addWidget(self._empty)
        building.column(self.bar, (self._area, 1), of=self)
        self.bar.left_down.connect(self._enter_table)

    def show_empty(self, text: str) -> None:
        """Show a sentence instead of the table."""
        self._empty.setText(text)
        self._stack.setCurrentWidget(self._empty)

    def show_table(self) -> None:
        self._stack.setCurrentWidget(self.table)

    def show_matches(self, mask: NDArray[np.bool_] | None, no_match: str) -> None:
        """Show the content rows where `mask` [n] is true, and how many; a sentence if none is."""
        self.model.set_filter(mask)
        self.bar.status.setText(self.counts())
        if self.model.rowCount():
            self.show_table()
        else:
            self.show_empty(no_match)

    def counts(self) -> str:
        """Return how many rows are shown, of how many."""
        shown, total = self.model.rowCount(), self.model.content_count
        return f"{integer_text(shown)} of {integer_text(total)}"

    def focus_search(self) -> None:
        """Put the cursor into the filter."""
        self.bar.focus()

    def _enter_table(self) -> None:
        self.table.setFocus(Qt.FocusReason.OtherFocusReason)
        if self.model.rowCount() and not len(self.table.selected_content_rows()):
            current = max(0, self.table.currentIndex().row())  # Qt makes a row current alone
            self.table.selectRow(current)
