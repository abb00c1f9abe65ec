"""Plans side by side: pinned scenarios of one model, and several models under the same settings."""

from __future__ import annotations

from PySide6.QtCore import QByteArray, Signal
from PySide6.QtWidgets import QHBoxLayout, QInputDialog, QLabel, QPushButton, QVBoxLayout, QWidget

from explorer.planner.inputs import Outcome, PlanInputs
from explorer.qt.jobs import JobRunner
from explorer.qt.models.planner.comparison import Candidate, comparison_columns
from explorer.qt.models.planner.session import PlannerSession
from explorer.qt.models.planner.state import Subject
from explorer.qt.models.planner.tables import LiveTable
from explorer.qt.views.planner.late_page import LatePage
from explorer.qt.views.tables.table_view import TableView


class ComparisonPage(LatePage):
    """A table of candidates; the first row is the current plan, from which the others differ."""

    def __init__(
        self, session: PlannerSession, runner: JobRunner, parent: QWidget | None = None
    ) -> None:
        super().__init__(session, parent)
        self.model = LiveTable(self)
        self.table = TableView(self.model, runner, self)
        self.table.setSelectionMode(TableView.SelectionMode.SingleSelection)
        self.line = QHBoxLayout()
        self.line.setContentsMargins(8, 4, 8, 2)
        self.line.setSpacing(6)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addLayout(self.line)
        layout.addWidget(self.table, 1)

    def candidates(self) -> list[Candidate]:
        """Return the rows, the current plan first."""
        raise NotImplementedError

    def refresh(self) -> None:
        """Show the current figures."""
        rows = self.candidates()
        kind = tuple(row.name for row in rows)
        columns = comparison_columns(rows) if rows else []
        if self.model.show(columns, len(rows), kind):
            self.table.show_columns(QByteArray())

    def now(self) -> list[Candidate]:
        """Return the row of the current plan."""
        outcome = self.session.outcome
        subject = self.session.state.subject
        if outcome is None or subject is None:
            return []
        return [Candidate(self._now_name(subject), outcome)]

    def _now_name(self, subject: Subject) -> str:
        raise NotImplementedError


class ScenariosPage(ComparisonPage):
    """Pinned inputs.

    Attributes:
        pin: Pins the current inputs.
        use: Makes a scenario the current one.
    """

    def __init__(
        self, session: PlannerSession, runner: JobRunner, parent: QWidget | None = None
    ) -> None:
        super().__init__(session, runner, parent)
        self._outcomes: dict[int, tuple[Subject, PlanInputs, Outcome]] = {}
        self.table.setAccessibleName(self.tr("Scenarios"))
        self.pin = self._button(self.tr("&Pin these settings"), self.tr("Keep them as a scenario"))
        self.use = self._button(self.tr("&Use"), self.tr("Go back to the selected scenario"))
        self.rename = self._button(self.tr("Re&name…"), self.tr("Name the selected scenario"))
        self.unpin = self._button(self.tr("Re&move"), self.tr("Forget the selected scenario"))
        hint = QLabel(self.tr("Differences are to the settings of now."), self)
        hint.setWordWrap(True)
        self.line.addWidget(hint, 1)
        self.pin.clicked.connect(self._pin)
        self.use.clicked.connect(self._use)
        self.rename.clicked.connect(self._rename)
        self.unpin.clicked.connect(self._unpin)
        self.table.selection_moved.connect(self._enable)
        self.table.row_opened.connect(lambda _: self._use())
        session.scenarios_changed.connect(self.invalidate)
        self._enable()

    def candidates(self) -> list[Candidate]:
        """Return now, and each scenario for the current model."""
        subject = self.session.state.subject
        rows = self.now()
        if subject is None:
            return rows
        scenarios = self.session.state.scenarios
        known, self._outcomes = self._outcomes, {}
        for place, scenario in enumerate(scenarios):
            kept = known.get(place)
            if kept is None or kept[0] is not subject or kept[1] is not scenario.inputs:
                outcome = self.session.state.outcome_of(subject, scenario.inputs)
                kept = subject, scenario.inputs, outcome
            self._outcomes[place] = kept
            rows.append(Candidate(scenario.name, kept[2]))
        return rows

    def chosen(self) -> int | None:
        """Return the place of the selected scenario, or None."""
        rows = self.table.selected_content_rows()
        place = int(rows[0]) - 1 if len(rows) else -1
        return place if 0 <= place < len(self.session.state.scenarios) else None

    def _now_name(self, subject: Subject) -> str:
        return self.tr("Now")

    def _pin(self) -> None:
        self.session.pin()

    def _use(self) -> None:
        place = self.chosen()
        if place is not None:
            self.session.set_inputs(self.session.state.scenarios[place].inputs)

    def _rename(self) -> None:
        place = self.chosen()
        if place is None:
            return
        name, right = QInputDialog.getText(
            self,
            self.tr("Rename scenario"),
            self.tr("Name:"),
            text=self.session.state.scenarios[place].name,
        )
        if right:
            self.session.rename(place, name)

    def _unpin(self) -> None:
        place = self.chosen()
        if place is not None:
            self.session.unpin(place)

    def _enable(self) -> None:
        on = self.chosen() is not None
        for button in (self.use, self.rename, self.unpin):
            button.setEnabled(on)

    def _button(self, text: str, tip: str) -> QPushButton:
        button = QPushButton(text, self)
        button.setToolTip(tip)
        self.line.addWidget(button)
        return button


class ModelsPage(ComparisonPage):
    """Other open models under the current settings.

    Signals:
        others_wanted: The page is looked at, so the other models are to be read.
    """

    others_wanted = Signal()

    def __init__(
        self, session: PlannerSession, runner: JobRunner, parent: QWidget | None = None
    ) -> None:
        super().__init__(session, runner, parent)
        self.table.setAccessibleName(self.tr("Models under the same settings"))
        self.hint = QLabel(self)
        self.hint.setWordWrap(True)
        self.line.addWidget(self.hint, 1)
        session.others_changed.connect(self.invalidate)

    def refresh(self) -> None:
        """Show the current figures."""
        self.others_wanted.emit()
        super().refresh()
        self.hint.setText(
            self.tr("All open models under these settings. Differences are to the first one.")
            if self.session.state.others
            else self.tr("Open another model to compare it under the same settings.")
        )

    def candidates(self) -> list[Candidate]:
        """Return the current model, and the others."""
        state = self.session.state
        others = [
            Candidate(other.title, state.outcome_of(other, state.inputs)) for other in state.others
        ]
        return self.now() + others

    def _now_name(self, subject: Subject) -> str:
        return subject.title
