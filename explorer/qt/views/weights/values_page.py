"""The values of a tensor, as a table of any size that reads what is looked at."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QItemSelectionModel, Qt, Signal
from PySide6.QtGui import QAction, QFontMetrics, QGuiApplication, QHideEvent, QKeySequence
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHBoxLayout,
    QHeaderView,
    QTableView,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from explorer.errors import ExplorerError
from explorer.formats.tensors import Folding, Tensor
from explorer.formats.weights import WeightReader
from explorer.present.explanations import picture_text
from explorer.qt.jobs import Job, JobRunner
from explorer.qt.models.weights.figures import Subject
from explorer.qt.models.weights.values_table import Place, ValuesTable
from explorer.qt.theme import monospace_font
from explorer.qt.views.labels import plain_label
from explorer.qt.views.progress.job_slot import JobSlot
from explorer.qt.views.weights.place_field import PlaceField
from explorer.qt.views.weights.tile_reader import TileReader
from explorer.qt.views.weights.values_export import ValuesExport
from explorer.tabular import to_tsv
from explorer.text import float_text, integer_text, plain_text, shape_text

MOST_COPIED = 1 << 18
"""Most values that are copied: a clipboard is no file format."""

_WIDEST = "-0.000000e-00"


class ValuesPage(QWidget):
    """A table of values, and a line to go to a row and column.

    Attributes:
        model: The values.
        grid: The table.
        goto: Where one types a place.
        save_button: Saves all values of the tensor.

    Signals:
        copied: Values were copied; how many.
        exported: A file was written; its path.
        failed: A file could not be written; an `ExplorerError`.
    """

    copied = Signal(int)
    exported = Signal(str)
    failed = Signal(object)

    def __init__(self, runner: JobRunner, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._tensor: Tensor | None = None
        self._runner = runner
        self._copying = JobSlot(runner, self)
        self.export = ValuesExport(runner, self, self.exported.emit, self.failed.emit)
        self.model = ValuesTable(self)
        self.tiles = TileReader(runner, self.model, self)
        self.title = plain_label(self)
        self.title.setWhatsThis(picture_text("values"))
        self.goto = PlaceField(self)
        self.save_button = QToolButton(self)
        self.save_button.setText(self.tr("Save all…"))
        self.save_button.setToolTip(self.tr("Save all values of the tensor as a NumPy file or CSV"))
        self.save_button.clicked.connect(self.ask_export)
        self.grid = QTableView(self)
        self.grid.setLayoutDirection(Qt.LayoutDirection.LeftToRight)  # columns have their order
        self.place = plain_label(self)
        self.place.setAccessibleName(self.tr("Current value"))
        self.place.setWhatsThis(picture_text("values"))
        self._set_up_grid()
        bar = QHBoxLayout()
        bar.setContentsMargins(8, 6, 8, 4)
        bar.addWidget(self.title, 1)
        bar.addWidget(self.goto)
        bar.addWidget(self.save_button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addLayout(bar)
        layout.addWidget(self.grid, 1)
        layout.addWidget(self.place)
        self.place.setContentsMargins(8, 3, 8, 4)
        self.goto.place_typed.connect(self._go)
        self.goto.refused.connect(self._tell)
        self.tiles.failed.connect(self._tell)
        self.model.dataChanged.connect(lambda *_: self._show_place())
        self.grid.selectionModel().currentChanged.connect(lambda *_: self._show_place())

    def show_subject(self, subject: Subject | None, *, named: bool = False) -> None:
        """Show another tensor from its start, with its name if it is one of several."""
        self._tensor = None if subject is None else subject.tensor
        self._copying.cancel()
        self.tiles.set_tensor(self._tensor)
        self.model.set_tensor(self._tensor)
        self.goto.folding = self.model.folding
        prefix = f"{subject.name}:   " if named and subject is not None else ""
        self.title.setText("" if self._tensor is None else prefix + self._title_of(self._tensor))
        self.place.clear()
        metrics = QFontMetrics(self.grid.font())
        widest = self.model.folding.row_name(max(0, self.model.folding.rows - 1))
        # a fixed width: Qt would measure up to 10,000 texts
        self.grid.verticalHeader().setFixedWidth(metrics.horizontalAdvance(widest) + 18)

    def focus_search(self) -> None:
        """Put the cursor into the line for a row and column."""
        self.goto.take_focus()

    def go_to(self, place: Place) -> None:
        """Make a cell current and show it."""
        index = self.model.index_of(place)
        flags = QItemSelectionModel.SelectionFlag
        self.grid.selectionModel().setCurrentIndex(index, flags.ClearAndSelect)
        self.grid.scrollTo(index, QAbstractItemView.ScrollHint.PositionAtCenter)

    def ask_export(self) -> None:
        """Ask for a file and save all values of the tensor into it."""
        if self._tensor is not None:
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
            sentence = self.tr("At most {most} values can be copied; “Save all…” saves them all.")
            self._tell(sentence.format(most=integer_text(MOST_COPIED)))
            return
        columns = self.model.folding.columns

        types = [tensor.type.name]
        self._runner.need_kernels(types)

        def read(job: Job) -> str:
            self._runner.wait_for_kernels(types, job)
            reader = WeightReader(tensor)
            values = np.empty((height, width), np.float32)
            for row in range(height):
                reader.read_into((first + row) * columns + left, values[row], job.check)
            return to_tsv(None, ([float_text(x, 9) for x in row] for row in values.tolist()))

        def take(text: str) -> None:
            QGuiApplication.clipboard().setText(text)
            self._tell(self.tr("Values copied: {n}").format(n=integer_text(height * width)))
            self.copied.emit(height * width)

        self._copying.run(self.tr("Copying values"), read, take, self._fail)

    def cancel(self) -> None:
        """Stop reading; what is in sight is asked for again when it is painted."""
        self.tiles.cancel()
        self._copying.cancel()

    def _set_up_grid(self) -> None:
        grid = self.grid
        grid.setFont(monospace_font())
        metrics = QFontMetrics(grid.font())
        for header, size in (
            (grid.horizontalHeader(), metrics.horizontalAdvance(_WIDEST) + 10),
            (grid.verticalHeader(), metrics.height() + 7),
        ):
            # before there is a model: later it takes seconds for a million rows
            header.setDefaultSectionSize(size)
            header.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
            header.setHighlightSections(False)
        grid.setModel(self.model)
        for header in (grid.horizontalHeader(), grid.verticalHeader()):
            # painting a header asks of every cell behind it whether it is selected
            header.setSelectionModel(QItemSelectionModel(self.model, header))
        grid.setAccessibleName(self.tr("Values"))
        grid.setWhatsThis(picture_text("values"))
        grid.setSelectionMode(QAbstractItemView.SelectionMode.ContiguousSelection)
        grid.setTabKeyNavigation(False)
        grid.setWordWrap(False)
        grid.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerItem)
        self.copy_action = QAction(self.tr("&Copy values"), grid)
        self.copy_action.setShortcut(QKeySequence.StandardKey.Copy)
        self.copy_action.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
        self.copy_action.triggered.connect(self.copy)
        retry = QAction(self.tr("&Read again"), grid)
        retry.triggered.connect(self.model.retry)
        save = QAction(self.tr("&Save all values…"), grid)
        save.triggered.connect(self.ask_export)
        grid.addActions([self.copy_action, save, retry])
        grid.setContextMenuPolicy(Qt.ContextMenuPolicy.ActionsContextMenu)

    def _title_of(self, tensor: Tensor) -> str:
        folding = Folding(tensor.shape)
        size = f"{integer_text(folding.rows)} × {integer_text(folding.columns)}"
        dimensions = len(tensor.shape)
        if dimensions == 2:
            return self.tr("{size} values").format(size=size)
        if dimensions < 2:
            return self.tr("{size} values in one row").format(size=integer_text(folding.columns))
        shape = shape_text(tensor.shape)
        return self.tr(
            "{size} values: of {shape}, all dimensions but the last are folded into rows"
        ).format(size=size, shape=shape)

    def _show_place(self) -> None:
        index = self.grid.currentIndex()
        if not index.isValid():
            return
        row, column = self.model.place(index)
        value = self.model.value(index)
        text = self.tr("Row {row}, column {column}: {value}").format(
            row=self.model.folding.row_name(row),
            column=column,
            value="…" if value is None else float_text(value, 9),
        )
        self._tell(text)

    def _go(self, place: Place) -> None:
        self.go_to(place)
        self.grid.setFocus(Qt.FocusReason.OtherFocusReason)

    def _fail(self, error: ExplorerError) -> None:
        self._tell(str(error))

    def _tell(self, sentence: str) -> None:
        self.place.setText(plain_text(sentence))

    # Qt

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        if not event.spontaneous():
            self.cancel()
