"""The tree of downloaded models; it keeps what one looks at in place while its model changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from PySide6.QtCore import (
    QItemSelection,
    QItemSelectionModel,
    QModelIndex,
    Qt,
    QTimer,
    QTimerEvent,
    Signal,
)
from PySide6.QtGui import QFontMetrics, QPaintEvent, QShowEvent
from PySide6.QtWidgets import QAbstractItemView, QMenu, QStyleOptionViewItem, QTreeView, QWidget

from explorer.qt.library.readers import Turnstile
from explorer.qt.library.rows import LibraryColumn, Node, RowKind
from explorer.qt.library.tree_model import Index, LibraryModel
from explorer.qt.widgets.table_view import PaddedDelegate, PaddedHeader, RoomyDelegate

_LOOK_MS = 60
_SAMPLES = {
    LibraryColumn.NAME: "hf.co/organisation/Some-Model-GGUF:Q4",
    LibraryColumn.ARCHITECTURE: "deepseek2 moe",
    LibraryColumn.PARAMETERS: "Parameters   ",
    LibraryColumn.QUANTIZATION: "Quantization",
    LibraryColumn.BYTES: "Size on disk   ",
    LibraryColumn.MODIFIED: "2026-12-31  ",
}
_OPENED = frozenset({RowKind.ENTRY, RowKind.PART, RowKind.GROUP, RowKind.TENSOR, RowKind.BLOB})


class _Delegate(RoomyDelegate, PaddedDelegate):
    """Rows with room above, below and at both sides."""


class _NoteDelegate(_Delegate):
    """Sentences, which lose their end where there is no room; names lose their middle."""

    # Qt

    def initStyleOption(self, option: QStyleOptionViewItem, index: Index) -> None:
        super().initStyleOption(option, index)
        option.textElideMode = Qt.TextElideMode.ElideRight


class LibraryTree(QTreeView):
    """The tree.

    Signals:
        opened: A model, or something in one, was entered or double-clicked; its `Node`.
        looked: The rows in sight may be others than before.
        selection_moved: Other rows are selected.
        current_moved: Another row is current; its `Node`, or None.
    """

    opened = Signal(object)
    looked = Signal()
    selection_moved = Signal()
    current_moved = Signal(object)

    def __init__(
        self, model: LibraryModel, turnstile: Turnstile, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.library = model
        self._turnstile = turnstile
        self._kept: tuple[list[Node], Node | None] | None = None
        self._quiet = False
        self.setHeader(PaddedHeader(self))
        self.setModel(model)
        self.setItemDelegate(_Delegate(self))
        self.setItemDelegateForColumn(LibraryColumn.NOTE, _NoteDelegate(self))
        self.setUniformRowHeights(True)
        self.setAlternatingRowColors(True)
        self.setExpandsOnDoubleClick(False)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.setAccessibleName(self.tr("Downloaded models"))
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        header = self.header()
        header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        header.setSortIndicator(LibraryColumn.NAME, Qt.SortOrder.AscendingOrder)
        header.setHighlightSections(False)
        header.setSectionsMovable(True)
        header.setStretchLastSection(True)
        self.setSortingEnabled(True)
        self.reset_columns()
        self._look = QTimer(self)
        self._look.setSingleShot(True)
        self._look.setInterval(_LOOK_MS)
        self._look.timeout.connect(self._look_around)
        self.expanded.connect(self._note_expanded)
        self.collapsed.connect(self._note_collapsed)
        self.activated.connect(self._activate)
        self.verticalScrollBar().valueChanged.connect(self._look_soon)
        model.modelAboutToBeReset.connect(self._remember)
        model.modelReset.connect(self._recall)
        model.rowsInserted.connect(self._span_notes)
        for signal in (model.rowsInserted, model.rowsRemoved, model.layoutChanged):
            signal.connect(self._look_soon)
        self.selectionModel().selectionChanged.connect(self._tell_selection)
        self.selectionModel().currentChanged.connect(self._tell_current)

    def reset_columns(self) -> None:
        """Put every column into its place, as wide as what is usual in it."""
        for column in LibraryColumn:
            self.header().moveSection(self.header().visualIndex(column), column)
        metrics = QFontMetrics(self.font())
        for column, sample in _SAMPLES.items():
            self.setColumnWidth(column, metrics.horizontalAdvance(sample) + 20)

    def add_sorting(self, menu: QMenu) -> None:
        """Add what the mouse does in the header, which keys do not reach."""
        header = self.header()
        sorting = menu.addMenu(self.tr("S&ort by"))
        down, up = Qt.SortOrder.DescendingOrder, Qt.SortOrder.AscendingOrder
        by, order = header.sortIndicatorSection(), header.sortIndicatorOrder()
        for column in LibraryColumn:
            title = str(self.library.headerData(column, Qt.Orientation.Horizontal))
            action = sorting.addAction(title)
            action.setCheckable(True)
            action.setChecked(column == by)
            then = down if column == by and order == up else up
            action.triggered.connect(partial(self._sort_by, column, then))

    def _sort_by(self, column: int, order: Qt.SortOrder, _checked: bool = False) -> None:
        self.sortByColumn(column, order)

    def selected_nodes(self) -> list[Node]:
        """Return the nodes of the selected rows."""
        nodes = map(self.library.node, self.selectionModel().selectedRows())
        return [node for node in nodes if node is not None]

    def current_node(self) -> Node | None:
        """Return the node of the current row."""
        return self.library.node(self.currentIndex())

    def select_node(self, node: Node) -> bool:
        """Make a node current and show it; return whether it is in the tree."""
        index = self.library.index_of(node)
        if not index.isValid():
            return False
        flags = QItemSelectionModel.SelectionFlag
        self.selectionModel().setCurrentIndex(index, flags.ClearAndSelect | flags.Rows)
        self.scrollTo(index)
        return True

    def visible_nodes(self) -> list[Node]:
        """Return the nodes in sight, from top to bottom."""
        nodes = []
        index = self.indexAt(self.viewport().rect().topLeft())
        bottom = self.viewport().height()
        while index.isValid() and self.visualRect(index).top() < bottom:
            node = self.library.node(index)
            if node is not None:
                nodes.append(node)
            index = self.indexBelow(index)
        return nodes

    @contextmanager
    def place_kept(self) -> Iterator[None]:
        """Change the model within; the row at the top of the view stays there."""
        bar = self.verticalScrollBar()
        top = None if bar.value() == 0 else self.indexAt(self.viewport().rect().topLeft())
        node = None if top is None else self.library.node(top)
        offset = self.visualRect(top).top() if top is not None else 0
        chosen = self.current_node()
        yield
        if node is not None:
            index = self.library.index_of(node)
            if index.isValid():
                bar.setValue(bar.value() + self.visualRect(index).top() - offset)
        self._find_again(chosen)

    def _find_again(self, chosen: Node | None) -> None:
        """Select a model that moved to another branch, as it does when it gets a second tag."""
        if chosen is None or chosen.row.entry is None or self.library.is_shown(chosen):
            return
        for node in self.library.nodes_at(chosen.row.key):
            if node.parent is not None and self.library.is_shown(node):
                self.setExpanded(self.library.index_of(node.parent), True)
                self.select_node(node)
                return

    # What is open, and where

    def _note_expanded(self, index: QModelIndex) -> None:
        node = self.library.node(index)
        if node is not None:
            node.expanded = True
            if not node.every:
                self.library.load(node)
        self._look_soon()

    def _note_collapsed(self, index: QModelIndex) -> None:
        node = self.library.node(index)
        if node is not None:
            node.expanded = False
        self._look_soon()

    def _span_notes(self, parent: QModelIndex, first: int, last: int) -> None:
        """Give a sentence that stands in place of rows the width of all columns."""
        for row in range(first, last + 1):
            node = self.library.node(self.library.index(row, 0, parent))
            if node is not None and node.row.kind is RowKind.NOTE:
                self.setFirstColumnSpanned(row, parent, True)

    def _remember(self) -> None:
        self._kept = (self.selected_nodes(), self.current_node())
        self._quiet = True

    def _recall(self) -> None:
        if self._kept is None:
            return
        selected, current = self._kept
        self._kept = None
        self._expand_again(self.library.stores)
        selection = QItemSelection()
        for node in selected:
            index = self.library.index_of(node)
            if index.isValid():
                selection.select(index, index)
        flags = QItemSelectionModel.SelectionFlag
        self.selectionModel().select(selection, flags.ClearAndSelect | flags.Rows)
        index = QModelIndex() if current is None else self.library.index_of(current)
        if index.isValid():
            self.selectionModel().setCurrentIndex(index, flags.NoUpdate)
            self.scrollTo(index)
        self._quiet = False
        self._tell_selection()
        if current is not None and not index.isValid():
            self.current_moved.emit(None)
        self._look_soon()

    def _expand_again(self, nodes: list[Node]) -> None:
        for node in nodes:
            if node.expanded:
                index = self.library.index_of(node)
                if index.isValid():
                    self.setExpanded(index, True)
                    self._expand_again(node.every)
                    if node.row.kind is RowKind.ENTRY and node.children:
                        self._span_notes(index, 0, 0)

    # Telling

    def _tell_selection(self) -> None:
        if not self._quiet:
            self.selection_moved.emit()

    def _tell_current(self, current: QModelIndex) -> None:
        if not self._quiet:
            self.current_moved.emit(self.library.node(current))

    def _activate(self, index: QModelIndex) -> None:
        node = self.library.node(index)
        if node is None:
            return
        if node.row.kind in _OPENED:
            self.opened.emit(node)
        else:
            first = index.siblingAtColumn(0)
            self.setExpanded(first, not self.isExpanded(first))

    def _look_soon(self) -> None:
        if not self._look.isActive():
            self._look.start()

    def _look_around(self) -> None:
        """Make more rows of a branch whose last row came into sight; tell what is in sight."""
        with self._turnstile.taken():
            for node in self.visible_nodes():
                above = node.parent
                if above is not None and above.pending and node is above.children[-1]:
                    self.library.load(above)
        self.looked.emit()

    # Qt

    def paintEvent(self, event: QPaintEvent) -> None:
        with self._turnstile.taken():
            super().paintEvent(event)

    def timerEvent(self, event: QTimerEvent) -> None:
        with self._turnstile.taken():  # Qt lays rows out in one, and asks about each of them
            super().timerEvent(event)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._look_soon()
