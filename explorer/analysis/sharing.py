"""Many tensors, one after the other or at once: so that all threads have something to do.

Threads share the work on a large tensor, so that the largest one does not keep a single thread busy
at the end. A small one is too little for that: a span of it is all that a thread takes at a time.
So threads take small ones as a whole, several at once, as far as there is memory for what each
keeps.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import Final, Generic, TypeAlias, TypeVar

from explorer.analysis.parallel import map_in_order
from explorer.formats.weights import Check
from explorer.formats.weights_fold import SPAN_WEIGHTS

Item = TypeVar("Item")
Result = TypeVar("Result")

_LEAST_SPANS: Final = 2  # of a large tensor, for each thread
_MEMORY: Final = 24 << 20  # bytes that small tensors worked on at once may take


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
        portions: The items; taken a few ahead of the results.
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

    def is_large(portion: Portion[Item]) -> bool:
        return workers <= 1 or portion.weights >= _LEAST_SPANS * workers * SPAN_WEIGHTS

    def work_alone(portion: Portion[Item], check: Check) -> tuple[Portion[Item], Result]:
        check()
        with gate.passing(portion.nbytes, check):
            return portion, work(portion.item, 1, check, None)

    gate = _Gate(_MEMORY)
    for large, group in groupby(portions, is_large):
        if large:
            for portion in group:
                check()
                yield work(portion.item, workers, check, None if progress is None else tell)
                before += portion.walks * portion.weights
                tell(0)
        else:
            for portion, found in map_in_order(group, work_alone, workers=workers, check=check):
                yield found
                before += portion.walks * portion.weights
                tell(0)


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
