"""The table: columns, copies, exports, sorting by keys, and room between columns."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QByteArray, QEvent, QPoint, QRect, Qt
from PySide6.QtGui import QGuiApplication, QHelpEvent, QImage
from PySide6.QtWidgets import QFileDialog, QStyleOptionViewItem, QTableWidget, QToolTip, QWidget
from pytestqt.qtbot import QtBot

from explorer.present.tables.table import BYTES, PLACE, TEXT, Column, Table
from explorer.qt.main_window import MainWindow
from explorer.qt.theme import Scheme, apply_scheme
from explorer.qt.widgets import table_view
from explorer.qt.widgets.saving import file_name
from explorer.qt.widgets.table_model import ItemRole, TableModel
from explorer.qt.widgets.table_view import TableView
from tests.helpers.colour_vision import contrast
from tests.helpers.services import RecordingServices
from tests.helpers.window import copied, unsafe_characters

CONTROL, SHIFT = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier


@pytest.fixture
def table(window: MainWindow) -> TableView:
    window.panels.setCurrentWidget(window.panels.tensors)
    window.panels.tensors.widget.table.setFocus()
    return window.panels.tensors.widget.table


def test_rows_cell_and_json_are_copied(qtbot: QtBot, table: TableView) -> None:
    table.select_row(0)
    qtbot.keyClick(table, Qt.Key.Key_Down, SHIFT)
    text = copied(qtbot, lambda: qtbot.keyClick(table, Qt.Key.Key_C, CONTROL))
    head, *rows = [line.split("\t") for line in text.split("\n")]
    assert head == [table.table.columns[place].name for place in table.chosen_columns()]
    assert [row[0] for row in rows] == ["token_embd.weight", "rope_freqs.weight"]
    assert "544000" in rows[0]  # bytes in full, not as shown
    table.select_row(1)
    text = copied(qtbot, lambda: qtbot.keyClick(table, Qt.Key.Key_C, CONTROL))
    assert text.split("\t") == rows[1]  # of one row, for a table that has heads
    text = copied(qtbot, lambda: qtbot.keyClick(table, Qt.Key.Key_C, CONTROL | SHIFT))
    assert text == "rope_freqs.weight"
    table.selectAll()
    records = json.loads(copied(qtbot, table.copy_json_action.trigger))
    assert [record["bytes"] for record in records[:2]] == [544000, 128]


@pytest.mark.parametrize("ending", [".csv", ".json"])
def test_what_is_shown_is_exported(
    qtbot: QtBot, window: MainWindow, table: TableView, tmp_path: Path, ending: str
) -> None:
    qtbot.keyClicks(window.panels.tensors.widget.bar.edit, "ffn_up")
    path = tmp_path / f"tensors{ending}"
    table.export(path)
    said = window.bottom.notice.label
    qtbot.waitUntil(lambda: said.text() == f"✓ Saved {path}")
    if ending == ".csv":
        with path.open(encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream))
    else:
        rows = json.loads(path.read_text("utf-8"))
    assert [row["name"] for row in rows] == ["blk.0.ffn_up.weight", "blk.1.ffn_up.weight"]
    assert str(path) in window.bottom.notice.label.text()


def test_a_file_without_a_suffix_gets_that_of_the_kind_that_was_chosen(
    qtbot: QtBot,
    window: MainWindow,
    table: TableView,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def choose(_parent: QWidget, _title: str, name: str, kinds: str, *_: object) -> tuple[str, str]:
        assert window.current is not None
        assert name == file_name(f"{window.current.title} Tensors", "") + ".csv"
        return str(tmp_path / "tensors"), kinds.split(";;")[1]

    monkeypatch.setattr(QFileDialog, "getSaveFileName", choose)
    table.ask_export()
    said = window.bottom.notice.label
    qtbot.waitUntil(lambda: said.text() == f"✓ Saved {tmp_path / 'tensors.json'}")
    assert json.loads((tmp_path / "tensors.json").read_text("utf-8"))


def test_an_export_that_fails_is_told(
    qtbot: QtBot, window: MainWindow, table: TableView, tmp_path: Path
) -> None:
    table.export(tmp_path / "no folder" / "tensors.csv")
    qtbot.waitUntil(window.message_bar.isVisible)
    assert "cannot be written" in window.message_bar.messages[-1].label.text()


def test_many_rows_are_copied_in_the_background(
    qtbot: QtBot, table: TableView, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.selectAll()
    few = [copied(qtbot, action.trigger) for action in (table.copy_action, table.copy_json_action)]
    monkeypatch.setattr(table_view, "_COPIED_AT_ONCE", 0)
    many = [copied(qtbot, action.trigger) for action in (table.copy_action, table.copy_json_action)]
    assert few == many
    table.clearSelection()
    QGuiApplication.clipboard().setText("kept")
    table.copy_rows()  # of no row: nothing is copied
    assert QGuiApplication.clipboard().text() == "kept"


def test_a_click_on_a_header_sorts(qtbot: QtBot, table: TableView) -> None:
    number = [column.name for column in table.table.columns].index("bytes")
    header = table.horizontalHeader()
    table.column_layout.show_column(number, on=True)

    def click() -> list[int]:
        left, width = header.sectionViewportPosition(number), header.sectionSize(number)
        place = QRect(left, 0, width, header.height()).center()
        qtbot.mouseClick(header.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(place))
        model = table.table
        return [model.index(row, number).data(ItemRole.RAW) for row in range(model.rowCount())]

    table.select_row(21)
    values = click()
    assert values == sorted(values)
    assert table.selected_content_rows().tolist() == [21]
    assert click() == values[::-1]
    assert click()[0] == 544000  # a third click: as in the file


def test_what_a_table_of_more_columns_remembered_is_not_taken(table: TableView) -> None:
    """Found by the soak: a vocabulary with types is followed by one without."""
    wider = QTableWidget(2, len(table.table.columns) + 3)
    table.show_columns(wider.horizontalHeader().saveState())
    assert table.horizontalHeader().count() == len(table.table.columns)


_LEAST_ROOM = 5  # pixels; a blank of the smallest font that is read


@pytest.fixture
def padded(qtbot: QtBot, app: RecordingServices) -> TableView:
    model = TableModel()
    view = TableView(model, app)
    model.setParent(view)
    qtbot.addWidget(view)
    names = ["left", "middle", "right"]
    columns = [
        Column[int](name, "HHHH", kind, of=lambda _row: 8888, text=lambda _row: "8888")
        for name, kind in zip(names, (PLACE, TEXT, PLACE), strict=True)
    ]
    model.set_content(Table(*columns), range(3))
    view.resize(500, 200)
    view.show()
    view.show_columns(QByteArray())
    return view


def ink(widget: QWidget, area: QRect) -> tuple[int, int]:
    """Return the pixels left and right of what is painted in an area, which is not empty."""
    image = widget.grab(area).toImage().convertToFormat(QImage.Format.Format_Grayscale8)
    pixels = np.frombuffer(image.constBits(), np.uint8).reshape(image.height(), -1)
    pixels = pixels[4:-4, : image.width()].astype(int)  # without the lines around
    background = pixels[:, 3]
    columns = np.flatnonzero((np.abs(pixels - background[:, None]) > 60).any(axis=0))
    inside = columns[(columns > 1) & (columns < image.width() - 2)]  # without the line between
    assert len(inside)
    return int(inside[0]), int(image.width() - 1 - inside[-1])


def test_no_text_touches_the_next_column(padded: TableView) -> None:
    for column, numeric in enumerate((True, False, True)):
        area = padded.visualRect(padded.table.index(1, column))
        left, right = ink(padded.viewport(), area)
        assert (right if numeric else left) >= _LEAST_ROOM
        assert (left if numeric else right) >= _LEAST_ROOM


def test_titles_stand_where_their_cells_stand(padded: TableView) -> None:
    header = padded.horizontalHeader()
    for column, numeric in enumerate((True, False, True)):
        place = header.sectionViewportPosition(column)
        area = QRect(place, 0, header.sectionSize(column), header.height())
        title = ink(header.viewport(), area)
        cell = ink(padded.viewport(), padded.visualRect(padded.table.index(1, column)))
        edge = 1 if numeric else 0
        assert abs(title[edge] - cell[edge]) <= 3
        assert title[edge] >= _LEAST_ROOM


def test_what_is_copied_has_no_padding(padded: TableView) -> None:
    index = padded.table.index(0, 1)
    assert index.data() == "8888"
    assert padded.table.cells([0], [0, 1, 2]) == [[8888, 8888, 8888]]


@pytest.mark.parametrize("scheme", [Scheme.LIGHT, Scheme.DARK])
def test_units_are_quieter_than_their_numbers(
    qtbot: QtBot, app: RecordingServices, scheme: Scheme
) -> None:
    apply_scheme(scheme)
    try:
        model = TableModel()
        column = Column[int]("size", "Size", BYTES, of=[1080033, 901120].__getitem__)
        table = TableView(model, app)
        qtbot.addWidget(table)
        model.set_content(Table(column), range(2))
        table.setColumnWidth(0, 200)
        table.resize(220, 120)
        cell = table.visualRect(model.index(0, 0))
        picture = table.grab(cell.translated(table.viewport().pos())).toImage()
        metrics = table.fontMetrics()
        edge = cell.width() - 3 - metrics.horizontalAdvance("MiB\N{NO-BREAK SPACE}")
        ground = picture.pixelColor(4, 4)

        def strongest(left: int, right: int) -> float:
            rows, columns = range(2, cell.height() - 3), range(left, right)
            return max(contrast(picture.pixelColor(x, y), ground) for x in columns for y in rows)

        number, unit = strongest(60, edge - 4), strongest(edge, cell.width() - 2)
        assert number > 1.4 * unit
        assert unit >= 4.5  # WCAG 2.2, 1.4.3
    finally:
        apply_scheme(Scheme.SYSTEM)


def test_what_a_cell_has_no_room_for_is_a_tip_that_is_safe_to_show(
    qtbot: QtBot, app: RecordingServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    raws = ["<b>all of it</b>\u202e\x1b, from a file", "short"]
    model = TableModel()
    column = Column[int]("a", "A", TEXT, of=raws.__getitem__, text=lambda row: raws[row][:5])
    model.set_content(Table(column), range(2))
    table = TableView(model, app)
    qtbot.addWidget(table)
    table.show()
    shown: list[str] = []
    monkeypatch.setattr(QToolTip, "showText", lambda _place, text, _view: shown.append(text))
    for row in range(2):
        index, option = model.index(row, 0), QStyleOptionViewItem()
        table.initViewItemOption(option)
        option.rect = table.visualRect(index)
        event = QHelpEvent(QEvent.Type.ToolTip, QPoint(), QPoint())
        table.itemDelegate().helpEvent(event, table, option, index)
    (text,) = shown
    assert "&lt;b&gt;all of it" in text
    assert not unsafe_characters(text)
