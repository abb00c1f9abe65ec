"""Work on items on several threads, with results in the order of the items."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Final, Generic, TypeAlias, TypeVar

Item = TypeVar("Item")
Tool = TypeVar("Tool")
Result = TypeVar("Result")

Check: TypeAlias = Callable[[], object]
"""Called by work now and then, in the thread that does it; raises to cancel the work."""

AHEAD: Final = 2
"""Items per thread that may be unfinished or waiting to be taken, where results may be large."""

_POLL_S: Final = 0.05


def never() -> None:
    """Do nothing: the check of work that cannot be cancelled."""


def map_in_order(  # noqa: PLR0913 - all but the first two have a default
    items: Iterable[Item],
    work: Callable[[Item, Check], Result],
    *,
    workers: int = 1,
    ahead: int = AHEAD,
    check: Check = never,
    waiting: Check = never,
) -> Generator[Result, None, None]:
    """Yield what a function returns for each item, in the order of the items.

    An exception of `work` is raised in its turn. When the generator is closed, or anything raises,
    no thread is left running.

    Args:
        items: Taken in the caller's thread, a few ahead of the results.
        work: Gets an item, and a check that it has to call now and then.
        workers: Threads; a single one is the caller's.
        ahead: Items per thread that may be unfinished or waiting to be taken.
        check: Called as often as `work` calls its check, in that thread; raises to cancel.
        waiting: Called in the caller's thread, every 50 ms that it waits for a result.
    """
    if workers <= 1:
        for item in items:
            yield work(item, check)
        return
    closed = threading.Event()

    def checked() -> None:
        if closed.is_set():
            raise CancelledError
        check()

    def result(future: Future[Result]) -> Result:
        while True:
            try:
                return future.result(_POLL_S)
            except TimeoutError:
                if future.done():  # meanwhile, or the work itself raised it
                    return future.result()
            waiting()

    pool = ThreadPoolExecutor(workers, "analysis")
    window: deque[Future[Result]] = deque()
    try:
        for item in items:
            window.append(pool.submit(work, item, checked))
            if len(window) >= ahead * workers:
                yield result(window.popleft())
        while window:
            yield result(window.popleft())
    finally:
        closed.set()
        pool.shutdown(cancel_futures=True)


class PerThread(Generic[Tool]):
    """A tool for each thread that asks, such as a reader with its buffers.

    Attributes:
        made: The tools of all threads.
    """

    def __init__(self, make: Callable[[], Tool]) -> None:
        self._make = make
        self._local = threading.local()
        self.made: list[Tool] = []

    def get(self) -> Tool:
        """Return the calling thread's tool; it is made at the first call."""
        if not hasattr(self._local, "tool"):
            self._local.tool = self._make()
            self.made.append(self._local.tool)
        tool: Tool = self._local.tool
        return tool
