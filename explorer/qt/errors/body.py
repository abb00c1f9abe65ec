"""The panel's content while there is something to show. Made late: pyqtgraph is slow to load."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from explorer.qt.document import Document, Recent
from explorer.qt.errors.pages import ImpliedPage, PicturePages
from explorer.qt.errors.work import PairSubject
from explorer.qt.jobs import JobRunner
from explorer.qt.references import References
from explorer.qt.weights.body import Header
from explorer.qt.weights.curves import Subject
from explorer.qt.widgets.labels import error_caution
from explorer.qt.widgets.lazy import LateView
from explorer.qt.widgets.pages import TabbedBody
from explorer.qt.widgets.progress import ProgressLine

if TYPE_CHECKING:
    from explorer.planner.inputs import PlanInputs
    from explorer.qt.what_if.page import WhatIfPage


class ErrorsBody(TabbedBody):
    """Header and pages.

    Those of pictures are there if something is chosen to compare with, that of what blocks imply if
    not, that of what-ifs always; it is made when it is first looked at.

    Attributes:
        header: What is shown.
        pictures: The pages of weights, errors and density.
        implied: The page of what blocks imply.
        progress: How far the reading is.
        plan_inputs: Returns what the planner plans for, for a model; None for something usual.

    Signals:
        reference_wanted: The user wants to choose what to compare with.
    """

    reference_wanted = Signal()

    def __init__(
        self, runner: JobRunner, references: References, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._runner = runner
        self._references = references
        self._document: Document | None = None
        self._rows: Sequence[int] = ()
        self.plan_inputs: Callable[[Document], PlanInputs | None] = lambda _document: None
        self.header = Header(self)
        self.header.scope.hide()
        self.begin_tabs(self.tr("Views of the error"), self.header)
        self.progress = ProgressLine(self)
        self.pictures = PicturePages(runner, self.progress, self)
        self.implied = ImpliedPage(runner, self)
        module = "explorer.qt.what_if.page"
        self._what_if = LateView(runner, module, self._make_what_if, self._fill_what_if, self)
        for page, title in (
            (self.implied, self.tr("Rounding")),
            (self.pictures.weights, self.tr("Weights")),
            (self.pictures.errors, self.tr("Error")),
            (self.pictures.density, self.tr("Density")),
            (self._what_if, self.tr("What if")),
        ):
            self.tabs.addTab(page, title)
        self.column.addWidget(self.progress)
        self.column.addWidget(error_caution(self))
        self.tabs.currentChanged.connect(self._show_progress)
        self.implied.reference_wanted.connect(self.reference_wanted)
        self.pass_on(self.pictures)
        self.pass_on(self.implied)

    @property
    def what_if(self) -> WhatIfPage:
        """The page of what other types would cost; it is made if nobody has looked at it."""
        return self._what_if.view

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
        self._document, self._rows = document, rows
        if self._what_if.existing is not None:
            self._what_if.existing.show_subject(document, rows)

    def cancel(self) -> None:
        self.pictures.cancel()
        self.implied.cancel()
        if self._what_if.existing is not None:
            self._what_if.existing.cancel()

    def _make_what_if(self, parent: QWidget) -> WhatIfPage:
        from explorer.qt.what_if.page import WhatIfPage  # noqa: PLC0415 - see LateView

        return WhatIfPage(self._runner, self._references, parent)

    def _fill_what_if(self, page: WhatIfPage) -> None:
        page.plan_inputs = self.plan_inputs
        self.pass_on(page)
        page.show_subject(self._document, self._rows)

    def _show_progress(self) -> None:
        """Show the common line of progress, unless the page has one of its own."""
        self.progress.setVisible(self.tabs.currentWidget() is not self._what_if)

    def _offer(self, chosen: bool) -> None:
        """Show the tabs that there is something to see on."""
        pages: dict[QWidget, bool] = {self.implied: not chosen}
        pages |= dict.fromkeys(self.pictures.pages, chosen)
        before = self.tabs.currentWidget()
        for page, on in pages.items():
            self.offer_page(page, on)
        if not pages.get(before, True):
            self.show_page(self.pictures.weights if chosen else self.implied)
