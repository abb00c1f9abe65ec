"""Scans the stores in the background, one scan at a time."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from PySide6.QtCore import QFileSystemWatcher, QObject, QTimer, Signal

from explorer.errors import ExplorerError
from explorer.formats import Severity
from explorer.qt.jobs import Job, JobRunner, JobSlot, consideration
from explorer.qt.library.contents import read_contents
from explorer.qt.library.listing import Listing, list_stores, place_of
from explorer.qt.library.rows import Node, Row, note_row
from explorer.stores import (
    Details,
    Entry,
    Place,
    StoreKind,
    present_places,
    read_details,
    this_machine,
)
from explorer.text import plain_text

# Lets a worker of pure Python rest while the window is being drawn.
#
# A view asks its model a thousand questions to paint itself, and each of them must get hold of
# the interpreter, which a busy worker gives up only every 5 ms: a repaint of 10 ms was measured
# at 250. Changing the interpreter's interval would change the whole program. So the GUI thread
# says when it is at work, and the worker waits for it between two models.


_MOST_SECONDS: Final = 0.2  # a window that is drawn all the time must not stop the work for good


class Turnstile:
    """One side says when it is at work, the other side waits meanwhile."""

    def __init__(self) -> None:
        self._free = threading.Event()
        self._free.set()
        self._depth = 0  # of the GUI thread alone

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Be at work; called in the GUI thread."""
        self._depth += 1
        self._free.clear()
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                self._free.set()

    def give_way(self) -> None:
        """Wait until the GUI thread is not at work; called in a worker."""
        if not self._free.is_set():
            self._free.wait(_MOST_SECONDS)


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


# Opens every listed model in the background to learn what it is, those in sight first.


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


# Reads what is inside a model when its branch is opened.


class ContentsReader(QObject):
    """Opens models, several at a time: one may expand a branch while another one loads.

    Signals:
        found: A node, and the rows below it.
        stopped: A node whose contents somebody did not want to wait for.
    """

    found = Signal(object, object)
    stopped = Signal(object)

    def __init__(self, runner: JobRunner, turnstile: Turnstile, parent: QObject) -> None:
        super().__init__(parent)
        self._runner = runner
        self._turnstile = turnstile
        jobs: dict[int, Job] = {}
        self._jobs = jobs

        def stop() -> None:
            for job in jobs.values():
                job.cancel()

        self.destroyed.connect(stop)

    def read(self, node: Node) -> None:
        """Read what is inside a model."""
        entry, place = node.row.entry, node.store.row.place
        if entry is None or place is None:
            return
        if node.id in self._jobs:
            self._jobs[node.id].cancel()
        turnstile = self._turnstile

        def work(job: Job) -> tuple[Row, ...]:
            def check() -> None:
                job.check()
                turnstile.give_way()

            with consideration(lasting=False):
                return read_contents(place.kind, entry, check)

        job = self._runner.run(
            self.tr("Opening {name}").format(name=plain_text(entry.name)),
            work,
            lambda rows: self.found.emit(node, rows),
            self._failure_of(node),
        )
        self._jobs[node.id] = job
        job.finished.connect(lambda: self._forget(node, job))

    def _failure_of(self, node: Node) -> Callable[[ExplorerError], None]:
        def fail(error: ExplorerError) -> None:
            rows: tuple[Row, ...] = (note_row(str(error), Severity.ERROR),)
            self.found.emit(node, rows)

        return fail

    def _forget(self, node: Node, job: Job) -> None:
        if self._jobs.get(node.id) is job:
            del self._jobs[node.id]
            if job.cancelled:
                self.stopped.emit(node)


# Notices that something changed in the stores' folders, and says so now and then.


_LEAST_MS: Final = 500  # a download changes its folder many times
_MOST_MS: Final = 30_000
_SHARE: Final = 5  # of the time at most one part in five goes into scans


class FolderWatch(QObject):
    """Watches folders.

    Signals:
        changed: Something changed in one of them, or in several.
    """

    changed = Signal()

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._watcher = QFileSystemWatcher(self)
        self._watcher.directoryChanged.connect(self._note)
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(_LEAST_MS)
        self._timer.timeout.connect(self.changed)

    @property
    def folders(self) -> list[str]:
        """The folders watched."""
        return self._watcher.directories()

    def watch(self, folders: Iterable[Path]) -> None:
        """Watch these folders and no others."""
        wanted = dict.fromkeys(map(str, folders))
        now = set(self._watcher.directories())
        gone = [folder for folder in now if folder not in wanted]
        new = [folder for folder in wanted if folder not in now]
        if gone:
            self._watcher.removePaths(gone)
        if new:
            self._watcher.addPaths(new)

    def set_pace(self, scan_seconds: float) -> None:
        """Wait longer between two signals where a scan takes long."""
        pause = int(1000 * _SHARE * scan_seconds)
        self._timer.setInterval(max(_LEAST_MS, min(_MOST_MS, pause)))

    def stop(self) -> None:
        """Forget a change that was not told yet."""
        self._timer.stop()

    def remind(self) -> None:
        """Tell in a while that something has changed."""
        if not self._timer.isActive():
            self._timer.start()

    def _note(self, _: str) -> None:
        self.remind()
