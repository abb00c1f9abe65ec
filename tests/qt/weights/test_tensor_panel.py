"""Of several tensors one is shown on the pages of one tensor: choosing it, on every page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QToolButton
from pytestqt.qtbot import QtBot

from explorer.analysis.blocks import block_statistics
from explorer.qt.document import Document
from explorer.qt.weights.tensor_panel import Scope
from explorer.quantization import dequantize, quantize
from tests.helpers.model_pairs import write_gguf
from tests.helpers.services import RecordingServices
from tests.helpers.weight_files import LAYERS, layer_weights, weights_model
from tests.helpers.weight_views import Panel, drag, pixel
from tests.helpers.window import HOSTILE, unsafe_characters

ALT = Qt.KeyboardModifier.AltModifier
NEXT, BEFORE = Qt.Key.Key_PageDown, Qt.Key.Key_PageUp
Load = Callable[[Path], Document]

NAMES = tuple(f"blk.{layer}.attn_k.weight" for layer in range(3))
PLAIN, OTHER = "blk.0.attn_norm.weight", "blk.0.ffn_up.weight"
ARRAYS = {
    **{
        name: np.random.default_rng(n).normal(0, 0.01 * (n + 1), (4, 256)).astype(np.float32)
        for n, name in enumerate(NAMES)
    },
    PLAIN: np.ones(64, np.float32),
    OTHER: np.random.default_rng(9).normal(0, 1, (2, 64)).astype(np.float32),
}
TYPES = {**dict.fromkeys(NAMES, "Q4_K"), OTHER: "Q8_0"}


def decoded(name: str) -> np.ndarray:
    """Return what is stored of a tensor."""
    array = ARRAYS[name]
    return dequantize(quantize(array.reshape(-1), "Q4_K"), "Q4_K").reshape(array.shape)


@pytest.fixture
def panel(qtbot: QtBot, app: RecordingServices, load: Load, tmp_path: Path) -> Panel:
    return Panel(qtbot, app, load(write_gguf(tmp_path / "k.gguf", "llama", ARRAYS, TYPES)))


@pytest.fixture
def plain(qtbot: QtBot, app: RecordingServices, load: Load, tmp_path: Path) -> Panel:
    """A panel of a model whose `attn_q` is not quantized."""
    return Panel(qtbot, app, load(weights_model().write(tmp_path / "weights.gguf")))


def picked(panel: Panel) -> str:
    """Return what the picker says."""
    subject = panel.view.picker.subject
    assert subject is not None
    assert panel.view.picker.list.currentText() == subject.name
    return subject.name


def step(panel: Panel, key: Qt.Key) -> None:
    """Press a key with Alt, wherever the focus is in the panel; at first in the tabs."""
    if QApplication.focusWidget() is None:
        panel.view.tabs.tabBar().setFocus()
    focus = QApplication.focusWidget()
    assert focus is not None
    panel.qtbot.keyClick(focus, key, ALT)
    panel.settle()


def test_there_is_a_choice_only_of_several_tensors(panel: Panel) -> None:
    panel.show(NAMES[1])
    picker = panel.view.picker
    assert not picker.isVisible()
    assert picked(panel) == NAMES[1]
    panel.show(*NAMES)
    assert picker.isVisible()
    assert [picker.list.itemText(place) for place in range(picker.list.count())] == list(NAMES)
    assert picked(panel) == NAMES[0]
    panel.show(NAMES[2])
    assert not picker.isVisible()
    assert picked(panel) == NAMES[2]


def test_the_header_asks_for_no_wider_window(panel: Panel) -> None:
    panel.show(*NAMES, OTHER, PLAIN)
    header = panel.view.header
    assert header.minimumSizeHint().width() < 500
    panel.view.resize(500, 500)
    QApplication.processEvents()
    for widget in (panel.view.picker, header.scope):
        assert header.rect().contains(widget.geometry())
    panel.settle()


def test_every_page_shows_the_chosen_tensor(panel: Panel) -> None:
    panel.show(*NAMES)
    body = panel.view
    codes, scales, minima = body.blocks.pages
    for turn, name in enumerate(NAMES):
        assert picked(panel) == name
        expected = block_statistics(panel.document.model.tensors[name])
        assert expected is not None
        assert expected.minima is not None
        body.show_page(body.map)
        panel.qtbot.waitUntil(lambda: bool(body.map.plot.layers))
        panel.settle()
        np.testing.assert_array_equal(body.map.plot.layers[-1].image, decoded(name))
        assert body.map.readout.label.text().startswith(f"{name}:")
        body.show_page(codes)
        panel.settle()
        assert codes.title.text().startswith(f"{name}:")
        counts = codes.panel.plot.curves[0].histogram.counts
        assert counts.tolist() == expected.code_counts.tolist()
        body.show_page(scales)
        assert scales.panel.plot.curves[0].mean == expected.scales.moments.mean
        body.show_page(minima)
        assert minima.panel.plot.curves[0].mean == expected.minima.moments.mean
        body.show_page(body.block_page)
        panel.qtbot.waitUntil(lambda: body.block_page.block is not None)
        panel.settle()
        assert body.block_page.block is not None
        assert body.block_page.block.detail.values.tolist() == decoded(name)[0].tolist()
        assert name in body.block_page.bar.place.text()
        body.show_page(body.values)
        panel.settle()
        body.values.grid.grab()  # what is painted is read
        panel.settle()
        assert body.values.model.index(0, 0).data() == f"{decoded(name)[0, 0]:.6g}"
        assert body.values.title.text().startswith(f"{name}:")
        if turn < len(NAMES) - 1:
            step(panel, NEXT)


def test_one_chooses_with_the_mouse_and_with_keys(qtbot: QtBot, panel: Panel) -> None:
    panel.show(*NAMES)
    picker = panel.view.picker
    assert not picker.back_action.isEnabled()
    buttons = {widget.defaultAction(): widget for widget in picker.findChildren(QToolButton)}
    qtbot.mouseClick(buttons[picker.on_action], Qt.MouseButton.LeftButton)
    assert picked(panel) == NAMES[1]
    picker.list.setFocus()
    qtbot.keyClick(picker.list, Qt.Key.Key_Down)
    assert picked(panel) == NAMES[2]
    assert not picker.on_action.isEnabled()
    step(panel, NEXT)  # there is nothing behind it
    assert picked(panel) == NAMES[2]
    panel.view.show_page(panel.view.values)
    panel.settle()
    panel.view.values.grid.setFocus()
    step(panel, BEFORE)
    step(panel, BEFORE)
    assert picked(panel) == NAMES[0]
    qtbot.mouseClick(buttons[picker.on_action], Qt.MouseButton.LeftButton)
    panel.settle()
    assert picked(panel) == NAMES[1]
    for widget in (picker.list, *buttons.values()):
        assert widget.accessibleName()
    assert picker.list.whatsThis()


def test_the_histogram_brings_the_chosen_tensor_to_the_front(panel: Panel) -> None:
    panel.show(*NAMES)
    page = panel.view.histogram
    assert page.plot.highlighted is None
    step(panel, NEXT)
    assert page.plot.highlighted == 1
    assert page.panel.table.currentIndex().row() == 1
    page.panel.table.select_row(2)
    assert picked(panel) == NAMES[2]
    assert page.plot.highlighted == 2
    page.controls.arrangement.setCurrentIndex(1)
    panel.settle()
    step(panel, BEFORE)
    assert page.multiples.current == 1


def test_the_choice_outlives_a_refresh_but_not_another_selection(panel: Panel) -> None:
    panel.show(*NAMES)
    step(panel, NEXT)
    panel.view.refresh()  # as when numbers are written in another way
    panel.settle()
    assert picked(panel) == NAMES[1]
    assert panel.view.histogram.plot.highlighted == 1
    panel.show(NAMES[2], NAMES[1])
    assert picked(panel) == NAMES[2]
    assert panel.view.histogram.plot.highlighted is None


def test_of_the_same_role_that_of_the_selected_layer_is_chosen(qtbot: QtBot, plain: Panel) -> None:
    plain.show("blk.2.attn_q.weight")
    body = plain.view
    body.show_page(body.map)
    qtbot.waitUntil(lambda: bool(body.map.plot.layers))
    plain.settle()
    body.header.scope.setFocus()
    qtbot.keyClick(body.header.scope, Qt.Key.Key_Down)
    assert body.header.chosen is Scope.SAME_ROLE
    plain.settle()
    assert body.picker.list.count() == LAYERS
    assert picked(plain) == "blk.2.attn_q.weight"
    np.testing.assert_array_equal(body.map.plot.layers[-1].image, layer_weights(2))
    body.map.plot.setFocus()
    step(plain, NEXT)
    np.testing.assert_array_equal(body.map.plot.layers[-1].image, layer_weights(3))


def test_stepping_over_a_tensor_without_codes_stays_on_the_page(panel: Panel) -> None:
    panel.show(NAMES[0], PLAIN, NAMES[1])
    codes, _, minima = panel.view.blocks.pages
    panel.view.show_page(codes)
    panel.settle()
    assert codes.has_content
    step(panel, NEXT)
    assert codes.isVisible()
    assert codes.state.heading.text() == "Not quantized"
    assert PLAIN in codes.state.sentence.text()
    step(panel, NEXT)
    assert codes.has_content
    assert codes.title.text().startswith(NAMES[1])
    panel.view.show_page(panel.view.block_page)
    panel.settle()
    step(panel, BEFORE)
    assert panel.view.block_page.state.sentence.text() == "This tensor is not quantized."
    assert not panel.view.tabs.isTabVisible(panel.view.place_of(minima))


def test_what_is_known_of_a_type_keeps_the_page_of_minima(panel: Panel) -> None:
    panel.show(NAMES[0], NAMES[1], OTHER)
    _, scales, minima = panel.view.blocks.pages
    panel.view.show_page(scales)
    panel.settle()
    panel.view.show_page(minima)
    step(panel, NEXT)
    assert minima.isVisible()
    assert minima.title.text().startswith(NAMES[1])
    step(panel, NEXT)  # Q8_0 has none
    assert not minima.isVisible()


def test_a_tensor_that_cannot_be_decoded_is_not_offered(plain: Panel) -> None:
    plain.show("old.weight", "norm.weight", "equal.weight")
    picker = plain.view.picker
    names = [picker.list.itemText(place) for place in range(picker.list.count())]
    assert names == ["norm.weight", "equal.weight"]
    assert "old.weight" in plain.view.histogram.note.text()
    plain.show("old.weight", "norm.weight")
    assert not picker.isVisible()
    assert picked(plain) == "norm.weight"


def test_places_chosen_on_the_map_belong_to_the_chosen_tensor(panel: Panel) -> None:
    panel.show(*NAMES)
    body = panel.view
    step(panel, NEXT)
    body.show_page(body.map)
    panel.qtbot.waitUntil(lambda: bool(body.map.plot.layers))
    panel.settle()
    spot = pixel(body.map.plot, 70.5, 2.5)
    drag(body.map.plot, spot, spot)
    panel.settle()
    assert body._values.built is None  # not shown yet
    body.tabs.setCurrentIndex(body.place_of(body._block_page))
    panel.qtbot.waitUntil(lambda: body._block_page.built is not None)
    panel.qtbot.waitUntil(lambda: body.block_page.block is not None)
    panel.settle()
    assert body.block_page.block is not None
    assert body.block_page.block.detail.values.tolist() == decoded(NAMES[1])[2].tolist()
    body.tabs.setCurrentIndex(body.place_of(body._values))
    panel.qtbot.waitUntil(lambda: body._values.built is not None)
    panel.settle()
    index = body.values.grid.currentIndex()
    assert body.values.model.place(index) == (2, 70)
    panel.qtbot.waitUntil(
        lambda: body.values.grid.viewport().rect().intersects(body.values.grid.visualRect(index))
    )
    step(panel, NEXT)
    assert not body.values.grid.currentIndex().isValid()


def test_names_from_strangers_are_offered_as_they_are(
    qtbot: QtBot, app: RecordingServices, hostile: Document
) -> None:
    panel = Panel(qtbot, app, hostile)
    panel.view.show_tensors(range(len(hostile.model.tensors.rows)))
    panel.settle()
    names = panel.view.picker.list
    assert names.count() >= len(HOSTILE)
    for place in range(names.count()):
        assert not unsafe_characters(names.itemText(place))
        assert len(names.itemText(place)) <= 200
    panel.view.show_page(panel.view.map)
    for place in range(names.count()):
        names.setCurrentIndex(place)
        panel.settle()
