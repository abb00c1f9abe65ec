"""The table model: Qt's contract, sorting and filtering by index arrays."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from PySide6.QtCore import QPersistentModelIndex, Qt
from pytestqt.modeltest import ModelTester

from explorer.present.tables.table import PLACE, TEXT, Column, Table
from explorer.qt.widgets.table_model import ItemRole, TableModel

UP, DOWN = Qt.SortOrder.AscendingOrder, Qt.SortOrder.DescendingOrder
NAMES = ["d", "a", "c", "b", "a"]
NUMBERS = [4, 1, 3, 2, 9]
ARRAY = np.array(NUMBERS)


NAME = Column[int]("name", "Name", TEXT, "What", NAMES.__getitem__)
NUMBER = Column[int]("number", "Number", PLACE, of=NUMBERS.__getitem__)
TABLE = Table(NAME, NUMBER)
ROWS = range(len(NAMES))


@pytest.fixture
def model(qapp: object) -> TableModel:
    model = TableModel()
    model.set_content(TABLE, ROWS)
    return model


def shown(model: TableModel, column: int = 1) -> list[str]:
    return [model.index(row, column).data() for row in range(model.rowCount())]


def test_it_keeps_qts_contract(qtmodeltester: ModelTester, qapp: object) -> None:
    model = TableModel()
    qtmodeltester.check(model)
    model.set_content(TABLE, ROWS)
    qtmodeltester.check(model)
    for order in (DOWN, UP):
        model.sort(1, order)
        qtmodeltester.check(model)
    model.renew(TABLE, ROWS)
    qtmodeltester.check(model)
    assert not model.update(TABLE, ROWS)
    qtmodeltester.check(model)
    model.set_filter(ARRAY > 2)
    qtmodeltester.check(model)
    model.set_filter(np.zeros(len(NAMES), dtype=np.bool_))
    qtmodeltester.check(model)
    model.set_filter(None)
    model.set_content(Table(NAME), range(2))
    qtmodeltester.check(model)
    model.clear()
    qtmodeltester.check(model)


def test_sorting_and_filtering_go_together(model: TableModel) -> None:
    model.sort(1, DOWN)
    assert shown(model) == ["9", "4", "3", "2", "1"]
    model.set_filter(ARRAY < 4)
    assert shown(model) == ["3", "2", "1"]
    model.sort(1, UP)
    assert shown(model) == ["1", "2", "3"]
    model.set_filter(None)
    assert shown(model) == ["1", "2", "3", "4", "9"]
    model.sort(-1)
    assert shown(model) == ["4", "1", "3", "2", "9"]
    assert model.content_count == 5


def test_equal_keys_keep_the_order_of_the_content(model: TableModel) -> None:
    same = Column[int]("same", "Same", PLACE, of=int, keys=lambda: np.zeros(5))
    model.set_content(Table(same), ROWS)
    model.sort(0, UP)
    assert shown(model, 0) == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("filtered", [False, True])
def test_persistent_indexes_follow_their_rows(model: TableModel, filtered: bool) -> None:
    if filtered:
        model.set_filter(ARRAY != 3)
    kept = [
        QPersistentModelIndex(model.index(row, column))
        for row in range(model.rowCount())
        for column in (0, 1)
    ]
    before = [(index.data(ItemRole.ROW), index.data()) for index in kept]
    places = [index.row() for index in kept]
    model.sort(1, UP)
    assert [index.row() for index in kept] != places
    assert [(index.data(ItemRole.ROW), index.data()) for index in kept] == before
    model.sort(0, DOWN)
    assert [(index.data(ItemRole.ROW), index.data()) for index in kept] == before


def test_content_rows_are_found_unless_filtered_out(model: TableModel) -> None:
    model.sort(1, UP)
    assert model.index_of(0).row() == 3
    assert model.content_row(model.index(3, 0)) == 0
    model.set_filter(ARRAY != 4)
    assert not model.index_of(0).isValid()
    assert model.cells([0, 1], [1, 0]) == [[1, "a"], [2, "b"]]


def test_roles_and_headers(model: TableModel) -> None:
    right = Qt.AlignmentFlag.AlignRight
    index = model.index(2, 1)
    assert (index.data(), index.data(ItemRole.RAW), index.data(ItemRole.ROW)) == ("3", 3, 2)
    assert Qt.AlignmentFlag(index.data(Qt.ItemDataRole.TextAlignmentRole)) & right
    left = model.index(2, 0).data(Qt.ItemDataRole.TextAlignmentRole)
    assert not Qt.AlignmentFlag(left) & right
    horizontal, tip = Qt.Orientation.Horizontal, Qt.ItemDataRole.ToolTipRole
    assert [model.headerData(i, horizontal) for i in range(3)] == ["Name", "Number", None]
    assert [model.headerData(i, horizontal, tip) for i in range(2)] == ["What", None]
    assert model.headerData(0, Qt.Orientation.Vertical) is None


def test_reading_none_loses_no_reference(model: TableModel) -> None:
    """PySide6 6.12 lost a reference to None at each read on Python 3.11 (docs/libraries.md, 1)."""
    index = model.index(0, 0)
    role = Qt.ItemDataRole.DecorationRole
    assert index.data(role) is None
    before = sys.getrefcount(None)
    for _ in range(1000):
        index.data(role)
    assert abs(sys.getrefcount(None) - before) < 100
