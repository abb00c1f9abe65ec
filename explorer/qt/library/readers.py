"""Background work of the library: scan stores, open models, watch folders."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, Generic, TypeAlias, TypeVar

from PySide6.QtCore import QFileSystemWatcher, QObject, QTimer, Signal

from explorer.errors import ExplorerError
from explorer.formats import Severity
from explorer.hardware.detect import detect
from explorer.parallel import Check
from explorer.present.fits import Target
from explorer.present.tables.library import StoredFile, stored_files
from explorer.qt.jobs import Job, JobRunner, JobSlot
from explorer.qt.library.contents import read_contents
from explorer.qt.library.nodes import Node
from explorer.qt.library.rows import Listing, Row, list_stores, note_row, place_of
from explorer.stores.entries import Entry, Place, present_places, this_machine
from explorer.stores.library import scan
from explorer.text import plain_text

_WORK_SECONDS: Final = 0.002
_SLEEP_SECONDS: Final = 0.001

Places = Callable[[], list[Place]]
Fact = TypeVar("Fact")
Read: TypeAlias = Callable[[Entry, Check], Fact]
Prepare: TypeAlias = Callable[[], AbstractContextManager[Read[Fact]]]


def machine_places() -> list[Place]:
    return present_places(this_machine())


def all_places(places: Sequence[Place], folders: Iterable[Path]) -> list[Place]:
    """Return stores and the folders that the user added to them, each once; for a worker."""
    roots = {place.root for place in places}
    return [*places, *(place_of(each) for each in dict.fromkeys(folders) if each not in roots)]


def downloaded(
    places: Sequence[Place], folders: Iterable[Path], check: Check
) -> list[tuple[Entry, str]]:
    """Return all models of these stores and folders, with the program of each; for a worker."""
    return [
        (found, place.kind.program)
        for place, found in scan(all_places(places, folders), check)
        if isinstance(found, Entry)
    ]


def this_target() -> Target:
    """Return this machine as models shall fit it. It asks drivers, so it is for a worker."""
    machine = detect()
    return Target(machine.devices, machine.host, os.environ)


def _yielding(job: Job) -> Check:
    """Return a check of a job that also sleeps now and then.

    A view asks its model a thousand questions to paint itself, and for each of them the GUI thread
    must get the interpreter's lock, which a busy worker would keep. `keep_gui_responsive` is not
    enough: reading 2,000 models then holds up the window for 170 to 180 ms, with this for 30.
    """
    due = time.monotonic() + _WORK_SECONDS

    def check() -> None:
        nonlocal due
        job.check()
        if time.monotonic() >= due:
            time.sleep(_SLEEP_SECONDS)
            due = time.monotonic() + _WORK_SECONDS

    return check


class Scanner(QObject):
    """Scans the stores that `places` returns in the worker, one scan at a time.

    Signals:
        listed: A `Listing` of what was found so far.
        finished: The scan has finished; its `Listing` and all blobs as `StoredFile`.
        failed: The scan failed; an `ExplorerError`.
        stopped: The scan was cancelled.
    """

    listed = Signal(object)
    finished = Signal(object, object)
    failed = Signal(object)
    stopped = Signal()

    def __init__(self, runner: JobRunner, places: Places, parent: QObject) -> None:
        super().__init__(parent)
        self.took_seconds = 0.0
        self.places = places
        self._slot = JobSlot(runner, self)
        self._known: dict[Place, Row] = {}

    @property
    def busy(self) -> bool:
        """Whether a scan runs."""
        return self._slot.busy

    def scan(self, folders: Sequence[Path]) -> None:
        """Read all stores anew, and the folders that the user added to them."""
        known, places, own = dict(self._known), self.places, tuple(folders)
        started = time.monotonic()

        def work(job: Job) -> tuple[Listing, list[StoredFile]]:
            def publish(listing: Listing) -> None:
                job.report(listing.entry_count, 0)
                job.publish(lambda: listing)

            check = _yielding(job)
            listing = list_stores(all_places(places(), own), known, check, publish)
            return listing, stored_files(listing.stores, check)

        def end(result: tuple[Listing, list[StoredFile]]) -> None:
            listing, blobs = result
            self.took_seconds = time.monotonic() - started
            self._known = {row.place: row for row in listing.rows if row.place is not None}
            self.finished.emit(listing, blobs)

        title = "Looking for downloaded models"
        job = self._slot.run(title, work, end, self.failed.emit)
        job.published.connect(self.listed)
        job.finished.connect(self._report_stopped)

    def stop(self) -> None:
        """Cancel the scan; what it found stays."""
        if self.busy:
            self._slot.cancel()
            self.stopped.emit()

    def _report_stopped(self) -> None:
        if self._slot.stopped:  # by the status bar
            self.stopped.emit()


class EntryReader(QObject, Generic[Fact]):
    """Reads something about models, one after the other.

    Args:
        runner: Runs the work.
        title: What the work is called.
        prepare: Called in the worker before the first model; returns what reads one.
        parent: The panel.

    Signals:
        found: Pairs of an entry and what was read of it, some at a time.
        finished: All were read, or the work was cancelled.
    """

    found = Signal(object)
    finished = Signal()

    def __init__(
        self, runner: JobRunner, title: str, prepare: Prepare[Fact], parent: QObject
    ) -> None:
        super().__init__(parent)
        self._slot = JobSlot(runner, self)
        self._title, self.prepare = title, prepare
        self._wanted: frozenset[Entry] = frozenset()
        # of this run alone; preferred entries come twice
        self._waiting: deque[Entry] = deque()
        self._found: deque[tuple[Entry, Fact]] = deque()

    @property
    def busy(self) -> bool:
        """Whether models are being opened."""
        return self._slot.busy

    def cancel(self) -> None:
        """Stop, and forget what was not reported yet."""
        self._slot.cancel()
        self._found.clear()

    def read(self, entries: Iterable[Entry]) -> None:
        """Open these models, and none of those asked for before."""
        self._slot.cancel()
        self._report()  # what is known is not read again
        waiting = self._waiting = deque(entries)
        self._wanted = frozenset(waiting)
        count, prepare = len(waiting), self.prepare
        if not waiting:
            return

        def work(job: Job) -> None:
            done: set[Entry] = set()
            check = _yielding(job)
            with prepare() as read:
                while waiting:
                    entry = waiting.popleft()
                    if entry not in done:
                        check()
                        done.add(entry)
                        self._found.append((entry, read(entry, check)))
                        job.report(len(done), count)
                        job.publish(lambda: None)  # see `_report`

        job = self._slot.run(self._title, work, self._end, self._end)
        job.published.connect(self._report)
        job.finished.connect(self._end_stopped)

    def prefer(self, entries: Iterable[Entry]) -> None:
        """Open these models before the others."""
        self._waiting.extendleft(reversed([each for each in entries if each in self._wanted]))

    def _end(self, _: object) -> None:
        self._report()
        self.finished.emit()

    def _end_stopped(self) -> None:
        if self._slot.stopped:  # by the status bar
            self._end(None)

    def _report(self) -> None:
        pairs = [self._found.popleft() for _ in range(len(self._found))]
        if pairs:
            self.found.emit(pairs)


class ContentsReader(QObject):
    """Reads what is inside models, several at a time.

    Signals:
        found: A node, and the rows below it.
        stopped: A node the reading of which was cancelled.
    """

    found = Signal(object, object)
    stopped = Signal(object)

    def __init__(self, runner: JobRunner, parent: QObject) -> None:
        super().__init__(parent)
        self._runner = runner
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

        def work(job: Job) -> tuple[Row, ...]:
            return read_contents(place.kind, entry, _yielding(job))

        def fail(error: ExplorerError) -> None:
            self.found.emit(node, (note_row(str(error), Severity.ERROR),))

        title = f"Opening {plain_text(entry.name)}"
        job = self._runner.run(title, work, lambda rows: self.found.emit(node, rows), fail)
        self._jobs[node.id] = job
        job.finished.connect(lambda: self._forget(node, job))

    def _forget(self, node: Node, job: Job) -> None:
        if self._jobs.get(node.id) is job:
            del self._jobs[node.id]
            if job.cancelled:
                self.stopped.emit(node)


_SHORTEST_MS: Final = 500  # a download changes its folder many times
_LONGEST_MS: Final = 30_000
_SHARE: Final = 5  # at most one part in five of the time goes into scans


class FolderWatch(QObject):
    """Watches folders; many changes are one signal.

    Signals:
        changed: Something changed in one of them, or in several.
    """

    changed = Signal()

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._watcher = QFileSystemWatcher(self)
        self._watcher.directoryChanged.connect(self.remind)
        self._timer = QTimer(self, singleShot=True, interval=_SHORTEST_MS)
        self._timer.timeout.connect(self.changed)

    @property
    def folders(self) -> list[str]:
        return self._watcher.directories()

    def watch(self, folders: Iterable[Path]) -> None:
        """Watch these folders and no others."""
        wanted = dict.fromkeys(map(str, folders))  # in order: the system may refuse the last ones
        now = set(self._watcher.directories())
        if gone := [folder for folder in now if folder not in wanted]:
            self._watcher.removePaths(gone)
        if new := [folder for folder in wanted if folder not in now]:
            self._watcher.addPaths(new)

    def set_pace(self, scan_seconds: float) -> None:
        """Wait longer between two signals where a scan takes long."""
        pause = int(1000 * _SHARE * scan_seconds)
        self._timer.setInterval(max(_SHORTEST_MS, min(_LONGEST_MS, pause)))

    def stop(self) -> None:
        """Forget a change that was not reported yet."""
        self._timer.stop()

    def remind(self) -> None:
        """Report a change after a while."""
        if not self._timer.isActive():
            self._timer.start()
