"""The panel of errors: what a tensor lost against a reference."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QWidget

from explorer.qt.document import Document, Recent
from explorer.qt.jobs import JobRunner
from explorer.qt.references import ReferenceBar, References, Rounding
from explorer.qt.widgets.lazy import TensorPanel
from explorer.text import integer_text, plain_text, shape_text

if TYPE_CHECKING:
    from explorer.planner.inputs import PlanInputs
    from explorer.qt.errors.body import ErrorsBody
    from explorer.qt.errors.work import PairSubject


class ErrorsView(TensorPanel["ErrorsBody"]):
    """Errors of the tensor that is selected. Reads only while it is visible.

    Attributes:
        bar: Chooses what it is compared with.
        plan_inputs: Returns what the planner plans for, for a model; None for something usual.
    """

    _MOST_RECENT = 16  # results of a model: at most 8 MiB, usually far less

    def __init__(
        self, runner: JobRunner, references: References, parent: QWidget | None = None
    ) -> None:
        super().__init__(runner, "explorer.qt.errors.body", parent)
        self._references = references
        self.plan_inputs: Callable[[Document], PlanInputs | None] = lambda _document: None
        self.bar = ReferenceBar(references, self)
        self.bar.open_requested.connect(self.open_requested)
        self.bar.setContentsMargins(8, 6, 8, 2)
        self._column.insertWidget(0, self.bar)
        references.changed.connect(self._refresh)
        references.documents_changed.connect(self._forget)
        self._refresh()

    def focus_search(self) -> None:
        """Put the cursor into the choice of a reference."""
        self.bar.list.setFocus()

    def _list_references(self) -> None:
        """Show what the tensor can be compared with."""
        self.focus_search()
        self.bar.list.showPopup()

    def _forget(self) -> None:
        """Forget what is known: a model that was closed may have been a reference."""
        self._recent.clear()

    # What the panel says for itself

    def _explain_empty(self) -> None:
        self._tell(self.tr("Errors"), self.tr("Open a model to see what it lost."))

    def _explain_unselected(self) -> None:
        self._tell(
            self.tr("Select a tensor"),
            self.tr("Choose one in the tree or in the tensor table to see what it lost."),
        )

    def _shown(self, document: Document) -> Sequence[int]:
        return self._rows[:1]

    def _fill(self, body: ErrorsBody, document: Document, rows: Sequence[int]) -> None:
        subject = self._subject(document, rows[0])
        self._show_header(body, subject)
        self._show_body(body)
        body.show_subject(subject, self._recent_of(document))
        body.show_what_if(document, self._rows)

    def _make_body(self, module: ModuleType) -> ErrorsBody:
        body: ErrorsBody = module.ErrorsBody(self._runner, self._references, self)
        body.plan_inputs = self.plan_inputs
        body.exported.connect(self.exported)
        body.failed.connect(self.failed)
        body.reference_wanted.connect(self._list_references)
        return body

    def _empty_body(self, body: ErrorsBody) -> None:
        body.show_subject(None, Recent(0))
        body.show_what_if(None)

    def _subject(self, document: Document, row: int) -> PairSubject:
        from explorer.qt.errors.work import PairSubject  # noqa: PLC0415 - not for the first paint

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
