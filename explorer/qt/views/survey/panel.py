"""The panel of the whole model: a map by layer and role, the worst tensors, the mix of types.

Light to import: what needs pyqtgraph is made when the panel first comes into sight with something
to show.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QStackedLayout, QWidget

from explorer.errors import ExplorerError
from explorer.qt.jobs import JobRunner
from explorer.qt.models.document import Document
from explorer.qt.models.errors.references import References
from explorer.qt.views.late_body import LateBody
from explorer.qt.views.state_page import StatePage
from explorer.qt.views.survey.session import SurveySession

if TYPE_CHECKING:
    from explorer.qt.views.survey.body import SurveyBody


class SurveyView(QWidget):
    """All tensors of the current model.

    Attributes:
        session: What is known, and the survey.
        body: What is shown of the model; None until it is first needed.
        state: What stands there while there is nothing to show.

    Signals:
        tensor_chosen: A tensor was chosen; its content row in the tensor table.
        tensor_opened: More of a tensor shall be seen; its content row.
        exported: A file was written; its path.
        failed: Something cannot be done; an `ExplorerError`.
        open_requested: A model shall be opened, to compare with.
    """

    tensor_chosen = Signal(int)
    tensor_opened = Signal(int)
    exported = Signal(str)
    failed = Signal(object)
    open_requested = Signal()

    def __init__(
        self, runner: JobRunner, references: References, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._runner = runner
        self._document: Document | None = None
        self._row = -1
        self.session = SurveySession(runner, references, self)
        self.session.failed.connect(self.failed)
        self.body: SurveyBody | None = None
        self.state = StatePage(self)
        self.state.pressed.connect(self._refresh)
        self._stack = QStackedLayout(self)
        self._stack.addWidget(self.state)
        self._late = LateBody(runner, "explorer.qt.views.survey.body", self)
        self._late.loaded.connect(self._add_body)
        self._late.due.connect(self._refresh)
        self._late.failed.connect(self._fail)
        self._late.cancelled.connect(self._tell_cancelled)
        self._refresh()

    def show_document(self, document: Document | None) -> None:
        """Show a model; None shows nothing."""
        if document is not self._document:
            self._document = document
            self.select_tensor(-1)
            self.session.show_document(document)
            self._refresh()

    def select_tensor(self, row: int) -> None:
        """Mark a tensor; -1 marks none. Emits nothing."""
        self._row = row
        if self.body is not None:
            self.body.select_tensor(row)

    def focus_search(self) -> None:
        """Put the cursor into the search."""
        if self.body is not None and self._stack.currentWidget() is self.body:
            self.body.focus_search()

    def _refresh(self) -> None:
        """Show the model, or say why there is nothing to show."""
        document = self._document
        if document is None:
            self._tell(self.tr("Survey"), self.tr("Open a model to see all of its tensors."))
        elif not len(document.arrays):
            self._tell(self.tr("Survey"), self.tr("This file holds no tensors."))
        elif self.body is not None:
            self._stack.setCurrentWidget(self.body)
        else:
            self._tell(self.tr("Preparing the map…"), "")
            if self.isVisible():
                self._late.load()

    def _tell_cancelled(self) -> None:
        sentence = self.tr("Preparing it was cancelled.")
        self._tell(self.tr("There is no map"), sentence, self.tr("Try again"))

    def _add_body(self, module: ModuleType) -> None:
        body: SurveyBody = module.SurveyBody(self._runner, self.session, self)
        self._stack.addWidget(body)
        body.tensor_chosen.connect(self._choose)
        body.tensor_opened.connect(self.tensor_opened)
        body.exported.connect(self.exported)
        body.failed.connect(self.failed)
        body.open_requested.connect(self.open_requested)
        body.select_tensor(self._row)
        self.body = body

    def _choose(self, row: int) -> None:
        self._row = row
        self.tensor_chosen.emit(row)

    def _fail(self, error: ExplorerError) -> None:
        self._tell(self.tr("There is no map"), str(error), self.tr("Try again"))

    def _tell(self, heading: str, sentence: str, button: str = "") -> None:
        self.state.tell(heading, sentence, button)
        self._stack.setCurrentWidget(self.state)

    # Qt

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.session.want(True)
        if self.body is None and self._document is not None:
            self._late.call_soon()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self.session.want(False)
        self._late.forget()
