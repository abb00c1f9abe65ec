"""Work on items one after the other, on one thread or several, with results in order.

`formats.weights_fold` does this for one tensor's chunks. Here an item may be anything, such as a
run of two tensors at once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from queue import Empty, SimpleQueue
from typing import Final, Generic, TypeVar

from explorer.in_order import Check, InOrder, never

Item = TypeVar("Item")
Result = TypeVar("Result")
Tool = TypeVar("Tool")

AHEAD: Final = 2
"""Items under way or waiting to be taken, for each thread, where results may be large."""


def map_in_order(
    items: Iterable[Item],
    work: Callable[[Item, Check], Result],
    *,
    workers: int = 1,
    ahead: int = AHEAD,
    check: Check = never,
) -> Generator[Result, None, None]:
    """Yield what a function makes of each item, in the order of the items.

    When the generator is closed, or anything raises, no thread is left running.

    Args:
        items: Taken as threads get free, a few ahead of the results; one thread at a time asks.
        work: Gets an item, and what it has to call now and then: that raises to stop.
        workers: Threads, the caller's among them.
        ahead: Items under way or waiting to be taken, for each thread.
        check: Called as often as `work` calls what it got, in that thread; raises to stop.
    """

    def work_on(item: Item, _tool: None, check: Check) -> Result:
        return work(item, check)

    tools = [None] * max(1, workers)
    threads = InOrder(items, work_on, tools, ahead=ahead, check=check, name="analysis")
    with closing(threads):
        yield from threads.results()


class Pool(Generic[Tool]):
    """Things that one thread at a time may use, such as readers and their buffers.

    Attributes:
        made: All that were made: as many as threads ever worked at once.
    """

    def __init__(self, make: Callable[[], Tool]) -> None:
        self._make = make
        self._idle: SimpleQueue[Tool] = SimpleQueue()
        self.made: list[Tool] = []

    @contextmanager
    def one(self) -> Iterator[Tool]:
        """Lend a thing that nobody uses now."""
        try:
            tool = self._idle.get_nowait()
        except Empty:
            tool = self._make()
            self.made.append(tool)
        try:
            yield tool
        finally:
            self._idle.put(tool)
