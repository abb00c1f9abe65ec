"""Every text that a person can see or hear of a widget: labels, cells, axes, tool tips, names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyqtgraph as pg
from PySide6.QtCore import QAbstractItemModel, QModelIndex, Qt
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractSpinBox,
    QComboBox,
    QDoubleSpinBox,
    QGroupBox,
    QHeaderView,
    QLabel,
    QLineEdit,
    QMenu,
    QMenuBar,
    QPlainTextEdit,
    QSpinBox,
    QTableView,
    QTabWidget,
    QTreeView,
    QWidget,
)

_MOST_ROWS, _MOST_COLUMNS = 40, 20
_MOST_CHARACTERS = 4096

DATA = frozenset({"cell", "input", "document"})
"""Kinds of text that may come from a model, a file or the user."""


@dataclass(frozen=True)
class Seen:
    """A text.

    Attributes:
        widget: What shows it.
        kind: What it is of the widget: "label", "button", "tip", "cell", …
        text: The text.
    """

    widget: QWidget
    kind: str
    text: str


def texts_of(widget: QWidget) -> Iterator[Seen]:
    """Yield the texts of one widget, not of those in it; empty ones are left out."""
    for kind, text in _texts(widget):
        if text.strip():
            yield Seen(widget, kind, text)


def _texts(widget: QWidget) -> Iterator[tuple[str, str]]:
    yield "tip", widget.toolTip()
    yield "name", widget.accessibleName()
    yield "description", widget.accessibleDescription()
    for kind, texts in _READERS.items():
        if isinstance(widget, kind):
            yield from texts(widget)


def _choices(box: QComboBox) -> Iterator[tuple[str, str]]:
    for place in range(box.count()):
        yield "choice", box.itemText(place)
        yield "tip", str(box.itemData(place, Qt.ItemDataRole.ToolTipRole) or "")


def _line_texts(edit: QLineEdit) -> Iterator[tuple[str, str]]:
    yield "hint", edit.placeholderText()
    if not isinstance(edit.parent(), QAbstractSpinBox):
        yield "input", edit.text()


def _number_texts(box: QSpinBox | QDoubleSpinBox) -> Iterator[tuple[str, str]]:
    yield "special", box.specialValueText()
    yield "affix", box.prefix()
    yield "affix", box.suffix()


def _document_texts(edit: QPlainTextEdit) -> Iterator[tuple[str, str]]:
    yield "hint", edit.placeholderText()
    yield "document", edit.toPlainText()[:_MOST_CHARACTERS]


def _tab_texts(tabs: QTabWidget) -> Iterator[tuple[str, str]]:
    for place in range(tabs.count()):
        if tabs.isTabVisible(place):
            yield "tab", tabs.tabText(place)
            yield "tip", tabs.tabToolTip(place)


def _commands(menu: QMenu | QMenuBar) -> Iterator[tuple[str, str]]:
    for action in menu.actions():
        yield "command", action.text()
        yield "status", action.statusTip()


def _view_texts(view: QTableView | QTreeView) -> Iterator[tuple[str, str]]:
    model = view.model()
    if model is None:
        return
    header = view.header() if isinstance(view, QTreeView) else view.horizontalHeader()
    if not header.isHidden():
        yield from _header_texts(header, model)
    yield from _cell_texts(view, model, QModelIndex())


def _header_texts(header: QHeaderView, model: QAbstractItemModel) -> Iterator[tuple[str, str]]:
    for section in range(model.columnCount()):
        if not header.isSectionHidden(section):
            for role, kind in (
                (Qt.ItemDataRole.DisplayRole, "header"),
                (Qt.ItemDataRole.ToolTipRole, "tip"),
            ):
                yield kind, str(model.headerData(section, Qt.Orientation.Horizontal, role) or "")


def _cell_texts(
    view: QTableView | QTreeView, model: QAbstractItemModel, parent: QModelIndex
) -> Iterator[tuple[str, str]]:
    for row in range(min(model.rowCount(parent), _MOST_ROWS)):
        for column in range(min(model.columnCount(parent), _MOST_COLUMNS)):
            if not view.isColumnHidden(column):
                yield "cell", str(model.index(row, column, parent).data() or "")
        index = model.index(row, 0, parent)
        if isinstance(view, QTreeView) and view.isExpanded(index):
            yield from _cell_texts(view, model, index)


def _plot_texts(plot: pg.PlotWidget) -> Iterator[tuple[str, str]]:
    for item in plot.scene().items():
        if not item.isVisible():
            continue
        if isinstance(item, pg.AxisItem):
            if item.label.isVisible():
                yield "axis", item.labelText
        elif isinstance(item, pg.TextItem):
            yield "mark", item.toPlainText()
        elif isinstance(item, pg.LabelItem):
            yield "mark", item.text


_READERS: Final[dict[type[QWidget], Callable[[Any], Iterable[tuple[str, str]]]]] = {
    QLabel: lambda label: [("label", label.text())],
    QAbstractButton: lambda button: [("button", button.text())],
    QGroupBox: lambda box: [("title", box.title())],
    QComboBox: _choices,
    QLineEdit: _line_texts,
    QSpinBox: _number_texts,
    QDoubleSpinBox: _number_texts,
    QPlainTextEdit: _document_texts,
    QTabWidget: _tab_texts,
    QMenu: _commands,
    QMenuBar: _commands,
    QTableView: _view_texts,
    QTreeView: _view_texts,
    pg.PlotWidget: _plot_texts,
}
