"""Which layers go to which GPU: greedy fit, best fit, and the choice of GPUs (planner.md 7).

Source: Ollama, llm/server.go, `greedyFit`, `findBestFit` and `assignLayers`. Layers are taken from
the last to the first, so what a GPU gets is one run of layers. Two things are done differently, and
give the same result:

- A run is found by bisection in the prefix sums of the sizes instead of layer by layer: with
  w = sizes from the run's end downwards, "add layers while they fit" stops where the sum of w
  exceeds the room.
- The capacity factor is searched only for the number of GPUs that is returned. The search keeps the
  number of layers placed, so whether a number of GPUs will do is known from the first greedy fit.

The factor is a 32-bit float in Ollama. Python's own floats give other layer counts at the edges.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

_WHOLE: Final = np.float32(1)
_FORCED: Final = np.float32(1000)  # pretend to have almost infinite memory
_TWO: Final = np.float32(2)
_PRECISION: Final = np.float32(1e-6)
_LEVELS: Final = 32  # a power of two, so that the search for the factor passes through them

Entry: TypeAlias = tuple[int, int, int]
"""(position of the GPU in its list, first layer, layer behind the last); may hold no layers."""

Trace: TypeAlias = list[tuple[int, ...]]
"""The decisions from which it follows whether all layers are placed, and on which GPUs.

Each is a comparison whose outcome can change only once as sizes of layers and graph grow and rooms
shrink, given that the decisions before it are the same. `explorer.planner.search` builds on that.
"""


def as_float32(number: int) -> np.float32:
    """Round an integer to the nearest 32-bit float.

    NumPy goes through a 64-bit float, which above 2^53 rounds twice. There the bits below the 50th
    are folded into one that only says "more than half".
    """
    shift = number.bit_length() - 50
    if shift <= 3:
        return np.float32(number)
    folded = number >> shift | ((number & ((1 << shift) - 1)) != 0)
    return np.float32(folded) * np.float32(1 << shift)


@dataclass(frozen=True, slots=True)
class Rooms:
    """GPUs of one library, best first, and what each has left for layers.

    Attributes:
        free: Free bytes less everything withheld, as 32-bit floats.
        integrated: Whether each GPU is an integrated one.
        last_used: Position of the last GPU with a graph on it; 0 if none has one.
    """

    free: Sequence[np.float32]
    integrated: Sequence[bool]
    last_used: int


@dataclass(frozen=True, slots=True)
class Wish:
    """How layers are to be placed.

    Attributes:
        num_gpu: Layers to place; negative for as many as fit.
        require_full: Never go beyond what fits.
        spread: Use all GPUs instead of as few as possible.
    """

    num_gpu: int
    require_full: bool
    spread: bool


def assign_layers(
    ends: Sequence[int], rooms: Rooms, wish: Wish, trace: Trace | None = None
) -> list[Entry]:
    """Place layers on the GPUs of one library.

    Args:
        ends: Prefix sums of the layers' sizes, [T + 1], from 0.
        rooms: The GPUs.
        wish: What is wanted.
        trace: Where decisions are noted.

    Returns:
        The GPUs used, in no particular order. Without the output layer unless all layers fit.
    """
    count, total = len(rooms.free), len(ends) - 1
    wanted = wish.num_gpu
    equal = wanted >= 0 or wish.spread  # then integrated GPUs count like the others
    integrated = [False] * count if equal else rooms.integrated
    for layers in (total, total - 1):
        wanted = min(layers, wanted)
        fit = _Fit(ends, rooms.free, integrated, wanted)
        for gpus in range(count if wish.spread else rooms.last_used + 1, count + 1):
            forced = gpus == count and not wish.require_full
            placed = fit.count(layers, gpus, forced)
            if trace is not None and layers == total:
                trace.append((gpus, placed == total))
            if placed in (layers, wanted):
                break
        if placed == layers:
            return fit.balance(layers, gpus, forced, trace if layers == total else None)
    return fit.balance(layers, gpus, forced)


@dataclass(frozen=True, slots=True)
class _Share:
    """What a group of GPUs, discrete or integrated, takes of the layers.

    Attributes:
        group: Positions of its GPUs, the best first.
        left: Number of layers that the groups before it left.
        wanted: How many it may take; negative for as many as fit.
        high: Capacity factor to begin with.
        fit: What it takes at that factor.
    """

    group: Sequence[int]
    left: int
    wanted: int
    high: np.float32
    fit: list[Entry]

    @property
    def start(self) -> int:
        """First layer that it takes; those before it are left."""
        return self.fit[-1][1]


@dataclass(frozen=True, slots=True)
class _Fit:
    """Best fit on the first GPUs of a list."""

    ends: Sequence[int]
    free: Sequence[np.float32]
    integrated: Sequence[bool]
    wanted: int

    def count(self, layers: int, gpus: int, forced: bool) -> int:
        """Return how many of the first `layers` layers the first `gpus` GPUs take."""
        for share in self._shares(layers, gpus, forced):
            left = share.start
        return layers - left

    def balance(
        self, layers: int, gpus: int, forced: bool, trace: Trace | None = None
    ) -> list[Entry]:
        """Return the fit at the smallest factor that still places as many layers.

        That fills the GPUs in proportion to their memory.
        """
        entries: list[Entry] = []
        for share in self._shares(layers, gpus, forced):
            entries += self._shrink(share, trace)
        return entries

    def _shares(self, layers: int, gpus: int, forced: bool) -> Iterator[_Share]:
        """Yield what each group takes, in the order in which they are filled."""
        left, wanted = layers, self.wanted
        for group in self._groups(gpus):
            high = _FORCED if wanted >= 0 and forced else _WHOLE
            share = _Share(group, left, wanted, high, self._greedy(group, left, high, wanted))
            yield share
            left, wanted = share.start, wanted - (left - share.start)

    def _shrink(self, share: _Share, trace: Trace | None) -> list[Entry]:
        """Return a group's fit at the smallest factor that keeps the number of layers."""
        low, high = np.float32(0), share.high
        best = share.fit
        steps: Trace = []
        while high - low > _PRECISION:
            middle = (low + high) / _TWO
            if middle in (low, high):  # Ollama never ends here: steps are wider than 1e-6
                break
            found = self._greedy(share.group, share.left, middle, share.wanted)
            if trace is not None:
                steps.append(tuple(start for _, start, _ in found))
            if found[-1][1] == share.start:
                high, best = middle, found
            else:
                low = middle
        if trace is not None and self._note(share, trace):
            trace += steps
        return best

    def _note(self, share: _Share, trace: Trace) -> bool:
        """Note what decides which GPUs of a group are used; tell whether that is not enough.

        A group that does not take all layers that are left uses all its GPUs. Of one that does,
        the best GPU, to which it comes last, is left out if it cannot hold the first layer; it is
        used if at some factor all layers fit, but not without it, for the factor found in the end
        is no larger.
        """
        trace.append((share.start == 0, share.left == 0))
        if share.start > 0 or share.left == 0:
            return False
        group = share.group
        while len(group) > 1 and self.ends[1] > int(self.free[group[0]] * share.high):
            group = group[1:]
        low, level = 0, _LEVELS
        while level - low > 1:
            middle = (low + level) // 2
            if self._takes_all(share, group, middle):
                level = middle
            else:
                low = middle
        spare = len(group) > 1 and self._takes_all(share, group[1:], level)
        trace.append((len(group), level, spare))
        return spare

    def _takes_all(self, share: _Share, group: Sequence[int], level: int) -> bool:
        factor = share.high * np.float32(level) / np.float32(_LEVELS)
        return self._greedy(group, share.left, factor, share.wanted)[-1][1] == 0

    def _groups(self, gpus: int) -> list[list[int]]:
        """Return the GPUs by the integrated flag, in order of appearance."""
        groups: dict[bool, list[int]] = {}
        for position in range(gpus):
            groups.setdefault(self.integrated[position], []).append(position)
        return list(groups.values())

    def _greedy(
        self, group: Sequence[int], layers: int, factor: np.float32, wanted: int
    ) -> list[Entry]:
        """Fill GPUs from the last to the first with layers from the last to the first."""
        ends = self.ends
        top = layers
        floor = max(0, layers - wanted) if wanted >= 0 else 0
        entries: list[Entry] = []
        for position in reversed(group):
            room = int(self.free[position] * factor)
            start = bisect_left(ends, ends[top] - room, floor, top)
            entries.append((position, start, top))
            top = start
            if top == floor:
                break
        return entries
