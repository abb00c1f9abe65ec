"""A plot with its table beside it; below, what the cursor stands on, and buttons."""

from __future__ import annotations

from collections.abc import Callable

from PySide6 import QtWidgets

from explorer.qt.services import Services
from explorer.qt.theme import scaled, widen_with_text
from explorer.qt.widgets.building import NOTE, column, row, tab_through
from explorer.qt.widgets.controls import picture_buttons, split
from explorer.qt.widgets.curves import BinReading
from explorer.qt.widgets.figures import Picture, PlotExport
from explorer.qt.widgets.histogram_plot import HistogramPlot
from explorer.qt.widgets.labels import ElidedLabel
from explorer.qt.widgets.plot import ThemedPlot
from explorer.qt.widgets.table_model import TableModel
from explorer.qt.widgets.table_view import TableView
from explorer.text import counted, float_text, percent_text

TABLE_WIDTH = 310
"""What a table of two columns needs, in pixels."""

_PLOT_WIDTH = 600
_LEAST_HEIGHT = 200
_MOST_READINGS = 3

Readings = tuple[BinReading, ...]


class PicturePanel(QtWidgets.QWidget):
    """Plot, table and read-out.

    Attributes:
        plot: The plot.
        area: Where the plot is; something else may stand there for a while.
        table: The table beside it.
        readout: The line below.
        picture: What is saved: the plot, or what stands in its place.
        export: What saves it.
        resting: What the line below says while the cursor is nowhere.
        stops: What Tab comes through, in order.
    """

    def __init__(
        self,
        app: Services,
        plot: ThemedPlot,
        model: TableModel,
        parent: QtWidgets.QWidget | None = None,
        table_width: int = TABLE_WIDTH,
    ) -> None:
        super().__init__(parent)
        self.resting = ""
        self.file_name = "plot"
        self.plot = plot
        self.picture: Picture = plot
        self.area = QtWidgets.QStackedWidget(self)
        self.area.addWidget(plot)
        self.area.setMinimumHeight(_LEAST_HEIGHT)  # in a small window the page scrolls
        self.table = TableView(model, app, self)
        self.table.setAccessibleName("Statistics")
        self.readout = ElidedLabel(self)
        self.readout.setAccessibleName("Under the pointer")
        self.export = PlotExport(app, self)
        self.splitter = split(
            self, (self.area, _PLOT_WIDTH), (self.table, scaled(table_width)), grows=0
        )
        widen_with_text(self.splitter, 1)
        saving = picture_buttons(self, self.copy_picture, self.ask_export)
        self.copy_button, self.save_button = saving
        self.line = row((self.readout, 1), *plot.zoom_buttons(self), *saving, margins=NOTE)
        column((self.splitter, 1), self.line, of=self)
        self.stops = self.area, self.table, *saving
        tab_through(*self.stops)
        plot.export_requested.connect(self.ask_export)
        plot.copy_requested.connect(self.copy_picture)

    def ask_export(self) -> None:
        """Ask for a file and save what is shown into it."""
        self.export.ask(self.picture, self.file_name)

    def copy_picture(self) -> None:
        """Put what is shown into the clipboard; the status bar says so."""
        self.export.copy(self.picture)

    def show_text(self, text: str) -> None:
        """Show what the cursor stands on; `resting` without a text."""
        self.readout.setText(text or self.resting)
        self.plot.speak(text or self.resting)

    def show_resting(self, text: str) -> None:
        """Show another text while the cursor is nowhere."""
        if self.readout.text() == self.resting:
            self.readout.setText(text)
        self.resting = text


class PlotPanel(PicturePanel):
    """A histogram, its table, and what the bins under the cursor hold."""

    plot: HistogramPlot

    def __init__(
        self,
        app: Services,
        model: TableModel,
        describe: Callable[[Readings], str] | None = None,
        parent: QtWidgets.QWidget | None = None,
        table_width: int = TABLE_WIDTH,
    ) -> None:
        super().__init__(app, HistogramPlot(), model, parent, table_width)
        self._describe = describe or self._describe_bins
        self.plot.bins_read.connect(self.show_readings)

    def show_readings(self, readings: Readings) -> None:
        """Show what the cursor stands on."""
        self.show_text(self._describe(readings) if readings else "")

    def _describe_bins(self, readings: Readings) -> str:
        first = readings[0]
        low, high = float_text(first.low, 5), float_text(first.high, 5)
        parts = [f"{low} to {high}"]
        if len(readings) == 1:
            parts.append(counted(first.count, "weight"))
            parts.append(percent_text(first.share))
        else:
            parts += [f"{r.curve}: {percent_text(r.share)}" for r in readings[:_MOST_READINGS]]
        more = len(readings) - _MOST_READINGS
        if more > 0:
            parts.append(f"and {more} more")
        return "   ".join(parts)
