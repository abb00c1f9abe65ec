"""Fold a function over all weights of a tensor, on one thread or several.

A tensor is cut into spans whose size depends on nothing but its type. Each is folded by one thread,
chunk by chunk, and the results come back in the order of the spans: so a result is the same, to the
bit, on any number of threads.

Threads help themselves to the next span, and the caller's thread works like the others while it
waits for a result. A pool that is handed one task for each span needs a thread more, to which all
others pass the interpreter's lock at every span: two threads were then 1.6 times as fast as one.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar

from explorer.formats.weights import Check, Chunk, WeightReader, never

if TYPE_CHECKING:
    from explorer.formats.tensors import Tensor

Result = TypeVar("Result")
State = TypeVar("State")

SPAN_WEIGHTS: Final = 1 << 21
"""Most weights of a span: some milliseconds of work, which threads may end apart by."""

_AHEAD: Final = 4  # spans under way or waiting to be taken, for each thread


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
    step = _span_weights(reader)
    if workers <= 1 or tensor.parameters <= step:
        for start in range(0, tensor.parameters, step):
            stop = min(start + step, tensor.parameters)
            yield Span(start, stop, work(reader.chunks(start, stop, check)))
        return
    with closing(_Threads(tensor, reader, work, workers, check)) as threads:
        yield from threads.spans()


def _span_weights(reader: WeightReader) -> int:
    return max(1, SPAN_WEIGHTS // reader.unit) * reader.unit


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
    """Threads that work on spans, the caller's among them, and the results under way."""

    def __init__(
        self,
        tensor: Tensor,
        reader: WeightReader,
        work: Callable[[Iterator[Chunk]], Result],
        workers: int,
        check: Check,
    ) -> None:
        self._work = work
        self._check = check
        self._reader = reader
        self._parameters = tensor.parameters
        self._step = _span_weights(reader)
        self._count = -(-tensor.parameters // self._step)
        self._ahead = _AHEAD * workers
        self._stop = False
        self._changed = threading.Condition()  # guards what follows
        self._next = 0  # span that nobody has begun
        self._wanted = 0  # span whose result the caller gets next
        self._results: dict[int, Span[Result] | BaseException] = {}
        self._threads: list[threading.Thread] = []
        for number in range(1, min(workers, self._count)):
            own = WeightReader(tensor)
            thread = threading.Thread(target=self._help, args=(own,), name=f"weights-{number}")
            self._threads.append(thread)

    def spans(self) -> Iterator[Span[Result]]:
        """Yield the results in order."""
        for thread in self._threads:
            thread.start()
        for wanted in range(self._count):
            yield self._result(wanted)

    def close(self) -> None:
        """Stop the threads at their next chunk and wait for them."""
        with self._changed:
            self._stop = True
            self._changed.notify_all()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def _result(self, wanted: int) -> Span[Result]:
        """Return the result of a span, working on others until it is there."""
        while True:
            with self._changed:
                if wanted not in self._results and not self._may_begin():
                    self._changed.wait_for(lambda: wanted in self._results)
                found = self._results.pop(wanted, None)
                if found is not None:
                    self._wanted = wanted + 1
                    self._changed.notify_all()
                    break
                index = self._begin()
            self._store(index, self._run(index, self._reader))
        if isinstance(found, BaseException):
            raise found
        return found

    def _help(self, reader: WeightReader) -> None:
        """Work on spans until there are no more; a thread's main function."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._stop or self._over or self._may_begin())
                if self._stop or self._over:
                    return
                index = self._begin()
            try:
                result: Span[Result] | BaseException = self._run(index, reader)
            except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
                result = error
            self._store(index, result)
            if isinstance(result, BaseException):
                return

    @property
    def _over(self) -> bool:
        return self._next == self._count

    def _may_begin(self) -> bool:
        """Whether there is a span to begin, not too far ahead of what the caller has taken."""
        return self._next < min(self._count, self._wanted + self._ahead)

    def _begin(self) -> int:
        self._next += 1
        return self._next - 1

    def _store(self, index: int, result: Span[Result] | BaseException) -> None:
        with self._changed:
            self._results[index] = result
            if index == self._wanted:
                self._changed.notify_all()

    def _run(self, index: int, reader: WeightReader) -> Span[Result]:
        start = index * self._step
        stop = min(start + self._step, self._parameters)
        return Span(start, stop, self._work(reader.chunks(start, stop, self._before_chunk)))

    def _before_chunk(self) -> None:
        if self._stop:
            raise _Stopped
        self._check()
