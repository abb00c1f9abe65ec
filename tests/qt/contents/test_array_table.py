"""The elements of a metadata array as a table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from pytestqt.modeltest import ModelTester

from explorer.qt.contents.metadata import array_columns
from explorer.qt.document import Document
from explorer.qt.widgets.table_model import ItemRole, TableModel
from tests.helpers.gguf_writer import small_model
from tests.helpers.window import HOSTILE, unsafe_characters


@pytest.fixture
def arrays(tmp_path: Path, load: Callable[[Path], Document]) -> Document:
    return load(small_model().write(tmp_path / "arrays.gguf"))


def table(document: Document, key: str) -> TableModel:
    value = document.model.metadata[key]
    model = TableModel()
    model.set_content(array_columns(key, value), len(value))
    return model


def column(model: TableModel, role: int = ItemRole.RAW) -> list[object]:
    return [model.index(row, 1).data(role) for row in range(model.rowCount())]


@pytest.mark.parametrize(
    "key",
    ["a.i32", "a.bool", "a.empty", "a.nested", "tokenizer.ggml.tokens", "tokenizer.ggml.scores"],
)
def test_it_keeps_qts_contract(arrays: Document, key: str, qtmodeltester: ModelTester) -> None:
    model = table(arrays, key)
    qtmodeltester.check(model)
    for number in (0, 1):
        model.sort(number, Qt.SortOrder.DescendingOrder)
        qtmodeltester.check(model)


def test_numbers_are_built_in_and_sorted_by_value(small: Document) -> None:
    model = table(small, "some.numbers")
    assert column(model) == [30, -10, 20]
    assert {type(model.columns[1].raw(row)) for row in range(3)} == {int}
    model.sort(1)
    assert column(model) == [-10, 20, 30]
    assert [model.index(row, 0).data() for row in range(3)] == ["1", "2", "0"]


def test_elements_of_every_kind(arrays: Document) -> None:
    assert column(table(arrays, "a.bool"))[:2] == [False, True]
    assert column(table(arrays, "a.empty")) == []
    assert column(table(arrays, "a.nested")) == ["[1, 2]", "[]", "[-3]"]
    assert column(table(arrays, "tokenizer.ggml.scores")) == [0.0, -1.0, -2.5, 0.5, 1.5, 2.0]
    tokens = column(table(arrays, "tokenizer.ggml.tokens"))
    assert tokens[3:5] == ["\\xff\\xfe", "a\\x00b"]


def test_hostile_elements_are_safe_and_short(hostile: Document) -> None:
    model = table(hostile, "tokenizer.ggml.tokens")
    texts = column(model, Qt.ItemDataRole.DisplayRole)
    assert len(texts) == len(HOSTILE)
    assert not any(unsafe_characters(str(text)) for text in texts + column(model))
    assert texts[0] == HOSTILE[0]
    assert max(len(str(text)) for text in texts) <= 400
