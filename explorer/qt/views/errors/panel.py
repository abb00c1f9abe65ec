"""The panel of errors: what a tensor lost against a reference.

Light to import: what needs pyqtgraph is made when the panel first comes into sight with something
to show.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from PySide6.QtCore import Signal
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QStackedWidget, QVBoxLayout, QWidget

from explorer.display import integer_text, plain_text, shape_text
from explorer.errors import ExplorerError
from explorer.qt.jobs import JobRunner, reconsider
from explorer.qt.models.document import Document
from explorer.qt.models.errors.references import References, Rounding
from explorer.qt.models.recent import Recent
from explorer.qt.models.weights.figures import unsupported_reason
from explorer.qt.views.errors.reference_bar import ReferenceBar
from explorer.qt.views.late_body import LateBody
from explorer.qt.views.state_page import StatePage

if TYPE_CHECKING:
    from explorer.qt.models.errors.gathering import PairSubject
    from explorer.qt.models.planner.inputs import PlanInputs
    from explorer.qt.views.errors.body import ErrorsBody

_MOST_RECENT = 16  # results of a model: at most 8 MiB, usually far less


class ErrorsView(QWidget):
    """Errors of the tensor that is selected. Reads only while it is visible.

    Attributes:
        bar: Chooses what it is compared with.
        state: What stands there while there is nothing to show.
        body: What is shown of a tensor; None until it is first needed.
        plan_inputs: Returns what the planner plans for, for a model; None for something usual.

    Signals:
        exported: A file was written; its path.
        failed: Something cannot be done; an `ExplorerError`.
        open_requested: A model shall be opened, to compare with.
    """

    exported = Signal(str)
    failed = Signal(object)
    open_requested = Signal()

    def __init__(
        self, runner: JobRunner, references: References, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._runner = runner
        self._references = references
        self._document: Document | None = None
        self._rows: tuple[int, ...] = ()
        self.plan_inputs: Callable[[Document], PlanInputs | None] = lambda _document: None
        self._recent: WeakKeyDictionary[Document, Recent] = WeakKeyDictionary()
        self.body: ErrorsBody | None = None
        self.bar = ReferenceBar(references, self)
        self.bar.open_requested.connect(self.open_requested)
        self.state = StatePage(self)
        self.state.pressed.connect(self._refresh)
        self._stack = QStackedWidget(self)
        self._stack.addWidget(self.state)
        self._late = LateBody(runner, "explorer.qt.views.errors.body", self)
        self._late.loaded.connect(self._add_body)
        self._late.due.connect(self._refresh)
        self._late.failed.connect(self._fail)
        self._late.cancelled.connect(self._tell_cancelled)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        self.bar.setContentsMargins(8, 6, 8, 2)
        layout.addWidget(self.bar)
        layout.addWidget(self._stack, 1)
        references.changed.connect(self._refresh)
        references.documents_changed.connect(self._forget)
        self._refresh()

    def show_document(self, document: Document | None) -> None:
        """Show a model, of which no tensor is selected yet; None shows nothing."""
        if document is not self._document:
            self._document = document
            self._rows = ()
            reconsider()  # the model before may have been closed
            self._refresh()

    def show_tensors(self, rows: Sequence[int]) -> None:
        """Show the errors of tensors; content rows, the one that matters most first."""
        if tuple(rows) != self._rows:
            self._rows = tuple(rows)
            self._refresh()

    def focus_search(self) -> None:
        """Put the cursor into the choice of a reference."""
        self.bar.list.setFocus()

    def _list_references(self) -> None:
        """Show what the tensor can be compared with."""
        self.focus_search()
        self.bar.list.showPopup()

    def _refresh(self) -> None:
        """Show what is selected, or say why it cannot be shown."""
        document = self._document
        if document is None:
            self._tell(self.tr("Errors"), self.tr("Open a model to see what it lost."))
        elif not self._rows:
            self._tell(
                self.tr("Select a tensor"),
                self.tr("Choose one in the tree or in the tensor table to see what it lost."),
            )
        elif self.isVisible() or self.body is not None:
            self._show_row(document)
        else:
            self._tell(self.tr("Preparing the plots…"), "")

    def _show_row(self, document: Document) -> None:
        tensor = document.model.tensors.rows[self._rows[0]]
        reason = unsupported_reason(tensor)
        if reason is not None:
            heading = self.tr("Type {type}").format(type=tensor.type.name)
            self._tell(heading, f"{plain_text(tensor.name)}: {reason}")
            return
        body = self.body
        if body is None:
            if not self._late.busy:
                self._tell(self.tr("Preparing the plots…"), "")
                self._late.load()
            return
        subject = self._subject(document)
        self._show_header(body, subject)
        self._stack.setCurrentWidget(body)
        body.show_subject(subject, self._recent.setdefault(document, Recent(_MOST_RECENT)))
        body.show_what_if(document, self._rows)

    def _subject(self, document: Document) -> PairSubject:
        from explorer.qt.models.errors.gathering import (  # noqa: PLC0415 - not for the first paint
            PairSubject,
        )

        row = self._rows[0]
        tensor = document.model.tensors.rows[row]
        partner = self._references.partner_of(row, tensor)
        return PairSubject(
            row,
            plain_text(tensor.name),
            tensor,
            self._reference_key,
            partner.pair,
            partner.reason,
            partner.waiting,
        )

    @property
    def _reference_key(self) -> Hashable:
        """What tells the reference from others, and does not keep a closed model."""
        chosen = self._references.chosen
        return chosen if chosen is None or isinstance(chosen, Rounding) else id(chosen)

    def _forget(self) -> None:
        """Forget what is known: a model that was closed may have been a reference."""
        self._recent.clear()

    def _show_header(self, body: ErrorsBody, subject: PairSubject) -> None:
        tensor, pair = subject.tensor, subject.pair
        types = tensor.type.name
        if pair is not None:
            types = self.tr("{candidate} against {reference}").format(
                candidate=pair.candidate_type, reference=pair.reference_type
            )
        facts = [
            types,
            shape_text(tensor.shape if pair is None else pair.shape),
            self.tr("{n} weights").format(
                n=integer_text(tensor.parameters if pair is None else pair.parameters)
            ),
        ]
        if len(self._rows) > 1:
            facts.append(
                self.tr("the first of {n} selected tensors").format(n=integer_text(len(self._rows)))
            )
        notes = []
        if pair is not None and pair.reference_name != pair.candidate_name:
            notes.append(
                self.tr("Compared: {candidate} with {reference}.").format(
                    candidate=pair.candidate_name, reference=pair.reference_name
                )
            )
        if pair is not None and pair.notes:
            notes.append(
                self.tr("For the comparison: {notes}.").format(notes="; ".join(pair.notes))
            )
        body.header.show_texts(tensor.name, "   ·   ".join(facts), " ".join(notes))

    def _add_body(self, module: ModuleType) -> None:
        body: ErrorsBody = module.ErrorsBody(self._runner, self._references, self)
        body.what_if.plan_inputs = self.plan_inputs
        self._stack.addWidget(body)
        body.exported.connect(self.exported)
        body.failed.connect(self.failed)
        body.reference_wanted.connect(self._list_references)
        self.body = body

    def _tell_cancelled(self) -> None:
        sentence = self.tr("Preparing them was cancelled.")
        self._tell(self.tr("There are no plots"), sentence, self.tr("Try again"))

    def _fail(self, error: ExplorerError) -> None:
        self._tell(self.tr("The plots could not be made"), str(error), self.tr("Try again"))

    def _tell(self, heading: str, sentence: str, button: str = "") -> None:
        if self.body is not None:
            self.body.show_subject(None, Recent(0))
            self.body.show_what_if(None)
        self.state.tell(heading, sentence, button)
        self._stack.setCurrentWidget(self.state)

    # Qt

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self.body is None and self._document is not None and self._rows:
            self._late.call_soon()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._late.forget()
