"""Many tensors, one after the other or at once: so that all threads have something to do.

Threads that share a tensor wait for the last of them at the end of each walk; threads that take a
tensor each need not, and two of them are a twentieth quicker so. They share one that would keep a
single thread busy when the others have nothing left to do, and a huge one, whose result would be
long in coming. Others they take as a whole, as far as there is memory for what each keeps.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, Generic, TypeAlias, TypeVar

from explorer.formats.weights import SPAN_WEIGHTS
from explorer.parallel import AHEAD, Check, map_in_order

Item = TypeVar("Item")
Result = TypeVar("Result")

_LEAST_SPANS: Final = 2  # for each thread that shares a tensor
_HUGE: Final = 1 << 27  # weights, which take a thread a quarter of a second
_MEMORY: Final = 24 << 20  # bytes that tensors worked on at once may take
_WAITING: Final = 256  # results that may wait for a tensor before theirs, some KiB each


Tell: TypeAlias = Callable[[int], object] | None
"""Told how much of an item is done; None if nobody wants to know."""


@dataclass(frozen=True, slots=True)
class Portion(Generic[Item]):
    """Something to work on.

    Attributes:
        item: What it is.
        weights: Its number of weights.
        nbytes: Stored bytes of theirs that may be kept in memory meanwhile.
        walks: How often its weights are walked over.
    """

    item: Item
    weights: int
    nbytes: int
    walks: int = 1


def share_out(
    portions: Iterable[Portion[Item]],
    work: Callable[[Item, int, Check, Tell], Result],
    *,
    workers: int,
    check: Check,
    progress: Tell = None,
) -> Iterator[Result]:
    """Yield what a function makes of each item, in order.

    When the iterator is closed, or anything raises, no thread is left running.

    Args:
        portions: The items.
        work: Gets an item, how many threads share it, what it has to call now and then (that raises
            to stop), and what it may tell how many weights it has walked over, in any thread.
        workers: Threads.
        check: Called before every item, and as often as `work` calls what it got, in that thread;
            raises to stop.
        progress: Called in the caller's thread with the weights walked over so far, of all items.
    """
    walked = _Walked(progress)

    def work_alone(task: _Task[Item], check: Check) -> tuple[_Task[Item], Result]:
        check()
        with gate.passing(task.portion.nbytes, check):
            return task, work(task.portion.item, 1, check, walked.tell_of(task))

    gate = _Gate(_MEMORY)
    ahead = max(AHEAD, _WAITING // workers)
    for is_shared, tasks in groupby(_tasks(portions, workers), key=attrgetter("is_shared")):
        if is_shared:
            for task in tasks:
                check()
                yield work(task.portion.item, workers, check, walked.tell_of(task))
                walked.end(task)
        else:
            found = map_in_order(tasks, work_alone, workers=workers, ahead=ahead, check=check)
            for task, result in found:
                yield result
                walked.end(task)


@dataclass(frozen=True, slots=True)
class _Task(Generic[Item]):
    """A portion among others.

    Attributes:
        number: Its place among them.
        portion: The portion.
        is_shared: Whether all threads share it.
    """

    number: int
    portion: Portion[Item]
    is_shared: bool


def _tasks(portions: Iterable[Portion[Item]], workers: int) -> Iterator[_Task[Item]]:
    """Yield all portions in order, with what is to be done with them."""
    portions = list(portions)
    behind = sum(portion.weights for portion in portions)
    least = _LEAST_SPANS * workers * SPAN_WEIGHTS
    for number, portion in enumerate(portions):
        behind -= portion.weights
        keeps_others_waiting = behind <= portion.weights * (workers - 1)
        enough = least if keeps_others_waiting else max(least, _HUGE)
        yield _Task(number, portion, workers <= 1 or portion.weights >= enough)


class _Walked:
    """Weights walked over: several threads add to them, and the one that made this tells them."""

    def __init__(self, progress: Tell) -> None:
        self._progress = progress
        self._thread = threading.get_ident()
        self._before = 0  # of tasks that are done
        self._under_way: dict[int, int] = {}  # by number of the task

    def tell_of(self, task: _Task[Any]) -> Tell:
        """Return what is told how far a task is, in any thread; None if nobody wants to know."""
        if self._progress is None:
            return None

        def tell(done: int) -> None:
            self._under_way[task.number] = done
            if threading.get_ident() == self._thread:
                self._report()

        return tell

    def end(self, task: _Task[Any]) -> None:
        """Count a task as done; in the thread that tells."""
        self._under_way.pop(task.number, None)
        self._before += task.portion.walks * task.portion.weights
        self._report()

    def _report(self) -> None:
        if self._progress is not None:
            self._progress(self._before + sum(list(self._under_way.values())))


class _Gate:
    """Lets threads pass while all that have passed take no more than some memory together."""

    def __init__(self, nbytes: int) -> None:
        self._changed = threading.Condition()
        self._all = self._left = nbytes

    @contextmanager
    def passing(self, nbytes: int, check: Check) -> Iterator[None]:
        """Wait for room; what is larger than all of it passes alone."""
        wanted = min(nbytes, self._all)
        with self._changed:
            while self._left < wanted:
                check()
                self._changed.wait(0.05)
            self._left -= wanted
        try:
            yield
        finally:
            with self._changed:
                self._left += wanted
                self._changed.notify_all()
