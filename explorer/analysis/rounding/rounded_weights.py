"""The weights of a tensor before and after rounding, a run at a time, with the codes counted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from explorer.analysis.codes import CodeCounts
from explorer.analysis.errors.lockstep import Run
from explorer.analysis.matching.view_reader import ViewReader
from explorer.analysis.matching.views import Weights, view_of
from explorer.analysis.rounding.rounders import Rounder
from explorer.formats.weights import Values
from explorer.parallel import Check


class RoundedWeights:
    """Weights, and what is left of them; see `lockstep.Pairs`.

    Runs begin and end at blocks.

    Args:
        weights: A tensor, or a view.
        kind: What rounds it.
        importance: float32 [matrices, columns] or None; see `what_if.requantization`.

    Attributes:
        counts: The codes that were used; None of a type without codes.
    """

    def __init__(self, weights: Weights, kind: Rounder, importance: Values | None = None) -> None:
        view = view_of(weights)
        self.counts = None if kind.levels is None else CodeCounts(kind.levels)
        self._reader = ViewReader(view)
        self._rounder = kind
        self._importance = importance
        self._matrix = view.parameters // len(importance) if importance is not None else 0
        self._values: Values = np.empty(0, np.float32)

    def read(self, run: Run, check: Check) -> tuple[Values, Values]:
        """Return a run of weights before and after rounding."""
        start, count = run
        if self._values.size < count:
            self._values = np.empty(count, np.float32)
        values = self._values[:count]
        self._reader.read_into(start, values, check)
        importance = None
        if self._importance is not None:
            importance = self._importance[start // self._matrix]
        rounded = self._rounder.round(values, importance)
        if self.counts is not None:
            self.counts.add(self._rounder.codes())
        return values, rounded


def rounded_saturated_share(made: Sequence[RoundedWeights]) -> float | None:
    """Return the share of saturated codes of all that was rounded; None of a type without codes.

    Args:
        made: Of each thread; their counts are put together in the first.
    """
    counts = [one.counts for one in made if one.counts is not None]
    if not counts:
        return None
    for other in counts[1:]:
        counts[0].combine(other)
    return counts[0].shares().saturated_share
