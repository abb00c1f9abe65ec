"""The table of values: folding, tiles, a window over very large tensors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import Qt
from pytestqt.modeltest import ModelTester
from pytestqt.qtbot import QtBot

from explorer.formats.tensors import Folding
from explorer.formats.weights import WeightReader
from explorer.qt.document import Document
from explorer.qt.weights.values import MOST_COLUMNS, MOST_ROWS, Place, ValuesTable, read_tile
from explorer.qt.widgets.table_model import ItemRole
from tests.helpers.weight_files import expert_weights, huge_model, layer_weights, weights_model


@pytest.fixture
def document(load: Callable[[Path], Document], tmp_path: Path) -> Document:
    return load(weights_model().write(tmp_path / "weights.gguf"))


def fill(table: ValuesTable, document: Document, name: str) -> list[Place]:
    """Answer each tile that is wanted at once; return them as they are asked for."""
    reader = WeightReader(document.model.tensors[name])
    asked: list[Place] = []

    def answer(place: Place) -> None:
        asked.append(place)
        table.set_tile(place, read_tile(reader, place, lambda: None))

    table.tile_wanted.connect(answer)
    return asked


def test_shows_every_value_of_a_matrix(qapp: object, document: Document) -> None:
    table = ValuesTable()
    name = "blk.1.attn_q.weight"
    asked = fill(table, document, name)
    table.set_tensor(document.model.tensors[name])
    weights = layer_weights(1)
    assert (table.rowCount(), table.columnCount()) == weights.shape
    assert table.index(40, 7).data() == "…"
    assert asked == [(1, 0)]
    assert table.index(40, 7).data(ItemRole.RAW) == float(weights[40, 7])
    for row in range(table.rowCount()):
        for column in range(table.columnCount()):
            table.index(row, column).data()
            assert table.index(row, column).data(ItemRole.RAW) == float(weights[row, column])
    assert sorted(asked) == [(0, 0), (1, 0), (2, 0)]
    assert table.index(3, 5).data() == "50.0000"
    assert type(table.index(3, 5).data(ItemRole.RAW)) is float


def test_the_model_keeps_qts_rules(
    qtmodeltester: ModelTester, document: Document, qtbot: QtBot
) -> None:
    table = ValuesTable()
    qtmodeltester.check(table)
    fill(table, document, "experts.weight")
    table.set_tensor(document.model.tensors["experts.weight"])
    qtmodeltester.check(table)
    qtmodeltester.check(table, force_py=True)
    table.set_tensor(None)
    assert table.rowCount() == 0
    qtmodeltester.check(table)


def test_folds_the_leading_dimensions_into_rows(qapp: object, document: Document) -> None:
    table = ValuesTable()
    fill(table, document, "experts.weight")
    table.set_tensor(document.model.tensors["experts.weight"])
    assert (table.rowCount(), table.columnCount()) == (6, 8)
    vertical = Qt.Orientation.Vertical
    assert [table.headerData(row, vertical) for row in range(6)] == [
        "0, 0",
        "0, 1",
        "0, 2",
        "1, 0",
        "1, 1",
        "1, 2",
    ]
    table.index(4, 6).data()
    assert table.index(4, 6).data(ItemRole.RAW) == float(expert_weights()[1, 1, 6])


def test_a_tensor_of_a_billion_weights_is_shown_through_a_window(
    qapp: object, load: Callable[[Path], Document], tmp_path: Path
) -> None:
    document = load(huge_model(tmp_path / "huge.gguf", 1 << 33))
    tensor = document.model.tensors.rows[0]
    table = ValuesTable()
    asked = fill(table, document, tensor.name)
    table.set_tensor(tensor)
    assert tensor.parameters == 1 << 33
    assert (table.rowCount(), table.columnCount()) == (MOST_ROWS, 4096)
    last = (1 << 21) - 1
    index = table.index_of((last, 4095))
    assert table.place(index) == (last, 4095)
    assert table.headerData(index.row(), Qt.Orientation.Vertical) == str(last)
    assert index.data() == "…"
    assert table.index_of((last, 4095)).data() == "0"
    assert len(asked) == 1
    assert table.index_of((0, 0)).row() == 0


def test_long_rows_are_shown_through_a_window_too(qapp: object) -> None:
    table = ValuesTable()
    table.folding = Folding((10 * MOST_COLUMNS,))
    index = table.index_of((0, 10 * MOST_COLUMNS - 1))
    assert table.place(index) == (0, 10 * MOST_COLUMNS - 1)
    assert table.columnCount() == MOST_COLUMNS


def test_keeps_no_more_than_some_tiles(
    qapp: object, load: Callable[[Path], Document], tmp_path: Path
) -> None:
    document = load(huge_model(tmp_path / "large.gguf", 1 << 24))
    tensor = document.model.tensors.rows[0]
    table = ValuesTable()
    asked = fill(table, document, tensor.name)
    table.set_tensor(tensor)
    for row in range(0, 4096, 32):
        for column in (0, 256):
            table.index(row, column).data()
    assert len(asked) == len(set(asked)) == 256
    assert sum(table.has_tile(place) for place in asked) == 128
    assert table.has_tile(asked[-1])
    assert not table.has_tile(asked[0])


def test_what_cannot_be_read_is_said_and_asked_for_again_on_demand(
    qapp: object, document: Document
) -> None:
    table = ValuesTable()
    wanted: list[Place] = []
    table.tile_wanted.connect(wanted.append)
    table.set_tensor(document.model.tensors["norm.weight"])
    assert table.index(0, 0).data() == "…"
    table.set_failed([(0, 0)])
    assert table.index(0, 0).data() == "?"
    assert wanted == [(0, 0)]
    table.retry()
    assert table.index(0, 0).data() == "…"
    assert wanted == [(0, 0), (0, 0)]
    table.set_tile((0, 0), np.zeros((1, 40), np.float32))
    assert table.index(0, 0).data() == "0"
