"""Which tensors stand out: by error against the reference, by rounding step, by outliers.

Error ranks tensors within a role, so every tensor is told against the median of its role too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from explorer.report.weights import TensorFigures


@dataclass(frozen=True, slots=True)
class Ranked:
    """A tensor among those of its role.

    Attributes:
        tensor: The tensor.
        value: The figure that it is ranked by.
        place: Its place in its role, 1 for the greatest figure.
        peers: Tensors of its role, itself included.
        to_median: Its figure divided by the role's median; NaN where that is 0.
    """

    tensor: TensorFigures
    value: float
    place: int
    peers: int
    to_median: float


def rank(
    tensors: Iterable[TensorFigures], figure: Callable[[TensorFigures], float]
) -> list[Ranked]:
    """Return the tensors whose figure is known and above 0, the greatest first."""
    roles: dict[str, list[tuple[float, TensorFigures]]] = {}
    for tensor in tensors:
        value = figure(tensor)
        if value > 0:  # NaN is not
            roles.setdefault(tensor.role, []).append((value, tensor))
    found = []
    for peers in roles.values():
        middle = median(value for value, _ in peers)
        peers.sort(key=lambda pair: -pair[0])
        for place, (value, tensor) in enumerate(peers, start=1):
            known = 0 < middle < math.inf and value < math.inf
            to_median = value / middle if known else math.nan
            found.append(Ranked(tensor, value, place, len(peers), to_median))
    return sorted(found, key=lambda one: -one.value)


def most_interesting(orders: Sequence[Sequence[Ranked]], count: int) -> list[TensorFigures]:
    """Return tensors whose histograms are worth a look: the first of each order in turn."""
    found: dict[str, TensorFigures] = {}
    longest = max(map(len, orders), default=0)
    for place in range(min(longest, count)):
        for order in orders:
            if place < len(order) and len(found) < count:
                tensor = order[place].tensor
                found.setdefault(tensor.name, tensor)
    return list(found.values())
