"""A plot with its table beside it, what the cursor stands on below, and zoom and export."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, Protocol, TextIO, runtime_checkable

from PySide6 import QtWidgets
from PySide6.QtCore import (
    QBuffer,
    QIODevice,
    QLocale,
    QMarginsF,
    QRect,
    QRectF,
    QSize,
    QSizeF,
    Qt,
    QTimer,
    Signal,
)
from PySide6.QtGui import (
    QDoubleValidator,
    QFontMetrics,
    QGuiApplication,
    QImage,
    QPageSize,
    QPainter,
    QPdfWriter,
)
from PySide6.QtSvg import QSvgGenerator

from explorer.qt.jobs import Job
from explorer.qt.services import Services
from explorer.qt.theme import Space, scaled, widen_with_text
from explorer.qt.widgets.building import NOTE, column, row
from explorer.qt.widgets.controls import picture_buttons, split
from explorer.qt.widgets.curves import BinReading
from explorer.qt.widgets.histogram_plot import HistogramPlot
from explorer.qt.widgets.labels import ElidedLabel, plain_label
from explorer.qt.widgets.plot import PlotColours, ThemedPlot
from explorer.qt.widgets.saving import FileSaver, file_name
from explorer.qt.widgets.table_model import TableModel
from explorer.qt.widgets.table_view import TableView
from explorer.tabular import write_atomically, write_csv
from explorer.text import float_text, integer_text, percent_text

_SCALE: Final = 2  # for print, and for screens of high density


_TYPING_MS = 250


class RangeFields(QtWidgets.QWidget):
    """A range that is typed: from, to. Numbers are written as everywhere in the program.

    Signals:
        changed: Another range was typed; it may be an impossible one.
    """

    changed = Signal()

    def __init__(self, parent: QtWidgets.QWidget | None = None) -> None:
        super().__init__(parent)
        self.low = self._number("First edge")
        self.high = self._number("Last edge")
        self._typing = QTimer(self, singleShot=True, interval=_TYPING_MS)
        self._typing.timeout.connect(self.changed)
        row(self.low, plain_label(self, "to"), self.high, of=self, spacing=Space.NEAR)
        for edit in (self.low, self.high):
            edit.textEdited.connect(lambda _: self._typing.start())
            edit.editingFinished.connect(self._finish)

    def value(self) -> tuple[float, float] | None:
        """Return the range; None if it is impossible (see `problem`)."""
        return None if self.problem() else self._numbers()

    def problem(self) -> str:
        """Return why the range is impossible, as a sentence; "" if it is not."""
        numbers = self._numbers()
        if numbers is None:
            return "Type two numbers, such as -0.1 and 0.1."
        if not numbers[0] < numbers[1]:
            return "The first edge must be less than the last one."
        return ""

    def suggest(self, low: float, high: float) -> None:
        """Put what is shown into the fields."""
        self.low.setText(float_text(low, 4))
        self.high.setText(float_text(high, 4))

    def begin(self) -> None:
        """Let the user type."""
        self.low.setFocus(Qt.FocusReason.OtherFocusReason)
        self.low.selectAll()

    def _numbers(self) -> tuple[float, float] | None:
        low, low_right = QLocale.c().toDouble(self.low.text())
        high, high_right = QLocale.c().toDouble(self.high.text())
        return (low, high) if low_right and high_right else None

    def _number(self, name: str) -> QtWidgets.QLineEdit:
        edit = QtWidgets.QLineEdit(self)
        validator = QDoubleValidator(edit)
        validator.setLocale(QLocale.c())  # as all numbers of the program
        edit.setValidator(validator)
        edit.setAccessibleName(name)
        edit.setFixedWidth(QFontMetrics(self.font()).horizontalAdvance("-0.00000e-00"))
        return edit

    def _finish(self) -> None:
        if self._typing.isActive():
            self._typing.stop()
            self.changed.emit()


class Picture(Protocol):
    """What can be saved: a widget that also draws itself on paper."""

    def size(self) -> QSize:
        """Return its size."""

    def paint_on_paper(self, painter: QPainter, area: QRectF) -> None:
        """Draw it in the colours of paper."""

    def data_columns(self) -> list[tuple[str, list[Any]]]:
        """Return the data behind it: a name and the values of each column."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of file that a picture is saved as.

    Attributes:
        title: What the dialog calls it.
        suffix: What its name ends in.
        size: The size in which it is laid out; None for that of the window.
        width_mm: How wide it is on paper; None for that of the window.
    """

    title: str
    suffix: str
    size: QSize | None = None
    width_mm: float | None = None


def kinds() -> list[Kind]:
    """Return the kinds of files, the usual ones first."""
    column, page = QSize(480, 300), QSize(800, 450)
    return [
        Kind("PNG picture", ".png"),
        Kind("SVG picture", ".svg"),
        Kind("PDF picture", ".pdf"),
        Kind("Data", ".csv"),
        Kind("PNG for slides, 1920 × 1080", ".png", QSize(960, 540)),
        Kind("PDF of a column, 85 mm wide", ".pdf", column, 85),
        Kind("PDF of a page, 170 mm wide", ".pdf", page, 170),
    ]


@runtime_checkable
class Captioned(Protocol):
    """A widget that knows what pictures in it are of."""

    def picture_caption(self) -> str:
        """Return the names of model and tensor; plain text."""


class PlotExport(FileSaver):
    """Saves pictures on white paper as PNG, SVG or PDF, or copies them; and their data as CSV.

    A line below the picture says which model and tensor it is of. The picture is drawn on the GUI
    thread, which Qt demands; encoding and writing happen in a job.
    """

    def ask(self, picture: Picture, name: str) -> None:
        """Ask for a file, and save the picture or its data into it."""
        known = {kind.title: kind for kind in kinds()}
        suffixes = {title: kind.suffix for title, kind in known.items()}
        path = self.ask_path("Save picture or data", file_name(name, "plot"), suffixes)
        if path is not None:
            chosen = known.get(self.kind)
            self.save(picture, path, chosen)

    def save(self, picture: Picture, path: Path, kind: Kind | None = None) -> Job:
        """Save in the background, in the format that the name's suffix says, or as PNG."""
        suffix = path.suffix.lower()
        if kind is None or kind.suffix != suffix:
            kind = Kind("", suffix)
        write = _writer(_Sheet(picture, self.caption(), kind))

        def work(_job: Job) -> None:
            with write_atomically(path) as stream:
                write(stream)

        return self.write(f"Saving {path.name}", path, work)

    def copy(self, picture: Picture) -> None:
        """Put the picture into the clipboard."""
        QGuiApplication.clipboard().setImage(_image(_Sheet(picture, self.caption(), Kind("", ""))))

    def caption(self) -> str:
        """Return the line below pictures; empty where nothing above says what they are of."""
        above: QtWidgets.QWidget | None = self.parent
        while above is not None and not isinstance(above, Captioned):
            above = above.parentWidget()
        return "" if above is None else above.picture_caption()


_CAPTION_PIXELS: Final = 24
_MM_PER_INCH: Final = 25.4


class _Sheet:
    """A picture with the line below it, in a size."""

    def __init__(self, picture: Picture, caption: str, kind: Kind) -> None:
        self.picture, self.caption, self.kind = picture, caption, kind

    @property
    def size(self) -> QSize:
        """Its size in logical pixels."""
        size = self._inner
        return QSize(size.width(), size.height() + (_CAPTION_PIXELS if self.caption else 0))

    @property
    def _inner(self) -> QSize:
        wanted, own = self.kind.size, self.picture.size()
        if wanted is None:
            return own
        room = wanted - QSize(0, _CAPTION_PIXELS if self.caption else 0)
        if isinstance(self.picture, ThemedPlot):
            return room
        return own.scaled(room, Qt.AspectRatioMode.KeepAspectRatio)

    def paint(self, painter: QPainter, scale: float) -> None:
        """Draw it, one logical pixel being `scale` of the painter's."""
        inner = self._inner
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        area = QRectF(0, 0, inner.width() * scale, inner.height() * scale)
        if isinstance(self.picture, ThemedPlot) and self.kind.size is not None:
            with self.picture.sized(inner):
                self.picture.paint_on_paper(painter, area)
        else:
            self.picture.paint_on_paper(painter, area)
        if not self.caption:
            return
        painter.save()
        painter.scale(scale, scale)
        painter.setPen(PlotColours.on_paper().text)
        line = QRectF(8, inner.height(), inner.width() - 16, _CAPTION_PIXELS)
        metrics = painter.fontMetrics()
        text = metrics.elidedText(self.caption, Qt.TextElideMode.ElideMiddle, int(line.width()))
        painter.drawText(line, int(Qt.AlignmentFlag.AlignVCenter), text)
        painter.restore()


def _writer(sheet: _Sheet) -> Callable[[TextIO], object]:
    """Draw a picture; return what encodes and writes it."""
    suffix = sheet.kind.suffix
    if suffix == ".csv":
        columns = sheet.picture.data_columns()
        names, rows = [name for name, _ in columns], zip_longest(*(each for _, each in columns))
        return lambda stream: write_csv(stream, names, rows)
    if suffix in {".svg", ".pdf"}:
        drawn = _svg(sheet) if suffix == ".svg" else _pdf(sheet)
        return lambda stream: stream.buffer.write(drawn)
    image = _image(sheet)
    return lambda stream: stream.buffer.write(_png(image))


def _image(sheet: _Sheet) -> QImage:
    image = QImage(sheet.size * _SCALE, QImage.Format.Format_RGB32)
    image.fill(Qt.GlobalColor.white)
    painter = QPainter(image)
    sheet.paint(painter, _SCALE)
    painter.end()
    return image


def _svg(sheet: _Sheet) -> bytes:
    size = sheet.size
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    generator = QSvgGenerator()  # pyqtgraph's exporter fails with newer versions of Qt
    generator.setOutputDevice(buffer)
    generator.setSize(size)
    generator.setTitle(sheet.caption)
    # pyqtgraph records axes as a QPicture, which Qt scales to the resolution of what it is drawn on
    generator.setResolution(_screen_resolution())
    generator.setViewBox(QRect(0, 0, size.width(), size.height()))
    painter = QPainter(generator)
    painter.fillRect(0, 0, size.width(), size.height(), Qt.GlobalColor.white)
    sheet.paint(painter, 1)
    painter.end()
    return bytes(buffer.data().data())


def _pdf(sheet: _Sheet) -> bytes:
    size, resolution = sheet.size, _screen_resolution()
    width = sheet.kind.width_mm or size.width() / resolution * _MM_PER_INCH
    paper = QSizeF(width, width * size.height() / size.width())
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    writer = QPdfWriter(buffer)
    writer.setTitle(sheet.caption)
    writer.setCreator("GGUF Explorer")
    writer.setResolution(resolution)  # as in `_svg`
    writer.setPageMargins(QMarginsF(0, 0, 0, 0))
    writer.setPageSize(QPageSize(paper, QPageSize.Unit.Millimeter, "", _EXACTLY))
    painter = QPainter(writer)
    scale = paper.width() / _MM_PER_INCH * resolution / size.width()
    painter.scale(scale, scale)
    sheet.paint(painter, 1)
    painter.end()
    return bytes(buffer.data().data())


_EXACTLY: Final = QPageSize.SizeMatchPolicy.ExactMatch


def _screen_resolution() -> int:
    return round(QGuiApplication.primaryScreen().logicalDotsPerInch())


def _png(image: QImage) -> bytes:
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    image.save(buffer, "PNG")  # type: ignore[call-overload] # the stub wants bytes
    return bytes(buffer.data().data())


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
        plot.export_requested.connect(self.ask_export)
        plot.copy_requested.connect(self.copy_picture)

    def ask_export(self) -> None:
        """Ask for a file and save what is shown into it."""
        self.export.ask(self.picture, self.file_name)

    def copy_picture(self) -> None:
        """Put what is shown into the clipboard, and say so until the cursor moves."""
        self.export.copy(self.picture)
        self.readout.setText("Picture copied")

    def set_logarithmic(self, on: bool) -> None:
        """Show counts logarithmically, or not."""
        raise NotImplementedError

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

    def __init__(  # noqa: PLR0913, PLR0917 - all but the first two have a default
        self,
        app: Services,
        model: TableModel,
        describe: Callable[[Readings], str] | None = None,
        parent: QtWidgets.QWidget | None = None,
        table_width: int = TABLE_WIDTH,
        plot: HistogramPlot | None = None,
    ) -> None:
        histogram = HistogramPlot() if plot is None else plot
        super().__init__(app, histogram, model, parent, table_width)
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
        parts = [f"{low} to {high}"]
        if len(readings) == 1:
            parts.append(f"{integer_text(first.count)} weights")
            parts.append(percent_text(first.share))
        else:
            parts += [f"{r.curve}: {percent_text(r.share)}" for r in readings[:_MOST_READINGS]]
        more = len(readings) - _MOST_READINGS
        if more > 0:
            parts.append(f"and {more} more")
        return "   ".join(parts)
