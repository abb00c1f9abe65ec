"""The weights panel: histograms, statistics, blocks and values of the selected tensors.

The pages of blocks show how the codes of a quantized tensor are used and how its scales spread.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
from PySide6.QtCore import QByteArray, QObject, Signal
from PySide6.QtWidgets import QWidget

from explorer.analysis.blocks import BlockStatistics, Distribution, is_quantized
from explorer.analysis.tensor_map.draw import Quantity
from explorer.formats.tensors import Tensor
from explorer.parallel import LruCache
from explorer.present.explanations import picture_text
from explorer.present.panels import PANELS
from explorer.present.tables.blocks import code_table
from explorer.present.tables.lines import lines_of
from explorer.present.tables.statistics import MOMENTS
from explorer.qt.document import Document
from explorer.qt.references import References
from explorer.qt.services import Services
from explorer.qt.weights.curves import SelectedTensor, unsupported_reason
from explorer.qt.weights.histogram import HistogramPage
from explorer.qt.weights.tensor_panel import Scope, StatisticsTable, TensorPicker, TensorsPanel
from explorer.qt.weights.work import blocks_request, same_role, sibling_factors, spread
from explorer.qt.widgets.curves import NOTHING, HistogramCurve, histogram_of
from explorer.qt.widgets.lazy import LazyTab
from explorer.qt.widgets.pages import Phase, PlotPage, Reader, Refusal, Request
from explorer.qt.widgets.plot_panel import PlotPanel, Readings
from explorer.qt.widgets.table_model import TableModel
from explorer.text import bytes_text, counted, float_text, integer_text, percent_text, plain_text

if TYPE_CHECKING:
    from explorer.qt.weights.block.page import BlockPage
    from explorer.qt.weights.map.page import MapPage
    from explorer.qt.weights.values import Place, ValuesPage

_MOST_TICKS: Final = 16
_CODES_WIDTH: Final = 360  # of the table: four columns
_MOST_OFFERED: Final = 1000  # tensors in the picker
_MOST_RESULTS: Final = 256  # of a model: at most 32 MiB, usually far less


def has_even_levels(blocks: BlockStatistics) -> bool:
    """Whether the levels count up by one, so that they can be the axis."""
    return bool(np.all(np.diff(blocks.levels) == 1))


def code_curve(name: str, blocks: BlockStatistics, type_name: str = "") -> HistogramCurve:
    """Return the counts of codes as a histogram with a bin for each.

    The axis is the level where levels count up by one, and the code's number elsewhere.
    """
    count = len(blocks.code_counts)
    start = float(blocks.levels[0]) if has_even_levels(blocks) else 0.0
    edges = np.arange(count + 1, dtype=np.float64) + (start - 0.5)
    total = int(blocks.code_counts.sum())
    histogram = histogram_of(edges, blocks.code_counts)
    return HistogramCurve(name, -1, histogram, total, *NOTHING, type_name)


def code_ticks(blocks: BlockStatistics) -> list[tuple[float, str]] | None:
    """Return the levels as texts of an axis of few codes; None if numbers do."""
    if has_even_levels(blocks) or len(blocks.levels) > _MOST_TICKS:
        return None
    return [(float(code), float_text(float(x), 4)) for code, x in enumerate(blocks.levels)]


class BlockPages(QObject, Reader[BlockStatistics]):
    """The pages of codes, scales and minima, which one walk over the blocks fills.

    Signals:
        minima_known: Whether the tensor has minima, as far as that is known of its type.
    """

    minima_known = Signal(bool)

    def __init__(self, app: Services, parent: QWidget) -> None:
        super().__init__(parent)
        self._subject: SelectedTensor | None = None
        self._cache = LruCache(0)
        self._prefix = ""
        self._blocks: BlockStatistics | None = None
        self._with_minima: set[str] = set()  # types that are known to have minima
        self.codes = PlotPage(self._make_codes)
        self.scales = PlotPage(partial(self._make_spread, "Scale", "Scales"))
        self.minima = PlotPage(partial(self._make_spread, "Minimum", "Minima"))
        self.pages = self.codes, self.scales, self.minima
        for page in self.pages:
            page.offer_ranges([("All of them", 0)])
        self.begin_life(app, self.pages)

    def show_subject(
        self, subject: SelectedTensor | None, cache: LruCache, *, named: bool = False
    ) -> None:
        """Show another tensor, with its name if it is one of several; keep its results in `cache`.

        It is read when one of the pages is visible.
        """
        self._prefix = f"{subject.name}:   " if named and subject is not None else ""
        self._subject = subject
        self._cache = cache
        self.minima_known.emit(
            subject is not None and subject.tensor.type.name in self._with_minima
        )
        if self.visible or self.phase is not Phase.EMPTY:
            self.restart()

    def clear(self) -> None:
        self._blocks = None

    def request(self) -> Request[BlockStatistics] | Refusal | None:
        subject, cache = self._subject, self._cache
        if subject is None:
            return None
        if not is_quantized(subject.tensor):
            sentence = f"{subject.name} has no codes and no scales."
            return Refusal("Not quantized", sentence)
        return blocks_request(subject, cache)

    def show_result(self, result: BlockStatistics) -> None:
        assert self._subject is not None
        self._blocks = result
        if result.minima is not None:
            self._with_minima.add(self._subject.tensor.type.name)
        self.minima_known.emit(result.minima is not None)
        self.refill()

    def refill(self) -> None:
        """Fill the visible page."""
        subject, blocks = self._subject, self._blocks
        if subject is None or blocks is None:
            return
        for page, one, nouns in (
            (self.scales, blocks.scales, ("scale", "scales")),
            (self.minima, blocks.minima, ("minimum", "minima")),
        ):
            if page.isVisible() and not page.has_content and one is not None:
                self._show_spread(page, subject, one, nouns)
        if self.codes.isVisible() and not self.codes.has_content:
            self._show_codes(subject, blocks)

    def _make_codes(self) -> PlotPanel:
        model = TableModel(self)
        panel = PlotPanel(self.app, model, self._describe_code, self.codes, _CODES_WIDTH)
        panel.plot.set_normal(False)
        panel.plot.setAccessibleName("Histogram of codes")
        panel.plot.setWhatsThis(picture_text("codes"))
        return panel

    def _make_spread(self, what: str, many: str) -> PlotPanel:
        panel = PlotPanel(self.app, StatisticsTable(self), self._describe)
        panel.plot.setAccessibleName(f"Histogram of {many.lower()}")
        panel.plot.setWhatsThis(picture_text("spread"))
        panel.plot.set_titles(what, f"{many} in each bin")
        return panel

    def _show_codes(self, subject: SelectedTensor, blocks: BlockStatistics) -> None:
        panel = self.codes.panel
        panel.file_name = f"{subject.name}-codes"
        even = has_even_levels(blocks)
        ticks = code_ticks(blocks)
        level, number = "Level of the code, before scaling", "Code"
        panel.plot.set_titles(level if even or ticks else number, "Weights")
        panel.plot.set_code_ticks(ticks)
        curve = code_curve(subject.name, blocks, subject.tensor.type.name)
        panel.plot.show_curves((curve,))
        panel.plot.forget_zoom()
        panel.table.show_rows(code_table(blocks), range(len(blocks.code_counts)))
        used = int((blocks.code_counts > 0).sum())
        text = f"{integer_text(used)} of {integer_text(len(blocks.code_counts))} codes are used"
        panel.show_resting("")
        self._show_plot(self.codes, curve, self._prefix + text)

    def _show_spread(
        self,
        page: PlotPage[PlotPanel],
        subject: SelectedTensor,
        spread: Distribution,
        nouns: tuple[str, str],
    ) -> None:
        assert self._blocks is not None
        panel = page.panel
        panel.file_name = f"{subject.name}-{nouns[1]}"
        kind = subject.tensor.type.name
        curve = HistogramCurve.of_moments(
            subject.name, spread.histogram, spread.moments, type_name=kind
        )
        panel.plot.show_curves((curve,))
        panel.plot.forget_zoom()
        model = panel.table.table
        assert isinstance(model, StatisticsTable)
        model.show_lines(lines_of(MOMENTS, spread.moments))
        panel.table.show_columns(QByteArray())
        panel.show_resting("")
        text = (
            f"{counted(spread.moments.count, *nouns)}, "
            f"{integer_text(self._blocks.weights_per_scale)} weights each"
        )
        self._show_plot(page, curve, self._prefix + text)

    def _show_plot(self, page: PlotPage[PlotPanel], curve: HistogramCurve, text: str) -> None:
        page.range.suggest(curve.histogram.low, curve.histogram.high)
        page.show_plot(text)
        page.show_typed()

    def _describe_code(self, readings: Readings) -> str:
        reading, blocks = readings[0], self._blocks
        if blocks is None:
            return ""
        return (
            f"code {reading.index}: level {float_text(float(blocks.levels[reading.index]), 5)}   "
            f"{counted(reading.count, 'weight')}   {percent_text(reading.share)}"
        )

    def _describe(self, readings: Readings) -> str:
        reading = readings[0]
        return (
            f"{float_text(reading.low, 5)} to {float_text(reading.high, 5)}   "
            f"{integer_text(reading.count)}   {percent_text(reading.share)}"
        )


class WeightsView(TensorsPanel):
    """The selected tensors, on pages. Reads only while it is visible.

    Attributes:
        picker: Which of several tensors the pages of one tensor show.
        histogram: The page of the histogram.
        blocks: The pages of codes, scales and minima.
    """

    noun = noun_of_one = "weights"

    def __init__(self, app: Services, references: References) -> None:
        super().__init__(app, references)
        self._cache = LruCache(0)
        self._subject: SelectedTensor | None = None  # of the pages of one tensor
        self._place: Place | None = None  # that was chosen in it
        self._named = False
        self.picker = TensorPicker(self)
        self.header.add_to_facts(self.picker)
        self.begin_tabs("Views of the tensor", self.header)
        self.histogram = HistogramPage(app, self)
        self.blocks = BlockPages(app, self)
        self._map = LazyTab(self._make_map, self._fill_map, self)
        self._block_page = LazyTab(self._make_block_page, self._fill_block_page, self)
        self._values = LazyTab(self._make_values, self._fill_values, self)
        self._add_pages()
        self.addActions([self.picker.back_action, self.picker.on_action])
        self._connect()
        self.refresh()

    def _add_pages(self) -> None:
        codes, scales, minima = self.blocks.pages
        matrix = self._block_page, self._values
        pages: tuple[QWidget, ...] = self.histogram, self._map, codes, scales, minima, *matrix
        for page, title in zip(pages, PANELS["weights"].tabs, strict=True):
            self.tabs.addTab(page, title)

    def _connect(self) -> None:
        self.header.scope_chosen.connect(self.refresh)
        self.picker.picked.connect(self._follow_picker)
        self.histogram.row_chosen.connect(self.picker.choose)
        minima = self.blocks.minima
        self.blocks.minima_known.connect(lambda on: self.offer_page(minima, on))

    # Pages that are built when first shown

    @property
    def map(self) -> MapPage:
        return self._map.widget

    @property
    def block_page(self) -> BlockPage:
        return self._block_page.widget

    @property
    def values(self) -> ValuesPage:
        return self._values.widget

    def _make_map(self) -> MapPage:
        from explorer.qt.weights.map.page import MapPage  # noqa: PLC0415 - see LazyTab

        shown = Quantity.VALUE, Quantity.SCALE, Quantity.MINIMUM
        page = MapPage(self.app, self._references, shown, self)
        page.place_chosen.connect(self._follow_place)
        return page

    def _fill_map(self, page: MapPage) -> None:
        page.show_subject(self._subject, self._cache, named=self._named)

    def _make_block_page(self) -> BlockPage:
        from explorer.qt.weights.block.page import BlockPage  # noqa: PLC0415 - see LazyTab

        return BlockPage(self.app, self._references, self)

    def _fill_block_page(self, page: BlockPage) -> None:
        subject = self._subject
        quantized = subject is not None and is_quantized(subject.tensor)
        page.show_subject(subject if quantized else None, self._cache, named=self._named)
        if self._place is not None:
            page.show_place(*self._place)

    def _make_values(self) -> ValuesPage:
        from explorer.qt.weights.values import ValuesPage  # noqa: PLC0415 - see LazyTab

        return ValuesPage(self.app, self)

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

    def clear(self) -> None:
        self._show_subjects((), LruCache(0), ())

    @property
    def shown_rows(self) -> tuple[int, ...]:
        """Content rows of the tensors that are shown together."""
        document = self._document
        return () if document is None or not self._rows else tuple(spread(self._wanted(document)))

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

    def _wanted(self, document: Document) -> Sequence[int]:
        """Return all tensors of the chosen scope."""
        scope = self.header.chosen
        if scope is Scope.SAME_ROLE:
            return same_role(document, self._rows[0])
        return self._rows if scope is Scope.SELECTED else self._rows[:1]

    def _fill(self, document: Document, wanted: Sequence[int]) -> None:
        subjects = _subjects(document, spread(wanted))
        offered = [
            subject
            for subject in _subjects(document, spread(wanted, _MOST_OFFERED))
            if unsupported_reason(subject.tensor) is None
        ]
        note = self._factor_note(document, subjects[0].row)
        self._show_header([subject.tensor for subject in subjects], len(wanted), note)
        self.show_content()
        cache = self._caches.setdefault(document, LruCache(_MOST_RESULTS))
        self._show_subjects(subjects, cache, offered or subjects)

    def _show_subjects(
        self, subjects: Sequence[SelectedTensor], cache: LruCache, offered: Sequence[SelectedTensor]
    ) -> None:
        self._cache = cache
        in_front = self.histogram.chosen_row
        kept = self.picker.offer(offered, self._rows[0] if self._rows else None)
        self.histogram.show_subjects(subjects, cache)
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
        self.blocks.show_subject(self._subject, self._cache, named=self._named)
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
        first, parameters = tensors[0], sum(tensor.parameters for tensor in tensors)
        weights = counted(parameters, "weight")
        if len(tensors) == 1:
            facts = weights, bytes_text(first.nbytes)  # the head has type and shape
            self.header.show_texts(first.name, "   ·   ".join(facts), note)
            return
        count = f"{len(tensors)} tensors"
        if found > len(tensors):
            count = f"{len(tensors)} of {integer_text(found)} tensors are shown, spread evenly"
        names = sorted({tensor.type.name for tensor in tensors})
        types = f"{', '.join(names[:4])}{', …' if len(names) > 4 else ''}"
        names_text = f"{first.name} … {tensors[-1].name}"
        facts_text = "   ·   ".join((count, weights, types))
        self.header.show_texts(names_text, facts_text, note, several=True)

    def _factor_note(self, document: Document, row: int) -> str:
        factors = sibling_factors(document, row)
        if not factors:
            return ""
        names = " and ".join(plain_text(name) for name in factors)
        return (
            f"The figures are of the stored weights: the factor in {names} is not applied to them."
        )


def _subjects(document: Document, rows: Sequence[int]) -> list[SelectedTensor]:
    tensors = document.model.tensors.rows
    return [SelectedTensor(row, plain_text(tensors[row].name), tensors[row]) for row in rows]
