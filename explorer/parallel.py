"""Work on items on several threads, with results in the order of the items."""

from __future__ import annotations

import gc
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import repeat, tee
from typing import Any, Final, Generic, TypeAlias, TypeVar

Item = TypeVar("Item")
Given = TypeVar("Given")
Kept = TypeVar("Kept")
Result = TypeVar("Result")

Check: TypeAlias = Callable[[], object]
"""Called by work now and then, in the thread that does it; raises to cancel the work."""

AHEAD: Final = 2
"""Items per thread that may be unfinished or waiting to be taken, where results may be large."""

_POLL_S: Final = 0.05


def never() -> None:
    """Do nothing: the check of work that cannot be cancelled."""


def checked(items: Iterable[Item], check: Check) -> Iterator[Item]:
    """Yield items of which each takes little; check once for some thousands of them."""
    for number, item in enumerate(items):
        if number % _CHECK_EVERY == 0:
            check()
        yield item


_CHECK_EVERY: Final = 4096


class PerThread(threading.local, Generic[Kept]):
    """What each thread that uses it makes for itself, such as a reader or room to work.

    Attributes:
        own: That of this thread.
    """

    def __init__(self, make: Callable[[], Kept]) -> None:  # Python calls it again in each thread
        super().__init__()
        self.own = make()


_pause = threading.Lock()
_paused = 0  # works under way that found the collector on


@contextmanager
def collector_paused() -> Iterator[None]:
    """Keep Python's collector of cycles from looking again and again at new objects without any.

    A header becomes a list of up to a million plain objects, the graph of a model thousands of
    tensors; looking at them took up to 40 % of the time. It is on again when the last of several
    threads is done.
    """
    global _paused  # noqa: PLW0603 - the collector is the whole process's
    with _pause:
        pauses = _paused > 0 or gc.isenabled()  # else somebody else has it off
        _paused += pauses
        if pauses:
            gc.disable()
    try:
        yield
    finally:
        with _pause:
            _paused -= pauses
            if pauses and not _paused:
                gc.enable()


_thread = threading.local()


@contextmanager
def cancelled_by(check: Check) -> Iterator[None]:
    """Let what waits in this thread, such as a read over the network, end when a check raises.

    A read of a file is over in milliseconds and needs no check; one over the network may take
    long, and is called by code that knows no network.
    """
    before = current_check()
    _thread.check = check
    try:
        yield
    finally:
        _thread.check = before


def current_check() -> Check:
    """Return the check of the work that this thread does; `never` if it has none."""
    check: Check = getattr(_thread, "check", never)
    return check


@contextmanager
def map_in_order(  # noqa: PLR0913 - all but the first two have a default
    items: Iterable[Item],
    work: Callable[[Item, Check], Result],
    *,
    workers: int = 1,
    ahead: int = AHEAD,
    check: Check = never,
    waiting: Check = never,
) -> Iterator[Iterator[tuple[Item, Result]]]:
    """Give an iterator of items and what a function returns for each, in the order of the items.

    An exception of `work` is raised in its turn. No thread is left running at the end of the block.

    Args:
        items: Taken in the caller's thread, a few ahead of the results.
        work: Gets an item, and a check that it has to call now and then.
        workers: Threads; a single one is the caller's.
        ahead: Items per thread that may be unfinished or waiting to be taken.
        check: Called as often as `work` calls its check, in that thread; raises to cancel.
        waiting: Called in the caller's thread, every 50 ms that it waits for a result.
    """
    if workers <= 1:
        kept, worked_on = tee(items)
        yield zip(kept, map(work, worked_on, repeat(check)), strict=True)
        return
    closed = threading.Event()
    window: deque[tuple[Item, Future[Result]]] = deque()

    def checked() -> None:
        if closed.is_set():
            raise CancelledError
        check()

    def results() -> Iterator[tuple[Item, Result]]:
        for item in items:
            window.append((item, pool.submit(_run, work, item, checked)))
            if len(window) >= ahead * workers:
                yield first_result()
        while window:
            yield first_result()

    def first_result() -> tuple[Item, Result]:
        item, future = window.popleft()
        while True:
            try:
                return item, future.result(_POLL_S)
            except TimeoutError:
                if future.done():  # meanwhile, or the work itself raised it
                    return item, future.result()
            waiting()

    pool = ThreadPoolExecutor(workers, "analysis")
    try:
        yield results()
    finally:
        closed.set()
        pool.shutdown(cancel_futures=True)


def _run(work: Callable[[Item, Check], Result], item: Item, check: Check) -> Result:
    with cancelled_by(check):
        return work(item, check)


class LruCache:
    """Keeps the results that were used last, at most so many. Safe in any thread.

    Args:
        most: Results, or the sum of their sizes.
        size: Returns the size of a result, if not each counts as one.
    """

    def __init__(self, most: int, size: Callable[[Any], int] = lambda _: 1) -> None:
        self._most = most
        self._size = size
        self._lock = threading.Lock()
        self._results: OrderedDict[Hashable, object] = OrderedDict()
        self.held = 0  # the sum of sizes

    def __len__(self) -> int:
        return len(self._results)

    def get(self, key: Hashable) -> object | None:
        """Return a result, or None if it is not kept."""
        with self._lock:
            found = self._results.get(key)
            if found is not None:
                self._results.move_to_end(key)
            return found

    def find(self, key: Hashable, kind: type[Kept]) -> Kept | None:
        """Return a result of a kind, or None if it is not kept."""
        found = self.get(key)
        return found if isinstance(found, kind) else None

    def keeping(self, key: Hashable, work: Callable[[Given], Kept]) -> Callable[[Given], Kept]:
        """Return the same work, whose result is kept."""

        def keep(given: Given) -> Kept:
            result = work(given)
            self.put(key, result)
            return result

        return keep

    def put(self, key: Hashable, result: object) -> None:
        """Keep a result; those not used for longest go."""
        with self._lock:
            self._remove(key)
            self._results[key] = result
            self.held += self._size(result)
            while self.held > self._most:
                self._remove(next(iter(self._results)))

    def drop(self, chosen: Callable[[Any], bool]) -> None:
        """Forget the results of some keys."""
        with self._lock:
            for key in list(filter(chosen, self._results)):
                self._remove(key)

    def _remove(self, key: Hashable) -> None:
        if key in self._results:
            self.held -= self._size(self._results.pop(key))
