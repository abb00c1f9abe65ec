"""Where the parts of the panel of downloaded models stand."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QHBoxLayout,
    QSplitter,
    QStackedWidget,
    QTabWidget,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from explorer.present.explanations import picture_text
from explorer.qt.jobs import JobRunner
from explorer.qt.models.library.node import Node
from explorer.qt.models.library.tree import LibraryModel
from explorer.qt.views.labels import plain_label
from explorer.qt.views.library.blobs_page import BlobsPage
from explorer.qt.views.library.detail_pane import DetailPane
from explorer.qt.views.library.empty_page import EmptyPage
from explorer.qt.views.library.tree_view import LibraryTree
from explorer.qt.views.library.turnstile import Turnstile
from explorer.qt.views.tables.filter_bar import FilterBar


class PanelLayout(QWidget):
    """A filter above two lists, what is selected below them, and what it comes to.

    Attributes:
        bar: The filter, for both lists.
        add_button: Adds a folder.
        scan_button: Reads the stores again, or stops that.
        model: The tree's model.
        tree: Models by store.
        blobs: Blobs, each once.
        lists: The tabs of both.
        pane: What the current row is.
        splitter: The lists and the pane.
        empty: What is shown where nothing is downloaded.
        total: What the selection comes to.
        turnstile: Keeps workers from holding up the window.
    """

    def __init__(self, runner: JobRunner, parent: QWidget | None) -> None:
        super().__init__(parent)
        hint = self.tr("Filter by name, architecture, quantization, state or digest")
        tip = self.tr(
            "Every word must be found. Digits of a digest find the models that use that blob."
        )
        self.bar = FilterBar(hint, tip, self)
        self.bar.status.setWhatsThis(picture_text("listed"))
        self.add_button = self._button(self.tr("Add folder…"), self.tr("List models of a folder"))
        self.scan_button = self._button("", "")
        top = QHBoxLayout()
        top.setContentsMargins(0, 0, 6, 0)
        top.setSpacing(4)
        top.addWidget(self.bar, 1)
        top.addWidget(self.add_button)
        top.addWidget(self.scan_button)
        self.model = LibraryModel(self)
        self.turnstile = Turnstile()
        self.tree = LibraryTree(self.model, self.turnstile, self)
        self.blobs = BlobsPage(runner, self)
        self.lists = QTabWidget(self)
        self.lists.setDocumentMode(True)
        self.lists.addTab(self.tree, self.tr("Models"))
        self.lists.addTab(self.blobs, self.tr("Blobs"))
        self.pane = DetailPane(runner, self)
        self.splitter = QSplitter(Qt.Orientation.Vertical, self)
        self.splitter.addWidget(self.lists)
        self.splitter.addWidget(self.pane)
        self.splitter.setStretchFactor(0, 3)
        self.splitter.setStretchFactor(1, 1)
        self.splitter.setChildrenCollapsible(False)
        self.empty = EmptyPage(self)
        self._sentence = plain_label(self)
        self._sentence.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._sentence.setEnabled(False)
        self._pages = QStackedWidget(self)
        for page in (self.splitter, self.empty, self._sentence):
            self._pages.addWidget(page)
        self.total = plain_label(self)
        self.total.setContentsMargins(8, 3, 8, 3)
        self.total.setWhatsThis(picture_text("download_total"))
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addLayout(top)
        layout.addWidget(self._pages, 1)
        layout.addWidget(self.total)

    def _button(self, text: str, tip: str) -> QToolButton:
        button = QToolButton(self)
        button.setText(text)
        button.setToolTip(tip)
        return button

    def show_model(self, node: Node) -> None:
        """Select a model in the tree; the filter is cleared if it hides it."""
        self.lists.setCurrentWidget(self.tree)
        if not self.model.is_shown(node):
            self.bar.edit.clear()
        above = node.parent
        while above is not None:
            self.tree.setExpanded(self.model.index_of(above), True)
            above = above.parent
        self.tree.select_node(node)
        self.tree.setFocus(Qt.FocusReason.OtherFocusReason)

    def say(self, sentence: str) -> None:
        """Show a sentence instead of the lists."""
        self._sentence.setText(sentence)
        self._pages.setCurrentWidget(self._sentence)

    def show_page(self, page: QWidget) -> None:
        """Show the lists with the pane, or that there is nothing to list."""
        self._pages.setCurrentWidget(page)
