"""The weights panel as a person uses it: select, look, change the view, cancel, come back."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QByteArray, Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from explorer.analysis.blocks import block_statistics
from explorer.analysis.statistics import tensor_statistics
from explorer.qt.document import Document
from explorer.qt.weights.curves import RangeKind
from explorer.qt.weights.tensor_panel import Scope
from explorer.qt.widgets.lazy import LazyTab
from explorer.qt.widgets.ranges import TYPED
from explorer.qt.widgets.table_model import ItemRole
from tests.helpers.reading import AT_ONCE, Reading
from tests.helpers.services import RecordingServices
from tests.helpers.weight_files import LAYERS, huge_model, layer_weights, weights_model
from tests.helpers.weight_views import Panel
from tests.helpers.window import copied

KEY = Qt.Key
Load = Callable[[Path], Document]


@pytest.fixture
def document(load: Load, tmp_path: Path) -> Document:
    return load(weights_model().write(tmp_path / "weights.gguf"))


@pytest.fixture
def panel(qtbot: QtBot, app: RecordingServices, document: Document) -> Panel:
    return Panel(qtbot, app, document)


@pytest.fixture
def huge(qtbot: QtBot, app: RecordingServices, load: Load, tmp_path: Path) -> Panel:
    """A panel of two tensors of 16 GiB each."""
    return Panel(qtbot, app, load(huge_model(tmp_path / "huge.gguf", 1 << 32, tensors=2)))


def test_says_what_to_do_where_there_is_nothing_to_show(
    qtbot: QtBot, panel: Panel, document: Document
) -> None:
    assert panel.view.state.heading.text() == "Select a tensor"
    panel.show("norm.weight")
    assert not panel.view.state.isVisible()
    panel.view.show_document(None)
    assert panel.view.state.isVisible()
    assert "Open a model" in panel.view.state.sentence.text()
    panel.view.show_document(document)
    assert panel.view.state.heading.text() == "Select a tensor"


def test_the_table_shows_the_statistics_of_the_analysis(panel: Panel, document: Document) -> None:
    panel.show("blk.2.attn_q.weight")
    expected = tensor_statistics(document.model.tensors["blk.2.attn_q.weight"])
    shown = panel.statistics()
    for name in ("count", "finite", "nan", "zeros", "min", "max", "mean", "std", "rms"):
        assert shown[name] == getattr(expected, name), name
    for percent, value in expected.percentiles.items():
        assert shown[f"percentile_{percent:g}"] == pytest.approx(value, abs=0.01), percent
    header = panel.view.header
    assert header.name.text() == "blk.2.attn_q.weight"
    assert "6,144 weights" in header.facts.text()


def test_statistics_can_be_copied_and_exported(qtbot: QtBot, panel: Panel, tmp_path: Path) -> None:
    panel.show("blk.2.attn_q.weight")
    table = panel.view.histogram.panel.table
    table.selectAll()
    text = copied(qtbot, table.copy_rows)
    assert "mean\t" in text
    assert f"count\t{96 * 64}" in text
    path = tmp_path / "statistics.csv"
    table.export(path)
    qtbot.waitUntil(lambda: panel.app.written == [str(path)])
    assert path.read_text().startswith("statistic,value\ncount,6144\n")


def test_typing_bins_and_choosing_a_range_change_the_counts(qtbot: QtBot, panel: Panel) -> None:
    panel.show("blk.1.attn_q.weight")
    page, weights = panel.view.histogram, layer_weights(1)
    assert page.plot.curves[0].histogram.high < 1  # the outlier flattens nothing at first
    bins = page.controls.bins
    bins.setFocus()
    bins.selectAll()
    qtbot.keyClicks(bins, "40")
    page.controls.range.list.setCurrentIndex(1)
    qtbot.waitUntil(lambda: len(page.plot.curves[0].histogram.counts) == 40)
    panel.settle()
    counts = page.plot.curves[0].histogram.counts
    assert counts.tolist() == np.histogram(weights, 40)[0].tolist()
    page.controls.range.list.setCurrentIndex(2)
    low, high = page.controls.range.edges.low, page.controls.range.edges.high
    for edit, text in ((low, "-0.02"), (high, "0.04")):
        edit.selectAll()
        qtbot.keyClicks(edit, text)
    qtbot.keyClick(high, KEY.Key_Return)
    panel.settle()
    wanted = np.histogram(weights, 40, (-0.02, 0.04))[0].tolist()
    assert page.plot.curves[0].histogram.counts.tolist() == wanted
    assert page.panel.readout.text().endswith("%) outside")


@pytest.mark.parametrize(
    ("low", "high", "sentence"),
    [
        ("0.5", "0.5", "must be less"),
        ("", "1", "Type two numbers"),
        ("1", "1.000000000000001", "too narrow"),
    ],
)
def test_a_range_that_cannot_be_is_refused_in_words(
    qtbot: QtBot, panel: Panel, low: str, high: str, sentence: str
) -> None:
    panel.show("norm.weight")
    page = panel.view.histogram
    before = page.plot.curves
    page.controls.range.list.setCurrentIndex(2)
    for edit, text in (
        (page.controls.range.edges.low, low),
        (page.controls.range.edges.high, high),
    ):
        edit.selectAll()
        qtbot.keyClick(edit, KEY.Key_Delete)
        qtbot.keyClicks(edit, text)
    qtbot.keyClick(page.controls.range.edges.high, KEY.Key_Return)
    qtbot.waitUntil(lambda: sentence in page.note.text())
    panel.settle()
    assert page.plot.curves[0].histogram.counts.sum() == before[0].histogram.counts.sum()
    page.controls.range.list.setCurrentIndex(1)
    panel.settle()
    assert not page.note.isVisible()


def test_a_tensor_seen_before_is_there_at_once(
    qtbot: QtBot, app: RecordingServices, panel: Panel
) -> None:
    panel.show("blk.1.attn_q.weight")
    first = panel.statistics()
    panel.show("blk.2.attn_q.weight")
    assert panel.statistics() != first
    jobs: list[object] = []
    app.runner.started.connect(jobs.append)
    panel.select("blk.1.attn_q.weight")
    assert panel.statistics() == first
    assert panel.result.exact
    assert jobs == []


def test_the_histogram_grows_and_shows_its_pace(huge: Panel) -> None:
    page = huge.begin("blk.0.ffn_up.weight")
    huge.qtbot.waitUntil(lambda: page.result is not None)
    seen = huge.result.curves[0].total
    assert 0 < seen < 1 << 32
    huge.qtbot.waitUntil(lambda: huge.result.curves[0].total > seen)
    huge.qtbot.waitUntil(lambda: "weights/s" in page.progress.label.text())
    assert "B/s" in page.progress.label.text()
    shown = huge.statistics()
    assert isinstance(shown["count"], int)
    assert shown["percentile_50"] is None  # not known before the end
    huge.view.cancel()
    huge.settle()


@pytest.mark.parametrize("way", ["escape", "button"])
def test_a_cancel_ends_the_reading_at_once(
    reading: Reading, qtbot: QtBot, app: RecordingServices, huge: Panel, way: str
) -> None:
    page = huge.begin("blk.0.ffn_up.weight")
    qtbot.waitUntil(lambda: page.result is not None)
    if way == "escape":
        page.plot.setFocus()
        qtbot.keyClick(page.plot, KEY.Key_Escape)
    else:
        qtbot.mouseClick(page.progress.button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: not app.runner.jobs)
    assert reading.since_cancel <= AT_ONCE
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("analysis")]
    assert "Cancelled" in page.progress.label.text()
    assert page.plot.curves  # what was read stays
    qtbot.mouseClick(page.progress.button, Qt.MouseButton.LeftButton)
    assert page.busy
    huge.view.cancel()
    huge.settle()


def test_what_the_user_chose_is_there_again(
    qtbot: QtBot, app: RecordingServices, panel: Panel, document: Document
) -> None:
    panel.show("blk.1.attn_q.weight")
    controls = panel.view.histogram.controls
    controls.bins.setValue(77)
    controls.range.list.setCurrentIndex(controls.range.list.findData(RangeKind.FULL))
    controls.logarithmic.setChecked(True)
    controls.marks.setChecked(False)
    panel.view.histogram.panel.splitter.setSizes([500, 380])
    qtbot.waitUntil(lambda: not controls._typing.isActive())
    panel.settle()
    other = Panel(qtbot, app, document)
    kept = controls.to_text()
    other.view.histogram.controls.restore(kept)
    other.view.histogram.restore_splitter(panel.view.histogram.splitter_state())
    other.show("blk.1.attn_q.weight")
    assert other.result.curves[0].histogram.counts.size == 77
    assert other.view.histogram.plot.logarithmic
    sizes = [each.view.histogram.panel.splitter.sizes() for each in (panel, other)]
    assert sizes[0] == sizes[1]
    assert other.view.histogram.controls.to_text() == kept
    other.view.histogram.restore_splitter(QByteArray())
    assert other.view.histogram.panel.splitter.sizes() != sizes[0]


def test_a_type_without_values_is_explained(panel: Panel) -> None:
    panel.show("old.weight")
    assert panel.view.state.isVisible()
    assert "Q4_0_4_4" in panel.view.state.heading.text()
    assert panel.view.state.sentence.text().startswith("old.weight: ")
    panel.show("norm.weight")
    assert not panel.view.state.isVisible()


def test_a_tensor_without_a_finite_weight_is_explained(panel: Panel) -> None:
    panel.show("nothing.weight")
    assert "No weight is finite" in panel.view.histogram.note.text()
    assert panel.statistics()["nan"] == 8
    panel.show("norm.weight")
    assert not panel.view.histogram.note.isVisible()


def test_the_factor_beside_an_nvfp4_tensor_is_mentioned(panel: Panel) -> None:
    panel.show("fp4.weight")
    assert panel.view.header.note.isVisible()
    assert "fp4.scale" in panel.view.header.note.text()
    panel.show("norm.weight")
    assert not panel.view.header.note.isVisible()


def test_the_same_role_of_every_layer_is_overlaid(qtbot: QtBot, panel: Panel) -> None:
    panel.show("blk.1.attn_q.weight")
    header, page = panel.view.header, panel.view.histogram
    header.scope.setFocus()
    qtbot.keyClick(header.scope, KEY.Key_Down)
    assert header.chosen is Scope.SAME_ROLE
    panel.settle()
    assert [curve.name for curve in page.plot.curves] == [
        f"blk.{layer}.attn_q.weight" for layer in range(LAYERS)
    ]
    assert page.statistics.rowCount() == LAYERS
    page.panel.table.select_row(2)
    assert page.plot.highlighted == 2
    panel.show("blk.3.attn_q.weight")  # the scope stays
    assert len(page.plot.curves) == LAYERS
    page.panel.table.row_opened.emit(1)
    assert panel.app.selection.rows == (panel.row("blk.1.attn_q.weight"),)


def test_selected_tensors_are_shown_together_or_side_by_side(qtbot: QtBot, panel: Panel) -> None:
    panel.show("norm.weight", "blk.0.attn_q.weight")
    page = panel.view.histogram
    assert panel.view.header.chosen is Scope.SELECTED
    assert [curve.name for curve in page.plot.curves] == ["norm.weight", "blk.0.attn_q.weight"]
    page.controls.arrangement.setCurrentIndex(1)
    assert page.multiples.isVisible()
    assert not page.plot.isVisible()
    assert [curve.name for curve in page.multiples.curves] == ["norm.weight", "blk.0.attn_q.weight"]
    panel.show("norm.weight")
    assert panel.view.header.chosen is Scope.ONE
    assert page.plot.isVisible()


def test_it_says_how_many_of_too_many_tensors_are_shown(
    qtbot: QtBot, app: RecordingServices, load: Load, tmp_path: Path
) -> None:
    panel = Panel(qtbot, app, load(huge_model(tmp_path / "many.gguf", 4096, tensors=40)))
    panel.show(*(f"blk.{layer}.ffn_up.weight" for layer in range(40)))
    assert len(panel.view.histogram.plot.curves) == 32
    assert "32 of 40 tensors are shown" in panel.view.header.facts.text()


def test_codes_and_scales_of_a_quantized_tensor(
    qtbot: QtBot, panel: Panel, document: Document
) -> None:
    panel.show("blk.0.ffn_down.weight")
    expected = block_statistics(document.model.tensors["blk.0.ffn_down.weight"])
    assert expected is not None
    assert expected.minima is not None
    tabs = panel.view.tabs
    codes, scales, minima = panel.view.blocks.pages
    tabs.setCurrentWidget(codes)
    panel.settle()
    model = codes.panel.table.table
    shown = [model.index(row, 2).data(ItemRole.RAW) for row in range(model.rowCount())]
    assert shown == expected.code_counts.tolist()
    assert codes.panel.plot.curves[0].histogram.counts.tolist() == expected.code_counts.tolist()
    tabs.setCurrentWidget(scales)
    assert "32 scales" in scales.title.text()
    counts = scales.panel.plot.curves[0].histogram.counts
    assert counts.tolist() == expected.scales.histogram.counts.tolist()
    assert tabs.isTabVisible(tabs.indexOf(minima))
    tabs.setCurrentWidget(minima)
    assert minima.panel.plot.curves[0].mean == expected.minima.moments.mean
    qtbot.keyClick(minima.panel.plot, KEY.Key_Right)
    assert "%" in minima.panel.readout.text()


def test_a_range_of_scales_is_typed_and_stays_for_the_next_tensor(
    qtbot: QtBot, panel: Panel
) -> None:
    panel.show("blk.0.ffn_down.weight")
    scales = panel.view.blocks.scales
    panel.view.tabs.setCurrentWidget(scales)
    qtbot.waitUntil(lambda: scales.has_content)
    box = scales.panel.plot.box
    everything = box.viewRect()
    scales.range.list.setCurrentIndex(scales.range.list.findData(TYPED))
    offered = scales.range.edges.value()
    assert offered == pytest.approx((everything.left(), everything.right()), rel=0.1, abs=1e-4)
    middle = everything.center().x()
    for edit, edge in (
        (scales.range.edges.low, middle),
        (scales.range.edges.high, everything.right()),
    ):
        edit.selectAll()
        qtbot.keyClicks(edit, f"{edge:.6g}")
    qtbot.keyClick(scales.range.edges.high, Qt.Key.Key_Return)
    assert box.viewRect().left() == pytest.approx(middle, rel=1e-3)
    panel.show("blk.0.ffn_up.weight")
    panel.settle()
    assert box.viewRect().left() == pytest.approx(middle, rel=1e-3)
    everything = box.home
    scales.range.edges.low.selectAll()
    qtbot.keyClicks(scales.range.edges.low, "9e9")
    qtbot.keyClick(scales.range.edges.low, Qt.Key.Key_Return)
    assert "must be less" in scales.title.text()
    scales.range.list.setCurrentIndex(0)
    assert box.viewRect().left() == pytest.approx(everything.left(), rel=1e-3)
    assert "scales" in scales.title.text()


def test_one_walk_is_for_all_pages_of_blocks(
    qtbot: QtBot, app: RecordingServices, panel: Panel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wait(tensor: object, bins: int, workers: int, check: Callable[[], None]) -> None:
        while True:
            check()
            time.sleep(0.001)

    monkeypatch.setattr("explorer.qt.weights.work.block_statistics", wait)
    panel.show("blk.0.ffn_down.weight")
    assert app.runner.jobs == []
    tabs = panel.view.tabs
    codes, scales, _ = panel.view.blocks.pages
    tabs.setCurrentWidget(codes)
    (job,) = app.runner.jobs
    tabs.setCurrentWidget(scales)
    QApplication.processEvents()
    assert not job.cancelled
    tabs.tabBar().setFocus()
    qtbot.keyClick(tabs.tabBar(), KEY.Key_Escape)
    assert scales.state.heading.text() == "Cancelled"
    panel.settle()


def test_a_tensor_that_is_not_quantized_has_no_codes(panel: Panel) -> None:
    panel.show("blk.0.ffn_up.weight")
    codes, scales, minima = panel.view.blocks.pages
    tabs = panel.view.tabs
    shown = [tabs.isTabVisible(tabs.indexOf(page)) for page in (codes, scales, minima)]
    assert shown == [True, True, False]
    panel.show("norm.weight")
    shown = [tabs.isTabVisible(tabs.indexOf(page)) for page in (codes, scales, minima)]
    assert shown == [False, False, False]


def test_the_window_starts_without_loading_plots_kernels_or_formulas() -> None:
    program = (
        "import sys; from explorer.qt.main_window import MainWindow;"
        "late = ('pyqtgraph', 'numba', 'explorer.analysis', 'explorer.planner', 'explorer.qt.raw');"
        "print([name for name in late if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_the_first_histogram_waits_for_no_other_page(panel: Panel) -> None:
    pages = ("map.page", "block.page", "values")
    names = [f"explorer.qt.weights.{page}" for page in pages[:2]]
    program = (
        "import sys, explorer.qt.weights.panel;"
        f"print([name for name in {names} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
    panel.show("blk.1.attn_q.weight")
    late = [child for child in panel.view.findChildren(LazyTab) if child.built is None]
    assert len(late) == len(pages)
    tabs = panel.view.tabs
    for place in range(tabs.count()):
        if tabs.isTabVisible(place):
            tabs.setCurrentIndex(place)
            panel.settle()
    assert [page.built is None for page in late] == [False, True, False]  # it has no blocks


def test_closing_in_the_middle_ends_the_work(app: RecordingServices, huge: Panel) -> None:
    huge.begin("blk.0.ffn_up.weight")
    assert app.runner.jobs
    huge.view.close()
    assert app.runner.close()
    huge.settle()
