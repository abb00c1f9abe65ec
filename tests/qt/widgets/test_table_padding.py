"""Room between the columns of a table, as it is painted."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import QByteArray, QRect
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from explorer.qt.jobs import JobRunner
from explorer.qt.widgets.table_model import Column, TableModel
from explorer.qt.widgets.table_view import TableView

_LEAST_ROOM = 5  # pixels; a blank of the smallest font that is read


@pytest.fixture
def table(qtbot: QtBot, runner: JobRunner) -> TableView:
    model = TableModel()
    view = TableView(model, runner)
    model.setParent(view)
    qtbot.addWidget(view)
    names = ["left", "middle", "right"]
    columns = [
        Column(name, "HHHH", lambda row: "8888", lambda row: 8888, lambda: np.zeros(3), numeric)
        for name, numeric in zip(names, (True, False, True), strict=True)
    ]
    model.set_content(columns, 3)
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


def test_no_text_touches_the_next_column(table: TableView) -> None:
    for column, numeric in enumerate((True, False, True)):
        area = table.visualRect(table.table.index(1, column))
        left, right = ink(table.viewport(), area)
        assert (right if numeric else left) >= _LEAST_ROOM
        assert (left if numeric else right) >= _LEAST_ROOM


def test_titles_stand_where_their_cells_stand(table: TableView) -> None:
    header = table.horizontalHeader()
    for column, numeric in enumerate((True, False, True)):
        place = header.sectionViewportPosition(column)
        area = QRect(place, 0, header.sectionSize(column), header.height())
        title = ink(header.viewport(), area)
        cell = ink(table.viewport(), table.visualRect(table.table.index(1, column)))
        edge = 1 if numeric else 0
        assert abs(title[edge] - cell[edge]) <= 3
        assert title[edge] >= _LEAST_ROOM


def test_what_is_copied_has_no_padding(table: TableView) -> None:
    index = table.table.index(0, 1)
    assert index.data() == "8888"
    assert table.table.cells([0], [0, 1, 2]) == [[8888, 8888, 8888]]
