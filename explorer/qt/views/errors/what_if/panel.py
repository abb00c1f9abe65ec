"""Chart and table of what-ifs: two views of the same lines, with one mark."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QByteArray, QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QWidget

from explorer.analysis.what_if import PRESENT
from explorer.qt.jobs import JobRunner
from explorer.qt.models.table import Column, TableModel
from explorer.qt.models.what_if.table import GPU_COLUMNS, Line, WhatIfColumns
from explorer.qt.views.errors.what_if.chart import WhatIfChart
from explorer.qt.views.errors.what_if.texts import line_text
from explorer.qt.views.plots.plot_panel import PicturePanel

_CHART_HEIGHT, _TABLE_HEIGHT = 360, 260


class WhatIfPanel(PicturePanel):
    """Chart and table, one above the other.

    Attributes:
        chart: Error against bits per weight.
        model: What the table shows.

    Signals:
        marked: Another line was marked; None if none is.
    """

    marked = Signal(object)

    def __init__(self, runner: JobRunner, parent: QWidget | None = None) -> None:
        chart, model = WhatIfChart(), TableModel()
        super().__init__(runner, chart, model, parent)
        self.chart, self.model = chart, model
        model.setParent(self)
        self._columns = WhatIfColumns()
        self.file_name = self.tr("what if")
        self.table.setAccessibleName(self.tr("Types"))
        self.splitter.setOrientation(Qt.Orientation.Vertical)
        self.splitter.setStretchFactor(1, 1)
        self.splitter.setSizes([_CHART_HEIGHT, _TABLE_HEIGHT])
        chart.point_read.connect(self._read_out)
        chart.chosen.connect(self.select)
        self.table.row_selected.connect(self._mark)

    @property
    def lines(self) -> Sequence[Line]:
        """The lines, in their own order: the present type first."""
        return self._columns.lines

    @property
    def selected_type(self) -> str | None:
        """The type that is marked; None if none is."""
        return self.chart.selected

    def show_planned(self, text: str) -> None:
        """Say what memory is planned for."""
        self._columns.planned = text
        self.show_resting(text)

    def show_lines(self, lines: Sequence[Line], *, gpus: bool) -> None:
        """Show other lines, or more of the same.

        Args:
            lines: The lines.
            gpus: Whether anything is planned for GPUs.
        """
        before = [line.type_name for line in self.lines]
        known = sum(line.known is not None for line in self.lines)
        self._columns.lines = tuple(lines)
        columns = self._columns.columns()
        if self.model.columns and [line.type_name for line in lines] == before:
            self.model.renew(columns)
            if sum(line.known is not None for line in lines) > known:
                self.table.fit_columns()  # figures are wider than what stood in their place
        else:
            self._replace(columns, gpus=gpus)
        self.chart.show_lines(lines)

    def select(self, type_name: str) -> None:
        """Mark a type in chart and table."""
        place = self._columns.place_of(type_name)
        if place is not None:
            self.table.select_row(place)

    def set_logarithmic(self, on: bool) -> None:
        """Do nothing: the axis follows from what is drawn."""

    def _replace(self, columns: Sequence[Column], *, gpus: bool) -> None:
        """Show other types; columns, sorting and the mark stay as they were."""
        marked = self.selected_type
        header = self.table.horizontalHeader()
        kept = header.saveState() if self.model.columns else QByteArray()
        with QSignalBlocker(self.table):
            self.model.set_content(columns, len(self.lines))
            self.table.show_columns(kept, () if gpus else GPU_COLUMNS)
        self.chart.select(None)
        self.show_text("")
        self.marked.emit(None)
        if marked is not None:
            self.select(marked)

    def _mark(self, place: int) -> None:
        line = self.lines[place]
        self.chart.select(line.type_name)
        self.show_text(line_text(line))
        self.marked.emit(line)

    def _read_out(self, line: Line | None) -> None:
        if line is not None:
            self.show_text(line_text(line))
            return
        place = None if self.selected_type is None else self._columns.place_of(self.selected_type)
        self.show_text("" if place is None else line_text(self.lines[place]))


def can_be_used(line: Line | None) -> bool:
    """Tell whether a line is of a type that the tensors could have."""
    return line is not None and line.type_name != PRESENT and line.size.problem is None
