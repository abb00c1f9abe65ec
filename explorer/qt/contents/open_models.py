"""What is open, on the left: model → metadata by namespace, tensors by layer and role, groups.

Children are made when a branch is opened.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from PySide6 import QtCore
from PySide6.QtCore import QModelIndex, QPoint, QRect, Qt, QTimer, Signal
from PySide6.QtGui import (
    QColor,
    QGuiApplication,
    QIcon,
    QKeyEvent,
    QKeySequence,
    QPainter,
    QPalette,
    QResizeEvent,
)
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QHeaderView,
    QMenu,
    QStyle,
    QStyleOptionViewItem,
    QTreeView,
    QWidget,
)

from explorer.present.explanations import MODEL_TREE_TEXTS
from explorer.present.model import problem_line, spoken_problems
from explorer.qt.contents.nodes import SHOWN_PROBLEMS, Filtered, Node, NodeKind, model_node
from explorer.qt.document import Document
from explorer.qt.selection import Selection
from explorer.qt.theme import Space, ink_of
from explorer.qt.widgets.building import add_action, add_navigation, column, copy_text
from explorer.qt.widgets.painting import (
    SWATCH_SIZE,
    outline_current,
    paint_branch,
    plain_tip,
    swatch_icon,
)
from explorer.qt.widgets.table_model import Index, ItemRole
from explorer.qt.widgets.table_view import FilterBar, RoomyDelegate
from explorer.text import plain_text

_MOST_OPENED = 200  # rows that a filter unfolds
_MEANINGS = tuple(MODEL_TREE_TEXTS.values())
_AT_END = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class TreeModel(QtCore.QAbstractItemModel):
    """The open models and what is in them.

    Attributes:
        roots: A node for each model, in the order of opening.
    """

    def __init__(self, parent: QtCore.QObject | None = None) -> None:
        super().__init__(parent)
        self.roots: list[Node] = []
        self._left = Filtered()

    def filter(self, text: str) -> None:
        """Show only what every word of a text is found in."""
        self.beginResetModel()
        self._left, before = Filtered(text), self.roots
        self.roots = [model_node(root.document, self._left) for root in before]
        self._number_roots(0)
        self.endResetModel()
        self._take_apart(before)

    def add(self, document: Document, row: int) -> QModelIndex:
        """Show a model as the branch at `row`; return its index."""
        self.beginInsertRows(QModelIndex(), row, row)
        node = model_node(document, self._left)
        self.roots.insert(row, node)
        self._number_roots(row)
        self.endInsertRows()
        return self.index_of(node)

    def remove(self, document: Document) -> None:
        row = next(i for i, node in enumerate(self.roots) if node.document is document)
        self.beginRemoveRows(QModelIndex(), row, row)
        removed = self.roots.pop(row)
        self._number_roots(row)
        self.endRemoveRows()
        self._take_apart([removed])

    def _take_apart(self, nodes: Sequence[Node]) -> None:
        """Free nodes once Qt has seen that they are gone: it holds their addresses."""

        def act() -> None:
            for node in nodes:
                node.take_apart()

        QTimer.singleShot(0, self, act)

    def _number_roots(self, first: int) -> None:
        for row, node in enumerate(self.roots[first:], first):
            node.row = row

    def node(self, index: Index) -> Node | None:
        """Return the node of an index, None for the invisible root."""
        return index.internalPointer() if index.isValid() else None

    def index_of(self, node: Node) -> QModelIndex:
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
            self._open(node)
            stack.extend(reversed(node.children))
        return QModelIndex()

    def _open(self, node: Node) -> None:
        if children := node.new_children():
            self.beginInsertRows(self.index_of(node), 0, len(children) - 1)
            node.children = children
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
        return parent.column() <= 0 and (bool(node.children) or node.make is not None)

    def canFetchMore(self, parent: Index) -> bool:
        node = self.node(parent)
        return node is not None and parent.column() <= 0 and node.make is not None

    def fetchMore(self, parent: Index) -> None:
        node = self.node(parent)
        if node is not None:
            self._open(node)

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
            return ("Model", "What")[section]
        return _MEANINGS[section] if role == Qt.ItemDataRole.WhatsThisRole else None


def _tip(node: Node, _column: int) -> str | None:
    lines = [*map(problem_line, node.problems[:SHOWN_PROBLEMS])]
    if node.kind is NodeKind.TENSOR:
        lines.insert(0, f"{node.words}, {node.detail}")
    elif node.kind is NodeKind.KEY:
        lines.insert(0, f"{plain_text(node.key)}: {node.words}")
    elif node.kind is NodeKind.MODEL:
        lines.insert(0, node.title)  # the tree may have no room for all of it
    return plain_tip("\n".join(lines)) or None


def _swatch(node: Node, column: int) -> QIcon | None:
    return swatch_icon(node.words) if node.kind is NodeKind.TENSOR and column == 0 else None


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


_DECORATION: Final = Qt.ItemDataRole.DecorationRole
_DETAIL_EDGES = 8  # pixels beside the text at the end of a row
_INDENTATION = 14
_NAME_WIDTH = 140


class _SharingDelegate(RoomyDelegate):
    """Gives a name the room that the text at the end of its row leaves, and the other way round."""

    # Qt

    def initStyleOption(self, option: QStyleOptionViewItem, index: Index) -> None:
        super().initStyleOption(option, index)
        option.state &= ~QStyle.StateFlag.State_HasFocus  # see `outline_current`
        tree = self.parent()
        assert isinstance(tree, QTreeView)
        move = tree.columnWidth(1) - self._share(tree, option, index)
        if index.column() == 0:
            left, right = 0, move
            node = index.data(ItemRole.NODE)
            if node.kind is NodeKind.KEY:  # the end of a key says most
                option.textElideMode = Qt.TextElideMode.ElideLeft
        else:
            left, right = move, 0
            option.textElideMode = Qt.TextElideMode.ElideRight
        option.rect = option.rect.adjusted(left, 0, right, 0)

    def _share(self, tree: QTreeView, option: QStyleOptionViewItem, index: Index) -> int:
        """Return the width of the text at the end; two fifths of the row if not both have room."""
        name, detail = index.sibling(index.row(), 0), index.sibling(index.row(), 1)
        width, depth, above = option.fontMetrics.horizontalAdvance, 1, index.parent()
        while above.isValid():
            depth, above = depth + 1, above.parent()
        room = tree.columnWidth(0) + tree.columnWidth(1) - depth * tree.indentation()
        swatch = 0 if name.data(_DECORATION) is None else tree.iconSize().width() + Space.TIGHT
        left = room - width(name.data()) - swatch - _DETAIL_EDGES
        wanted = width(detail.data() or "") + _DETAIL_EDGES
        return min(wanted, max(left, min(wanted, room * 2 // 5)))


class _Tree(QTreeView):
    """A tree whose key * opens one level: Qt opens all, and lays out 60,000 rows at once."""

    # Qt

    def drawRow(self, painter: QPainter, options: QStyleOptionViewItem, index: Index) -> None:
        super().drawRow(painter, options, index)
        current = self.currentIndex()
        if index.row() == current.row() and index.parent() == current.parent():
            area = QRect(options.rect)
            area.setLeft(0)
            area.setRight(self.viewport().width() - 1)
            outline_current(self, painter, area.adjusted(0, 0, 0, 1))

    def drawBranches(self, painter: QPainter, rect: QRect, index: Index) -> None:
        paint_branch(self, painter, rect, index)

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
        layer_chosen: The user clicked or entered a layer: model, row of one of its tensors.
        close_requested: A model shall be closed.
        opened: The user entered or double-clicked the current key or tensor.
    """

    model_chosen = Signal(object)
    key_chosen = Signal(object, str)
    tensor_chosen = Signal(object, int)
    layer_chosen = Signal(object, int)
    close_requested = Signal(object)
    opened = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.model = TreeModel(self)
        self.tree = _Tree(self)
        self.tree.setModel(self.model)
        self.tree.setUniformRowHeights(True)
        self.tree.setHeaderHidden(True)
        self.tree.setIndentation(_INDENTATION)
        self.tree.setIconSize(SWATCH_SIZE)
        self.tree.setFrameShape(QFrame.Shape.NoFrame)
        self.tree.setAccessibleName("Open models")
        self.tree.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.tree.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        header = self.tree.header()
        header.setStretchLastSection(False)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        header.setSectionResizeMode(1, QHeaderView.ResizeMode.Interactive)
        self.tree.setMinimumWidth(_NAME_WIDTH)
        self.tree.setItemDelegate(_SharingDelegate(self.tree))
        self.tree.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.tree.customContextMenuRequested.connect(self._show_menu)
        self.tree.selectionModel().currentChanged.connect(self._emit_choice)
        self.tree.activated.connect(self._open)
        self.tree.clicked.connect(self._choose_layer)
        hint = "Filter the tree"
        tip = "What keys and tensors are called, or: layer:0-7  type:q6_k  size>100M"
        self.bar = FilterBar(hint, tip, self)
        self.bar.status.hide()
        self.bar.changed.connect(self._filter)
        self.bar.left_down.connect(self.tree.setFocus)
        self.setTabOrder(self.bar.edit, self.tree)
        column(self.bar, (self.tree, 1), of=self, margins=(Space.NEAR, 0, Space.TIGHT, 0))
        self.setAutoFillBackground(True)
        self.setBackgroundRole(QPalette.ColorRole.Base)
        self._quiet = False
        self._selected: Node | None = None  # what was current when the filter was typed
        copy = QKeySequence.StandardKey.Copy
        self._copy_action = add_action(self.tree, "&Copy name", self._copy_name, copy)

    def _share_width(self) -> None:
        """Keep room for names: where there is little, the second column gives way."""
        header = self.tree.header()
        wanted = self.tree.fontMetrics().horizontalAdvance("9,999 tensors") + _DETAIL_EDGES
        room = max(self.width() - _NAME_WIDTH, header.minimumSectionSize())
        header.resizeSection(1, min(wanted, room))

    # Qt

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._share_width()
        super().resizeEvent(event)

    def changeEvent(self, event: QtCore.QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QtCore.QEvent.Type.FontChange:
            self._share_width()

    def _filter(self, text: str) -> None:
        """Show what a filter leaves, unfolded as far as it is little; select what was selected."""
        current = self.model.node(self.tree.currentIndex()) or self._selected
        self._selected = current  # the next letter may show it again
        self._quiet = True
        self.model.filter(text)
        self.bar.say(Filtered(text).problems)
        self._quiet = False
        self._unfold(self.model.roots)
        if current is None:
            return
        if current.kind is NodeKind.KEY:
            self.reveal_key(current.document, current.key)
        elif current.tensor_row >= 0:
            self.reveal_tensor(current.document, current.tensor_row)
        else:
            self.reveal_model(current.document)

    def _unfold(self, roots: Sequence[Node]) -> None:
        """Open models one level; of a filter, all that it found, up to some rows."""
        filtered, waiting, opened = bool(self.bar.text.strip()), deque(roots), 0
        while waiting and opened < _MOST_OPENED:
            node = waiting.popleft()
            index = self.model.index_of(node)
            if node.kind is not NodeKind.TENSOR and (filtered or node.parent is None):
                self.model.fetchMore(index)
                self.tree.expand(index)
                opened += len(node.children)
                waiting.extend(node.children)

    def add(self, document: Document, row: int) -> None:
        """Show a model as the branch at `row`, opened one level, or with what a filter found."""
        self.model.add(document, row)
        self._unfold([self.model.roots[row]])

    def remove(self, document: Document) -> None:
        self.model.remove(document)
        if self._selected is not None and self._selected.document is document:
            self._selected = None

    def reveal_model(self, document: Document) -> None:
        self._reveal(document, lambda node: node.kind is NodeKind.MODEL)

    def follow(self, selection: Selection) -> None:
        """Select the key or tensor that was selected last, opening its branch."""
        document = selection.document
        if document is None:
            return
        if selection.key is not None:
            self.reveal_key(document, document.model.metadata.entries[selection.key].key)
        elif selection.rows and selection.whole_layer:
            self.reveal_layer(document, selection.rows[0])
        elif selection.rows:
            self.reveal_tensor(document, selection.rows[0])

    def reveal_key(self, document: Document, key: str) -> None:
        """Select a metadata key, opening its branch."""
        self._reveal(document, lambda node: node.kind is NodeKind.KEY and node.key == key, key)

    def reveal_layer(self, document: Document, row: int) -> None:
        """Select the layer of a tensor; of one outside of layers, the tensor."""

        def match(node: Node) -> bool:
            layer = node.kind is NodeKind.LAYER and node.holds is not None and node.holds(row)
            return layer or node.tensor_row == row

        self._reveal(document, match, row)

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

    def _choose_layer(self, index: QModelIndex) -> None:
        node = self.model.node(index)
        if node is not None and node.kind is NodeKind.LAYER:
            self.layer_chosen.emit(node.document, node.layer_row)

    def _open(self, index: QModelIndex) -> None:
        node = self.model.node(index)
        self._choose_layer(index)
        if node is not None and node.kind in {NodeKind.KEY, NodeKind.TENSOR, NodeKind.PART}:
            self._emit_choice(index)  # another may be selected, in a table
            self.opened.emit()

    def _copy_name(self) -> None:
        node = self.model.node(self.tree.currentIndex())
        if node is not None:
            copy_text(plain_text(_full_name(node)))

    def menu_at(self, place: QPoint) -> QMenu | None:
        """Return a menu for the row at a place; closing it deletes it."""
        node = self.model.node(self.tree.indexAt(place))
        if node is None:
            return None
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.addAction(self._copy_action)
        menu.addAction("Copy &path", partial(copy_text, plain_text(str(_path(node)))))
        if node.kind is NodeKind.MODEL:
            menu.addSeparator()
            menu.addAction("C&lose model").triggered.connect(
                lambda: self.close_requested.emit(node.document)
            )
        add_navigation(self, menu, whole=node.kind is NodeKind.MODEL)
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
