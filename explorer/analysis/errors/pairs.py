"""Two sets of weights that belong together, read a run at a time, and their errors.

They are two tensors of two models, seen in the same order (`matching`), or a tensor and the result
of rounding it to another type.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from math import prod
from typing import Any, Final, Protocol, TypeAlias

import numpy as np

from explorer.analysis.blocks import BlockUnpacker, CodeCounts, code_shares, is_quantized
from explorer.analysis.errors.kernel_api import KEYS, Work, new_work
from explorer.analysis.errors.metrics import (
    MOST_COLUMN_BYTES,
    AllCounts,
    ColumnErrors,
    ErrorMetrics,
    PairCounts,
    RunningErrors,
    WeightedErrors,
)
from explorer.analysis.matching.pairing import Match
from explorer.analysis.matching.views import TensorView, ViewReader, Weights, view_of, without_ones
from explorer.analysis.rounding import (
    FloatBuffer,
    Rounder,
    rounded_type,
    rounder,
    rounding_problem,
    scheme_of,
    shape_problem,
    whole_finder,
)
from explorer.errors import ExplorerError
from explorer.formats.weights import SPAN_WEIGHTS, Values, check_decodable
from explorer.parallel import Check, PerThread, map_in_order, never
from explorer.quantization.huggingface.schemes import Scheme

Run: TypeAlias = tuple[int, int]
"""Flat index of the first weight, and number of weights."""

RUN_WEIGHTS: Final = 1 << 18
"""Most weights of a run: 1 MiB of each side, which a core's share of the caches has room for."""

_LONGEST_BLOCK: Final = 256  # runs begin and end at blocks of every type


class PairReader(Protocol):
    """Reads runs of weights of a reference and of a candidate. Owns buffers: for one thread.

    Attributes:
        codes: The codes of all that was rounded so far; None where they are not counted.
    """

    codes: CodeCounts | None

    def read(
        self, run: Run, check: Check, reference: Values | None = None
    ) -> tuple[Values, Values]:
        """Return both, float32 [n], overwritten by the next call; raises as `check` does.

        Args:
            reference: What another reader of the same reference returned for this run.
        """


class _ViewReader:
    """Reads runs of two views of as many weights in the same order; see `PairReader`.

    Codes are counted on the way where the candidate is a tensor as it is stored.
    """

    def __init__(
        self, reference: TensorView, candidate: TensorView, *, count_codes: bool = False
    ) -> None:
        self._size = min(RUN_WEIGHTS, reference.parameters)
        self.codes: CodeCounts | None = None
        seen = None
        if count_codes and _is_stored_so(candidate):
            unpacker = BlockUnpacker(candidate.parts[0].tensor)
            codes = self.codes = CodeCounts(unpacker.levels)
            seen = lambda stored: codes.add(unpacker.codes(stored))  # noqa: E731 - of one expression
        self._readers = ViewReader(reference), ViewReader(candidate, seen)
        self._buffers: dict[ViewReader, Values] = {}

    def read(
        self, run: Run, check: Check, reference: Values | None = None
    ) -> tuple[Values, Values]:
        one, two = self._readers
        reference = self._run_of(one, run, check) if reference is None else reference
        return reference, self._run_of(two, run, check)

    def _run_of(self, reader: ViewReader, run: Run, check: Check) -> Values:
        if reader not in self._buffers:
            self._buffers[reader] = np.empty(self._size, np.float32)
        start, count = run
        values = self._buffers[reader][:count]
        reader.read_into(start, values, check)
        return values


def _is_stored_so(view: TensorView) -> bool:
    """Return whether a view is one tensor of blocks in the order in which it is stored."""
    part, tensor = view.parts[0] if len(view.parts) == 1 else None, view.tensors[:1]
    if part is None or part.parameters != tensor[0].parameters or not part.in_order:
        return False
    return is_quantized(tensor[0]) and not tensor[0].scheme


class _RoundedReader:
    """Reads runs of weights before and after rounding; see `PairReader`.

    A type rounds whole blocks, so a run that begins or ends inside of one is read to its edges.
    The latest run is kept: a tile of rows is asked for row by row.
    """

    def __init__(self, pair: RoundedPair, importance: Values | None, *, count_codes: bool) -> None:
        self.codes: CodeCounts | None = None
        self._pair, self._count_codes = pair, count_codes
        self._reader = ViewReader(pair.reference)
        self._rounder: Rounder | None = None
        self._importance = importance
        self._matrix = pair.parameters // len(importance) if importance is not None else 0
        self._buffer = FloatBuffer()
        nothing = np.empty(0, np.float32)
        self._cached: tuple[range, Values, Values] = range(0), nothing, nothing

    def read(
        self, run: Run, check: Check, reference: Values | None = None
    ) -> tuple[Values, Values]:
        if self._rounder is None:
            self._rounder = self._pair.new_rounder(check)
            if self._count_codes and self._rounder.levels is not None:
                self.codes = CodeCounts(self._rounder.levels)
        start, count = run
        first, stop = self._rounder.edges(start, start + count) if count else (start, start)
        held, values, rounded = self._cached
        if not (held.start <= first and stop <= held.stop):
            if reference is not None and (first, stop) == (start, start + count):
                values = reference
            else:
                values = self._buffer.of(stop - first)
                self._cached = range(0), values, values
                self._reader.read_into(first, values, check)
            importance = None
            if self._importance is not None:
                importance = self._importance[start // self._matrix]
            rounded = self._rounder.round(values, importance, first)
            held = range(first, stop)
            self._cached = held, values, rounded
            if self.codes is not None:
                self.codes.add(self._rounder.codes())
        inside = slice(start - held.start, start - held.start + count)
        return values[inside], rounded[inside]


class WeightsPair:
    """Two sets of as many weights in the same order.

    Attributes:
        reference: The weights of the reference.
        candidate: Those that the candidate has, or that it is made of by rounding.
        shape: Of both, row-major, outermost first.
        parameters: Number of weights of each.
        reference_name: The name of the reference.
        candidate_name: The name of the candidate.
        reference_type: The type of the reference's weights; several are joined by a plus sign.
        candidate_type: The type of the candidate's weights.
        notes: What was done to make the two comparable, in words.
        unsplit: Weights of a unit that no run splits, and of a part that no run leaves; None if
            runs hold whole blocks of any type.
        most_readers: Readers of such pairs at once, of all threads: 150 to 250 MiB.
        keeps_columns: Whether squares by column are kept of it.
    """

    unsplit: tuple[int, int] | None = None
    most_readers = 24
    keeps_columns = True

    def __init__(self, reference: TensorView, candidate: TensorView) -> None:
        self.reference, self.candidate = reference, candidate
        self.shape, self.parameters = reference.shape, reference.parameters
        self.reference_name, self.candidate_name = reference.name, candidate.name
        self.reference_type, self.candidate_type = reference.type_name, candidate.type_name
        self.notes = (*reference.notes, *candidate.notes)

    def check(self) -> None:
        """Raise if the two cannot be compared, before anything is read.

        Raises:
            ExplorerError: The shapes differ.
            FormatError: A file is damaged there, or a type's weights cannot be decoded.
        """
        reference, candidate = self.reference, self.candidate
        if without_ones(reference.shape) != without_ones(candidate.shape):
            names = f"{reference.name!r} and {candidate.name!r}"
            what = f"shapes differ: {list(reference.shape)} and {list(candidate.shape)}"
            raise ExplorerError(f"{names} are not comparable, {what}")
        for tensor in (*reference.tensors, *candidate.tensors):
            check_decodable(tensor)

    @property
    def identity(self) -> list[Any]:
        """What tells it from other pairs of the same two models, as JSON has it."""
        names = [self.reference_name, self.candidate_name, self.reference_type, self.candidate_type]
        return [*names, list(self.shape), list(self.notes)]

    @property
    def reference_key(self) -> Hashable:
        """What is the same of pairs whose reference is read once for all of them.

        That is the same weights in the same order and in the same runs.
        """
        parts = (
            (id(part.tensor), part.shape, part.strides, part.start, part.plus)
            for part in self.reference.parts
        )
        return self.shape, self.unsplit, *parts

    def reader(self, *, count_codes: bool = False) -> PairReader:
        """Return a reader of both; each thread takes its own."""
        raise NotImplementedError

    def spans(self) -> Iterator[Sequence[Run]]:
        """Yield all runs, in groups that a thread takes as a whole."""
        if self.unsplit is not None:
            unit, part = self.unsplit
            length = max(1, RUN_WEIGHTS // unit) * unit if unit else 1
            for run in _runs_within(self.parameters, part, length):
                yield [run]
            return
        assert SPAN_WEIGHTS % RUN_WEIGHTS == RUN_WEIGHTS % _LONGEST_BLOCK == 0
        for start in range(0, self.parameters, SPAN_WEIGHTS):
            places = range(start, min(start + SPAN_WEIGHTS, self.parameters), RUN_WEIGHTS)
            yield [(place, min(RUN_WEIGHTS, self.parameters - place)) for place in places]


class MatchedPair(WeightsPair):
    """Two views of two models."""

    def __init__(self, match: Match) -> None:
        super().__init__(match.reference, match.candidate)

    def reader(self, *, count_codes: bool = False) -> PairReader:
        """Return a reader of both views."""
        return _ViewReader(self.reference, self.candidate, count_codes=count_codes)


class RoundedPair(WeightsPair):
    """Weights, and the result of rounding them to a type.

    Args:
        type_name: See `rounding.rounder`.
        importance: float32 [matrices, columns], as `requantization.checked_importance` returns it.
        keeps_columns: See `WeightsPair`.

    Raises:
        ExplorerError: The type is not known, its blocks do not fit the weights' rows, or it is made
            with importance only.
    """

    most_readers = 96

    def __init__(
        self,
        weights: Weights,
        type_name: str,
        importance: Values | None = None,
        *,
        keeps_columns: bool = True,
    ) -> None:
        view = view_of(weights)
        super().__init__(view, view)
        self.keeps_columns = keeps_columns
        self.notes = view.notes
        self.candidate_type = type_name
        self._importance = importance
        self._scheme = scheme_of(type_name)
        self._finding, self._whole = threading.Lock(), None
        problem = shape_problem(type_name, view.shape)
        problem = problem or rounding_problem(type_name, weighed=importance is not None)
        if problem is not None:
            raise ExplorerError(f"tensor {view.name!r} cannot have type {type_name}: {problem}")
        self.unsplit = self._whole_rows()

    def _whole_rows(self) -> tuple[int, int] | None:
        """Return `unsplit`: whole rows, none of two matrices, with importance.

        Whole rows, too, for types with a scale of the row.
        """
        columns, part = self.shape[-1] if self.shape else 1, self.parameters
        if self._scheme is not None:
            in_part = prod(self.shape[-2:]) if self._scheme.rows != 1 else part
            return self._scheme.unit(self.shape), in_part
        if self._importance is not None:
            return columns, part // len(self._importance)
        return (columns, part) if rounded_type(self.candidate_type).row_header else None

    @property
    def identity(self) -> list[Any]:
        """As of every pair; the importance by which it is rounded tells it from others, too."""
        return [*super().identity, importance_digest(self._importance)]

    def reader(self, *, count_codes: bool = False) -> PairReader:
        """Return a reader of the weights before and after rounding."""
        return _RoundedReader(self, self._importance, count_codes=count_codes)

    def new_rounder(self, check: Check) -> Rounder:
        """Return a rounder to the type, for one thread.

        Some types need a figure of all weights before the first are rounded. The first thread that
        asks reads them all; others wait for it.
        """
        with self._finding:
            if self._scheme is not None and self._whole is None:
                self._whole = self._find_whole(self._scheme, check)
        return rounder(self.candidate_type, self.reference_type, self.shape, self._whole)

    def _find_whole(self, scheme: Scheme, check: Check) -> Any:
        finder = whole_finder(scheme, self.shape)
        if scheme.needs_whole:
            reader, buffer = ViewReader(self.reference), np.empty(RUN_WEIGHTS, np.float32)
            part = self.parameters if scheme.in_blocks else prod(self.shape[-2:])
            for start, count in _runs_within(self.parameters, part, RUN_WEIGHTS):
                check()
                reader.read_into(start, buffer[:count], check)
                finder.add(buffer[:count], start)
        return finder.whole()


def _runs_within(total: int, part: int, length: int) -> Iterator[Run]:
    """Yield runs of all weights, none of them of two parts."""
    for start in range(0, total, max(1, part)):
        for place in range(start, start + part, length):
            yield place, min(length, start + part - place)


def walk_pairs(  # noqa: PLR0913 - all but the pairs have a default
    pairs: Sequence[WeightsPair],
    workers: int = 1,
    check: Check = never,
    *,
    counts: Sequence[AllCounts] = (),
    count_codes: bool = False,
    by_column: bool = False,
) -> Generator[list[RunningErrors], None, None]:
    """Yield the errors of the weights so far, now and then, and those of all weights in the end.

    Those of each pair are one object that grows. The errors of all are the same to the bit for any
    number of threads, and they alone have counts of |e| and of codes.

    Args:
        pairs: One pair, or several of one reference (`reference_key`), which is read once for all.
        workers: Threads. Each holds some MiB for each pair.
        check: Called before every run, in the thread that reads it; raises to stop.
        counts: Where to count pairs for pictures, for each pair.
        count_codes: Whether to count the codes of what is rounded.
        by_column: Whether to sum up squares by column, for weighted errors.

    Raises:
        FormatError: A file is damaged there, or a type's weights cannot be decoded.
        SourceError: A file changed since it was opened.
    """

    def none_yet() -> list[RunningErrors]:
        return [RunningErrors(ColumnErrors(pair.shape) if by_column else None) for pair in pairs]

    made: list[list[tuple[PairReader, Work]]] = []

    def tools() -> tuple[list[tuple[PairReader, Work]], list[PairCounts]]:
        made.append([(pair.reader(count_codes=count_codes), new_work()) for pair in pairs])
        return made[-1], [one.of_thread() for one in counts]

    threads = PerThread(tools)

    def work(span: Sequence[Run], check: Check) -> list[RunningErrors]:
        found, (readers, own_counts) = none_yet(), threads.own
        for run in span:
            check()
            reference = None
            for place, (errors, (reader, room)) in enumerate(zip(found, readers, strict=True)):
                reference, candidate = reader.read(run, check, reference)
                errors.add(reference, candidate, room)
                if errors.columns is not None:
                    errors.columns.add(reference, candidate, run[0])
                if own_counts:
                    own_counts[place].add(reference, candidate)
        return found

    totals = none_yet()
    with map_in_order(pairs[0].spans(), work, workers=workers, check=check) as results:
        for _span, found in results:
            for total, errors in zip(totals, found, strict=True):
                total.combine(errors)
            yield totals
    for total, *own in zip(totals, *made, strict=True):
        _take_counts(total, own)
    yield totals


def _take_counts(total: RunningErrors, made: Sequence[tuple[PairReader, Work]]) -> None:
    """Add up the counts of |e| and of codes of all threads."""
    total.keys = sum((room.keys for _, room in made), np.zeros(KEYS, np.int64))
    for codes in (reader.codes for reader, _ in made if reader.codes is not None):
        if total.codes is None:
            total.codes = codes
        else:
            total.codes.combine(codes)


@dataclass(frozen=True)
class PairErrors:
    """What is known of a pair of tensors: small, so that those of a whole model can be kept.

    Attributes:
        sums: Sums and percentiles; squares by column where they are at hand.
        saturated: Share of the candidate's codes that are the least or the greatest of the type, 0
            to 1; None if it is not quantized, or only a part of it was compared.
        weighted: The errors by importance; None if no matrix has these weights.
        matrix: Digest of that importance.
        picture: What `ErrorPicture.frombytes` makes a picture of; empty where it is not at hand.
    """

    sums: RunningErrors
    saturated: float | None
    weighted: WeightedErrors | None = None
    matrix: str = ""
    picture: bytes = b""

    @cached_property
    def metrics(self) -> ErrorMetrics:
        return self.sums.metrics()


def importance_digest(importance: Values | None) -> str:
    """Return what tells the importance of columns from any other; "" of none."""
    if importance is None:
        return ""
    return blake2b(np.ascontiguousarray(importance, "<f4").data, digest_size=16).hexdigest()


def walk_whole(  # noqa: PLR0913 - all but the pairs have a default
    pairs: Sequence[WeightsPair],
    workers: int = 1,
    check: Check = never,
    progress: Callable[[int], object] | None = None,
    *,
    counts: Sequence[AllCounts] = (),
    by_column: bool = False,
) -> list[RunningErrors]:
    """Return what `walk_pairs` yields in the end, codes counted; its arguments and errors.

    Args:
        progress: Called in the caller's thread with the number of weights done, of all pairs.

    Raises:
        ExplorerError: Two cannot be compared.
    """
    for pair in pairs:
        pair.check()
    walk = walk_pairs(pairs, workers, check, counts=counts, count_codes=True, by_column=by_column)
    with closing(walk):
        for errors in walk:
            if progress is not None and errors[0].keys is None:
                progress(sum(one.count for one in errors))
    return errors


def has_few_columns(pair: WeightsPair) -> bool:
    """Return whether squares by column take little room."""
    return ColumnErrors(pair.shape).nbytes <= MOST_COLUMN_BYTES


def errors_of(
    pair: WeightsPair,
    errors: RunningErrors,
    importance: Values | None = None,
    workers: int = 1,
    check: Check = never,
) -> PairErrors:
    """Return what is kept of all errors of a pair, as `walk_pairs` yields them in the end."""
    saturated, weighted = _saturated_share(pair, errors, workers, check), None
    if importance is not None and errors.columns is not None:
        weighted = errors.columns.weighted(importance)
    small = errors.small()
    if not pair.keeps_columns:
        small.columns = None
    return PairErrors(small, saturated, weighted, importance_digest(importance))


def _saturated_share(
    pair: WeightsPair, errors: RunningErrors, workers: int, check: Check
) -> float | None:
    """Return `PairErrors.saturated`; codes that were not counted on the way are read again."""
    matched, shares = isinstance(pair, MatchedPair), None
    if errors.codes is not None:
        shares = errors.codes.shares()
    if shares is not None and (not matched or 0 < shares.count == pair.parameters):
        return shares.saturated_share
    tensors = pair.candidate.tensors if matched else ()
    if not matched or sum(tensor.parameters for tensor in tensors) != pair.parameters:
        return None
    known = [code_shares(tensor, workers, check) for tensor in tensors]
    counts = [shares for shares in known if shares is not None]
    total = sum(shares.count for shares in counts)
    if len(counts) != len(known) or not total:
        return None
    return sum(shares.saturated for shares in counts) / total
