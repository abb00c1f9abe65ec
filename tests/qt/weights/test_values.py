"""The table of values in the panel: looking, going to a place, copying, failing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QItemSelection, QItemSelectionModel, Qt
from PySide6.QtWidgets import QApplication, QFileDialog, QWidget
from pytestqt.qtbot import QtBot

from explorer.qt.document import Document
from explorer.qt.weights.values import MOST_COPIED, ValuesPage
from tests.helpers.reading import AT_ONCE, Reading
from tests.helpers.services import RecordingServices
from tests.helpers.weight_files import expert_weights, huge_model, layer_weights, weights_model
from tests.helpers.weight_views import Panel
from tests.helpers.window import copied

KEY = Qt.Key
Load = Callable[[Path], Document]


@pytest.fixture
def panel(qtbot: QtBot, app: RecordingServices, load: Load, tmp_path: Path) -> Panel:
    return Panel(qtbot, app, load(weights_model().write(tmp_path / "weights.gguf")))


def open_values(panel: Panel, *names: str) -> ValuesPage:
    """Show the values of a tensor and wait until those in sight are read."""
    panel.show(*names)
    page = panel.view.values
    panel.view.show_page(page)
    wait_for_values(panel)
    return page


def wait_for_values(panel: Panel) -> None:
    page = panel.view.values
    grid = page.grid

    def all_there() -> bool:
        QApplication.processEvents()
        first = grid.indexAt(grid.viewport().rect().topLeft())
        return first.isValid() and first.data() != "…"

    panel.qtbot.waitUntil(all_there)
    panel.settle()


def go_to(panel: Panel, text: str) -> None:
    """Type a place into the line and press Enter."""
    page = panel.view.values
    page.goto.clear()
    panel.qtbot.keyClicks(page.goto, text)
    panel.qtbot.keyClick(page.goto, KEY.Key_Return)
    panel.settle()


def test_shows_what_the_tensor_holds(panel: Panel) -> None:
    page = open_values(panel, "blk.1.attn_q.weight")
    weights = layer_weights(1)
    assert page.model.index(0, 0).data() == f"{weights[0, 0]:.6g}"
    assert page.title.text() == "96 × 64 values"


def test_one_goes_to_a_row_and_column(qtbot: QtBot, panel: Panel) -> None:
    page = open_values(panel, "blk.1.attn_q.weight")
    panel.view.focus_search()
    assert page.goto.hasFocus()
    go_to(panel, "95, 63")
    index = page.grid.currentIndex()
    assert (index.row(), index.column()) == (95, 63)
    assert page.grid.hasFocus()
    assert page.grid.viewport().rect().contains(page.grid.visualRect(index))
    assert page.place.text() == f"Row 95, column 63: {layer_weights(1)[95, 63]:.9g}"
    go_to(panel, "96, 0")
    assert "below 96" in page.place.text()
    go_to(panel, "no number")
    assert "Type a row" in page.place.text()


def test_more_dimensions_are_folded_and_that_is_said(panel: Panel) -> None:
    page = open_values(panel, "experts.weight")
    assert "2 × 3 × 8" in page.title.text()
    assert "folded into rows" in page.title.text()
    go_to(panel, "1, 2, 3")
    assert page.place.text() == f"Row 1, 2, column 3: {expert_weights()[1, 2, 3]:g}"


def test_selected_values_are_copied(qtbot: QtBot, panel: Panel) -> None:
    page = open_values(panel, "blk.1.attn_q.weight")
    area = QItemSelection(page.model.index(50, 10), page.model.index(90, 12))  # not in sight
    page.grid.selectionModel().select(area, QItemSelectionModel.SelectionFlag.ClearAndSelect)
    page.grid.setFocus()
    text = copied(
        qtbot, lambda: qtbot.keyClick(page.grid, KEY.Key_C, Qt.KeyboardModifier.ControlModifier)
    )
    cells = [[float(cell) for cell in line.split("\t")] for line in text.split("\n")]
    np.testing.assert_array_equal(np.float32(cells), layer_weights(1)[50:91, 10:13])
    panel.settle()
    assert "123" in page.place.text()


def test_all_values_are_saved_as_a_numpy_file(
    qtbot: QtBot, app: RecordingServices, panel: Panel, tmp_path: Path
) -> None:
    page = open_values(panel, "blk.1.attn_q.weight")
    target = tmp_path / "values.npy"
    assert page._tensor is not None
    page.export.save(page._tensor, target)
    panel.settle()
    assert panel.app.written == [str(target)]
    np.testing.assert_array_equal(np.load(target), layer_weights(1))


@pytest.mark.parametrize("name", ["values.csv", "VALUES.CSV"])
def test_all_values_are_saved_as_csv(panel: Panel, tmp_path: Path, name: str) -> None:
    page = open_values(panel, "experts.weight")
    assert page._tensor is not None
    page.export.save(page._tensor, tmp_path / name)
    panel.settle()
    assert panel.app.written == [str(tmp_path / name)]
    lines = (tmp_path / name).read_text("utf-8").splitlines()
    rows = [[float(cell) for cell in line.split(",")] for line in lines]
    np.testing.assert_array_equal(rows, expert_weights().reshape(6, 8))  # as the page folds it


@pytest.mark.parametrize(
    ("typed", "chosen", "saved"),
    [
        ("w.npy", 0, "w.npy"),
        ("w.csv", 0, "w.csv"),  # what is typed outdoes what is chosen
        ("w", 0, "w.npy"),
        ("w.v2", 1, "w.v2.csv"),
        ("", 0, None),
    ],
)
def test_the_dialog_offers_both_kinds_of_file(
    *,
    panel: Panel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    typed: str,
    chosen: int,
    saved: str | None,
) -> None:
    page = open_values(panel, "blk.1.attn_q.weight")
    suggested: list[str] = []
    folder = tmp_path / "saved"
    folder.mkdir()

    def choose(_parent: QWidget, _title: str, name: str, kinds: str, *_: object) -> tuple[str, str]:
        suggested.append(name)
        return str(folder / typed) if typed else "", kinds.split(";;")[chosen]

    monkeypatch.setattr(QFileDialog, "getSaveFileName", choose)
    page.save_button.click()
    panel.settle()
    assert suggested == ["blk.1.attn_q.weight.npy"]
    assert [file.name for file in folder.iterdir()] == ([] if saved is None else [saved])
    if saved is not None and saved.endswith(".npy"):
        np.testing.assert_array_equal(np.load(folder / saved), layer_weights(1))
    elif saved is not None:
        found = np.loadtxt(folder / saved, np.float32, delimiter=",")
        np.testing.assert_array_equal(found, layer_weights(1))


@pytest.mark.parametrize("name", ["weights.gguf", "missing/values.npy", "missing/values.csv"])
def test_values_that_cannot_be_saved_are_reported(
    qtbot: QtBot, panel: Panel, tmp_path: Path, name: str
) -> None:
    page = open_values(panel, "blk.1.attn_q.weight")
    before = (tmp_path / "weights.gguf").read_bytes()
    assert page._tensor is not None
    page.export.save(page._tensor, tmp_path / name)
    panel.settle()
    (failure,) = panel.app.errors
    assert name in str(failure)
    assert (tmp_path / "weights.gguf").read_bytes() == before


@pytest.mark.parametrize("name", ["values.npy", "values.csv"])
def test_a_cancelled_save_leaves_nothing_behind(
    *, qtbot: QtBot, app: RecordingServices, load: Load, tmp_path: Path, name: str
) -> None:
    panel = Panel(qtbot, app, load(huge_model(tmp_path / "huge.gguf", 1 << 30)))
    page = panel.begin("blk.0.ffn_up.weight") and panel.view.values
    panel.view.cancel()
    assert page._tensor is not None
    folder = tmp_path / "saved"
    folder.mkdir()
    job = page.export.save(page._tensor, folder / name)
    with qtbot.waitSignal(job.progressed):
        pass
    job.cancel()
    panel.settle()
    assert list(folder.iterdir()) == []


def test_a_tensor_of_eight_billion_weights_stays_responsive(
    reading: Reading, qtbot: QtBot, app: RecordingServices, load: Load, tmp_path: Path
) -> None:
    panel = Panel(qtbot, app, load(huge_model(tmp_path / "huge.gguf", 1 << 33)))
    panel.select("blk.0.ffn_up.weight")
    qtbot.waitUntil(lambda: panel.view is not None)
    page = panel.view.values
    panel.view.show_page(page)
    panel.settle()  # the histogram is no longer read
    before = reading.nbytes
    for text in ("2097151, 4095", "0", "1000000, 17"):
        go_to(panel, text)
        wait_for_values(panel)
    assert reading.nbytes - before <= AT_ONCE
    assert page.place.text() == "Row 1000000, column 17: 0"
    page.grid.selectAll()
    qtbot.keyClick(page.grid, KEY.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert f"{MOST_COPIED:,}" in page.place.text()


def test_what_cannot_be_read_is_said_and_can_be_tried_again(
    qtbot: QtBot, panel: Panel, tmp_path: Path
) -> None:
    file = tmp_path / "weights.gguf"
    content = file.read_bytes()
    page = open_values(panel, "norm.weight")
    os.truncate(file, 64)
    panel.select("blk.3.attn_q.weight")
    qtbot.waitUntil(lambda: page.model.index(0, 0).data() == "?")
    assert "weights.gguf" in page.place.text()
    panel.settle()
    with file.open("r+b") as stream:
        stream.write(content)
    page.model.retry()
    qtbot.waitUntil(lambda: page.model.index(0, 0).data() != "…")
    panel.settle()


def test_a_long_reason_makes_the_page_no_wider(panel: Panel) -> None:
    page = open_values(panel, "blk.1.attn_q.weight")
    before = page.minimumSizeHint().width()
    page._say("cut short " * 100)
    assert page.place.text() == "cut short " * 100
    assert page.minimumSizeHint().width() == before
