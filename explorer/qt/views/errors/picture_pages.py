"""The pages of weights, errors and density, which one walk over both tensors fills."""

from __future__ import annotations

from functools import partial
from typing import TypeAlias

from PySide6.QtCore import QByteArray, QObject, QTimer, Signal
from PySide6.QtWidgets import QWidget

from explorer.analysis.errors.pictures import ErrorPicture
from explorer.errors import ExplorerError
from explorer.qt.jobs import Job, JobRunner
from explorer.qt.models.errors.gathering import (
    PairSubject,
    gather_errors,
    known_picture,
    load_error_kernels,
)
from explorer.qt.models.errors.table import error_lines
from explorer.qt.models.recent import Recent
from explorer.qt.models.weights.statistics_table import StatisticsTable
from explorer.qt.views.errors.picture_panels import (
    DensityPanel,
    ErrorPanel,
    RangeChoice,
    WeightsPanel,
)
from explorer.qt.views.plots.plot_page import PlotPage
from explorer.qt.views.progress.job_slot import JobSlot
from explorer.qt.views.progress.progress_line import ProgressLine

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
        kernels = subject.kernels
        self._progress.start(self._runner.need_kernels(kernels))

        def read(job: Job) -> ErrorPicture:
            load_error_kernels()  # while others are compiled
            self._runner.wait_for_kernels(kernels, job)
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
