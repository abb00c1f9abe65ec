"""The panel of errors as a person uses it: choose a reference, look, cancel, choose another."""

from __future__ import annotations

import csv
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication, QLabel
from pytestqt.qtbot import QtBot

from explorer.analysis.blocks import block_statistics
from explorer.analysis.errors import pairs, pictures
from explorer.analysis.errors.compare import compare_tensors
from explorer.analysis.errors.pictures import ErrorPicture
from explorer.analysis.statistics import tensor_statistics
from explorer.analysis.tensor_map.draw import Quantity
from explorer.qt.compare.bar import OriginalChoice
from explorer.qt.compare.one_tensor import ALL, MOST
from explorer.qt.document import Document
from explorer.qt.main_window import MainWindow
from explorer.qt.references import Reference, Rounding
from explorer.qt.widgets.ranges import TYPED
from explorer.qt.widgets.table_model import ItemRole
from explorer.quantization import dequantize, quantize
from tests.helpers.error_views import ErrorsPanel
from tests.helpers.model_pairs import write_gguf
from tests.helpers.reading import AT_ONCE, Reading
from tests.helpers.services import RecordingServices
from tests.helpers.weight_files import huge_model
from tests.helpers.weight_views import drag, pixel
from tests.helpers.window import copied, wait_idle

KEY = Qt.Key
Load = Callable[[Path], Document]

UP, DOWN, NORM, ODD = "blk.0.ffn_up.weight", "blk.0.ffn_down.weight", "x.bias", "<b>odd</b>"


def _arrays() -> dict[str, np.ndarray]:
    random = np.random.default_rng(3)
    up = random.normal(0, 0.02, (64, 256)).astype(np.float32)
    up[3, 7] = 1.5
    return {
        UP: up,
        DOWN: random.normal(0, 0.02, (32, 512)).astype(np.float32),
        NORM: np.full(32, np.nan, np.float32),
        ODD: np.ones((2, 33), np.float32),
    }


class Panel(ErrorsPanel):
    """The pages of pictures."""

    @property
    def picture(self) -> ErrorPicture:
        assert self.view.pictures.picture is not None
        return self.view.pictures.picture

    def show(self, name: str, reference: Reference = None) -> None:
        self.select(name)
        self.references.choose(reference)
        self.settle()

    def figures(self) -> dict[str, object]:
        """Return the table beside the pictures."""
        model = self.view.pictures.table
        return {
            model.index(row, 0).data(ItemRole.RAW): model.index(row, 1).data(ItemRole.RAW)
            for row in range(model.rowCount())
        }


@pytest.fixture
def documents(load: Load, tmp_path: Path) -> list[Document]:
    arrays = _arrays()
    types = {UP: "Q4_K", DOWN: "Q4_1"}
    two = load(write_gguf(tmp_path / "two.gguf", "llama", arrays, types))
    arrays.pop(NORM)
    return [two, load(write_gguf(tmp_path / "one.gguf", "llama", arrays))]


@pytest.fixture
def panel(qtbot: QtBot, app: RecordingServices, documents: list[Document]) -> Panel:
    return Panel(qtbot, app, documents)


@pytest.fixture
def huge(qtbot: QtBot, app: RecordingServices, load: Load, tmp_path: Path) -> Panel:
    """A panel of two tensors of 16 GiB each, and the same once more to compare with."""
    paths = [huge_model(tmp_path / f"{n}.gguf", 1 << 32, tensors=2) for n in range(2)]
    return Panel(qtbot, app, [load(path) for path in paths])


def _begin(huge: Panel, name: str = UP) -> None:
    """Compare a huge tensor, and wait until something is shown of it."""
    huge.select(name)
    huge.references.choose(huge.documents[1])
    pictures = lambda: huge.view and huge.view.pictures  # noqa: E731 - made in between
    huge.qtbot.waitUntil(lambda: bool(pictures() and pictures().picture))


def test_says_what_to_do_where_there_is_nothing_to_show(panel: Panel) -> None:
    assert panel.view.state.heading.text() == "Select a tensor"
    panel.view.show_document(None)
    assert "Open a model" in panel.view.state.sentence.text()


def test_another_model_is_chosen_from_the_list_and_compared(qtbot: QtBot, panel: Panel) -> None:
    panel.select(UP)
    panel.settle()
    bar = OriginalChoice(panel.references)
    qtbot.addWidget(bar)
    chooser = bar.list
    place = chooser.findText("one.gguf")
    chooser.setCurrentIndex(place)
    chooser.activated.emit(place)
    panel.settle()
    one, two = (document.model.tensors[UP] for document in reversed(panel.documents))
    found = compare_tensors(one, two)
    shown = panel.figures()
    for name in ("rmse", "relative_rmse", "sqnr_db", "max_abs_error", "mean_error", "equal"):
        assert shown[name] == getattr(found, name), name
    assert shown["saturated_codes"] == found.saturated_codes
    assert shown["percentile_99"] == found.percentiles[99.0]
    header = panel.view.header
    assert header.name.text() == UP
    assert header.facts.text().startswith("Q4_K against F32   ·   64 × 256")
    assert panel.view.pictures.weights.isVisible()


def test_the_pictures_hold_what_numpy_counts(panel: Panel) -> None:
    panel.show(UP, panel.documents[1])
    reference = _arrays()[UP].reshape(-1)
    candidate = dequantize(quantize(reference, "Q4_K"), "Q4_K")
    pages = panel.view.pictures
    pages.weights.range.list.setCurrentIndex(ALL)
    one, two = pages.weights.panel.plot.curves
    for curve, values in ((one, reference), (two, candidate)):
        wanted = np.histogram(values.astype(np.float64), curve.histogram.edges)[0]
        assert curve.histogram.counts.tolist() == wanted.tolist()
        assert curve.outside == 0
    assert "F32" in one.name
    assert "Q4_K" in two.name
    pages.weights.range.list.setCurrentIndex(MOST)
    assert pages.weights.panel.plot.curves[0].histogram.high < 0.2  # without the outlier
    assert "with a weight outside" in pages.weights.title.text()
    panel.click_tab(pages.errors)
    pages.errors.range.list.setCurrentIndex(ALL)
    curve = pages.errors.panel.plot.curves[0]
    wanted = np.histogram((candidate - reference).astype(np.float64), curve.histogram.edges)[0]
    assert curve.histogram.counts.tolist() == wanted.tolist()
    panel.click_tab(pages.density)
    columns = dict(pages.density.panel.plot.data_columns())
    assert sum(columns["count"]) + panel.picture.most_pairs.outside == reference.size
    pages.density.range.list.setCurrentIndex(ALL)
    assert sum(dict(pages.density.panel.plot.data_columns())["count"]) == reference.size


def test_a_typed_range_is_shown(panel: Panel) -> None:
    panel.show(UP, panel.documents[1])
    for page in panel.view.pictures.pages:
        panel.click_tab(page)
        page.range.list.setCurrentIndex(page.range.list.findData(TYPED))
        assert page.range.edges.isVisible()
        for edit, text in ((page.range.edges.low, "-0.01"), (page.range.edges.high, "0.02")):
            edit.selectAll()
            panel.qtbot.keyClicks(edit, text)
        panel.qtbot.keyClick(page.range.edges.high, Qt.Key.Key_Return)
        shown = page.panel.plot.box.viewRect()
        if page.noun == "density":  # stays square, so there may be more beside it
            assert shown.left() <= -0.01 < 0.02 <= shown.right()
        else:
            assert shown.left() == pytest.approx(-0.01, abs=1e-3)
            assert shown.right() == pytest.approx(0.02, abs=1e-3)
        page.range.list.setCurrentIndex(ALL)
        assert not page.range.edges.isVisible()
        assert page.panel.plot.box.viewRect().width() > 0.03
    page.range.list.setCurrentIndex(page.range.list.findData(TYPED))
    page.range.edges.low.setText("3")
    page.range.edges.high.setText("2")
    page.range.edges.changed.emit()
    assert "must be less" in page.title.text()


def test_rounding_to_a_type_is_compared(panel: Panel) -> None:
    panel.show(DOWN, Rounding("Q8_0"))
    shown = panel.figures()
    assert shown["count"] == 32 * 512
    assert 30 < float(str(shown["sqnr_db"])) < 80
    assert 0 < float(str(shown["saturated_codes"])) < 0.2
    assert panel.view.header.facts.text().startswith("Q8_0 against Q4_1")


def test_what_cannot_be_compared_says_why(panel: Panel) -> None:
    panel.show(ODD, Rounding("Q8_0"))
    page = panel.view.pictures.weights
    assert page.state.isVisible()
    assert page.state.heading.text() == "Not comparable"
    assert "not a whole number of blocks of 32" in page.state.sentence.text()
    assert "<b>" in page.state.sentence.text()  # shown as it is
    panel.show(NORM, panel.documents[1])
    assert "no tensor that matches" in page.state.sentence.text()
    panel.show(NORM, Rounding("BF16"))
    assert "No weight is finite" in page.state.sentence.text()


def test_without_a_reference_the_blocks_tell_what_they_imply(panel: Panel) -> None:
    panel.show(UP)
    tensor = panel.documents[0].model.tensors[UP]
    blocks = block_statistics(tensor)
    assert blocks is not None
    page = panel.view.rounding
    assert page.table.isVisible()
    assert page.expected is not None
    assert page.expected.rms == pytest.approx(tensor_statistics(tensor).step_error_rms, rel=1e-12)
    assert page.expected.zeros == blocks.code_counts[blocks.levels == 0].sum() / tensor.parameters
    assert page.expected.minima == blocks.minima.moments  # type: ignore[union-attr]
    assert "No original is chosen" in page.hint.text()
    panel.show(ODD)
    assert page.state.heading.text() == "Not quantized"
    assert "<b>odd</b> is stored as F32" in page.state.sentence.text()


def test_a_reference_chosen_or_taken_away_changes_the_page_once(panel: ErrorsPanel) -> None:
    panel.select(DOWN)
    panel.settle()
    assert panel.view.rounding.isVisible()
    shown: list[int] = []
    panel.view.tabs.currentChanged.connect(shown.append)
    panel.references.choose(Rounding("Q4_0"))
    panel.settle()
    panel.references.choose(None)
    panel.settle()
    pages = panel.view.pictures.weights, panel.view.rounding
    assert shown == [panel.view.place_of(page) for page in pages]


def test_tabs_follow_the_choice(panel: Panel) -> None:
    panel.show(UP)
    tabs = panel.view.tabs
    shown = lambda: [tabs.tabText(i) for i in range(tabs.count()) if tabs.isTabVisible(i)]  # noqa: E731
    assert shown() == ["Rounding"]
    panel.references.choose(Rounding("Q4_0"))
    panel.settle()
    assert shown() == ["Weights", "Error", "Density", "Map"]
    panel.click_tab(panel.view.pictures.density)
    panel.references.choose(Rounding("Q8_0"))
    panel.settle()
    assert panel.view.pictures.density.isVisible()  # who looks there goes on looking there
    panel.click_tab(panel.view._map)
    panel.qtbot.waitUntil(lambda: bool(panel.view.map.plot.layers) and not panel.runner.jobs)
    assert panel.view.map.controls.quantity is Quantity.RELATIVE_ERROR
    panel.references.choose(None)
    panel.settle()
    assert panel.view.rounding.isVisible()


def test_figures_can_be_copied(qtbot: QtBot, panel: Panel) -> None:
    panel.show(UP, Rounding("Q4_0"))
    table = panel.view.pictures.weights.panel.table
    table.setFocus()
    table.selectAll()
    text = copied(
        qtbot, lambda: qtbot.keyClick(table, KEY.Key_C, Qt.KeyboardModifier.ControlModifier)
    )
    assert f"rmse\t{panel.picture.metrics.rmse!r}" in text


def test_the_cursor_reads_cells_with_mouse_and_keys(qtbot: QtBot, panel: Panel) -> None:
    panel.show(UP, Rounding("Q4_0"))
    panel.click_tab(panel.view.pictures.density)
    density = panel.view.pictures.density.panel
    plot, square = density.plot, panel.picture.most_pairs
    row, column = np.unravel_index(int(square.counts.argmax()), square.counts.shape)
    middle = (square.edges[:-1] + square.edges[1:]) / 2
    place = pixel(plot, middle[column], middle[row])
    qtbot.mouseMove(plot.viewport(), place + QPoint(40, 0))
    drag(plot, place, place)
    count = int(square.counts[row, column])
    assert f"{count:,} weights" in density.readout.text()
    assert "reference" in density.readout.text()
    plot.setFocus()
    qtbot.keyClick(plot, KEY.Key_Up)
    count = int(square.counts[row + 1, column])
    assert f"{count:,} weights" in density.readout.text()
    qtbot.keyClick(plot, KEY.Key_Left, Qt.KeyboardModifier.ControlModifier)
    count = int(square.counts[row + 1, max(0, column - 10)])
    assert f"{count:,} weights" in density.readout.text()
    QApplication.sendEvent(plot, QEvent(QEvent.Type.Leave))
    assert density.readout.text() == density.resting


def test_the_density_keeps_its_shape_and_zooms_along_both_axes(qtbot: QtBot, panel: Panel) -> None:
    panel.show(UP, Rounding("Q4_0"))
    panel.click_tab(panel.view.pictures.density)
    plot = panel.view.pictures.density.panel.plot
    qtbot.wait(1)

    def unit() -> tuple[float, float]:
        area = plot.box.viewRect()
        return area.width() / plot.box.width(), area.height() / plot.box.height()

    assert unit()[0] == pytest.approx(unit()[1])
    before = unit()[0]
    plot.setFocus()
    qtbot.keyClick(plot, KEY.Key_Plus)
    assert unit()[0] == pytest.approx(before / 1.5, rel=0.01)
    assert unit()[0] == pytest.approx(unit()[1])
    centre = plot.box.viewRect().center()
    start = pixel(plot, centre.x(), centre.y())
    drag(plot, start, start + QPoint(60, 60))
    assert unit()[0] < before / 2
    qtbot.keyClick(plot, KEY.Key_Backspace)
    qtbot.keyClick(plot, KEY.Key_Home)
    assert unit()[0] == pytest.approx(before)
    assert not plot.box.is_zoomed


def test_pictures_are_saved_with_the_data_behind_them(
    qtbot: QtBot, panel: Panel, tmp_path: Path
) -> None:
    panel.show(UP, Rounding("Q4_0"))
    pages = panel.view.pictures
    for page in pages.pages:
        panel.click_tab(page)
        for suffix in ("png", "svg", "csv"):
            path = tmp_path / f"{page.panel.file_name}.{suffix}"
            page.panel.export.save(page.panel.picture, path)
            qtbot.waitUntil(lambda path=path: panel.app.written[-1:] == [str(path)])
        image = QImage(str(path.with_suffix(".png")))
        assert image.pixelColor(1, 1).name() == "#ffffff"
        assert b"<svg" in path.with_suffix(".svg").read_bytes()
    with (tmp_path / f"{UP}-density.csv").open() as stream:
        lines = list(csv.DictReader(stream))
    assert sum(int(line["count"]) for line in lines) == panel.picture.most_pairs.inside
    assert float(lines[0]["reference_low"]) < float(lines[0]["reference_high"])
    with (tmp_path / f"{UP}-weights.csv").open() as stream:
        header = next(csv.reader(stream))
    assert header[:2] == ["low", "high"]
    assert "reference, Q4_K" in header[2]


def test_coming_back_reads_nothing(panel: Panel) -> None:
    panel.show(UP, Rounding("Q4_0"))
    first = panel.picture
    panel.show(DOWN, Rounding("Q4_0"))
    assert panel.picture is not first
    panel.select(UP)
    assert panel.picture is first
    assert not panel.runner.jobs


def test_of_several_tensors_the_first_is_shown_and_said_so(panel: Panel) -> None:
    panel.show(UP, Rounding("Q4_0"))
    panel.select(DOWN, UP)
    panel.settle()
    assert panel.view.header.name.text() == DOWN
    assert "the first of 2 selected tensors" in panel.view.header.facts.text()


def test_the_pictures_grow_while_a_large_tensor_is_read(qtbot: QtBot, huge: Panel) -> None:
    _begin(huge)
    seen = huge.picture.done
    assert 0 < seen < 1 << 32
    assert not huge.picture.complete
    qtbot.waitUntil(lambda: huge.picture.done > seen)
    shown = huge.figures()
    assert shown["percentile_50"] is None  # not known before the end
    assert shown["rmse"] == 0
    assert huge.view.pictures.weights.panel.plot.curves[0].total == huge.picture.done
    huge.view.cancel()
    huge.settle()


@pytest.mark.parametrize("way", ["escape", "button"])
def test_a_cancel_ends_the_reading_at_once(
    reading: Reading, qtbot: QtBot, huge: Panel, way: str
) -> None:
    _begin(huge)
    page, progress = huge.view.pictures.weights, huge.view.progress
    if way == "escape":
        page.panel.plot.setFocus()
        qtbot.keyClick(page.panel.plot, KEY.Key_Escape)
    else:
        qtbot.mouseClick(progress.button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: not huge.runner.jobs)
    assert reading.since_cancel <= AT_ONCE
    assert not [one for one in threading.enumerate() if one.name.startswith("analysis")]
    assert "Cancelled" in progress.label.text()
    assert page.panel.plot.curves  # what was read stays
    qtbot.mouseClick(progress.button, Qt.MouseButton.LeftButton)
    assert huge.view.pictures.busy
    huge.view.cancel()
    huge.settle()


def test_closing_the_reference_or_the_model_meanwhile_ends_the_reading(huge: Panel) -> None:
    _begin(huge)
    job = huge.runner.jobs[0]
    huge.references.set_documents(huge.documents[:1])
    assert job.cancelled
    assert huge.view.rounding.isVisible()
    huge.settle()
    huge.references.set_documents(huge.documents)
    _begin(huge)
    job = huge.runner.jobs[0]
    huge.references.show_document(None)
    huge.view.show_document(None)
    assert job.cancelled
    assert huge.view.state.isVisible()
    huge.settle()


def test_it_says_what_weight_errors_do_not_show(panel: Panel) -> None:
    panel.show(UP)
    texts = [label.text() for label in panel.view.findChildren(QLabel)]
    assert sum("does not by itself predict the quality" in text for text in texts) == 1


def test_in_the_window_the_tree_selects_and_a_reference_may_be_closed(
    qtbot: QtBot, make_window: Callable[..., MainWindow], tmp_path: Path
) -> None:
    arrays = _arrays()
    paths = [
        write_gguf(tmp_path / "one.gguf", "llama", arrays),
        write_gguf(tmp_path / "two.gguf", "llama", arrays, {UP: "Q4_K", DOWN: "Q4_1"}),
    ]
    window = make_window(*paths)
    reference, document = window.documents
    window.panels.setCurrentWidget(window.panels.errors)
    for name in (UP, DOWN):
        row = document.model.tensors.row_of(name)
        assert row is not None
        window.reveal_tensor(document, row)
        assert window.panels.currentWidget() is window.panels.errors
        wait_idle(qtbot, window)
    view = window.panels.errors.widget
    body = view
    assert body is not None
    window.panels.references.choose(reference)
    qtbot.waitUntil(lambda: body.pictures.picture is not None)
    wait_idle(qtbot, window)
    assert body.header.name.text() == DOWN
    window.close_document(reference)
    wait_idle(qtbot, window)
    assert body.rounding.isVisible()
    window.close_document(document)
    assert view.state.heading.text() == "One tensor"


def test_what_was_read_once_is_not_read_at_the_next_start(
    panel: Panel,
    qtbot: QtBot,
    app: RecordingServices,
    documents: list[Document],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    panel.show(UP, documents[1])
    first = panel.figures()

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("weights are read")

    monkeypatch.setattr(pairs, "walk_pairs", fail)
    monkeypatch.setattr(pictures, "walk_pairs", fail)
    again = Panel(qtbot, app, documents)
    again.show(UP, documents[1])
    assert again.figures() == first
    assert again.view.pictures.weights.isVisible()
