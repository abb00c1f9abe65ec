"""The twins of the charts: the same figures as tables, to read aloud, copy and export."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QByteArray, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget

from explorer.present.plan import layers_of, memory_bars
from explorer.present.plan_export import Curves
from explorer.qt.jobs import JobRunner
from explorer.qt.models.planner.session import PlannerSession
from explorer.qt.models.planner.tables import (
    LiveTable,
    bar_columns,
    curve_columns,
    layer_columns,
)
from explorer.qt.models.table import Column
from explorer.qt.views.planner.editors import CalmComboBox
from explorer.qt.views.planner.late_page import LatePage
from explorer.qt.views.tables.table_view import TableView

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
