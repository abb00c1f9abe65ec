"""The model of the tree of downloaded models: store → model → tag → file or layer → tensor.

Every new listing, filter and order is a reset; nodes are matched by their keys. What is inside a
model is asked for when its branch is opened, and comes in pages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from PySide6 import QtCore
from PySide6.QtCore import QModelIndex, Qt, Signal

from explorer.present.fits import ModelFit
from explorer.present.model import problem_line, spoken_problems
from explorer.present.tables.library import LIBRARY
from explorer.qt.library.nodes import Filter, LibraryColumn, Node, ordered
from explorer.qt.library.rows import Row, RowKind, note_row
from explorer.qt.widgets.painting import plain_tip
from explorer.qt.widgets.table_model import LEFT, RIGHT, Index, ItemRole
from explorer.stores.entries import Entry
from explorer.stores.library import Details
from explorer.text import plain_text, shorten

PAGE: Final = 256
"""Rows that a branch shows at first, and with each further step of scrolling."""

_COUNT: Final = len(LibraryColumn)
_LONGEST_TIP: Final = 2000
_MOST_UNFOLDED: Final = 32  # rows of a store whose families are open at first: one look is enough
_MOST_VERSIONS: Final = 8  # of such a family
_SHOWN_PROBLEMS: Final = 20


class LibraryModel(QtCore.QAbstractItemModel):
    """The tree's model. It touches no disk.

    Attributes:
        details: Facts of models' headers, by entry; kept over scans.
        fits: How models fit the machine, by entry; kept over scans.

    Signals:
        contents_wanted: A model's branch was opened for the first time; its `Node`.
    """

    contents_wanted = Signal(object)

    def __init__(self, parent: QtCore.QObject | None = None) -> None:
        super().__init__(parent)
        self.details: dict[Entry, Details] = {}
        self.fits: dict[Entry, ModelFit] = {}
        self._root = Node(Row(RowKind.BRANCH, "", ""), None)
        self._rows: Sequence[Row] = ()
        self._nodes: dict[int, Node] = {}
        self._by_path: dict[str, list[Node]] = {}
        self._filter = Filter("")
        self._sorted_by, self._descending = int(LibraryColumn.USED), True
        self._largest = 0  # bytes of a model

    @property
    def stores(self) -> list[Node]:
        """All stores, those filtered out included."""
        return self._root.every

    def entries(self) -> Iterator[Node]:
        """Yield all models, shown or not, in the order shown."""
        for store in self.stores:
            for node in store.every:
                if node.row.kind is RowKind.FAMILY:
                    yield from node.every
                elif node.row.kind is RowKind.ENTRY:
                    yield node

    def shown_count(self) -> int:
        """Return how many models the filter keeps."""
        return sum(
            len(node.children) if node.row.kind is RowKind.FAMILY else node.row.entry is not None
            for store in self._root.children
            for node in store.children
        )

    def nodes_at(self, path: str) -> list[Node]:
        """Return the models with a path, in all stores."""
        return self._by_path.get(path, [])

    # Content

    def set_rows(self, rows: Sequence[Row]) -> None:
        """Show the stores that a scan has found, unless they are the same objects as before.

        Rows of known keys stay the nodes they are.
        """
        if list(map(id, rows)) != list(map(id, self._rows)):
            self._rows = rows
            entries = (
                entry for row in rows if row.store is not None for entry in row.store.entries
            )
            self._largest = max((entry.nbytes for entry in entries), default=0)
            with self._reset(in_order=False):
                self._take(self._root, rows)

    def set_details(self, found: Iterable[tuple[Entry, Details]]) -> None:
        pairs = list(found)
        self.details.update(pairs)
        self.notify_learned(entry for entry, _ in pairs)

    def notify_learned(self, entries: Iterable[Entry]) -> None:
        """Show what `details` and `fits` have of models now."""
        changed: dict[int, tuple[Node, set[int]]] = {}  # parent and places of rows below it

        def note(node: Node) -> None:
            parent = node.parent
            if parent is not None and node in parent.children[node.place : node.place + 1]:
                changed.setdefault(parent.id, (parent, set()))[1].add(node.place)

        for entry in entries:
            for node in self.nodes_at(str(entry.path)):
                if node.row.entry == entry and node.parent is not None:
                    self._learn(node)
                    node.changed()
                    note(node)
                    if node.parent.row.kind is RowKind.FAMILY:
                        note(node.parent)
        for parent, places in changed.values():
            if self.is_shown(parent):
                self._notify_changed(parent, places)

    def _learn(self, node: Node) -> None:
        """Give a node what is known of its model."""
        entry = node.row.entry
        node.details = None if entry is None else self.details.get(entry)
        node.fit = None if entry is None else self.fits.get(entry)

    def _notify_changed(self, parent: Node, places: set[int]) -> None:
        """Report rows below a node, a run of them at a time: a view asks about each.

        One signal for 5,000 rows of which some changed holds up the window for 300 ms.
        """
        for first in sorted(place for place in places if place - 1 not in places):
            last = first
            while last + 1 in places:
                last += 1
            ends = parent.children[first], parent.children[last]
            self.dataChanged.emit(self.index_of(ends[0]), self.index_of(ends[1], _COUNT - 1))

    def set_contents(self, node: Node, rows: Sequence[Row]) -> None:
        """Show what is inside a model; nothing happens if it is gone meanwhile."""
        if self._nodes.get(node.id) is node:
            node.requested = True
            self._replace(node, [self._new(row, node) for row in rows])

    def forget_contents(self, node: Node) -> None:
        """Take out what is below a model; opening its branch asks for it again."""
        if self._nodes.get(node.id) is node:
            node.requested = False
            self._replace(node, [])

    def load(self, node: Node) -> None:
        """Make rows below a node whose branch is open: those of a model, or the next page.

        Not `fetchMore`: Qt calls that while it lays rows out, whether a branch is open or not.
        """
        if not node.pending or not self.is_shown(node):
            return
        if node.row.kind is RowKind.ENTRY:
            node.requested = True
            self._replace(node, [self._new(note_row("reading…"), node)])
            self.contents_wanted.emit(node)
        elif node.row.pages is not None:
            first = len(node.every)
            rows = node.row.pages.make(first, min(first + PAGE, node.row.pages.count))
            self._append(node, [self._new(row, node) for row in rows])

    def set_filter(self, text: str) -> None:
        """Show only what holds every word of a text, with what is above and below it."""
        self._filter = Filter(text)
        with self._reset(in_order=True):
            pass

    @property
    def filter_problems(self) -> Sequence[str]:
        """A sentence for each word of the filter that cannot be used."""
        return self._filter.problems

    def refresh_order(self) -> None:
        """Sort and filter again, after details have come."""
        with self._reset(in_order=False):
            pass

    # Nodes

    def node(self, index: Index) -> Node | None:
        """Return the node of an index, None for the invisible root and for rows that are gone."""
        return self._nodes.get(index.internalId()) if index.isValid() else None

    def children_of(self, index: Index) -> list[Node]:
        """Return the nodes shown below an index; those at the top for an invalid one."""
        return (self.node(index) or self._root).children

    def index_of(self, node: Node, column: int = 0) -> QModelIndex:
        """Return the index of a node; invalid for the root, and if it is filtered out or gone."""
        if node is self._root or not self.is_shown(node):
            return QModelIndex()
        return self.createIndex(node.place, column, node.id)

    def is_shown(self, node: Node) -> bool:
        """Return whether a node and all above it are in the tree and kept by the filter."""
        while node.parent is not None:
            siblings = node.parent.children
            if node.place >= len(siblings) or siblings[node.place] is not node:
                return False
            node = node.parent
        return node is self._root

    def _new(self, row: Row, parent: Node) -> Node:
        node = Node(row, parent)
        self._nodes[node.id] = node
        if row.entry is not None:
            self._learn(node)
            self._by_path.setdefault(row.key, []).append(node)
        if not node.listed:  # the parts of a weight; a scan fills a listed branch
            node.every = [self._new(child, node) for child in row.children]
            node.show(list(node.every))
        return node

    def _drop(self, node: Node) -> None:
        for gone in node.below():
            self._nodes.pop(gone.id, None)
            if gone.row.entry is not None:
                self._by_path[gone.row.key].remove(gone)

    def _take(self, node: Node, rows: Sequence[Row]) -> None:
        """Bring everything below a listed node up to date."""
        before = {child.row.key: child for child in node.every}
        node.every = []
        for row in rows:
            child = before.pop(row.key, None)
            if child is None:
                child = self._new(row, node)
                few = len(rows) <= _MOST_UNFOLDED and len(row.children) <= _MOST_VERSIONS
                child.expanded = row.kind is RowKind.STORE or (row.kind is RowKind.FAMILY and few)
            elif row.entry != child.row.entry:  # the model has changed on disk
                for gone in child.every:
                    self._drop(gone)
                child.every, child.children, child.requested = [], [], False
            child.row = row
            self._learn(child)
            child.changed()
            node.every.append(child)
            if child.listed:
                self._take(child, row.children)
        for child in before.values():
            self._drop(child)

    @contextmanager
    def _reset(self, *, in_order: bool) -> Iterator[None]:
        """Change nodes within; sort them unless they are in order, and filter them."""
        self.beginResetModel()
        yield
        self._filter = Filter(self._filter.text)
        self._arrange(self._root, in_order)
        self.endResetModel()

    def _arrange(self, node: Node, in_order: bool) -> None:
        if not in_order and node is not self._root:  # stores stay in the order of their programs
            node.every = ordered(node.every, self._sorted_by, self._descending)
        for child in node.every:
            if child.listed:
                self._arrange(child, in_order)
        node.show(self._filter.wanted(node))

    def _replace(self, node: Node, nodes: list[Node]) -> None:
        """Put other rows below a model than those that are there."""
        shown = node.children and self.is_shown(node)
        if shown:
            self.beginRemoveRows(self.index_of(node), 0, len(node.children) - 1)
        old, node.every, node.children = node.every, [], []
        if shown:
            self.endRemoveRows()
        for gone in old:
            self._drop(gone)
        self._append(node, nodes)

    def _append(self, node: Node, nodes: list[Node]) -> None:
        shown = nodes and self.is_shown(node)
        if shown:
            first = len(node.children)
            self.beginInsertRows(self.index_of(node), first, first + len(nodes) - 1)
        node.every = [*node.every, *nodes]
        node.show(list(node.every))
        if shown:
            self.endInsertRows()

    # Qt

    def index(self, row: int, column: int, parent: Index = QModelIndex()) -> QModelIndex:
        node = self.node(parent) or self._root
        if parent.column() > 0 or not (0 <= row < len(node.children) and 0 <= column < _COUNT):
            return QModelIndex()
        return self.createIndex(row, column, node.children[row].id)

    def parent(self, index: Index) -> QModelIndex:  # type: ignore[override] # QObject.parent() is the other overload
        node = self.node(index)
        above = None if node is None else node.parent
        if above is None or above is self._root:
            return QModelIndex()
        return self.createIndex(above.place, 0, above.id)

    def rowCount(self, parent: Index = QModelIndex()) -> int:
        node = self.node(parent) or self._root
        return 0 if parent.column() > 0 else len(node.children)

    def columnCount(self, parent: Index = QModelIndex()) -> int:
        return _COUNT

    def hasChildren(self, parent: Index = QModelIndex()) -> bool:
        node = self.node(parent) or self._root
        return parent.column() <= 0 and (bool(node.children) or node.pending)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if role == ItemRole.BAR:
            return self._share(index)
        answer = _ANSWERS.get(role)  # a view asks each cell that it paints for seven roles
        node = None if answer is None else self.node(index)
        return None if answer is None or node is None else answer(node, index.column())

    def _share(self, index: Index) -> float | None:
        """Return how large a model is beside the largest, for the bar below its size."""
        node = self.node(index) if index.column() == LibraryColumn.BYTES else None
        if node is None or node.row.entry is None or not self._largest:
            return None
        return node.row.entry.nbytes / self._largest

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation != Qt.Orientation.Horizontal or not 0 <= section < _COUNT:
            return None
        return _head(section, role)

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        chosen = column if 0 <= column < _COUNT else int(LibraryColumn.NAME)
        descending = order == Qt.SortOrder.DescendingOrder
        if (chosen, descending) != (self._sorted_by, self._descending):
            self._sorted_by, self._descending = chosen, descending
            self.refresh_order()


def _head(section: int, role: int) -> Any:
    column = LIBRARY.columns[section]
    match role:
        case Qt.ItemDataRole.DisplayRole:
            return column.title
        case Qt.ItemDataRole.TextAlignmentRole:
            return _alignment(section)
        case Qt.ItemDataRole.ToolTipRole | Qt.ItemDataRole.WhatsThisRole:
            return column.tip
    return None


def _alignment(column: int) -> int:
    return RIGHT if LIBRARY.columns[column].kind.numeric else LEFT


def _tip(node: Node, column: int) -> str | None:
    lines: list[str] = []
    shown = node.problems[:_SHOWN_PROBLEMS]
    if column == LibraryColumn.NAME and node.row.path is not None:
        lines = [node.row.name or node.row.title, str(node.row.path), *map(problem_line, shown)]
    elif column == LibraryColumn.NOTE:
        lines = [problem_line(each) for each in shown]
        lines = lines or [node.note]
    elif column in {LibraryColumn.FITS, LibraryColumn.CONTEXT} and node.fit is not None:
        lines = [node.fit.sentence]
    text = "\n".join(shorten(plain_text(line), _LONGEST_TIP) for line in lines if line)
    return plain_tip(text) or None


def _spoken(node: Node, column: int) -> str:
    """Return what a screen reader says: a sign has no name that says what is meant."""
    problems = node.problems if column == LibraryColumn.NAME else ()
    return spoken_problems(node.row.title, problems) if problems else node.cells[column]


_ANSWERS: Final[dict[int, Callable[[Node, int], Any]]] = {
    Qt.ItemDataRole.DisplayRole: lambda node, column: node.cells[column],
    Qt.ItemDataRole.TextAlignmentRole: lambda _, column: _alignment(column),
    Qt.ItemDataRole.ToolTipRole: _tip,
    Qt.ItemDataRole.AccessibleTextRole: _spoken,
    Qt.ItemDataRole.WhatsThisRole: lambda _, column: LIBRARY.columns[column].tip,
    ItemRole.NODE: lambda node, _: node,
    ItemRole.PARTS: Node.parts,
    ItemRole.RAW: Node.value,
}
