"""A histogram with its table beside it, what the cursor stands on below, and zoom and export."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QSplitter,
    QStackedWidget,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from explorer.display import float_text, integer_text
from explorer.qt.jobs import JobRunner
from explorer.qt.models.histogram_curve import BinReading
from explorer.qt.models.table import TableModel
from explorer.qt.views.plots.export import Picture, PlotExport
from explorer.qt.views.plots.histogram_plot import HistogramPlot
from explorer.qt.views.table_view import TableView

TABLE_WIDTH = 290
"""What a table of two columns needs, in pixels."""

_PLOT_WIDTH = 600
_MOST_READINGS = 3

Readings = tuple[BinReading, ...]


class PlotPanel(QWidget):
    """Plot, table and read-out.

    Attributes:
        plot: The plot.
        area: Where the plot is; something else may stand there for a while.
        table: The table beside it.
        readout: The line below.
        picture: What is saved: the plot, or what stands in its place.
        export: What saves it.
        resting: What the line below says while the cursor is nowhere.

    Signals:
        exported: A file was written; its path.
        failed: A file could not be written; an `ExplorerError`.
    """

    exported = Signal(str)
    failed = Signal(object)

    def __init__(
        self,
        runner: JobRunner,
        model: TableModel,
        describe: Callable[[Readings], str] | None = None,
        parent: QWidget | None = None,
        table_width: int = TABLE_WIDTH,
    ) -> None:
        super().__init__(parent)
        self.resting = ""
        self.file_name = "plot"
        self._describe = describe or self._describe_bins
        self.plot = HistogramPlot(self)
        self.picture: Picture = self.plot
        self.area = QStackedWidget(self)
        self.area.addWidget(self.plot)
        self.table = TableView(model, runner, self)
        self.table.setAccessibleName(self.tr("Statistics"))
        self.readout = QLabel(self)
        self.readout.setTextFormat(Qt.TextFormat.PlainText)
        self.readout.setAccessibleName(self.tr("Under the cursor"))
        self.export = PlotExport(runner, self, self.exported.emit, self.failed.emit)
        self.splitter = QSplitter(self)
        self.splitter.addWidget(self.area)
        self.splitter.addWidget(self.table)
        self.splitter.setStretchFactor(0, 1)
        self.splitter.setChildrenCollapsible(False)
        self.splitter.setSizes([_PLOT_WIDTH, table_width])
        self.line = QHBoxLayout()
        self.line.setContentsMargins(8, 2, 8, 2)
        self.line.addWidget(self.readout, 1)
        for action in (self.plot.back_action, self.plot.reset_action):
            self.line.addWidget(self._button(action))
        self.save_button = QToolButton(self)
        self.save_button.setText(self.tr("Save…"))
        self.save_button.setToolTip(self.tr("Save the picture or its data (Ctrl+S in the plot)"))
        self.save_button.clicked.connect(self.ask_export)
        self.line.addWidget(self.save_button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.splitter, 1)
        layout.addLayout(self.line)
        self.plot.bins_read.connect(self.show_readings)
        self.plot.export_requested.connect(self.ask_export)
        self.table.exported.connect(self.exported)
        self.table.failed.connect(self.failed)

    def ask_export(self) -> None:
        """Ask for a file and save what is shown into it."""
        self.export.ask(self.picture, self.file_name)

    def show_readings(self, readings: Readings) -> None:
        """Tell what the cursor stands on."""
        text = self._describe(readings) if readings else self.resting
        self.readout.setText(text)
        self.plot.setAccessibleDescription(text)

    def show_resting(self, text: str) -> None:
        """Say something while the cursor is nowhere."""
        if self.readout.text() == self.resting:
            self.readout.setText(text)
        self.resting = text

    def _describe_bins(self, readings: Readings) -> str:
        first = readings[0]
        parts = [
            self.tr("{low} to {high}").format(
                low=float_text(first.low, 5), high=float_text(first.high, 5)
            )
        ]
        if len(readings) == 1:
            parts.append(self.tr("{count} weights").format(count=integer_text(first.count)))
            parts.append(percent_text(first.share))
        else:
            parts += [f"{r.curve}: {percent_text(r.share)}" for r in readings[:_MOST_READINGS]]
        more = len(readings) - _MOST_READINGS
        if more > 0:
            parts.append(self.tr("and {n} more").format(n=more))
        return "   ".join(parts)

    def _button(self, action: QAction) -> QToolButton:
        button = QToolButton(self)
        button.setDefaultAction(action)
        return button


def percent_text(share: float) -> str:
    """Return a share, 0 to 1, in per cent to three digits."""
    return f"{100 * share:.3g} %"
