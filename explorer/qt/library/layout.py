"""Where the parts of the panel of downloaded models stand."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QSplitter,
    QStackedWidget,
    QTabWidget,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from explorer.errors import ExplorerError
from explorer.formats import Severity
from explorer.present.explanations import picture_text
from explorer.qt.jobs import JobRunner, JobSlot
from explorer.qt.library.blobs import BlobsPage, StoredFile
from explorer.qt.library.contents import read_text
from explorer.qt.library.readers import Turnstile
from explorer.qt.library.rows import Node, mark, title_of
from explorer.qt.library.totals import blob_facts, facts_of, heading_of
from explorer.qt.library.tree_model import LibraryModel
from explorer.qt.library.tree_view import LibraryTree
from explorer.qt.widgets.labels import ElidedLabel, plain_label
from explorer.qt.widgets.table_view import FilterBar
from explorer.qt.widgets.text_view import TextView
from explorer.text import plain_text

# What the current row is, or the text that it holds.


class DetailPane(QWidget):
    """Facts and problems of a row; of a template, a licence and the like its text.

    Attributes:
        heading: The name.
        facts: What is known of it.
        text: Its text, if it is one.
    """

    def __init__(self, runner: JobRunner, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._jobs = JobSlot(runner, self)
        self.heading = ElidedLabel(self)
        self.heading.setWhatsThis(picture_text("name"))
        font = self.heading.font()
        font.setBold(True)
        self.heading.setFont(font)
        self.heading.setContentsMargins(10, 6, 10, 2)
        self.facts = plain_label(self)
        self.facts.setWordWrap(True)
        self.facts.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft)
        self.facts.setContentsMargins(10, 2, 10, 6)
        self.facts.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse
            | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.facts.setAccessibleName(self.tr("About the selected row"))
        self.facts.setWhatsThis(picture_text("download"))
        scroll = QScrollArea(self)
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setWidget(self.facts)
        self._scroll = scroll
        self.text = TextView(self)
        self._stack = QStackedWidget(self)
        self._stack.addWidget(scroll)
        self._stack.addWidget(self.text)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.heading)
        layout.addWidget(self._stack, 1)
        self.show_node(None)

    @property
    def shows_text(self) -> bool:
        """Whether a text is shown, in which one can search."""
        return self._stack.currentWidget() is self.text

    def show_node(self, node: Node | None) -> None:
        """Show a row of the tree; a text is read in the background."""
        self._jobs.cancel()
        if node is None:
            self._say("", self.tr("Select a row to read about it."))
        elif node.row.text and node.row.path is not None:
            self._read(node, node.row.path)
        else:
            self._say(heading_of(node), facts_of(node))

    def show_file(self, file: StoredFile | None) -> None:
        """Show a blob."""
        self._jobs.cancel()
        if file is None:
            self.show_node(None)
        else:
            self._say(title_of(file.digest), blob_facts(file))

    def _read(self, node: Node, path: Path) -> None:
        title, facts = heading_of(node), facts_of(node)
        if not self.shows_text or self.heading.text() != title:
            self._say(title, facts)

        def show(text: str) -> None:
            self.heading.setText(title)
            self.heading.show()
            self.text.show_text(text)
            self._stack.setCurrentWidget(self.text)

        def fail(error: ExplorerError) -> None:
            self._say(title, f"{facts}\n{mark(Severity.ERROR)}  {plain_text(str(error))}")

        job_title = self.tr("Reading {name}").format(name=title)
        self._jobs.run(job_title, lambda _job: read_text(path), show, fail)

    def _say(self, heading: str, text: str) -> None:
        self.heading.setText(heading)
        self.heading.setVisible(bool(heading))
        self.facts.setText(text)
        self._scroll.verticalScrollBar().setValue(0)
        self._stack.setCurrentWidget(self._scroll)
        self.text.clear()


# What the panel shows where nothing is downloaded.


_TEXT_WIDTH = 620


class EmptyPage(QWidget):
    """Says that nothing was found, where it was looked for, and what one can do.

    Attributes:
        demo: Opens the demo model.
        add: Adds a folder.

    Signals:
        demo_requested: The demo model shall be opened.
        add_requested: A folder shall be added.
    """

    demo_requested = Signal()
    add_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        title = QLabel(self.tr("No downloaded models yet"), self)
        font = title.font()
        font.setPointSizeF(1.6 * font.pointSizeF())
        title.setFont(font)
        text = QLabel(
            self.tr(
                "The models that Ollama, Hugging Face, LM Studio and llama.cpp download are "
                "listed here as soon as there are any. Do you keep models elsewhere? Add that "
                "folder. Or look around in a small demo model that this program makes itself."
            ),
            self,
        )
        text.setWordWrap(True)
        text.setFixedWidth(_TEXT_WIDTH)
        text.setMinimumHeight(text.heightForWidth(_TEXT_WIDTH))
        text.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.MinimumExpanding)
        self.demo = QPushButton(self.tr("Open the &demo model"), self)
        self.demo.setDefault(True)
        self.demo.clicked.connect(self.demo_requested)
        self.add = QPushButton(self.tr("&Add a folder…"), self)
        self.add.clicked.connect(self.add_requested)
        buttons = QHBoxLayout()
        buttons.addStretch(1)
        buttons.addWidget(self.demo)
        buttons.addWidget(self.add)
        buttons.addStretch(1)
        layout = QVBoxLayout(self)
        layout.setSpacing(18)
        layout.addStretch(2)
        for label in (title, text):
            label.setTextFormat(Qt.TextFormat.PlainText)
            label.setAlignment(Qt.AlignmentFlag.AlignCenter)
            layout.addWidget(label, 0, Qt.AlignmentFlag.AlignHCenter)
        layout.addLayout(buttons)
        layout.addStretch(3)


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
