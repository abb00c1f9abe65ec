"""The panel's content while there is something to show. Made late: pyqtgraph is slow to load.

Its first page is made with it, every other one when it is first looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from explorer.qt.jobs import JobRunner
from explorer.qt.models.errors.references import References
from explorer.qt.models.recent import Recent
from explorer.qt.models.weights.figures import Subject, is_quantized
from explorer.qt.models.weights.values_table import Place
from explorer.qt.views.late_view import LateView
from explorer.qt.views.tabbed_body import TabbedBody
from explorer.qt.views.weights.block_pages import BlockPages
from explorer.qt.views.weights.header import Header
from explorer.qt.views.weights.histogram_page import HistogramPage
from explorer.qt.views.weights.tensor_picker import TensorPicker

if TYPE_CHECKING:
    from explorer.qt.views.weights.map.page import MapPage
    from explorer.qt.views.weights.microscope.page import MicroscopePage
    from explorer.qt.views.weights.values_page import ValuesPage


class WeightsBody(TabbedBody):
    """Header and pages.

    Attributes:
        header: What is shown.
        picker: Which of several tensors the pages of one tensor show.
        histogram: The page of the histogram.
        blocks: The pages of codes, scales and minima.

    Signals:
        place_chosen: A weight of the tensor was chosen on the map; its `Place`. Block and values
            follow.
        bytes_requested: Bytes shall be shown in their file; row of the tensor, and an `Extent`.
    """

    place_chosen = Signal(object)
    bytes_requested = Signal(int, object)

    def __init__(
        self, runner: JobRunner, references: References, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._runner = runner
        self._references = references
        self._recent = Recent(0)
        self._subject: Subject | None = None  # of the pages of one tensor
        self._place: Place | None = None  # that was chosen in it
        self._named = False
        self.header = Header(self)
        self.picker = TensorPicker(self)
        self.header.add_beside_facts(self.picker)
        self.begin_tabs(self.tr("Views of the tensor"), self.header)
        self.histogram = HistogramPage(runner, self)
        self.blocks = BlockPages(runner, self)
        near = "explorer.qt.views.weights"
        self._map = LateView(runner, f"{near}.map.page", self._make_map, self._fill_map, self)
        self._microscope = LateView(
            runner, f"{near}.microscope.page", self._make_block, self._fill_block, self
        )
        self._values = LateView(
            runner, f"{near}.values_page", self._make_values, self._fill_values, self
        )
        self._add_pages()
        self.addActions([self.picker.back_action, self.picker.on_action])
        self.picker.picked.connect(self._follow_picker)
        self.place_chosen.connect(self._follow_place)
        self.histogram.row_chosen.connect(self.picker.choose)
        minima = self.blocks.minima
        self.blocks.minima_known.connect(lambda on: self.offer_page(minima, on))
        self.pass_on(self.blocks)
        self.pass_on(self.histogram.panel)

    def _add_pages(self) -> None:
        codes, scales, minima = self.blocks.pages
        for page, title in (
            (self.histogram, self.tr("Histogram")),
            (self._map, self.tr("Map")),
            (codes, self.tr("Codes")),
            (scales, self.tr("Scales")),
            (minima, self.tr("Minima")),
            (self._microscope, self.tr("Block")),
            (self._values, self.tr("Values")),
        ):
            self.tabs.addTab(page, title)

    @property
    def map(self) -> MapPage:
        """The page of the map; it is made if nobody has looked at it."""
        return self._map.view

    @property
    def microscope(self) -> MicroscopePage:
        """The page of one block; it is made if nobody has looked at it."""
        return self._microscope.view

    @property
    def values(self) -> ValuesPage:
        """The page of values; it is made if nobody has looked at it."""
        return self._values.view

    def show_subjects(
        self,
        subjects: Sequence[Subject],
        recent: Recent,
        offered: Sequence[Subject] = (),
        row: int | None = None,
    ) -> None:
        """Show tensors together, and one of them on the pages of one tensor.

        Args:
            subjects: Those that are shown together; none ends all reading.
            recent: What is known of their model.
            offered: Those of which the user chooses the one; if none are given, `subjects`.
            row: Content row of the one that is chosen at first.
        """
        self._recent = recent
        in_front = self.histogram.chosen_row
        kept = self.picker.offer(offered or subjects, row)
        self.histogram.show_subjects(subjects, recent)
        if kept and in_front is not None:
            self.histogram.choose_row(in_front)
        self._named = len(subjects) > 1
        quantized = any(is_quantized(subject.tensor) for subject in offered or subjects)
        for page in (self.blocks.codes, self.blocks.scales, self._microscope):
            self.offer_page(page, quantized)
        self._show_one()

    def cancel(self) -> None:
        self.histogram.cancel()
        self.blocks.cancel()
        for page in (self._map.existing, self._microscope.existing):
            if page is not None:
                page.cancel()

    def focus_search(self) -> None:
        """Go to the values, and into the line for a row and column."""
        self.show_page(self._values)
        self.values.focus_search()

    # The pages of one tensor

    def _follow_picker(self) -> None:
        self._show_one()
        if self._subject is not None:
            self.histogram.choose_row(self._subject.row)

    def _show_one(self) -> None:
        """Show the tensor that is chosen, on the pages that are made already."""
        subject = self.picker.subject
        if subject is None or self._subject is None or subject.tensor is not self._subject.tensor:
            self._place = None
        self._subject = subject
        self.blocks.show_subject(subject, self._recent, named=self._named)
        if self._map.existing is not None:
            self._map.existing.show_subject(subject, self._recent, named=self._named)
        if self._microscope.existing is not None:
            self._show_block(self._microscope.existing)
        if self._values.existing is not None:
            self._values.existing.show_subject(subject, named=self._named)

    def _show_block(self, page: MicroscopePage) -> None:
        subject = self._subject
        quantized = subject is not None and is_quantized(subject.tensor)
        page.show_subject(subject if quantized else None, self._recent, named=self._named)

    def _follow_place(self, place: Place) -> None:
        self._place = place
        if self._values.existing is not None:
            self._values.existing.go_to(place)
        if self._microscope.existing is not None:
            self._microscope.existing.show_place(*place)

    def _make_map(self, parent: QWidget) -> MapPage:
        from explorer.qt.views.weights.map.page import MapPage  # noqa: PLC0415 - see LateView

        return MapPage(self._runner, self._references, parent)

    def _fill_map(self, page: MapPage) -> None:
        page.open_requested.connect(self.open_requested)
        page.place_chosen.connect(self.place_chosen)
        self.pass_on(page)
        page.show_subject(self._subject, self._recent, named=self._named)

    def _make_block(self, parent: QWidget) -> MicroscopePage:
        from explorer.qt.views.weights.microscope.page import (  # noqa: PLC0415 - see LateView
            MicroscopePage,
        )

        return MicroscopePage(self._runner, self._references, parent)

    def _fill_block(self, page: MicroscopePage) -> None:
        page.open_requested.connect(self.open_requested)
        page.bytes_requested.connect(self.bytes_requested)
        self.pass_on(page)
        self._show_block(page)
        if self._place is not None:
            page.show_place(*self._place)

    def _make_values(self, parent: QWidget) -> ValuesPage:
        from explorer.qt.views.weights.values_page import ValuesPage  # noqa: PLC0415 - see LateView

        return ValuesPage(self._runner, parent)

    def _fill_values(self, page: ValuesPage) -> None:
        self.pass_on(page)
        page.show_subject(self._subject, named=self._named)
        if self._place is not None:
            page.go_to(self._place)
