"""The panel of the whole model: a map by layer and role, the worst tensors, the mix of types."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QWidget

from explorer.qt.document import Document
from explorer.qt.jobs import JobRunner
from explorer.qt.references import References
from explorer.qt.survey.session import SurveySession
from explorer.qt.widgets.lazy import LatePanel

if TYPE_CHECKING:
    from explorer.qt.survey.body import SurveyBody


class SurveyView(LatePanel["SurveyBody"]):
    """All tensors of the current model.

    Attributes:
        session: What is known, and the survey.

    Signals:
        tensor_chosen: A tensor was chosen; its content row in the tensor table.
        tensor_opened: More of a tensor shall be seen; its content row.
    """

    tensor_chosen = Signal(int)
    tensor_opened = Signal(int)

    def __init__(
        self, runner: JobRunner, references: References, parent: QWidget | None = None
    ) -> None:
        super().__init__(runner, "explorer.qt.survey.body", parent)
        self._row = -1
        self.session = SurveySession(runner, references, self)
        self.session.failed.connect(self.failed)
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
        if self.shown_body is not None:
            self.shown_body.focus_search()

    def _refresh(self) -> None:
        document = self._document
        if document is None:
            self._tell(self.tr("Survey"), self.tr("Open a model to see all of its tensors."))
        elif not len(document.arrays):
            self._tell(self.tr("Survey"), self.tr("This file holds no tensors."))
        else:
            body = self._need_body()
            if body is not None:
                self._show_body(body)

    def _make_body(self, module: ModuleType) -> SurveyBody:
        body: SurveyBody = module.SurveyBody(self._runner, self.session, self)
        body.tensor_chosen.connect(self._choose)
        body.tensor_opened.connect(self.tensor_opened)
        body.exported.connect(self.exported)
        body.failed.connect(self.failed)
        body.open_requested.connect(self.open_requested)
        body.select_tensor(self._row)
        return body

    def _choose(self, row: int) -> None:
        self._row = row
        self.tensor_chosen.emit(row)

    # Qt

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.session.want(True)

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self.session.want(False)
