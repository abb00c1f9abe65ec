"""The pages of weights, errors and density, which one walk over both tensors fills."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TypeAlias

from PySide6.QtCore import QByteArray, QCoreApplication, QObject, QSignalBlocker, QTimer, Signal
from PySide6.QtGui import QHideEvent, QPalette, QShowEvent
from PySide6.QtWidgets import QComboBox, QStackedWidget, QVBoxLayout, QWidget

from explorer.analysis.blocks import BlockStatistics
from explorer.analysis.errors.compare import ExpectedRounding, expected_rounding
from explorer.analysis.errors.pictures import ErrorPicture, PairSquare
from explorer.errors import ExplorerError
from explorer.present.explanations import picture_text
from explorer.qt.document import Recent
from explorer.qt.errors.plots import CellReading, DensityPlot, ErrorPlot
from explorer.qt.errors.work import (
    PairSubject,
    error_lines,
    gather_errors,
    implied_lines,
    known_picture,
)
from explorer.qt.jobs import Job, JobRunner, JobSlot
from explorer.qt.weights.curves import HistogramCurve, Subject, is_quantized
from explorer.qt.weights.statistics_table import StatisticsTable
from explorer.qt.weights.work import block_figures
from explorer.qt.widgets.labels import StatePage, plain_label
from explorer.qt.widgets.pages import PlotPage
from explorer.qt.widgets.plot_panel import PicturePanel, PlotPanel, Readings, percent_text
from explorer.qt.widgets.progress import ProgressLine
from explorer.qt.widgets.table_view import TableView
from explorer.text import float_text, integer_text, plain_text

# The three pictures of an error with table and read-out: weights, errors, density.


TABLE_WIDTH = 310
"""What the table of errors needs, in pixels."""

MOST, ALL, SIZES = range(3)
"""Places in the list of ranges; the last is only there for errors."""


class RangeChoice(QComboBox):
    """Which part of the weights, or of the errors, a picture shows.

    Args:
        errors: Whether errors are shown, of which the sizes may be shown instead.
    """

    changed = Signal()

    def __init__(self, *, errors: bool) -> None:
        super().__init__()
        self.setAccessibleName(self.tr("Range"))
        self.setToolTip(self.tr("Which part is shown"))
        self.addItem(self.tr("Without the outermost 0.1 %"))
        self.addItem(self.tr("All errors") if errors else self.tr("All weights"))
        if errors:
            self.addItem(self.tr("Sizes |e|, powers of ten"))
        self.currentIndexChanged.connect(lambda _: self.changed.emit())

    def choose(self, place: int) -> None:
        """Choose without telling."""
        with QSignalBlocker(self):
            self.setCurrentIndex(place)


class WeightsPanel(PlotPanel):
    """Histograms of reference and candidate over each other."""

    def __init__(
        self, runner: JobRunner, table: StatisticsTable, parent: QWidget | None = None
    ) -> None:
        super().__init__(runner, table, self._describe_pairs, parent, TABLE_WIDTH)
        self.plot.set_titles(self.tr("Weight"), self.tr("Weights in each bin"))
        self.plot.setAccessibleName(self.tr("Histograms of reference and candidate"))
        self.plot.setWhatsThis(picture_text("pair_histograms"))

    def show_picture(self, picture: ErrorPicture, types: Sequence[str], place: int) -> str:
        """Draw a picture; return what to say above it.

        Args:
            picture: What to draw.
            types: Of reference and candidate.
            place: Which part of it.
        """
        square = _square(picture, place)
        names = self.tr("reference, {type}"), self.tr("candidate, {type}")
        histograms = square.reference, square.candidate
        self.plot.show_curves(
            tuple(
                HistogramCurve(
                    name.format(type=kind),
                    -1,
                    histogram,
                    picture.figures.compared,
                    *[math.nan] * 4,
                )
                for name, kind, histogram in zip(names, types, histograms, strict=True)
            )
        )
        return _inside(square, picture)

    def _describe_pairs(self, readings: Readings) -> str:
        first = readings[0]
        text = self.tr("{low} to {high}").format(
            low=float_text(first.low, 5), high=float_text(first.high, 5)
        )
        for reading in readings:
            told = self.tr("{curve}: {count} ({share})").format(
                curve=reading.curve,
                count=integer_text(reading.count),
                share=percent_text(reading.share),
            )
            text += f"   {told}"
        return text


class ErrorPanel(PlotPanel):
    """Histogram of errors, or of their sizes."""

    plot: ErrorPlot

    def __init__(
        self, runner: JobRunner, table: StatisticsTable, parent: QWidget | None = None
    ) -> None:
        super().__init__(
            runner, table, self._describe_error, parent, TABLE_WIDTH, ErrorPlot(parent)
        )

    def show_picture(self, picture: ErrorPicture, types: Sequence[str], place: int) -> str:
        """Draw a picture; see `WeightsPanel.show_picture`."""
        figures = picture.figures
        mean, std = figures.mean_error, math.nan
        if figures.compared:
            std = math.sqrt(max(0.0, figures.rmse**2 - mean**2))
        histogram = picture.most_errors if place == MOST else picture.all_errors
        if place == SIZES:
            histogram, mean, std = picture.magnitudes, math.nan, math.nan
        total = figures.compared
        curve = HistogramCurve(
            self.tr("error"), -1, histogram, total, mean, std, math.nan, math.nan
        )
        what = self.tr("Size of the error, |candidate - reference|")
        if place != SIZES:
            what = self.tr("Error, candidate - reference")
        self.plot.set_titles(what, self.tr("Weights in each bin"))
        self.plot.show_errors(curve, by_size=place == SIZES)
        if place == SIZES:
            text = self.tr("{n} weights ({share}) have no error and are left out")
            count = curve.outside
        else:
            text = self.tr("{n} errors ({share}) lie outside") if curve.outside else ""
            count = curve.outside
        share = percent_text(count / total if total else 0.0)
        return text.format(n=integer_text(count), share=share)

    def _describe_error(self, readings: Readings) -> str:
        reading = readings[0]
        low, high = self.plot.errors_of(reading)
        return self.tr("{low} to {high}   {count} weights   {share}").format(
            low=float_text(low, 4),
            high=float_text(high, 4),
            count=integer_text(reading.count),
            share=percent_text(reading.share),
        )


class DensityPanel(PicturePanel):
    """Reference against candidate.

    Attributes:
        plot: The image.
    """

    def __init__(
        self, runner: JobRunner, table: StatisticsTable, parent: QWidget | None = None
    ) -> None:
        plot = DensityPlot(parent)
        super().__init__(runner, plot, table, parent, TABLE_WIDTH)
        self.plot = plot
        self._total = 0
        plot.cell_read.connect(self._describe)

    def set_logarithmic(self, on: bool) -> None:
        self.plot.set_logarithmic(on)

    def show_picture(self, picture: ErrorPicture, types: Sequence[str], place: int) -> str:
        """Draw a picture; see `WeightsPanel.show_picture`."""
        square = _square(picture, place)
        self._total = picture.figures.compared
        self.plot.show_square(square)
        return _inside(square, picture)

    def _describe(self, reading: CellReading | None) -> None:
        if reading is None:
            self.show_text("")
            return
        low, high = (
            self.tr("{low} to {high}").format(
                low=float_text(ends[0], 4), high=float_text(ends[1], 4)
            )
            for ends in (reading.reference, reading.candidate)
        )
        text = self.tr("reference {reference}   candidate {candidate}   {n} weights   {share}")
        share = percent_text(reading.count / self._total if self._total else 0.0)
        count = integer_text(reading.count)
        self.show_text(text.format(reference=low, candidate=high, n=count, share=share))


def _square(picture: ErrorPicture, place: int) -> PairSquare:
    return picture.most_pairs if place == MOST else picture.all_pairs


def _inside(square: PairSquare, picture: ErrorPicture) -> str:
    """Say how many pairs are left out."""
    if not square.outside:
        return ""
    share = percent_text(square.outside / picture.figures.compared)
    text = QCoreApplication.translate(
        "PicturePages", "{n} pairs ({share}) have a weight that lies outside, and are left out"
    )
    return text.format(n=integer_text(square.outside), share=share)


AnyPanel: TypeAlias = WeightsPanel | ErrorPanel | DensityPanel


class PicturePage(PlotPage[AnyPanel]):
    """A page of errors: a plot, the choice of its range, and the table of figures.

    Attributes:
        range: Which part is shown.

    Signals:
        exported: A file was written; its path.
        failed: A file could not be written.
    """

    exported = Signal(str)
    failed = Signal(object)

    def __init__(self, kind: type[AnyPanel], runner: JobRunner, table: StatisticsTable) -> None:
        def make() -> AnyPanel:
            panel = kind(runner, table, self)
            panel.exported.connect(self.exported)
            panel.failed.connect(self.failed)
            return panel

        super().__init__(make)
        self.range = RangeChoice(errors=kind is ErrorPanel)
        self.bar.insertWidget(1, self.range)


class PicturePages(QObject):
    """Reads a tensor and its reference, and shows what comes of it as it comes.

    Attributes:
        weights: Both as histograms.
        errors: The histogram of errors.
        density: One against the other.
        table: The figures, which stand beside each.
        picture: What is shown; None while nothing is known.

    Signals:
        exported: A file was written; its path.
        failed: A file could not be written.
    """

    exported = Signal(str)
    failed = Signal(object)

    def __init__(self, runner: JobRunner, progress: ProgressLine, parent: QWidget) -> None:
        super().__init__(parent)
        self._runner = runner
        self._slot = JobSlot(runner, self)
        self._progress = progress
        self._subject: PairSubject | None = None
        self._recent = Recent(0)
        self.picture: ErrorPicture | None = None
        self.table = StatisticsTable(self)
        self.weights = PicturePage(WeightsPanel, runner, self.table)
        self.errors = PicturePage(ErrorPanel, runner, self.table)
        self.density = PicturePage(DensityPanel, runner, self.table)
        self.density.logarithmic.setChecked(True)
        for page in self.pages:
            page.exported.connect(self.exported)
            page.failed.connect(self.failed)
            page.state.pressed.connect(self._load)
            page.shown.connect(self._load)
            page.hidden.connect(self._leave)
            page.range.changed.connect(partial(self._change_range, page))
        progress.cancel_requested.connect(self.cancel)
        progress.resume_requested.connect(self._load)

    @property
    def pages(self) -> tuple[PicturePage, PicturePage, PicturePage]:
        """Return all pages."""
        return self.weights, self.errors, self.density

    @property
    def busy(self) -> bool:
        """Whether weights are read."""
        return self._slot.busy

    def show_subject(self, subject: PairSubject | None, recent: Recent) -> None:
        """Show another tensor; it is read when one of the pages is looked at.

        Args:
            subject: The tensor; None ends all reading.
            recent: What is known of its model.
        """
        self._slot.cancel()
        self._progress.finish()
        self._subject = subject
        self._recent = recent
        self.picture = None
        for page in self.pages:
            page.tell("", "")
        if subject is None:
            return
        if subject.pair is None:
            for page in self.pages:
                heading = self.tr("Preparing…") if subject.waiting else self.tr("Not comparable")
                page.tell(heading, subject.reason)
        elif self._seen:
            self._load()

    def cancel(self) -> None:
        """Stop reading; what was read so far stays."""
        if self._slot.busy:
            self._slot.cancel()
            self._tell_stopped()

    @property
    def _seen(self) -> bool:
        return any(page.isVisible() for page in self.pages)

    def _load(self) -> None:
        subject, recent = self._subject, self._recent
        if subject is None or subject.pair is None or not self._seen:
            return
        if self.picture is not None:
            self._fill()
            if self.picture.complete:
                return
        if self._slot.busy:
            return
        found = known_picture(subject, recent)
        if found is not None:
            self._finish(found)
            return
        for page in self.pages:
            if not page.has_content:
                page.tell(self.tr("Reading the weights…"), subject.name)
        self._progress.start()

        def read(job: Job) -> ErrorPicture:
            return gather_errors(subject, recent, job)

        title = self.tr("Comparing {name}").format(name=subject.name)
        job = self._slot.run(title, read, self._finish, self._fail)
        job.published.connect(self._grow)
        job.finished.connect(partial(self._look_for_cancelled, job))

    def _leave(self) -> None:
        # from one page to another, the first is hidden before the second is shown
        QTimer.singleShot(0, self, self._stop_unseen)

    def _stop_unseen(self) -> None:
        if not self._seen:
            self.cancel()

    def _grow(self, picture: ErrorPicture) -> None:
        subject = self._subject
        if subject is not None:
            share = picture.done / picture.total if picture.total else 1.0
            nbytes = round(share * subject.nbytes)
            self._progress.show_progress(picture.done, picture.total, nbytes)
            self._show(picture)

    def _finish(self, picture: ErrorPicture) -> None:
        self._progress.finish()
        self._show(picture)

    def _fail(self, error: ExplorerError) -> None:
        self._progress.finish()
        for page in self.pages:
            heading = self.tr("The weights could not be compared")
            page.tell(heading, str(error), self.tr("Try again"))

    def _look_for_cancelled(self, job: Job) -> None:
        """Tell of a job that somebody else cancelled, such as the status bar."""
        if self._slot.stopped and job.cancelled and self._progress.running:
            self._tell_stopped()

    def _tell_stopped(self) -> None:
        self._progress.stop()
        for page in self.pages:
            if not page.has_content:
                page.tell(self.tr("Cancelled"), "", self.tr("Read on"))

    def _show(self, picture: ErrorPicture) -> None:
        first = self.picture is None
        self.picture = picture
        self.table.show_lines(error_lines(picture))
        for page in self.pages:
            if first and not page.isVisible():
                page.tell("", "")  # it is filled when it is looked at
        self._fill(first=first)

    def _fill(self, *, first: bool = False) -> None:
        """Fill the page that is looked at."""
        picture, subject = self.picture, self._subject
        if picture is None or subject is None or subject.pair is None:
            return
        pair = subject.pair
        for page in self.pages:
            if not page.isVisible():
                continue
            fresh = first or not page.has_content
            panel = page.panel
            if fresh:
                panel.file_name = f"{subject.name}-{self._noun(page)}"
                panel.show_resting("")
            if picture.figures.compared:
                types = pair.reference_type, pair.candidate_type
                page.show_content(panel.show_picture(picture, types, page.range.currentIndex()))
            elif picture.complete:
                heading = self.tr("Nothing to draw")
                page.tell(heading, self.tr("No weight is finite in both tensors."))
            if fresh:
                panel.plot.forget_zoom()
                panel.table.show_columns(QByteArray())

    def _change_range(self, page: PicturePage) -> None:
        if self.picture is not None and page.has_content:
            self._fill()
            page.panel.plot.forget_zoom()

    def _noun(self, page: PicturePage) -> str:
        names = {self.weights: "weights", self.errors: "errors", self.density: "density"}
        return names[page]


# What is known of a tensor's rounding as long as nothing is chosen to compare it with.


class ImpliedPage(QWidget):
    """A table of what blocks imply, or a sentence. Reads only while it is visible.

    Attributes:
        state: The sentence.
        hint: How to learn more.
        table: The figures.

    Signals:
        exported: The table was written; its path.
        failed: It could not be written; an `ExplorerError`.
        reference_wanted: The user wants to choose what to compare with.
    """

    exported = Signal(str)
    failed = Signal(object)
    reference_wanted = Signal()

    def __init__(self, runner: JobRunner, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._runner = runner
        self._slot = JobSlot(runner, self)
        self._subject: Subject | None = None
        self._recent = Recent(0)
        self.implied: ExpectedRounding | None = None
        self.state = StatePage(self)
        self.state.pressed.connect(self._press)
        self.hint = plain_label(
            self,
            self.tr(
                "Nothing is chosen to compare with. This is what the tensor's own blocks tell of "
                "its rounding. For true errors choose above: the unquantized model, or a type "
                "that the weights are rounded to."
            ),
        )
        self.hint.setWordWrap(True)
        self.hint.setForegroundRole(QPalette.ColorRole.PlaceholderText)
        self.hint.setContentsMargins(8, 8, 8, 8)
        self.model = StatisticsTable(self)
        self.table = TableView(self.model, runner, self)
        self.table.setAccessibleName(self.tr("What the blocks imply"))
        self.table.exported.connect(self.exported)
        self.table.failed.connect(self.failed)
        content = QWidget(self)
        column = QVBoxLayout(content)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.hint)
        column.addWidget(self.table, 1)
        self._content = content
        self._stack = QStackedWidget(self)
        self._stack.addWidget(self.state)
        self._stack.addWidget(content)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._stack)

    @property
    def busy(self) -> bool:
        """Whether blocks are read."""
        return self._slot.busy

    def show_subject(self, subject: Subject | None, recent: Recent) -> None:
        """Show another tensor; None ends all reading.

        Args:
            subject: The tensor.
            recent: What is known of its model.
        """
        self._slot.cancel()
        self._subject = subject
        self._recent = recent
        self.implied = None
        self._tell("", "")
        if subject is not None and self.isVisible():
            self._load()

    def cancel(self) -> None:
        """Stop reading."""
        if self._slot.busy:
            self._slot.cancel()
            self._tell(self.tr("Cancelled"), "", self.tr("Read on"))

    def _press(self) -> None:
        if self._subject is not None and not is_quantized(self._subject.tensor):
            self.reference_wanted.emit()
        else:
            self._load()

    def _load(self) -> None:
        subject, recent = self._subject, self._recent
        if subject is None or self.implied is not None or self._slot.busy:
            return
        if not is_quantized(subject.tensor):
            self._tell(
                self.tr("Not quantized"),
                self.tr(
                    "{name} is stored as {type}, without blocks that would tell of rounding. "
                    "Choose what to compare it with: another model, or a type that its weights "
                    "are rounded to."
                ).format(name=subject.name, type=subject.tensor.type.name),
                self.tr("Choose"),
            )
            return
        self._tell(self.tr("Reading the blocks…"), subject.name)

        def read(job: Job) -> BlockStatistics | None:
            return block_figures(subject, recent, job.check)

        title = self.tr("Reading the blocks of {name}").format(name=subject.name)
        job = self._slot.run(title, read, self._show, self._fail)
        job.finished.connect(self._look_for_cancelled)

    def _show(self, blocks: BlockStatistics | None) -> None:
        assert blocks is not None  # it is quantized
        self.implied = expected_rounding(blocks)
        self.model.show_lines(implied_lines(self.implied))
        self.table.show_columns(QByteArray())
        self._stack.setCurrentWidget(self._content)

    def _fail(self, error: ExplorerError) -> None:
        heading = self.tr("The blocks could not be read")
        self._tell(heading, str(error), self.tr("Try again"))

    def _look_for_cancelled(self) -> None:
        if self._slot.stopped:
            self._tell(self.tr("Cancelled"), "", self.tr("Read on"))

    def _tell(self, heading: str, sentence: str, button: str = "") -> None:
        self.state.tell(heading, plain_text(sentence), button)
        self._stack.setCurrentWidget(self.state)

    # Qt

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if not event.spontaneous():
            self._load()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        if not event.spontaneous():
            self.cancel()
