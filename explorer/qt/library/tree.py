"""The view of the tree of downloaded models.

While its model is reset it keeps what is selected and open, and its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Final

from PySide6 import QtCore
from PySide6.QtCore import QModelIndex, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QAbstractItemView, QMenu, QStyleOptionViewItem, QTreeView, QWidget

from explorer.present.tables.library import LIBRARY
from explorer.qt.library.model import LibraryModel
from explorer.qt.library.nodes import LibraryColumn, Node
from explorer.qt.library.rows import RowKind
from explorer.qt.theme import ink_of, scaled
from explorer.qt.widgets.cells import RichDelegate, parts_width
from explorer.qt.widgets.columns import ColumnLayout
from explorer.qt.widgets.painting import outline_current, paint_branch, stand_on_page
from explorer.qt.widgets.table_model import Index
from explorer.qt.widgets.table_view import PaddedHeader

_ALL_COLUMNS: Final = 960  # pixels, from which on all usual columns have room
_SIGHT_MS: Final = 60
_MEASURED: Final = 200  # models, whose texts decide how wide columns are
_ROOM: Final = 18  # pixels that a cell needs beside its text
_OPENED: Final = frozenset(
    {RowKind.ENTRY, RowKind.PART, RowKind.GROUP, RowKind.TENSOR, RowKind.BLOB}
)


def _needed(node: Node, column: int, font: QFont, metrics: QFontMetrics) -> int:
    """Return the pixels that a cell needs."""
    parts = node.parts(column)
    if parts is not None:
        return round(parts_width(parts, font)) + 2
    return metrics.horizontalAdvance(node.cells[column]) + _ROOM


def _parent_and_place(node: Node) -> tuple[int, int]:
    return (0 if node.parent is None else node.parent.id), node.place


class _NoteDelegate(RichDelegate):
    """Sentences, which lose their end where there is no room; names lose their middle."""

    # Qt

    def initStyleOption(self, option: QStyleOptionViewItem, index: Index) -> None:
        super().initStyleOption(option, index)
        option.textElideMode = Qt.TextElideMode.ElideRight


class LibraryTree(QTreeView):
    """The tree's view; it keeps selection, open branches and place while its model is reset.

    Signals:
        opened: The user entered or double-clicked a model, or something in one; its `Node`.
        sight_changed: The rows in sight may be others than before.
        selection_moved: Other rows are selected.
        current_moved: Another row is current; its `Node`, or None.
    """

    opened = Signal(object)
    sight_changed = Signal()
    selection_moved = Signal()
    current_moved = Signal(object)

    def __init__(self, model: LibraryModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.library = model
        self.is_narrow = False  # then some columns are hidden:
        self._left_out: list[LibraryColumn] = []  # those that come back where there is room
        self._saved_view: tuple[list[Node], Node | None, Node | None, int, int] | None = None
        self.setHeader(PaddedHeader(self))
        model.modelAboutToBeReset.connect(self._remember)  # before Qt's view forgets its rows
        self.setModel(model)
        self.setItemDelegate(RichDelegate(self))
        self.setItemDelegateForColumn(LibraryColumn.NOTE, _NoteDelegate(self))
        stand_on_page(self)
        self.setUniformRowHeights(True)
        self.setExpandsOnDoubleClick(False)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.setAccessibleName("Downloaded models")
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        header = self.header()
        header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        header.setSortIndicator(LibraryColumn.USED, Qt.SortOrder.DescendingOrder)
        header.setHighlightSections(False)
        header.setSectionsMovable(True)
        self.setSortingEnabled(True)
        self.column_layout = ColumnLayout(self, header, self._widths, lambda: [LibraryColumn.NAME])
        for column in LibraryColumn:
            self.setColumnHidden(column, LIBRARY.columns[column].extra)
        self.column_layout.fit()
        self._sight_timer = QtCore.QTimer(self, singleShot=True, interval=_SIGHT_MS)
        self._sight_timer.timeout.connect(self._check_sight)
        self.expanded.connect(partial(self._follow_branch, expanded=True))
        self.collapsed.connect(partial(self._follow_branch, expanded=False))
        self.activated.connect(self._activate)
        self.verticalScrollBar().valueChanged.connect(self._check_sight_soon)
        model.modelReset.connect(self._restore)
        model.rowsInserted.connect(self._span_notes)
        model.rowsInserted.connect(self._check_sight_soon)
        model.rowsRemoved.connect(self._check_sight_soon)
        self.selectionModel().selectionChanged.connect(self._report_selection)
        self.selectionModel().currentChanged.connect(self._report_current)

    def _hide_columns(self, *, narrow: bool) -> None:
        """Hide what the details say too, where there is no room for it beside the answers."""
        if narrow is self.is_narrow:
            return
        self.is_narrow = narrow
        if narrow:
            said = (LibraryColumn.ARCHITECTURE, LibraryColumn.USED)
            self._left_out = [column for column in said if not self.isColumnHidden(column)]
        for column in self._left_out:
            self.column_layout.show_column(column, on=not narrow)

    def widen_columns(self) -> None:
        """Give columns the room that texts need which have come meanwhile."""
        self.column_layout.widen(set(LibraryColumn) - {LibraryColumn.NAME, LibraryColumn.NOTE})

    def _widths(self) -> Iterator[int]:
        metrics = QFontMetrics(self.font())
        nodes = list(islice(self.library.entries(), _MEASURED))
        for column in LibraryColumn:
            title = f"{LIBRARY.columns[column].title}   "
            widths = [metrics.horizontalAdvance(title) + _ROOM]
            if column is LibraryColumn.NAME:
                deep = self.indentation()
                widths += [_needed(n, column, self.font(), metrics) + n.depth * deep for n in nodes]
            else:
                alike = {node.cells[column]: node for node in nodes}.values()  # measured often
                widths += [_needed(node, column, self.font(), metrics) for node in alike]
            yield max(widths)

    def add_sorting(self, menu: QMenu) -> None:
        """Add what the mouse does in the header, which keys do not reach."""
        header = self.header()
        sorting = menu.addMenu("Sort &by")
        down, up = Qt.SortOrder.DescendingOrder, Qt.SortOrder.AscendingOrder
        by, order = header.sortIndicatorSection(), header.sortIndicatorOrder()
        for column, title in enumerate(column.title for column in LIBRARY):
            then = down if column == by and order == up else up
            action = sorting.addAction(title)
            action.setCheckable(True)
            action.setChecked(column == by)
            action.triggered.connect(lambda _, by=column, order=then: self.sortByColumn(by, order))

    def selected_nodes(self) -> list[Node]:
        found: list[Node] = []
        for part in self.selectionModel().selection().toList():  # quicker than each index
            found += self.library.children_of(part.parent())[part.top() : part.bottom() + 1]
        return found

    def current_node(self) -> Node | None:
        return self.library.node(self.currentIndex())

    def select_node(self, node: Node) -> bool:
        """Make a node current and show it; return whether it is in the tree."""
        index = self.library.index_of(node)
        if not index.isValid():
            return False
        flags = QtCore.QItemSelectionModel.SelectionFlag
        self.selectionModel().setCurrentIndex(index, flags.ClearAndSelect | flags.Rows)
        self.scrollTo(index)
        return True

    def visible_nodes(self) -> list[Node]:
        """Return the nodes in sight, from top to bottom."""
        nodes = []
        index = self.indexAt(self.viewport().rect().topLeft())
        while index.isValid() and self.visualRect(index).top() < self.viewport().height():
            if (node := self.library.node(index)) is not None:
                nodes.append(node)
            index = self.indexBelow(index)
        return nodes

    # What is open, and where

    @contextmanager
    def saved_place(self) -> Iterator[None]:
        """Change the model within; the row at the top of the view stays there."""
        top, offset = self._top()
        yield
        self._scroll_back(top, offset)

    def _top(self) -> tuple[Node | None, int]:
        """Return the first node in sight, None if that is the first of all, and its position."""
        index = self.indexAt(self.viewport().rect().topLeft())
        scrolled = self.verticalScrollBar().value() > 0
        return (self.library.node(index) if scrolled else None), self.visualRect(index).top()

    def _scroll_back(self, top: Node | None, offset: int) -> None:
        index = QModelIndex() if top is None else self.library.index_of(top)
        if index.isValid():
            bar = self.verticalScrollBar()
            bar.setValue(bar.value() + self.visualRect(index).top() - offset)

    def _follow_branch(self, index: QModelIndex, *, expanded: bool) -> None:
        node = self.library.node(index)
        if node is not None:
            node.expanded = expanded
            if expanded and self._saved_view is None and not node.every:  # no reset is under way
                self.library.load(node)
        self._check_sight_soon()

    def _span_stores(self) -> None:
        """Give the headings the width of all columns."""
        for row in range(self.library.rowCount()):
            self.setFirstColumnSpanned(row, QModelIndex(), True)

    def _span_notes(self, parent: QModelIndex, first: int, last: int) -> None:
        """Give a sentence that stands in place of rows the width of all columns."""
        for row in range(first, last + 1):
            node = self.library.node(self.library.index(row, 0, parent))
            if node is not None and node.row.kind is RowKind.NOTE:
                self.setFirstColumnSpanned(row, parent, True)

    def _remember(self) -> None:
        selected, current = self.selected_nodes(), self.current_node()
        self._saved_view = (selected, current, *self._top(), self.verticalScrollBar().value())

    def _restore(self) -> None:
        assert self._saved_view is not None
        selected, current, top, offset, value = self._saved_view
        self._expand_again(self.library.stores)
        self._span_stores()
        if current is not None and not self.library.is_shown(current):
            current = self._moved(current)
            selected += [] if current is None else [current]
        selection = self._selection_of(selected)
        flags = QtCore.QItemSelectionModel.SelectionFlag
        self.selectionModel().select(selection, flags.ClearAndSelect | flags.Rows)
        if current is not None:
            self.selectionModel().setCurrentIndex(self.library.index_of(current), flags.NoUpdate)
        self.verticalScrollBar().setValue(value)
        self._scroll_back(top, offset)
        was_current, self._saved_view = self._saved_view[1], None
        self._report_selection()
        if current is not was_current:
            self.current_moved.emit(current)
        QtCore.QTimer.singleShot(0, self, self._check_sight)

    def _selection_of(self, nodes: list[Node]) -> QtCore.QItemSelection:
        """Return a selection with a range for each run of rows: thousands of ranges take long."""
        selection = QtCore.QItemSelection()
        shown = {node.id: node for node in nodes if self.library.is_shown(node)}
        first: Node | None = None
        last: Node | None = None
        for node in sorted(shown.values(), key=_parent_and_place):
            if first is not None and last is not None:
                if node.parent is last.parent and node.place == last.place + 1:
                    last = node
                    continue
                selection.select(self.library.index_of(first), self.library.index_of(last))
            first = last = node
        if first is not None and last is not None:
            selection.select(self.library.index_of(first), self.library.index_of(last))
        return selection

    def _select_open_rows(self, parent: QModelIndex, selection: QtCore.QItemSelection) -> None:
        """Add the rows below an index, and those below the open ones among them."""
        last = self.library.rowCount(parent) - 1
        if last >= 0:
            index = self.library.index
            selection.select(index(0, 0, parent), index(last, 0, parent))
            for row in range(last + 1):
                if self.isExpanded(child := index(row, 0, parent)):
                    self._select_open_rows(child, selection)

    def _moved(self, node: Node) -> Node | None:
        """Find a model that moved to another branch, as it does when it gets a second tag."""
        same = self.library.nodes_at(node.row.key) if node.row.entry is not None else []
        found = next((each for each in same if self.library.is_shown(each)), None)
        if found is not None and found.parent is not None:
            self.setExpanded(self.library.index_of(found.parent), True)
        return found

    def _expand_again(self, nodes: list[Node]) -> None:
        for node in nodes:
            index = self.library.index_of(node) if node.expanded else QModelIndex()
            if index.isValid():
                self.setExpanded(index, True)
                self._expand_again(node.every)
                if node.row.kind is RowKind.ENTRY and node.children:
                    self._span_notes(index, 0, 0)

    # Signals

    def _report_selection(self) -> None:
        if self._saved_view is None:
            self.selection_moved.emit()

    def _report_current(self, current: QModelIndex) -> None:
        if self._saved_view is None:
            self.current_moved.emit(self.library.node(current))

    def _activate(self, index: QModelIndex) -> None:
        node = self.library.node(index)
        if node is not None and node.row.kind in _OPENED:
            self.opened.emit(node)
        elif node is not None:
            first = index.siblingAtColumn(0)
            self.setExpanded(first, not self.isExpanded(first))

    def _check_sight_soon(self) -> None:
        if not self._sight_timer.isActive():
            self._sight_timer.start()

    def _check_sight(self) -> None:
        """Make rows of branches in sight: open ones without any, and those whose end is seen."""
        for node in self.visible_nodes():
            above = node.parent
            if node.expanded and not node.every:
                self.library.load(node)
            if above is not None and above.pending and node is above.children[-1]:
                self.library.load(above)
        self.sight_changed.emit()

    # Qt

    def selectAll(self) -> None:
        # Qt's own makes two ranges of each row where a column between others is hidden
        selection, flags = QtCore.QItemSelection(), QtCore.QItemSelectionModel.SelectionFlag
        self._select_open_rows(QModelIndex(), selection)
        self.selectionModel().select(selection, flags.ClearAndSelect | flags.Rows)

    def drawRow(self, painter: QPainter, options: QStyleOptionViewItem, index: Index) -> None:
        super().drawRow(painter, options, index)
        area, current = QtCore.QRect(options.rect), self.currentIndex()
        area.setLeft(0)
        area.setRight(self.viewport().width() - 1)
        line = QColor(ink_of(self.palette()).line)
        painter.fillRect(0, area.bottom(), area.width(), 1, line)
        if index.row() == current.row() and index.parent() == current.parent():
            outline_current(self, painter, area)

    def drawBranches(self, painter: QPainter, rect: QtCore.QRect, index: Index) -> None:
        paint_branch(self, painter, rect, index)

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._hide_columns(narrow=event.size().width() < scaled(_ALL_COLUMNS))
        super().resizeEvent(event)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._check_sight_soon()
