"""The weights panel: what the weights of a tensor, or of several, are like.

Light to import: what needs pyqtgraph is made when the panel first comes into sight with something
to show.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from PySide6.QtCore import QByteArray, QEvent, Signal
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QStackedLayout, QWidget

from explorer.display import bytes_text, integer_text, plain_text, shape_text
from explorer.errors import ExplorerError
from explorer.formats.tensors import Tensor
from explorer.qt.jobs import JobRunner, reconsider
from explorer.qt.models.document import Document
from explorer.qt.models.errors.references import References
from explorer.qt.models.recent import Recent
from explorer.qt.models.weights.figures import Subject, is_quantized, unsupported_reason
from explorer.qt.models.weights.histogram_choices import HistogramChoices
from explorer.qt.models.weights.tensor_scope import same_role, sibling_factors, spread
from explorer.qt.views.late_body import LateBody
from explorer.qt.views.state_page import StatePage
from explorer.qt.views.weights.header import Scope

if TYPE_CHECKING:
    from explorer.qt.views.weights.body import WeightsBody

_MOST_RECENT = 256  # results of a model: at most 32 MiB, usually far less


class WeightsView(QWidget):
    """Histograms, statistics, codes, scales and values. Reads only while it is visible.

    Attributes:
        body: What is shown of tensors; None until it is first needed.
        state: What stands there instead.

    Signals:
        tensor_chosen: One of several tensors was opened; its content row in the tensor table.
        exported: A file was written; its path.
        failed: A file could not be written; an `ExplorerError`.
        open_requested: A model shall be opened, to compare with.
        bytes_requested: Bytes shall be shown in their file; row of the tensor, and an `Extent`.
    """

    tensor_chosen = Signal(int)
    exported = Signal(str)
    failed = Signal(object)
    open_requested = Signal()
    bytes_requested = Signal(int, object)

    def __init__(
        self, runner: JobRunner, references: References, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._runner = runner
        self._references = references
        self._document: Document | None = None
        self._rows: tuple[int, ...] = ()
        self._choices = HistogramChoices()
        self._splitter = QByteArray()
        self._recent: WeakKeyDictionary[Document, Recent] = WeakKeyDictionary()
        self.body: WeightsBody | None = None
        self.state = StatePage(self)
        self.state.pressed.connect(self._refresh)
        self._stack = QStackedLayout(self)
        self._stack.addWidget(self.state)
        self._late = LateBody(runner, "explorer.qt.views.weights.body", self)
        self._late.loaded.connect(self._add_body)
        self._late.due.connect(self._refresh)
        self._late.failed.connect(self._fail)
        self._late.cancelled.connect(self._tell_cancelled)
        self._refresh()

    def show_document(self, document: Document | None) -> None:
        """Show a model, of which no tensor is selected yet; None shows nothing."""
        if document is not self._document:
            self._document = document
            self._rows = ()
            reconsider()  # the model before may have been closed
            if document is not None:
                self._runner.ask_for_kernels(share.name for share in document.facts.types)
            self._refresh()

    def show_tensors(self, rows: Sequence[int]) -> None:
        """Show tensors of the model.

        Args:
            rows: Content rows of its tensor table, the one that matters most first.
        """
        wanted = tuple(rows)
        if wanted == self._rows:
            return
        self._rows = wanted
        body = self.body
        if body is not None:
            scope = body.header.chosen
            if len(wanted) > 1:
                body.header.choose(Scope.SELECTED)
            elif scope is Scope.SELECTED:
                body.header.choose(Scope.ONE)
        self._refresh()

    def focus_search(self) -> None:
        """Put the cursor into the line that finds a value by its row and column."""
        if self.body is not None and self._stack.currentWidget() is self.body:
            self.body.focus_search()

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
        if document is None or not self._rows:
            return ()
        scope = Scope.ONE if self.body is None else self.body.header.chosen
        if self.body is None and len(self._rows) > 1:
            scope = Scope.SELECTED
        if scope is Scope.SAME_ROLE:
            return tuple(spread(same_role(document, self._rows[0])))
        return tuple(spread(self._rows)) if scope is Scope.SELECTED else self._rows[:1]

    def _refresh(self) -> None:
        """Show what is selected, or say why it cannot be shown."""
        document = self._document
        if document is None:
            self._tell(self.tr("Weights"), self.tr("Open a model to see its weights."))
        elif not self._rows:
            self._tell(
                self.tr("Select a tensor"),
                self.tr("Choose one in the tree or in the tensor table to see its weights."),
            )
        elif self.isVisible() or self.body is not None:
            self._show_rows(document)
        else:
            self._tell(self.tr("Preparing the plots…"), "")

    def _show_rows(self, document: Document) -> None:
        rows = self.shown_rows
        tensors = [document.model.tensors.rows[row] for row in rows]
        reason = unsupported_reason(tensors[0]) if len(tensors) == 1 else None
        if reason is not None:
            heading = self.tr("Type {type}").format(type=tensors[0].type.name)
            self._tell(heading, f"{plain_text(tensors[0].name)}: {reason}")
            return
        body = self.body
        if body is None:
            if not self._late.busy:
                self._tell(self.tr("Preparing the plots…"), "")
                self._late.load()
            return
        self._show_header(document, tensors)
        subjects = [
            Subject(row, plain_text(tensor.name), tensor)
            for row, tensor in zip(rows, tensors, strict=True)
        ]
        recent = self._recent.setdefault(document, Recent(_MOST_RECENT))
        self._stack.setCurrentWidget(body)
        body.show_subjects(subjects, recent, quantized=is_quantized(tensors[0]))

    def _tell_cancelled(self) -> None:
        sentence = self.tr("Preparing them was cancelled.")
        self._tell(self.tr("There are no plots"), sentence, self.tr("Try again"))

    def _add_body(self, module: ModuleType) -> None:
        body: WeightsBody = module.WeightsBody(self._runner, self._references, self)
        self._stack.addWidget(body)
        body.histogram.controls.set_choices(self._choices)
        if not self._splitter.isEmpty():
            body.histogram.restore_splitter(self._splitter)
        body.header.scope_chosen.connect(self._refresh)
        body.histogram.unreadable.connect(self._fail)
        body.histogram.opened.connect(self.tensor_chosen)
        body.exported.connect(self.exported)
        body.failed.connect(self.failed)
        body.open_requested.connect(self.open_requested)
        body.bytes_requested.connect(self.bytes_requested)
        if len(self._rows) > 1:
            body.header.choose(Scope.SELECTED)
        self.body = body

    def _show_header(self, document: Document, tensors: Sequence[Tensor]) -> None:
        assert self.body is not None
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
            self.body.header.show_texts(tensor.name, facts, self._factor_note(document))
            return
        scope = self.body.header.chosen
        found = same_role(document, self._rows[0]) if scope is Scope.SAME_ROLE else self._rows
        if len(found) > len(tensors):
            facts = self.tr("{shown} of {all} tensors are shown, spread evenly").format(
                shown=len(tensors), all=integer_text(len(found))
            )
        else:
            facts = self.tr("{n} tensors").format(n=len(tensors))
        types = sorted({tensor.type.name for tensor in tensors})
        weights = sum(tensor.parameters for tensor in tensors)
        facts += "   ·   " + self.tr("{n} weights").format(n=integer_text(weights))
        facts += f"   ·   {', '.join(types[:4])}{', …' if len(types) > 4 else ''}"
        names = f"{tensors[0].name} … {tensors[-1].name}"
        self.body.header.show_texts(names, facts, self._factor_note(document))

    def _factor_note(self, document: Document) -> str:
        factors = [name for row in self.shown_rows[:1] for name in sibling_factors(document, row)]
        if not factors:
            return ""
        names = self.tr(" and ").join(plain_text(name) for name in factors)
        return self.tr(
            "The figures are of the stored weights: the factor in {names} is not applied to them."
        ).format(names=names)

    def _fail(self, error: ExplorerError) -> None:
        self._tell(self.tr("The weights could not be read"), str(error), self.tr("Try again"))

    def _tell(self, heading: str, sentence: str, button: str = "") -> None:
        if self.body is not None:
            self.body.show_subjects((), Recent(0), quantized=False)
        self.state.tell(heading, sentence, button)
        self._stack.setCurrentWidget(self.state)

    # Qt

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.LocaleChange:
            self._refresh()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self.body is None and self._document is not None and self._rows:
            self._late.call_soon()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._late.forget()
