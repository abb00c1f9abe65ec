"""A place for one job: what a view wants now replaces what it wanted before.

A plain object, not a QObject: it outlives its view for as long as the view's `destroyed` signal
needs to cancel the job, so that no result arrives at a widget that is gone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from PySide6.QtCore import QObject

from explorer.errors import ExplorerError
from explorer.qt.jobs import Job, JobRunner

Result = TypeVar("Result")


class JobSlot:
    """Runs one job at a time for its owner, and none once the owner is gone."""

    def __init__(self, runner: JobRunner, owner: QObject) -> None:
        self._runner = runner
        self._job: Job | None = None

        def stop() -> None:
            self.cancel()

        owner.destroyed.connect(stop)

    @property
    def busy(self) -> bool:
        """Whether a job runs whose result is still wanted."""
        job = self._job
        return job is not None and not job.cancelled and job in self._runner.jobs

    @property
    def stopped(self) -> bool:
        """Whether somebody else, such as the status bar, cancelled the job."""
        return self._job is not None and self._job.cancelled

    def run(
        self,
        title: str,
        op: Callable[[Job], Result],
        on_done: Callable[[Result], object],
        on_failed: Callable[[ExplorerError], None],
    ) -> Job:
        """Cancel the job that runs and start another; see `JobRunner.run`."""
        self.cancel()
        self._job = self._runner.run(title, op, on_done, on_failed)
        return self._job

    def cancel(self) -> None:
        """Cancel the job, if one runs."""
        if self._job is not None:
            self._job.cancel()
            self._job = None
