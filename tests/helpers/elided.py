"""Which cells of a list lose a part of their text for want of room."""

from __future__ import annotations

from collections.abc import Iterator

from PySide6.QtCore import QModelIndex
from PySide6.QtGui import QFontMetrics
from PySide6.QtWidgets import QTableView, QTreeView

from explorer.qt.widgets.cells import parts_width
from explorer.qt.widgets.table_model import ItemRole

_EDGES = 6  # pixels that the style keeps free in a cell
_SWATCH = 14


def elided(view: QTableView | QTreeView) -> list[tuple[str, int, int]]:
    """Return the text of each cell in sight that has too little room, and what it has and needs."""
    header = view.header() if isinstance(view, QTreeView) else view.horizontalHeader()
    found = []
    for index in _rows(view):
        for column in range(header.count()):
            cell = index.siblingAtColumn(column)
            text, room = str(cell.data() or ""), view.visualRect(cell).width()
            if not text or header.isSectionHidden(column):
                continue
            if isinstance(view, QTreeView) and view.isFirstColumnSpanned(
                index.row(), index.parent()
            ):
                if column:
                    continue
                room = view.viewport().width() - view.visualRect(cell).left()
            need = _needed(view, cell, text)
            if need > room:
                found.append((text, room, round(need)))
    return found


def _needed(view: QTableView | QTreeView, cell: QModelIndex, text: str) -> float:
    parts = cell.data(ItemRole.PARTS)
    if parts is not None:
        return parts_width(parts, view.font())
    blanks = "\N{NO-BREAK SPACE}" * 2
    width = QFontMetrics(view.font()).horizontalAdvance(text + blanks) + _EDGES
    return width + (_SWATCH if cell.data(1) is not None else 0)


def _rows(view: QTableView | QTreeView) -> Iterator[QModelIndex]:
    index = view.indexAt(view.viewport().rect().topLeft())
    while index.isValid() and view.visualRect(index).top() < view.viewport().height():
        yield index
        if isinstance(view, QTreeView):
            index = view.indexBelow(index)
        else:
            index = index.siblingAtRow(index.row() + 1)
