"""Controls of a survey, and the notice above a view that lacks data."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QCheckBox, QComboBox, QProgressBar, QPushButton, QWidget

from explorer.analysis.columns import Source
from explorer.present.errors import NO_MATRIX
from explorer.present.survey import to_read_text
from explorer.present.tables.survey import METRICS, Metric
from explorer.present.titles import WORST_TENSORS
from explorer.qt.jobs import all_cores
from explorer.qt.survey.map_paint import Scale
from explorer.qt.survey.session import SurveySession, SurveyState
from explorer.qt.theme import Space
from explorer.qt.widgets.building import LINE, NOTE, row
from explorer.qt.widgets.labels import ElidedLabel, plain_label
from explorer.qt.widgets.plot_panel import RangeFields
from explorer.qt.widgets.progress import Pace
from explorer.text import bytes_text, counted, integer_text, plain_text

_STEPS = 1000


class SurveyBar(QWidget):
    """Controls of a survey, and how far it is."""

    def __init__(self, session: SurveySession, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._pace = Pace()
        self.start = QPushButton(self)
        self.start.clicked.connect(session.start)
        self.pause = QPushButton(self)
        self.pause.clicked.connect(self._pause_or_resume)
        self.cancel = QPushButton("Cancel", self)
        self.cancel.setToolTip("Stop. The results so far stay (Escape)")
        self.cancel.clicked.connect(session.cancel)
        self.bar = QProgressBar(self)
        self.bar.setTextVisible(False)
        self.bar.setFixedWidth(160)
        self.bar.setRange(0, _STEPS)
        self.bar.setAccessibleName("Progress")
        self.label = ElidedLabel(self)
        self.label.setFixedHeight(self.bar.sizeHint().height())  # the pages must not jump
        row(self.bar, (self.label, 1), self.start, self.pause, self.cancel, of=self, margins=LINE)
        session.state_changed.connect(self.follow)
        session.grown.connect(self._show_progress)
        self.follow()

    def follow(self) -> None:
        session = self._session
        state, missing = session.state, bool(session.missing)
        under_way = state in (SurveyState.RUNNING, SurveyState.PAUSED)
        self.start.setVisible(not under_way and (missing or not session.compares))
        self.start.setEnabled(state is SurveyState.READY and missing)
        self.start.setText(start_text(session) if missing else "Everything is measured")
        self.pause.setVisible(under_way)
        paused = state is SurveyState.PAUSED
        self.pause.setText("&Resume" if paused else "&Pause")
        self.cancel.setVisible(under_way)
        self.bar.setVisible(under_way)
        self._pace.forget()
        self._show_progress()

    def _pause_or_resume(self) -> None:
        if self._session.state is SurveyState.PAUSED:
            self._session.resume()
        else:
            self._session.pause()

    def _show_progress(self) -> None:
        session = self._session
        progress, state = session.progress, session.state
        if progress is None:
            self.label.setText(self._known_text())
            return
        share = progress.done / progress.total if progress.total else 1.0
        self.bar.setValue(round(_STEPS * share))
        text = self._pace.text(progress.done, progress.total, progress.nbytes, left=True)
        if state is SurveyState.PAUSED:
            text = f"Paused at {100 * share:.0f} %"
        self.label.setText(text)

    def _known_text(self) -> str:
        """Return what is known while nothing is under way."""
        session = self._session
        if session.document is None:
            return ""
        if session.content is None:
            return "Looking up earlier results…"
        if session.compares:
            return self._compared_text()
        statistics = session.content.statistics
        text = (
            f"{integer_text(int(statistics.known.sum()))} of "
            f"{integer_text(len(session.document.arrays))} tensors measured"
        )
        if statistics.problems:
            count = integer_text(len(statistics.problems))
            text += f". {count} cannot be read: see {WORST_TENSORS}"
        return text + "."

    def _compared_text(self) -> str:
        """Return how much of the models is compared."""
        session = self._session
        found = session.comparisons
        if session.references.chosen is None:
            return "Choose an original, or a type to round to: errors are measured against it."
        if not found:
            return "The tensors of both models are being matched."
        done = integer_text(sum(int(one.measured.sum()) for one in found))
        text = f"{done} of {counted(sum(len(one.pairs) for one in found), 'tensor')} compared"
        without = int((~found[0].comparable).sum())
        if without:
            text += f", {integer_text(without)} not comparable"
        if session.missing:
            text += f". {reading_text(session)}"
        return text.removesuffix(".") + "."

    def take_units(self) -> None:
        self.follow()


class Notice(QWidget):
    """Shows what has to be read before a figure is known; hidden if nothing has to be."""

    def __init__(self, session: SurveySession, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self.label = plain_label(self)
        self.label.setWordWrap(True)
        self.button = QPushButton(self)
        self.button.clicked.connect(session.start)
        row((self.label, 1), self.button, of=self, margins=NOTE)
        self.hide()

    def show_missing(self, of: Source | Metric) -> None:
        """Say what keeps figures of a source, or a metric, from being known."""
        session = self._session
        source = of.source if isinstance(of, Metric) else of
        needs_matrix = isinstance(of, Metric) and of.needs_matrix
        text, missing = "", session.missing if source is not Source.HEADER else 0
        if source is Source.ERRORS and session.references.chosen is None:
            text = "Choose above what to compare with: errors need an original, or a type."
        elif source is Source.ERRORS and session.comparison is None:
            text = "The tensors of both models are being matched."
        elif needs_matrix and session.references.matrix is None:
            text, missing = NO_MATRIX, 0
        elif needs_matrix and session.comparison is not None and session.comparison.misfits:
            name, what = next(iter(session.comparison.misfits.items()))
            text = f"The importance matrix does not fit {plain_text(name)}: {plain_text(what)}."
        elif missing:
            done = "compared" if session.compares else "measured"
            text = f"{counted(missing, 'tensor')} not {done} yet."
        self.label.setText(text)
        self.button.setVisible(bool(missing) and session.state is SurveyState.READY)
        self.button.setText(start_text(session))
        self.setVisible(bool(text) and session.content is not None)


def metrics_of(session: SurveySession) -> list[Metric]:
    """Return the metrics of the header, and those of what is measured: errors or statistics."""
    source = Source.ERRORS if session.compares else Source.STATISTICS
    return [metric for metric in METRICS if metric.source in (Source.HEADER, source)]


def list_metrics(choice: QComboBox, metrics: Iterable[Metric]) -> None:
    for metric in metrics:
        choice.addItem(metric.title, metric.name)
        choice.setItemData(choice.count() - 1, metric.tip, Qt.ItemDataRole.ToolTipRole)


def start_text(session: SurveySession) -> str:
    verb = "Compare" if session.compares else "Measure"
    return f"{verb} all tensors ({bytes_text(session.missing_bytes)})"


def reading_text(session: SurveySession) -> str:
    """Say how much has to be read, and about how long that takes on this machine."""
    weights = sum(float(one.parameters[one.missing].sum()) for one in session.comparisons)
    return f"The others take {to_read_text(weights, session.missing_bytes, all_cores())}"


class TypedRange(QWidget):
    """A range that the user may type, in the unit in which a metric is shown.

    Signals:
        changed: Another range is to be used, or none.
    """

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._metric: Metric | None = None
        self._found: Scale | None = None
        self.wanted = QCheckBox("&Set range…", self)
        self.wanted.setToolTip("Set the values of the first and the last colour")
        self.edges = RangeFields(self)
        self.edges.hide()
        row(self.wanted, self.edges, of=self, spacing=Space.NEAR)
        self.wanted.toggled.connect(self._begin)
        self.edges.changed.connect(self.changed)

    @property
    def problem(self) -> str:
        """Why the range is impossible, as a sentence; "" if it is not, or not wanted."""
        return self.edges.problem() if self.wanted.isChecked() else ""

    def value(self, metric: Metric, found: Scale | None) -> tuple[float, float] | None:
        """Return the range of a metric; None if it has its own, as every other metric at first."""
        if metric is not self._metric:
            with QSignalBlocker(self.wanted):
                self.wanted.setChecked(False)
            self.edges.hide()
        self._metric, self._found = metric, found
        typed = self.edges.value() if self.wanted.isChecked() else None
        return None if typed is None else (typed[0] / metric.unit, typed[1] / metric.unit)

    def _begin(self, on: bool) -> None:
        self.edges.setVisible(on)
        if on and self._metric is not None and self._found is not None:
            unit, found = self._metric.unit, self._found
            if isfinite(found.low):
                self.edges.suggest(unit * found.low, unit * found.high)
            self.edges.begin()
        self.changed.emit()
