"""The line above the pages of all tensors, and controls of these pages."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QCheckBox, QComboBox, QWidget

from explorer.analysis.columns import Source
from explorer.present.errors import NO_MATRIX
from explorer.present.panels import WORST_TENSORS
from explorer.present.survey import to_read_text
from explorer.present.tables.survey import METRICS, Metric
from explorer.qt.jobs import all_cores
from explorer.qt.survey.map_paint import Scale
from explorer.qt.survey.session import SurveySession, SurveyState
from explorer.qt.theme import Space
from explorer.qt.widgets.building import row
from explorer.qt.widgets.progress import RestingLine
from explorer.qt.widgets.ranges import RangeFields
from explorer.text import bytes_text, counted, integer_text, plain_text


class SurveyBar(RestingLine):
    """What is known of all tensors, what a survey would read, and how far it is."""

    def __init__(self, session: SurveySession, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        session.shows_progress = self.is_shown
        self.resume_requested.connect(session.start)
        self.cancel_requested.connect(session.cancel)
        session.state_changed.connect(self.follow)
        session.grown.connect(self.follow)
        self.follow()

    def follow(self) -> None:
        session, progress = self._session, self._session.progress
        if progress is None:
            wanted = session.state is SurveyState.READY and session.missing
            self.rest(self._known_text(), start_text(session) if wanted else "")
        else:
            if not self.running:
                self.start()
            self.show_progress(progress.done, progress.total, progress.nbytes)

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
        misfits = [one for each in found for one in each.misfits.items()]
        problems = [what for one in found for what in one.problems.values()]
        if problems:
            text += f". {integer_text(len(problems))} cannot be compared: {plain_text(problems[0])}"
        if session.missing:
            text += f". {reading_text(session)}"
        elif session.references.matrix is None and not problems:
            text += f". {NO_MATRIX}"
        elif misfits:
            name, what = map(plain_text, misfits[0])
            text += f". The importance matrix does not fit {name}: {what}"
        return text.removesuffix(".") + "."


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
    took = to_read_text(session.missing_weights, session.missing_bytes, all_cores())
    return f"The others take {took}"


class TypedRange(QWidget):
    """A range that the user may type, in the unit in which a metric is shown.

    Signals:
        changed: Another range is to be used, or none.
    """

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._metric: Metric | None = None
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

    def value(self, metric: Metric, found: Scale) -> tuple[float, float] | None:
        """Return the range of a metric; None if it has its own, as every other metric at first.

        Args:
            metric: The metric.
            found: Its own range, which is offered to who types one.
        """
        if metric is not self._metric:
            with QSignalBlocker(self.wanted):
                self.wanted.setChecked(False)
            self.edges.hide()
        self._metric = metric
        if self.wanted.isChecked():
            typed = self.edges.value()
            return None if typed is None else (typed[0] / metric.unit, typed[1] / metric.unit)
        if isfinite(found.low):
            self.edges.suggest(metric.unit * found.low, metric.unit * found.high)
        return None

    def _begin(self, on: bool) -> None:
        self.edges.setVisible(on)
        if on:
            self.edges.begin()
        self.changed.emit()
