"""A plot with its table beside it, what the cursor stands on below, and zoom and export."""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, Protocol, TextIO

from PySide6 import QtWidgets
from PySide6.QtCore import QBuffer, QCoreApplication, QIODevice, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QAction, QGuiApplication, QImage, QPainter
from PySide6.QtSvg import QSvgGenerator

from explorer.present.explanations import picture_text
from explorer.qt.jobs import Job, JobRunner
from explorer.qt.widgets.building import column, row
from explorer.qt.widgets.curves import BinReading
from explorer.qt.widgets.histogram_plot import HistogramPlot
from explorer.qt.widgets.labels import ElidedLabel
from explorer.qt.widgets.plot import ThemedPlot
from explorer.qt.widgets.saving import FileSaver, file_name
from explorer.qt.widgets.table_model import TableModel
from explorer.qt.widgets.table_view import TableView
from explorer.tabular import write_atomically, write_csv
from explorer.text import float_text, integer_text

_SCALE: Final = 2  # for print, and for screens of high density


class Picture(Protocol):
    """What can be saved: a widget that also draws itself on paper."""

    def size(self) -> QSize:
        """Return its size."""

    def paint_on_paper(self, painter: QPainter, area: QRectF) -> None:
        """Draw it in the colours of paper."""

    def data_columns(self) -> list[tuple[str, list[Any]]]:
        """Return the data behind it: a name and the values of each column."""


class PlotExport(FileSaver):
    """Saves pictures on white paper as PNG or SVG, and their data as CSV.

    The picture is drawn on the GUI thread, which Qt demands; encoding and writing happen in a job.
    """

    def ask(self, picture: Picture, name: str) -> None:
        """Ask for a file, and save the picture or its data into it."""
        kinds = {_tr("PNG picture"): ".png", _tr("SVG picture"): ".svg", _tr("Data"): ".csv"}
        path = self.ask_path(_tr("Save picture or data"), file_name(name, "plot"), kinds)
        if path is not None:
            self.save(picture, path)

    def save(self, picture: Picture, path: Path) -> Job:
        """Save in the background, in the format that the name's suffix says, or as PNG."""
        write = _writer(picture, path.suffix.lower())

        def work(_job: Job) -> None:
            with write_atomically(path) as stream:
                write(stream)

        return self.write(_tr("Saving {name}").format(name=path.name), path, work)


def _tr(text: str) -> str:
    return QCoreApplication.translate("PlotExport", text)


def _writer(picture: Picture, suffix: str) -> Callable[[TextIO], object]:
    """Draw a picture; return what encodes and writes it."""
    if suffix == ".csv":
        columns = picture.data_columns()
        names, rows = [name for name, _ in columns], zip_longest(*(each for _, each in columns))
        return lambda stream: write_csv(stream, names, rows)
    if suffix == ".svg":
        svg = _svg(picture)
        return lambda stream: stream.buffer.write(svg)
    image = _image(picture)
    return lambda stream: stream.buffer.write(_png(image))


def _image(picture: Picture) -> QImage:
    size = picture.size() * _SCALE
    image = QImage(size, QImage.Format.Format_RGB32)
    image.fill(Qt.GlobalColor.white)
    painter = QPainter(image)
    painter.setLayoutDirection(Qt.LayoutDirection.LeftToRight)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    picture.paint_on_paper(painter, QRectF(0, 0, size.width(), size.height()))
    painter.end()
    return image


def _svg(picture: Picture) -> bytes:
    size = picture.size()
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    generator = QSvgGenerator()  # pyqtgraph's exporter fails with newer versions of Qt
    generator.setOutputDevice(buffer)
    generator.setSize(size)
    # pyqtgraph records axes as a QPicture, which Qt scales to the resolution of what it is drawn on
    generator.setResolution(round(QGuiApplication.primaryScreen().logicalDotsPerInch()))
    generator.setViewBox(QRect(0, 0, size.width(), size.height()))
    painter = QPainter(generator)
    painter.setLayoutDirection(Qt.LayoutDirection.LeftToRight)
    painter.fillRect(0, 0, size.width(), size.height(), Qt.GlobalColor.white)
    picture.paint_on_paper(painter, QRectF(0, 0, size.width(), size.height()))
    painter.end()
    return bytes(buffer.data().data())


def _png(image: QImage) -> bytes:
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    image.save(buffer, "PNG")  # type: ignore[call-overload] # the stub wants bytes
    return bytes(buffer.data().data())


TABLE_WIDTH = 290
"""What a table of two columns needs, in pixels."""

_PLOT_WIDTH = 600
_MOST_READINGS = 3

Readings = tuple[BinReading, ...]


class PicturePanel(QtWidgets.QWidget):
    """Plot, table and read-out.

    Attributes:
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
        plot: ThemedPlot,
        model: TableModel,
        parent: QtWidgets.QWidget | None = None,
        table_width: int = TABLE_WIDTH,
    ) -> None:
        super().__init__(parent)
        self.resting = ""
        self.file_name = "plot"
        self._plot = plot
        self.picture: Picture = plot
        self.area = QtWidgets.QStackedWidget(self)
        self.area.addWidget(plot)
        self.table = TableView(model, runner, self)
        self.table.setAccessibleName(self.tr("Statistics"))
        self.readout = ElidedLabel(self)
        self.readout.setAccessibleName(self.tr("Under the cursor"))
        self.readout.setWhatsThis(picture_text("readout"))
        self.export = PlotExport(runner, self, self.exported.emit, self.failed.emit)
        self.splitter = QtWidgets.QSplitter(self)
        self.splitter.addWidget(self.area)
        self.splitter.addWidget(self.table)
        self.splitter.setStretchFactor(0, 1)
        self.splitter.setChildrenCollapsible(False)
        self.splitter.setSizes([_PLOT_WIDTH, table_width])
        buttons = map(self._button, (plot.back_action, plot.reset_action))
        self.save_button = QtWidgets.QToolButton(self)
        self.save_button.setText(self.tr("Save…"))
        self.save_button.setToolTip(self.tr("Save the picture or its data (Ctrl+S in the plot)"))
        self.save_button.clicked.connect(self.ask_export)
        self.line = row((self.readout, 1), *buttons, self.save_button, margins=(8, 2, 8, 2))
        column((self.splitter, 1), self.line, of=self)
        plot.export_requested.connect(self.ask_export)
        self.table.exported.connect(self.exported)
        self.table.failed.connect(self.failed)

    def ask_export(self) -> None:
        """Ask for a file and save what is shown into it."""
        self.export.ask(self.picture, self.file_name)

    def set_logarithmic(self, on: bool) -> None:
        """Show counts logarithmically, or not."""
        raise NotImplementedError

    def show_text(self, text: str) -> None:
        """Show what the cursor stands on; `resting` without a text."""
        self.readout.setText(text or self.resting)
        self._plot.speak(text or self.resting)

    def show_resting(self, text: str) -> None:
        """Show another text while the cursor is nowhere."""
        if self.readout.text() == self.resting:
            self.readout.setText(text)
        self.resting = text

    def _button(self, action: QAction) -> QtWidgets.QToolButton:
        button = QtWidgets.QToolButton(self)
        button.setDefaultAction(action)
        return button


class PlotPanel(PicturePanel):
    """A histogram, its table, and what the bins under the cursor hold."""

    def __init__(  # noqa: PLR0913, PLR0917 - all but the first two have a default
        self,
        runner: JobRunner,
        model: TableModel,
        describe: Callable[[Readings], str] | None = None,
        parent: QtWidgets.QWidget | None = None,
        table_width: int = TABLE_WIDTH,
        plot: HistogramPlot | None = None,
    ) -> None:
        histogram = HistogramPlot() if plot is None else plot
        super().__init__(runner, histogram, model, parent, table_width)
        self.plot = histogram
        self._describe = describe or self._describe_bins
        self.plot.bins_read.connect(self.show_readings)

    def set_logarithmic(self, on: bool) -> None:
        self.plot.set_logarithmic(on)

    def show_readings(self, readings: Readings) -> None:
        """Show what the cursor stands on."""
        self.show_text(self._describe(readings) if readings else "")

    def _describe_bins(self, readings: Readings) -> str:
        first = readings[0]
        low, high = float_text(first.low, 5), float_text(first.high, 5)
        parts = [self.tr("{low} to {high}").format(low=low, high=high)]
        if len(readings) == 1:
            parts.append(self.tr("{count} weights").format(count=integer_text(first.count)))
            parts.append(percent_text(first.share))
        else:
            parts += [f"{r.curve}: {percent_text(r.share)}" for r in readings[:_MOST_READINGS]]
        more = len(readings) - _MOST_READINGS
        if more > 0:
            parts.append(self.tr("and {n} more").format(n=more))
        return "   ".join(parts)


def percent_text(share: float) -> str:
    """Return a share, 0 to 1, in per cent to three digits."""
    return f"{float_text(100 * share, 3)} %"
