"""The panel of errors: the selected tensor compared with a reference."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Final

from PySide6.QtWidgets import QWidget

from explorer.qt.document import Document, Recent
from explorer.qt.errors.pages import ImpliedPage, PicturePages
from explorer.qt.errors.work import SelectedPair
from explorer.qt.jobs import JobRunner
from explorer.qt.references import ReferenceBar, References, Rounding
from explorer.qt.weights.curves import SelectedTensor
from explorer.qt.weights.tensor_panel import Header, TensorPanel
from explorer.qt.widgets.labels import error_caution
from explorer.qt.widgets.lazy import LazyTab
from explorer.qt.widgets.progress import ProgressLine
from explorer.text import integer_text, plain_text, shape_text

if TYPE_CHECKING:
    from explorer.planner.inputs import PlanInputs
    from explorer.qt.what_if.page import WhatIfPage

_MOST_RESULTS: Final = 16  # of a model: at most 8 MiB, usually far less


class ErrorsView(TensorPanel):
    """Errors of the tensor that is selected. Reads only while it is visible.

    With a reference there are the pages of pictures, without one that of rounding, which blocks
    imply; that of what-ifs always.

    Attributes:
        bar: Chooses the reference.
        header: What is shown.
        pictures: The pages of weights, errors and density.
        implied: The page of what blocks imply.
        progress: Progress of the reading.
        plan_inputs: Returns what the planner plans for, for a model; None for defaults.
    """

    def __init__(
        self, runner: JobRunner, references: References, parent: QWidget | None = None
    ) -> None:
        super().__init__(runner, _MOST_RESULTS, parent)
        self._references = references
        self.plan_inputs: Callable[[Document], PlanInputs | None] = lambda _document: None
        self.bar = ReferenceBar(references, self)
        self.bar.open_requested.connect(self.open_requested)
        self.bar.setContentsMargins(8, 6, 8, 2)
        self.outer.insertWidget(0, self.bar)
        self.header = Header(self)
        self.header.scope.hide()
        self.begin_tabs(self.tr("Views of the error"), self.header)
        self.progress = ProgressLine(self)
        self.pictures = PicturePages(runner, self.progress, self)
        self.implied = ImpliedPage(runner, self)
        self._what_if = LazyTab(self._make_what_if, self._fill_what_if, self)
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
        self.implied.reference_wanted.connect(self._list_references)
        self.pass_on(self.pictures)
        self.pass_on(self.implied)
        references.changed.connect(self.refresh)
        references.documents_changed.connect(self._results.clear)  # one may be a closed reference
        self.refresh()

    @property
    def what_if(self) -> WhatIfPage:
        """The page of what other types would cost."""
        return self._what_if.widget

    def focus_search(self) -> None:
        """Put the cursor into the choice of a reference."""
        self.bar.list.setFocus()

    def cancel(self) -> None:
        self.pictures.cancel()
        self.implied.cancel()
        if self._what_if.isVisible():
            self.what_if.cancel()

    def _list_references(self) -> None:
        self.focus_search()
        self.bar.list.showPopup()

    def _make_what_if(self) -> WhatIfPage:
        from explorer.qt.what_if.page import WhatIfPage  # noqa: PLC0415 - see LazyTab

        page = WhatIfPage(self._runner, self._references, self)
        page.plan_inputs = self.plan_inputs
        self.pass_on(page)
        return page

    def _fill_what_if(self, page: WhatIfPage) -> None:
        page.show_subject(self._document if self._rows else None, self._rows)

    def _show_progress(self) -> None:
        """Show the common line of progress, unless the page has one of its own."""
        self.progress.setVisible(self.tabs.currentWidget() is not self._what_if)

    # What is shown

    def _explain_empty(self, opened: bool) -> None:
        if opened:
            sentence = self.tr("Choose one in the tree or in the tensor table to see its error.")
            self.show_state(self.tr("Select a tensor"), sentence)
        else:
            self.show_state(self.tr("Errors"), self.tr("Open a model to see its errors."))

    def _shown(self, document: Document) -> Sequence[int]:
        return self._rows[:1]

    def _fill(self, document: Document, rows: Sequence[int]) -> None:
        subject = self._pair(document, rows[0])
        self._show_header(subject)
        self.show_content()
        self._show_pair(subject, self._results_of(document))

    def _clear(self) -> None:
        self._show_pair(None, Recent(0))

    def _show_pair(self, subject: SelectedPair | None, recent: Recent) -> None:
        compared = subject is not None and subject.reference is not None
        self._offer(compared)
        self.pictures.show_subject(subject if compared else None, recent)
        alone = None
        if subject is not None and not compared:
            alone = SelectedTensor(subject.row, subject.name, subject.tensor)
        self.implied.show_subject(alone, recent)
        self._what_if.refresh()
        if subject is None:
            self._what_if.catch_up()  # the model may be closed

    def _offer(self, compared: bool) -> None:
        """Show the tabs that there is something to see on.

        The tab in front is hidden last: Qt would show the next one, and its page would start.
        """
        offered: list[QWidget] = list(self.pictures.pages) if compared else [self.implied]
        hidden: list[QWidget] = [self.implied] if compared else list(self.pictures.pages)
        for page in offered:
            self.offer_page(page, True)
        if self.tabs.currentWidget() in hidden:
            self.show_page(self.pictures.weights if compared else self.implied)
        for page in hidden:
            self.offer_page(page, False)

    def _pair(self, document: Document, row: int) -> SelectedPair:
        tensor = document.model.tensors.rows[row]
        partner = self._references.partner_of(row, tensor)
        chosen = self._references.chosen
        key: Hashable = chosen if chosen is None or isinstance(chosen, Rounding) else id(chosen)
        return SelectedPair(
            row,
            plain_text(tensor.name),
            tensor,
            key,  # does not keep a closed model
            partner.pair,
            partner.reason,
            partner.waiting,
        )

    def _show_header(self, subject: SelectedPair) -> None:
        tensor, pair = subject.tensor, subject.pair
        types, shape, weights, notes = tensor.type.name, tensor.shape, tensor.parameters, []
        if pair is not None:
            types = self.tr("{candidate} against {reference}").format(
                candidate=pair.candidate_type, reference=pair.reference_type
            )
            shape, weights = pair.shape, pair.parameters
            if pair.reference_name != pair.candidate_name:
                notes.append(
                    self.tr("Compared: {candidate} with {reference}.").format(
                        candidate=pair.candidate_name, reference=pair.reference_name
                    )
                )
            if pair.notes:
                notes.append(
                    self.tr("For the comparison: {notes}.").format(notes="; ".join(pair.notes))
                )
        facts = [types, shape_text(shape), self.tr("{n} weights").format(n=integer_text(weights))]
        if len(self._rows) > 1:
            count = integer_text(len(self._rows))
            facts.append(self.tr("the first of {n} selected tensors").format(n=count))
        self.header.show_texts(tensor.name, "   ·   ".join(facts), " ".join(notes))
