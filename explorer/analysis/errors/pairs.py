"""Two sets of weights that belong together, read a run at a time.

They are two tensors of two models, seen in the same order (`matching`), or a tensor and the result
of rounding it to another type.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from explorer.analysis.blocks import CodeCounts
from explorer.analysis.errors.kernel_api import KEYS, new_work
from explorer.analysis.errors.metrics import RunningErrors
from explorer.analysis.matching.pairing import Match
from explorer.analysis.matching.views import TensorView, ViewReader
from explorer.analysis.rounding import Rounder, rounded_type, rounder
from explorer.errors import ExplorerError
from explorer.formats.tensors import Folding, Shape, Tensor
from explorer.formats.weights import SPAN_WEIGHTS, Values
from explorer.parallel import Check, map_in_order, never

Run: TypeAlias = tuple[int, int]
"""Flat index of the first weight, and number of weights."""

RUN_WEIGHTS: Final = 1 << 18
"""Most weights of a run: 1 MiB of each side, which a core's share of the caches has room for."""

_LONGEST_BLOCK: Final = 256  # runs begin and end at blocks of every type


class PairReader(Protocol):
    """Reads runs of weights of a reference and of a candidate. Owns buffers: for one thread."""

    def read(self, run: Run, check: Check) -> tuple[Values, Values]:
        """Return both, float32 [n], overwritten by the next call; raises as `check` does."""


def measure_pairs(  # noqa: PLR0913 - all but the first two have a default
    spans: Iterable[Sequence[Run]],
    make: Callable[[], PairReader],
    *,
    workers: int = 1,
    check: Check = never,
    progress: Callable[[int], object] | None = None,
    watch: Callable[[RunningErrors], object] | None = None,
) -> RunningErrors:
    """Return the errors of all pairs, the same to the bit for any number of threads.

    Args:
        spans: Runs, in groups that a thread takes as a whole.
        make: Makes a reader of them for each thread.
        workers: Threads. Each holds some MiB.
        check: Called before every run, in the thread that reads it; raises to stop.
        progress: Called in the caller's thread with the number of pairs done.
        watch: Called in the caller's thread with the errors of the pairs so far, without counts.

    Raises:
        FormatError: A file is damaged there, or a type's weights cannot be decoded.
        SourceError: A file changed since it was opened.
    """
    counted: list[NDArray[np.int64]] = []
    own = _ThreadTools(make, counted)

    def work(span: Sequence[Run], check: Check) -> RunningErrors:
        errors = RunningErrors()
        for run in span:
            check()
            errors.add(*own.pairs.read(run, check), own.room)
        return errors

    total, done = RunningErrors(), 0
    with map_in_order(spans, work, workers=workers, check=check) as results:
        for span, errors in results:
            total.combine(errors)
            done += sum(count for _, count in span)
            if progress is not None:
                progress(done)
            if watch is not None:
                watch(total)
    total.keys = sum(counted, np.zeros(KEYS, np.int64))
    return total


class _ThreadTools(threading.local):
    """For each thread a reader of pairs and room to work, whose counts of |e| join a list."""

    def __init__(
        self, make: Callable[[], PairReader], counted: list[NDArray[np.int64]]
    ) -> None:  # Python calls it again in each thread
        super().__init__()
        self.pairs, self.room = make(), new_work()
        counted.append(self.room.keys)


def flat_spans(count: int) -> Iterator[Sequence[Run]]:
    """Yield spans of runs that fit into the processor's cache, over so many weights."""
    assert SPAN_WEIGHTS % RUN_WEIGHTS == RUN_WEIGHTS % _LONGEST_BLOCK == 0
    for start in range(0, count, SPAN_WEIGHTS):
        places = range(start, min(start + SPAN_WEIGHTS, count), RUN_WEIGHTS)
        yield [(place, min(RUN_WEIGHTS, count - place)) for place in places]


class ViewPairReader:
    """Reads runs of two views of as many weights in the same order; see `PairReader`."""

    def __init__(self, reference: TensorView, candidate: TensorView) -> None:
        size = min(RUN_WEIGHTS, reference.parameters)
        self._sides = [
            (ViewReader(view), np.empty(size, np.float32)) for view in (reference, candidate)
        ]

    def read(self, run: Run, check: Check) -> tuple[Values, Values]:
        """Return both sides of a run; see `PairReader.read`."""
        start, count = run
        for reader, buffer in self._sides:
            reader.read_into(start, buffer[:count], check)
        reference, candidate = (buffer[:count] for _, buffer in self._sides)
        return reference, candidate


class RoundedReader:
    """Reads runs of weights before and after rounding; see `PairReader`.

    A type rounds whole blocks, so a run that begins or ends inside of one is read to its edges.

    Args:
        view: The weights.
        kind: The rounder.
        importance: float32 [matrices, columns] or None; runs are whole rows of one matrix then.
        count_codes: Whether to count the codes of all blocks that are read.

    Attributes:
        counts: The counted codes; None of a type without codes, or if they are not counted.
    """

    def __init__(
        self,
        view: TensorView,
        kind: Rounder,
        importance: Values | None = None,
        *,
        count_codes: bool = False,
    ) -> None:
        self.counts: CodeCounts | None = None
        if count_codes and kind.levels is not None:
            self.counts = CodeCounts(kind.levels)
        self._reader = ViewReader(view)
        self._rounder = kind
        self._importance = importance
        self._matrix = view.parameters // len(importance) if importance is not None else 0
        self._values: Values = np.empty(0, np.float32)

    def read(self, run: Run, check: Check) -> tuple[Values, Values]:
        """Return both sides of a run; see `PairReader.read`."""
        start, count = run
        step = self._rounder.type.block_weights
        first = start - start % step
        stop = -(-(start + count) // step) * step
        if self._values.size < stop - first:
            self._values = np.empty(stop - first, np.float32)
        values = self._values[: stop - first]
        self._reader.read_into(first, values, check)
        importance = None
        if self._importance is not None:
            importance = self._importance[start // self._matrix]
        rounded = self._rounder.round(values, importance)
        if self.counts is not None:
            self.counts.add(self._rounder.codes())
        inside = slice(start - first, start - first + count)
        return values[inside], rounded[inside]


def rounded_saturated_share(readers: Sequence[RoundedReader]) -> float | None:
    """Return the share of saturated codes of all that was rounded; None of a type without codes.

    Args:
        readers: Of each thread; their counts are added to those of the first.
    """
    counts = [one.counts for one in readers if one.counts is not None]
    if not counts:
        return None
    for other in counts[1:]:
        counts[0].combine(other)
    return counts[0].shares().saturated_share


class WeightsPair:
    """Two sets of as many weights in the same order.

    Attributes:
        shape: Of both, row-major, outermost first.
        parameters: Number of weights of each.
        reference_name: The name of the reference.
        candidate_name: The name of the candidate.
        reference_type: The type of the reference's weights; several are joined by a plus sign.
        candidate_type: The type of the candidate's weights.
        notes: What was done to make the two comparable, in words.
    """

    shape: Shape
    parameters: int
    reference_name: str
    candidate_name: str
    reference_type: str
    candidate_type: str
    notes: tuple[str, ...] = ()

    def reader(self) -> PairReader:
        """Return a reader of both; each thread takes its own."""
        raise NotImplementedError


class MatchedPair(WeightsPair):
    """Two views of two models.

    Attributes:
        match: The views.
    """

    def __init__(self, match: Match) -> None:
        reference, candidate = match.reference, match.candidate
        self.match = match
        self.shape = reference.shape
        self.parameters = reference.parameters
        self.reference_name, self.candidate_name = reference.name, candidate.name
        self.reference_type, self.candidate_type = reference.type_name, candidate.type_name
        self.notes = (*reference.notes, *candidate.notes)

    def reader(self) -> PairReader:
        """Return a reader of both views."""
        return ViewPairReader(self.match.reference, self.match.candidate)


class RoundedPair(WeightsPair):
    """A tensor, and the result of rounding it to a type.

    Attributes:
        tensor: The reference.

    Raises:
        ExplorerError: The type is not known, or its blocks do not fit the tensor's rows.
    """

    def __init__(self, tensor: Tensor, type_name: str) -> None:
        kind = rounded_type(type_name, tensor.type.name)
        problem = Folding(tensor.shape).block_problem(kind)
        if problem is not None:
            raise ExplorerError(f"tensor {tensor.name!r} cannot have type {type_name}: {problem}")
        self.tensor = tensor
        self.shape = tensor.shape
        self.parameters = tensor.parameters
        self.reference_name = self.candidate_name = tensor.name
        self.reference_type, self.candidate_type = tensor.type.name, type_name

    def reader(self, *, count_codes: bool = False) -> RoundedReader:
        """Return a reader of the tensor before and after rounding."""
        kind = rounder(self.candidate_type, self.reference_type)
        return RoundedReader(TensorView.of(self.tensor), kind, count_codes=count_codes)
