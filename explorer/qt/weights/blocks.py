"""What a quantized tensor's blocks are made of: how its codes are used, how its scales spread."""

from __future__ import annotations

from functools import partial

import numpy as np
from PySide6.QtCore import QByteArray, QCoreApplication, QObject, Signal
from PySide6.QtWidgets import QWidget

from explorer.analysis import BlockStatistics, Distribution
from explorer.analysis.blocks import is_quantized
from explorer.present.explanations import code_texts, picture_text
from explorer.qt.document import Recent
from explorer.qt.jobs import JobRunner
from explorer.qt.weights.curves import SelectedTensor
from explorer.qt.weights.statistics_table import StatisticsTable, moment_lines
from explorer.qt.weights.work import blocks_request
from explorer.qt.widgets.curves import HistogramCurve, histogram_of
from explorer.qt.widgets.pages import PlotPage, Reader, Refusal, Request
from explorer.qt.widgets.plot_panel import PlotPanel, Readings, percent_text
from explorer.qt.widgets.table_model import Column, TableModel
from explorer.text import float_text, integer_text

# The codes of a quantized tensor: a line for each, and the curve of how often each is used.


_MOST_TICKS = 16


def code_columns(blocks: BlockStatistics) -> list[Column]:
    """Return the columns of the table of codes."""
    levels = blocks.levels
    counts = blocks.code_counts
    shares = 100 * counts / max(1, int(counts.sum()))
    tips = code_texts()

    def tr(text: str) -> str:
        return QCoreApplication.translate("CodeTable", text)

    return [
        Column(
            "code",
            tr("Code"),
            str,
            int,
            lambda: np.arange(len(counts)),
            numeric=True,
            tip=tips["code"],
        ),
        Column(
            "level",
            tr("Level"),
            lambda row: float_text(float(levels[row]), 4),
            lambda row: float(levels[row]),
            lambda: levels,
            numeric=True,
            tip=tips["level"],
        ),
        Column(
            "weights",
            tr("Weights"),
            lambda row: integer_text(int(counts[row])),
            lambda row: int(counts[row]),
            lambda: counts,
            numeric=True,
            tip=tips["weights"],
        ),
        Column(
            "share",
            tr("%"),
            lambda row: float_text(float(shares[row]), 3),
            lambda row: float(shares[row]),
            lambda: shares,
            numeric=True,
            tip=tips["share"],
        ),
    ]


def has_even_levels(blocks: BlockStatistics) -> bool:
    """Whether the levels count up by one, so that they can be the axis."""
    return bool(np.all(np.diff(blocks.levels) == 1))


def code_curve(name: str, blocks: BlockStatistics) -> HistogramCurve:
    """Return the counts of codes as a histogram with a bin for each.

    The axis is the level where levels count up by one, and the code's number elsewhere.
    """
    count = len(blocks.code_counts)
    start = float(blocks.levels[0]) if has_even_levels(blocks) else 0.0
    edges = np.arange(count + 1, dtype=np.float64) + (start - 0.5)
    total = int(blocks.code_counts.sum())
    nothing = float("nan")
    histogram = histogram_of(edges, blocks.code_counts)
    return HistogramCurve(name, -1, histogram, total, nothing, nothing, nothing, nothing)


def code_ticks(blocks: BlockStatistics) -> list[tuple[float, str]] | None:
    """Return the levels as texts of an axis of few codes; None if numbers do."""
    if has_even_levels(blocks) or len(blocks.levels) > _MOST_TICKS:
        return None
    return [(float(code), float_text(float(x), 4)) for code, x in enumerate(blocks.levels)]


_CODES_WIDTH = 360  # of the table: four columns


class BlockPages(QObject, Reader[BlockStatistics]):
    """The pages of codes, scales and minima, which one walk over the blocks fills.

    Attributes:
        codes: How often each code is used.
        scales: Distribution of the blocks' scales.
        minima: Distribution of their minima.

    Signals:
        minima_known: Whether the tensor has minima, as far as that is known of its type.
        exported: A file was written; its path.
        failed: A file could not be written.
    """

    minima_known = Signal(bool)
    exported = Signal(str)
    failed = Signal(object)

    def __init__(self, runner: JobRunner, parent: QWidget) -> None:
        super().__init__(parent)
        self._subject: SelectedTensor | None = None
        self._recent = Recent(0)
        self._prefix = ""
        self._blocks: BlockStatistics | None = None
        self._with_minima: set[str] = set()  # types that are known to have minima
        self._code_model = TableModel(self)
        self.codes = PlotPage(self._make_codes)
        self.scales = PlotPage(partial(self._make_spread, self.tr("Scale"), self.tr("Scales")))
        self.minima = PlotPage(partial(self._make_spread, self.tr("Minimum"), self.tr("Minima")))
        self.pages = self.codes, self.scales, self.minima
        self.begin_life(runner, self.pages)

    def show_subject(
        self, subject: SelectedTensor | None, recent: Recent, *, named: bool = False
    ) -> None:
        """Show another tensor; it is read when one of the pages is visible.

        Args:
            subject: The tensor.
            recent: What is known of its model.
            named: Whether to show its name: it is one of several.
        """
        self._prefix = f"{subject.name}:   " if named and subject is not None else ""
        self._subject = subject
        self._recent = recent
        self.minima_known.emit(
            subject is not None and subject.tensor.type.name in self._with_minima
        )
        self.restart()

    def clear(self) -> None:
        self._blocks = None

    def request(self) -> Request[BlockStatistics] | Refusal | None:
        subject, recent = self._subject, self._recent
        if subject is None:
            return None
        if not is_quantized(subject.tensor):
            sentence = self.tr("{name} has no codes and no scales.").format(name=subject.name)
            return Refusal(self.tr("Not quantized"), sentence)
        return blocks_request(subject, recent)

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
        for page, spread in ((self.scales, blocks.scales), (self.minima, blocks.minima)):
            if page.isVisible() and not page.has_content and spread is not None:
                noun = self.tr("scales") if page is self.scales else self.tr("minima")
                self._show_spread(page, subject, spread, noun)
        if self.codes.isVisible() and not self.codes.has_content:
            self._show_codes(subject, blocks)

    def _make_codes(self) -> PlotPanel:
        panel = PlotPanel(
            self._runner, self._code_model, self._describe_code, self.codes, _CODES_WIDTH
        )
        panel.plot.set_normal(False)
        panel.plot.setAccessibleName(self.tr("Histogram of codes"))
        panel.plot.setWhatsThis(picture_text("codes"))
        return self._connected(panel)

    def _make_spread(self, what: str, many: str) -> PlotPanel:
        panel = PlotPanel(self._runner, StatisticsTable(self), self._describe)
        panel.plot.setAccessibleName(self.tr("Histogram of {what}").format(what=many.lower()))
        panel.plot.setWhatsThis(picture_text("spread"))
        panel.plot.set_titles(what, self.tr("{what} in each bin").format(what=many))
        return self._connected(panel)

    def _connected(self, panel: PlotPanel) -> PlotPanel:
        panel.exported.connect(self.exported)
        panel.failed.connect(self.failed)
        return panel

    def _show_codes(self, subject: SelectedTensor, blocks: BlockStatistics) -> None:
        panel = self.codes.panel
        panel.file_name = f"{subject.name}-codes"
        even = has_even_levels(blocks)
        ticks = code_ticks(blocks)
        level, number = self.tr("Level of the code, before scaling"), self.tr("Code")
        panel.plot.set_titles(level if even or ticks else number, self.tr("Weights"))
        panel.plot.set_code_ticks(ticks)
        panel.plot.show_curves((code_curve(subject.name, blocks),))
        panel.plot.forget_zoom()
        self._code_model.set_content(code_columns(blocks), len(blocks.code_counts))
        panel.table.show_columns(QByteArray())
        used = int((blocks.code_counts > 0).sum())
        text = self.tr("{used} of {all} codes are used").format(
            used=integer_text(used), all=integer_text(len(blocks.code_counts))
        )
        panel.show_resting("")
        self.codes.show_plot(self._prefix + text)

    def _show_spread(
        self, page: PlotPage[PlotPanel], subject: SelectedTensor, spread: Distribution, noun: str
    ) -> None:
        assert self._blocks is not None
        panel = page.panel
        panel.file_name = f"{subject.name}-{noun}"
        curve = HistogramCurve.of_moments(subject.name, spread.histogram, spread.moments)
        panel.plot.show_curves((curve,))
        panel.plot.forget_zoom()
        model = panel.table.table
        assert isinstance(model, StatisticsTable)
        model.show_lines(moment_lines(spread.moments))
        panel.table.show_columns(QByteArray())
        panel.show_resting("")
        text = self.tr("{count} {noun}, each of {n} weights").format(
            count=integer_text(spread.moments.count),
            noun=noun,
            n=integer_text(self._blocks.weights_per_scale),
        )
        page.show_plot(self._prefix + text)

    def _describe_code(self, readings: Readings) -> str:
        reading, blocks = readings[0], self._blocks
        if blocks is None:
            return ""
        return self.tr("code {code}: level {level}   {count} weights   {share}").format(
            code=reading.index,
            level=float_text(float(blocks.levels[reading.index]), 5),
            count=integer_text(reading.count),
            share=percent_text(reading.share),
        )

    def _describe(self, readings: Readings) -> str:
        reading = readings[0]
        return self.tr("{low} to {high}   {count}   {share}").format(
            low=float_text(reading.low, 5),
            high=float_text(reading.high, 5),
            count=integer_text(reading.count),
            share=percent_text(reading.share),
        )
