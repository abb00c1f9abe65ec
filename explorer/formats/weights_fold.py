"""Fold a function over all weights of a tensor, on one thread or several.

A tensor is cut into spans whose size depends on nothing but its type. Each is folded by one thread,
chunk by chunk, and the results come back in the order of the spans: so a result is the same, to the
bit, on any number of threads.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar

from explorer.formats.weights import Check, Chunk, WeightReader, never

if TYPE_CHECKING:
    from explorer.formats.tensors import Tensor

Result = TypeVar("Result")
State = TypeVar("State")

SPAN_WEIGHTS: Final = 1 << 21
"""Most weights of a span: some milliseconds of work, which threads may end apart by."""

_AHEAD: Final = 2  # spans under way or waiting to be taken, for each thread


class _Stopped(Exception):
    """Ends the work of a thread whose result nobody will take."""


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
    work: Callable[[Iterator[Chunk]], Result],
    *,
    workers: int = 1,
    check: Check = never,
) -> Generator[Span[Result], None, None]:
    """Call a function with the chunks of each span of a tensor; yield what it returns, in order.

    Memory is bounded by a few spans' results and a chunk for each thread. When the iterator is
    closed, or anything raises, no thread is left running.

    Args:
        tensor: The tensor.
        work: Gets the chunks of a span, each overwritten by the one after it; called in several
            threads at once if there are several.
        workers: Threads; with 1 everything happens in the caller's.
        check: Called before every chunk, in the thread that reads it; raises to stop.

    Raises:
        FormatError: The tensor cannot be decoded.
        SourceError: The file changed since it was opened.
    """
    reader = WeightReader(tensor)
    step = max(1, SPAN_WEIGHTS // reader.unit) * reader.unit
    if workers <= 1 or tensor.parameters <= step:
        for start in range(0, tensor.parameters, step):
            stop = min(start + step, tensor.parameters)
            yield Span(start, stop, work(reader.chunks(start, stop, check)))
        return
    with closing(_Threads(tensor, reader, work, workers, check)) as threads:
        yield from threads.spans(step)


@dataclass(frozen=True, slots=True)
class Fold(Generic[State]):
    """How something is gathered from chunks.

    Attributes:
        begin: Makes the state of no weights.
        step: Adds a chunk to a state, in place; called in several threads at once.
        combine: Adds the state of later weights to a state, in place; called in order, in one
            thread.
        any_order: Whether the order of chunks changes nothing, as with counts. Then a thread adds
            several spans to one state, and states are combined at the end.
    """

    begin: Callable[[], State]
    step: Callable[[State, Chunk], object]
    combine: Callable[[State, State], object]
    any_order: bool = False

    def gather(self, chunks: Iterator[Chunk]) -> State:
        """Return the state of some chunks."""
        state = self.begin()
        for chunk in chunks:
            self.step(state, chunk)
        return state


Watch: TypeAlias = Callable[[State, int], object]
"""Called in the caller's thread as spans are done: the state so far, and the number of weights.

Of a fold in any order the state is still that of no weights.
"""


def fold_chunks(
    tensor: Tensor,
    fold: Fold[State],
    *,
    workers: int = 1,
    check: Check = never,
    watch: Watch[State] | None = None,
) -> State:
    """Fold over all of a tensor's chunks; the result does not depend on the number of threads.

    Args:
        tensor: The tensor.
        fold: What is gathered.
        workers: Threads.
        check: Called before every chunk, in the thread that reads it; raises to stop.
        watch: Told how far it is.

    Raises:
        FormatError: The tensor cannot be decoded.
        SourceError: The file changed since it was opened.
    """
    total = fold.begin()
    kept = _KeptStates(fold)
    work = kept.gather if fold.any_order else fold.gather
    with closing(map_spans(tensor, work, workers=workers, check=check)) as spans:
        for span in spans:
            if not fold.any_order:
                fold.combine(total, span.result)
            if watch is not None:
                watch(total, span.stop)
    for state in kept.states:
        fold.combine(total, state)
    return total


class _KeptStates(Generic[State]):
    """States that are used for one span after the other, as many as there are threads."""

    def __init__(self, fold: Fold[State]) -> None:
        self._fold = fold
        self._idle: deque[State] = deque()
        self.states: list[State] = []

    def gather(self, chunks: Iterator[Chunk]) -> State:
        """Add some chunks to a state that no other thread uses now."""
        try:
            state = self._idle.pop()
        except IndexError:
            state = self._fold.begin()
            self.states.append(state)
        for chunk in chunks:
            self._fold.step(state, chunk)
        self._idle.append(state)
        return state


class _Threads(Generic[Result]):
    """Threads that work on spans, and the results under way."""

    def __init__(
        self,
        tensor: Tensor,
        reader: WeightReader,
        work: Callable[[Iterator[Chunk]], Result],
        workers: int,
        check: Check,
    ) -> None:
        self._tensor = tensor
        self._work = work
        self._check = check
        self._workers = workers
        self._stop = threading.Event()
        self._readers: SimpleQueue[WeightReader] = SimpleQueue()  # at most one for each thread
        self._readers.put(reader)
        for _ in range(workers - 1):
            self._readers.put(WeightReader(tensor))
        self._executor = ThreadPoolExecutor(workers, "weights")

    def spans(self, step: int) -> Iterator[Span[Result]]:
        """Yield the results in order, working ahead a little."""
        waiting: deque[Future[Span[Result]]] = deque()
        count = self._tensor.parameters
        starts = iter(range(0, count, step))
        while True:
            while len(waiting) < _AHEAD * self._workers:
                start = next(starts, None)
                if start is None:
                    break
                stop = min(start + step, count)
                waiting.append(self._executor.submit(self._run, start, stop))
            if not waiting:
                return
            yield waiting.popleft().result()

    def close(self) -> None:
        """Stop the threads at their next chunk and wait for them."""
        self._stop.set()
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _run(self, start: int, stop: int) -> Span[Result]:
        reader = self._readers.get()
        try:
            return Span(start, stop, self._work(reader.chunks(start, stop, self._before_chunk)))
        finally:
            self._readers.put(reader)

    def _before_chunk(self) -> None:
        if self._stop.is_set():
            raise _Stopped
        self._check()
