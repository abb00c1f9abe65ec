"""Plans side by side: pinned scenarios of one model, and several models under the same settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from PySide6.QtCore import QByteArray, Qt, QTimer, Signal
from PySide6.QtGui import QFontMetrics, QGuiApplication, QShowEvent
from PySide6.QtWidgets import (
    QGridLayout,
    QHBoxLayout,
    QInputDialog,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QSplitter,
    QVBoxLayout,
    QWidget,
)

from explorer.planner.inputs import PlanInputs, PlanResult
from explorer.planner.result import Term
from explorer.present.explanations import picture_text
from explorer.present.plan import exact_text, layers_of, memory_bars
from explorer.present.plan_export import (
    Curves,
    environment_lines,
    modelfile_lines,
    plan_command,
    server_command,
)
from explorer.qt.jobs import JobRunner
from explorer.qt.planner.fields import CalmComboBox
from explorer.qt.planner.layer_strip import PlannerPicture, SavedPicture
from explorer.qt.planner.state import PlannerSession, Subject
from explorer.qt.planner.tables import (
    Candidate,
    LiveTable,
    bar_columns,
    comparison_columns,
    curve_columns,
    figure_text,
    input_columns,
    layer_columns,
    term_columns,
)
from explorer.qt.theme import monospace_font
from explorer.qt.widgets.labels import plain_label
from explorer.qt.widgets.plot_panel import PlotExport
from explorer.qt.widgets.table_model import Column
from explorer.qt.widgets.table_view import FilterBar, TableView
from explorer.text import plain_text

# A page beside the picture: it follows the plan only while it is seen, and not in every frame.


_DELAY_MS: Final = 80


class LatePage(QWidget):
    """Calls `refresh` soon after a change, while it is visible, and when it comes into sight.

    A drag changes the plan sixty times a second. The picture follows each time; a table of three
    hundred formulas need not, and must not take the time of a frame.
    """

    def __init__(self, session: PlannerSession, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.session = session
        self._delay = QTimer(self)
        self._delay.setSingleShot(True)
        self._delay.setInterval(_DELAY_MS)
        self._delay.timeout.connect(self._refresh_if_seen)
        session.planned.connect(self.invalidate)

    def refresh(self) -> None:
        """Show the current plan."""
        raise NotImplementedError

    def invalidate(self) -> None:
        """Refresh soon, if anybody looks."""
        if self.isVisible() and not self._delay.isActive():
            self._delay.start()

    @property
    def is_late(self) -> bool:
        """Whether a change is still to be shown."""
        return self._delay.isActive()

    def _refresh_if_seen(self) -> None:
        if self.isVisible():
            self.refresh()

    # Qt

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.refresh()


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
        self._outcomes: dict[int, tuple[Subject, PlanInputs, PlanResult]] = {}
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


# The twins of the charts: the same figures as tables, to read aloud, copy and export.


_BARS, _LAYERS, _CURVES = "bars", "layers", "curves"


class TablesPage(LatePage):
    """One table of the three.

    Attributes:
        choice: Which chart.
        table: Its twin.

    Signals:
        layer_chosen: A layer's row was selected; its number.
        curves_wanted: The curves are to be listed and are not made yet.
    """

    layer_chosen = Signal(int)
    curves_wanted = Signal()

    def __init__(
        self,
        session: PlannerSession,
        runner: JobRunner,
        curves: Callable[[], Curves | None],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(session, parent)
        self._curves = curves
        self._following = False
        self.choice = CalmComboBox(self)
        for name, text in (
            (_BARS, self.tr("Memory of each device")),
            (_LAYERS, self.tr("Layers and their devices")),
            (_CURVES, self.tr("Memory against context")),
        ):
            self.choice.addItem(text, name)
        self.choice.setAccessibleName(self.tr("Chart to show as a table"))
        self.model = LiveTable(self)
        self.table = TableView(self.model, runner, self)
        self.table.setAccessibleName(self.tr("Figures of the chart"))
        label = QLabel(self.tr("&Table of"), self)
        label.setBuddy(self.choice)
        line = QHBoxLayout()
        line.setContentsMargins(8, 4, 8, 0)
        line.addWidget(label)
        line.addWidget(self.choice)
        line.addStretch(1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addLayout(line)
        layout.addWidget(self.table, 1)
        self.choice.currentIndexChanged.connect(lambda _: self.refresh())
        self.table.row_selected.connect(self._tell_layer)

    def refresh(self) -> None:
        """Show the current figures."""
        kind = str(self.choice.currentData())
        columns, rows = self._content(kind)
        if self.model.show(columns, rows, kind):
            self.table.show_columns(QByteArray())

    def select_layer(self, layer: int) -> None:
        """Select a layer's row, if layers are listed."""
        if self.choice.currentData() == _LAYERS:
            self._following = True
            try:
                self.table.select_row(layer)
            finally:
                self._following = False

    def _content(self, kind: str) -> tuple[Sequence[Column], int]:
        outcome = self.session.outcome
        plan = None if outcome is None else outcome.plan
        if kind == _CURVES:
            curves = self._curves()
            if curves is None:
                self.curves_wanted.emit()
                return (), 0
            return curve_columns(curves), len(curves.curves[0].contexts)
        if plan is None:
            return (), 0
        bars = memory_bars(plan, self.session.inputs.host)
        if kind == _BARS:
            return bar_columns(bars), len(bars)
        layers = () if plan.layout is None else layers_of(plan.layout)
        names = [bar.title for bar in bars if bar.device is not None]
        return layer_columns(layers, names), len(layers)

    def _tell_layer(self, row: int) -> None:
        if self.choice.currentData() == _LAYERS and not self._following:
            self.layer_chosen.emit(row)


# Why a figure is what it is: its formula, the value of each symbol, and where that came from.


class WhyPage(LatePage):
    """All figures of the plan on the left; the reasons of one on the right.

    Attributes:
        figures: The table of figures.
        inputs: The table of a formula's symbols.
        formula: The formula.
    """

    def __init__(
        self, session: PlannerSession, runner: JobRunner, parent: QWidget | None = None
    ) -> None:
        super().__init__(session, parent)
        self._terms: tuple[Term, ...] = ()
        self._chosen = "total"
        self.search = FilterBar(self.tr("Filter figures:  devices[0]  graph  blk"), "", self)
        self.figure_model, self.input_model = LiveTable(self), LiveTable(self)
        self.figures = TableView(self.figure_model, runner, self)
        self.figures.setAccessibleName(self.tr("Figures of the plan"))
        self.figures.setSelectionMode(TableView.SelectionMode.SingleSelection)
        self.inputs = TableView(self.input_model, runner, self)
        self.inputs.setAccessibleName(self.tr("Symbols of the formula"))
        self.title = self._label()
        self.title.setAccessibleName(self.tr("Figure"))
        self.title.setWhatsThis(picture_text("figure"))
        self.formula = self._label()
        self.formula.setAccessibleName(self.tr("Formula"))
        self.formula.setWhatsThis(picture_text("formula"))
        self.formula.setFont(monospace_font())
        left, right = QWidget(self), QWidget(self)
        for side, widgets in (
            (left, (self.search, self.figures)),
            (right, (self.title, self.formula, self.inputs)),
        ):
            column = QVBoxLayout(side)
            column.setContentsMargins(0, 0, 0, 0)
            column.setSpacing(4)
            for widget in widgets:
                column.addWidget(widget, int(isinstance(widget, TableView)))
        splitter = QSplitter(self)
        splitter.addWidget(left)
        splitter.addWidget(right)
        splitter.setChildrenCollapsible(False)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(splitter)
        self.figures.row_selected.connect(self._choose_row)
        self.inputs.row_opened.connect(self._follow_input)
        self.search.changed.connect(self._filter)

    def show_figure(self, name: str) -> None:
        """Show the reasons of a figure, by its place in the plan's JSON."""
        self._chosen = name
        self.search.edit.clear()
        self.refresh()
        names = [term.name for term in self._terms]
        if name in names:
            self.figures.select_row(names.index(name))

    def refresh(self) -> None:
        """Show the figures of the current plan."""
        outcome = self.session.outcome
        plan = None if outcome is None else outcome.plan
        self._terms = () if plan is None else plan.terms
        names = tuple(term.name for term in self._terms)
        if self.figure_model.show(term_columns(self._terms), len(self._terms), names):
            self.figures.show_columns(QByteArray())
            self._filter(self.search.text)
        self._show_chosen()

    def _filter(self, text: str) -> None:
        words = text.casefold().split()
        mask = np.array([all(w in term.name.casefold() for w in words) for term in self._terms])
        self.figure_model.set_filter(mask.astype(np.bool_) if words else None)

    def _choose_row(self, row: int) -> None:
        if row < len(self._terms):
            self._chosen = self._terms[row].name
            self._show_chosen()

    def _follow_input(self, row: int) -> None:
        """Go on to the figure that a symbol stands for, if it is one."""
        term = next((term for term in self._terms if term.name == self._chosen), None)
        if term is not None and row < len(term.inputs):
            origin = list(term.inputs.values())[row].origin
            if any(other.name == origin for other in self._terms):
                self.show_figure(origin)

    def _show_chosen(self) -> None:
        term = next((term for term in self._terms if term.name == self._chosen), None)
        if term is None:
            self.title.setText(self.tr("Choose a figure to see why it is what it is."))
            self.formula.clear()
            self.input_model.show((), 0)
            return
        value = exact_text(term.value) if isinstance(term.value, int) else figure_text(term.value)
        self.title.setText(f"{term.name} = {value}")
        self.formula.setText(f"= {plain_text(term.formula)}")
        inputs = list(term.inputs.items())
        if self.input_model.show(input_columns(inputs), len(inputs), term.name):
            self.inputs.show_columns(QByteArray())

    def _label(self) -> QLabel:
        label = plain_label(self)
        label.setWordWrap(True)
        label.setContentsMargins(8, 2, 8, 0)
        label.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse
            | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        return label


# The settings for other programs, ready to copy; the picture and the tables, ready to save.


_LEAST_LINES: Final = 2


@dataclass(frozen=True)
class _Text:
    """One text to copy."""

    edit: QPlainTextEdit
    make: Callable[[], str]


class TakeAwayPage(LatePage):
    """Texts with a button each.

    Signals:
        exported: A file was written; its path.
        failed: A file could not be written.
    """

    exported = Signal(str)
    failed = Signal(object)

    def __init__(
        self,
        session: PlannerSession,
        runner: JobRunner,
        picture: PlannerPicture,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(session, parent)
        self._texts: dict[str, _Text] = {}
        self._buttons: dict[str, QPushButton] = {}
        self._grid = QGridLayout()
        self._grid.setHorizontalSpacing(8)
        self._export = PlotExport(runner, self, self.exported.emit, self.failed.emit)
        self._picture = SavedPicture(picture)
        for name, title, make in (
            ("command", self.tr("This plan"), self._command),
            ("environment", self.tr("Ollama's environment"), self._environment),
            ("modelfile", self.tr("Modelfile"), self._modelfile),
            ("server", self.tr("llama-server"), self._server),
        ):
            self._add(name, title, make)
        self.save = QPushButton(self.tr("&Save picture or data…"), self)
        self.save.setToolTip(self.tr("The bars and the layers as PNG, SVG or CSV"))
        self.save.clicked.connect(lambda: self._export.ask(self._picture, "memory-plan"))
        line = QHBoxLayout()
        line.addWidget(self.save)
        hint = QLabel(self.tr("The context menus of tables copy, and save CSV and JSON."), self)
        hint.setWordWrap(True)
        line.addWidget(hint, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(8, 6, 8, 6)
        layout.addLayout(self._grid, 1)
        layout.addLayout(line)

    def text(self, name: str) -> str:
        """Return a text: ``"command"``, ``"environment"``, ``"modelfile"`` or ``"server"``."""
        return self._texts[name].make()

    def copy_button(self, name: str) -> QPushButton:
        """Return the button that copies a text."""
        return self._buttons[name]

    def save_picture(self, path: Path) -> None:
        """Save the picture, or its data, in the format that the suffix says."""
        self._export.save(self._picture, path)

    def refresh(self) -> None:
        """Show the texts of the current plan."""
        for text in self._texts.values():
            shown = plain_text(text.make(), lines=True)
            if shown != text.edit.toPlainText():
                text.edit.setPlainText(shown)

    def _add(self, name: str, title: str, make: Callable[[], str]) -> None:
        row = self._grid.rowCount()
        edit = QPlainTextEdit(self)
        edit.setReadOnly(True)
        edit.setTabChangesFocus(True)
        edit.setFont(monospace_font())
        edit.setAccessibleName(title)
        height = QFontMetrics(edit.font()).lineSpacing() * _LEAST_LINES
        edit.setMinimumHeight(height + 2 * int(edit.document().documentMargin()) + 4)
        label = QLabel(title, self)
        label.setBuddy(edit)
        button = QPushButton(self.tr("Copy"), self)
        button.setAccessibleName(self.tr("Copy {what}").format(what=title))
        button.setToolTip(self.tr("Copy {what}").format(what=title))
        button.clicked.connect(lambda: QGuiApplication.clipboard().setText(make()))
        for column, widget in enumerate((label, edit, button)):
            self._grid.addWidget(widget, row, column)
        self._texts[name] = _Text(edit, make)
        self._buttons[name] = button

    def _command(self) -> str:
        subject = self.session.state.subject
        return "" if subject is None else plan_command(subject.path, self.session.inputs)

    def _environment(self) -> str:
        outcome = self.session.outcome
        plan = None if outcome is None else outcome.plan
        return "" if plan is None else "\n".join(environment_lines(plan))

    def _modelfile(self) -> str:
        outcome = self.session.outcome
        plan = None if outcome is None else outcome.plan
        return "" if plan is None else "\n".join(modelfile_lines(plan))

    def _server(self) -> str:
        subject, outcome = self.session.state.subject, self.session.outcome
        if subject is None or outcome is None or outcome.plan is None:
            return ""
        return server_command(subject.path, outcome.plan, subject.projector)
