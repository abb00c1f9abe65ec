"""What the current row is, or the text that it holds."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QScrollArea, QStackedWidget, QVBoxLayout, QWidget

from explorer.errors import ExplorerError
from explorer.formats import Severity
from explorer.present.explanations import picture_text
from explorer.qt.jobs import JobRunner
from explorer.qt.models.library.blob_table import StoredFile
from explorer.qt.models.library.facts import blob_facts, facts_of, heading_of
from explorer.qt.models.library.node import Node
from explorer.qt.models.library.rows import mark, title_of
from explorer.qt.models.library.texts import read_text
from explorer.qt.views.elided_label import ElidedLabel
from explorer.qt.views.labels import plain_label
from explorer.qt.views.progress.job_slot import JobSlot
from explorer.qt.views.text_view import TextView
from explorer.text import plain_text


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
