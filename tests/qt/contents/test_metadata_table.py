"""The metadata table's columns and filter."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import Qt
from pytestqt.modeltest import ModelTester

from explorer.formats.columns import text_ranks
from explorer.qt.contents.metadata import metadata_columns, metadata_mask
from explorer.qt.document import Document
from explorer.qt.widgets.table_model import ItemRole, TableModel
from tests.helpers.window import unsafe_characters


def table(document: Document) -> TableModel:
    model = TableModel()
    model.set_content(metadata_columns(document), len(document.model.metadata.entries))
    return model


@pytest.mark.parametrize("name", ["demo", "hostile"])
def test_it_keeps_qts_contract(
    name: str, request: pytest.FixtureRequest, qtmodeltester: ModelTester
) -> None:
    document = request.getfixturevalue(name)
    model = table(document)
    qtmodeltester.check(model)
    for column in range(3):
        model.sort(column, Qt.SortOrder.DescendingOrder)
        qtmodeltester.check(model)
    model.set_filter(metadata_mask(document, "general"))
    assert model.rowCount() > 0
    qtmodeltester.check(model)


def test_rows_show_key_type_and_value(small: Document) -> None:
    model = table(small)
    rows = model.cells(range(5), range(3))
    assert rows == [
        ["general.architecture", "string", "llama"],
        ["general.name", "string", "Twelve"],
        ["llama.block_count", "uint32", "12"],
        ["some.numbers", "int32[3]", "[30, -10, 20]"],
        ["some.text", "string", "first line\\nsecond needle line\\nthird"],
    ]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("", [0, 1, 2, 3, 4]),
        ("GENERAL", [0, 1]),
        ("twelve", [1]),
        ("uint32", [2]),
        ("needle some", [4]),
        ("needle general", []),
    ],
)
def test_every_word_must_occur_in_key_type_or_value(
    small: Document, text: str, rows: list[int]
) -> None:
    assert np.flatnonzero(metadata_mask(small, text)).tolist() == rows


def test_ranks_are_in_natural_order() -> None:
    assert text_ranks(["blk.10", "blk.2", "blk.1"]).tolist() == [2, 1, 0]


def test_a_hostile_model_is_shown_as_text(hostile: Document) -> None:
    model = table(hostile)
    for row in range(model.rowCount()):
        for column in range(3):
            index = model.index(row, column)
            assert type(index.data()) is str
            assert type(index.data(ItemRole.RAW)) is str
            assert not unsafe_characters(index.data())
    values = [model.index(row, 2).data() for row in range(model.rowCount())]
    assert "<b>bold</b><img src=x>" in values
    assert max(map(len, values)) < 200  # one is 60,000 characters long in the file
