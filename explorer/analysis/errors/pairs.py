"""A reference and a candidate whose weights belong together, read a run at a time.

There are two kinds: two tensors of two models, seen in the same order (`matching`), and a tensor
beside what rounding it to another type would leave of it. Whoever draws or measures errors needs
not know which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

import numpy as np

from explorer.analysis.errors.figures import RunningErrors
from explorer.analysis.errors.kernel_api import new_work
from explorer.analysis.matching.pairing import Match
from explorer.analysis.matching.views import TensorView, ViewReader
from explorer.analysis.rounding import Rounder, rounded_type, rounder
from explorer.errors import ExplorerError
from explorer.formats.tensors import Folding, Shape, Tensor
from explorer.formats.weights import SPAN_WEIGHTS, Values
from explorer.parallel import Check, PerThread, map_in_order, never
from explorer.quantization.kernel_sets import rounding_to

# Two streams of weights, walked over together, on one thread or several.


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
    tools = PerThread(lambda: (make(), new_work()))

    def work(span: Sequence[Run], check: Check) -> tuple[RunningErrors, int]:
        errors, done = RunningErrors(), 0
        pairs, room = tools.get()
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
    keys, *others = [room.keys for _, room in tools.made] or [total.keys]
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


class WeightsPair(Protocol):
    """Two sets of as many weights in the same order.

    Attributes:
        shape: Of both, row-major, outermost first.
        parameters: Number of weights of each.
        reference_name: What the reference is called.
        candidate_name: What the candidate is called.
        reference_type: The type of the reference's weights.
        candidate_type: The type of the candidate's weights.
        kernels: Names of the sets of kernels that reading both takes; see `kernel_sets`.
        notes: What was done to make the two comparable, in words.
    """

    @property
    def shape(self) -> Shape: ...
    @property
    def parameters(self) -> int: ...
    @property
    def reference_name(self) -> str: ...
    @property
    def candidate_name(self) -> str: ...
    @property
    def reference_type(self) -> str: ...
    @property
    def candidate_type(self) -> str: ...
    @property
    def kernels(self) -> frozenset[str]: ...
    @property
    def notes(self) -> tuple[str, ...]: ...

    def pairs(self) -> Pairs:
        """Return what reads runs of both; it owns buffers, so each thread takes its own."""


@dataclass(frozen=True)
class MatchedPair:
    """Two views of two models; see `WeightsPair`.

    Attributes:
        match: The views.
    """

    match: Match

    @property
    def shape(self) -> Shape:
        """Shape of both."""
        return self.match.reference.shape

    @property
    def parameters(self) -> int:
        """Number of weights of each."""
        return self.match.reference.parameters

    @property
    def reference_name(self) -> str:
        """Name of the reference's view."""
        return self.match.reference.name

    @property
    def candidate_name(self) -> str:
        """Name of the candidate's view."""
        return self.match.candidate.name

    @property
    def reference_type(self) -> str:
        """Type of the reference's tensors."""
        return self.match.reference.type_name

    @property
    def candidate_type(self) -> str:
        """Type of the candidate's tensors."""
        return self.match.candidate.type_name

    @property
    def kernels(self) -> frozenset[str]:
        """The types of all tensors of both, which joined views have several of."""
        views = (self.match.reference, self.match.candidate)
        return frozenset(tensor.type.name for view in views for tensor in view.tensors)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done to make the two comparable."""
        return (*self.match.reference.notes, *self.match.candidate.notes)

    def pairs(self) -> Pairs:
        """Return a reader of both; see `WeightsPair.pairs`."""
        return TwoViews(self.match.reference, self.match.candidate)


@dataclass(frozen=True)
class RoundedPair:
    """A tensor, and what rounding it to a type leaves of it; see `WeightsPair`.

    Attributes:
        tensor: The reference.
        type_name: The type; see `rounders.rounder`.
    """

    tensor: Tensor
    type_name: str

    def __post_init__(self) -> None:
        """Check that the tensor can have the type.

        Raises:
            ExplorerError: The type is not known, or its blocks do not fit the tensor's rows.
        """
        kind = rounded_type(self.type_name, self.tensor.type.name)
        problem = Folding(self.tensor.shape).block_problem(kind)
        if problem is not None:
            raise ExplorerError(
                f"tensor {self.tensor.name!r} cannot have type {self.type_name}: {problem}"
            )

    @property
    def shape(self) -> Shape:
        """Shape of both."""
        return self.tensor.shape

    @property
    def parameters(self) -> int:
        """Number of weights of each."""
        return self.tensor.parameters

    @property
    def reference_name(self) -> str:
        """Name of the tensor."""
        return self.tensor.name

    @property
    def candidate_name(self) -> str:
        """Name of the tensor, too."""
        return self.tensor.name

    @property
    def reference_type(self) -> str:
        """Type of the tensor."""
        return self.tensor.type.name

    @property
    def candidate_type(self) -> str:
        """The type that it is rounded to."""
        return self.type_name

    @property
    def kernels(self) -> frozenset[str]:
        """The type of the tensor, and what rounds to the other type and reads it again."""
        return frozenset((self.tensor.type.name, rounding_to(self.type_name)))

    @property
    def notes(self) -> tuple[str, ...]:
        """Nothing was done to it."""
        return ()

    def rounder(self) -> Rounder:
        """Return what rounds weights of the tensor."""
        return rounder(self.type_name, self.tensor.type.name)

    def pairs(self) -> Pairs:
        """Return a reader of both; see `WeightsPair.pairs`."""
        return _RoundedRuns(self)


class _RoundedRuns:
    """Reads runs of a tensor before and after rounding; see `lockstep.Pairs`.

    A type rounds whole blocks, so a run that begins or ends inside of one is read to its edges.
    """

    def __init__(self, pair: RoundedPair) -> None:
        self._reader = ViewReader(TensorView.of(pair.tensor))
        self._rounder = pair.rounder()
        self._step = self._rounder.type.block_weights
        self._values: Values = np.empty(0, np.float32)

    def read(self, run: Run, check: Check) -> tuple[Values, Values]:
        """Return both sides of a run; see `Pairs.read`."""
        start, count = run
        first = start - start % self._step
        stop = -(-(start + count) // self._step) * self._step
        if self._values.size < stop - first:
            self._values = np.empty(stop - first, np.float32)
        values = self._values[: stop - first]
        self._reader.read_into(first, values, check)
        rounded = self._rounder.round(values, None)
        inside = slice(start - first, start - first + count)
        return values[inside], rounded[inside]
