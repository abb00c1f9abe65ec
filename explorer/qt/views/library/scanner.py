"""Scans the stores in the background, one scan at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from explorer.errors import ExplorerError
from explorer.qt.jobs import Job, JobRunner, consideration
from explorer.qt.models.library.rows import Row
from explorer.qt.models.library.scanning import Listing, list_stores, place_of
from explorer.qt.views.library.turnstile import Turnstile
from explorer.qt.views.progress.job_slot import JobSlot
from explorer.stores import Place, StoreKind, present_places, this_machine

Places = Callable[[], list[Place]]


def machine_places() -> list[Place]:
    """Return the stores of this machine that are there."""
    return present_places(this_machine())


def library_places(demo_store: Path | None = None) -> list[Place]:
    """Return the stores of this machine that are there, and the demo's if there is one."""
    demo = [] if demo_store is None else [Place(StoreKind.OLLAMA, demo_store)]
    return machine_places() + demo


@dataclass(frozen=True)
class _Worker:
    """What a scan needs of its job."""

    job: Job
    turnstile: Turnstile

    def check(self) -> None:
        self.job.check()
        self.turnstile.give_way()

    def report(self, done: int, total: int) -> None:
        self.job.report(done, total)

    def publish(self, listing: Listing) -> None:
        self.job.publish(lambda: listing)


class Scanner(QObject):
    """Scans, and says what it finds while it does.

    Attributes:
        places: Returns the stores to read; called in a worker.
        took_seconds: How long the last scan took.

    Signals:
        listed: Something was found; a `Listing` of all there is so far.
        finished: The scan came to its end; its `Listing`.
        failed: It did not; an `ExplorerError`.
        stopped: Somebody cancelled it.
    """

    listed = Signal(object)
    finished = Signal(object)
    failed = Signal(object)
    stopped = Signal()

    def __init__(
        self, runner: JobRunner, turnstile: Turnstile, places: Places, parent: QObject
    ) -> None:
        super().__init__(parent)
        self.took_seconds = 0.0
        self._slot = JobSlot(runner, self)
        self._turnstile = turnstile
        self.places = places
        self._known: dict[Place, Row] = {}
        self._started = 0.0

    @property
    def busy(self) -> bool:
        """Whether a scan goes on."""
        return self._slot.busy

    def scan(self, folders: Sequence[Path]) -> None:
        """Read all stores anew.

        Args:
            folders: Folders of the user's own, besides the stores of this machine.
        """
        known, places, own = dict(self._known), self.places, tuple(folders)
        turnstile = self._turnstile

        def work(job: Job) -> Listing:
            with consideration(lasting=False):
                found = places()
                roots = {place.root for place in found}
                found += [place_of(folder) for folder in dict.fromkeys(own) if folder not in roots]
                return list_stores(found, known, _Worker(job, turnstile))

        self._started = time.monotonic()
        title = self.tr("Looking for downloaded models")
        job = self._slot.run(title, work, self._end, self._fail)
        job.published.connect(self.listed)
        job.finished.connect(self._tell_stopped)

    def stop(self) -> None:
        """Give up the scan; what it found stays."""
        if self.busy:
            self._slot.cancel()
            self.stopped.emit()

    def _end(self, listing: Listing) -> None:
        self.took_seconds = time.monotonic() - self._started
        rows = (row for row in listing.rows if row.place is not None and row.store is not None)
        self._known = {row.place: row for row in rows if row.place is not None}
        self.finished.emit(listing)

    def _fail(self, error: ExplorerError) -> None:
        self.failed.emit(error)

    def _tell_stopped(self) -> None:
        if self._slot.stopped:  # by the status bar
            self.stopped.emit()
