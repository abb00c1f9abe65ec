"""Save a plot: PNG and SVG on white paper, and the data behind the picture as CSV.

The picture is drawn on the GUI thread, which Qt demands; encoding and writing happen in a job.
pyqtgraph's own SVG exporter fails with newer versions of Qt (stack.md section 1), so Qt's is used.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, Protocol

from PySide6.QtCore import QBuffer, QCoreApplication, QIODevice, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QGuiApplication, QImage, QPainter
from PySide6.QtSvg import QSvgGenerator

from explorer.qt.jobs import Job
from explorer.qt.views.saving import FileSaver, file_name
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


class PlotExport(FileSaver):
    """Saves plots, and tells how that went; see `FileSaver`."""

    def ask(self, picture: Picture, name: str) -> None:
        """Ask for a file, and save the picture or its data into it."""
        kinds = {_tr("PNG picture"): ".png", _tr("SVG picture"): ".svg", _tr("Data"): ".csv"}
        path = self.ask_path(_tr("Save picture or data"), file_name(name, "plot"), kinds)
        if path is not None:
            self.save(picture, path)

    def save(self, picture: Picture, path: Path) -> Job:
        """Save in the background, in the format that the name's suffix says, or as PNG."""
        suffix = path.suffix.lower()
        if suffix == ".csv":
            work = _csv_writer(picture.data_columns(), path)
        elif suffix == ".svg":
            work = _bytes_writer(_svg(picture), path)
        else:
            work = _png_writer(_image(picture), path)
        return self.write(_tr("Saving {name}").format(name=path.name), path, work)


def _tr(text: str) -> str:
    return QCoreApplication.translate("PlotExport", text)


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
    generator = QSvgGenerator()
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


def _png_writer(image: QImage, path: Path) -> Callable[[Job], None]:
    def write(job: Job) -> None:
        buffer = QBuffer()
        buffer.open(QIODevice.OpenModeFlag.WriteOnly)
        image.save(buffer, "PNG")  # type: ignore[call-overload] # the stub wants bytes
        _bytes_writer(bytes(buffer.data().data()), path)(job)

    return write


def _bytes_writer(content: bytes, path: Path) -> Callable[[Job], None]:
    def write(_job: Job) -> None:
        with write_atomically(path) as stream:
            stream.buffer.write(content)

    return write


def _csv_writer(columns: list[tuple[str, list[Any]]], path: Path) -> Callable[[Job], None]:
    def write(_job: Job) -> None:
        names = [name for name, _ in columns]
        with write_atomically(path) as stream:
            write_csv(stream, names, zip_longest(*(values for _, values in columns)))

    return write
