"""Why a figure is what it is: its formula, the value of each symbol, and where that came from."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QByteArray, Qt
from PySide6.QtWidgets import QLabel, QSplitter, QVBoxLayout, QWidget

from explorer.planner.result import Term
from explorer.present.explanations import picture_text
from explorer.present.plan import exact_text
from explorer.qt.jobs import JobRunner
from explorer.qt.models.planner.session import PlannerSession
from explorer.qt.models.planner.tables import LiveTable, figure_text, input_columns, term_columns
from explorer.qt.theme import monospace_font
from explorer.qt.views.labels import plain_label
from explorer.qt.views.planner.late_page import LatePage
from explorer.qt.views.tables.filter_bar import FilterBar
from explorer.qt.views.tables.table_view import TableView
from explorer.text import plain_text


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
