"""Errors of a tensor as metrics and as pictures, from one walk over both sets of weights.

All edges are whole multiples of a power of two, which are float32 numbers without rounding, and all
counts are exact. A bin holds its lower edge and not its upper one, the last bin too.
"""

from __future__ import annotations

import json
import math
import time
import zlib
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from explorer.analysis.errors import kernel_api as at
from explorer.analysis.errors.metrics import (
    HALF,
    LEAST_LEVEL,
    AllCounts,
    ErrorMetrics,
    RunningErrors,
)
from explorer.analysis.errors.pairs import (
    PairErrors,
    WeightsPair,
    errors_of,
    has_few_columns,
    walk_pairs,
    walk_whole,
)
from explorer.analysis.histogram import Histogram
from explorer.formats.weights import Values
from explorer.parallel import Check, never

OUTSIDE: Final = 0.001
"""Share that a robust range leaves out on each side."""

_MOST_BYTES: Final = 4 << 20  # of the arrays of a picture
_KINDS: Final = {kind: kind for kind in ("|u1", "<u2", "<u4", "<u8", "<i8", "<f8")}
_LEAST_CELLS: Final = 16
_ERROR_BINS: Final = 256  # of a level, on each side of 0: as many as keys tell apart
_ONE: Final = 127  # the level of weights below 2: where nothing has a size, a range of about 1
_KEY_BITS: Final = 7  # of a key: those of the mantissa, so that a level has 2^7 keys
_FINITE_KEYS: Final = 0x7F80  # of each sign


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
        return _histogram(self.edges, self.counts.sum(axis=0, dtype=np.int64))

    @cached_property
    def candidate(self) -> Histogram:
        return _histogram(self.edges, self.counts.sum(axis=1, dtype=np.int64))


def bound(level: int) -> float:
    """Return what the weights of a level, and of all below it, are less than."""
    return float(2.0 ** (level - 126))


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
    kept = _dense(grids[level].sum(axis=0), most), _dense(grids[level].sum(axis=1), most)
    robust = _square(grids[level], level, *_span(*kept), total)
    return whole, whole if np.array_equal(robust.edges, whole.edges) else robust


def error_histograms(keys: NDArray[np.int64]) -> tuple[Histogram, Histogram]:
    """Return the histogram of all errors, and that of a robust range; both are symmetric.

    Args:
        keys: int64 [KEYS]: errors by key; see `PairCounts`.
    """
    sizes = keys[: at.PAIR_KEYS // 2] + keys[at.PAIR_KEYS // 2 :]  # of either sign
    below = np.cumsum(sizes[:_FINITE_KEYS])
    found = []
    for share in (0.0, OUTSIDE):
        wanted = below[-1] - int(share * below[-1])
        farthest = int(np.searchsorted(below, wanted)) if wanted else 0
        level = max(LEAST_LEVEL, farthest >> _KEY_BITS) if farthest else _ONE
        unit = bound(level) / _ERROR_BINS
        bins = max(_LEAST_CELLS // 2, int(_sizes(np.array([farthest]))[0] / unit) + 1)
        found.append(_errors(keys, bins, unit))
    return found[0], found[1]


def _histogram(edges: NDArray[np.float64], counts: NDArray[np.int64]) -> Histogram:
    return Histogram(float(edges[0]), float(edges[-1]), edges, counts)


def _span(columns: NDArray[np.bool_], rows: NDArray[np.bool_]) -> tuple[int, int]:
    """Return the first cell, and the one behind the last, that holds what both directions need."""
    used = np.flatnonzero(columns | rows)
    if not used.size:
        return HALF - _LEAST_CELLS // 2, HALF + _LEAST_CELLS // 2
    first, last = int(used[0]), int(used[-1]) + 1
    missing = max(0, _LEAST_CELLS - (last - first))
    first = min(max(0, first - missing // 2), at.ACROSS - _LEAST_CELLS)
    return first, max(last, first + _LEAST_CELLS)


def _dense(counts: NDArray[np.int64], most: float) -> NDArray[np.bool_]:
    """Return which bins are left when up to so many of the outermost are taken off on each side."""
    kept: NDArray[np.bool_] = (np.cumsum(counts) > most) & (np.cumsum(counts[::-1])[::-1] > most)
    return kept & (counts > 0)


def _square(grid: NDArray[np.int64], level: int, first: int, last: int, total: int) -> PairSquare:
    counts = grid[first:last, first:last]
    kind = np.min_scalar_type(int(counts.max(initial=0)))
    unit = bound(level) / HALF
    edges = np.arange(first - HALF, last - HALF + 1, dtype=np.float64) * unit
    return PairSquare(edges, counts.astype(kind), max(0, total - int(counts.sum())))


def _sizes(keys: NDArray[Any]) -> NDArray[np.float64]:
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
        metrics: Its errors; percentiles are NaN while it is read.
        saturated_codes: Share of the candidate's codes that are the least or the greatest of the
            type, 0 to 1; None if that is not known.
        all_pairs: References and candidates of all pairs.
        most_pairs: The same without the outermost 0.1 %.
        all_errors: Candidate - reference, rounded to float32.
        most_errors: The same without the outermost 0.1 %.
        done: Pairs read.
        total: Pairs to read.
        complete: Whether everything was read and put together.
        errors: What is kept of the pair; None while it is read.
    """

    metrics: ErrorMetrics
    saturated_codes: float | None
    all_pairs: PairSquare
    most_pairs: PairSquare
    all_errors: Histogram
    most_errors: Histogram
    done: int
    total: int
    complete: bool
    errors: PairErrors | None = None

    def tobytes(self) -> bytes:
        """Return what `frombytes` makes the picture of again, all of its counts, compressed."""
        squares = self.all_pairs, self.most_pairs
        histograms = self.all_errors, self.most_errors
        arrays = [array for one in (*squares, *histograms) for array in (one.edges, one.counts)]
        about = [one.outside for one in squares], [array.dtype.str for array in arrays]
        head = json.dumps([*about, [array.shape for array in arrays]]).encode()
        return head + b"\n" + zlib.compress(b"".join(array.tobytes() for array in arrays), 1)

    @classmethod
    def frombytes(cls, errors: PairErrors, content: bytes) -> ErrorPicture:
        """Return what `tobytes` was called of.

        Raises:
            ValueError, TypeError, LookupError, zlib.error: It is something else.
        """
        head, _, packed = content.partition(b"\n")
        outside, kinds, shapes = json.loads(head)
        raw, start, arrays = zlib.decompressobj().decompress(packed, _MOST_BYTES), 0, []
        for kind, shape in zip(kinds, shapes, strict=True):
            dtype, count = np.dtype(_KINDS[kind]), math.prod(shape)
            arrays.append(np.frombuffer(raw, dtype, count, start).reshape(shape))
            start += count * dtype.itemsize
        parts = list(zip(arrays[::2], arrays[1::2], strict=True))
        for place, (edges, counts) in enumerate(parts):
            cells = (len(edges) - 1,) * (2 if place < 2 else 1)
            rising = np.isfinite(edges).all() and (np.diff(edges) > 0).all()
            if counts.shape != cells or edges.dtype != np.float64 or not rising:
                raise ValueError("this is no picture")
        squares = [PairSquare(*part, int(out)) for part, out in zip(parts, outside, strict=False)]
        histograms = [_histogram(*part) for part in parts[2:]]
        metrics = errors.metrics
        return cls(
            metrics=metrics,
            saturated_codes=errors.saturated,
            all_pairs=squares[0],
            most_pairs=squares[1],
            all_errors=histograms[0],
            most_errors=histograms[1],
            done=metrics.count,
            total=metrics.count,
            complete=True,
            errors=errors,
        )


def picture_errors(
    pair: WeightsPair, workers: int = 1, check: Check = never, importance: Values | None = None
) -> Generator[ErrorPicture, None, None]:
    """Yield the errors of the weights read so far, every 50 ms at most, and all of them in the end.

    Nothing is sampled.

    Args:
        workers: Threads. Each holds up to 14 MiB. The last result is the same to the bit for any
            number.
        check: Called before every chunk, in the thread that reads it; raises to stop.
        importance: What errors are weighted by, too: float32 [1 or matrices, columns].

    Raises:
        ExplorerError: The two cannot be compared.
        FormatError: A file is damaged there, or a type's weights cannot be decoded.
        SourceError: A file changed since it was opened.
    """
    pair.check()
    counts = AllCounts()
    due = time.monotonic() + _SNAPSHOT_SECONDS
    by_column = importance is not None or has_few_columns(pair)
    walk = walk_pairs(
        [pair], workers, check, counts=[counts], count_codes=True, by_column=by_column
    )
    with closing(walk):
        for (errors,) in walk:
            start = time.monotonic()
            if errors.keys is None and start >= due:
                picture = _picture(errors, counts, pair.parameters)
                spent = time.monotonic() - start  # some milliseconds
                due = start + max(_SNAPSHOT_SECONDS, spent / _SNAPSHOT_SHARE)
                yield picture
    yield _whole(pair, errors, counts, errors_of(pair, errors, importance, workers, check))


def measure_pairs(  # noqa: PLR0913 - all but the first two have a default
    pairs: Sequence[WeightsPair],
    importance: Sequence[Values | None],
    workers: int = 1,
    check: Check = never,
    progress: Callable[[int], object] | None = None,
    *,
    by_column: bool = True,
    pictures: bool = False,
) -> list[PairErrors]:
    """Return the errors of pairs of one reference, read once; arguments and errors of `walk_whole`.

    Args:
        importance: As of `picture_errors`, for each pair.
        by_column: Whether to sum up squares by column, if that takes little room.
        pictures: Whether their pictures come with them: two to three times the work.
    """
    counts = [AllCounts() for _ in pairs if pictures]
    kept = any(pair.keeps_columns for pair in pairs)
    by_column = by_column and kept and has_few_columns(pairs[0])
    by_column |= any(one is not None for one in importance)
    walked = walk_whole(pairs, workers, check, progress, counts=counts, by_column=by_column)
    found = [
        errors_of(pair, errors, own, workers, check)
        for pair, errors, own in zip(pairs, walked, importance, strict=True)
    ]
    for place, own_counts in enumerate(counts):
        picture = _whole(pairs[place], walked[place], own_counts, found[place])
        found[place] = replace(found[place], picture=picture.tobytes())
    return found


def _whole(
    pair: WeightsPair, errors: RunningErrors, counts: AllCounts, kept: PairErrors
) -> ErrorPicture:
    assert errors.keys is not None
    return replace(
        _picture(errors, counts, pair.parameters),
        saturated_codes=kept.saturated,
        errors=kept,
        complete=True,
    )


def _picture(errors: RunningErrors, counts: AllCounts, total: int) -> ErrorPicture:
    """Return the picture so far."""
    keys = counts.keys
    all_pairs, most_pairs = squares(counts)
    all_errors, most_errors = error_histograms(keys)
    metrics = errors.metrics()
    return ErrorPicture(
        metrics=metrics,
        saturated_codes=None,
        all_pairs=all_pairs,
        most_pairs=most_pairs,
        all_errors=all_errors,
        most_errors=most_errors,
        done=metrics.count,
        total=total,
        complete=False,
    )
