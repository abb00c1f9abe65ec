"""The table that every list of the program uses: sorting, copying, exporting, choosing columns."""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QByteArray, QEvent, QItemSelectionModel, QModelIndex, QPoint, Qt, Signal
from PySide6.QtGui import QAction, QFontMetrics, QGuiApplication, QKeyEvent, QKeySequence
from PySide6.QtWidgets import QAbstractItemView, QMenu, QTableView, QWidget

from explorer.qt.jobs import Job, JobRunner
from explorer.qt.models.table import Cell, TableModel
from explorer.qt.views.saving import FileSaver
from explorer.qt.views.tables.table_padding import PaddedDelegate, PaddedHeader
from explorer.tabular import to_tsv, write_atomically, write_csv, write_json
from explorer.text import locale_free

_SAMPLE_ROWS = 100
_WIDEST_CHARACTERS = 60


class TableView(QTableView):
    """A `QTableView` over a `TableModel`.

    Signals:
        row_selected: The current row changed, by the user or by `select_row`; its content row.
        row_opened: A row was double-clicked or entered; its content row.
        failed: An export failed.
        exported: A file was written.
    """

    row_selected = Signal(int)
    row_opened = Signal(int)
    selection_moved = Signal()
    failed = Signal(object)
    exported = Signal(str)

    def __init__(self, model: TableModel, runner: JobRunner, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.table = model
        self._saver = FileSaver(runner, self, self.exported.emit, self.failed.emit)
        self.setHorizontalHeader(PaddedHeader(self))
        self.setModel(model)
        self.setItemDelegate(PaddedDelegate(self))
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setAlternatingRowColors(True)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setTabKeyNavigation(False)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setTextElideMode(Qt.TextElideMode.ElideRight)
        self.verticalHeader().hide()
        self._fit_rows()
        header = self.horizontalHeader()
        header.setHighlightSections(False)
        # Painting a header asks whether all of its column is selected, cell by cell: seconds for
        # 262,144 rows after Ctrl+A. Nothing shows the answer, so the header gets no selection.
        header.setSelectionModel(QItemSelectionModel(model, header))
        header.setSectionsMovable(True)
        header.setSortIndicatorClearable(True)
        header.setSortIndicator(-1, Qt.SortOrder.AscendingOrder)
        self.setSortingEnabled(True)
        header.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        header.customContextMenuRequested.connect(self._show_column_menu)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.customContextMenuRequested.connect(self._show_menu)
        self._make_actions()
        self.activated.connect(self._open_row)
        self.selectionModel().selectionChanged.connect(lambda *_: self.selection_moved.emit())

    def _make_actions(self) -> None:
        copy_keys = QKeySequence(QKeySequence.StandardKey.Copy)
        self.copy_action = self._action(self.tr("&Copy rows"), self.copy_rows, copy_keys)
        self.copy_cell_action = self._action(
            self.tr("Copy c&ell"), self.copy_cell, QKeySequence("Ctrl+Shift+C")
        )
        self.copy_json_action = self._action(self.tr("Copy rows as &JSON"), self.copy_json)
        self.export_action = self._action(self.tr("E&xport table…"), self.ask_export)
        # what the mouse does in the header, which keys do not reach
        self.sort_action = self._action(
            self.tr("&Sort by this column"), self.sort_by_current, QKeySequence("Ctrl+Shift+S")
        )
        self.columns_action = self._action(
            self.tr("Col&umns…"), self._show_columns_here, QKeySequence("Ctrl+Shift+L")
        )

    def _action(
        self, text: str, slot: Callable[[], None], keys: QKeySequence | None = None
    ) -> QAction:
        action = QAction(text, self)
        if keys is not None:
            action.setShortcut(keys)
            action.setShortcutContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        action.triggered.connect(slot)
        self.addAction(action)
        return action

    def show_columns(self, state: QByteArray, hidden: Collection[str] = ()) -> None:
        """Restore widths, order and visibility of the columns, or choose them.

        Args:
            state: What the header remembered; may be empty.
            hidden: Names of columns to hide if nothing was remembered.
        """
        header = self.horizontalHeader()
        header.setStretchLastSection(False)
        restored = self._restore(state)
        if not restored:
            # a hidden section that gets a width leaves a gap: show all, then hide
            for number in range(header.count()):
                self.setColumnHidden(number, False)
            self.fit_columns()
            for number, column in enumerate(self.table.columns):
                self.setColumnHidden(number, column.name in hidden)
        # a number at the far edge of a wide window is far from what it belongs to
        visible = self._visible_columns()
        numeric = bool(visible) and self.table.columns[visible[-1]].numeric
        header.setStretchLastSection(bool(visible) and not numeric)
        # new content comes unsorted: sort it as the header says, or let it say nothing
        if not restored:
            header.setSortIndicator(-1, Qt.SortOrder.AscendingOrder)
        else:
            self.sortByColumn(header.sortIndicatorSection(), header.sortIndicatorOrder())

    def _restore(self, state: QByteArray) -> bool:
        """Take what a header remembered; return whether it was that of a table like this one."""
        header = self.horizontalHeader()
        before = header.saveState()
        if state.isEmpty() or not header.restoreState(state):
            return False
        if header.count() == len(self.table.columns):
            return True
        header.restoreState(before)  # a state of more columns gives the header more than there are
        return False

    def fit_columns(self) -> None:
        """Give each column the width of its header and its first rows."""
        for number, width in enumerate(self._fitting_widths()):
            self.setColumnWidth(number, width)

    def _fitting_widths(self) -> Iterator[int]:
        # resizeColumnToContents asks for far more rows than are seen (stack.md section 5)
        metrics = QFontMetrics(self.font())
        rows = self.table.rows[:_SAMPLE_ROWS].tolist()
        for column in self.table.columns:
            texts = [f"{column.title}      "]  # the arrow of sorting takes some
            texts += [f"{column.text(row)[:_WIDEST_CHARACTERS]}  " for row in rows]
            yield max(map(metrics.horizontalAdvance, texts)) + 18

    def _retell(self) -> None:
        """Write numbers in another way, in columns that they fit into."""
        self.table.retell()
        for number, width in enumerate(self._fitting_widths()):
            hidden = self.isColumnHidden(number)  # a hidden column that gets a width leaves a gap
            if self.table.columns[number].numeric and not hidden:
                self.setColumnWidth(number, max(width, self.columnWidth(number)))

    def select_row(self, content_row: int) -> bool:
        """Make a content row current and show it; return whether it is in the list."""
        # in the column where the cursor is: a selection that comes back must not move it
        index = self.table.index_of(content_row, max(0, self.currentIndex().column()))
        if not index.isValid():
            return False
        # not `setCurrentIndex`: it adds to the selection while Ctrl is held (Ctrl+Right in Raw)
        flags = QItemSelectionModel.SelectionFlag
        self.selectionModel().setCurrentIndex(index, flags.ClearAndSelect | flags.Rows)
        self.scrollTo(index, QAbstractItemView.ScrollHint.PositionAtCenter)
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

    def _visible_columns(self) -> list[int]:
        header = self.horizontalHeader()
        order = [header.logicalIndex(place) for place in range(header.count())]
        return [column for column in order if not self.isColumnHidden(column)]

    def sort_by_current(self) -> None:
        """Sort by the column of the cursor, the other way round if it is sorted by already."""
        column = max(self.currentIndex().column(), 0)
        header = self.horizontalHeader()
        order = Qt.SortOrder.AscendingOrder
        if header.sortIndicatorSection() == column and header.sortIndicatorOrder() == order:
            order = Qt.SortOrder.DescendingOrder
        self.sortByColumn(column, order)

    def copy_rows(self) -> None:
        """Copy the selected rows as tab-separated text."""
        rows = self._selected_rows()
        if len(rows):
            cells = self.table.cells(rows.tolist(), self._visible_columns())
            QGuiApplication.clipboard().setText(to_tsv(None, cells))

    def copy_cell(self) -> None:
        """Copy the current cell as it is shown, a number as every country writes it."""
        index = self.currentIndex()
        if index.isValid():
            with locale_free():
                QGuiApplication.clipboard().setText(str(index.data()))

    def copy_json(self) -> None:
        """Copy the selected rows as a JSON list of objects."""
        columns = self._visible_columns()
        text = io.StringIO()
        names = [self.table.columns[column].name for column in columns]
        write_json(text, names, self.table.cells(self._selected_rows().tolist(), columns))
        QGuiApplication.clipboard().setText(text.getvalue())

    def ask_export(self) -> None:
        """Ask for a file and write what is shown into it."""
        kinds = {self.tr("CSV"): ".csv", self.tr("JSON"): ".json"}
        path = self._saver.ask_path(self.tr("Export table"), "table", kinds)
        if path is not None:
            self.export(path)

    def export(self, path: Path) -> Job:
        """Write what is shown, in the background: JSON if the name says so, else CSV."""
        columns = self._visible_columns()
        names = [self.table.columns[column].name for column in columns]
        raws = [self.table.columns[column].raw for column in columns]
        rows = self.table.rows.copy()

        def write(job: Job) -> None:
            def lines() -> Iterator[list[Cell]]:
                for done, row in enumerate(rows.tolist()):
                    if not done % 4096:
                        job.check()
                        job.report(done, len(rows))
                    yield [raw(row) for raw in raws]

            with write_atomically(path) as stream:
                writer = write_json if path.suffix.lower() == ".json" else write_csv
                writer(stream, names, lines())

        title = self.tr("Exporting {name}").format(name=path.name)
        return self._saver.write(title, path, write)

    def _show_menu(self, place: QPoint) -> None:
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.addActions(
            [self.copy_action, self.copy_cell_action, self.copy_json_action, self.export_action]
        )
        menu.addSeparator()
        menu.addActions([self.sort_action, self.columns_action])
        menu.popup(self.viewport().mapToGlobal(place))

    def _show_columns_here(self) -> None:
        header = self.horizontalHeader()
        left = header.sectionViewportPosition(max(self.currentIndex().column(), 0))
        self._show_column_menu(QPoint(left, header.height()))

    def _show_column_menu(self, place: QPoint) -> None:
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        shown = len(self._visible_columns())
        for number, column in enumerate(self.table.columns):
            action = menu.addAction(column.title)
            action.setCheckable(True)
            action.setChecked(not self.isColumnHidden(number))
            action.setEnabled(shown > 1 or self.isColumnHidden(number))
            action.toggled.connect(lambda on, number=number: self.setColumnHidden(number, not on))
        menu.addSeparator()
        menu.addAction(self.tr("Fit widths")).triggered.connect(self.fit_columns)
        menu.popup(self.horizontalHeader().mapToGlobal(place))

    def _open_row(self, index: QModelIndex) -> None:
        self.row_opened.emit(self.table.content_row(index))

    def _fit_rows(self) -> None:
        self.verticalHeader().setDefaultSectionSize(QFontMetrics(self.font()).height() + 7)

    # Qt

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.LocaleChange:
            self._retell()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        super().keyPressEvent(event)
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            event.accept()  # the row was opened; else the default button of a dialog acts too

    def currentChanged(self, current: QModelIndex, previous: QModelIndex) -> None:  # type: ignore[override] # the stub wants the persistent kind too
        super().currentChanged(current, previous)
        if current.isValid():
            self.row_selected.emit(self.table.content_row(current))
