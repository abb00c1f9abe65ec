"""Errors of a tensor as metrics and as pictures, from one walk over both sets of weights.

The range of a picture is known only when all weights were seen, and rounding a candidate on the way
costs ten times as much as looking at it: so weights are not read twice. Instead pairs are counted
on grids of many sizes that fit into each other, each pair on that of its own size; any square of a
power of two is put together from these in the end. All edges are float32 numbers without rounding,
and all counts exact.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib import import_module
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from explorer.analysis.errors import kernel_api as at
from explorer.analysis.errors import pairs
from explorer.analysis.errors.compare import check_comparable, saturated_share
from explorer.analysis.errors.metrics import ErrorMetrics, RunningErrors
from explorer.analysis.errors.pairs import MatchedPair, PairReader, RoundedPair, RoundedReader
from explorer.analysis.histogram import Histogram
from explorer.formats.weights import Values, check_decodable
from explorer.parallel import Check, never

MOST_COUNTED: Final = (1 << 32) - 1
"""Pairs for which a cell has room."""

Counts = NDArray[np.int64]
"""int64 [ACROSS, ACROSS]: rows for the candidate, columns for the reference, upwards."""

LEAST_LEVEL: Final = at.LEAST_TOP - at.LEVELS + 1
"""The lowest level that ever has a grid of its own."""

_HALF: Final = at.ACROSS // 2
_QUARTER: Final = slice(_HALF // 2, _HALF // 2 + _HALF)
_Grids = NDArray[Any]  # of a kind of integer, [LEVELS, ACROSS, ACROSS]


@cache
def kernels() -> Any:
    """Return the module of the loop over pairs; the first call loads Numba."""
    return import_module("explorer.analysis.errors.kernels")


def bound(level: int) -> float:
    """Return what the weights of a level, and of all below it, are less than."""
    return float(2.0 ** (level - 126))


class PairCounts:
    """Pairs so far, of one thread; another may look at them meanwhile, and see about as many.

    Attributes:
        top: The highest level so far.
    """

    def __init__(self) -> None:
        self.top = at.LEAST_TOP
        self._work = at.new_pair_work()
        self._room = MOST_COUNTED
        # what was counted before the small counters were emptied
        self._keys_before = np.zeros(at.PAIR_KEYS, np.int64)
        self._cells_before: _Grids | None = None

    @property
    def lowest(self) -> int:
        """The lowest level that has a grid of its own."""
        return self.top - at.LEVELS + 1

    def add(self, reference: Values, candidate: Values) -> None:
        """Count pairs, float32 [n] each."""
        if reference.size > self._room:
            self._empty_cells()
        self._room -= reference.size
        state = np.array([0, self.top], np.int64)
        while True:
            kernels().count_pairs(reference, candidate, state, self._work)
            start = int(state[at.NEXT])
            if start == reference.size:
                return
            piece = slice(start, start + at.PIECE)
            self._raise_to(_highest_level(reference[piece], candidate[piece]))
            state[at.TOP] = self.top

    @property
    def keys(self) -> NDArray[np.int64]:
        """How many errors, as float32, by their upper bits, int64 [KEYS].

        The key of a number below 0 is that of the next one towards 0.
        """
        return self._keys_before + self._work.keys

    def counts_of(self, level: int) -> NDArray[Any] | None:
        """Return the pairs of a level, or of the lowest and all below it; None of no such level.

        They are integers [ACROSS, ACROSS]: a row for each cell of the candidate, a column for each
        of the reference.
        """
        if not self.lowest <= level <= self.top:
            return None
        slot = level % at.LEVELS
        cells: NDArray[Any] = self._grids[slot]
        return cells if self._cells_before is None else cells + self._cells_before[slot]

    @property
    def _grids(self) -> _Grids:
        return self._work.cells[: at.NO_CELL].reshape(at.LEVELS, at.ACROSS, at.ACROSS)

    def _raise_to(self, top: int) -> None:
        """Make room for a higher level; those that have no grid any more join the lowest."""
        lowest = self.lowest
        for level in range(lowest, top - at.LEVELS + 1):
            slots = level % at.LEVELS, (level + 1) % at.LEVELS
            _join(self._grids, *slots)
            if self._cells_before is not None:
                _join(self._cells_before, *slots)
        self.top = top

    def _empty_cells(self) -> None:
        """Move what was counted to wider counters: the cells are small, to stay in the cache."""
        if self._cells_before is None:
            self._cells_before = np.zeros((at.LEVELS, at.ACROSS, at.ACROSS), np.int64)
        self._keys_before += self._work.keys
        self._work.keys[:] = 0
        for slot, counted in enumerate(self._grids):
            if counted.any():
                self._cells_before[slot] += counted
                counted[:] = 0
        self._work.cells[at.NO_CELL] = 0
        self._room = MOST_COUNTED


class CountingReader:
    """Reads runs of pairs, and counts them on the way; see `PairReader`."""

    def __init__(self, reader: PairReader, counts: PairCounts) -> None:
        self._reader = reader
        self._counts = counts

    def read(self, run: tuple[int, int], check: Check) -> tuple[Values, Values]:
        """Return both sides of a run."""
        both = self._reader.read(run, check)
        self._counts.add(*both)
        return both


class AllCounts:
    """The counts of all threads together, which may still be at work."""

    def __init__(self) -> None:
        self._parts: list[PairCounts] = []

    def counting(self, reader: PairReader) -> CountingReader:
        """Return a reader that counts what it reads; called in each thread."""
        counts = PairCounts()
        self._parts.append(counts)
        return CountingReader(reader, counts)

    @property
    def keys(self) -> NDArray[np.int64]:
        """Errors by key, int64 [KEYS]."""
        return sum((part.keys for part in list(self._parts)), np.zeros(at.PAIR_KEYS, np.int64))

    @property
    def lowest(self) -> int:
        """The lowest level whose grid all pairs can be shown on."""
        return max((part.lowest for part in list(self._parts)), default=LEAST_LEVEL)

    def level_counts(self) -> dict[int, int]:
        """Return how many pairs each level has, from `lowest` on, which has those below it too."""
        lowest = self.lowest
        total: dict[int, int] = {}
        for part in list(self._parts):
            for level in range(part.lowest, part.top + 1):
                counts = part.counts_of(level)
                shown = max(level, lowest)
                if counts is not None:  # the thread may have gone on
                    total[shown] = total.get(shown, 0) + int(_sum(counts))
        return dict(sorted(total.items()))

    def grids(self, levels: Collection[int]) -> dict[int, Counts]:
        """Return the pairs of some levels, each with those of all levels below it.

        Args:
            levels: The levels, none of which is below `lowest`.
        """
        parts = list(self._parts)
        found = {}
        total = np.zeros((at.ACROSS, at.ACROSS), np.int64)
        lowest = min((part.lowest for part in parts), default=LEAST_LEVEL)
        # what is so far below all wanted levels ends up in the four cells around 0
        start = max(lowest, min(levels) - at.ACROSS.bit_length() + 1)
        middle = total[_HALF - 1 : _HALF + 1, _HALF - 1 : _HALF + 1]
        for level in range(lowest, start):
            for part in parts:
                counts = part.counts_of(level)
                if counts is not None:
                    middle += _sum(counts.reshape(2, _HALF, 2, _HALF), (1, 3))
        for level in range(start, max(levels) + 1):
            four = _four_into_one(total)
            total[:] = 0
            total[_QUARTER, _QUARTER] = four
            for part in parts:
                counts = part.counts_of(level)
                if counts is not None:
                    total += counts
            if level in levels:
                found[level] = total.copy()
        return found


def _sum(counts: NDArray[Any], axes: tuple[int, ...] | None = None) -> Any:
    """Sum counts in their own kind of integer, which has room for all pairs, four times as fast."""
    return counts.sum(axes, counts.dtype)


def _highest_level(reference: Values, candidate: Values) -> int:
    """Return the highest level of some pairs, of which one at least is finite."""
    both = np.stack((reference, candidate)) + np.float32(0)
    bits = both[:, np.isfinite(both).all(axis=0)].view(np.uint32)
    bits = (bits - (bits >> 31)) & np.uint32(0x7FFFFFFF)
    return int(bits.max() >> 23)


def _join(grids: _Grids, slot: int, other: int) -> None:
    """Move the counts of a level to the one above it."""
    finer = grids[slot]
    if finer.any():
        grids[other, _QUARTER, _QUARTER] += _four_into_one(finer)
        finer[:] = 0


def _four_into_one(finer: NDArray[Any]) -> NDArray[Any]:
    """Return the counts of a grid on that of the next level, of which they fill the middle."""
    rows = finer[::2] + finer[1::2]
    both: NDArray[Any] = rows[:, ::2] + rows[:, 1::2]
    return both


# In pictures every edge is a whole multiple of a power of two, which is exact in float32. A bin
# holds its lower edge and not its upper one, the last bin too.

OUTSIDE: Final = 0.001
"""Share that a robust range leaves out on each side."""

_LEAST_CELLS: Final = 16
_ERROR_BINS: Final = 256  # of a level, on each side of 0: as many as keys tell apart
_ONE: Final = 127  # the level of weights below 2: where nothing has a size, a range of about 1
_KEY_BITS: Final = 7  # of a key: those of the mantissa, so that a level has 2^7 keys
_FINITE_KEYS: Final = 0x7F80  # of each sign
_OCTAVE_PARTS: Final = 8


@dataclass(frozen=True)
class PairSquare:
    """How many pairs have which reference and which candidate.

    Attributes:
        edges: float64 [n + 1], of both directions.
        counts: Unsigned integers [n, n]: a row for each bin of the candidate, a column for each of
            the reference, both upwards. Of the smallest kind that holds them.
        outside: Pairs of finite weights of which one at least lies outside.
    """

    edges: NDArray[np.float64]
    counts: NDArray[Any]
    outside: int

    @cached_property
    def inside(self) -> int:
        """Number of pairs that are counted."""
        return int(self.counts.sum(dtype=np.int64))

    @cached_property
    def reference(self) -> Histogram:
        """The references of the pairs that are counted."""
        return _histogram(self.edges, self.counts.sum(axis=0, dtype=np.int64))

    @cached_property
    def candidate(self) -> Histogram:
        """The candidates of the same pairs."""
        return _histogram(self.edges, self.counts.sum(axis=1, dtype=np.int64))


def squares(counts: AllCounts) -> tuple[PairSquare, PairSquare]:
    """Return all pairs, and those of a robust range; one square twice if there is none better."""
    by_level = counts.level_counts()
    total = sum(by_level.values())
    lowest = counts.lowest
    top = max((level for level, count in by_level.items() if count), default=_ONE)
    if top == LEAST_LEVEL:  # as good as 0, all of them
        top = lowest = _ONE
    beyond, level = 0, top
    while level > lowest and beyond + by_level.get(level, 0) <= OUTSIDE * total:
        beyond += by_level.get(level, 0)
        level -= 1
    grids = counts.grids({level, top})
    everything = grids[top]
    used = everything.sum(axis=0) > 0, everything.sum(axis=1) > 0
    whole = _square(everything, top, *_span(*used), total)
    if level == lowest:  # most are as good as 0: there is nothing to see but the others
        return whole, whole
    most = OUTSIDE * total - beyond
    kept = _kept(grids[level].sum(axis=0), most), _kept(grids[level].sum(axis=1), most)
    robust = _square(grids[level], level, *_span(*kept), total)
    return whole, whole if np.array_equal(robust.edges, whole.edges) else robust


def error_histograms(keys: NDArray[np.int64]) -> tuple[Histogram, Histogram]:
    """Return the histogram of all errors, and that of a robust range; both are symmetric.

    Args:
        keys: int64 [KEYS]: errors by key; see `PairCounts`.
    """
    below = np.cumsum(sizes_of_keys(keys)[:_FINITE_KEYS])
    found = []
    for share in (0.0, OUTSIDE):
        wanted = below[-1] - int(share * below[-1])
        farthest = int(np.searchsorted(below, wanted)) if wanted else 0
        level = max(LEAST_LEVEL, farthest >> _KEY_BITS) if farthest else _ONE
        unit = bound(level) / _ERROR_BINS
        bins = max(_LEAST_CELLS // 2, int(_sizes(np.array([farthest]))[0] / unit) + 1)
        found.append(_errors(keys, bins, unit))
    return found[0], found[1]


def magnitude_histogram(keys: NDArray[np.int64]) -> Histogram:
    """Return the histogram of |e| by eighths of powers of two, those without error left out.

    Args:
        keys: int64 [2^b]: numbers |e| by the upper bits of their float32, b above 11.
    """
    octave = len(keys) // (1 << 8)
    parts = keys.reshape(-1, octave // _OCTAVE_PARTS).sum(axis=1)[: 255 * _OCTAVE_PARTS]
    parts[:_OCTAVE_PARTS] = 0  # zeros, and numbers that are not normalized
    used = np.flatnonzero(parts)
    first, last = (int(used[0]), int(used[-1]) + 1) if used.size else (_ONE * _OCTAVE_PARTS,) * 2
    first = min(first, parts.size - _OCTAVE_PARTS)
    last = max(last, first + _OCTAVE_PARTS)
    places = np.arange(first, last + 1)
    edges = (1 + places % _OCTAVE_PARTS / _OCTAVE_PARTS) * 2.0 ** (places // _OCTAVE_PARTS - 127)
    return _histogram(edges, parts[first:last])


def sizes_of_keys(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return about how many errors of each size there are, by the upper 15 bits of |e|.

    Args:
        keys: int64 [KEYS], as `PairCounts.keys`: with the sign.

    Returns:
        int64 [KEYS / 2].
    """
    return keys[: at.PAIR_KEYS // 2] + keys[at.PAIR_KEYS // 2 :]


def _histogram(edges: NDArray[np.float64], counts: NDArray[np.int64]) -> Histogram:
    return Histogram(float(edges[0]), float(edges[-1]), edges, counts)


def _span(columns: NDArray[np.bool_], rows: NDArray[np.bool_]) -> tuple[int, int]:
    """Return the first cell, and the one behind the last, that holds what both directions need."""
    used = np.flatnonzero(columns | rows)
    if not used.size:
        return _HALF - _LEAST_CELLS // 2, _HALF + _LEAST_CELLS // 2
    first, last = int(used[0]), int(used[-1]) + 1
    missing = max(0, _LEAST_CELLS - (last - first))
    first = min(max(0, first - missing // 2), at.ACROSS - _LEAST_CELLS)
    return first, max(last, first + _LEAST_CELLS)


def _kept(counts: NDArray[np.int64], most: float) -> NDArray[np.bool_]:
    """Return which bins are left when up to so many of the outermost are taken off on each side."""
    kept: NDArray[np.bool_] = (np.cumsum(counts) > most) & (np.cumsum(counts[::-1])[::-1] > most)
    return kept & (counts > 0)


def _square(grid: NDArray[np.int64], level: int, first: int, last: int, total: int) -> PairSquare:
    counts = grid[first:last, first:last]
    kind = np.min_scalar_type(int(counts.max(initial=0)))
    unit = bound(level) / _HALF
    edges = np.arange(first - _HALF, last - _HALF + 1, dtype=np.float64) * unit
    return PairSquare(edges, counts.astype(kind), max(0, total - int(counts.sum())))


def _sizes(keys: NDArray[Any]) -> NDArray[np.float64]:
    """Return the least number of each key."""
    return (keys.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)


def _errors(keys: NDArray[np.int64], bins: int, unit: float) -> Histogram:
    """Return errors in so many bins of a width on each side of 0."""
    places = np.arange(_FINITE_KEYS)
    distance = np.minimum(_sizes(places) / unit, bins).astype(np.int64)
    sides = []
    for start in (0, at.PAIR_KEYS // 2):
        counts = np.zeros(bins + 1, np.int64)  # the last is outside
        np.add.at(counts, distance, keys[start : start + _FINITE_KEYS])
        sides.append(counts[:bins])
    edges = np.arange(-bins, bins + 1, dtype=np.float64) * unit
    return _histogram(edges, np.concatenate((sides[1][::-1], sides[0])))


_SNAPSHOT_SECONDS: Final = 0.05  # between two, at least
_SNAPSHOT_SHARE: Final = 0.05  # of the time, at most


@dataclass(frozen=True, kw_only=True)
class ErrorPicture:
    """Errors of a tensor; while it is read, of the weights read so far.

    Attributes:
        figures: Its errors; percentiles are NaN while it is read.
        saturated_codes: Share of the candidate's codes that are the least or the greatest of the
            type, 0 to 1; None if that is not known.
        all_pairs: References and candidates of all pairs.
        most_pairs: The same without the outermost 0.1 %.
        all_errors: Candidate - reference, rounded to float32.
        most_errors: The same without the outermost 0.1 %.
        magnitudes: |e| by eighths of powers of two; those that are 0 are left out.
        done: Pairs read.
        total: Pairs to read.
        complete: Whether everything was read and put together.
    """

    figures: ErrorMetrics
    saturated_codes: float | None
    all_pairs: PairSquare
    most_pairs: PairSquare
    all_errors: Histogram
    most_errors: Histogram
    magnitudes: Histogram
    done: int
    total: int
    complete: bool


Progress: TypeAlias = Callable[[ErrorPicture], object]


def picture_errors(
    pair: pairs.WeightsPair,
    workers: int = 1,
    *,
    cancel: Check | None = None,
    progress: Progress | None = None,
) -> ErrorPicture:
    """Return metrics and pictures of the errors of a candidate; nothing is sampled.

    Args:
        pair: Reference and candidate.
        workers: Threads. Each holds up to 14 MiB. The result is the same to the
            bit for any number.
        cancel: Called before every chunk, in the thread that reads it; what it raises is passed on.
        progress: Called in the caller's thread, at most every 50 ms, with what is known so far.

    Raises:
        ExplorerError: The two cannot be compared.
        FormatError: A file is damaged there, or a type's weights cannot be decoded.
        SourceError: A file changed since it was opened.
    """
    check = never if cancel is None else cancel
    if isinstance(pair, MatchedPair):
        check_comparable(pair.match.reference, pair.match.candidate)
    elif isinstance(pair, RoundedPair):
        check_decodable(pair.tensor)
    counts = AllCounts()
    rounded: list[RoundedReader] = []

    def read() -> PairReader:
        if not isinstance(pair, RoundedPair):
            return pair.reader()
        rounded.append(pair.reader(count_codes=True))
        return rounded[-1]

    watcher = _Watcher(pair.parameters, counts, progress)
    errors = pairs.measure_pairs(
        pairs.flat_spans(pair.parameters),
        lambda: counts.counting(read()),
        workers=workers,
        check=check,
        watch=watcher.report,
    )
    saturated = pairs.rounded_saturated_share(rounded)
    if isinstance(pair, MatchedPair):
        saturated = saturated_share(pair.match.candidate, workers, check)
    whole = _picture(errors, counts, pair.parameters)
    assert errors.keys is not None
    magnitudes = magnitude_histogram(errors.keys)
    return replace(whole, saturated_codes=saturated, magnitudes=magnitudes, complete=True)


class _Watcher:
    """Reports the picture so far, not too often: making it takes milliseconds."""

    def __init__(self, total: int, counts: AllCounts, progress: Progress | None) -> None:
        self._total = total
        self._counts = counts
        self._progress = progress
        self._next = time.monotonic() + _SNAPSHOT_SECONDS

    def report(self, errors: RunningErrors) -> None:
        """Report the pairs so far, if the last report was long ago."""
        start = time.monotonic()
        if self._progress is None or start < self._next:
            return
        self._progress(_picture(errors, self._counts, self._total))
        spent = time.monotonic() - start
        self._next = start + max(_SNAPSHOT_SECONDS, spent / _SNAPSHOT_SHARE)


def _picture(errors: RunningErrors, counts: AllCounts, total: int) -> ErrorPicture:
    """Return the picture so far."""
    keys = counts.keys
    all_pairs, most_pairs = squares(counts)
    all_errors, most_errors = error_histograms(keys)
    figures = errors.figures()
    return ErrorPicture(
        figures=figures,
        saturated_codes=None,
        all_pairs=all_pairs,
        most_pairs=most_pairs,
        all_errors=all_errors,
        most_errors=most_errors,
        magnitudes=magnitude_histogram(sizes_of_keys(keys)),
        done=figures.count,
        total=total,
        complete=False,
    )
