"""The curves with what computes them: in the background, kept, and never in the way of a drag."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QToolButton, QVBoxLayout, QWidget

from explorer.present.plan_export import Curves, curves_key, make_curves
from explorer.qt.jobs import Job, JobRunner, consideration
from explorer.qt.models.planner.session import PlannerSession
from explorer.qt.models.recent import Recent
from explorer.qt.views.planner.curves_plot import CurvesPlot
from explorer.qt.views.planner.late_page import LatePage
from explorer.qt.views.plots.export import PlotExport
from explorer.qt.views.progress.job_slot import JobSlot

_MOST_KEPT: Final = 32


class CurvesPage(LatePage):
    """Memory against context.

    Attributes:
        plot: The curves.

    Signals:
        curves_changed: Other curves are shown.
        exported: A file was written; its path.
        failed: A file could not be written.
    """

    curves_changed = Signal()
    exported = Signal(str)
    failed = Signal(object)

    def __init__(
        self, session: PlannerSession, runner: JobRunner, parent: QWidget | None = None
    ) -> None:
        super().__init__(session, parent)
        self.plot = CurvesPlot(self)
        self._kept = Recent(_MOST_KEPT)
        self._slot = JobSlot(runner, self)
        self._wanted: object = None
        self._export = PlotExport(runner, self, self.exported.emit, self.failed.emit)
        hint = QLabel(
            self.tr(
                "Solid: all layers on GPUs. Dotted: some on the CPU. Click to set the context."
            ),
            self,
        )
        hint.setWordWrap(True)
        line = QHBoxLayout()
        line.setContentsMargins(8, 0, 8, 2)
        line.addWidget(hint, 1)
        for action in (self.plot.back_action, self.plot.reset_action):
            button = QToolButton(self)
            button.setDefaultAction(action)
            line.addWidget(button)
        save = QToolButton(self)
        save.setText(self.tr("Save…"))
        save.setToolTip(self.tr("Save the curves as a picture or as data (Ctrl+S in the plot)"))
        line.addWidget(save)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.plot, 1)
        layout.addLayout(line)
        save.clicked.connect(self.ask_export)
        self.plot.export_requested.connect(self.ask_export)
        self.plot.context_chosen.connect(self._choose)
        session.planned.connect(self._show_point)
        session.subject_changed.connect(self.plot.forget_zoom)

    @property
    def curves(self) -> Curves | None:
        """The curves that are shown."""
        return self.plot.curves

    def ask_export(self) -> None:
        """Ask for a file, and save the curves into it."""
        self._export.ask(self.plot, "memory-against-context")

    def refresh(self) -> None:
        """Show the curves of the current inputs, and make them if they are not kept."""
        subject = self.session.state.subject
        if subject is None:
            self._take(None)
            return
        inputs = subject.complete(self.session.inputs)
        key = curves_key(subject.h, inputs)
        self._show_point()
        if key == self._wanted:
            return
        self._wanted = key
        kept = self._kept.get(key)
        if isinstance(kept, Curves):
            self._slot.cancel()
            self._take(kept)
            return
        variables, h = self.session.state.environment, subject.h

        def make(job: Job) -> Curves:
            with consideration(lasting=False):
                return make_curves(h, inputs, variables, job.check)

        def done(curves: Curves) -> None:
            self._kept.put(key, curves)
            self._take(curves)

        self._slot.run(self.tr("Drawing memory curves"), make, done, self.failed.emit)

    def _take(self, curves: Curves | None) -> None:
        subject = self.session.state.subject
        self.plot.show_curves(curves, 0 if subject is None else subject.h.trained_context)
        self.curves_changed.emit()

    def _choose(self, context: int) -> None:
        self.session.apply({"context": context})

    def _show_point(self) -> None:
        """Follow the current plan in every frame: only a dot moves."""
        outcome = self.session.outcome
        if not self.isVisible():
            return
        if outcome is None or outcome.plan is None:
            self.plot.hide_point()
        else:
            plan, layout = outcome.plan, outcome.plan.layout
            devices = () if layout is None else layout.devices
            usable = sum(held.device.free - held.reserved for held in devices)
            self.plot.show_point(plan.effective.context, plan.total, usable)
