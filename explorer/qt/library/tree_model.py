"""The tree of downloaded models: store → model → tag → file or layer → group → tensor.

A scan may say the same thing a hundred times over, so that rows are matched by their keys and only
what differs is told to the view: selection, open branches and the scroll bar stay where they are.
A change of many rows at once is a reset instead, after which the view puts back what it showed.
What is inside a model is asked for when its branch is opened, and comes in pages.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from PySide6.QtCore import (
    QAbstractItemModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    Qt,
    Signal,
)

from explorer.present.explanations import library_texts
from explorer.qt.library.rows import (
    PAGE,
    LibraryColumn,
    Node,
    Row,
    RowKind,
    mark,
    note_row,
    ordered,
    translate,
)
from explorer.qt.widgets.table_model import LEFT, RIGHT, ItemRole
from explorer.stores import Details, Entry
from explorer.text import plain_text, shorten

# What a view gets for each cell of the tree of downloaded models.


_LONGEST_TIP: Final = 2000
_SHOWN_PROBLEMS: Final = 20
_NUMBERS: Final = frozenset({LibraryColumn.PARAMETERS, LibraryColumn.BYTES})

ANSWERED: Final = frozenset(
    map(
        int,
        (
            Qt.ItemDataRole.DisplayRole,
            Qt.ItemDataRole.TextAlignmentRole,
            Qt.ItemDataRole.ToolTipRole,
            Qt.ItemDataRole.WhatsThisRole,
            ItemRole.RAW,
            ItemRole.NODE,
        ),
    )
)
"""The roles to which `cell` has an answer."""


def cell(node: Node, column: int, role: int) -> Any:
    """Return what a cell has for one of the roles in `ANSWERED`."""
    match role:
        case Qt.ItemDataRole.DisplayRole:
            return node.cells[column]
        case Qt.ItemDataRole.TextAlignmentRole:
            return alignment(column)
        case Qt.ItemDataRole.ToolTipRole:
            return _tip(node, column)
        case Qt.ItemDataRole.WhatsThisRole:
            return column_meaning(column)
        case ItemRole.NODE:
            return node
        case _:
            return _raw(node, column)


def header_cell(column: int, role: int) -> Any:
    """Return what the header has for a role."""
    match role:
        case Qt.ItemDataRole.DisplayRole:
            return column_title(column)
        case Qt.ItemDataRole.TextAlignmentRole:
            return alignment(column)
        case Qt.ItemDataRole.ToolTipRole | Qt.ItemDataRole.WhatsThisRole:
            return column_meaning(column)
        case _:
            return None


def alignment(column: int) -> int:
    """Return how a column is aligned: numbers to the right."""
    return RIGHT if column in _NUMBERS else LEFT


def column_meaning(column: int) -> str:
    """Return what a column means."""
    return library_texts()[LibraryColumn(column).name.lower()]


def column_title(column: int) -> str:
    """Return the title of a column."""
    return (
        translate("Name"),
        translate("Architecture"),
        translate("Parameters"),
        translate("Quantization"),
        translate("Size on disk"),
        translate("Modified"),
        translate("Notes"),
    )[column]


def _raw(node: Node, column: int) -> str | int | float | None:
    match column:
        case LibraryColumn.PARAMETERS:
            return node.parameters
        case LibraryColumn.BYTES:
            return node.row.nbytes
        case LibraryColumn.MODIFIED:
            return node.row.modified
        case _:
            return node.cells[column]


def _tip(node: Node, column: int) -> str | None:
    lines: list[str] = []
    if column == LibraryColumn.NAME and node.row.path is not None:
        lines = [node.row.name or node.row.title, str(node.row.path)]
    elif column == LibraryColumn.NOTE:
        lines = [
            f"{mark(each.severity)} {each.where}: {each.what}"
            for each in node.problems[:_SHOWN_PROBLEMS]
        ]
        lines = lines or [node.note]
    text = "\n".join(shorten(plain_text(line), _LONGEST_TIP) for line in lines if line)
    # markup whose text cannot be markup: else Qt guesses which of both it is
    return f"<qt>{html.escape(text).replace(chr(10), '<br>')}</qt>" if text else None


# From the rows that a branch shows to those that it is to show, in runs that Qt understands.


class Run(NamedTuple):
    """Rows side by side.

    Attributes:
        first: Position of the first.
        nodes: The rows.
    """

    first: int
    nodes: list[Node]


class Changes(NamedTuple):
    """What is to be done to a branch, in this order.

    Attributes:
        removed: Runs to take out, the last one first; positions before anything is done.
        kept: What stays, in its new order.
        moved: Whether that is another order.
        inserted: Runs to put in, the first one first; positions in the result.
    """

    removed: list[Run]
    kept: list[Node]
    moved: bool
    inserted: list[Run]

    @property
    def steps(self) -> int:
        """How many times Qt would be told."""
        return len(self.removed) + self.moved + len(self.inserted)


@dataclass
class Merging:
    """What came of taking a scan's rows.

    Attributes:
        updated: Nodes that say something else.
        stale: Of these, models of which what opening them told is no longer true.
        gone: Nodes that are no more.
    """

    updated: list[Node] = field(default_factory=list)
    stale: list[Node] = field(default_factory=list)
    gone: list[Node] = field(default_factory=list)


def changes(shown: Sequence[Node], wanted: Sequence[Node]) -> Changes:
    """Return how to get from the rows shown to those wanted."""
    if len(shown) == len(wanted) and all(map(_same, shown, wanted)):
        return Changes([], list(shown), False, [])
    old, new = {node.id for node in shown}, {node.id for node in wanted}
    stay = [node for node in shown if node.id in new]
    kept = [node for node in wanted if node.id in old]
    return Changes(
        removed=_runs(shown, new)[::-1],
        kept=kept,
        moved=not all(map(_same, stay, kept)),
        inserted=_runs(wanted, old),
    )


def _same(one: Node, other: Node) -> bool:
    return one is other


def _runs(nodes: Sequence[Node], without: set[int]) -> list[Run]:
    runs: list[Run] = []
    for place, node in enumerate(nodes):
        if node.id in without:
            continue
        if runs and runs[-1].first + len(runs[-1].nodes) == place:
            runs[-1].nodes.append(node)
        else:
            runs.append(Run(place, [node]))
    return runs


# Which rows a filter keeps: every word in the model's name, architecture, type, format or state.
#
# A word of hexadecimal digits also finds the models that use a blob of such a digest, which is
# how one learns what a nameless file of 40 GB is.


_DIGEST: Final = re.compile(r"(?:sha256[:-])?([0-9a-f]{6,64})")
_SEARCHED: Final = (
    LibraryColumn.ARCHITECTURE,
    LibraryColumn.QUANTIZATION,
    LibraryColumn.NOTE,
)


class Filter:
    """What somebody typed.

    Args:
        text: Words; all of them must be found.
    """

    def __init__(self, text: str) -> None:
        self._words = text.casefold().split()
        self._users: dict[tuple[int, str], frozenset[str]] = {}  # store, digest → names

    @property
    def empty(self) -> bool:
        """Whether it keeps everything."""
        return not self._words

    def wanted(self, node: Node) -> list[Node]:
        """Return the children of a listed node that are kept."""
        if self.empty or self._accepts(node):
            return node.every
        return [child for child in node.every if self.keeps(child)]

    def keeps(self, node: Node) -> bool:
        """Tell whether a node is shown: for itself, or for one below it."""
        if self.empty or not (node.listed or node.row.kind in _MATCHED):
            return True
        return self._accepts(node) or (node.listed and any(map(self.keeps, node.every)))

    def _accepts(self, node: Node) -> bool:
        text = _text(node)
        return all(word in text or self._uses(node, word) for word in self._words)

    def _uses(self, node: Node, word: str) -> bool:
        """Tell whether a model uses a blob whose digest holds a word."""
        match = _DIGEST.fullmatch(word)
        entry = node.row.entry
        if match is None or entry is None:
            return False
        store = node.store
        key = (store.id, match[1])
        users = self._users.get(key)
        if users is None:
            blobs = () if store.row.store is None else store.row.store.blobs
            found = (blob.used_by for blob in blobs if match[1] in blob.digest)
            users = self._users[key] = frozenset(name for names in found for name in names)
        return entry.name in users


_MATCHED: Final = frozenset({RowKind.ENTRY, RowKind.BLOB, RowKind.PARTIAL})


def _text(node: Node) -> str:
    # a store's note tells of a few rows in it, and would keep all the others
    searched = () if node.row.kind in {RowKind.STORE, RowKind.FAMILY} else _SEARCHED
    parts = [node.cells[column] for column in searched]
    entry = node.row.entry
    parts += [] if entry is None else [plain_text(entry.name), entry.format or ""]
    above: Node | None = node
    while above is not None:
        parts.append(above.row.title)
        above = above.parent
    return "\n".join(parts).casefold()


Index: TypeAlias = QModelIndex | QPersistentModelIndex

_MOST_STEPS: Final = 40  # each makes the view lay itself out anew
_COUNT: Final = len(LibraryColumn)


class LibraryModel(QAbstractItemModel):
    """The tree.

    Attributes:
        details: What opening a model told, by entry; remembered over scans.

    Signals:
        contents_wanted: A model's branch was opened for the first time; its `Node`.
    """

    contents_wanted = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.details: dict[Entry, Details] = {}
        self._root = Node(Row(RowKind.BRANCH, "", ""), None)
        self._nodes: dict[int, Node] = {}
        self._by_path: dict[str, list[Node]] = {}
        self._filter = Filter("")
        self._filter_text = ""
        self._sorted_by = int(LibraryColumn.NAME)
        self._descending = False

    @property
    def stores(self) -> list[Node]:
        """All stores, those filtered out included."""
        return self._root.every

    def entries(self) -> Iterable[Node]:
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

    def merge(self, rows: Sequence[Row]) -> None:
        """Show what a scan has found; rows that are there already stay the rows they are.

        Args:
            rows: The stores with all that is below them.
        """
        self._filter = Filter(self._filter_text)
        merging = Merging()
        self._take(self._root, rows, merging)
        self._show_wanted()
        for node in merging.gone:  # not before: the view asks where they were
            self._drop(node)
        self._tell_all(merging.updated)
        for node in merging.stale:
            self._renew(node)

    def set_details(self, found: Iterable[tuple[Entry, Details]]) -> None:
        """Show what opening models told."""
        updated = []
        for entry, details in found:
            self.details[entry] = details
            for node in self.nodes_at(str(entry.path)):
                if node.row.entry == entry:
                    node.details = details
                    node.changed()
                    updated.append(node)
                    if node.parent is not None and node.parent.row.kind is RowKind.FAMILY:
                        updated.append(node.parent)
        self._tell_all(updated)

    def set_contents(self, node: Node, rows: Sequence[Row]) -> None:
        """Show what is inside a model; nothing happens if it is gone meanwhile."""
        if self._nodes.get(node.id) is not node:
            return
        node.requested = True
        self._replace(node, [self._new(row, node) for row in rows])

    def forget_contents(self, node: Node) -> None:
        """Take out what is below a model; opening its branch asks for it again."""
        if self._nodes.get(node.id) is node:
            node.requested = False
            self._replace(node, [])

    def load(self, node: Node) -> None:
        """Make rows below a node whose branch is open: those of a model, or the next page.

        Not `fetchMore`: Qt calls that while it lays rows out, whether anybody opened them or not.
        """
        if not node.pending or not self.is_shown(node):
            return
        if node.row.kind is RowKind.ENTRY:
            node.requested = True
            self._replace(node, [self._new(note_row(translate("reading…")), node)])
            self.contents_wanted.emit(node)
        elif node.pages is not None:
            first = len(node.every)
            rows = node.pages.make(first, min(first + PAGE, node.pages.count))
            nodes = [self._new(row, node) for row in rows]
            node.every += nodes
            self._insert(node, first, nodes)

    def set_filter(self, text: str) -> None:
        """Show only what holds every word of a text, with what is above and below it."""
        self._filter_text = text
        self._filter = Filter(text)
        self._reset()

    def refresh_order(self) -> None:
        """Sort and filter again, after details have come; nothing happens if all is in place."""
        self._filter = Filter(self._filter_text)
        for node in self._listed():
            node.every = self._ordered(node, node.every)
        self._show_wanted()

    # Nodes

    def node(self, index: Index) -> Node | None:
        """Return the node of an index, None for the invisible root."""
        return self._nodes.get(index.internalId()) if index.isValid() else None

    def index_of(self, node: Node, column: int = 0) -> QModelIndex:
        """Return the index of a node; invalid for the root, and if it is filtered out or gone."""
        if node is self._root or not self.is_shown(node):
            return QModelIndex()
        return self.createIndex(node.place, column, node.id)

    def is_shown(self, node: Node) -> bool:
        """Tell whether a node and all above it are in the tree and kept by the filter."""
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
            node.details = self.details.get(row.entry)
            self._by_path.setdefault(row.key, []).append(node)
        if not node.listed:  # the parts of a weight; a listed branch is filled by the scan
            node.every = [self._new(child, node) for child in row.children]
            node.children = list(node.every)
            node.number()
        return node

    def _drop(self, node: Node) -> None:
        for gone in node.below():
            self._nodes.pop(gone.id, None)
            if gone.row.entry is not None:
                same = self._by_path[gone.row.key]
                same.remove(gone)
                if not same:
                    del self._by_path[gone.row.key]

    def _listed(self) -> Iterable[Node]:
        waiting = [self._root]
        while waiting:
            node = waiting.pop()
            if node.listed:
                yield node
                waiting += node.every

    def _ordered(self, node: Node, nodes: Sequence[Node]) -> list[Node]:
        if node is self._root:  # stores keep their order: that of the programs people use most
            return list(nodes)
        return ordered(nodes, self._sorted_by, self._descending)

    # A scan's rows

    def _take(self, node: Node, rows: Sequence[Row], merging: Merging) -> None:
        """Bring everything below a listed node up to date, without telling the view yet."""
        before = {child.row.key: child for child in node.every}
        every = []
        for row in rows:
            child = before.pop(row.key, None)
            if child is None:
                child = self._new(row, node)
                known: Sequence[Row] = ()
            else:
                entry, known = child.row.entry, child.row.children
                usage = child.row.usage
                if child.take(row):
                    merging.updated.append(child)
                    if row.usage is not usage:
                        merging.updated += child.every
                    if row.entry != entry:
                        merging.stale.append(child)
            if child.listed and row.children is not known:
                self._take(child, row.children, merging)
            every.append(child)
        merging.gone += before.values()
        node.every = self._ordered(node, every)

    def _renew(self, node: Node) -> None:
        """Find out again what a model is and holds, after it has changed on disk."""
        entry = node.row.entry
        node.details = None if entry is None else self.details.get(entry)
        node.changed()
        self._tell(node)
        if node.requested and node.expanded:
            self.contents_wanted.emit(node)  # what is shown stays until the answer comes
        elif node.requested:
            self.forget_contents(node)

    def _show_wanted(self) -> None:
        """Show what the filter keeps, in its order, by as few steps as will do."""
        plans = []
        steps = 0
        waiting = [self._root]
        while waiting:
            node = waiting.pop()
            plan = changes(node.children, self._filter.wanted(node))
            steps += plan.steps
            if plan.steps:
                plans.append((node, plan))
            waiting += [child for child in plan.kept if child.listed]
            # what is new shows its own children from the beginning
            for run in plan.inserted:
                for child in run.nodes:
                    self._fill(child)
        if steps > _MOST_STEPS:
            self._reset()
            return
        for node, plan in plans:
            for run in plan.removed:
                self._remove(node, run.first, len(run.nodes))
            if plan.moved:
                self._reorder([(node, plan.kept)])
            for run in plan.inserted:
                self._insert(node, run.first, run.nodes)

    def _fill(self, node: Node) -> None:
        """Let everything below a node that the view does not know show what is wanted."""
        if node.listed:
            node.children = list(self._filter.wanted(node))
            node.number()
            for child in node.children:
                self._fill(child)

    def _reset(self) -> None:
        self.beginResetModel()
        self._fill(self._root)
        self.endResetModel()

    # Single steps

    def _remove(self, node: Node, first: int, count: int) -> None:
        self.beginRemoveRows(self.index_of(node), first, first + count - 1)
        del node.children[first : first + count]
        node.number(first)
        self.endRemoveRows()

    def _insert(self, node: Node, first: int, nodes: list[Node]) -> None:
        self.beginInsertRows(self.index_of(node), first, first + len(nodes) - 1)
        node.children[first:first] = nodes
        node.number(first)
        self.endInsertRows()

    def _reorder(self, orders: Iterable[tuple[Node, list[Node]]]) -> None:
        self.layoutAboutToBeChanged.emit()
        before = self.persistentIndexList()
        nodes = [self._nodes[index.internalId()] for index in before]
        for node, children in orders:
            node.children = children
            node.number()
        after = [
            self.createIndex(node.place, index.column(), node.id)
            for index, node in zip(before, nodes, strict=True)
        ]
        self.changePersistentIndexList(before, after)
        self.layoutChanged.emit()

    def _replace(self, node: Node, nodes: list[Node]) -> None:
        """Put other rows below a model than those that are there."""
        old, is_shown = node.every, self.is_shown(node)
        if node.children and is_shown:
            self._remove(node, 0, len(node.children))
        for gone in old:
            self._drop(gone)
        node.every = nodes
        if not is_shown:  # the view knows no row to tell it of
            node.children = list(nodes)
            node.number()
        elif nodes:
            self._insert(node, 0, list(nodes))

    def _tell_all(self, nodes: Sequence[Node]) -> None:
        """Tell of changed nodes, in one go for all that stand below the same node."""
        above = {node.parent.id: node.parent for node in nodes if node.parent is not None}
        for parent in above.values():
            if parent.children and (parent is self._root or self.is_shown(parent)):
                first, last = parent.children[0], parent.children[-1]
                self.dataChanged.emit(self.index_of(first), self.index_of(last, _COUNT - 1))

    def _tell(self, node: Node) -> None:
        first = self.index_of(node)
        if first.isValid():
            self.dataChanged.emit(first, self.index_of(node, _COUNT - 1))

    # Qt

    def index(self, row: int, column: int, parent: Index = QModelIndex()) -> QModelIndex:  # noqa: B008
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

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        node = self.node(parent) or self._root
        return 0 if parent.column() > 0 else len(node.children)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return _COUNT

    def hasChildren(self, parent: Index = QModelIndex()) -> bool:  # noqa: B008
        node = self.node(parent) or self._root
        return parent.column() <= 0 and (bool(node.children) or node.pending)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        # a view asks each cell that it paints for seven roles
        node = self.node(index) if role in ANSWERED else None
        return None if node is None else cell(node, index.column(), role)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation != Qt.Orientation.Horizontal or not 0 <= section < _COUNT:
            return None
        return header_cell(section, role)

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        chosen = column if 0 <= column < _COUNT else int(LibraryColumn.NAME)
        descending = order == Qt.SortOrder.DescendingOrder
        if (chosen, descending) == (self._sorted_by, self._descending):
            return
        self._sorted_by, self._descending = chosen, descending
        orders = []
        for node in self._listed():
            node.every = self._ordered(node, node.every)
            shown = {child.id for child in node.children}
            orders.append((node, [child for child in node.every if child.id in shown]))
        self._reorder(orders)
