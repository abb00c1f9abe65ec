"""Fold a function over all weights of a tensor, on one thread or several.

A tensor is cut into spans whose size depends on nothing but its type. Each is folded by one thread,
part by part, and the results come back in the order of the spans: so a result is the same, to the
bit, on any number of threads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar

from explorer.formats.weights import WeightReader
from explorer.in_order import Check, InOrder, never

if TYPE_CHECKING:
    from explorer.formats.tensors import Tensor

Result = TypeVar("Result")
State = TypeVar("State")
Part = TypeVar("Part")

Walk: TypeAlias = Callable[[WeightReader, int, int, Check], Iterator[Part]]
"""What a reader gives of the weights between two places, part by part: `WeightReader.chunks`, say.

Each part is overwritten by the one after it.
"""

SPAN_WEIGHTS: Final = 1 << 21
"""Most weights of a span: some milliseconds of work, which threads may end apart by."""

_AHEAD: Final = 4  # spans under way or waiting to be taken, for each thread


@dataclass(frozen=True, slots=True)
class Span(Generic[Result]):
    """What came of one run of weights.

    Attributes:
        start: Flat index of its first weight.
        stop: Behind its last weight.
        result: What the function returned.
    """

    start: int
    stop: int
    result: Result


def map_spans(
    tensor: Tensor,
    work: Callable[[Iterator[Part]], Result],
    *,
    walk: Walk[Part],
    workers: int = 1,
    check: Check = never,
) -> Generator[Span[Result], None, None]:
    """Call a function with the parts of each span of a tensor; yield what it returns, in order.

    Memory is bounded by a few spans' results and a part for each thread. When the iterator is
    closed, or anything raises, no thread is left running.

    Args:
        tensor: The tensor.
        work: Gets the parts of a span; called in several threads at once if there are several.
        walk: What the parts are.
        workers: Threads, the caller's among them.
        check: Called before every part, in the thread that reads it; raises to stop.

    Raises:
        FormatError: The tensor cannot be decoded.
        SourceError: The file changed since it was opened.
    """
    reader = WeightReader(tensor)
    step = _span_weights(reader)
    starts = range(0, tensor.parameters, step)

    def work_on(start: int, reader: WeightReader, check: Check) -> Span[Result]:
        stop = min(start + step, tensor.parameters)
        return Span(start, stop, work(walk(reader, start, stop, check)))

    readers = [reader, *(WeightReader(tensor) for _ in range(1, min(workers, len(starts))))]
    threads = InOrder(starts, work_on, readers, ahead=_AHEAD, check=check, name="weights")
    with closing(threads):
        yield from threads.results()


def _span_weights(reader: WeightReader) -> int:
    return max(1, SPAN_WEIGHTS // reader.unit) * reader.unit


@dataclass(frozen=True, slots=True)
class Fold(Generic[State, Part]):
    """How something is gathered from the parts of a tensor.

    Attributes:
        begin: Makes the state of no weights.
        step: Adds a part to a state, in place; called in several threads at once.
        combine: Adds the state of later weights to a state, in place; called in order, in one
            thread.
        walk: What the parts are.
        any_order: Whether the order of parts changes nothing, as with counts. Then a thread adds
            several spans to one state, and states are combined at the end.
    """

    begin: Callable[[], State]
    step: Callable[[State, Part], object]
    combine: Callable[[State, State], object]
    walk: Walk[Part]
    any_order: bool = False

    def gather(self, parts: Iterator[Part]) -> State:
        """Return the state of some parts."""
        state = self.begin()
        for part in parts:
            self.step(state, part)
        return state


Watch: TypeAlias = Callable[[State, int], object]
"""Called in the caller's thread as spans are done: the state so far, and the number of weights.

Of a fold in any order the state is still that of no weights.
"""


def fold_parts(
    tensor: Tensor,
    fold: Fold[State, Part],
    *,
    workers: int = 1,
    check: Check = never,
    watch: Watch[State] | None = None,
) -> State:
    """Fold over all weights of a tensor; the result does not depend on the number of threads.

    Args:
        tensor: The tensor.
        fold: What is gathered.
        workers: Threads.
        check: Called before every part, in the thread that reads it; raises to stop.
        watch: Told how far it is.

    Raises:
        FormatError: The tensor cannot be decoded.
        SourceError: The file changed since it was opened.
    """
    total = fold.begin()
    kept = _KeptStates(fold)
    work = kept.gather if fold.any_order else fold.gather
    spans = map_spans(tensor, work, walk=fold.walk, workers=workers, check=check)
    with closing(spans):
        for span in spans:
            if not fold.any_order:
                fold.combine(total, span.result)
            if watch is not None:
                watch(total, span.stop)
    for state in kept.states:
        fold.combine(total, state)
    return total


class _KeptStates(Generic[State, Part]):
    """States that are used for one span after the other, as many as there are threads."""

    def __init__(self, fold: Fold[State, Part]) -> None:
        self._fold = fold
        self._idle: deque[State] = deque()
        self.states: list[State] = []

    def gather(self, parts: Iterator[Part]) -> State:
        """Add some parts to a state that no other thread uses now."""
        try:
            state = self._idle.pop()
        except IndexError:
            state = self._fold.begin()
            self.states.append(state)
        for part in parts:
            self._fold.step(state, part)
        self._idle.append(state)
        return state
