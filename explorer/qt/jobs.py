"""Run a plain function in a worker thread and bring its result back to the GUI thread.

The function knows no Qt: it gets a `Job`, checks whether it was cancelled, and reports progress.
Result and failure arrive in the runner's inbox, hence on the GUI thread. They are dropped if the
job was cancelled meanwhile.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any, Final, TypeAlias, TypeVar

from PySide6 import QtCore
from PySide6.QtCore import Qt, Signal, Slot

from explorer.errors import ExplorerError, drop_frames, trace
from explorer.parallel import cancelled_by
from explorer.private_folder import PrivateFolder, why_unavailable
from explorer.quantization import kernel_cache
from explorer.text import sentence

Result = TypeVar("Result")
Work: TypeAlias = Callable[["Job"], Result]
OnDone: TypeAlias = Callable[[Result], object]
OnFailed: TypeAlias = Callable[[ExplorerError], object]

_CLOSE_WAIT_MS = 5_000
_LEAST_THREADS = 4
_PUBLISH_SECONDS = 0.05  # between two values that a job publishes, at least
_LOAD_AFTER_MS: Final = 500


class Cancelled(Exception):
    """Raised inside a job's function by `Job.check` once the job was cancelled."""


class _Inbox(QtCore.QObject):
    """Calls on the GUI thread what workers put in.

    No worker emits a signal of its job: the GUI thread deletes the job once it has the result, and
    Qt still touches a sender after it has queued the last delivery (this crashed under load).
    """

    _put = Signal()

    def __init__(self, parent: QtCore.QObject) -> None:
        super().__init__(parent)
        self._calls: deque[Callable[[], object]] = deque()
        self._put.connect(self._call_next, Qt.ConnectionType.QueuedConnection)

    def put(self, call: Callable[[], object]) -> None:
        """Have `call` called in the order of what was put in. Safe in any thread."""
        self._calls.append(call)
        self._put.emit()

    @Slot()
    def _call_next(self) -> None:
        self._calls.popleft()()


class Job(QtCore.QObject):
    """One piece of background work, seen from both sides.

    Attributes:
        title: What it does, for the status bar.
        cancelled: Whether it was cancelled. Safe in any thread.
        on_page: Whether a page in sight shows how far it is; the status bar does not, then.

    Signals:
        progressed: (done, total), in units of the job's choice; total 0 means unknown.
        published: What there is so far, at most 20 times a second; see `publish`.
        crashed: The function failed with something else than an `ExplorerError`.
        finished: The job ended, however it did.
    """

    progressed = Signal(object, object)
    published = Signal(object)
    crashed = Signal(object)
    finished = Signal()

    def __init__(
        self, title: str, on_done: OnDone[Any], on_failed: OnFailed, runner: JobRunner
    ) -> None:
        super().__init__(runner)
        self.title = title
        self._inbox = runner.inbox
        self._on_done = on_done
        self._on_failed = on_failed
        self.cancelled = False
        self.on_page: Callable[[], bool] = lambda: False
        self._done: deque[tuple[int, int]] = deque(maxlen=1)  # progress that is not delivered yet
        self._latest: deque[object] = deque(maxlen=1)  # published, and not delivered yet
        self._next_publishing = 0.0

    def cancel(self) -> None:
        """Ask the job to stop; its result will be dropped. Safe in any thread."""
        self.cancelled = True

    def check(self) -> None:
        """Raise `Cancelled` if the job was cancelled; called by the function at every chunk."""
        if self.cancelled:
            raise Cancelled

    def report(self, done: int, total: int) -> None:
        """Report progress; called by the function."""
        self._done.append((done, total))
        self._inbox.put(self._deliver_latest)

    def publish(self, make: Callable[[], object]) -> None:
        """Show what there is so far; called by the function, as often as it likes.

        The GUI thread gets at most 20 values a second, and only the latest one if it is busy. So a
        value must not rely on the one before, and must not be changed afterwards.

        Args:
            make: Returns the value; only called if it is to be shown.
        """
        now = time.monotonic()
        if now >= self._next_publishing:
            self._next_publishing = now + _PUBLISH_SECONDS
            self._latest.append(make())
            self._inbox.put(self._deliver_latest)

    def execute(self, op: Work[Any]) -> None:
        """Run the function and send result or error to the GUI thread. Called in the worker."""
        try:
            self.check()
            with keep_gui_responsive(), cancelled_by(self.check):
                result = op(self)
        except Exception as error:  # noqa: BLE001 - shown to the user on the GUI thread
            if not isinstance(error, Cancelled):
                trace(error)
            self._inbox.put(partial(self._deliver, None, error))
        else:
            self._inbox.put(partial(self._deliver, result, None))

    def _deliver_latest(self) -> None:
        if self._done:  # else delivered with the one before
            self.progressed.emit(*self._done.pop())
        if self._latest:
            value = self._latest.pop()
            if not self.cancelled:
                self.published.emit(value)

    def _deliver(self, result: object, error: Exception | None) -> None:
        self.finished.emit()
        on_done, on_failed = self._on_done, self._on_failed
        # the starter may keep the job for long, and with it what these hold
        self._on_done = self._on_failed = lambda _: None
        if self.cancelled or isinstance(error, Cancelled):
            return
        if error is None:
            on_done(result)
        elif isinstance(error, ExplorerError):
            drop_frames(error)
            on_failed(error)
        else:
            self.crashed.emit(error)


class JobRunner(QtCore.QObject):
    """Starts jobs, lists the running ones, and ends them when the window closes.

    Attributes:
        jobs: Jobs that have not finished, oldest first.
        inbox: Where workers put what is to be done on the GUI thread.

    Signals:
        started: A job was started.
        ended: A job finished, failed or was cancelled.
        crashed: A job failed with something else than an `ExplorerError`: a fault of the program.
        cache_unavailable: What would be kept for the next run is lost; says why.
    """

    started = Signal(Job)
    ended = Signal(Job)
    crashed = Signal(object)
    cache_unavailable = Signal(str)

    def __init__(self, parent: QtCore.QObject | None = None) -> None:
        super().__init__(parent)
        self.jobs: list[Job] = []
        self._pool = QtCore.QThreadPool(self)
        self.inbox = _Inbox(self)  # after the pool: destroyed once the pool has ended its workers
        # on a machine of two cores, reading two models must not hold up the visible panel
        self._pool.setMaxThreadCount(max(_LEAST_THREADS, self._pool.maxThreadCount()))

    def run(
        self, title: str, op: Work[Result], on_done: OnDone[Result], on_failed: OnFailed
    ) -> Job:
        """Start `op` in a worker.

        Args:
            title: What it does, for the status bar.
            op: The work; gets its job. Calls `job.check()` at least every 50 ms where it can.
            on_done: Called on the GUI thread with the result, unless the job was cancelled.
            on_failed: Called on the GUI thread with an error that the input caused. Anything else
                goes to `crashed`.

        Returns:
            The job, for cancelling.
        """
        job = Job(title, on_done, on_failed, self)
        job.crashed.connect(self.crashed)
        job.finished.connect(self._forget)
        self.jobs.append(job)
        self.started.emit(job)
        # not a `QRunnable`: PySide6 never frees one that ends before `start` returns, nor its `op`
        self._pool.start(lambda: job.execute(op))
        return job

    def prepare_cache(self) -> None:
        """Remove what other runs have left in the folder of what is kept, or say it is unusable."""

        def look() -> None:
            PrivateFolder().remove_leftovers()
            kernel_cache.choose_kernel_folder()
            if why_unavailable():
                why = sentence(why_unavailable())
                self.inbox.put(lambda: self.cache_unavailable.emit(why))

        self._pool.start(look)

    def load_ahead(self, modules: Sequence[str]) -> None:
        """Import modules in a worker soon: the window waits 300 ms for a panel with plots else."""

        def load() -> None:
            for module in modules:
                import_module(module)

        QtCore.QTimer.singleShot(_LOAD_AFTER_MS, self, lambda: self._pool.start(load))

    def cancel_all(self) -> None:
        for job in self.jobs:
            job.cancel()

    def close(self) -> bool:
        """Cancel everything and wait for the workers; return whether all ended in time."""
        self.cancel_all()
        return self._pool.waitForDone(_CLOSE_WAIT_MS)

    @Slot()
    def _forget(self) -> None:
        job = self.sender()
        assert isinstance(job, Job)
        self.jobs.remove(job)
        self.ended.emit(job)
        job.deleteLater()


class JobSlot:
    """Runs one job at a time for its owner, and none once the owner is destroyed.

    Not a QObject: it outlives its view until the view's `destroyed` signal has cancelled the job.
    """

    def __init__(self, runner: JobRunner, owner: QtCore.QObject) -> None:
        self._runner = runner
        self._job: Job | None = None

        def cancel() -> None:  # PySide6 would hold a bound method weakly
            self.cancel()

        owner.destroyed.connect(cancel)

    @property
    def busy(self) -> bool:
        """Whether a job runs whose result is still wanted."""
        job = self._job
        return job is not None and not job.cancelled and job in self._runner.jobs

    @property
    def stopped(self) -> bool:
        """Whether the job was cancelled from elsewhere, such as the status bar."""
        return self._job is not None and self._job.cancelled

    def run(
        self, title: str, op: Work[Result], on_done: OnDone[Result], on_failed: OnFailed
    ) -> Job:
        """Cancel the job that runs and start another; see `JobRunner.run`."""
        self.cancel()
        self._job = self._runner.run(title, op, on_done, on_failed)
        return self._job

    def cancel(self) -> None:
        if self._job is not None:
            self._job.cancel()
            self._job = None


_SWITCH_S: Final = 0.0005
_NEVER: Final = 1 << 30
_lock: Final = threading.Lock()
_before: list[tuple[float, tuple[int, int, int]]] = []  # for each user; the first is restored


@contextmanager
def keep_gui_responsive() -> Iterator[None]:
    """Keep the GUI thread from waiting for a worker that runs Python.

    Loading Numba and compiling a kernel makes a million objects. Two things then stop the window:
    the collector, which walks over all of them and holds the interpreter's lock (50 to 150 ms), and
    the 5 ms for which a thread may keep that lock whenever the GUI thread wants it. Measured while
    kernels were compiled in a worker: pauses of 65 to 230 ms without this, 25 to 55 ms with it.
    """
    with _lock:
        _before.append((sys.getswitchinterval(), gc.get_threshold()))
        young, middle, _ = gc.get_threshold()
        gc.set_threshold(young, middle, _NEVER)
        sys.setswitchinterval(_SWITCH_S)
    try:
        yield
    finally:
        with _lock:
            interval, threshold = _before[0]
            _before.pop()
            if not _before:
                sys.setswitchinterval(interval)
                gc.set_threshold(*threshold)


def all_cores() -> int:
    """Return as many threads as there are cores for the program.

    They do not get low priority: one that holds the interpreter's lock but gets no processor keeps
    the window waiting. Longest pause on a busy machine of two cores: 184 ms with niceness 10, 43 ms
    without.
    """
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_MOST_WORKERS: Final = 4


def worker_count() -> int:
    """Return how many threads share the work on a tensor: one core stays for the window."""
    return max(1, min(_MOST_WORKERS, (os.cpu_count() or 1) - 1))
