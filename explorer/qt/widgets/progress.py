"""How far the reading of weights is, how fast it goes, and the button that ends it."""

from __future__ import annotations

import time

from PySide6.QtCore import QTimer, Signal
from PySide6.QtWidgets import QProgressBar, QPushButton, QToolButton, QWidget

from explorer.qt.jobs import Job, JobRunner
from explorer.qt.widgets.building import NOTE, row
from explorer.qt.widgets.labels import ElidedLabel
from explorer.quantization.kernel_cache import is_compiling
from explorer.text import bytes_text, count_text, duration_text, shorten

_SETTLED_S = 0.2  # a rate of less time says nothing
_FORESEEABLE_S = 3.0  # and the time that is left nothing before that,
_FORESEEABLE = 0.01  # and before this part of all is done: of much, the first is not as the rest


class Pace:
    """Measures the speed of work since its first report."""

    def __init__(self) -> None:
        self._first: tuple[float, int, int] | None = None

    def text(self, done: int, total: int, nbytes: int | None) -> str:
        """Return how far it is, how fast it goes, and how much time is left.

        Args:
            done: Weights done, or work in other units.
            total: What that will be.
            nbytes: Their stored bytes; None to say nothing of the speed.
        """
        now = time.monotonic()
        if self._first is None:
            self._first = now, done, nbytes or 0
        start, first_done, first_bytes = self._first
        share = done / total if total else 1.0
        text = f"{100 * share:.0f} %"
        elapsed = now - start
        if elapsed < _SETTLED_S or done <= first_done:
            return text
        if nbytes is not None:
            text += (
                f"   {count_text(round((done - first_done) / elapsed))} weights/s, "
                f"{bytes_text(round((nbytes - first_bytes) / elapsed))}/s"
            )
        if elapsed > _FORESEEABLE_S and done - first_done >= _FORESEEABLE * total:
            seconds = (total - done) / (done - first_done) * elapsed
            text += f"   {duration_text(seconds)} left"
        return text

    def forget(self) -> None:
        """Measure from the next report on."""
        self._first = None


def compiling_text() -> str:
    """Return what to show while a worker compiles kernels."""
    return "Compiling kernels, once per type and machine…"


_STEPS = 1000
_SHOW_AFTER_MS = 200


class ProgressLine(QWidget):
    """A line below a plot while it grows.

    Attributes:
        running: Whether something is under way.

    Signals:
        cancel_requested: The user cancels.
        resume_requested: The user resumes what was cancelled.
    """

    cancel_requested = Signal()
    resume_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.bar = QProgressBar(self)
        self.bar.setTextVisible(False)
        self.bar.setFixedWidth(160)
        self.bar.setAccessibleName("Progress")
        self.label = ElidedLabel(self)
        self.button = QPushButton("Cancel", self)
        self.button.clicked.connect(self._press)
        self.running = False
        self.pace = Pace()
        self._compiling = QTimer(self)
        self._compiling.setInterval(_SHOW_AFTER_MS)
        self._compiling.timeout.connect(self._show_compiling)
        self.line = row(self.bar, (self.label, 1), self.button, of=self, margins=NOTE)
        # its place stays: a plot that changes its height with each tensor is hard to compare
        self.setFixedHeight(self.sizeHint().height())
        self.finish()

    def start(self) -> None:
        """Show that something begins."""
        self.running = True
        self.pace.forget()
        self.bar.setRange(0, 0)
        self.label.setText("Preparing to read the weights…")
        self.button.setText("Cancel")
        self.button.setToolTip("Escape")
        self._set_shown(True)
        self._compiling.start()

    def show_progress(self, done: int, total: int, nbytes: int | None = None) -> None:
        """Show how far it is; see `Pace.text`. While kernels are compiled, nothing is read."""
        if self._show_compiling():
            return
        self.bar.setRange(0, _STEPS)
        self.bar.setValue(round(_STEPS * (done / total if total else 1.0)))
        self.label.setText(self.pace.text(done, total, nbytes))

    def stop(self) -> None:
        """Show that it was cancelled; what was read so far stays in sight."""
        self.running = False
        self._compiling.stop()
        reached = self._reached
        self.bar.setRange(0, _STEPS)
        self.bar.setValue(reached * _STEPS // 100)
        self.label.setText(f"Cancelled at {reached} %: the figures are of the weights read so far.")
        self.button.setText("Continue")
        self.button.setToolTip("")

    def is_shown(self) -> bool:
        """Return whether it is in sight with something that is under way."""
        return self.running and self.isVisible()

    @property
    def _reached(self) -> int:
        """How far it is, in per cent."""
        return self.bar.value() * 100 // _STEPS if self.bar.maximum() else 0

    def finish(self) -> None:
        self.running = False
        self._compiling.stop()
        self._set_shown(False)

    def _show_compiling(self) -> bool:
        """Say that kernels are compiled, if they are; return whether they are."""
        compiling = is_compiling()
        if compiling:
            self.pace.forget()
            self.bar.setRange(0, 0)
            self.label.setText(compiling_text())
        return compiling

    def _set_shown(self, on: bool) -> None:
        for widget in (self.bar, self.label, self.button):
            widget.setVisible(on)

    def _press(self) -> None:
        (self.cancel_requested if self.running else self.resume_requested).emit()


class RestingLine(ProgressLine):
    """A line that also says what there is to do while nothing is under way.

    Signals:
        left: There is nothing to press any more, where the focus was.
    """

    left = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.rest("", "")

    def rest(self, text: str, button: str) -> None:
        """Show what there is while nothing is under way.

        Args:
            text: What there is.
            button: What starting would do; "" if there is nothing to do.
        """
        focused = self.button.hasFocus()
        self.finish()
        self.label.setText(text)
        self.label.show()
        self.button.setText(button)
        self.button.setToolTip("")
        self.button.setVisible(bool(button))
        if focused:
            (self.button.setFocus if button else self.left.emit)()

    def start(self) -> None:
        super().start()
        self.button.setToolTip("Stop. The results so far stay (Escape)")


_LONGEST = 100


class JobBar(QWidget):
    """Title, progress and Cancel of the oldest running job, once it has taken 200 ms.

    Of what a page shows itself there is no second bar.
    """

    def __init__(self, runner: JobRunner, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._runner = runner
        self._shown: Job | None = None
        self.label = ElidedLabel(self)  # else a long title makes the window wider, for good
        self.progress = QProgressBar(self)
        self.progress.setFixedWidth(140)
        self.progress.setTextVisible(False)
        self.progress.setAccessibleName("Progress")
        self.cancel = QToolButton(self)
        self.cancel.setText("Cancel")
        self.cancel.setToolTip("Stop this work")
        self.cancel.clicked.connect(self._cancel_shown)
        row(self.label, self.progress, self.cancel, of=self)
        self._timer = QTimer(self)
        self._timer.setInterval(_SHOW_AFTER_MS)
        self._timer.timeout.connect(self._refresh)
        runner.started.connect(self._start_timer)
        runner.ended.connect(self._job_ended)
        self.hide()

    def _start_timer(self) -> None:
        if not self._timer.isActive():
            self._timer.start()

    def _job_ended(self, job: Job) -> None:
        if job is self._shown or not self._runner.jobs:
            self._shown = None
            self._refresh()

    def _refresh(self) -> None:
        running = [job for job in self._runner.jobs if not job.cancelled]
        job = next((job for job in running if not job.on_page()), None)
        self.setVisible(job is not None)
        if not running:
            self._timer.stop()
        if self._shown is not None and job is not self._shown:  # it may be shown again
            self._shown.progressed.disconnect(self._show_progress)
        if job is not None:
            self.label.setText(compiling_text() if is_compiling() else shorten(job.title, _LONGEST))
            if job is not self._shown:
                self.progress.setRange(0, 0)
                job.progressed.connect(self._show_progress)
        self._shown = job

    def _show_progress(self, done: int, total: int) -> None:
        if total > 0 and self.sender() is self._shown:
            self.progress.setRange(0, _STEPS)
            self.progress.setValue(min(_STEPS, done * _STEPS // total))

    def _cancel_shown(self) -> None:
        if self._shown is not None:
            self._shown.cancel()
            self._shown = None
            self._refresh()
