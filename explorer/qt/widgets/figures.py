"""Pictures as files, for print: format, size, text and caption are asked for; and copies."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, Protocol, TextIO, runtime_checkable

from PySide6 import QtWidgets
from PySide6.QtCore import QBuffer, QIODevice, QMarginsF, QRect, QRectF, QSize, QSizeF, Qt
from PySide6.QtGui import (
    QFontInfo,
    QFontMetrics,
    QGuiApplication,
    QImage,
    QPageSize,
    QPainter,
    QPdfWriter,
)
from PySide6.QtSvg import QSvgGenerator

from explorer.qt.jobs import Job
from explorer.qt.theme import TextSize, scaled, text_font
from explorer.qt.widgets.building import row
from explorer.qt.widgets.chart import Chart
from explorer.qt.widgets.controls import check, choice
from explorer.qt.widgets.labels import plain_label
from explorer.qt.widgets.plot import PlotColours, ThemedPlot
from explorer.qt.widgets.saving import FileSaver, file_name
from explorer.tabular import write_atomically, write_csv

_SCALE: Final = 2  # for print, and for screens of high density


class Picture(Protocol):
    """What can be saved: a widget that also draws itself on paper."""

    def size(self) -> QSize:
        """Return its size."""

    def paint_on_paper(self, painter: QPainter, area: QRectF) -> None:
        """Draw it in the colours of paper."""

    def data_columns(self) -> list[tuple[str, list[Any]]]:
        """Return the data behind it: a name and the values of each column."""


@dataclass(frozen=True, slots=True)
class Figure:
    """How a picture is saved.

    Attributes:
        suffix: What the file's name ends in: the format.
        cm: Width and height on paper, the caption included; None for those of the window.
        points: Size of the text; None for that of the window.
        dpi: Dots to the inch of a PNG.
        caption: What stands below; "" for nothing.
        panel: The part of a picture of several, by place; None for all.
    """

    suffix: str = ".png"
    cm: tuple[float, float] | None = None
    points: float | None = None
    dpi: int = 0
    caption: str = ""
    panel: int | None = None


FORMATS: Final = {
    "PNG picture": ".png",
    "SVG picture": ".svg",
    "PDF picture": ".pdf",
    "Data": ".csv",
}

_COLUMN: Final = 8.5  # cm
_COLUMN_HEIGHT: Final = 5.5  # at the least: a window is much wider
_WIDTHS: Final = (  # in cm; a slide of 16 : 9 is 25.4 cm wide
    ("As in the window", 0.0),
    ("One column, 8.5 cm", _COLUMN),
    ("Two columns, 17.5 cm", 17.5),
    ("Slide, 25.4 cm", 25.4),
)
_CM: Final = 3.0, 100.0
_POINTS: Final = 4.0, 40.0
_DPI: Final = 300
_MOST_DPI: Final = 1200
_MOST_DOTS: Final = 100_000_000  # of a picture: 400 MB while it is drawn


class FigureDialog(QtWidgets.QDialog):
    """Asks how a figure shall be: format, size, text, caption."""

    def __init__(
        self, picture: Picture, caption: str, parent: QtWidgets.QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle("Save figure")
        own = picture.size()
        self._own = own.width() * _CM_PER_INCH / _screen_resolution()
        self._shape = own.height() / max(1, own.width())
        self._lays_out = isinstance(picture, ThemedPlot | Chart)
        self.format = choice(self, "Format", "", *FORMATS.items())
        self.preset = choice(self, "Size", "", *_WIDTHS)
        self.width_cm = self._number("Width", _CM, " cm")
        self.height_cm = self._number("Height", _CM, " cm")
        self.points = self._number("Size of text", _POINTS, " pt")
        titles = picture.panels() if isinstance(picture, Chart) else []
        parts = [("All", None), *((title, place) for place, title in enumerate(titles))]
        self.panel = choice(self, "Panels", "One part of the picture, or all of it", *parts)
        self.dpi = QtWidgets.QSpinBox(self)
        self.dpi.setRange(36, _MOST_DPI)
        self.dpi.setValue(_DPI)
        self.dpi.setSuffix(" dpi")
        self.dpi.setAccessibleName("Resolution of a PNG")
        self.wants_caption = check(self, "&Caption", "What stands below the figure", on=True)
        self.caption = QtWidgets.QLineEdit(caption, self)
        self.caption.setAccessibleName("Caption")
        self.caption.setCursorPosition(0)
        buttons = QtWidgets.QDialogButtonBox.StandardButton
        self.buttons = QtWidgets.QDialogButtonBox(buttons.Save | buttons.Cancel, self)
        form = QtWidgets.QFormLayout(self)
        form.addRow("&Format", self.format)
        form.addRow("&Size", self.preset)
        sizes = row(self.width_cm, plain_label(self, "\N{MULTIPLICATION SIGN}"), self.height_cm, 1)
        form.addRow("", sizes)
        if len(titles) > 1:
            form.addRow("&Panels", self.panel)
        self.panel.setVisible(len(titles) > 1)
        form.addRow("&Text", self.points)
        form.addRow("&Resolution", self.dpi)
        form.addRow(self.wants_caption, self.caption)
        form.addRow(self.buttons)
        self.setMinimumWidth(scaled(_DIALOG_WIDTH))
        self.preset.currentIndexChanged.connect(lambda _: self._follow_preset())
        self.format.currentIndexChanged.connect(lambda _: self._follow_format())
        self.wants_caption.toggled.connect(self.caption.setEnabled)
        self.buttons.accepted.connect(self.accept)
        self.buttons.rejected.connect(self.reject)
        self._follow_preset()
        self._follow_format()

    def figure(self) -> Figure:
        """Return what was chosen."""
        caption = self.caption.text() if self.wants_caption.isChecked() else ""
        size = self.width_cm.value(), self.height_cm.value()
        chosen = self.points.value(), self.dpi.value(), caption, self.panel.currentData()
        return Figure(self.format.currentData(), size, *chosen)

    def _number(
        self, name: str, bounds: tuple[float, float], unit: str
    ) -> QtWidgets.QDoubleSpinBox:
        box = QtWidgets.QDoubleSpinBox(self)
        box.setRange(*bounds)
        box.setDecimals(1)
        box.setSuffix(unit)
        box.setAccessibleName(name)
        return box

    def _follow_preset(self) -> None:
        """Propose a size in the shape of the picture, and text that suits it."""
        width = float(self.preset.currentData())
        self.width_cm.setValue(width or self._own)
        height = self.width_cm.value() * self._shape
        if self._lays_out and width == _COLUMN:
            height = max(height, _COLUMN_HEIGHT)
        self.height_cm.setValue(height)
        small = 0 < width < _WIDTHS[-1][1]
        self.points.setValue(_PAPER_POINTS if small else _window_points() * (2 if width else 1))

    def _follow_format(self) -> None:
        data = self.format.currentData() == ".csv"
        for part in (self.preset, self.width_cm, self.height_cm, self.points, self.wants_caption):
            part.setEnabled(not data)
        self.caption.setEnabled(not data and self.wants_caption.isChecked())
        self.dpi.setEnabled(self.format.currentData() == ".png")


_DIALOG_WIDTH: Final = 460
_PAPER_POINTS: Final = 8.0  # journals ask for 7 to 9


@runtime_checkable
class Captioned(Protocol):
    """A widget that knows what pictures in it are of."""

    def picture_caption(self) -> str:
        """Return the names of model and tensor; plain text."""


class PlotExport(FileSaver):
    """Saves pictures on white paper as PNG, SVG or PDF, or copies them; and their data as CSV.

    A caption below the picture says what it is of. The picture is drawn on the GUI
    thread, which Qt demands; encoding and writing happen in a job.
    """

    def ask(self, picture: Picture, name: str) -> None:
        """Ask how and where, and save the picture or its data."""
        dialog = FigureDialog(picture, self.caption(), self.parent)
        dialog.accepted.connect(lambda: self._ask_path(picture, name, dialog.figure()))
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.open()

    def _ask_path(self, picture: Picture, name: str, figure: Figure) -> None:
        others = {title: end for title, end in FORMATS.items() if end != figure.suffix}
        first = {title: end for title, end in FORMATS.items() if end == figure.suffix}
        path = self.ask_path("Save figure", file_name(name, "plot"), first | others)
        if path is not None:
            self.save(picture, path, figure)

    def save(self, picture: Picture, path: Path, figure: Figure | None = None) -> Job:
        """Save in the background, in the format that the name's suffix says, or as PNG."""
        wanted = Figure(caption=self.caption()) if figure is None else figure
        alone = picture.alone(wanted.panel) if isinstance(picture, Chart) else nullcontext()
        with alone:
            write = _writer(_Sheet(picture, replace(wanted, suffix=path.suffix.lower())))

        def work(_job: Job) -> None:
            with write_atomically(path) as stream:
                write(stream)

        return self.write(f"Saving {path.name}", path, work)

    def copy(self, picture: Picture) -> None:
        """Put the picture into the clipboard."""
        image = _image(_Sheet(picture, Figure(caption=self.caption())))
        QGuiApplication.clipboard().setImage(image)

    def caption(self) -> str:
        """Return the line below pictures; empty where nothing above says what they are of."""
        above: QtWidgets.QWidget | None = self.parent
        while above is not None and not isinstance(above, Captioned):
            above = above.parentWidget()
        return "" if above is None else above.picture_caption()


_CM_PER_INCH: Final = 2.54


class _Sheet:
    """A picture with the caption below it, in a size.

    It is laid out in logical pixels, of which the window's text is so large that it has the wanted
    size on paper. What needs more room than there is for text of that size is drawn smaller, in
    its own proportions.

    Attributes:
        size: Its size in logical pixels, the caption included.
    """

    def __init__(self, picture: Picture, figure: Figure) -> None:
        self.picture, self.figure = picture, figure
        self.zoom = 1.0 if figure.points is None else figure.points / _window_points()
        own = picture.size()
        if figure.cm is None:
            self._below = self._caption_height(own.width(), 1 << 20)
            self.size = own + QSize(0, self._below)
        else:
            pixels = _screen_resolution() / _CM_PER_INCH / self.zoom
            self.size = QSize(*(max(2, round(length * pixels)) for length in figure.cm))
            self._below = self._caption_height(self.size.width(), self.size.height() // 2)
        room = self.size - QSize(0, self._below)
        self._laid_out = _layout(picture, room)
        self._inner = QSizeF(room)
        if self._laid_out is None:
            self._inner = QSizeF(own).scaled(QSizeF(room), Qt.AspectRatioMode.KeepAspectRatio)

    def _caption_height(self, width: int, most: int) -> int:
        """Return what the caption takes; its text is made smaller where that is too much."""
        self._font = text_font(TextSize.CAPTION)
        if not self.figure.caption:
            return 0
        line = QRect(0, 0, max(1, width - 2 * _EDGE), 1 << 20)
        while True:
            metrics = QFontMetrics(self._font)
            needed = metrics.boundingRect(line, _WRAPPED, self.figure.caption).height() + 2 * _EDGE
            pixels = QFontInfo(self._font).pixelSize()
            if needed <= most or pixels <= _LEAST_PIXELS:
                return min(needed, most)
            self._font.setPixelSize(pixels - 1)

    def paint(self, painter: QPainter, scale: float) -> None:
        """Draw it, one logical pixel being `scale` of the painter's."""
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        width, height = self._inner.width() * scale, self._inner.height() * scale
        area = QRectF((self.size.width() * scale - width) / 2, 0, width, height)
        if self._laid_out is not None and isinstance(self.picture, ThemedPlot | Chart):
            with self.picture.sized(self._laid_out):
                self.picture.paint_on_paper(painter, area)
        else:
            self.picture.paint_on_paper(painter, area)
        if self._below:
            painter.save()
            painter.scale(scale, scale)
            painter.setFont(self._font)
            painter.setPen(PlotColours.on_paper().text)
            top = self.size.height() - self._below
            line = QRectF(0, top, self.size.width(), self._below)
            painter.drawText(
                line.adjusted(_EDGE, _EDGE, -_EDGE, -_EDGE), _WRAPPED, self.figure.caption
            )
            painter.restore()


def _layout(picture: Picture, room: QSize) -> QSize | None:
    """Return the size to lay a picture out in: the room, or as much more of the same shape.

    None if it cannot be laid out in another size than its own.
    """
    if not isinstance(picture, ThemedPlot | Chart) or picture.size() == room:
        return None
    for step in range(_MOST_STEPS):
        size = (QSizeF(room) * _STEP**step).toSize()
        with picture.sized(size):
            if picture.size() == size:
                return size
    return None


_STEP: Final = 1.1
_MOST_STEPS: Final = 24  # up to 9 times the room
_LEAST_PIXELS: Final = 6  # of a caption's text
_EDGE: Final = 8  # pixels around the caption
_WRAPPED: Final = int(Qt.TextFlag.TextWordWrap | Qt.AlignmentFlag.AlignTop)


def _window_points() -> float:
    """Return the size of the window's text."""
    return QFontInfo(text_font(TextSize.BODY)).pixelSize() * _POINTS_PER_INCH / _screen_resolution()


_POINTS_PER_INCH: Final = 72.0


def _writer(sheet: _Sheet) -> Callable[[TextIO], object]:
    """Draw a picture; return what encodes and writes it."""
    suffix = sheet.figure.suffix
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
    size, resolution = sheet.size, _screen_resolution()
    dpi = sheet.figure.dpi
    scale = dpi / resolution * sheet.zoom if dpi else _SCALE
    scale = min(scale, math.sqrt(_MOST_DOTS / max(1, size.width() * size.height())))
    image = QImage((QSizeF(size) * scale).toSize(), QImage.Format.Format_RGB32)
    image.fill(Qt.GlobalColor.white)
    painter = QPainter(image)
    sheet.paint(painter, scale)
    painter.end()
    for set_dots in (image.setDotsPerMeterX, image.setDotsPerMeterY):  # else text grows with them
        set_dots(round(resolution * scale / sheet.zoom / _CM_PER_INCH * 100))
    return image


def _svg(sheet: _Sheet) -> bytes:
    size = (QSizeF(sheet.size) * sheet.zoom).toSize()
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    generator = QSvgGenerator()  # pyqtgraph's exporter fails with newer versions of Qt
    generator.setOutputDevice(buffer)
    generator.setSize(size)
    generator.setTitle(sheet.figure.caption)
    # pyqtgraph records axes as a QPicture, which Qt scales to the resolution of what it is drawn on
    generator.setResolution(_screen_resolution())
    generator.setViewBox(QRect(0, 0, size.width(), size.height()))
    painter = QPainter(generator)
    painter.fillRect(0, 0, size.width(), size.height(), Qt.GlobalColor.white)
    painter.scale(sheet.zoom, sheet.zoom)
    sheet.paint(painter, 1)
    painter.end()
    return bytes(buffer.data().data())


def _pdf(sheet: _Sheet) -> bytes:
    size, resolution = sheet.size, _screen_resolution()
    paper = QSizeF(size) * (sheet.zoom / resolution)  # inches
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    writer = QPdfWriter(buffer)
    writer.setTitle(sheet.figure.caption)
    writer.setCreator("GGUF Explorer")
    writer.setResolution(resolution)  # as in `_svg`
    writer.setPageMargins(QMarginsF(0, 0, 0, 0))
    writer.setPageSize(QPageSize(paper, QPageSize.Unit.Inch, "", _EXACTLY))
    painter = QPainter(writer)
    painter.scale(sheet.zoom, sheet.zoom)
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
