"""Work on items one after the other, on one thread or several, with results in order.

`formats.weights_fold` does this for one tensor's chunks. Here an item may be anything, such as a
run of two tensors at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from queue import Empty, SimpleQueue
from typing import Final, Generic, TypeAlias, TypeVar

# Work on items, on several threads, with results in the order of the items.
#
# Threads help themselves to the next item, and the caller's thread works like the others while it
# waits for a result. A pool that is handed one task for each item needs a thread more, to which
# all others pass the interpreter's lock at every item: two threads were then 1.6 times as fast as
# one where they are 1.8 times as fast without.


Item = TypeVar("Item")
Tool = TypeVar("Tool")
Result = TypeVar("Result")

Check: TypeAlias = Callable[[], object]
"""What work calls now and then, in its thread; what it raises ends the work."""


def never() -> None:
    """Do nothing: the check of work that nobody can cancel."""


class _Stopped(Exception):
    """Ends the work of a thread whose result nobody will take."""


class InOrder(Generic[Item, Tool, Result]):
    """Threads that work on items, the caller's among them. To be closed, by `contextlib.closing`.

    Args:
        items: Taken as threads get free; one thread at a time asks for the next.
        work: Makes a result of an item, with a tool of its thread; calls what it gets last.
        tools: One for each thread; the first is the caller's.
        ahead: Items under way or waiting to be taken, for each thread.
        check: What work has to call.
        name: What the threads are called, for whoever looks at a stack.
    """

    def __init__(  # noqa: PLR0913 - what threads share
        self,
        items: Iterable[Item],
        work: Callable[[Item, Tool, Check], Result],
        tools: Sequence[Tool],
        *,
        ahead: int,
        check: Check,
        name: str,
    ) -> None:
        self._work = work
        self._tool = tools[0]
        self._check = check
        self._ahead = ahead * len(tools)
        self._stop = False
        self._changed = threading.Condition()  # guards what follows
        self._items = iter(items)
        self._over = False  # there are no more items
        self._next = 0  # item that nobody has begun
        self._wanted = 0  # item whose result the caller gets next
        self._results: dict[int, tuple[Result] | BaseException] = {}
        self._threads = [
            threading.Thread(target=self._help, args=(tool,), name=f"{name}-{number}")
            for number, tool in enumerate(tools[1:], 1)
        ]

    def results(self) -> Iterator[Result]:
        """Yield the results in order; what a thread raised is raised here in its turn."""
        for thread in self._threads:
            thread.start()
        while (found := self._result()) is not None:
            yield found[0]

    def close(self) -> None:
        """Have the threads stop when they next check, and wait for them."""
        with self._changed:
            self._stop = True
            self._changed.notify_all()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def _result(self) -> tuple[Result] | None:
        """Return the next result, working on others until it is there; None behind the last."""
        while True:
            with self._changed:
                found = self._results.pop(self._wanted, None)
                if found is not None:
                    self._wanted += 1
                    self._changed.notify_all()
                    break
                taken = self._take()
                if taken is None:
                    if self._wanted == self._next:
                        return None
                    self._changed.wait_for(lambda: self._wanted in self._results)
                    continue
            number, item = taken
            self._store(number, (self._work(item, self._tool, self._checked),))
        if isinstance(found, BaseException):
            raise found
        return found

    def _help(self, tool: Tool) -> None:
        """Work on items until there are no more; a thread's main function."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._stop or self._over or self._may_begin())
                taken = None if self._stop else self._take()
                if taken is None:
                    return
            number, item = taken
            try:
                result: tuple[Result] | BaseException = (self._work(item, tool, self._checked),)
            except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
                result = error
            self._store(number, result)
            if isinstance(result, BaseException):
                return

    def _may_begin(self) -> bool:
        """Whether an item may be begun: not too far ahead of what the caller has taken."""
        return self._next < self._wanted + self._ahead

    def _take(self) -> tuple[int, Item] | None:
        """Begin the next item; None if there is none, or none may be begun yet."""
        if self._over or not self._may_begin():
            return None
        try:
            item = next(self._items)
        except StopIteration:
            self._end()
            return None
        except BaseException as error:  # noqa: BLE001 - raised in the caller's thread, in its turn
            self._results[self._next] = error
            self._next += 1
            self._end()
            return None
        self._next += 1
        return self._next - 1, item

    def _end(self) -> None:
        self._over = True
        self._changed.notify_all()

    def _store(self, number: int, result: tuple[Result] | BaseException) -> None:
        with self._changed:
            self._results[number] = result
            if number == self._wanted:
                self._changed.notify_all()

    def _checked(self) -> None:
        if self._stop:
            raise _Stopped
        self._check()


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
