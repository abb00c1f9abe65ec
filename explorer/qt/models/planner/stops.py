"""The values that a slider stops at, spaced by their logarithm, with some that it snaps to.

A slider of Qt counts in integers from 0; here each of them is the place of a value.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

from explorer.text import integer_text

LEAST_CONTEXT: Final = 512
MOST_CONTEXT: Final = 1 << 20
PER_OCTAVE: Final = 16
"""Stops from a context to twice that."""

_LEAST_SNAP: Final = 2048
_MOST_TRAINED: Final = 1 << 24  # a header may claim anything; a slider of 24 octaves helps nobody
_MOST_PARALLEL: Final = 64


class Stops:
    """Values in rising order.

    Attributes:
        values: The values; a slider's position is a place in here.
        snaps: Those that a drag is drawn to, each one of `values`.
    """

    def __init__(self, values: Iterable[int], snaps: Iterable[int]) -> None:
        self.values = tuple(sorted(set(values)))
        known = set(self.values)
        self.snaps = tuple(snap for snap in sorted(set(snaps)) if snap in known)

    @property
    def last(self) -> int:
        """The last position."""
        return len(self.values) - 1

    def position(self, value: int) -> int:
        """Return the position whose value is nearest, by ratio."""
        place = bisect_left(self.values, value)
        if place == 0:
            return 0
        if place > self.last:
            return self.last
        low, high = self.values[place - 1], self.values[place]
        return place if value * value >= low * high else place - 1

    def step(self, value: int, steps: int) -> int:
        """Return the value some stops further up or down; one between stops goes to the next."""
        place = bisect_left(self.values, value)
        exact = place <= self.last and self.values[place] == value
        if not exact and steps > 0:
            place -= 1
        return self.values[min(max(place + steps, 0), self.last)]


def context_stops(trained: int) -> Stops:
    """Return the contexts of a slider; it snaps to 2k, 4k, … and to the trained one.

    Args:
        trained: Longest context that the model was trained for; 0 for no limit.
    """
    most = max(MOST_CONTEXT, min(trained, _MOST_TRAINED))
    octaves = math.ceil(math.log2(most / LEAST_CONTEXT))
    values = [
        _round(LEAST_CONTEXT * 2 ** (place / PER_OCTAVE))
        for place in range(octaves * PER_OCTAVE + 1)
    ]
    snaps = [1 << power for power in range(_LEAST_SNAP.bit_length() - 1, 25)]
    if LEAST_CONTEXT <= trained <= _MOST_TRAINED:
        nearest = Stops(values, ()).position(trained)
        if nearest > 0 and values[nearest] not in snaps:
            del values[nearest]  # it takes the place of its neighbour, so that places stay even
        values.append(trained)
        snaps.append(trained)
    return Stops(values, snaps)


def parallel_stops() -> Stops:
    """Return the numbers of sequences of a slider; it snaps to powers of two."""
    few = range(1, 9)
    more = [step << power for power in range(4) for step in (8, 10, 12, 14)]
    powers = [1 << power for power in range(7)]
    return Stops([*few, *(n for n in more if n <= _MOST_PARALLEL), _MOST_PARALLEL], powers)


def context_text(tokens: int) -> str:
    """Return a context as people write it: ``"32k"``, ``"1M"``, ``"40,960"``."""
    if tokens >= 1 << 20 and tokens % (1 << 20) == 0:
        return f"{tokens >> 20}M"
    if tokens >= 1024 and tokens % 1024 == 0 and (tokens >> 10) & ((tokens >> 10) - 1) == 0:
        return f"{tokens >> 10}k"
    return integer_text(tokens)


def _round(value: float) -> int:
    """Return a value with six significant bits: stops that one can read out."""
    power = max(0, math.floor(math.log2(value)) - 6)
    return round(value / (1 << power)) << power
