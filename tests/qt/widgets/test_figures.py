"""Pictures and data of plots in files: white paper, whatever the window's colours are."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PySide6.QtCore import QPointF, QSize, Qt
from PySide6.QtGui import QColor, QGuiApplication, QImage, QPalette
from PySide6.QtWidgets import QFileDialog, QWidget
from pytestqt.qtbot import QtBot

from explorer.qt.widgets.curves import HistogramCurve, SmallMultiples, histogram_of
from explorer.qt.widgets.figures import Figure, FigureDialog, PlotExport
from explorer.qt.widgets.histogram_plot import MOST_FILLED, HistogramPlot
from tests.helpers.services import RecordingServices

WHITE = QColor("white")


def curves(count: int) -> tuple[HistogramCurve, ...]:
    edges = np.linspace(-1, 1, 5)
    return tuple(
        HistogramCurve(f"=t{n}", n, histogram_of(edges, np.array([n, 5, 3, 1])), 20, 0, 1, -1, 1)
        for n in range(count)
    )


@pytest.fixture(params=[HistogramPlot, SmallMultiples])
def picture(request: pytest.FixtureRequest, qtbot: QtBot) -> HistogramPlot | SmallMultiples:
    plot = request.param()
    qtbot.addWidget(plot)
    plot.resize(500, 300)
    palette = QPalette(plot.palette())
    palette.setColor(QPalette.ColorRole.Window, QColor("#101010"))
    palette.setColor(QPalette.ColorRole.Text, QColor("#eeeeee"))
    plot.setPalette(palette)
    plot.show_curves(curves(2))
    plot.show()
    qtbot.waitExposed(plot)
    return plot  # type: ignore[no-any-return]


@pytest.fixture
def export(qtbot: QtBot, app: RecordingServices) -> PlotExport:
    parent = QWidget()
    qtbot.addWidget(parent)
    return PlotExport(app, parent)


def test_png_is_twice_as_fine_and_white(
    qtbot: QtBot, export: PlotExport, picture: HistogramPlot, tmp_path: Path, app: RecordingServices
) -> None:
    path = tmp_path / "plot.png"
    export.save(picture, path)
    qtbot.waitUntil(lambda: app.written == [str(path)])
    image = QImage(str(path))
    assert (image.width(), image.height()) == (1000, 600)
    for place in ((1, 1), (998, 1), (1, 598), (998, 598)):
        assert image.pixelColor(*place) == WHITE
    colours = {image.pixelColor(x, y).rgb() for x in range(0, 1000, 7) for y in range(0, 600, 7)}
    assert len(colours) > 5
    assert picture.grab().toImage().pixelColor(2, 2) == QColor("#101010")  # the window's stays


def test_svg_is_well_formed_and_white(
    qtbot: QtBot, export: PlotExport, picture: HistogramPlot, tmp_path: Path, app: RecordingServices
) -> None:
    path = tmp_path / "plot.svg"
    export.save(picture, path)
    qtbot.waitUntil(lambda: app.written == [str(path)])
    root = ElementTree.parse(path).getroot()
    assert root.tag.endswith("svg")
    assert root.get("viewBox") == "0 0 500 300"
    text = path.read_text()
    assert "#ffffff" in text
    assert "#101010" not in text


def test_csv_holds_edges_and_counts(
    qtbot: QtBot, export: PlotExport, picture: HistogramPlot, tmp_path: Path, app: RecordingServices
) -> None:
    path = tmp_path / "plot.csv"
    export.save(picture, path)
    qtbot.waitUntil(lambda: app.written == [str(path)])
    with path.open() as stream:
        rows = list(csv.reader(stream))
    assert rows[0] == ["low", "high", "count =t0", "count =t1"]
    assert rows[1] == ["-1.0", "-0.5", "0", "1"]
    assert len(rows) == 5


def test_a_place_that_cannot_be_written_is_told_of(
    qtbot: QtBot, export: PlotExport, picture: HistogramPlot, tmp_path: Path, app: RecordingServices
) -> None:
    for suffix in ("png", "svg", "csv"):
        export.save(picture, tmp_path / "missing" / f"plot.{suffix}")
    qtbot.waitUntil(lambda: len(app.errors) == 3)
    assert all("cannot be written" in str(error) for error in app.errors)
    assert {path.name for path in tmp_path.iterdir()} <= {"cache"}


def test_the_dialog_suggests_a_name_that_a_file_can_have(
    *,
    qtbot: QtBot,
    export: PlotExport,
    picture: HistogramPlot,
    tmp_path: Path,
    app: RecordingServices,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    suggested: list[str] = []

    def choose(_parent: QWidget, _title: str, name: str, kinds: str, *_: object) -> tuple[str, str]:
        suggested.append(name)
        return str(tmp_path / "typed.v2"), kinds.split(";;")[1]

    monkeypatch.setattr(QFileDialog, "getSaveFileName", choose)

    def ask(name: str) -> None:
        export.ask(picture, name)
        (dialog,) = export.parent.findChildren(FigureDialog)
        dialog.accept()
        qtbot.waitUntil(lambda: not export.parent.findChildren(FigureDialog))

    ask("../blk.0/<b>" + "n" * 200)
    qtbot.waitUntil(lambda: bool(app.written))
    assert app.written == [str(tmp_path / "typed.v2.svg")]
    assert "/" not in suggested[0]
    assert len(suggested[0]) < 90
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: ("", ""))
    ask("plot")
    assert len(app.written) == 1


class Page(QWidget):
    """A page that knows what its pictures are of, as the window's do."""

    def picture_caption(self) -> str:
        return "a model   ·   blk.0.ffn_down.weight   ·   Q4_K"


@pytest.fixture
def captioned(qtbot: QtBot, app: RecordingServices) -> Iterator[PlotExport]:
    page = Page()
    qtbot.addWidget(page)
    yield PlotExport(app, QWidget(page))
    page.deleteLater()


def test_a_saved_picture_has_a_caption_and_no_hover_line(
    qtbot: QtBot, captioned: PlotExport, tmp_path: Path, app: RecordingServices
) -> None:
    plot = HistogramPlot()
    qtbot.addWidget(plot)
    plot.resize(500, 300)
    plot.show_curves(curves(1))
    plot.show()
    qtbot.waitExposed(plot)

    def saved(name: str) -> bytes:
        captioned.save(plot, tmp_path / name)
        qtbot.waitUntil(lambda: app.written[-1:] == [str(tmp_path / name)])
        return (tmp_path / name).read_bytes()

    saved("first.svg")  # pyqtgraph lays its axes out while it draws them
    before = saved("before.svg")
    place = plot.mapFromScene(plot.box.mapViewToScene(QPointF(0.25, 2)))
    qtbot.mouseMove(plot.viewport(), place)
    qtbot.waitUntil(lambda: bool(plot.readings(0.25)) and plot.pointers()[0].isVisible())
    assert saved("after.svg") == before
    assert plot.pointers()[0].isVisible()  # in the window it stays
    assert b"blk.0.ffn_down.weight" in before
    image = QImage()
    image.loadFromData(saved("plot.png"))
    assert (image.width(), image.height()) == (1000, 656)
    line = {image.pixelColor(x, y).rgb() for x in range(1000) for y in range(604, 652)}
    assert len(line) > 3  # something is written there


@pytest.mark.parametrize("points", [6.0, 12.0])
@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_every_format_has_the_size_that_was_chosen(
    *,
    qtbot: QtBot,
    captioned: PlotExport,
    picture: HistogramPlot | SmallMultiples,
    tmp_path: Path,
    app: RecordingServices,
    suffix: str,
    points: float,
) -> None:
    path = tmp_path / f"plot{suffix}"
    captioned.save(
        picture, path, Figure(suffix, (8.5, 6.0), points, 300, "" if points < 9 else "x")
    )
    qtbot.waitUntil(lambda: app.written == [str(path)])
    assert picture.size() == QSize(500, 300)  # the window's picture keeps its size
    raw = path.read_bytes()
    if suffix == ".pdf":
        box = re.search(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)", raw)
        assert box is not None
        width, height = (float(number) / 72 * 2.54 for number in box.groups())
    elif suffix == ".svg":
        found = re.search(rb'width="([\d.]+)mm" height="([\d.]+)mm"', raw)
        assert found is not None
        width, height = (float(number) / 10 for number in found.groups())
    else:
        image = QImage(str(path))
        assert image.dotsPerMeterX() == pytest.approx(300 / 0.0254, rel=0.01)
        width, height = image.width() / 300 * 2.54, image.height() / 300 * 2.54
    assert width == pytest.approx(8.5, abs=0.1)
    assert height == pytest.approx(6, abs=0.1)  # whether there is a caption or not


def test_lines_and_legend_are_as_large_on_paper_at_any_resolution(
    qtbot: QtBot, export: PlotExport, tmp_path: Path, app: RecordingServices
) -> None:
    plot = HistogramPlot()
    qtbot.addWidget(plot)
    plot.show_curves(curves(MOST_FILLED + 1))  # lines alone
    shares = []
    for dpi in (150, 300, 600):
        path = tmp_path / f"{dpi}.png"
        export.save(plot, path, Figure(".png", (8.5, 6.0), 8.0, dpi))
        qtbot.waitUntil(lambda path=path: str(path) in app.written)
        image = QImage(str(path)).convertToFormat(QImage.Format.Format_Grayscale8)
        pixels = np.frombuffer(image.constBits(), np.uint8).reshape(image.height(), -1)
        shares.append(float((255.0 - pixels[:, : image.width()]).mean()))
    assert shares == pytest.approx([shares[-1]] * 3, rel=0.15)  # how black the paper is


def test_the_dialog_asks_for_size_text_and_caption(qtbot: QtBot, picture: HistogramPlot) -> None:
    dialog = FigureDialog(picture, "two models")
    qtbot.addWidget(dialog)
    first = dialog.figure()
    assert (first.suffix, first.dpi, first.caption) == (".png", 300, "two models")
    assert first.cm is not None
    assert first.cm[0] == pytest.approx(500 / dialog.logicalDpiX() * 2.54, abs=0.05)
    dialog.preset.setCurrentIndex(1)
    dialog.format.setCurrentText("PDF picture")
    dialog.wants_caption.setChecked(False)
    assert dialog.figure() == Figure(".pdf", (8.5, 5.5), 8.0, 300, "")
    assert not dialog.dpi.isEnabled()
    dialog.format.setCurrentText("Data")
    assert not dialog.width_cm.isEnabled()


def test_a_picture_is_copied(qtbot: QtBot, captioned: PlotExport, picture: HistogramPlot) -> None:
    picture.copy_requested.connect(lambda: captioned.copy(picture))
    clipboard = QGuiApplication.clipboard()
    clipboard.clear()
    picture.setFocus()
    modifiers = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
    picture.activateWindow()
    qtbot.waitUntil(picture.isActiveWindow)
    qtbot.keyClick(picture, Qt.Key.Key_C, modifiers)
    qtbot.waitUntil(lambda: not clipboard.image().isNull())
    assert clipboard.image().size() == QSize(1000, 656)
