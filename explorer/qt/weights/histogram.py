"""The histogram of one tensor or several, growing while they are read, and their statistics."""

from __future__ import annotations

import json
from collections.abc import Sequence

from PySide6 import QtWidgets
from PySide6.QtCore import QByteArray, Qt, QTimer, Signal

from explorer.parallel import LruCache
from explorer.present.explanations import picture_text
from explorer.qt.services import Services
from explorer.qt.theme import Space, scaled
from explorer.qt.weights.curves import (
    MOST_BINS,
    HistogramRequest,
    HistogramResult,
    RangeKind,
    SelectedTensor,
    can_divide,
)
from explorer.qt.weights.tensor_panel import StatisticsTable, statistic_lines
from explorer.qt.weights.work import known, read_histograms
from explorer.qt.widgets.building import LINE, NOTE, row, tab_through
from explorer.qt.widgets.controls import check, choice, label_of
from explorer.qt.widgets.curves import HistogramCurve, SmallMultiples
from explorer.qt.widgets.histogram_plot import MOST_SERIES
from explorer.qt.widgets.labels import NoteLabel
from explorer.qt.widgets.pages import ReadingPage, Request
from explorer.qt.widgets.plot_panel import TABLE_WIDTH, PlotPanel
from explorer.qt.widgets.progress import ProgressLine
from explorer.qt.widgets.ranges import RangeChoice
from explorer.text import counted, float_text, plain_text

_TYPING_MS = 250
_LONGEST_TEXT = 1000  # of what was kept


class HistogramControls(QtWidgets.QWidget):
    """A line of controls above the plot: bins, range, axis, and what is drawn.

    Signals:
        request_changed: Other bins or another range are wanted.
        refused: A range was typed that cannot be; a sentence, empty when it is right again.
    """

    request_changed = Signal()
    refused = Signal(str)

    def __init__(self, parent: QtWidgets.QWidget | None = None) -> None:
        super().__init__(parent)
        self.bins = QtWidgets.QSpinBox(self)
        self.bins.setGroupSeparatorShown(True)
        self.bins.setRange(1, MOST_BINS)
        self.bins.setValue(256)
        self.bins.setAccessibleName("Number of bins")
        self.range = RangeChoice(
            *(self, "Range of weights", "The weights that the bins cover"),
            ("0.1 to 99.9 %", RangeKind.ROBUST, "Leaves outliers out"),
            ("All weights", RangeKind.FULL, "From minimum to maximum"),
            typed_tip="A range of your own",
        )
        self.logarithmic = check(self, "&Logarithmic")
        normal = "The normal distribution of the same mean and standard deviation"
        self.normal = check(self, "&Normal curve", normal, on=True)
        self.marks = check(self, "&Marks", "Mean, standard deviation, minimum and maximum", on=True)
        self._boxes = {"logarithmic": self.logarithmic, "normal": self.normal, "marks": self.marks}
        self.arrangement = choice(
            *(self, "Several tensors", "How several tensors are drawn"),
            *("Overlaid", "Side by side", "Side by side, own ranges"),
        )
        self._typing = QTimer(self, singleShot=True, interval=_TYPING_MS)
        self._typing.timeout.connect(self.request_changed)
        self._lay_out()
        self.bins.valueChanged.connect(lambda _: self._typing.start())
        self.range.changed.connect(self._typing.stop)
        self.range.changed.connect(self.request_changed)

    @property
    def side_by_side(self) -> bool:
        """Whether several tensors are shown side by side."""
        return self.arrangement.currentIndex() > 0

    @property
    def own_ranges(self) -> bool:
        """Whether each of several tensors has bins of its own."""
        return self.arrangement.currentIndex() == 2

    def to_text(self) -> str:
        """Return the choices that are kept; a typed range belongs to one tensor and is not."""
        boxes = {name: box.isChecked() for name, box in self._boxes.items()}
        return json.dumps({"bins": self.bins.value(), "range": self.range.chosen, **boxes})

    def restore(self, text: str) -> None:
        """Set what was kept, where it is valid; call it before anything is shown."""
        try:
            kept = json.loads(text) if len(text) <= _LONGEST_TEXT else None
        except (ValueError, RecursionError):
            return
        if not isinstance(kept, dict):
            return
        bins, shown = kept.get("bins"), kept.get("range")
        if type(bins) is int and 1 <= bins <= MOST_BINS:
            self.bins.setValue(bins)
        if shown in (RangeKind.ROBUST, RangeKind.FULL):
            self.range.list.setCurrentIndex(self.range.list.findData(shown))
        for name, box in self._boxes.items():
            if isinstance(kept.get(name), bool):
                box.setChecked(kept[name])
        self._typing.stop()

    def wanted(self) -> HistogramRequest | None:
        """Return what is wanted; None if the typed range is impossible (see `refused`)."""
        kind, bins = RangeKind(self.range.chosen), self.bins.value()
        typed, problem = self.range.value(), self.range.problem()
        if typed is not None and not can_divide(*typed, bins):
            problem = "That range is too narrow for so many bins."
        self.refused.emit(problem)
        common = self.range.is_typed or not self.own_ranges
        return None if problem else HistogramRequest(bins, kind, typed, common)

    def set_several(self, on: bool) -> None:
        """Offer what applies to several tensors, or not."""
        self.arrangement.setVisible(on)

    def _lay_out(self) -> None:
        bins = label_of(self.bins, "&Bins"), self.bins
        shown = label_of(self.range.list, "&Range"), self.range
        boxes = self.logarithmic, self.normal, self.marks
        row(*bins, *shown, *boxes, 1, self.arrangement, of=self, margins=LINE, spacing=Space.NEAR)


_RARE_COLUMNS = ("count", "finite", "nan", "positive_inf", "negative_inf", "zeros")
_PLOT_HEIGHT, _TABLE_HEIGHT = 420, 190
_PLOT_WIDTH = 600


class HistogramPage(ReadingPage[HistogramResult]):
    """Controls, plot, statistics and progress.

    Attributes:
        result: What is shown; None while nothing is known.
        chosen_row: Content row of the one of several tensors that was brought to the front.

    Signals:
        row_chosen: One of several tensors was brought to the front; its content row.
    """

    row_chosen = Signal(int)

    def __init__(self, app: Services, parent: QtWidgets.QWidget | None = None) -> None:
        self.statistics = StatisticsTable()
        self.panel = PlotPanel(app, self.statistics)
        super().__init__(parent, self.panel)
        self.statistics.setParent(self)
        self._subjects: tuple[SelectedTensor, ...] = ()
        self._cache = LruCache(0)
        self._splitter_state = QByteArray()  # the splitter while the table stands beside one plot
        self.result: HistogramResult | None = None
        self.chosen_row: int | None = None
        self.controls = HistogramControls(self)
        self.plot = self.panel.plot
        self.plot.setAccessibleName("Histogram of weights")
        self.plot.setWhatsThis(picture_text("histogram"))
        self.plot.set_titles("Weight", "Weights in each bin")
        self.multiples = SmallMultiples(self)
        self._scroll = QtWidgets.QScrollArea(self, widgetResizable=True)
        self._scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._scroll.setWidget(self.multiples)
        self.panel.area.addWidget(self._scroll)
        self.note = NoteLabel("Note", self)
        self.note.setContentsMargins(*NOTE)
        self.progress = ProgressLine(self)
        self.frame.insertWidget(0, self.controls)
        self.frame.insertWidget(1, self.note)
        tab_through(self.controls, *self.panel.stops)
        self.frame.addWidget(self.progress)
        self._connect()
        self.begin_life(app, (self,), self.progress)

    def _connect(self) -> None:
        controls = self.controls
        controls.request_changed.connect(self.load)
        controls.refused.connect(self.note.say)
        controls.logarithmic.toggled.connect(self.plot.set_logarithmic)
        controls.logarithmic.toggled.connect(self.multiples.set_logarithmic)
        controls.normal.toggled.connect(self.plot.set_normal)
        controls.marks.toggled.connect(self.plot.set_marks)
        controls.arrangement.currentIndexChanged.connect(self._rearrange)
        self.multiples.bins_read.connect(self.panel.show_readings)
        self.multiples.save_requested.connect(self.panel.ask_export)
        self.multiples.copy_requested.connect(self.panel.copy_picture)
        rows = self.multiples
        rows.chosen.connect(lambda number: self._select_row(rows.curves[number].row))
        rows.opened.connect(lambda number: self._open(rows.curves[number].row))
        self.panel.table.row_selected.connect(self._choose_line)
        self.panel.table.row_opened.connect(self._open_line)

    def show_subjects(self, subjects: Sequence[SelectedTensor], cache: LruCache) -> None:
        """Show other tensors, or none; keep the results in the cache of their model."""
        self._subjects = tuple(subjects)
        self._cache = cache
        self.panel.file_name = subjects[0].name if len(subjects) == 1 else "tensors"
        self.controls.set_several(len(subjects) > 1)
        self.restart()

    def clear(self) -> None:
        self.result = None
        self.chosen_row = None
        self.note.say("")
        self._arrange()
        self.plot.show_curves(())
        self.multiples.show_curves(())
        self.statistics.clear()
        self.show_content()

    def choose_row(self, row: int) -> None:
        """Bring one of several tensors to the front by its content row, here and in the table."""
        if len(self._subjects) > 1 and row != self.chosen_row:
            self.chosen_row = row
            self._highlight_chosen()
            if not self._select_row(row):
                self.panel.table.clearSelection()

    def splitter_state(self) -> QByteArray:
        """Return how wide plot and table are beside each other."""
        splitter = self.panel.splitter
        beside = splitter.orientation() == Qt.Orientation.Horizontal
        return splitter.saveState() if beside else self._splitter_state

    def restore_splitter(self, state: QByteArray) -> None:
        """Make plot and table as wide as they were saved; if nothing was, as wide as built."""
        splitter = self.panel.splitter
        if splitter.orientation() != Qt.Orientation.Horizontal:
            self._splitter_state = state
        elif state.isEmpty() or not splitter.restoreState(state):
            splitter.setSizes([_PLOT_WIDTH, scaled(TABLE_WIDTH)])

    def request(self) -> Request[HistogramResult] | None:
        wanted = self.controls.wanted()
        subjects, cache = self._subjects, self._cache
        if wanted is None or not subjects:
            return None
        title = f"Reading {plain_text(subjects[0].name)}"
        if len(subjects) > 1:
            title = f"Reading {len(subjects)} tensors"
        return Request(
            key=(subjects, wanted, id(cache)),
            title=title,
            heading="",
            failure="The weights could not be read",
            work=lambda job: read_histograms(subjects, wanted, cache, job),
            known=lambda: known(subjects, wanted, cache),
            tensors=[one.tensor for one in subjects],
        )

    def show_part(self, part: HistogramResult) -> None:
        self.progress.show_progress(part.done, part.total, part.nbytes)
        self.show_result(part)

    def show_result(self, result: HistogramResult) -> None:
        self.show_content()
        first = self.result is None
        self.result = result
        curves = result.curves
        if self.controls.side_by_side and len(self._subjects) > 1:
            self.multiples.show_curves(curves)
            self.multiples.highlight(self.chosen_row)
        else:
            grown = len(curves) != len(self.plot.curves)
            self.plot.show_curves(curves)
            if grown and self.chosen_row is not None:
                self.plot.highlight(self.chosen_row)
        if len(self._subjects) > 1:
            self.statistics.show_several(result.statistics)
        elif result.statistics:
            self.statistics.show_lines(statistic_lines(result.statistics[0]))
        if first:
            self.panel.table.show_columns(QByteArray(), _RARE_COLUMNS)
        if curves:
            histogram = curves[0].histogram
            self.controls.range.suggest(histogram.low, histogram.high)
        self.panel.show_resting(self._summary(curves))
        if result.failures:
            self.note.say(self._failure_text(result))
        elif result.exact and not any(each.moments.finite for each in result.statistics):
            self.note.say("No weight is finite, so there is nothing to draw.")

    def _summary(self, curves: Sequence[HistogramCurve]) -> str:
        if len(curves) != 1:
            text = "Select a tensor in the table to bring it to the front"
            if len(curves) > MOST_SERIES and not self.controls.side_by_side:
                text += ". Colours run from dark to bright in the table's order"
            return text
        curve = curves[0]
        bins = curve.histogram.counts.size
        width = (curve.histogram.high - curve.histogram.low) / bins
        text = f"{counted(bins, 'bin')} of {float_text(width, 3)}"
        if self.result is not None and self.result.exact and curve.outside:
            share = 100 * curve.outside / curve.total
            text += f"   {counted(curve.outside, 'weight')} ({float_text(share, 2)} %) outside"
        return text

    def _failure_text(self, result: HistogramResult) -> str:
        subject, error = result.failures[0]
        text = f"Not shown: {subject.name}: {error.what}"
        more = len(result.failures) - 1
        return f"{text} And {more} more." if more else text

    def _arrange(self) -> None:
        """Put plots and table where they have room."""
        several = len(self._subjects) > 1
        beside = several and self.controls.side_by_side
        self.panel.area.setCurrentWidget(self._scroll if beside else self.plot)
        self.panel.picture = self.multiples if beside else self.plot
        for widget in (self.controls.normal, self.controls.marks):
            widget.setEnabled(not beside)
        splitter = self.panel.splitter
        wanted = Qt.Orientation.Vertical if several else Qt.Orientation.Horizontal
        if splitter.orientation() != wanted:
            if several:
                self._splitter_state = splitter.saveState()
            splitter.setOrientation(wanted)
            splitter.setStretchFactor(0, _PLOT_HEIGHT if several else 1)
            splitter.setStretchFactor(1, _TABLE_HEIGHT if several else 0)
            splitter.setSizes(
                [_PLOT_HEIGHT, _TABLE_HEIGHT] if several else [_PLOT_WIDTH, scaled(TABLE_WIDTH)]
            )
            if not several:
                splitter.restoreState(self._splitter_state)
        if self.result is not None:
            self.show_result(self.result)

    def _rearrange(self) -> None:
        self._arrange()
        self.load()

    def _row_of(self, line: int) -> int | None:
        """Return the content row of the tensor on a line of the table; None if it is of one."""
        if len(self._subjects) < 2 or self.result is None or line < 0:
            return None
        return self.result.statistics[line].subject.row

    def _choose_line(self, line: int) -> None:
        chosen = self._row_of(line)
        if chosen is not None:
            self.chosen_row = chosen
            self._highlight_chosen()
            self.row_chosen.emit(chosen)

    def _open_line(self, line: int) -> None:
        chosen = self._row_of(line)
        if chosen is not None:
            self._open(chosen)

    def _open(self, tensor: int) -> None:
        self.app.selection.select_tensors([tensor])

    def _highlight_chosen(self) -> None:
        self.plot.highlight(self.chosen_row)
        self.multiples.highlight(self.chosen_row)

    def _select_row(self, row: int) -> bool:
        """Select the line of a tensor; return whether there is one."""
        rows = [each.subject.row for each in self.result.statistics] if self.result else []
        return row in rows and self.panel.table.select_row(rows.index(row))
