"""The panel's content while there is something to show. Made late: pyqtgraph is slow to load."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeySequence, QPalette, QShortcut
from PySide6.QtWidgets import QTabWidget, QVBoxLayout, QWidget

from explorer.qt.jobs import JobRunner
from explorer.qt.models.document import Document
from explorer.qt.models.errors.gathering import PairSubject
from explorer.qt.models.errors.references import References
from explorer.qt.models.recent import Recent
from explorer.qt.models.weights.figures import Subject
from explorer.qt.views.errors.implied_page import ImpliedPage
from explorer.qt.views.errors.picture_pages import PicturePages
from explorer.qt.views.errors.what_if.page import WhatIfPage
from explorer.qt.views.labels import plain_label
from explorer.qt.views.progress.progress_line import ProgressLine
from explorer.qt.views.weights.header import Header


class ErrorsBody(QWidget):
    """Header and pages.

    Attributes:
        header: What is shown.
        tabs: The pages. Those of pictures are there if something is chosen to compare with, that
            of what blocks imply if not, others always.
        pictures: The pages of weights, errors and density.
        implied: The page of what blocks imply.
        what_if: The page of what other types would cost.
        progress: How far the reading is.

    Signals:
        exported: A file was written; its path.
        failed: A file could not be written; an `ExplorerError`.
        reference_wanted: The user wants to choose what to compare with.
    """

    exported = Signal(str)
    failed = Signal(object)
    reference_wanted = Signal()

    def __init__(
        self, runner: JobRunner, references: References, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.header = Header(self)
        self.header.scope.hide()
        self.progress = ProgressLine(self)
        self.pictures = PicturePages(runner, self.progress, self)
        self.implied = ImpliedPage(runner, self)
        self.what_if = WhatIfPage(runner, references, self)
        self.tabs = QTabWidget(self)
        self.tabs.setDocumentMode(True)
        self.tabs.setAccessibleName(self.tr("Views of the error"))
        self.tabs.tabBar().setAccessibleName(self.tr("Views of the error"))
        for page, title in (
            (self.implied, self.tr("Rounding")),
            (self.pictures.weights, self.tr("Weights")),
            (self.pictures.errors, self.tr("Error")),
            (self.pictures.density, self.tr("Density")),
            (self.what_if, self.tr("What if")),
        ):
            self.tabs.addTab(page, title)
        warning = plain_label(
            self,
            self.tr(
                "Weight error ranks tensors of one role. It does not by itself predict the "
                "quality of a model's answers."
            ),
        )
        warning.setForegroundRole(QPalette.ColorRole.PlaceholderText)
        warning.setWordWrap(True)
        warning.setContentsMargins(8, 0, 8, 4)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.header)
        layout.addWidget(self.tabs, 1)
        layout.addWidget(self.progress)
        layout.addWidget(warning)
        cancel = QShortcut(QKeySequence(Qt.Key.Key_Escape), self)
        cancel.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        cancel.activated.connect(self.cancel)
        self.tabs.currentChanged.connect(self._show_progress)
        self.implied.reference_wanted.connect(self.reference_wanted)
        for part in (self.pictures, self.implied, self.what_if):
            part.exported.connect(self.exported)
            part.failed.connect(self.failed)

    def show_subject(self, subject: PairSubject | None, recent: Recent) -> None:
        """Show another tensor; None ends all reading.

        Args:
            subject: The tensor.
            recent: What is known of its model.
        """
        chosen = subject is not None and subject.reference is not None
        self._offer(chosen)
        self.pictures.show_subject(subject if chosen else None, recent)
        alone = None
        if subject is not None and not chosen:
            alone = Subject(subject.row, subject.name, subject.tensor)
        self.implied.show_subject(alone, recent)

    def show_what_if(self, document: Document | None, rows: Sequence[int] = ()) -> None:
        """Try other types of tensors, given by row; None ends all reading."""
        self.what_if.show_subject(document, rows)

    def cancel(self) -> None:
        """Stop reading; what is known stays."""
        self.pictures.cancel()
        self.implied.cancel()
        self.what_if.cancel()

    def _show_progress(self) -> None:
        """Show the common line of progress, unless the page has one of its own."""
        self.progress.setVisible(self.tabs.currentWidget() is not self.what_if)

    def _offer(self, chosen: bool) -> None:
        """Show the tabs that there is something to see on."""
        pages: dict[QWidget, bool] = {self.implied: not chosen}
        pages |= dict.fromkeys(self.pictures.pages, chosen)
        before = self.tabs.currentWidget()
        for page, on in pages.items():
            self.tabs.setTabVisible(self.tabs.indexOf(page), on)
        if not pages.get(before, True):
            self.tabs.setCurrentWidget(self.pictures.weights if chosen else self.implied)
