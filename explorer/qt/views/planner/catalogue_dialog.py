"""Choose GPUs of the catalogue by words, or describe one by its free memory."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QByteArray, Qt, Signal
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from explorer.errors import PlanError
from explorer.hardware.catalogue import Catalogue
from explorer.planner import Device
from explorer.planner.devices import parse_gpu
from explorer.qt.jobs import JobRunner
from explorer.qt.models.planner.tables import LiveTable, gpu_columns
from explorer.qt.views.planner.editors import CalmSpinBox
from explorer.qt.views.tables.filter_bar import FilterBar
from explorer.qt.views.tables.table_view import TableView
from explorer.text import integer_text

_MOST_AT_ONCE = 16


class CatalogueDialog(QDialog):
    """A list of GPUs with a search line.

    Signals:
        gpu_chosen: A GPU and how many of it.
    """

    gpu_chosen = Signal(object, int)

    def __init__(
        self, catalogue: Catalogue, runner: JobRunner, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle(self.tr("Add GPUs"))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(760, 480)
        self._gpus = catalogue.gpus
        self._catalogue = catalogue
        hint = self.tr("Search:  rtx 3090   laptop   rocm   — or a size:  24GiB")
        self.search = FilterBar(hint, hint, self)
        self.model = LiveTable(self)
        self.model.set_content(gpu_columns(self._gpus), len(self._gpus))
        self.table = TableView(self.model, runner, self)
        self.table.setAccessibleName(self.tr("GPU catalogue"))
        self.table.setSelectionMode(TableView.SelectionMode.SingleSelection)
        self.table.show_columns(QByteArray())
        self.count = CalmSpinBox(self)
        self.count.setRange(1, _MOST_AT_ONCE)
        self.count.setAccessibleName(self.tr("How many"))
        self.count.lineEdit().setAccessibleName(self.tr("How many"))
        self.add = QPushButton(self.tr("&Add"), self)
        self.add.setDefault(True)
        self._lay_out()
        self.search.changed.connect(self._filter)
        self.search.left_down.connect(self._enter)
        self.table.row_opened.connect(lambda _: self._choose())
        self.add.clicked.connect(self._choose)
        self._filter("")
        self.search.focus()

    def _lay_out(self) -> None:
        close = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, self)
        close.rejected.connect(self.reject)
        line = QHBoxLayout()
        label = QLabel(self.tr("&How many"), self)
        label.setBuddy(self.count)
        line.addWidget(label)
        line.addWidget(self.count)
        line.addWidget(self.add)
        line.addStretch(1)
        line.addWidget(close)
        layout = QVBoxLayout(self)
        layout.addWidget(self.search)
        layout.addWidget(self.table, 1)
        layout.addLayout(line)

    def _filter(self, words: str) -> None:
        found = {gpu.name for gpu in self._catalogue.search(words)}
        mask = np.array([gpu.name in found for gpu in self._gpus], np.bool_)
        self.model.set_filter(mask)
        self.search.status.setText(
            self.tr("{shown} of {all}").format(
                shown=integer_text(self.model.rowCount()), all=integer_text(len(self._gpus))
            )
        )
        if self.model.rowCount():
            self.table.selectRow(0)
        self.add.setEnabled(self.chosen() is not None)

    def chosen(self) -> Device | None:
        """Return the GPU that Add would add: the current row, or the size that was typed."""
        index = self.table.currentIndex()
        if self.model.rowCount() and index.isValid():
            return self._gpus[self.model.content_row(index)].device()
        try:
            return parse_gpu(self.search.text)
        except PlanError:
            return None

    def _enter(self) -> None:
        """Go on from the search line: into the list, or straight to adding what is unmistakable."""
        if self.model.rowCount() > 1:
            self.table.setFocus(Qt.FocusReason.OtherFocusReason)
        else:
            self._choose()

    def _choose(self) -> None:
        device = self.chosen()
        if device is not None:
            self.gpu_chosen.emit(device, self.count.value())
