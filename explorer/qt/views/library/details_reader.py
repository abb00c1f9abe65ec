"""Opens every listed model in the background to learn what it is, those in sight first."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable

from PySide6.QtCore import QObject, Signal

from explorer.qt.jobs import Job, JobRunner, consideration
from explorer.qt.views.library.turnstile import Turnstile
from explorer.qt.views.progress.job_slot import JobSlot
from explorer.stores import Details, Entry, read_details


class _Queue:
    """Entries to open, in an order that may change while a worker takes them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[Entry, None] = {}
        self._first: deque[Entry] = deque()
        self.done = 0

    def replace(self, entries: Iterable[Entry]) -> bool:
        """Want these entries; return whether there are any."""
        with self._lock:
            self._waiting = dict.fromkeys(entries)
            self._first.clear()
            return bool(self._waiting)

    def prefer(self, entries: Iterable[Entry]) -> None:
        """Take these before the others."""
        with self._lock:
            self._first = deque(entry for entry in entries if entry in self._waiting)

    def take(self) -> Entry | None:
        """Return the next entry, None if there is none."""
        with self._lock:
            while self._first:
                entry = self._first.popleft()
                if entry in self._waiting:
                    break
            else:
                entry = next(iter(self._waiting), None)  # type: ignore[assignment] # None is the end
            if entry is not None:
                del self._waiting[entry]
                self.done += 1
            return entry

    @property
    def total(self) -> int:
        """Entries taken and waiting."""
        with self._lock:
            return self.done + len(self._waiting)


class DetailsReader(QObject):
    """Reads architecture, parameters and quantization of models.

    Signals:
        found: Pairs of an entry and its `Details`, some at a time.
        finished: All were read, or somebody cancelled it.
    """

    found = Signal(object)
    finished = Signal()

    def __init__(self, runner: JobRunner, turnstile: Turnstile, parent: QObject) -> None:
        super().__init__(parent)
        self._slot = JobSlot(runner, self)
        self._turnstile = turnstile
        self._queue = _Queue()
        self._found: deque[tuple[Entry, Details]] = deque()

    @property
    def busy(self) -> bool:
        """Whether models are being opened."""
        return self._slot.busy

    def read(self, entries: Iterable[Entry]) -> None:
        """Open these models, and none of those asked for before."""
        self._slot.cancel()
        self._drain()  # what is known is not read again
        queue = self._queue = _Queue()
        if queue.replace(entries):
            title = self.tr("Reading what the models are")
            job = self._slot.run(title, lambda job: self._work(queue, job), self._end, self._end)
            job.published.connect(self._drain)
            job.finished.connect(self._end_stopped)

    def prefer(self, entries: Iterable[Entry]) -> None:
        """Open these models before the others, as far as they are still waiting."""
        self._queue.prefer(entries)

    def stop(self) -> None:
        """Give up."""
        self._slot.cancel()

    def _work(self, queue: _Queue, job: Job) -> None:
        def check() -> None:
            job.check()
            self._turnstile.give_way()

        with consideration(lasting=False):
            while (entry := queue.take()) is not None:
                check()
                self._found.append((entry, read_details(entry, check)))
                job.report(queue.done, queue.total)
                job.publish(lambda: None)  # come and see

    def _end(self, _: object) -> None:
        self._drain()
        self.finished.emit()

    def _end_stopped(self) -> None:
        if self._slot.stopped:  # by the status bar
            self._end(None)

    def _drain(self) -> None:
        pairs = []
        while self._found:
            pairs.append(self._found.popleft())
        if pairs:
            self.found.emit(pairs)
