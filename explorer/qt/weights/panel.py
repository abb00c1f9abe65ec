"""The weights panel: histograms, statistics, blocks and values of the selected tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QByteArray, QEvent, Signal
from PySide6.QtWidgets import QWidget

from explorer.analysis.blocks import is_quantized
from explorer.formats.tensors import Tensor
from explorer.qt.document import Document, Recent
from explorer.qt.jobs import JobRunner
from explorer.qt.references import References
from explorer.qt.weights.blocks import BlockPages
from explorer.qt.weights.curves import HistogramChoices, Scope, SelectedTensor, unsupported_reason
from explorer.qt.weights.histogram import HistogramPage
from explorer.qt.weights.tensor_panel import Header, TensorPanel, TensorPicker
from explorer.qt.weights.work import same_role, sibling_factors, spread
from explorer.qt.widgets.lazy import LazyTab
from explorer.text import bytes_text, integer_text, plain_text, shape_text

if TYPE_CHECKING:
    from explorer.qt.weights.block.page import BlockPage
    from explorer.qt.weights.map.page import MapPage
    from explorer.qt.weights.values import Place, ValuesPage


_MOST_OFFERED: Final = 1000  # tensors in the picker
_MOST_RESULTS: Final = 256  # of a model: at most 32 MiB, usually far less


class WeightsView(TensorPanel):
    """The selected tensors, on pages. Reads only while it is visible.

    Attributes:
        header: What is shown.
        picker: Which of several tensors the pages of one tensor show.
        histogram: The page of the histogram.
        blocks: The pages of codes, scales and minima.

    Signals:
        tensor_chosen: One of several tensors was opened; its content row in the tensor table.
        place_chosen: A weight of the tensor was chosen on the map; its `Place`. Block and values
            follow.
        bytes_requested: Bytes shall be shown in their file; row of the tensor, and an `Extent`.
    """

    tensor_chosen = Signal(int)
    place_chosen = Signal(object)
    bytes_requested = Signal(int, object)

    def __init__(
        self, runner: JobRunner, references: References, parent: QWidget | None = None
    ) -> None:
        super().__init__(runner, _MOST_RESULTS, parent)
        self._references = references
        self._recent = Recent(0)
        self._subject: SelectedTensor | None = None  # of the pages of one tensor
        self._place: Place | None = None  # that was chosen in it
        self._named = False
        self.header = Header(self)
        self.picker = TensorPicker(self)
        self.header.add_beside_facts(self.picker)
        self.begin_tabs(self.tr("Views of the tensor"), self.header)
        self.histogram = HistogramPage(runner, self)
        self.blocks = BlockPages(runner, self)
        self._map = LazyTab(self._make_map, self._fill_map, self)
        self._block_page = LazyTab(self._make_block_page, self._fill_block_page, self)
        self._values = LazyTab(self._make_values, self._fill_values, self)
        self._add_pages()
        self.addActions([self.picker.back_action, self.picker.on_action])
        self._connect()
        self.refresh()

    def _add_pages(self) -> None:
        codes, scales, minima = self.blocks.pages
        for page, title in (
            (self.histogram, self.tr("Histogram")),
            (self._map, self.tr("Map")),
            (codes, self.tr("Codes")),
            (scales, self.tr("Scales")),
            (minima, self.tr("Minima")),
            (self._block_page, self.tr("Block")),
            (self._values, self.tr("Values")),
        ):
            self.tabs.addTab(page, title)

    def _connect(self) -> None:
        self.header.scope_chosen.connect(self.refresh)
        self.picker.picked.connect(self._follow_picker)
        self.place_chosen.connect(self._follow_place)
        self.histogram.row_chosen.connect(self.picker.choose)
        self.histogram.opened.connect(self.tensor_chosen)
        minima = self.blocks.minima
        self.blocks.minima_known.connect(lambda on: self.offer_page(minima, on))
        self.pass_on(self.blocks)
        self.pass_on(self.histogram.panel)

    # Pages that are built when first shown

    @property
    def map(self) -> MapPage:
        """The page of the map."""
        return self._map.widget

    @property
    def block_page(self) -> BlockPage:
        """The page of one block."""
        return self._block_page.widget

    @property
    def values(self) -> ValuesPage:
        """The page of values."""
        return self._values.widget

    def _make_map(self) -> MapPage:
        from explorer.qt.weights.map.page import MapPage  # noqa: PLC0415 - see LazyTab

        page = MapPage(self._runner, self._references, self)
        page.open_requested.connect(self.open_requested)
        page.place_chosen.connect(self.place_chosen)
        self.pass_on(page)
        return page

    def _fill_map(self, page: MapPage) -> None:
        page.show_subject(self._subject, self._recent, named=self._named)

    def _make_block_page(self) -> BlockPage:
        from explorer.qt.weights.block.page import BlockPage  # noqa: PLC0415 - see LazyTab

        page = BlockPage(self._runner, self._references, self)
        page.open_requested.connect(self.open_requested)
        page.bytes_requested.connect(self.bytes_requested)
        self.pass_on(page)
        return page

    def _fill_block_page(self, page: BlockPage) -> None:
        subject = self._subject
        quantized = subject is not None and is_quantized(subject.tensor)
        page.show_subject(subject if quantized else None, self._recent, named=self._named)
        if self._place is not None:
            page.show_place(*self._place)

    def _make_values(self) -> ValuesPage:
        from explorer.qt.weights.values import ValuesPage  # noqa: PLC0415 - see LazyTab

        page = ValuesPage(self._runner, self)
        self.pass_on(page)
        return page

    def _fill_values(self, page: ValuesPage) -> None:
        page.show_subject(self._subject, named=self._named)
        if self._place is not None:
            page.go_to(self._place)

    # What is shown

    def show_tensors(self, rows: Sequence[int]) -> None:
        if tuple(rows) != self._rows:
            if len(rows) > 1:
                self.header.choose(Scope.SELECTED)
            elif self.header.chosen is Scope.SELECTED:
                self.header.choose(Scope.ONE)
        super().show_tensors(rows)

    @property
    def shown_rows(self) -> tuple[int, ...]:
        """Content rows of the tensors that are shown together."""
        document = self._document
        return () if document is None or not self._rows else tuple(self._shown(document))

    def focus_search(self) -> None:
        """Go to the values, and into the line for a row and column."""
        if self.has_content:
            self.show_page(self._values)
            self.values.focus_search()

    def cancel(self) -> None:
        self.histogram.cancel()
        self.blocks.cancel()
        for tab in (self._map, self._block_page):
            if tab.isVisible():  # a hidden page reads nothing
                tab.widget.cancel()

    @property
    def choices(self) -> HistogramChoices:
        """How the user likes histograms."""
        return self.histogram.controls.choices()

    def restore(self, choices: HistogramChoices, splitter: QByteArray) -> None:
        """Take over what was saved: choices, and how wide plot and table are (empty: as built)."""
        self.histogram.controls.set_choices(choices)
        self.histogram.restore_splitter(splitter)

    def _explain_empty(self, opened: bool) -> None:
        if opened:
            sentence = self.tr("Choose one in the tree or in the tensor table to see its weights.")
            self.show_state(self.tr("Select a tensor"), sentence)
        else:
            self.show_state(self.tr("Weights"), self.tr("Open a model to see its weights."))

    def _shown(self, document: Document) -> Sequence[int]:
        return spread(self._wanted(document))

    def _wanted(self, document: Document) -> Sequence[int]:
        """Return the content rows of all tensors of the chosen scope."""
        scope = self.header.chosen
        if scope is Scope.SAME_ROLE:
            return same_role(document, self._rows[0])
        return self._rows if scope is Scope.SELECTED else self._rows[:1]

    def _fill(self, document: Document, rows: Sequence[int]) -> None:
        wanted = self._wanted(document)
        subjects = _subjects(document, rows)
        offered = [
            subject
            for subject in _subjects(document, spread(wanted, _MOST_OFFERED))
            if unsupported_reason(subject.tensor) is None
        ]
        self._show_header(
            [subject.tensor for subject in subjects],
            len(wanted),
            self._factor_note(document, rows[0]),
        )
        self.show_content()
        self._show_subjects(subjects, self._results_of(document), offered or subjects)

    def _clear(self) -> None:
        self._show_subjects((), Recent(0), ())

    def _show_subjects(
        self, subjects: Sequence[SelectedTensor], recent: Recent, offered: Sequence[SelectedTensor]
    ) -> None:
        """Show `subjects` together, and one of those `offered` on the pages of one tensor."""
        self._recent = recent
        in_front = self.histogram.chosen_row
        kept = self.picker.offer(offered, self._rows[0] if self._rows else None)
        self.histogram.show_subjects(subjects, recent)
        if kept and in_front is not None:
            self.histogram.choose_row(in_front)
        self._named = len(subjects) > 1
        quantized = any(is_quantized(subject.tensor) for subject in offered)
        for page in (self.blocks.codes, self.blocks.scales, self._block_page):
            self.offer_page(page, quantized)
        self._show_one()

    def _show_one(self) -> None:
        """Show the tensor that is chosen on the pages of one tensor."""
        before, self._subject = self._subject, self.picker.subject
        if self._subject is None or before is None or before.tensor is not self._subject.tensor:
            self._place = None
        self.blocks.show_subject(self._subject, self._recent, named=self._named)
        for tab in (self._map, self._block_page, self._values):
            tab.refresh()
            if self._subject is None:
                tab.catch_up()  # the model may be closed

    def _follow_picker(self) -> None:
        self._show_one()
        if self._subject is not None:
            self.histogram.choose_row(self._subject.row)

    def _follow_place(self, place: Place) -> None:
        self._place = place
        self._block_page.refresh()
        self._values.refresh()

    # The header

    def _show_header(self, tensors: Sequence[Tensor], found: int, note: str) -> None:
        weights = self.tr("{n} weights").format(
            n=integer_text(sum(tensor.parameters for tensor in tensors))
        )
        first = tensors[0]
        if len(tensors) == 1:
            facts = (first.type.name, shape_text(first.shape), weights, bytes_text(first.nbytes))
            self.header.show_texts(first.name, "   ·   ".join(facts), note)
            return
        if found > len(tensors):
            count = self.tr("{shown} of {all} tensors are shown, spread evenly").format(
                shown=len(tensors), all=integer_text(found)
            )
        else:
            count = self.tr("{n} tensors").format(n=len(tensors))
        names = sorted({tensor.type.name for tensor in tensors})
        types = f"{', '.join(names[:4])}{', …' if len(names) > 4 else ''}"
        self.header.show_texts(
            f"{first.name} … {tensors[-1].name}", "   ·   ".join((count, weights, types)), note
        )

    def _factor_note(self, document: Document, row: int) -> str:
        factors = sibling_factors(document, row)
        if not factors:
            return ""
        names = self.tr(" and ").join(plain_text(name) for name in factors)
        return self.tr(
            "The figures are of the stored weights: the factor in {names} is not applied to them."
        ).format(names=names)

    # Qt

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.LocaleChange:
            self.refresh()


def _subjects(document: Document, rows: Sequence[int]) -> list[SelectedTensor]:
    tensors = document.model.tensors.rows
    return [SelectedTensor(row, plain_text(tensors[row].name), tensors[row]) for row in rows]
