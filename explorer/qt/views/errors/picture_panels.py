"""The three pictures of an error with table and read-out: weights, errors, density."""

from __future__ import annotations

import math
from collections.abc import Sequence

from PySide6.QtCore import QCoreApplication, QSignalBlocker, Signal
from PySide6.QtWidgets import QComboBox, QWidget

from explorer.analysis.errors.pictures import ErrorPicture, PairSquare
from explorer.present.explanations import picture_text
from explorer.qt.jobs import JobRunner
from explorer.qt.models.weights.histogram_curve import HistogramCurve
from explorer.qt.models.weights.statistics_table import StatisticsTable
from explorer.qt.views.errors.density_plot import CellReading, DensityPlot
from explorer.qt.views.errors.error_plot import ErrorPlot
from explorer.qt.views.plots.plot_panel import PicturePanel, PlotPanel, Readings, percent_text
from explorer.text import float_text, integer_text

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
