"""What is open, on the left: model → metadata by namespace, tensors by layer and role, groups.

Children are made when a branch is opened, and come in pages: a hostile file may put 200,000 tensors
into one branch, and a tree view lays out every row that it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from PySide6 import QtCore
from PySide6.QtCore import QModelIndex, QPoint, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QGuiApplication,
    QKeyEvent,
    QKeySequence,
    QPalette,
    QPixmap,
    QResizeEvent,
)
from PySide6.QtWidgets import QAbstractItemView, QFrame, QHeaderView, QMenu, QTreeView, QWidget

from explorer.formats import Problem, Severity
from explorer.formats.tensors import TensorGroup, natural_key, parse_name
from explorer.present.explanations import MODEL_TREE_TEXTS
from explorer.present.model import gravest, mark, problem_line, spoken_problems
from explorer.qt.document import Document
from explorer.qt.selection import Selection
from explorer.qt.theme import Space, ink_of
from explorer.qt.widgets.building import add_action, column, offer_leads
from explorer.qt.widgets.painting import plain_tip, type_swatch
from explorer.qt.widgets.table_model import Index, ItemRole
from explorer.qt.widgets.table_view import RoomyDelegate
from explorer.text import bytes_text, integer_text, plain_text, shape_text, shorten

Make: TypeAlias = Callable[[], Iterable["Node"]]
Holds: TypeAlias = Callable[["int | str"], bool]
T = TypeVar("T")

_PAGE = 256
_MOST_SIBLINGS = 1000
_SPAN = 256
_LONGEST_TITLE = 200  # a name may have 65,000 letters
_SHORT_TITLE = 40
_SHOWN_PROBLEMS = 8
_MEANINGS = tuple(MODEL_TREE_TEXTS.values())
_AT_END = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class NodeKind(Enum):
    """What a node of the tree stands for."""

    MODEL = auto()
    METADATA = auto()
    NAMESPACE = auto()
    SPAN = auto()  # some of very many siblings
    KEY = auto()
    TENSORS = auto()
    LAYER = auto()
    ROLE = auto()
    TENSOR = auto()
    PART = auto()  # a stored array of a quantized tensor
    GROUPS = auto()
    GROUP = auto()


@dataclass(eq=False)
class Node:
    """A row of the tree.

    Attributes:
        kind: What it stands for.
        title: Its text, safe to show.
        words: Text of the second column, where it is no size.
        document: The model it belongs to.
        key: Metadata key, of a KEY.
        tensor_row: Row in the model's tensor table, of a TENSOR and of a PART.
        nbytes: Bytes of what it stands for, where the second column shows them.
        make: Makes its children, or None for a leaf.
        rest: Makes the children that are not shown yet; None before the branch was opened.
        ahead: The first of them, if there is one.
        holds: Whether a tensor (its row) or a key may be below it; None if that is not known.
        children: Children shown.
        parent: The node above, None for a model.
        row: Its place among its siblings.
        problems: What is wrong with it, or below it.
    """

    kind: NodeKind
    title: str
    words: str
    document: Document
    key: str = ""
    tensor_row: int = -1
    nbytes: int | None = None
    make: Make | None = None
    rest: Iterator[Node] | None = None
    ahead: Node | None = None
    holds: Callable[[int | str], bool] | None = None
    children: list[Node] = field(default_factory=list)
    parent: Node | None = None
    row: int = 0
    problems: Sequence[Problem] = ()

    @property
    def shown_title(self) -> str:
        """Its title, behind the sign of its gravest problem."""
        grave = gravest(self.problems)
        return self.title if grave is None else f"{mark(grave.severity)} {self.title}"

    @property
    def detail(self) -> str:
        """Text of the second column, with sizes in the units chosen now."""
        if self.kind is NodeKind.MODEL:
            return plain_text(self.document.facts.file_type or self.document.summary)
        return self.words if self.nbytes is None else bytes_text(self.nbytes)

    def pending(self) -> bool:
        """Whether there are children that are not shown yet."""
        return self.make is not None if self.rest is None else self.ahead is not None

    def next_page(self, count: int) -> list[Node]:
        """Return the next children, which are then no longer waiting."""
        if self.rest is None:
            self.rest = iter(self.make() if self.make else ())
            self.ahead = next(self.rest, None)
        page: list[Node] = []
        while self.ahead is not None and len(page) < count:
            self.ahead.parent, self.ahead.row = self, len(self.children) + len(page)
            page.append(self.ahead)
            self.ahead = next(self.rest, None)
        return page


def model_node(document: Document) -> Node:
    """Return the branch of one model."""
    title, make = _short(document.title), partial(_branches, document)
    return Node(NodeKind.MODEL, title, "", document, make=make, problems=document.problems)


def _branches(document: Document) -> Iterator[Node]:
    model, kind = document.model, NodeKind
    if model.metadata.entries:
        count = len(model.metadata.entries)
        text = _tr("1 key") if count == 1 else _tr("{n} keys")
        keys = text.format(n=integer_text(count))
        branch = Node(kind.METADATA, _tr("Metadata"), keys, document)
        branch.make, branch.holds = partial(_namespaces, document), _is_key
        yield branch
    if model.tensors.rows:
        count = len(model.tensors.rows)
        text = _tr("1 tensor") if count == 1 else _tr("{n} tensors")
        tensors = text.format(n=integer_text(count))
        branch = Node(kind.TENSORS, _tr("Tensors"), tensors, document)
        branch.make, branch.holds = partial(_layers, document), _is_row
        branch.problems = _damage(document, range(len(model.tensors.rows)))
        yield branch
    if model.groups:
        branch = Node(kind.GROUPS, _tr("Groups"), integer_text(len(model.groups)), document)
        branch.make, branch.holds = partial(_groups, document), lambda _: False
        yield branch


def _is_key(target: int | str) -> bool:
    return isinstance(target, str)


def _is_row(target: int | str) -> bool:
    return isinstance(target, int)


def _namespaces(document: Document) -> Iterator[Node]:
    namespaces = document.keys.namespaces

    def node(name: str) -> Node:
        places = namespaces[name]
        make = partial(_keys, document, name, places)
        count = integer_text(len(places))
        holds = partial(_is_in_namespace, name)
        return Node(NodeKind.NAMESPACE, _short(name), count, document, make=make, holds=holds)

    yield from _spread(document, list(namespaces), node, holds_of=_one_of_namespaces)


def _one_of_namespaces(names: Sequence[str]) -> Holds:
    members = frozenset(names)
    return lambda target: isinstance(target, str) and target.partition(".")[0] in members


def _is_in_namespace(name: str, target: int | str) -> bool:
    return isinstance(target, str) and target.partition(".")[0] == name


def _keys(document: Document, namespace: str, places: list[int]) -> Iterator[Node]:
    entries, values = document.model.metadata.entries, document.keys.values

    def node(place: int) -> Node:
        key = entries[place].key
        title = _short(key.removeprefix(f"{namespace}."))
        return Node(NodeKind.KEY, title, values[place], document, key=key)

    ranks = document.keys.ranks[0]
    names = document.keys.names

    def between(members: Sequence[int]) -> Holds:
        first, last = (_key_order(names[place]) for place in (members[0], members[-1]))
        return lambda key: isinstance(key, str) and first <= _key_order(plain_text(key)) <= last

    yield from _spread(document, _ordered(places, ranks), node, holds_of=between)


def _key_order(name: str) -> tuple[object, str]:
    """Return what decides the place of a key in natural order; see `text_ranks`."""
    return natural_key(name), name


def _layers(document: Document) -> Iterator[Node]:
    """Yield the tensors of no layer, then the layers."""
    layers: dict[tuple[str, int], list[int]] = {}
    names, numbers = document.model.tensors.columns.names, document.arrays.layers
    outside: list[int] = np.flatnonzero(numbers < 0).tolist()
    for row in np.flatnonzero(numbers >= 0).tolist():
        parsed = parse_name(names[row])
        if parsed.layer is not None:
            layers.setdefault((parsed.stack, parsed.layer), []).append(row)
    yield from _tensors(document, "", _by_name(document, outside))
    several_stacks = len({stack for stack, _ in layers}) > 1

    def node(key: tuple[str, int]) -> Node:
        stack, layer = key
        title = f"{stack}.{layer}" if several_stacks else _tr("Layer {n}").format(n=layer)
        prefix, rows = f"{stack}.{layer}.", layers[key]
        make = partial(_roles, document, prefix, rows)
        return _sized(document, NodeKind.LAYER, title, rows, make)

    order = sorted(layers, key=lambda key: (natural_key(key[0]), key[1]))
    yield from _spread(document, order, node, lambda key: layers[key])


def _roles(document: Document, prefix: str, rows: list[int]) -> Iterator[Node]:
    """Yield the tensors of a layer, with a branch for each role that several have."""
    roles: dict[str, list[int]] = {}
    for row in _by_name(document, rows):
        name = document.model.tensors.columns.names[row]
        roles.setdefault(parse_name(name).role, []).append(row)
    tensor = partial(_tensor, document, prefix)

    def node(role: str) -> Node:
        members = roles[role]
        if len(members) == 1:
            return tensor(members[0])
        make = partial(_tensors, document, prefix, members)
        return _sized(document, NodeKind.ROLE, role, members, make)

    yield from _spread(document, list(roles), node, lambda role: roles[role])


def _tensors(document: Document, prefix: str, rows: list[int]) -> Iterator[Node]:
    yield from _spread(document, rows, partial(_tensor, document, prefix), lambda row: [row])


def _tensor(document: Document, prefix: str, row: int) -> Node:
    columns = document.model.tensors.columns
    title = _short(columns.names[row].removeprefix(prefix)) or _tr("(empty name)")
    title = title.removesuffix(".weight") if prefix else title  # most have it, none needs it
    kind = columns.types[row]
    node = Node(NodeKind.TENSOR, title, kind.name, document, tensor_row=row)
    node.nbytes, node.problems = columns.nbytes[row], _damage(document, [row])
    if kind.quantized and kind.id is None:  # ggml's types have an id, and no parts
        node.make = partial(_parts, document, row)
    return node


def _parts(document: Document, row: int) -> Iterator[Node]:
    """Yield the stored arrays of a quantized tensor, and those that are attached to its module."""
    tensor = document.model.tensors.rows[row]
    module = tensor.name.rpartition(".")[0] + "."
    for name, stored, attached in tensor.stored_parts:
        words = (stored.type.name, shape_text(stored.shape), _tr("attached") if attached else "")
        text = " · ".join(filter(None, words))
        title = _short(name.removeprefix(module))
        yield Node(NodeKind.PART, title, text, document, key=name, tensor_row=row)


def _groups(document: Document) -> Iterator[Node]:
    def node(group: TensorGroup) -> Node:
        title = _short(group.name)
        return Node(NodeKind.GROUP, title, "", document, key=group.name, nbytes=group.nbytes)

    order = sorted(document.model.groups, key=lambda group: natural_key(group.name))
    yield from _spread(document, order, node)


def _spread(
    document: Document,
    items: Sequence[T],
    node: Callable[[T], Node],
    rows_of: Callable[[T], list[int]] | None = None,
    holds_of: Callable[[Sequence[T]], Holds] | None = None,
) -> Iterator[Node]:
    """Yield a node for each item; of many, branches of some each: no view lays out 60,000 rows.

    Args:
        document: The model.
        items: What the nodes stand for, in order.
        node: Makes one.
        rows_of: Returns the tensors of an item; None if it has none.
        holds_of: Returns whether a target may be below some of the items; None for by `rows_of`.
    """
    if len(items) <= _MOST_SIBLINGS:
        yield from map(node, items)
        return
    for start in range(0, len(items), _SPAN):
        members = items[start : start + _SPAN]
        rows = [] if rows_of is None else [row for item in members for row in rows_of(item)]
        ends = (shorten(node(item).title, _SHORT_TITLE) for item in (members[0], members[-1]))
        count = integer_text(len(members))
        span = Node(NodeKind.SPAN, " … ".join(ends), count, document)
        span.make = partial(map, node, members)
        span.problems = _damage(document, rows) if rows else ()
        span.holds = frozenset(rows).__contains__ if holds_of is None else holds_of(members)
        yield span


def _short(text: str) -> str:
    return shorten(plain_text(text), _LONGEST_TITLE)


def _sized(document: Document, kind: NodeKind, title: str, rows: list[int], make: Make) -> Node:
    """Return a branch that shows the bytes of the tensors below it."""
    nbytes = sum(document.model.tensors.columns.nbytes[row] for row in rows)
    node = Node(kind, _short(title), "", document, nbytes=nbytes, make=make)
    node.problems, node.holds = _damage(document, rows), frozenset(rows).__contains__
    return node


def _damage(document: Document, rows: Sequence[int]) -> Sequence[Problem]:
    """Return the damage of the first damaged tensors among rows."""
    if not document.has_damage:
        return ()
    places = np.flatnonzero(document.arrays.damaged[rows])[:_SHOWN_PROBLEMS]
    tensors = (document.model.tensors.rows[rows[place]] for place in places)
    return [Problem(Severity.ERROR, tensor.name, tensor.damage or "") for tensor in tensors]


def _by_name(document: Document, rows: list[int]) -> list[int]:
    return _ordered(rows, document.arrays.name_ranks)


def _ordered(places: list[int], ranks: NDArray[np.int64]) -> list[int]:
    """Return places in the order of their ranks."""
    chosen = np.array(places, np.intp)
    ordered: list[int] = chosen[np.argsort(ranks[chosen], kind="stable")].tolist()
    return ordered


def _tr(text: str) -> str:
    return QtCore.QCoreApplication.translate("TreeModel", text)


class TreeModel(QtCore.QAbstractItemModel):
    """The open models and what is in them.

    Attributes:
        roots: A node for each model, in the order of opening.
    """

    def __init__(self, parent: QtCore.QObject | None = None) -> None:
        super().__init__(parent)
        self.roots: list[Node] = []

    def add(self, document: Document, row: int) -> QModelIndex:
        """Show a model as the branch at `row`; return its index."""
        self.beginInsertRows(QModelIndex(), row, row)
        node = model_node(document)
        self.roots.insert(row, node)
        self._number_roots(row)
        self.endInsertRows()
        return self.index_of(node)

    def remove(self, document: Document) -> None:
        """Remove a model."""
        row = next(i for i, node in enumerate(self.roots) if node.document is document)
        self.beginRemoveRows(QModelIndex(), row, row)
        del self.roots[row]
        self._number_roots(row)
        self.endRemoveRows()

    def _number_roots(self, first: int) -> None:
        for row, node in enumerate(self.roots[first:], first):
            node.row = row

    def node(self, index: Index) -> Node | None:
        """Return the node of an index, None for the invisible root."""
        return index.internalPointer() if index.isValid() else None

    def index_of(self, node: Node) -> QModelIndex:
        """Return the index of a node that is shown."""
        return self.createIndex(node.row, 0, node)

    def find(
        self, document: Document, match: Callable[[Node], bool], target: int | str | None = None
    ) -> QModelIndex:
        """Return the first matching node of a model, opening branches on the way.

        Args:
            document: The model.
            match: Tells it.
            target: The row of a tensor, or a key: branches that do not hold it stay closed.
        """
        root = next((node for node in self.roots if node.document is document), None)
        stack = [root] if root is not None else []
        while stack:
            node = stack.pop()
            if match(node):
                return self.index_of(node)
            if node.kind in (NodeKind.KEY, NodeKind.TENSOR, NodeKind.GROUP, NodeKind.PART):
                continue
            if target is not None and node.holds is not None and not node.holds(target):
                continue
            while node.pending():
                self._show(node, _MOST_SIBLINGS)
            stack.extend(reversed(node.children))
        return QModelIndex()

    def _show(self, node: Node, count: int) -> None:
        page = node.next_page(count)
        if page:
            first = len(node.children)
            self.beginInsertRows(self.index_of(node), first, first + len(page) - 1)
            node.children += page
            self.endInsertRows()

    def _children(self, parent: Index) -> list[Node]:
        node = self.node(parent)
        return self.roots if node is None else node.children

    # Qt

    def index(self, row: int, column: int, parent: Index = QModelIndex()) -> QModelIndex:
        children = self._children(parent)
        if parent.column() > 0 or not (0 <= row < len(children) and 0 <= column < 2):
            return QModelIndex()
        return self.createIndex(row, column, children[row])

    def parent(self, index: Index) -> QModelIndex:  # type: ignore[override] # QObject.parent() is the other overload
        node = self.node(index)
        return QModelIndex() if node is None or node.parent is None else self.index_of(node.parent)

    def rowCount(self, parent: Index = QModelIndex()) -> int:
        return 0 if parent.column() > 0 else len(self._children(parent))

    def columnCount(self, parent: Index = QModelIndex()) -> int:
        return 2

    def hasChildren(self, parent: Index = QModelIndex()) -> bool:
        node = self.node(parent)
        if node is None:
            return bool(self.roots)
        return parent.column() <= 0 and (bool(node.children) or node.pending())

    def canFetchMore(self, parent: Index) -> bool:
        node = self.node(parent)
        return node is not None and parent.column() <= 0 and node.pending()

    def fetchMore(self, parent: Index) -> None:
        node = self.node(parent)
        if node is not None:
            self._show(node, _PAGE)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        answer = _ANSWERS.get(role)
        node = None if answer is None else self.node(index)
        return None if answer is None or node is None else answer(node, index.column())

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation != Qt.Orientation.Horizontal or not 0 <= section < 2:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return (self.tr("Model"), self.tr("What"))[section]
        return _MEANINGS[section] if role == Qt.ItemDataRole.WhatsThisRole else None


def _tip(node: Node, _column: int) -> str | None:
    lines = [*map(problem_line, node.problems[:_SHOWN_PROBLEMS])]
    if node.kind is NodeKind.TENSOR:
        lines.insert(0, f"{node.words}, {node.detail}")
    elif node.kind is NodeKind.KEY:
        lines.insert(0, f"{plain_text(node.key)}: {node.words}")
    return plain_tip("\n".join(lines)) or None


def _swatch(node: Node, column: int) -> QPixmap | None:
    return type_swatch(node.words) if node.kind is NodeKind.TENSOR and column == 0 else None


def _spoken(node: Node, column: int) -> str:
    """Return what a screen reader says: signs and colours have no names that say what is meant."""
    if not column:
        return spoken_problems(node.title, node.problems)
    return f"{node.words}, {node.detail}" if node.kind is NodeKind.TENSOR else node.detail


def _lighter(_node: Node, column: int) -> QColor | None:
    return QColor(ink_of(QGuiApplication.palette()).muted) if column else None


_ANSWERS: Final[dict[int, Callable[[Node, int], Any]]] = {
    Qt.ItemDataRole.DisplayRole: lambda node, column: node.detail if column else node.shown_title,
    Qt.ItemDataRole.DecorationRole: _swatch,
    Qt.ItemDataRole.ForegroundRole: _lighter,
    Qt.ItemDataRole.TextAlignmentRole: lambda _, column: _AT_END if column else None,
    Qt.ItemDataRole.ToolTipRole: _tip,
    Qt.ItemDataRole.AccessibleTextRole: _spoken,
    Qt.ItemDataRole.WhatsThisRole: lambda _, column: _MEANINGS[column],
    ItemRole.NODE: lambda node, _: node,
    ItemRole.RAW: lambda node, _: node.key or node.title,
}


_DETAIL_WIDTH = 92
_INDENTATION = 14
_NAME_WIDTH = 140


class _Tree(QTreeView):
    """A tree whose key * opens one level: Qt opens all, and lays out 60,000 rows at once."""

    # Qt

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Asterisk:
            self.expand(self.currentIndex())
        else:
            super().keyPressEvent(event)


class OpenModelsView(QWidget):
    """The open models and what is in them.

    Signals:
        model_chosen: The user moved to a model or to anything in it.
        key_chosen: To a metadata key: model, key.
        tensor_chosen: To a tensor: model, row of its table.
        close_requested: A model shall be closed.
    """

    model_chosen = Signal(object)
    key_chosen = Signal(object, str)
    tensor_chosen = Signal(object, int)
    close_requested = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.model = TreeModel(self)
        self.tree = _Tree(self)
        self.tree.setModel(self.model)
        self.tree.setUniformRowHeights(True)
        self.tree.setHeaderHidden(True)
        self.tree.setIndentation(_INDENTATION)
        self.tree.setFrameShape(QFrame.Shape.NoFrame)
        self.tree.setAccessibleName(self.tr("Open models"))
        self.tree.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.tree.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        header = self.tree.header()
        header.setStretchLastSection(False)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        header.setSectionResizeMode(1, QHeaderView.ResizeMode.Interactive)
        self._detail_width = _DETAIL_WIDTH
        header.sectionResized.connect(self._keep_width)
        header.resizeSection(1, _DETAIL_WIDTH)
        self.tree.setMinimumWidth(_NAME_WIDTH)
        self.tree.setItemDelegate(RoomyDelegate(self.tree))
        self.tree.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.tree.customContextMenuRequested.connect(self._show_menu)
        self.tree.selectionModel().currentChanged.connect(self._emit_choice)
        column(self.tree, of=self, margins=(Space.NEAR, Space.NEAR, 0, 0), spacing=Space.NEAR)
        self.setAutoFillBackground(True)
        self.setBackgroundRole(QPalette.ColorRole.Base)
        self._quiet = False
        copy = QKeySequence.StandardKey.Copy
        self._copy_action = add_action(self.tree, self.tr("&Copy name"), self._copy_name, copy)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep room for names: where there is little, the second column gives way."""
        header, wanted = self.tree.header(), self._detail_width
        room = max(self.width() - _NAME_WIDTH, header.minimumSectionSize())
        header.resizeSection(1, min(wanted, room))
        self._detail_width = wanted  # what the user gave it, and not what is left of it
        super().resizeEvent(event)

    def _keep_width(self, section: int, _old: int, new: int) -> None:
        if section == 1:
            self._detail_width = new

    def add(self, document: Document, row: int) -> None:
        """Show a model as the branch at `row`, opened one level."""
        self.tree.expand(self.model.add(document, row))

    def remove(self, document: Document) -> None:
        """Remove a model."""
        self.model.remove(document)

    def reveal_model(self, document: Document) -> None:
        """Select a model."""
        self._reveal(document, lambda node: node.kind is NodeKind.MODEL)

    def follow(self, selection: Selection) -> None:
        """Select the key or tensor that was selected last, opening its branch."""
        document = selection.document
        if document is None:
            return
        if selection.key is not None:
            self.reveal_key(document, document.model.metadata.entries[selection.key].key)
        elif selection.rows:
            self.reveal_tensor(document, selection.rows[0])

    def reveal_key(self, document: Document, key: str) -> None:
        """Select a metadata key, opening its branch."""
        self._reveal(document, lambda node: node.kind is NodeKind.KEY and node.key == key, key)

    def reveal_tensor(self, document: Document, row: int) -> None:
        """Select a tensor, opening its branch."""
        self._reveal(document, lambda node: node.tensor_row == row, row)

    def _reveal(
        self, document: Document, match: Callable[[Node], bool], target: int | str | None = None
    ) -> None:
        current = self.model.node(self.tree.currentIndex())
        if current is not None and current.document is document and match(current):
            return
        index = self.model.find(document, match, target)
        if index.isValid():
            self._quiet = True
            self.tree.setCurrentIndex(index)
            self.tree.scrollTo(index)
            self._quiet = False

    def _emit_choice(self, current: QModelIndex) -> None:
        node = self.model.node(current)
        if node is None or self._quiet:
            return
        self.model_chosen.emit(node.document)
        if node.kind is NodeKind.KEY:
            self.key_chosen.emit(node.document, node.key)
        elif node.kind in {NodeKind.TENSOR, NodeKind.PART}:
            self.tensor_chosen.emit(node.document, node.tensor_row)

    def _copy_name(self) -> None:
        node = self.model.node(self.tree.currentIndex())
        if node is not None:
            QGuiApplication.clipboard().setText(plain_text(_full_name(node)))

    def menu_at(self, place: QPoint) -> QMenu | None:
        """Return a menu for the row at a place; closing it deletes it."""
        node = self.model.node(self.tree.indexAt(place))
        if node is None:
            return None
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.addAction(self._copy_action)
        path, clipboard = plain_text(str(_path(node))), QGuiApplication.clipboard()
        menu.addAction(self.tr("Copy &path"), lambda: clipboard.setText(path))
        if node.kind is NodeKind.MODEL:
            menu.addSeparator()
            menu.addAction(self.tr("C&lose model")).triggered.connect(
                lambda: self.close_requested.emit(node.document)
            )
        offer_leads(self, menu)
        return menu

    def _show_menu(self, place: QPoint) -> None:
        menu = self.menu_at(place)
        if menu is not None:
            menu.popup(self.tree.viewport().mapToGlobal(place))


def _full_name(node: Node) -> str:
    if node.kind in {NodeKind.KEY, NodeKind.GROUP, NodeKind.PART}:
        return node.key
    if node.kind is NodeKind.TENSOR:
        return node.document.model.tensors.columns.names[node.tensor_row]
    return node.title


def _path(node: Node) -> Path:
    if node.kind is NodeKind.TENSOR:
        return node.document.model.tensors.rows[node.tensor_row].file
    return node.document.path
