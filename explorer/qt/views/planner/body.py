"""What the panel shows of a model: answer, settings and devices, picture, and pages below it."""

from __future__ import annotations

import itertools
from typing import Final

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFont
from PySide6.QtWidgets import (
    QFrame,
    QLabel,
    QScrollArea,
    QSplitter,
    QTabWidget,
    QVBoxLayout,
    QWidget,
)

from explorer.qt.jobs import JobRunner
from explorer.qt.models.planner.session import PlannerSession
from explorer.qt.views.planner.answer_bar import AnswerBar
from explorer.qt.views.planner.comparison_pages import ModelsPage, ScenariosPage
from explorer.qt.views.planner.controls import SettingsControls
from explorer.qt.views.planner.curves_page import CurvesPage
from explorer.qt.views.planner.devices_box import DevicesBox
from explorer.qt.views.planner.picture import PlannerPicture
from explorer.qt.views.planner.tables_page import TablesPage
from explorer.qt.views.planner.take_away_page import TakeAwayPage
from explorer.qt.views.planner.why_page import WhyPage

_SIDE_WIDTH: Final = 330


class PlannerBody(QWidget):
    """All parts of the panel, following one session.

    Signals:
        layer_chosen: A layer was chosen; its number.
        exported: A file was written; its path.
        failed: Something could not be done; an `ExplorerError`.
    """

    layer_chosen = Signal(int)
    exported = Signal(str)
    failed = Signal(object)

    def __init__(
        self, session: PlannerSession, runner: JobRunner, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.answer = AnswerBar(session, runner, self)
        self.controls = SettingsControls(session, self)
        self.devices = DevicesBox(session, runner, self)
        self.picture = PlannerPicture(session, self)
        self.curves = CurvesPage(session, runner, self)
        self.why = WhyPage(session, runner, self)
        self.tables = TablesPage(session, runner, lambda: self.curves.curves, self)
        self.scenarios = ScenariosPage(session, runner, self)
        self.models = ModelsPage(session, runner, self)
        self.take_away = TakeAwayPage(session, runner, self.picture, self)
        self.pages = QTabWidget(self)
        self.pages.setDocumentMode(True)
        self.pages.setAccessibleName(self.tr("Pages of the planner"))
        for page, title in (
            (self.curves, self.tr("Curves")),
            (self.why, self.tr("Why")),
            (self.tables, self.tr("Tables")),
            (self.scenarios, self.tr("Scenarios")),
            (self.models, self.tr("Models")),
            (self.take_away, self.tr("Take away")),
        ):
            self.pages.addTab(page, title)
        self._lay_out()
        self._connect(session)

    def _lay_out(self) -> None:
        side = QWidget(self)
        column = QVBoxLayout(side)
        column.setContentsMargins(10, 2, 8, 8)
        column.setSpacing(6)
        column.addWidget(self.controls)
        heading = QLabel(self.tr("Devices"), side)
        font = QFont(heading.font())
        font.setWeight(QFont.Weight.DemiBold)
        heading.setFont(font)
        column.addWidget(heading)
        column.addWidget(self.devices)
        column.addStretch(1)
        self.side = QScrollArea(self)
        self.side.setWidget(side)
        self.side.setWidgetResizable(True)
        self.side.setFrameShape(QFrame.Shape.NoFrame)
        self.side.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.side.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.side.setAccessibleName(self.tr("Settings and devices"))
        bar = self.side.verticalScrollBar().sizeHint().width()
        self.side.setMinimumWidth(side.minimumSizeHint().width() + bar)
        right = QWidget(self)
        stack = QVBoxLayout(right)
        stack.setContentsMargins(0, 0, 0, 0)
        stack.setSpacing(0)
        stack.addWidget(self.picture)
        stack.addWidget(self.pages, 1)
        self.splitter = QSplitter(self)
        self.splitter.addWidget(self.side)
        self.splitter.addWidget(right)
        self.splitter.setStretchFactor(1, 1)
        self.splitter.setChildrenCollapsible(False)
        self.splitter.setSizes([_SIDE_WIDTH, 1000])
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.answer)
        layout.addWidget(self.splitter, 1)
        chain = [
            *self.answer.tab_chain(),
            *self.controls.tab_chain(),
            *self.devices.tab_chain(),
            self.picture.bars,
            self.picture.strip,
            self.pages,  # not its bar alone: Tab would go round in the page for ever
        ]
        for before, after in itertools.pairwise(chain):
            self.setTabOrder(before, after)

    def _connect(self, session: PlannerSession) -> None:
        self.picture.bars.figure_chosen.connect(self.show_figure)
        self.picture.strip.layer_chosen.connect(self._choose_layer)
        self.tables.layer_chosen.connect(self._choose_layer)
        self.tables.curves_wanted.connect(self.curves.refresh)
        self.curves.curves_changed.connect(self.tables.invalidate)
        for page in (self.curves, self.take_away):
            page.exported.connect(self.exported)
            page.failed.connect(self.failed)
        for table in (
            self.why.figures,
            self.why.inputs,
            self.tables.table,
            self.scenarios.table,
            self.models.table,
        ):
            table.exported.connect(self.exported)
            table.failed.connect(self.failed)
        session.refused.connect(self.failed)

    def show_figure(self, name: str) -> None:
        """Show why a figure is what it is."""
        self.pages.setCurrentWidget(self.why)
        self.why.show_figure(name)

    def select_layer(self, layer: int) -> None:
        """Mark a layer everywhere, without telling anybody."""
        self.picture.strip.select(layer)
        self.tables.select_layer(layer)

    def _choose_layer(self, layer: int) -> None:
        self.select_layer(layer)
        self.layer_chosen.emit(layer)
