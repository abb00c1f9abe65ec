"""What runs in the background: title, progress and a cancel button in the status bar."""

from __future__ import annotations

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QHBoxLayout, QProgressBar, QToolButton, QWidget

from explorer.qt.jobs import Job, JobRunner
from explorer.qt.views.labels import plain_label
from explorer.text import shorten

_SHOW_AFTER_MS = 200
_STEPS = 1000
_LONGEST = 100


class JobBar(QWidget):
    """Shows the oldest running job once it has taken 200 ms.

    Attributes:
        label: What it does.
        progress: How far it is.
        cancel: Stops it.
    """

    def __init__(self, runner: JobRunner, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._runner = runner
        self._shown: Job | None = None
        self.label = plain_label(self)
        self.progress = QProgressBar(self)
        self.progress.setFixedWidth(140)
        self.progress.setTextVisible(False)
        self.progress.setAccessibleName(self.tr("Progress"))
        self.cancel = QToolButton(self)
        self.cancel.setText(self.tr("Cancel"))
        self.cancel.setToolTip(self.tr("Stop this work"))
        self.cancel.clicked.connect(self._cancel_shown)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        for widget in (self.label, self.progress, self.cancel):
            layout.addWidget(widget)
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(_SHOW_AFTER_MS)
        self._timer.timeout.connect(self._refresh)
        runner.started.connect(self._start_timer)
        runner.ended.connect(self._job_ended)
        self.hide()

    def _start_timer(self) -> None:
        if not self._timer.isActive() and self._shown is None:
            self._timer.start()

    def _job_ended(self, job: Job) -> None:
        if not self._runner.jobs:
            self._timer.stop()
        if job is self._shown:
            self._shown = None
            self._refresh()

    def _refresh(self) -> None:
        job = next((job for job in self._runner.jobs if not job.cancelled), None)
        self._shown = job
        self.setVisible(job is not None)
        if job is not None:
            self.label.setText(shorten(job.title, _LONGEST))
            self.progress.setRange(0, 0)
            job.progressed.connect(self._show_progress)

    def _show_progress(self, done: int, total: int) -> None:
        if total > 0 and self.sender() is self._shown:
            self.progress.setRange(0, _STEPS)
            self.progress.setValue(min(_STEPS, done * _STEPS // total))

    def _cancel_shown(self) -> None:
        if self._shown is not None:
            self._shown.cancel()
            self._shown = None
            self._refresh()
