"""Which of several choices nobody needs, because another one is better in every way."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan


def pareto_front(points: Sequence[tuple[float, float]]) -> list[bool]:
    """Tell of each point whether no other one is better in one way and not worse in the other.

    Args:
        points: Two numbers each, of both of which less is better; NaN is never on the front.
    """
    known = [number for number, (x, y) in enumerate(points) if not (isnan(x) or isnan(y))]
    front = [False] * len(points)
    best: tuple[float, float] | None = None
    for number in sorted(known, key=lambda number: points[number]):
        if best is None or points[number][1] < best[1] or points[number] == best:
            best = points[number]
            front[number] = True
    return front
