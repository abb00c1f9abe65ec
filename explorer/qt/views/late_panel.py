"""Panels whose content needs pyqtgraph.

Light to import and to make: the content is made when the panel first comes into sight with
something to show. Until then, and whenever there is nothing to show, a sentence stands there.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from PySide6.QtCore import Signal
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QStackedWidget, QVBoxLayout, QWidget

from explorer.qt.jobs import JobRunner, reconsider
from explorer.qt.models.document import Document
from explorer.qt.models.recent import Recent
from explorer.qt.models.weights.figures import unsupported_reason
from explorer.qt.views.late_body import LateBody
from explorer.qt.views.state_page import StatePage
from explorer.text import plain_text

Body = TypeVar("Body", bound=QWidget)


class LatePanel(QWidget, Generic[Body]):
    """A content that is made late, or a sentence in its place.

    Args:
        runner: Runs what the panel does in the background.
        module: Full name of the module of its content.
        parent: Owner of the panel.

    Attributes:
        body: The content; None until it is first needed.
        state: What stands there instead.

    Signals:
        exported: A file was written; its path.
        failed: Something cannot be done; an `ExplorerError`.
        open_requested: A model shall be opened, to compare with.
    """

    exported = Signal(str)
    failed = Signal(object)
    open_requested = Signal()

    def __init__(self, runner: JobRunner, module: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._runner = runner
        self._document: Document | None = None
        self.body: Body | None = None
        self.state = StatePage(self)
        self.state.pressed.connect(self._refresh)
        self._stack = QStackedWidget(self)
        self._stack.addWidget(self.state)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(0)
        self._column.addWidget(self._stack, 1)
        self._late = LateBody(runner, module, self, self._tell)
        self._late.loaded.connect(self._add_body)
        self._late.due.connect(self._refresh)

    @property
    def shown_body(self) -> Body | None:
        """The content, unless a sentence stands in its place."""
        return self.body if self._stack.currentWidget() is self.body else None

    # What a panel says for itself

    def _refresh(self) -> None:
        """Show what there is to show, or say why there is nothing."""
        raise NotImplementedError

    def _make_body(self, module: ModuleType) -> Body:
        """Make the content and connect it."""
        raise NotImplementedError

    def _empty_body(self, body: Body) -> None:
        """Have the content show nothing and read nothing: a sentence takes its place."""

    # What all of them do

    def _need_body(self) -> Body | None:
        """Return the content; None if it is not there yet, which is told."""
        if self.body is None:
            self._late.announce()
            if self.isVisible():
                self._late.load()
        return self.body

    def _add_body(self, module: ModuleType) -> None:
        body = self._make_body(module)
        self._stack.addWidget(body)
        self.body = body

    def _show_body(self, body: Body) -> None:
        self._stack.setCurrentWidget(body)

    def _tell(self, heading: str, sentence: str, button: str = "") -> None:
        """Say something in place of the content."""
        if self.body is not None:
            self._empty_body(self.body)
        self.state.tell(heading, sentence, button)
        self._stack.setCurrentWidget(self.state)

    # Qt

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self.body is None and self._document is not None:
            self._late.call_soon()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._late.forget()


class TensorPanel(LatePanel[Body]):
    """A panel of the tensors that are selected in the tensor table."""

    _MOST_RECENT = 16
    """Results of a model that are kept."""

    def __init__(self, runner: JobRunner, module: str, parent: QWidget | None = None) -> None:
        super().__init__(runner, module, parent)
        self._rows: tuple[int, ...] = ()
        self._recent: WeakKeyDictionary[Document, Recent] = WeakKeyDictionary()

    def show_document(self, document: Document | None) -> None:
        """Show a model, of which no tensor is selected yet; None shows nothing."""
        if document is not self._document:
            self._document = document
            self._rows = ()
            reconsider()  # the model before may have been closed
            self._refresh()

    def show_tensors(self, rows: Sequence[int]) -> None:
        """Show tensors of the model.

        Args:
            rows: Content rows of its tensor table, the one that matters most first.
        """
        if tuple(rows) != self._rows:
            self._rows = tuple(rows)
            self._refresh()

    # What a panel says for itself

    def _explain_empty(self) -> None:
        """Say what the panel shows once a model is open."""
        raise NotImplementedError

    def _explain_unselected(self) -> None:
        """Say what the panel shows once a tensor is selected."""
        raise NotImplementedError

    def _shown(self, document: Document) -> Sequence[int]:
        """Return the content rows of what is to be shown; at least one."""
        raise NotImplementedError

    def _fill(self, body: Body, document: Document, rows: Sequence[int]) -> None:
        """Show tensors."""
        raise NotImplementedError

    # What both do

    def _refresh(self) -> None:
        document = self._document
        if document is None:
            self._explain_empty()
            return
        if not self._rows:
            self._explain_unselected()
            return
        rows = self._shown(document)
        first = document.model.tensors.rows[rows[0]]
        reason = unsupported_reason(first) if len(rows) == 1 else None
        if reason is not None:
            heading = self.tr("Type {type}").format(type=first.type.name)
            self._tell(heading, f"{plain_text(first.name)}: {reason}")
            return
        body = self._need_body()
        if body is not None:
            self._fill(body, document, rows)

    def _recent_of(self, document: Document) -> Recent:
        """Return what is known of a model."""
        return self._recent.setdefault(document, Recent(self._MOST_RECENT))
