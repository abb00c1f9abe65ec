"""The page of one tensor: the selected one compared with the original.

One walk over both tensors fills its pages: weights, errors, density; a map shows where errors are.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Final, TypeAlias

from PySide6.QtCore import QByteArray, QObject
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QWidget

from explorer.analysis.blocks import BlockStatistics, is_quantized
from explorer.analysis.errors.compare import ExpectedRounding, expected_rounding
from explorer.analysis.errors.pictures import ErrorPicture, PairSquare
from explorer.analysis.tensor_map.draw import Quantity
from explorer.parallel import LruCache
from explorer.present.explanations import picture_text
from explorer.present.panels import PANELS
from explorer.present.tables.errors import PICTURED, ROUNDING
from explorer.present.tables.lines import lines_of
from explorer.qt.compare.plots import CellReading, DensityPlot
from explorer.qt.compare.work import SelectedPair, known_picture, read_errors
from explorer.qt.document import Document
from explorer.qt.references import References
from explorer.qt.services import Services
from explorer.qt.weights.curves import SelectedTensor
from explorer.qt.weights.map.page import MapPage
from explorer.qt.weights.tensor_panel import StatisticsTable, TensorsPanel
from explorer.qt.weights.work import blocks_request
from explorer.qt.widgets.building import LINE, column
from explorer.qt.widgets.curves import NOTHING, HistogramCurve
from explorer.qt.widgets.labels import error_caution, plain_label
from explorer.qt.widgets.lazy import LazyTab
from explorer.qt.widgets.pages import PlotPage, Reader, ReadingPage, Refusal, Request
from explorer.qt.widgets.plot_panel import PicturePanel, PlotPanel, Readings
from explorer.qt.widgets.progress import ProgressLine
from explorer.qt.widgets.table_view import TableView
from explorer.text import counted, float_text, integer_text, percent_text, plain_text, shape_text

# The three pictures of an error with table and read-out: weights, errors, density.


_TABLE_WIDTH: Final = 335
_VALUES: Final = 1  # the column of the table

MOST, ALL = range(2)
"""What the list of ranges stands for."""


class WeightsPanel(PlotPanel):
    """Histograms of reference and candidate over each other."""

    def __init__(
        self, app: Services, table: StatisticsTable, parent: QWidget | None = None
    ) -> None:
        super().__init__(app, table, self._describe_pairs, parent, _TABLE_WIDTH)
        self.plot.set_titles("Weight", "Weights in each bin")
        self.plot.setAccessibleName("Histograms of reference and candidate")
        self.plot.setWhatsThis(picture_text("pair_histograms"))

    def show_picture(self, picture: ErrorPicture, types: Sequence[str], place: int) -> str:
        """Draw a range of a picture, of two types; return what to say above it."""
        square, total = _square(picture, place), picture.metrics.compared
        names = "reference", "candidate"
        histograms = square.reference, square.candidate
        self.plot.show_curves(
            tuple(
                HistogramCurve(f"{name}, {kind}", -1, histogram, total, *NOTHING, kind)
                for name, kind, histogram in zip(names, types, histograms, strict=True)
            )
        )
        return _left_out(square, picture)

    def _describe_pairs(self, readings: Readings) -> str:
        first = readings[0]
        text = f"{float_text(first.low, 5)} to {float_text(first.high, 5)}"
        for reading in readings:
            count, share = integer_text(reading.count), percent_text(reading.share)
            text += f"   {reading.curve}: {count} ({share})"
        return text


class ErrorPanel(PlotPanel):
    """Histogram of errors."""

    def __init__(
        self, app: Services, table: StatisticsTable, parent: QWidget | None = None
    ) -> None:
        super().__init__(app, table, self._describe_error, parent, _TABLE_WIDTH)
        self.plot.set_normal(False)
        self.plot.set_titles("Error, candidate - reference", "Weights in each bin")
        self.plot.setAccessibleName("Histogram of errors")
        self.plot.setWhatsThis(picture_text("error_histogram"))

    def show_picture(self, picture: ErrorPicture, types: Sequence[str], place: int) -> str:
        """Draw a picture; see `WeightsPanel.show_picture`."""
        figures = picture.metrics
        total, mean, std = figures.compared, figures.mean_error, math.nan
        histogram = picture.most_errors if place == MOST else picture.all_errors
        if total:
            std = math.sqrt(max(0.0, figures.rmse**2 - mean**2))
        marks = mean, std, math.nan, math.nan
        curve = HistogramCurve("error", -1, histogram, total, *marks, types[-1])
        self.plot.show_curves((curve,))
        if not curve.outside:
            return ""
        share = percent_text(curve.outside / total)
        return f"{counted(curve.outside, 'error')} ({share}) outside"

    def _describe_error(self, readings: Readings) -> str:
        reading = readings[0]
        low, high = float_text(reading.low, 4), float_text(reading.high, 4)
        weights = counted(reading.count, "weight")
        return f"{low} to {high}   {weights}   {percent_text(reading.share)}"


class DensityPanel(PicturePanel):
    """Reference against candidate."""

    def __init__(
        self, app: Services, table: StatisticsTable, parent: QWidget | None = None
    ) -> None:
        self.plot = DensityPlot(parent)
        super().__init__(app, self.plot, table, parent, _TABLE_WIDTH)
        self._total = 0
        self.plot.cell_read.connect(self._describe)

    def show_picture(self, picture: ErrorPicture, types: Sequence[str], place: int) -> str:
        """Draw a picture; see `WeightsPanel.show_picture`."""
        square = _square(picture, place)
        self._total = picture.metrics.compared
        self.plot.show_square(square)
        return _left_out(square, picture)

    def _describe(self, reading: CellReading | None) -> None:
        if reading is None:
            self.show_text("")
            return
        reference, candidate = (
            f"{float_text(low, 4)} to {float_text(high, 4)}"
            for low, high in (reading.reference, reading.candidate)
        )
        share = percent_text(reading.count / self._total if self._total else 0.0)
        self.show_text(
            f"reference {reference}   candidate {candidate}   "
            f"{counted(reading.count, 'weight')}   {share}"
        )


def _square(picture: ErrorPicture, place: int) -> PairSquare:
    return picture.most_pairs if place == MOST else picture.all_pairs


def _left_out(square: PairSquare, picture: ErrorPicture) -> str:
    if not square.outside:
        return ""
    share = percent_text(square.outside / picture.metrics.compared)
    return f"Left out: {counted(square.outside, 'pair')} ({share}) with a weight outside"


AnyPanel: TypeAlias = WeightsPanel | ErrorPanel | DensityPanel


class PicturePage(PlotPage[AnyPanel]):
    """A page of errors: a plot, the choice of its range, and the table of figures.

    Attributes:
        noun: What it shows, for names of files.
    """

    def __init__(
        self, kind: type[AnyPanel], noun: str, app: Services, table: StatisticsTable
    ) -> None:
        def make() -> AnyPanel:
            return kind(app, table, self)

        super().__init__(make)
        self.noun = noun
        self._most = (0.0, 0.0)
        everything = "All errors" if kind is ErrorPanel else "All weights"
        choices = [("Without the outermost 0.1 %", MOST), (everything, ALL)]
        self.offer_ranges(choices)

    @property
    def place(self) -> int:
        """What is drawn: of a typed range, what holds it in the finer bins."""
        if not self.range.is_typed:
            return int(self.range.chosen)
        typed, most = self.range.value(), self._most
        inside = typed is not None and most[0] <= typed[0] and typed[1] <= most[1]
        return MOST if inside else ALL

    def note(self, picture: ErrorPicture) -> None:
        """Note the range of a picture without its outliers, and offer it to who types."""
        if self.noun == "errors":
            self._most = picture.most_errors.low, picture.most_errors.high
        else:
            edges = picture.most_pairs.edges
            self._most = float(edges[0]), float(edges[-1])
        self.range.suggest(*self._most)


class PicturePages(QObject, Reader[ErrorPicture]):
    """Reads a tensor and its reference, and fills three pages and their table as it goes.

    Attributes:
        picture: What is shown; None while nothing is known.
    """

    def __init__(self, app: Services, progress: ProgressLine, parent: QWidget) -> None:
        super().__init__(parent)
        self._subject: SelectedPair | None = None
        self._results = LruCache(0)
        self._progress = progress
        self.picture: ErrorPicture | None = None
        self.table = StatisticsTable(self)
        self.weights = PicturePage(WeightsPanel, "weights", app, self.table)
        self.errors = PicturePage(ErrorPanel, "errors", app, self.table)
        self.density = PicturePage(DensityPanel, "density", app, self.table)
        self.density.logarithmic.setChecked(True)
        self.pages = self.weights, self.errors, self.density
        for page in self.pages:
            page.range_chosen.connect(self.refill)
        self.begin_life(app, self.pages, progress)

    def show_subject(self, subject: SelectedPair | None, results: LruCache) -> None:
        """Show another tensor, given what is known of its model; None ends all reading."""
        self._subject, self._results = subject, results
        self.restart()

    def clear(self) -> None:
        self.picture = None

    def request(self) -> Request[ErrorPicture] | Refusal | None:
        subject, results = self._subject, self._results
        if subject is None:
            return None
        if subject.partner.pair is None:
            waiting = subject.partner.waiting
            heading = "Preparing…" if waiting else "Not comparable"
            return Refusal(heading, subject.partner.reason)
        return Request(
            key=(subject.key, id(results)),
            title=f"Comparing {subject.name}",
            heading="Reading the weights…",
            failure="The weights could not be compared",
            work=lambda job: read_errors(subject, results, job),
            name=subject.name,
            known=lambda: known_picture(subject, results),
            tensors=subject.tensors,
        )

    def show_part(self, part: ErrorPicture) -> None:
        assert self._subject is not None
        share = part.done / part.total if part.total else 1.0
        nbytes = round(share * self._subject.nbytes)
        self._progress.show_progress(part.done, part.total, nbytes)
        self.show_result(part)

    def show_result(self, result: ErrorPicture) -> None:
        first = self.picture is None
        self.picture = result
        unknown = "–" if result.complete else "…"  # percentiles come in the end
        self.table.show_lines(lines_of(PICTURED, result, unknown))
        for page in self.pages:
            if first and not page.isVisible():
                page.show_message("", "")  # it is filled when it becomes visible
        self._fill(first=first)

    def refill(self) -> None:
        self._fill()

    def _fill(self, *, first: bool = False) -> None:
        picture, subject = self.picture, self._subject
        pair = None if subject is None else subject.partner.pair
        if picture is None or subject is None or pair is None:
            return
        for page in self.pages:
            if not page.isVisible():
                continue
            fresh = first or not page.has_content
            panel = page.panel
            if fresh:
                panel.file_name = f"{subject.name}-{page.noun}"
                panel.show_resting("")
            if picture.metrics.compared:
                types = pair.reference_type, pair.candidate_type
                page.note(picture)
                page.show_plot(panel.show_picture(picture, types, page.place))
            elif picture.complete:
                heading = "Nothing to draw"
                page.show_message(heading, "No weight is finite in both tensors.")
            if fresh:
                panel.plot.forget_zoom()
                page.show_typed()
                panel.table.show_columns(QByteArray())
            else:  # counts grow as more is read
                panel.table.column_layout.widen([_VALUES])


class RoundingPage(ReadingPage[BlockStatistics]):
    """The rounding error to expect by a tensor's blocks, while it is compared with nothing.

    Attributes:
        expected: What is shown; None while nothing is known.
    """

    def __init__(self, app: Services, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._subject: SelectedTensor | None = None
        self._results = LruCache(0)
        self.expected: ExpectedRounding | None = None
        self.hint = plain_label(
            self,
            "No original is chosen, so these errors are estimated from the tensor's own block "
            "scales. For real errors choose the original above, or a type to round to.",
            wraps=True,
        )
        self.hint.setForegroundRole(QPalette.ColorRole.PlaceholderText)
        self.hint.setContentsMargins(*LINE)
        self.model = StatisticsTable(self)
        self.table = TableView(self.model, app, self)
        self.table.setAccessibleName("Expected rounding error")
        column(self.hint, (self.table, 1), of=self.content)
        self.begin_life(app, (self,))

    def show_subject(self, subject: SelectedTensor | None, results: LruCache) -> None:
        """Show another tensor, given what is known of its model; None ends all reading."""
        self._subject, self._results = subject, results
        self.restart()

    def clear(self) -> None:
        self.expected = None

    def request(self) -> Request[BlockStatistics] | Refusal | None:
        subject = self._subject
        if subject is None:
            return None
        if is_quantized(subject.tensor):
            return blocks_request(subject, self._results)
        sentence = (
            f"{subject.name} is stored as {subject.tensor.type.name}, without block scales to "
            "estimate an error from. Choose an original above: a model, or a type to round to."
        )
        return Refusal("Not quantized", sentence)

    def show_result(self, result: BlockStatistics) -> None:
        self.expected = expected_rounding(result)
        self.model.show_lines(lines_of(ROUNDING, self.expected))
        self.table.show_columns(QByteArray())
        self.show_content()


_MOST_RESULTS: Final = 16  # of a model: at most 8 MiB, usually far less


class ErrorsView(TensorsPanel):
    """Errors of the tensor that is selected. Reads only while it is visible.

    With a reference there are the pages of pictures, without one the page of the rounding error to
    expect.
    """

    noun, noun_of_one = "errors", "error"

    def __init__(self, app: Services, references: References) -> None:
        super().__init__(app, references)
        self.header.scope.hide()
        self.begin_tabs("Views of the error", self.header)
        self.progress = ProgressLine(self)
        self.pictures = PicturePages(app, self.progress, self)
        self.rounding = RoundingPage(app, self)
        pictures = self.pictures
        self._map = LazyTab(self._make_map, self._fill_map, self)
        shown = pictures.weights, pictures.errors, pictures.density
        pages: tuple[QWidget, ...] = self.rounding, *shown, self._map
        for page, title in zip(pages, PANELS["errors"].tabs, strict=True):
            self.tabs.addTab(page, title)
        self._subject: SelectedPair | None = None
        self._results = LruCache(0)
        self.column.addWidget(self.progress)
        self.column.addWidget(error_caution(self))
        references.changed.connect(self._follow_reference)
        references.documents_changed.connect(self._caches.clear)  # one may be a closed reference
        self.refresh()

    def focus_search(self) -> None:
        """Go to the views of the error."""
        self.tabs.tabBar().setFocus()

    @property
    def map(self) -> MapPage:
        """Where in the tensor the errors are."""
        return self._map.widget

    def _make_map(self) -> MapPage:
        shown = Quantity.RELATIVE_ERROR, Quantity.ABSOLUTE_ERROR
        return MapPage(self.app, self._references, shown, self)

    def _fill_map(self, page: MapPage) -> None:
        page.show_subject(self._subject, self._results)

    def cancel(self) -> None:
        self.pictures.cancel()
        self.rounding.cancel()
        if self._map.isVisible():  # a hidden page reads nothing
            self.map.cancel()

    # What is shown

    def _follow_reference(self) -> None:
        if self._document is not None and self.has_content:
            self._fill(self._document, self._rows)

    def clear(self) -> None:
        self._show_pair(None, LruCache(0))

    def _fill(self, document: Document, wanted: Sequence[int]) -> None:
        row, chosen = wanted[0], self._references.chosen
        tensor = document.model.tensors.rows[row]
        # a key that does not keep a closed model
        key: Hashable = id(chosen) if isinstance(chosen, Document) else chosen
        partner = self._references.partner_of(row, tensor)
        models = None
        if chosen is not None:
            against = chosen.model if isinstance(chosen, Document) else chosen.type_name
            models = document.model, against
        name, matrix = plain_text(tensor.name), self._references.matrix
        subject = SelectedPair(row, name, tensor, key, partner, models, matrix)
        self._show_header(subject)
        self.show_content()
        self._show_pair(subject, self._caches.setdefault(document, LruCache(_MOST_RESULTS)))

    def _show_pair(self, subject: SelectedPair | None, results: LruCache) -> None:
        compared = subject is not None and subject.reference is not None
        self._subject, self._results = (subject if compared else None), results
        self._offer(compared)
        self._map.refresh()
        if not compared:
            self._map.catch_up()  # the model may be closed
        self.pictures.show_subject(subject if compared else None, results)
        self.rounding.show_subject(None if compared else subject, results)

    def _offer(self, compared: bool) -> None:
        """Show the tabs that there is something to see on.

        The tab in front is hidden last: Qt would show the next one, and its page would start.
        """
        alone: list[QWidget] = [self.rounding]
        pages: list[QWidget] = [*self.pictures.pages, self._map]
        offered, hidden = (pages, alone) if compared else (alone, pages)
        for page in offered:
            self.offer_page(page, True)
        if self.tabs.currentWidget() in hidden:
            self.show_page(offered[0])
        for page in hidden:
            self.offer_page(page, False)

    def _show_header(self, subject: SelectedPair) -> None:
        tensor, pair = subject.tensor, subject.partner.pair
        facts, notes = [], []  # the head has type and shape
        weights = tensor.parameters
        if pair is not None:
            reference, candidate = pair.reference_name, pair.candidate_name
            types = f"{pair.candidate_type} against {pair.reference_type}"
            facts, weights = [types, shape_text(pair.shape)], pair.parameters
            if reference != candidate:
                notes.append(f"Compared: {candidate} with {reference}.")
            if pair.notes:
                notes.append(f"Before the comparison: {', '.join(pair.notes)}.")
        facts.append(counted(weights, "weight"))
        if len(self._rows) > 1:
            count = integer_text(len(self._rows))
            facts.append(f"the first of {count} selected tensors")
        self.header.show_texts(tensor.name, "   ·   ".join(facts), " ".join(notes))
