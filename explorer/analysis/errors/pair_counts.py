"""Pairs of weights counted for pictures, in one walk and whatever range they turn out to have.

A range that suits a picture is known only when all weights were seen, and a candidate that is
rounded on the way costs ten times as much as looking at it: so weights are not read twice. Instead
pairs are counted on grids of many sizes that fit into each other, each pair on that of its own size
(`kernels_pairs_fields`), and any square of a power of two is put together from these in the end.
All edges are float32 numbers without rounding, and all counts exact.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache
from importlib import import_module
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from explorer.analysis.errors import kernels_pairs_fields as at
from explorer.formats.weights import Values
from explorer.parallel import Check

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
    return import_module("explorer.analysis.errors.kernels_pairs")


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
        self._work = at.new_work()
        self._room = MOST_COUNTED
        # what was counted before the small counters were emptied
        self._keys_before = np.zeros(at.KEYS, np.int64)
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


class CountingPairs:
    """Reads runs of pairs, and counts them on the way; see `lockstep.Pairs`."""

    def __init__(self, pairs: Any, counts: PairCounts) -> None:
        self._pairs = pairs
        self._counts = counts

    def read(self, run: tuple[int, int], check: Check) -> tuple[Values, Values]:
        """Return both sides of a run."""
        both: tuple[Values, Values] = self._pairs.read(run, check)
        self._counts.add(*both)
        return both


class AllCounts:
    """The counts of all threads together, which may still be at work."""

    def __init__(self) -> None:
        self._parts: list[PairCounts] = []

    def counting(self, make: Callable[[], Any]) -> CountingPairs:
        """Return pairs that are counted as they are read; called in each thread."""
        self._parts.append(PairCounts())
        return CountingPairs(make(), self._parts[-1])

    @property
    def keys(self) -> NDArray[np.int64]:
        """Errors by key, int64 [KEYS]."""
        return sum((part.keys for part in list(self._parts)), np.zeros(at.KEYS, np.int64))

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
