"""The tensor panel: columns, filter, totals."""

from __future__ import annotations

from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from explorer.present.tables.tensors import tensor_table
from explorer.qt.contents.tables import tensor_totals
from explorer.qt.document import Document
from explorer.qt.main_window import MainWindow
from explorer.qt.widgets.table_model import ItemRole, TableModel


def test_typing_filters_escape_clears_and_down_enters(qtbot: QtBot, window: MainWindow) -> None:
    view = window.panels.tensors.widget
    window.panels.setCurrentWidget(window.panels.tensors)
    qtbot.keyClick(window, Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier)
    assert view.bar.edit.hasFocus()
    qtbot.keyClicks(view.bar.edit, "ffn layer:1")
    assert view.model.rowCount() == 4
    assert "4 of 22" in view.bar.status.text()
    assert "4 tensors" in view._totals.text()
    qtbot.keyClick(view.bar.edit, Qt.Key.Key_Down)
    assert view.table.hasFocus()
    assert view.table.selected_content_rows().tolist() == [16]  # blk.1.ffn_norm
    assert "Selected: 1 tensor, " in view._totals.text()
    qtbot.keyClick(view.bar.edit, Qt.Key.Key_Escape)
    assert view.bar.text == ""
    assert view.model.rowCount() == 22


def test_no_match_and_a_wrong_term_are_told(qtbot: QtBot, window: MainWindow) -> None:
    view = window.panels.tensors.widget
    window.panels.setCurrentWidget(window.panels.tensors)
    qtbot.keyClicks(view.bar.edit, "no_such_tensor")
    assert view._empty.isVisible()
    qtbot.keyClick(view.bar.edit, Qt.Key.Key_Escape)
    assert view.table.isVisible()
    qtbot.keyClicks(view.bar.edit, "layer:x size>foo")
    assert view.model.rowCount() == 22
    assert view.bar.status.text() == "22 of 22"
    assert view.bar.note.isVisible()
    assert all(f"'{word}' is left out" in view.bar.note.text() for word in ("layer:x", "size>foo"))
    qtbot.keyClick(view.bar.edit, Qt.Key.Key_Escape)
    assert not view.bar.note.isVisible()


def test_a_filter_of_wrong_words_only_demands_no_width(qtbot: QtBot, window: MainWindow) -> None:
    view = window.panels.tensors.widget
    window.panels.setCurrentWidget(window.panels.tensors)
    before = view.minimumSizeHint().width()
    qtbot.keyClicks(view.bar.edit, " ".join(f"foo{number}:1" for number in range(9)))
    assert view.minimumSizeHint().width() <= before
    assert view.bar.note.height() < view.height() / 4


BUILTIN = {str, int, float, bool, type(None)}
DOWN = Qt.SortOrder.DescendingOrder


def table(document: Document) -> TableModel:
    model = TableModel()
    rows = range(len(document.arrays))
    model.set_content(tensor_table(document.model, document.arrays), rows)
    return model


def column_number(model: TableModel, name: str) -> int:
    return [column.name for column in model.columns].index(name)


def values(model: TableModel, name: str) -> list[object]:
    column = column_number(model, name)
    return [model.index(row, column).data(ItemRole.RAW) for row in range(model.rowCount())]


def test_layers_are_in_natural_order(small: Document) -> None:
    model = table(small)
    assert values(model, "layer") == [0, 1, 10, 11, 2, 3, 4, 5, 6, 7, 8, 9]  # as in the file
    model.sort(column_number(model, "name"))
    assert values(model, "layer") == list(range(12))
    model.sort(column_number(model, "bytes"), DOWN)
    assert values(model, "bytes") == [4 * size for size in range(12, 0, -1)]


def test_hostile_names_are_told_apart(hostile: Document) -> None:
    names = values(table(hostile), "name")
    assert "<b>bold</b><img src=x>" in names
    assert "turned \\u202e round" in names
    assert "line\\nbreak\\ttab" in names
    assert len(set(names)) == 12


def test_totals_add_up(small: Document) -> None:
    assert tensor_totals(small.arrays, range(12)) == (78, 312)
    assert tensor_totals(small.arrays, []) == (0, 0)
    assert tensor_totals(small.arrays, [2, 3]) == (23, 92)  # layers 10 and 11
