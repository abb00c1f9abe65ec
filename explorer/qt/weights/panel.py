"""The weights panel: what the weights of a tensor, or of several, are like."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QByteArray, QEvent, Signal
from PySide6.QtWidgets import QWidget

from explorer.errors import ExplorerError
from explorer.formats.tensors import Tensor
from explorer.qt.document import Document, Recent
from explorer.qt.jobs import JobRunner
from explorer.qt.references import References
from explorer.qt.weights.curves import HistogramChoices, Scope, Subject, unsupported_reason
from explorer.qt.weights.work import same_role, sibling_factors, spread
from explorer.qt.widgets.lazy import TensorPanel
from explorer.text import bytes_text, integer_text, plain_text, shape_text

if TYPE_CHECKING:
    from explorer.qt.weights.body import WeightsBody


_MOST_OFFERED: Final = 1000  # tensors among which one chooses that of the pages of one tensor


class WeightsView(TensorPanel["WeightsBody"]):
    """Histograms, statistics, codes, scales and values. Reads only while it is visible.

    Signals:
        tensor_chosen: One of several tensors was opened; its content row in the tensor table.
        bytes_requested: Bytes shall be shown in their file; row of the tensor, and an `Extent`.
    """

    tensor_chosen = Signal(int)
    bytes_requested = Signal(int, object)

    _MOST_RECENT = 256  # results of a model: at most 32 MiB, usually far less

    def __init__(
        self, runner: JobRunner, references: References, parent: QWidget | None = None
    ) -> None:
        super().__init__(runner, "explorer.qt.weights.body", parent)
        self._references = references
        self._choices = HistogramChoices()
        self._splitter = QByteArray()
        self._refresh()

    def show_document(self, document: Document | None) -> None:
        if document is not None and document is not self._document:
            self._runner.ask_for_kernels(share.name for share in document.facts.types)
        super().show_document(document)

    def show_tensors(self, rows: Sequence[int]) -> None:
        if self.body is not None and tuple(rows) != self._rows:
            header = self.body.header
            if len(rows) > 1:
                header.choose(Scope.SELECTED)
            elif header.chosen is Scope.SELECTED:
                header.choose(Scope.ONE)
        super().show_tensors(rows)

    def focus_search(self) -> None:
        """Put the cursor into the line that finds a value by its row and column."""
        if self.shown_body is not None:
            self.shown_body.focus_search()

    @property
    def choices(self) -> HistogramChoices:
        """How the user likes histograms."""
        return self._choices if self.body is None else self.body.histogram.controls.choices()

    @choices.setter
    def choices(self, choices: HistogramChoices) -> None:
        self._choices = choices
        if self.body is not None:
            self.body.histogram.controls.set_choices(choices)

    @property
    def splitter_state(self) -> QByteArray:
        """How wide plot and table are; empty if nobody knows yet."""
        return self._splitter if self.body is None else self.body.histogram.splitter_state()

    @splitter_state.setter
    def splitter_state(self, state: QByteArray) -> None:
        self._splitter = state
        if self.body is not None:
            self.body.histogram.restore_splitter(state)

    @property
    def shown_rows(self) -> tuple[int, ...]:
        """Content rows of the tensors that are shown together."""
        document = self._document
        return () if document is None or not self._rows else tuple(self._shown(document))

    # What the panel says for itself

    def _explain_empty(self) -> None:
        self._tell(self.tr("Weights"), self.tr("Open a model to see its weights."))

    def _explain_unselected(self) -> None:
        self._tell(
            self.tr("Select a tensor"),
            self.tr("Choose one in the tree or in the tensor table to see its weights."),
        )

    def _shown(self, document: Document) -> Sequence[int]:
        return spread(self._wanted(document))

    def _wanted(self, document: Document) -> Sequence[int]:
        """Return the content rows of all tensors of the chosen scope."""
        scope = Scope.SELECTED if self.body is None else self.body.header.chosen
        if scope is Scope.SAME_ROLE:
            return same_role(document, self._rows[0])
        return self._rows if scope is Scope.SELECTED else self._rows[:1]

    def _fill(self, body: WeightsBody, document: Document, rows: Sequence[int]) -> None:
        wanted = self._wanted(document)
        subjects = _subjects(document, rows)
        offered = [
            subject
            for subject in _subjects(document, spread(wanted, _MOST_OFFERED))
            if unsupported_reason(subject.tensor) is None
        ]
        note = self._factor_note(document, rows[0])
        self._show_header(body, [subject.tensor for subject in subjects], len(wanted), note)
        self._show_body(body)
        body.show_subjects(subjects, self._recent_of(document), offered, self._rows[0])

    def _need_body(self) -> WeightsBody | None:
        if self.body is None and self.isVisible() and self._document is not None:
            tensors = self._document.model.tensors.rows
            types = {tensors[row].type.name for row in self._shown(self._document)}
            self._runner.ask_for_kernels(types, soon=True)  # while the content is loaded
        return super()._need_body()

    def _make_body(self, module: ModuleType) -> WeightsBody:
        body: WeightsBody = module.WeightsBody(self._runner, self._references, self)
        body.histogram.controls.set_choices(self._choices)
        if not self._splitter.isEmpty():
            body.histogram.restore_splitter(self._splitter)
        body.header.scope_chosen.connect(self._refresh)
        body.histogram.unreadable.connect(self._tell_unreadable)
        body.histogram.opened.connect(self.tensor_chosen)
        body.exported.connect(self.exported)
        body.failed.connect(self.failed)
        body.open_requested.connect(self.open_requested)
        body.bytes_requested.connect(self.bytes_requested)
        if len(self._rows) > 1:
            body.header.choose(Scope.SELECTED)
        return body

    def _empty_body(self, body: WeightsBody) -> None:
        body.show_subjects((), Recent(0))

    def _show_header(
        self, body: WeightsBody, tensors: Sequence[Tensor], found: int, note: str
    ) -> None:
        if len(tensors) == 1:
            tensor = tensors[0]
            facts = "   ·   ".join(
                (
                    tensor.type.name,
                    shape_text(tensor.shape),
                    self.tr("{n} weights").format(n=integer_text(tensor.parameters)),
                    bytes_text(tensor.nbytes),
                )
            )
            body.header.show_texts(tensor.name, facts, note)
            return
        if found > len(tensors):
            facts = self.tr("{shown} of {all} tensors are shown, spread evenly").format(
                shown=len(tensors), all=integer_text(found)
            )
        else:
            facts = self.tr("{n} tensors").format(n=len(tensors))
        types = sorted({tensor.type.name for tensor in tensors})
        weights = sum(tensor.parameters for tensor in tensors)
        facts += "   ·   " + self.tr("{n} weights").format(n=integer_text(weights))
        facts += f"   ·   {', '.join(types[:4])}{', …' if len(types) > 4 else ''}"
        names = f"{tensors[0].name} … {tensors[-1].name}"
        body.header.show_texts(names, facts, note)

    def _factor_note(self, document: Document, row: int) -> str:
        factors = sibling_factors(document, row)
        if not factors:
            return ""
        names = self.tr(" and ").join(plain_text(name) for name in factors)
        return self.tr(
            "The figures are of the stored weights: the factor in {names} is not applied to them."
        ).format(names=names)

    def _tell_unreadable(self, error: ExplorerError) -> None:
        self._tell(self.tr("The weights could not be read"), str(error), self.tr("Try again"))

    # Qt

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.LocaleChange:
            self._refresh()


def _subjects(document: Document, rows: Sequence[int]) -> list[Subject]:
    tensors = document.model.tensors.rows
    return [Subject(row, plain_text(tensors[row].name), tensors[row]) for row in rows]
