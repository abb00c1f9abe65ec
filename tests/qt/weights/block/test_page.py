"""The block inspector as a person uses it: go to a block, point at its parts, compare, search."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from explorer.qt.document import Document
from explorer.qt.main_window import MainWindow
from explorer.qt.references import Rounding
from explorer.qt.theme import Scheme, apply_scheme
from explorer.qt.weights.block.page import BlockPage
from explorer.qt.weights.block.panes import MarkedTable
from explorer.qt.weights.block.strip import BlockPart, PartKind
from explorer.qt.widgets.plot import ThemedPlot
from explorer.qt.widgets.table_model import ItemRole
from explorer.quantization import dequantize, quantize
from tests.helpers.gguf_writer import STRING, GgufFile, TensorSpec
from tests.helpers.model_pairs import write_gguf
from tests.helpers.reading import AT_ONCE, Reading
from tests.helpers.services import RecordingServices
from tests.helpers.symbols import kept_after_drawing_again
from tests.helpers.weight_views import Panel
from tests.helpers.window import copied, unsafe_characters

KEY = Qt.Key
CTRL = Qt.KeyboardModifier.ControlModifier
LEFT = Qt.MouseButton.LeftButton
Load = Callable[[Path], Document]

NAME = "blk.0.attn_output.weight"
SMALL = "blk.0.ffn_up.weight"
NORM = "blk.0.attn_norm.weight"
VALUES = np.random.default_rng(7).normal(0, 0.05, (4, 512)).astype(np.float32)
SMALL_VALUES = np.random.default_rng(8).normal(0, 0.05, (6, 64)).astype(np.float32)
SMALL_VALUES[4, 40] = 3  # block 9 has the largest scale
ARRAYS = {NAME: VALUES, SMALL: SMALL_VALUES, NORM: np.ones(64, np.float32)}


@cache  # kernels are for tests that run, not for all that are collected
def stored() -> np.ndarray:
    """Return the blocks of `VALUES` as Q4_K: bytes (8, 144)."""
    return quantize(VALUES, "Q4_K").reshape(8, 144)


@cache
def decoded() -> np.ndarray:
    """Return what `stored` decodes to: float32 (8, 256)."""
    return dequantize(stored(), "Q4_K").reshape(8, 256)


@pytest.fixture
def candidate_path(tmp_path: Path) -> Path:
    types = {NAME: "Q4_K", SMALL: "Q4_0"}
    return write_gguf(tmp_path / "candidate.gguf", "llama", ARRAYS, types)


@pytest.fixture
def reference_path(tmp_path: Path) -> Path:
    return write_gguf(tmp_path / "reference.gguf", "llama", ARRAYS)


@pytest.fixture
def panel(qtbot: QtBot, app: RecordingServices, load: Load, candidate_path: Path) -> Panel:
    panel = Panel(qtbot, app, load(candidate_path))
    references = panel.view._references
    references.set_documents([panel.document])
    references.show_document(panel.document)
    return panel


def open_block(panel: Panel, name: str = NAME, index: int = 0) -> BlockPage:
    """Select a tensor and look at one of its blocks."""
    panel.show(name)
    page = panel.view.block_page
    panel.view.show_page(page)
    page.show_block(index)
    wait_for(panel, index)
    return page


def wait_for(panel: Panel, index: int) -> None:
    page = panel.view.block_page
    panel.qtbot.waitUntil(lambda: page.block is not None and page.block.detail.index == index)
    panel.settle()


def press(panel: Panel, widget: QWidget, key: Qt.Key) -> None:
    """Press a key with Ctrl where the keyboard is."""
    widget.setFocus()
    panel.qtbot.keyClick(widget, key, CTRL)


def column(table: MarkedTable, name: str) -> list[object]:
    number = [column.name for column in table.table.columns].index(name)
    model = table.table
    return [model.index(row, number).data(ItemRole.RAW) for row in range(model.rowCount())]


def test_the_tables_show_what_is_decoded(panel: Panel) -> None:
    page = open_block(panel, index=5)
    assert column(page.panes.weights, "value") == decoded()[5].tolist()
    assert column(page.panes.fields, "name") == ["d", "dmin", "scales", "qs"]
    assert len(column(page.panes.sub_blocks, "scale")) == 8
    assert page.bar.total.text() == "of 8"
    place = page.bar.place.text()
    assert place.startswith("Row 2, columns 256 to 511   ·   bytes 0x")
    offset = panel.document.model.tensors[NAME].offset + 5 * 144
    assert f"0x{offset:X} to 0x{offset + 143:X}" in place
    assert page.block is not None
    assert page.block.detail.stored == stored()[5].tobytes()


def test_only_quantized_tensors_have_the_page(panel: Panel) -> None:
    page = open_block(panel)
    tabs = panel.view.tabs
    assert tabs.isTabVisible(panel.view.place_of(page))
    panel.show(NORM)
    assert not tabs.isTabVisible(panel.view.place_of(page))
    panel.show(SMALL)
    assert tabs.isTabVisible(panel.view.place_of(page))


def test_keys_buttons_numbers_and_places_lead_to_blocks(qtbot: QtBot, panel: Panel) -> None:
    page = open_block(panel)
    assert not page.bar.back_action.isEnabled()
    press(panel, page.panes.strip, KEY.Key_PageDown)
    wait_for(panel, 1)
    press(panel, page.panes.plot, KEY.Key_PageDown)
    wait_for(panel, 2)
    press(panel, page.panes.weights, KEY.Key_PageUp)
    wait_for(panel, 1)
    page.bar.number.selectAll()
    qtbot.keyClicks(page.bar.number, "7")
    qtbot.keyClick(page.bar.number, KEY.Key_Return)
    wait_for(panel, 7)
    assert not page.bar.on_action.isEnabled()
    page.bar.slider.setValue(3)
    wait_for(panel, 3)
    qtbot.keyClicks(page.bar.goto, "2, 300")
    qtbot.keyClick(page.bar.goto, KEY.Key_Return)
    wait_for(panel, 5)
    page.bar.goto.setText("4, 0")
    qtbot.keyClick(page.bar.goto, KEY.Key_Return)
    assert page.panes.readout.text().startswith("Type a row below 4")
    assert page.bar.number.value() == 5


def test_a_place_from_elsewhere_is_shown_and_marked(panel: Panel) -> None:
    page = open_block(panel)
    panel.view.map.place_chosen.emit((3, 300))
    wait_for(panel, 7)
    assert page.panes.looked_at == BlockPart(PartKind.WEIGHT, 44)
    assert page.panes.readout.text().startswith("Weight 44 (row 3, column 300): ")
    page.show_place(9, 0)  # not in the tensor
    assert page.bar.number.value() == 7
    panel.show(SMALL)
    page.show_place(1, 33)
    wait_for(panel, 3)
    assert page.panes.looked_at == BlockPart(PartKind.WEIGHT, 1)


def test_pointing_at_a_byte_marks_its_weights(qtbot: QtBot, panel: Panel) -> None:
    page = open_block(panel)
    panes = page.panes
    spot = panes.strip.place_of(16).center().toPoint()
    qtbot.mouseMove(panes.strip, spot - QPoint(40, 0))
    qtbot.mouseMove(panes.strip, spot)
    qtbot.waitUntil(lambda: "→ weight 0;" in panes.readout.text())
    assert np.flatnonzero(panes._marked).tolist() == [0, 32]
    panes.strip.read.emit(None)
    assert "→" not in panes.readout.text()  # nothing was chosen
    qtbot.mouseClick(panes.strip, LEFT, pos=spot)
    assert panes.looked_at == BlockPart(PartKind.BYTE, 16)
    panes.strip.read.emit(3)
    panes.strip.read.emit(None)
    assert panes.readout.text().startswith("Byte 16 = 0x")
    assert panes.strip.accessibleDescription() == panes.readout.text()


def test_keys_walk_over_the_bytes_and_copy_them(qtbot: QtBot, panel: Panel) -> None:
    page = open_block(panel, SMALL, 2)
    strip = page.panes.strip
    strip.setFocus()
    whole = page.block.detail.stored if page.block is not None else b""
    assert copied(qtbot, lambda: qtbot.keyClick(strip, KEY.Key_C, CTRL)) == whole.hex(" ")
    qtbot.keyClick(strip, KEY.Key_Right)
    assert page.panes.looked_at == BlockPart(PartKind.BYTE, 0)
    qtbot.keyClick(strip, KEY.Key_Right)
    qtbot.keyClick(strip, KEY.Key_Down)
    assert page.panes.looked_at == BlockPart(PartKind.BYTE, 17)
    qtbot.keyClick(strip, KEY.Key_Down)  # there is no such byte
    assert page.panes.looked_at == BlockPart(PartKind.BYTE, 17)
    qtbot.keyClick(strip, KEY.Key_Home)
    assert copied(qtbot, lambda: qtbot.keyClick(strip, KEY.Key_C, CTRL)) == f"{whole[0]:02x}"


def test_choosing_a_weight_marks_its_bits(qtbot: QtBot, panel: Panel) -> None:
    page = open_block(panel)
    panes = page.panes
    panes.weights.select_row(40)
    assert panes.looked_at == BlockPart(PartKind.WEIGHT, 40)
    assert panes.strip._masks[[5, 24]].tolist() == [0x3F, 0xF0]
    assert panes.plot.cursor_weight == 40
    qtbot.keyClick(panes.plot, KEY.Key_Right)
    assert panes.looked_at == BlockPart(PartKind.WEIGHT, 41)
    assert panes.weights.currentIndex().row() == 41
    qtbot.keyClick(panes.plot, KEY.Key_Left, CTRL)
    assert panes.looked_at == BlockPart(PartKind.WEIGHT, 33)
    page.show_block(1)  # the same weight of the next block
    wait_for(panel, 1)
    assert panes.looked_at == BlockPart(PartKind.WEIGHT, 33)
    assert panes.weights.currentIndex().row() == 33


def test_fields_and_sub_blocks_mark_what_they_act_on(panel: Panel) -> None:
    page = open_block(panel)
    panes = page.panes
    panes.fields.select_row(1)
    assert panes._marked.all()
    assert np.flatnonzero(panes.strip._masks).tolist() == [2, 3]
    panes.tabs.setCurrentWidget(panes.sub_blocks)
    panes.sub_blocks.select_row(2)
    assert np.flatnonzero(panes._marked).tolist() == list(range(64, 96))
    assert panes.fields.selectionModel().selectedRows() == []
    panes.fields.row_hovered.emit(0)
    assert panes.readout.text().startswith("d, f16")
    panes.fields.row_hovered.emit(-1)
    assert panes.readout.text().startswith("Weights 64–95: scale ")


def test_the_mouse_in_the_plot_reads_weights(qtbot: QtBot, panel: Panel) -> None:
    page = open_block(panel)
    plot = page.panes.plot
    place = plot.box.mapViewToScene(QPointF(100.2, 0))
    plot._follow_mouse(place)
    assert page.panes.readout.text().startswith("Weight 100 ")
    assert plot.weight_at(-3) == plot.weight_at(256.0) == plot.weight_at(float("nan")) == -1
    heights = np.unique(np.asarray(plot._levels.yData))
    assert page.block is not None
    np.testing.assert_allclose(heights, page.block.detail.values_of_levels(3), atol=1e-7)
    qtbot.mouseClick(plot.viewport(), LEFT, pos=plot.mapFromScene(place))
    qtbot.waitUntil(lambda: page.panes.looked_at == BlockPart(PartKind.WEIGHT, 100))


def test_a_block_that_is_drawn_again_keeps_no_more_pictures_of_symbols(panel: Panel) -> None:
    before, after = kept_after_drawing_again(open_block(panel).panes.plot)
    assert after == before > 0


def test_many_levels_are_a_ruler_only_where_there_is_room_for_them(panel: Panel) -> None:
    page = open_block(panel)
    plot = page.panes.plot
    page.panes.look_at(BlockPart(PartKind.WEIGHT, 3))
    assert len(plot._levels.xData) == 2 * 16
    area = plot.box.viewRect()
    area.setHeight(area.height() * 1000)
    plot.box.zoom_to(area)
    assert plot._levels.xData is None
    plot.box.go_back()
    assert len(plot._levels.xData) == 2 * 16


def test_another_model_beside_the_block(
    qtbot: QtBot, panel: Panel, load: Load, reference_path: Path
) -> None:
    page = open_block(panel, index=3)
    assert not page.bar.worst.isEnabled()
    references = panel.view._references
    reference = load(reference_path)
    references.set_documents([panel.document, reference])
    references.choose(reference)
    qtbot.waitUntil(lambda: page.block is not None and page.block.compared is not None)
    panel.settle()
    expected = VALUES.reshape(8, 256)[3]
    assert column(page.panes.weights, "reference") == expected.tolist()
    errors = decoded()[3].astype(np.float64) - expected
    assert column(page.panes.weights, "error") == errors.tolist()
    assert page.bar.worst.isEnabled()
    columns = dict(page.panes.plot.data_columns())
    assert columns["reference"] == expected.tolist()
    assert columns["error"] == errors.tolist()
    squares = ((decoded().astype(np.float64) - VALUES.reshape(8, 256)) ** 2).mean(axis=1)
    qtbot.mouseClick(page.bar.worst, LEFT)
    wait_for(panel, int(squares.argmax()))
    text = page.panes.readout.text()
    assert text.startswith(f"Block {squares.argmax()} has the largest RMS error: ")
    assert float(text.split(": ")[1]) == pytest.approx(np.sqrt(squares.max()), rel=1e-5)
    references.choose(None)
    qtbot.waitUntil(lambda: page.block is not None and page.block.compared is None)
    assert "reference" not in [one.name for one in page.panes.weights.table.columns]


def test_a_rounding_beside_the_block(qtbot: QtBot, panel: Panel) -> None:
    page = open_block(panel, index=3)
    panel.view._references.choose(Rounding("Q4_0"))
    qtbot.waitUntil(lambda: page.block is not None and page.block.compared is not None)
    panel.settle()
    rounded = dequantize(quantize(decoded()[3], "Q4_0"), "Q4_0")
    assert column(page.panes.weights, "candidate") == rounded.tolist()
    assert page.panes.plot._other.yData.tolist() == rounded.tolist()
    panel.view._references.choose(Rounding("Q6_K"))  # has blocks of 256
    open_block(panel, SMALL, 1)
    assert page.block is not None
    assert page.block.compared is None
    assert "cannot have type Q6_K" in page.bar.note.text()
    assert not page.bar.worst.isEnabled()


def test_the_largest_scale(qtbot: QtBot, panel: Panel) -> None:
    page = open_block(panel, SMALL)
    qtbot.mouseClick(page.bar.largest, LEFT)
    wait_for(panel, 9)
    assert page.panes.readout.text().startswith("Block 9 has the largest scale: ")
    jobs: list[object] = []
    panel.runner.started.connect(jobs.append)
    page.show_block(0)
    qtbot.mouseClick(page.bar.largest, LEFT)  # what was found once is known
    wait_for(panel, 9)
    assert jobs == []


def test_a_block_seen_before_is_there_at_once(panel: Panel) -> None:
    page = open_block(panel)
    open_block(panel, index=4)
    jobs: list[object] = []
    panel.runner.started.connect(jobs.append)
    page.show_block(0)
    assert page.block is not None
    assert page.block.detail.index == 0
    assert jobs == []


def test_copies_everything_as_json_and_rows_as_text(qtbot: QtBot, panel: Panel) -> None:
    page = open_block(panel, index=6)
    record = json.loads(copied(qtbot, page.bar.copy.click))
    assert record["block"] == 6
    assert record["bytes"] == stored()[6].tobytes().hex()
    assert [weight["value"] for weight in record["weights"]] == decoded()[6].tolist()
    table = page.panes.weights
    table.select_row(7)
    text = copied(qtbot, lambda: press(panel, table, KEY.Key_C))
    assert text.split("\t")[0] == "7"
    assert float(text.split("\t")[3]) == float(decoded()[6, 7])


@pytest.mark.parametrize("suffix", ["png", "svg", "csv"])
def test_saves_picture_and_data(qtbot: QtBot, panel: Panel, tmp_path: Path, suffix: str) -> None:
    page = open_block(panel, SMALL, 4)
    path = tmp_path / f"block.{suffix}"
    page._export.save(page.panes.plot, path)
    qtbot.waitUntil(lambda: panel.app.written == [str(path)])
    content = path.read_bytes()
    if suffix == "csv":
        lines = content.decode().splitlines()
        assert lines[0] == "weight,code,level,value"
        assert len(lines) == 33
        stored = dequantize(quantize(SMALL_VALUES, "Q4_0"), "Q4_0")[4 * 32 : 5 * 32]
        assert [float(line.split(",")[3]) for line in lines[1:]] == stored.tolist()
    else:
        assert content.startswith({"png": b"\x89PNG", "svg": b"<?xml"}[suffix])
        assert len(content) > 1000
    assert isinstance(page.panes.plot, ThemedPlot)


def huge(path: Path, tensors: int = 1, blocks: int = 1 << 28) -> Path:
    """Write a file of Q8_0 tensors that are holes: zeros that take no room on the disk."""
    file = GgufFile(keys=[("general.architecture", STRING, "llama")])
    for number in range(tensors):
        name = f"blk.{number}.ffn_up.weight"
        dims = 4096, blocks * 32 // 4096
        file.tensors.append(TensorSpec(name, dims, 8, b"", number * blocks * 34))
    header = file.header()
    with path.open("wb") as stream:
        stream.write(header)
        stream.truncate(-(-len(header) // 32) * 32 + tensors * blocks * 34)
    return path


@pytest.fixture
def large(qtbot: QtBot, app: RecordingServices, load: Load, tmp_path: Path) -> Panel:
    """A panel of two tensors of 8 G weights each."""
    panel = Panel(qtbot, app, load(huge(tmp_path / "huge.gguf", 2)))
    panel.view._references.show_document(panel.document)
    return panel


def open_large(panel: Panel) -> BlockPage:
    panel.select("blk.0.ffn_up.weight")
    panel.qtbot.waitUntil(lambda: panel.view is not None)
    page = panel.view.block_page
    panel.view.show_page(page)
    wait_for(panel, 0)
    return page


@pytest.mark.parametrize("way", ["escape", "button", "status bar", "another tensor", "hidden"])
def test_a_search_ends_at_once(reading: Reading, qtbot: QtBot, large: Panel, way: str) -> None:
    page = open_large(large)
    qtbot.mouseClick(page.bar.largest, LEFT)
    qtbot.waitUntil(lambda: "weights/s" in page.progress.label.text())
    search = large.runner.jobs[0]
    if way == "escape":
        page.panes.strip.setFocus()
        qtbot.keyClick(page.panes.strip, KEY.Key_Escape)
    elif way == "button":
        qtbot.mouseClick(page.progress.button, LEFT)
    elif way == "status bar":
        search.cancel()
    elif way == "another tensor":
        large.select("blk.1.ffn_up.weight")
    else:
        large.view.hide()
    qtbot.waitUntil(lambda: search not in large.runner.jobs)
    assert reading.since_cancel <= AT_ONCE
    large.settle()
    assert not page.progress.running
    if way in ("escape", "button", "status bar"):
        assert page.panes.readout.text() == "The search was cancelled."
        assert page.panes.readout.isVisible()


def test_a_tensor_of_eight_billion_weights(reading: Reading, qtbot: QtBot, large: Panel) -> None:
    page = open_large(large)
    assert page.bar.total.text() == f"of {1 << 28:,}"
    before = reading.nbytes
    page.bar.goto.setText("2097151, 4095")
    qtbot.keyClick(page.bar.goto, KEY.Key_Return)
    wait_for(large, (1 << 28) - 1)
    page.bar.slider.setValue(page.bar.slider.maximum() // 2)
    large.settle()
    assert page.bar.number.value() == pytest.approx((1 << 27), rel=1e-3)
    assert reading.nbytes - before <= AT_ONCE


def test_reads_only_while_it_is_visible(panel: Panel) -> None:
    panel.show(NAME)
    page = panel.view.block_page
    page.show_block(3)
    assert panel.runner.jobs == []
    assert page.block is None
    panel.view.show_page(page)
    wait_for(panel, 3)
    panel.view.show_page(panel.view.values)
    panel.settle()
    panel.view._references.choose(Rounding("Q8_0"))
    assert page.block is not None
    assert page.block.compared is None
    panel.view.show_page(page)
    panel.qtbot.waitUntil(lambda: page.block is not None and page.block.compared is not None)
    panel.settle()


def test_a_cut_reference_does_not_hide_the_block(
    qtbot: QtBot, panel: Panel, load: Load, reference_path: Path
) -> None:
    page = open_block(panel)
    reference = load(reference_path)
    references = panel.view._references
    references.set_documents([panel.document, reference])
    references.choose(reference)
    qtbot.waitUntil(lambda: page.block is not None and page.block.compared is not None)
    os.truncate(reference_path, 200)
    page.show_block(6)
    wait_for(panel, 6)
    assert page.block is not None
    assert page.block.compared is None
    assert page.bar.note.text().startswith("Not compared: ")
    assert "reference.gguf" in page.bar.note.text()


def test_the_model_may_be_closed_meanwhile(qtbot: QtBot, panel: Panel) -> None:
    page = open_block(panel)
    page.show_block(5)
    panel.view.show_document(None)
    panel.view._references.show_document(None)
    panel.settle()
    assert panel.view.state.isVisible()
    assert page.block is None


def test_a_broken_block_is_shown(
    qtbot: QtBot, app: RecordingServices, load: Load, tmp_path: Path
) -> None:
    """Scales that are NaN or infinite, in a tensor of three dimensions."""
    blocks = np.frombuffer(quantize(VALUES[:, :64].copy(), "Q8_0"), np.uint8).reshape(8, 34).copy()
    blocks[0, :2], blocks[1, :2] = [0x00, 0x7E], [0x00, 0x7C]
    name = "<b>%n {0}\u202e"
    file = GgufFile(keys=[("general.architecture", STRING, "llama")])
    file.tensors.append(TensorSpec(name, (64, 2, 2), 8, blocks.tobytes()))
    panel = Panel(qtbot, app, load(file.write(tmp_path / "broken.gguf")))
    panel.view.show_tensors([0])
    panel.settle()
    page = panel.view.block_page
    panel.view.show_page(page)
    wait_for(panel, 0)
    for index in (0, 1):
        page.show_block(index)
        wait_for(panel, index)
        page.panes.look_at(BlockPart(PartKind.WEIGHT, 5))
        assert any(word in page.panes.readout.text() for word in ("NaN", "inf"))
        page.panes.plot.grab()
    page.show_block(7)
    wait_for(panel, 7)
    assert page.bar.place.text().startswith("Row 1, 1, columns 32 to 63")
    page.show_place(3, 63)
    assert page.panes.looked_at == BlockPart(PartKind.WEIGHT, 31)
    qtbot.mouseClick(page.bar.largest, LEFT)
    wait_for(panel, 0)
    assert "largest scale: NaN" in page.panes.readout.text()
    assert not unsafe_characters(page.bar.place.text())


def test_the_smallest_and_largest_numbers(
    qtbot: QtBot, app: RecordingServices, load: Load, tmp_path: Path
) -> None:
    blocks = np.tile(np.arange(17, dtype=np.uint8) * 15, (4, 1))  # MXFP4, whose codes are all used
    blocks[:, 0] = [0, 1, 254, 255]
    file = GgufFile(keys=[("general.architecture", STRING, "llama")])
    file.tensors.append(TensorSpec("extreme", (128,), 39, blocks.tobytes()))
    panel = Panel(qtbot, app, load(file.write(tmp_path / "extreme.gguf")))
    page = open_block(panel, "extreme")
    for index in range(4):
        page.show_block(index)
        wait_for(panel, index)
        for weight in range(0, 32, 5):
            page.panes.look_at(BlockPart(PartKind.WEIGHT, weight))
            page.panes.grab()
    assert page.block is not None
    assert np.isinf(page.block.detail.values).any()
    page.panes.look_at(BlockPart(PartKind.WEIGHT, 32))  # there is none
    assert page.panes.looked_at is None


def test_follows_other_colours(panel: Panel) -> None:
    page = open_block(panel)
    page.panes.look_at(BlockPart(PartKind.FIELD, 2))
    light = page.panes.strip.grab().toImage()
    palette = QPalette(QColor(37, 39, 43))
    QApplication.setPalette(palette)
    try:
        panel.qtbot.waitUntil(lambda: page.panes.strip.grab().toImage() != light)
        assert page.panes.plot.colours.background == page.panes.plot.palette().color(
            QPalette.ColorRole.Window
        )
    finally:
        apply_scheme(Scheme.SYSTEM)


def test_nothing_has_to_be_scrolled_sideways(panel: Panel) -> None:
    panel.view.resize(890, 640)
    panel.view._references.choose(Rounding("Q2_K"))
    page = open_block(panel)
    panes = page.panes
    for tab in (panes.weights, panes.sub_blocks):
        panes.tabs.setCurrentWidget(tab)
        QApplication.processEvents()
        assert tab.horizontalHeader().length() <= tab.viewport().width()
    assert panes.fields.horizontalHeader().length() <= panes.fields.viewport().width()
    assert panes.strip.width() <= panes._scroll.viewport().width()
    assert page.minimumSizeHint().width() <= 890


def test_the_bytes_are_shown_in_their_file(
    qtbot: QtBot, make_window: Callable[..., MainWindow], candidate_path: Path
) -> None:
    window = make_window(candidate_path)
    document = window.documents[0]
    row = document.model.tensors.row_of(NAME)
    assert row is not None
    window.reveal_tensor(document, row)
    window.panels.setCurrentWidget(window.panels.weights)
    view = window.panels.weights.widget
    page = view.block_page
    view.show_page(page)
    qtbot.waitUntil(lambda: page.block is not None)
    page.show_block(4)
    qtbot.waitUntil(lambda: page.block is not None and page.block.detail.index == 4)
    page.panes.fields.select_row(2)
    qtbot.mouseClick(page.bar.raw, LEFT)
    offset = document.model.tensors[NAME].offset + 4 * 144 + 4
    raw = window.panels.raw.widget
    assert window.panels.currentWidget() is window.panels.raw
    assert raw.hex.selection == range(offset, offset + 12)
    qtbot.waitUntil(lambda: not window.runner.jobs)
