"""Two streams of weights, walked over together, on one thread or several."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Final, Protocol, TypeAlias

import numpy as np

from explorer.analysis.errors.figures import RunningErrors
from explorer.analysis.errors.kernel_fields import new_work
from explorer.analysis.matching.view_reader import ViewReader
from explorer.analysis.matching.views import TensorView
from explorer.formats.weights import SPAN_WEIGHTS, Values
from explorer.parallel import Check, Pool, map_in_order, never

Run: TypeAlias = tuple[int, int]
"""Flat index of the first weight, and number of weights."""

RUN_WEIGHTS: Final = 1 << 18
"""Most weights of a run: 1 MiB of each side, which a core's share of the caches has room for."""

_LONGEST_BLOCK: Final = 256  # runs begin and end at blocks of every type


class Pairs(Protocol):
    """Reads runs of weights of a reference and of a candidate. Owns buffers: for one thread."""

    def read(self, run: Run, check: Check) -> tuple[Values, Values]:
        """Return both, float32 [n], overwritten by the next call; raises as `check` does."""


def measure_pairs(  # noqa: PLR0913 - all but the first two have a default
    spans: Iterable[Sequence[Run]],
    make: Callable[[], Pairs],
    *,
    workers: int = 1,
    check: Check = never,
    progress: Callable[[int], object] | None = None,
    watch: Callable[[RunningErrors], object] | None = None,
) -> RunningErrors:
    """Return the errors of all pairs, the same to the bit for any number of threads.

    Args:
        spans: Runs, in bunches of which a thread takes one after the other.
        make: Makes what reads them, once for each thread.
        workers: Threads. Each holds some MiB.
        check: Called before every run, in the thread that reads it; raises to stop.
        progress: Called in the caller's thread with the number of pairs done.
        watch: Called in the caller's thread with the errors of the pairs so far, without counts.

    Raises:
        FormatError: A file is damaged there, or a type's weights cannot be decoded.
        SourceError: A file changed since it was opened.
    """
    pool = Pool(lambda: (make(), new_work()))

    def work(span: Sequence[Run], check: Check) -> tuple[RunningErrors, int]:
        errors, done = RunningErrors(), 0
        with pool.one() as (pairs, room):
            for run in span:
                check()
                errors.add(*pairs.read(run, check), room)
                done += run[1]
        return errors, done

    total, done = RunningErrors(), 0
    with closing(map_in_order(spans, work, workers=workers, check=check)) as results:
        for part, count in results:
            total.combine(part)
            done += count
            if progress is not None:
                progress(done)
            if watch is not None:
                watch(total)
    keys, *others = [room.keys for _, room in pool.made] or [total.keys]
    for other in others:
        keys += other
    total.keys = keys
    return total


def flat_spans(count: int) -> Iterator[Sequence[Run]]:
    """Yield spans of runs that fit into the processor's cache, over so many weights."""
    assert SPAN_WEIGHTS % RUN_WEIGHTS == RUN_WEIGHTS % _LONGEST_BLOCK == 0
    for start in range(0, count, SPAN_WEIGHTS):
        places = range(start, min(start + SPAN_WEIGHTS, count), RUN_WEIGHTS)
        yield [(place, min(RUN_WEIGHTS, count - place)) for place in places]


class TwoViews:
    """Reads runs of two views of as many weights in the same order; see `Pairs`."""

    def __init__(self, reference: TensorView, candidate: TensorView) -> None:
        size = min(RUN_WEIGHTS, reference.parameters)
        self._reference = ViewReader(reference), np.empty(size, np.float32)
        self._candidate = ViewReader(candidate), np.empty(size, np.float32)

    def read(self, run: Run, check: Check) -> tuple[Values, Values]:
        """Return both sides of a run; see `Pairs.read`."""
        return self._read(self._reference, run, check), self._read(self._candidate, run, check)

    def _read(self, side: tuple[ViewReader, Values], run: Run, check: Check) -> Values:
        reader, buffer = side
        values = buffer[: run[1]]
        reader.read_into(run[0], values, check)
        return values
