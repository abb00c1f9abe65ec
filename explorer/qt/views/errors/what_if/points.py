"""What the chart of what-ifs draws: errors as heights, and the axis on which they are read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from explorer.analysis.what_if import PRESENT
from explorer.qt.models.what_if.table import Line
from explorer.qt.views.plots.count_axis import CountAxis
from explorer.text import float_text

_STEPS: Final = (1, 2, 5)  # of a decade, while few decades are in sight
_FEW_DECADES: Final = 3.0
_EXACT_DECADES: Final = 0.5  # how far beyond all others a type without any error is drawn
_EXACT_DB: Final = 10.0


class Measure(IntEnum):
    """What is drawn upwards; the places in the list."""

    RELATIVE_RMSE = 0
    SQNR = 1


@dataclass(frozen=True, slots=True)
class ChartPoint:
    """A type in the chart.

    Attributes:
        line: What is known of it.
        x: Bits for each weight.
        y: Height: log10 of the relative RMSE, or decibels.
        exact: Whether nothing is lost, so that the true height is infinite.
    """

    line: Line
    x: float
    y: float
    exact: bool

    @property
    def present(self) -> bool:
        """Whether it is what the file has."""
        return self.line.type_name == PRESENT


def chart_points(lines: Sequence[Line], measure: Measure) -> list[ChartPoint]:
    """Return the lines whose error is known as points."""
    known: list[tuple[Line, float]] = []
    for line in lines:
        value = line.figure("relative_rmse" if measure is Measure.RELATIVE_RMSE else "sqnr_db")
        if value is not None and math.isfinite(line.size.bits_per_weight):
            known.append((line, _height(value, measure)))
    finite = [y for _, y in known if math.isfinite(y)]
    if measure is Measure.RELATIVE_RMSE:
        exact, lost = min(finite, default=-3.0) - _EXACT_DECADES, max(finite, default=0.0)
    else:
        exact, lost = max(finite, default=60.0) + _EXACT_DB, min(finite, default=0.0)
    best = -math.inf if measure is Measure.RELATIVE_RMSE else math.inf
    return [
        ChartPoint(
            line,
            line.size.bits_per_weight,
            y if math.isfinite(y) else exact if y == best else lost,
            y == best,
        )
        for line, y in known
    ]


def _height(value: float, measure: Measure) -> float:
    if measure is Measure.SQNR:
        return value
    return math.log10(value) if value > 0 else -math.inf


class ErrorAxis(CountAxis):
    """The left axis: relative errors in per cent on a logarithmic scale, or decibels."""

    # pyqtgraph

    def tickValues(self, low: float, high: float, size: float) -> list[tuple[float, list[float]]]:
        if not self.logarithmic or high - low > _FEW_DECADES:
            return super().tickValues(low, high, size)
        powers = range(math.floor(low), math.ceil(high) + 1)
        ticks = [power + math.log10(step) for power in powers for step in _STEPS]
        shown = [tick for tick in ticks if low <= tick <= high]
        if len(shown) >= 2:
            return [(1.0, shown)]
        levels: list[tuple[float, list[float]]] = super(CountAxis, self).tickValues(low, high, size)
        return levels

    def tickStrings(self, values: Sequence[float], scale: float, spacing: float) -> list[str]:
        if self.logarithmic:
            return [f"{float_text(100 * 10.0**value, 3)} %" for value in values]
        return [float_text(value, 4) for value in values]
