"""Many tensors, one after the other or at once: so that all threads have something to do.

Threads that share a tensor wait for the last of them at the end of each walk; threads that take a
tensor each need not, and two of them are a twentieth quicker so. They share one that would keep a
single thread busy when the others have nothing left to do, and a huge one, of which nobody would
hear for long. Others they take as a whole, as far as there is memory for what each keeps.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Final, Generic, TypeAlias, TypeVar

from explorer.analysis.parallel import AHEAD, map_in_order
from explorer.formats.weights import Check
from explorer.formats.weights_fold import SPAN_WEIGHTS

Item = TypeVar("Item")
Result = TypeVar("Result")

_LEAST_SPANS: Final = 2  # for each thread that shares a tensor
_HUGE: Final = 1 << 27  # weights, of which a thread tells nothing for a quarter of a second
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
            to stop), and what it may tell how many weights it has walked over.
        workers: Threads.
        check: Called before every item, and as often as `work` calls what it got, in that thread;
            raises to stop.
        progress: Called in the caller's thread with the weights walked over so far, of all items.
    """
    before = 0

    def tell(done: int) -> None:
        if progress is not None:
            progress(before + done)

    def work_alone(portion: Portion[Item], check: Check) -> tuple[Portion[Item], Result]:
        check()
        with gate.passing(portion.nbytes, check):
            return portion, work(portion.item, 1, check, None)

    gate = _Gate(_MEMORY)
    ahead = max(AHEAD, _WAITING // workers)
    for is_shared, group in groupby(_planned(portions, workers), key=itemgetter(0)):
        taken = (portion for _, portion in group)
        if is_shared:
            for portion in taken:
                check()
                yield work(portion.item, workers, check, None if progress is None else tell)
                before += portion.walks * portion.weights
                tell(0)
        else:
            found = map_in_order(taken, work_alone, workers=workers, ahead=ahead, check=check)
            for portion, result in found:
                yield result
                before += portion.walks * portion.weights
                tell(0)


def _planned(
    portions: Iterable[Portion[Item]], workers: int
) -> Iterator[tuple[bool, Portion[Item]]]:
    """Yield the items in order, and of each whether all threads share it."""
    portions = list(portions)
    behind = sum(portion.weights for portion in portions)
    least = _LEAST_SPANS * workers * SPAN_WEIGHTS
    for portion in portions:
        behind -= portion.weights
        keeps_others_waiting = behind <= portion.weights * (workers - 1)
        enough = least if keeps_others_waiting else max(least, _HUGE)
        yield workers <= 1 or portion.weights >= enough, portion


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
