"""The tree of what is open, on the left of the window."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QModelIndex, QPoint, Qt, Signal
from PySide6.QtGui import QAction, QGuiApplication, QKeySequence
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QMenu, QTreeView, QVBoxLayout, QWidget

from explorer.qt.contents.open_models_tree import Node, NodeKind, TreeModel
from explorer.qt.document import Document
from explorer.qt.selection import Selection
from explorer.qt.widgets.table_view import RoomyDelegate
from explorer.text import plain_text

_DETAIL_WIDTH = 120


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
        self.tree = QTreeView(self)
        self.tree.setModel(self.model)
        self.tree.setUniformRowHeights(True)
        self.tree.setAccessibleName(self.tr("Open models"))
        self.tree.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.tree.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        header = self.tree.header()
        header.setStretchLastSection(False)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        header.setSectionResizeMode(1, QHeaderView.ResizeMode.Interactive)
        header.resizeSection(1, _DETAIL_WIDTH)
        self.tree.setItemDelegate(RoomyDelegate(self.tree))
        self.tree.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.tree.customContextMenuRequested.connect(self._show_menu)
        self.tree.selectionModel().currentChanged.connect(self._emit_choice)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.tree)
        self._quiet = False
        copy = QAction(self.tr("&Copy name"), self.tree)
        copy.setShortcut(QKeySequence(QKeySequence.StandardKey.Copy))
        copy.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
        copy.triggered.connect(self._copy_name)
        self.tree.addAction(copy)
        self._copy_action = copy

    def add(self, document: Document, row: int) -> None:
        """Show a model as the branch at `row`, opened one level."""
        self.tree.expand(self.model.add(document, row))

    def remove(self, document: Document) -> None:
        """Take a model out."""
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
        self._reveal(document, lambda node: node.kind is NodeKind.KEY and node.key == key)

    def reveal_tensor(self, document: Document, row: int) -> None:
        """Select a tensor, opening its branch."""
        self._reveal(document, lambda node: node.tensor_row == row)

    def _reveal(self, document: Document, match: Callable[[Node], bool]) -> None:
        current = self.model.node(self.tree.currentIndex())
        if current is not None and current.document is document and match(current):
            return
        index = self.model.find(document, match)
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
        elif node.kind is NodeKind.TENSOR:
            self.tensor_chosen.emit(node.document, node.tensor_row)

    def _current(self) -> Node | None:
        return self.model.node(self.tree.currentIndex())

    def _copy_name(self) -> None:
        node = self._current()
        if node is not None:
            QGuiApplication.clipboard().setText(plain_text(_full_name(node)))

    def menu_at(self, place: QPoint) -> QMenu | None:
        """Return the menu of the row at a place, to be shown; closing it deletes it."""
        node = self.model.node(self.tree.indexAt(place))
        if node is None:
            return None
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.addAction(self._copy_action)
        path = _path(node)
        menu.addAction(self.tr("Copy &path")).triggered.connect(
            lambda: QGuiApplication.clipboard().setText(plain_text(str(path)))
        )
        if node.kind is NodeKind.MODEL:
            menu.addSeparator()
            menu.addAction(self.tr("C&lose model")).triggered.connect(
                lambda: self.close_requested.emit(node.document)
            )
        return menu

    def _show_menu(self, place: QPoint) -> None:
        menu = self.menu_at(place)
        if menu is not None:
            menu.popup(self.tree.viewport().mapToGlobal(place))


def _full_name(node: Node) -> str:
    if node.kind is NodeKind.KEY:
        return node.key
    if node.kind is NodeKind.TENSOR:
        return node.document.model.tensors.columns.names[node.tensor_row]
    return node.title


def _path(node: Node) -> Path:
    if node.kind is NodeKind.TENSOR:
        return node.document.model.tensors.rows[node.tensor_row].file
    return node.document.path
