"""Errors of weights against a reference: what is summed and counted in one walk over all pairs.

All metrics come from sums, see `kernels.py`; percentiles of |e| from counts by the upper 18 bits of
|e| as a float32, so that the range need not be known beforehand and one walk is enough.

The range of a picture, too, is known only when all weights were seen, and rounding a candidate on
the way costs ten times as much as looking at it. So pairs are counted on grids of many sizes that
fit into each other, each pair on that of its own size; any square of a power of two is put together
from these in the end. All counts are exact.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from explorer.analysis.errors import kernel_api as at
from explorer.formats.weights import Values

if TYPE_CHECKING:
    from explorer.analysis.blocks import CodeCounts

ERROR_PERCENTS: Final = (50.0, 90.0, 99.0, 99.9)
"""Percentiles of |e|."""

MOST_COLUMN_BYTES: Final = 1 << 20
"""Most bytes of squares by column that are summed for later: those of 65,536 columns, experts'
together. A file may have rows of billions."""

_NEARLY_EQUAL: Final = 0.25
"""Square of the relative error up to which the angle is computed from the error itself."""


@dataclass(frozen=True, kw_only=True)
class ErrorMetrics:
    """Errors e = candidate - reference, over pairs of finite weights.

    A metric that does not exist is NaN; of no pairs, all are.

    Attributes:
        count: Number of pairs, finite or not.
        compared: Pairs of finite weights, which all metrics are of.
        reference_not_finite: Weights of the reference that are NaN or infinite.
        candidate_not_finite: The same of the candidate.
        equal: Pairs without any error.
        sign_flips: Pairs of which one is above 0 and the other below.
        zeroed: Pairs where the candidate is 0 and the reference is not.
        rmse: Root of the mean square error.
        relative_rmse: `rmse` divided by the root mean square of the reference.
        sqnr_db: Signal to quantization noise, -20 log10 of `relative_rmse`; inf without error.
        mean_error: Mean of e: the bias.
        mean_abs_error: Mean of |e|.
        max_abs_error: Greatest |e|.
        cosine: Cosine of the angle between the two, as vectors.
        one_minus_cosine: 1 - `cosine`, to all digits even where both are nearly equal.
        reference_rms: Root mean square of the reference.
        candidate_rms: The same of the candidate.
        percentiles: |e| below which so many per cent lie, right to a thousandth of its value.
    """

    count: int
    compared: int
    reference_not_finite: int
    candidate_not_finite: int
    equal: int
    sign_flips: int
    zeroed: int
    rmse: float
    relative_rmse: float
    sqnr_db: float
    mean_error: float
    mean_abs_error: float
    max_abs_error: float
    cosine: float
    one_minus_cosine: float
    reference_rms: float
    candidate_rms: float
    percentiles: dict[float, float]


@dataclass(frozen=True, slots=True)
class WeightedErrors:
    """Squares that count by the importance of their columns, as llama-quantize weighs an error.

    Attributes:
        squares: Sum of a e² over all pairs of finite weights, of errors e and importance a.
        signal: Sum of a r², of the reference r.
    """

    squares: float
    signal: float

    def __add__(self, other: WeightedErrors) -> WeightedErrors:
        return WeightedErrors(self.squares + other.squares, self.signal + other.signal)

    @property
    def relative_rmse(self) -> float:
        """The relative RMSE of the metrics, weighted; NaN of nothing."""
        return _noise(self.squares, self.signal)[0]

    @property
    def sqnr_db(self) -> float:
        """Signal to quantization noise, weighted; inf without error."""
        return _noise(self.squares, self.signal)[1]


class ColumnErrors:
    """Squares of errors and of the reference, summed up by column, of each matrix so far.

    From these follow the weighted errors for any importance, without reading a weight again.

    Args:
        shape: Of the weights, row-major: any number of matrices of rows and columns.
    """

    def __init__(self, shape: Sequence[int]) -> None:
        self._columns = shape[-1] if shape else 1
        self._matrix = math.prod(shape[-2:])  # weights of one
        self._matrices = math.prod(shape[:-2])
        self._sums: dict[int, NDArray[np.float64]] = {}  # [2, columns] of each

    @property
    def nbytes(self) -> int:
        """Bytes of the sums of all matrices."""
        return 16 * self._columns * self._matrices

    def tobytes(self) -> bytes:
        """Return the sums of all matrices: float64 [matrices, 2, columns], little-endian."""
        sums = np.zeros((self._matrices, 2, self._columns), "<f8")
        for matrix, found in self._sums.items():
            sums[matrix] = found
        return sums.tobytes()

    @classmethod
    def frombytes(cls, shape: Sequence[int], content: bytes) -> ColumnErrors:
        """Return what `tobytes` was called of; a ValueError if it was not of this shape."""
        found = cls(shape)
        sums = np.frombuffer(content, "<f8").reshape(found._matrices, 2, found._columns)
        if not (np.isfinite(sums).all() and (sums >= 0).all()):
            raise ValueError("these are not sums of squares")
        found._sums = dict(enumerate(sums))
        return found

    def add(self, reference: Values, candidate: Values, start: int) -> None:
        """Add pairs of weights, float32 [n] each, from flat index `start` on."""
        done = 0
        while done < reference.size:
            matrix, place = divmod(start + done, self._matrix)
            run = slice(done, done + self._matrix - place)
            kernels().sum_columns(
                reference[run], candidate[run], place % self._columns, self._of(matrix)
            )
            done = run.stop

    def combine(self, other: ColumnErrors) -> None:
        """Add the sums of other pairs."""
        for matrix, sums in other._sums.items():
            np.add(self._of(matrix), sums, out=self._of(matrix))

    def weighted(self, importance: Values) -> WeightedErrors:
        """Return the errors weighted by importance, float32 [1 or matrices, columns].

        Both sums are float64, to some 10^-14.
        """
        squares = signal = 0.0
        for matrix, sums in self._sums.items():
            of_matrix = importance[min(matrix, len(importance) - 1)].astype(np.float64)
            squares += float(of_matrix @ sums[0])
            signal += float(of_matrix @ sums[1])
        return WeightedErrors(squares, signal)

    def _of(self, matrix: int) -> NDArray[np.float64]:
        if matrix not in self._sums:
            self._sums[matrix] = np.zeros((2, self._columns))
        return self._sums[matrix]


@cache
def kernels() -> Any:
    """Return the module of the loop over pairs; the first call loads Numba."""
    return import_module("explorer.analysis.errors.kernels")


class RunningErrors:
    """Sums over the pairs so far; small, so that there can be one for each run of pairs.

    Attributes:
        count: Number of pairs.
        percentiles: Of |e|, as in `ErrorMetrics`; None until they are known.
        keys: Counts of |e|, int64 [KEYS]; None until they are set in the end. They are large, and
            a thread needs one set of them for all its runs.
        codes: Counted codes of what was rounded, set in the end; None where they are not counted.
        columns: The sums by column; None where they are not asked for.
    """

    def __init__(self, columns: ColumnErrors | None = None) -> None:
        self.columns = columns
        self._counts = np.zeros(at.COUNTS, np.int64)
        self._sums = np.zeros((3, at.SUMS), np.float64)
        self.count = 0
        self.percentiles: dict[float, float] | None = None
        self.keys: NDArray[np.int64] | None = None
        self.codes: CodeCounts | None = None

    def add(self, reference: Values, candidate: Values, work: at.Work) -> None:
        """Add pairs of weights, float32 [n] each, apart in memory; |e| is counted in `work`."""
        kernels().measure_errors(reference, candidate, self._counts, self._sums, work)
        self.count += reference.size

    def combine(self, other: RunningErrors) -> None:
        """Add the sums of other pairs; their counts of |e| are left out."""
        if self.columns is not None and other.columns is not None:
            self.columns.combine(other.columns)
        self.count += other.count
        self._counts += other._counts
        first, second = self._sums[0], other._sums[0]
        total = first + second
        shift = total - first  # TwoSum, as in the kernel
        lost = (first - (total - shift)) + (second - shift)
        most = np.maximum(self._sums[2], other._sums[2])
        self._sums = np.stack((total, self._sums[1] + other._sums[1] + lost, most))

    def small(self) -> RunningErrors:
        """Return all but what is large: its percentiles stand for the counts of |e|."""
        found = RunningErrors(self.columns)
        found.count, found._counts, found._sums = self.count, self._counts, self._sums
        found.percentiles = self.metrics().percentiles
        return found

    def record(self) -> dict[str, Any]:
        """Return all but the columns as fields of JSON, to the bit."""
        percentiles = self.percentiles or dict.fromkeys(ERROR_PERCENTS, math.nan)
        return {
            "count": self.count,
            "counts": self._counts.tolist(),
            "sums": self._sums.ravel().tolist(),
            "percentiles": [percentiles[percent] for percent in ERROR_PERCENTS],
        }

    @classmethod
    def of_record(
        cls, count: int, counts: list[int], sums: list[float], percentiles: dict[float, float]
    ) -> RunningErrors:
        """Return what `record` was made of.

        Raises:
            ValueError: No pairs have such sums.
        """
        found = cls()
        found.count, found.percentiles = count, percentiles
        found._counts = np.array(counts, np.int64)
        found._sums = np.array(sums, np.float64).reshape(3, at.SUMS)
        totals, of_pairs = found._sums[0] + found._sums[1], (at.EQUAL, at.SIGN_FLIPS, at.ZEROED)
        if (
            found._counts.shape != (at.COUNTS,)
            or (found._counts > count).any()
            or (found._counts[[*of_pairs]] > counts[at.PAIRS]).any()
            or not np.isfinite(found._sums).all()
            or (totals[[at.RR, at.CC, at.EE, at.ABS]] < 0).any()
        ):
            raise ValueError("no pairs have such sums")
        return found

    @property
    def compared(self) -> int:
        """Number of pairs of finite weights."""
        return int(self._counts[at.PAIRS])

    def metrics(self) -> ErrorMetrics:
        """Return the metrics of the pairs so far; percentiles are NaN without counts of |e|."""
        counts = self._counts.tolist()
        pairs = counts[at.PAIRS]
        totals = (self._sums[0] + self._sums[1]).tolist()
        most = float(self._sums[2, 0])
        return ErrorMetrics(
            count=self.count,
            compared=pairs,
            reference_not_finite=counts[at.REFERENCE_NOT_FINITE],
            candidate_not_finite=counts[at.CANDIDATE_NOT_FINITE],
            equal=counts[at.EQUAL],
            sign_flips=counts[at.SIGN_FLIPS],
            zeroed=counts[at.ZEROED],
            max_abs_error=most if pairs else math.nan,
            percentiles=self.percentiles or _percentiles(self.keys, counts[at.EQUAL], most),
            **_metrics(totals, pairs),
        )


def _metrics(totals: list[float], pairs: int) -> dict[str, float]:
    if pairs == 0:
        names = ("rmse", "relative_rmse", "sqnr_db", "mean_error", "mean_abs_error", "cosine")
        more = ("one_minus_cosine", "reference_rms", "candidate_rms")
        return dict.fromkeys((*names, *more), math.nan)
    distance = one_minus_cosine(totals)
    relative, decibels = _noise(totals[at.EE], totals[at.RR])
    return {
        "rmse": math.sqrt(totals[at.EE] / pairs),
        "relative_rmse": relative,
        "sqnr_db": decibels,
        "mean_error": totals[at.E] / pairs,
        "mean_abs_error": totals[at.ABS] / pairs,
        "cosine": 1 - distance,
        "one_minus_cosine": distance,
        "reference_rms": math.sqrt(totals[at.RR] / pairs),
        "candidate_rms": math.sqrt(totals[at.CC] / pairs),
    }


def _noise(error: float, signal: float) -> tuple[float, float]:
    """Return the relative RMS error, and the ratio of signal to noise in dB, from mean squares."""
    if error == 0:
        return 0.0, math.inf
    if signal == 0:
        return math.inf, -math.inf
    # Not 10 log10(signal / error): that may overflow.
    return math.sqrt(error) / math.sqrt(signal), 10 * (math.log10(signal) - math.log10(error))


def one_minus_cosine(totals: list[float]) -> float:
    """Return 1 - cos of the angle between reference r and candidate c, 0 to 2; NaN if one is 0.

    With e = c - r and d = |c| - |r|, r c = (r² + c² - e²) / 2, so that 1 - cos = (e² - d²) /
    (2 |r| |c|), where d = (2 r e + e²) / (|r| + |c|). Of nearly equal vectors no two nearly equal
    numbers are subtracted there; of others, r c itself says it well.

    Args:
        totals: Sums, as `kernel_api` orders them.
    """
    r, c = math.sqrt(totals[at.RR]), math.sqrt(totals[at.CC])
    if r == 0 or c == 0:
        return math.nan
    error = totals[at.EE]
    if error > _NEARLY_EQUAL * totals[at.RR]:
        distance = 1 - totals[at.RC] / r / c
    else:
        d = (2 * totals[at.RE] + error) / (r + c)
        distance = (error - d * d) / r / c / 2
    return min(2.0, max(0.0, distance))


def _percentiles(keys: NDArray[np.int64] | None, equal: int, most: float) -> dict[float, float]:
    """Return percentiles of |e|, linearly between the two nearest pairs."""
    if keys is None:
        return dict.fromkeys(ERROR_PERCENTS, math.nan)
    used = np.flatnonzero(keys != 0)  # few are; of booleans they are found sooner
    counts = keys[used]
    if equal:
        counts[0] -= equal  # these are 0, the others of that key are not
    behind = (equal + np.cumsum(counts)).tolist()
    if not behind:
        return dict.fromkeys(ERROR_PERCENTS, math.nan)
    last = behind[-1] - 1

    def error_at(rank: int) -> float:
        if rank < equal:
            return 0.0
        if rank >= last:
            return most
        place = bisect_right(behind, rank)
        key, count = int(used[place]), int(counts[place])
        inside = (rank - (behind[place] - count) + 0.5) / count
        low, high = _least_of(key), _least_of(key + 1)
        return min(low + inside * (high - low), most) if math.isfinite(high) else most

    found = {}
    for percent in ERROR_PERCENTS:
        rank, part = divmod(percent / 100 * last, 1)
        low, high = error_at(int(rank)), error_at(min(int(rank) + 1, last))
        found[percent] = low + part * (high - low)
    return found


def _least_of(key: int) -> float:
    return float(np.uint32(key << (31 - at.KEY_BITS)).view(np.float32))


MOST_COUNTED: Final = (1 << 32) - 1
"""Pairs for which a cell has room."""

LEAST_LEVEL: Final = at.LEAST_TOP - at.LEVELS + 1
"""The lowest level that ever has a grid of its own."""

HALF: Final = at.ACROSS // 2
"""Cells on each side of 0."""

_QUARTER: Final = slice(HALF // 2, HALF // 2 + HALF)
_Grids = NDArray[Any]  # of a kind of integer, [LEVELS, ACROSS, ACROSS]


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


class AllCounts:
    """The counts of all threads together, which may still be at work."""

    def __init__(self) -> None:
        self._parts: list[PairCounts] = []

    def of_thread(self) -> PairCounts:
        """Return counts for a thread to add to; called in each thread."""
        counts = PairCounts()
        self._parts.append(counts)
        return counts

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

    def grids(self, levels: Collection[int]) -> dict[int, NDArray[np.int64]]:
        """Return the pairs of some levels, each with those of all levels below it.

        Args:
            levels: The levels, none of which is below `lowest`.

        Returns:
            int64 [ACROSS, ACROSS] each: rows for the candidate, columns for the reference, upwards.
        """
        parts = list(self._parts)
        found = {}
        total = np.zeros((at.ACROSS, at.ACROSS), np.int64)
        lowest = min((part.lowest for part in parts), default=LEAST_LEVEL)
        # what is so far below all wanted levels ends up in the four cells around 0
        start = max(lowest, min(levels) - at.ACROSS.bit_length() + 1)
        middle = total[HALF - 1 : HALF + 1, HALF - 1 : HALF + 1]
        for level in range(lowest, start):
            for part in parts:
                counts = part.counts_of(level)
                if counts is not None:
                    middle += _sum(counts.reshape(2, HALF, 2, HALF), (1, 3))
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
