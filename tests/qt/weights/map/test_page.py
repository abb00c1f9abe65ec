"""The map of a tensor: looking, pointing, zooming, comparing, cancelling, saving."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PySide6.QtCore import QPoint, QPointF, QRectF, Qt
from PySide6.QtGui import QImage, QPainter, QWheelEvent
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from explorer.analysis.tensor_map.draw import Quantity
from explorer.analysis.tensor_map.map import MOST_CELLS, MOST_SIDE
from explorer.parallel import LruCache
from explorer.qt.document import Document
from explorer.qt.references import References, Rounding
from explorer.qt.weights.curves import SelectedTensor
from explorer.qt.weights.map.page import MapPage
from explorer.qt.weights.values import Place
from explorer.quantization import dequantize, quantize
from tests.helpers.gguf_writer import GgufFile, TensorSpec
from tests.helpers.model_pairs import write_gguf
from tests.helpers.reading import AT_ONCE, Reading
from tests.helpers.services import RecordingServices
from tests.helpers.weight_files import (
    F32,
    OUTLIER,
    expert_weights,
    huge_model,
    layer_weights,
    weights_model,
)
from tests.helpers.weight_views import Panel, drag, pixel
from tests.helpers.window import copied

KEY = Qt.Key
Load = Callable[[Path], Document]
Q = "blk.1.attn_q.weight"


class Map:
    """A map in a window of its own, and what one does with it."""

    def __init__(self, qtbot: QtBot, app: RecordingServices, *documents: Document) -> None:
        self.qtbot = qtbot
        self.app, self.runner = app, app.runner
        self.document = documents[0]
        self.recent = LruCache(4)
        self.references = References(app)
        self.references.set_documents(documents)
        self.references.show_document(self.document)
        self.page = MapPage(app, self.references, tuple(Quantity))
        self.page.resize(916, 640)
        qtbot.addWidget(self.page)
        self.page.show()
        qtbot.waitExposed(self.page)

    @property
    def image(self) -> NDArray[np.float32]:
        """The numbers of the picture."""
        return self.page.plot.layers[-1].image

    @property
    def text(self) -> str:
        """The line below."""
        return self.page.readout.label.text()

    def select(self, name: str) -> None:
        """Select a tensor, without waiting."""
        row = self.document.model.tensors.row_of(name)
        assert row is not None
        tensor = self.document.model.tensors.rows[row]
        self.page.show_subject(SelectedTensor(row, name, tensor), self.recent)

    def show(self, name: str) -> None:
        """Select a tensor and wait for its map."""
        self.select(name)
        self.settle()

    def settle(self) -> None:
        """Wait until nothing is read any more, nor will be, and the axes have their widths."""
        before = QRectF()

        def idle() -> bool:
            nonlocal before
            QApplication.processEvents()
            waiting = self.page._rest.isActive() or self.page.readout.pointer._rest.isActive()
            last, before = before, self.page.plot.box.sceneBoundingRect()
            return not self.runner.jobs and not waiting and before == last

        self.qtbot.waitUntil(idle)

    def choose(self, quantity: Quantity) -> None:
        """Choose what is shown, and wait."""
        box = self.page.controls.quantities
        box.setCurrentIndex(box.findData(quantity))
        self.settle()

    def point(self, row: int, column: int) -> None:
        """Move the mouse over a weight."""
        plot = self.page.plot
        there = plot.box.mapViewToScene(QPointF(column + 0.5, row + 0.5))
        plot.scene().sigMouseMoved.emit(there)
        self.settle()

    def click(self, row: int, column: int) -> None:
        """Click on a weight."""
        spot = pixel(self.page.plot, column + 0.5, row + 0.5)
        drag(self.page.plot, spot, spot)
        self.settle()

    def press(self, key: Qt.Key, *modifiers: Qt.KeyboardModifier) -> None:
        """Press a key in the plot."""
        self.page.plot.setFocus()
        self.qtbot.keyClick(self.page.plot, key, *modifiers)
        self.settle()

    def message(self) -> str:
        """Return what stands in place of the plot; fails if the plot is shown."""
        state = self.page.state
        assert state.isVisible()
        return f"{state.heading.text()}: {state.sentence.text()}"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return weights_model().write(tmp_path / "weights.gguf")


@pytest.fixture
def view(qtbot: QtBot, app: RecordingServices, load: Load, path: Path) -> Map:
    return Map(qtbot, app, load(path))


def test_a_small_tensor_is_shown_weight_for_weight(view: Map) -> None:
    view.show(Q)
    np.testing.assert_array_equal(view.image, layer_weights(1))
    assert view.text == "Value: each cell is one weight"
    low, high = view.page.plot._images[0].levels
    assert low == -high
    sizes = np.sort(np.abs(layer_weights(1)).reshape(-1))
    assert high == sizes[int(0.999 * sizes.size)] < OUTLIER


def test_all_cells_can_have_colours_of_their_own(view: Map) -> None:
    view.show(Q)
    view.page.controls.clipping.list.setCurrentIndex(1)
    assert tuple(view.page.plot._images[0].levels) == (-OUTLIER, OUTLIER)


def test_a_range_of_colours_is_typed(qtbot: QtBot, view: Map) -> None:
    view.show(Q)
    controls, image = view.page.controls, view.page.plot._images[0]
    before = tuple(image.levels)
    assert not controls.clipping.edges.isVisible()
    qtbot.keyClick(controls.clipping.list, KEY.Key_End)
    assert controls.clipping.edges.isVisible()
    assert controls.clipping.edges.value() == pytest.approx(before, rel=1e-3)  # where typing begins
    for edit, text in ((controls.clipping.edges.low, "-2"), (controls.clipping.edges.high, "30.5")):
        edit.selectAll()
        qtbot.keyClicks(edit, text)
    qtbot.keyClick(controls.clipping.edges.high, KEY.Key_Return)
    assert tuple(image.levels) == (-2, 30.5)
    qtbot.keyClick(controls.clipping.edges.high, KEY.Key_Backspace)  # the point has no digit: 30.
    for _ in range(5):
        qtbot.keyClick(controls.clipping.edges.high, KEY.Key_Backspace)
    qtbot.keyClicks(controls.clipping.edges.high, "-3")
    qtbot.keyClick(controls.clipping.edges.high, KEY.Key_Return)
    view.settle()
    assert view.text == "The first edge must be less than the last one."
    assert tuple(image.levels) == before  # until it is mended
    controls.clipping.edges.suggest(1, 4)
    controls.clipping.edges.changed.emit()
    assert view.text == "Value: each cell is one weight"
    view.show("blk.0.attn_q.weight")
    assert tuple(image.levels) == (1, 4)  # so that tensors can be compared
    controls.clipping.list.setCurrentIndex(0)
    assert not controls.clipping.edges.isVisible()
    assert tuple(image.levels) != (1, 4)


def test_one_chooses_what_cells_of_many_weights_show(qtbot: QtBot, view: Map) -> None:
    view.page.resize(320, 260)
    QApplication.processEvents()
    view.show(Q)
    grid = view.page.plot.layers[-1].cells.grid
    assert grid.cell_rows > 1
    assert view.image.max() == OUTLIER
    view.page.controls.reductions.setCurrentIndex(1)
    weights = layer_weights(1)[: grid.cell_rows, : grid.cell_columns].astype(np.float64)
    assert view.image[0, 0] == pytest.approx(np.sqrt(np.mean(weights**2)), rel=1e-6)
    assert "root mean square of" in view.text
    assert not view.runner.jobs  # nothing had to be read again


def test_the_mouse_reads_out_a_weight(view: Map) -> None:
    view.show(Q)
    view.point(3, 5)
    assert view.text == "Row 3, column 5: value 50"
    view.point(10, 20)
    assert view.text == f"Row 10, column 20: value {layer_weights(1)[10, 20]:.9g}"
    assert view.page.plot.accessibleDescription() == view.text


def test_the_read_out_of_a_quantized_weight_names_its_block(view: Map) -> None:
    view.show("blk.0.ffn_down.weight")  # Q4_1: two blocks in each row of 64
    tensor = view.document.model.tensors["blk.0.ffn_down.weight"]
    view.point(3, 40)
    value = float(tensor.dequantize()[3, 40])
    assert view.text.startswith(f"Row 3, column 40: value {value:.9g}   block 7, weight 8   code ")
    assert "scale " in view.text
    assert "minimum " in view.text


def test_the_read_out_of_a_cell_shows_its_range(view: Map) -> None:
    view.page.resize(320, 260)
    QApplication.processEvents()
    view.show(Q)
    grid = view.page.plot.layers[-1].cells.grid
    view.point(3, 5)
    cell = grid.cell_of(3, 5)
    assert cell is not None
    part = grid.window_of(cell)
    assert view.text.startswith(f"Rows {part.top} to {part.bottom - 1}, column")
    weights = layer_weights(1)[part.top : part.bottom, part.left : part.right]
    assert f"value {weights.min():.5g} to 50, root mean square " in view.text


def test_a_click_chooses_a_weight(view: Map) -> None:
    chosen: list[Place] = []
    view.page.place_chosen.connect(chosen.append)
    view.show(Q)
    view.click(7, 9)
    assert chosen == [(7, 9)]
    assert view.page.plot.chosen == (7, 9)
    text = copied(view.qtbot, lambda: view.press(KEY.Key_C, Qt.KeyboardModifier.ControlModifier))
    assert float(text) == pytest.approx(layer_weights(1)[7, 9], rel=1e-7)
    view.page.plot.copy_position_action.trigger()
    assert QApplication.clipboard().text() == "7, 9"


def test_the_keys_choose_weights_too(view: Map) -> None:
    chosen: list[Place] = []
    view.page.place_chosen.connect(chosen.append)
    view.show(Q)
    control = Qt.KeyboardModifier.ControlModifier
    for key in (KEY.Key_Down, KEY.Key_Right, KEY.Key_Up, KEY.Key_Up, KEY.Key_Left):
        view.press(key, control)
    assert chosen == [(48, 32), (48, 33), (47, 33), (46, 33), (46, 32)]
    assert view.text.startswith("Row 46, column 32")
    view.click(95, 63)
    view.press(KEY.Key_Down, control)
    assert chosen[-1] == (95, 63)  # there is nothing beyond


def test_a_rubber_band_zooms_and_back_undoes_it(view: Map) -> None:
    view.show(Q)
    plot = view.page.plot
    drag(plot, pixel(plot, 10, 20), pixel(plot, 30, 60))
    view.settle()
    seen = plot.seen()
    assert (seen.left, seen.top) == pytest.approx((10, 20), abs=1)
    assert (seen.right, seen.bottom) == pytest.approx((30, 60), abs=1)
    view.press(KEY.Key_Backspace)
    assert plot.seen().weights == 96 * 64
    assert not plot.back_action.isEnabled()


@pytest.mark.parametrize(
    ("start", "stop", "seen"),
    [((10, 50), (30, 50), (0, 10, 96, 20)), ((20, 20), (20, 60), (20, 0, 40, 64))],
)
def test_a_flat_rubber_band_reaches_from_edge_to_edge(
    view: Map, start: tuple[int, int], stop: tuple[int, int], seen: tuple[int, ...]
) -> None:
    view.show(Q)
    plot = view.page.plot
    drag(plot, pixel(plot, *start), pixel(plot, *stop))
    found = plot.seen()
    assert (found.top, found.left, found.height, found.width) == pytest.approx(seen, abs=1)


def test_keys_and_wheel_zoom_both_ways_and_stay_inside(view: Map) -> None:
    view.show(Q)
    plot = view.page.plot
    view.press(KEY.Key_Plus)
    seen = plot.seen()
    assert seen.height < 96
    assert seen.width < 64
    for _ in range(30):
        view.page.plot.keyPressEvent(_key(KEY.Key_Left))
        view.page.plot.keyPressEvent(_key(KEY.Key_Up))
    view.settle()
    assert (plot.seen().top, plot.seen().left) == (0, 0)
    assert plot.seen().weights == pytest.approx(seen.weights, rel=0.1)
    view.press(KEY.Key_Home)
    assert plot.seen().weights == 96 * 64
    view.press(KEY.Key_Minus)
    assert plot.seen().weights == 96 * 64
    assert not plot.reset_action.isEnabled()  # one cannot zoom out of everything
    _turn_wheel(plot, pixel(plot, 32, 48), 120)
    assert plot.seen().weights < 96 * 64
    for _ in range(40):
        plot._zoom(2)
    assert plot.seen().weights >= 16
    view.settle()


def _key(key: Qt.Key) -> object:
    from PySide6.QtCore import QEvent
    from PySide6.QtGui import QKeyEvent

    return QKeyEvent(QEvent.Type.KeyPress, key, Qt.KeyboardModifier.NoModifier)


def _turn_wheel(plot: object, spot: QPoint, delta: int) -> None:
    port = plot.viewport()  # type: ignore[attr-defined]
    event = QWheelEvent(
        QPointF(spot),
        QPointF(port.mapToGlobal(spot)),
        QPoint(),
        QPoint(0, delta),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(port, event)


def test_one_goes_to_a_row_and_column(qtbot: QtBot, view: Map) -> None:
    view.show(Q)
    view.page.focus_search()
    goto = view.page.controls.goto
    assert goto.hasFocus()
    qtbot.keyClicks(goto, "95, 63")
    qtbot.keyClick(goto, KEY.Key_Return)
    view.settle()
    assert view.page.plot.chosen == (95, 63)
    assert view.text.startswith("Row 95, column 63: value ")
    goto.clear()
    qtbot.keyClicks(goto, "96, 0")
    qtbot.keyClick(goto, KEY.Key_Return)
    assert "below 96" in view.text


def test_zooming_into_a_large_tensor_reads_the_exact_rows(
    qtbot: QtBot, app: RecordingServices, load: Load, tmp_path: Path
) -> None:
    weights = np.random.default_rng(0).normal(size=(3000, 2048)).astype(np.float32)
    weights[1234, 567] = 99
    model = load(write_gguf(tmp_path / "l.gguf", "llama", {"a": weights}, {"a": "Q8_0"}))
    exact = model.model.tensors["a"].dequantize()
    view = Map(qtbot, app, model)
    view.show("a")
    assert not view.page.plot.layers[-1].cells.grid.exact
    assert view.image.max() == exact.max()
    row, column = np.unravel_index(view.image.argmax(), view.image.shape)
    assert view.page.plot.layers[-1].cells.grid.cell_of(1234, 567) == (row, column)
    view.page.go_to((1234, 567))
    view.settle()
    cells = view.page.plot.layers[-1].cells
    window = cells.grid.window
    assert cells.grid.exact
    assert window.height < 40
    inside = exact[window.top : window.bottom, window.left : window.right]
    np.testing.assert_array_equal(view.image, inside)
    assert view.text.startswith(f"Row 1234, column 567: value {exact[1234, 567]:.9g}   block ")
    assert view.page.plot._blocks.getData()[0].size  # borders of blocks are drawn
    view.press(KEY.Key_Home)
    assert view.page.plot.layers[-1].cells.grid.window.height == 3000
    assert not view.page.plot._blocks.getData()[0].size


def test_scales_and_minima_of_blocks(view: Map) -> None:
    view.show("blk.0.ffn_down.weight")
    view.choose(Quantity.SCALE)
    blocks = np.frombuffer(
        view.document.model.tensors["blk.0.ffn_down.weight"].read(), np.uint8
    ).reshape(32, 20)
    scales = blocks[:, :2].copy().view("<f2").astype(np.float32)
    np.testing.assert_array_equal(view.image, np.repeat(scales, 32).reshape(16, 64))
    assert view.page.plot._images[0].levels[0] == 0
    view.point(0, 33)
    assert view.text.startswith(f"Row 0, column 33: block scale {scales[1, 0]:.9g}   value ")
    view.choose(Quantity.MINIMUM)
    minima = -blocks[:, 2:4].copy().view("<f2").astype(np.float32)
    np.testing.assert_array_equal(view.image, np.repeat(minima, 32).reshape(16, 64))
    assert view.page.plot._images[0].levels[0] < 0


def test_what_a_tensor_does_not_have_is_said(view: Map) -> None:
    view.show(Q)
    view.choose(Quantity.SCALE)
    assert "Not quantized" in view.message()
    view.show("blk.0.ffn_up.weight")  # Q8_0
    assert view.page.plot.isVisible()
    view.choose(Quantity.MINIMUM)
    assert "Q8_0 have no minimum" in view.message()
    view.choose(Quantity.VALUE)
    assert view.page.plot.isVisible()


def test_errors_want_a_reference(view: Map) -> None:
    view.show("blk.0.ffn_up.weight")
    view.choose(Quantity.ABSOLUTE_ERROR)
    assert "No reference chosen" in view.message()
    view.references.choose(Rounding("Q4_0"))
    view.settle()
    weights = view.document.model.tensors["blk.0.ffn_up.weight"].dequantize()
    rounded = dequantize(quantize(weights, "Q4_0"), "Q4_0").reshape(weights.shape)
    np.testing.assert_array_equal(view.image, np.abs(rounded - weights))
    view.point(2, 3)
    assert f"reference {weights[2, 3]:.6g}, candidate {rounded[2, 3]:.6g}" in view.text
    view.choose(Quantity.RELATIVE_ERROR)
    assert view.page.plot._bar._axis.labelText == "Relative error"
    rms = np.sqrt(np.mean(weights[2, :32].astype(np.float64) ** 2))
    expected = np.abs(rounded - weights)[2, 3] / rms
    assert view.image[2, 3] == pytest.approx(expected, rel=1e-6)
    view.references.choose(None)
    view.settle()
    assert "No reference chosen" in view.message()


def test_errors_that_a_type_cannot_have_say_why(view: Map) -> None:
    view.show("norm.weight")  # 40 weights
    view.choose(Quantity.ABSOLUTE_ERROR)
    view.references.choose(Rounding("Q8_0"))
    view.settle()
    assert "Not comparable" in view.message()
    assert "blocks of 32" in view.message()


def test_errors_against_another_model(
    qtbot: QtBot, app: RecordingServices, load: Load, tmp_path: Path
) -> None:
    weights = np.random.default_rng(0).normal(size=(64, 256)).astype(np.float32)
    one = load(write_gguf(tmp_path / "1.gguf", "llama", {"a": weights}))
    two = load(write_gguf(tmp_path / "2.gguf", "llama", {"a": weights}, {"a": "Q4_K"}))
    view = Map(qtbot, app, two, one)
    view.show("a")
    view.choose(Quantity.ABSOLUTE_ERROR)
    view.references.choose(one)
    assert "Matching" in view.message()
    view.settle()
    found = two.model.tensors["a"].dequantize()
    np.testing.assert_array_equal(view.image, np.abs(found - weights))
    view.point(5, 6)
    assert f"reference {weights[5, 6]:.6g}, candidate {found[5, 6]:.6g}" in view.text
    assert "block 5, weight 6" in view.text
    view.references.set_documents([two])  # the reference was closed
    view.settle()
    assert "No reference chosen" in view.message()


def test_matrices_behind_each_other_are_shown_together_or_one_by_one(view: Map) -> None:
    view.show(Q)
    assert not view.page.controls.sheets.isVisible()
    view.show("experts.weight")
    np.testing.assert_array_equal(view.image, expert_weights().reshape(6, 8))
    assert view.page.controls.sheets.isVisible()
    view.page.controls.sheets.setValue(1)
    view.settle()
    np.testing.assert_array_equal(view.image, expert_weights()[1])
    view.point(4, 2)
    assert view.text == f"Row 1, 1, column 2: value {expert_weights()[1, 1, 2]:g}"
    view.page.go_to((0, 3))  # in the other one
    view.settle()
    assert view.page.controls.sheet == -1
    assert view.page.plot.chosen == (0, 3)


@pytest.mark.parametrize("name", ["norm.weight", "equal.weight"])
def test_odd_shapes_and_equal_weights(view: Map, name: str) -> None:
    view.show(name)
    weights = view.document.model.tensors[name].dequantize()
    np.testing.assert_array_equal(view.image, np.atleast_2d(weights))


def test_what_is_not_finite_is_said_and_seen(view: Map) -> None:
    view.show("nothing.weight")
    assert np.isnan(view.image).all()
    assert "8 in sight are not finite" in view.text
    ground = view.page.plot._ground.brush().color()
    view.show(Q)
    assert view.page.plot._ground.brush().color() == ground  # seen only where nothing covers it
    view.show("nothing.weight")
    view.point(0, 1)
    assert view.text == "Row 0, column 1: value not finite   value NaN"


def test_a_tensor_without_weights(
    qtbot: QtBot, app: RecordingServices, load: Load, tmp_path: Path
) -> None:
    file = GgufFile(tensors=[TensorSpec("empty", (8, 0), F32, b"")])
    view = Map(qtbot, app, load(file.write(tmp_path / "empty.gguf")))
    view.show("empty")
    assert "No weights" in view.message()


def test_a_huge_tensor_streams_and_is_cancelled_at_once(
    reading: Reading, qtbot: QtBot, app: RecordingServices, load: Load, tmp_path: Path
) -> None:
    view = Map(qtbot, app, load(huge_model(tmp_path / "huge.gguf", 1 << 31, 2)))
    page = view.page
    view.select("blk.0.ffn_up.weight")
    qtbot.waitUntil(lambda: bool(page.plot.layers) and page.progress.running)
    cells = page.plot.layers[-1].cells
    assert 0 < cells.done < cells.grid.window.weights
    rows, columns = cells.grid.shape
    assert max(rows, columns) <= MOST_SIDE
    assert rows * columns <= MOST_CELLS
    page.cancel()
    qtbot.waitUntil(lambda: not app.runner.jobs)
    assert reading.since_cancel <= AT_ONCE
    assert "Cancelled at" in page.progress.label.text()
    assert page.plot.layers  # what was read stays
    page.progress.button.click()
    qtbot.waitUntil(lambda: page.busy)
    view.select("blk.1.ffn_up.weight")
    assert len([job for job in app.runner.jobs if not job.cancelled]) == 1
    page.hide()
    qtbot.waitUntil(lambda: not app.runner.jobs)


def test_another_reference_does_not_disturb_the_values(
    qtbot: QtBot, app: RecordingServices, load: Load, tmp_path: Path
) -> None:
    view = Map(qtbot, app, load(huge_model(tmp_path / "huge.gguf", 1 << 31)))
    view.select("blk.0.ffn_up.weight")
    qtbot.waitUntil(lambda: bool(view.page.plot.layers))
    view.references.choose(Rounding("Q4_0"))
    assert view.page.busy
    view.page.cancel()
    qtbot.waitUntil(lambda: not app.runner.jobs)


def test_a_zoom_ends_the_reading_before_it(
    reading: Reading, qtbot: QtBot, app: RecordingServices, load: Load, tmp_path: Path
) -> None:
    view = Map(qtbot, app, load(huge_model(tmp_path / "huge.gguf", 1 << 33)))
    view.select("blk.0.ffn_up.weight")
    qtbot.waitUntil(lambda: view.page.busy)
    first = view.page.request_key
    view.page.plot.box.zoom_to(QRectF(100, 1_000_000, 200, 100))
    view.settle()
    assert reading.since_cancel <= AT_ONCE
    cells = view.page.plot.layers[-1].cells
    assert cells.grid != first
    assert cells.grid.exact
    assert (view.image == 0).all()


def test_closing_the_model_while_it_is_read(
    qtbot: QtBot, app: RecordingServices, load: Load, tmp_path: Path
) -> None:
    document = load(huge_model(tmp_path / "huge.gguf", 1 << 32))
    view = Map(qtbot, app, document)
    view.select("blk.0.ffn_up.weight")
    qtbot.waitUntil(lambda: view.page.busy)
    document.model.close()
    view.references.show_document(None)
    view.settle()
    assert "could not be drawn" in view.message()
    view.page.show_subject(None, LruCache(1))
    assert not view.page.plot.layers


def test_coming_back_reads_nothing(view: Map) -> None:
    view.show("blk.0.ffn_up.weight")
    sizes = view.page.plot._sizes
    assert (sizes.block, sizes.group) == (32, 32)
    view.show(Q)
    assert view.page.plot._sizes.block == 1
    view.select("blk.0.ffn_up.weight")
    assert not view.runner.jobs
    weights = view.document.model.tensors["blk.0.ffn_up.weight"].dequantize()
    np.testing.assert_array_equal(view.image, weights)
    assert view.page.plot._sizes == sizes


def test_pictures_and_numbers_are_saved(view: Map, tmp_path: Path) -> None:
    view.show("experts.weight")
    for name in ("map.csv", "map.svg", "map.png"):
        view.page.export.save(view.page.plot, tmp_path / name)
    view.settle()
    assert len(view.app.written) == 3
    with (tmp_path / "map.csv").open(newline="") as stream:
        head, *rows = csv.reader(stream)
    assert head[1:] == [str(column) for column in range(8)]
    assert [row[0] for row in rows] == [str(row) for row in range(6)]
    numbers = np.array([[float(cell) for cell in row[1:]] for row in rows])
    np.testing.assert_array_equal(numbers, expert_weights().reshape(6, 8))
    assert b"<image" in (tmp_path / "map.svg").read_bytes()
    picture = QImage(str(tmp_path / "map.png"))
    assert picture.pixelColor(3, 3).name() == "#ffffff"
    middle = picture.pixelColor(picture.width() // 2, picture.height() // 3)
    assert middle.saturation() > 50


def test_axes_and_picture_of_an_svg_belong_together(view: Map, tmp_path: Path) -> None:
    view.show(Q)
    plot, path = view.page.plot, tmp_path / "map.svg"
    view.page.export.save(plot, path)
    view.settle()

    def painted(paint: Callable[[QPainter], object]) -> NDArray[np.intp]:
        """Return what is not white in the lower axis: where from and to, in pixels."""
        image = QImage(plot.size(), QImage.Format.Format_Grayscale8)
        image.fill(Qt.GlobalColor.white)
        painter = QPainter(image)
        paint(painter)
        painter.end()
        box = plot.box.sceneBoundingRect()
        rows = range(round(box.bottom()) + 4, round(box.bottom()) + 20)
        columns = range(int(box.left()) - 8, int(box.right()) + 4)
        dark = [[image.pixelColor(x, y).lightness() < 160 for x in columns] for y in rows]
        return np.flatnonzero(np.any(dark, axis=0))[[0, -1]]

    whole = QRectF(plot.rect())
    expected = painted(lambda painter: plot.paint_on_paper(painter, whole))
    found = painted(lambda painter: QSvgRenderer(str(path)).render(painter))
    np.testing.assert_allclose(found, expected, atol=3)


def test_heads_of_coarse_numbers_say_what_they_cover(view: Map) -> None:
    view.page.resize(320, 260)
    QApplication.processEvents()
    view.show(Q)
    grid = view.page.plot.layers[-1].cells.grid
    (_, rows), *columns = view.page.plot.data_columns()
    assert rows[0] == f"0–{grid.cell_rows - 1}"
    assert len(rows) == grid.shape[0] == len(columns[0][1])


def test_in_the_panel_escape_cancels(
    reading: Reading, qtbot: QtBot, app: RecordingServices, load: Load, tmp_path: Path
) -> None:
    panel = Panel(qtbot, app, load(huge_model(tmp_path / "huge.gguf", 1 << 31)))
    panel.begin("blk.0.ffn_up.weight")
    page = panel.view.map
    panel.view.show_page(page)
    qtbot.waitUntil(lambda: page.progress.running and bool(page.plot.layers))
    page.plot.setFocus()
    qtbot.keyClick(page.plot, KEY.Key_Escape)
    assert not page.progress.running
    qtbot.waitUntil(lambda: not app.runner.jobs)
    assert reading.since_cancel <= AT_ONCE


def test_in_the_panel_the_values_follow_what_is_chosen(
    qtbot: QtBot, app: RecordingServices, load: Load, path: Path
) -> None:
    panel = Panel(qtbot, app, load(path))
    panel.show(Q)
    body = panel.view
    body.show_page(body.map)
    qtbot.waitUntil(lambda: bool(body.map.plot.layers))
    panel.settle()
    spot = pixel(body.map.plot, 9.5, 7.5)
    drag(body.map.plot, spot, spot)
    panel.settle()
    index = body.values.grid.currentIndex()
    assert body.values.model.place(index) == (7, 9)
    body.show_page(body.values)
    panel.settle()
