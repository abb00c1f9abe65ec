"""The axis of counts: 2.5 M instead of 2.5e+06, and whole powers of ten on a logarithmic one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyqtgraph as pg

from explorer.text import count_text, float_text, integer_text, written_number

_LONGEST: Final = 100_000  # from here on a count is rounded


class NumberAxis(pg.AxisItem):  # type: ignore[misc] # pyqtgraph has no types
    """An axis with the decimal sign of the user's country."""

    # pyqtgraph

    def tickStrings(self, values: Sequence[float], scale: float, spacing: float) -> list[str]:
        return [written_number(text) for text in super().tickStrings(values, scale, spacing)]


class CountAxis(pg.AxisItem):  # type: ignore[misc] # pyqtgraph has no types
    """An axis at the left of a plot whose heights are counts, shares, or logarithms of them."""

    def __init__(self) -> None:
        super().__init__("left")
        self.enableAutoSIPrefix(False)
        self.logarithmic = False

    def set_logarithmic(self, on: bool) -> None:
        """Take heights for logarithms, or not."""
        self.logarithmic = on
        self.picture = None
        self.update()

    # pyqtgraph

    def tickValues(self, low: float, high: float, size: float) -> list[tuple[float, list[float]]]:
        if not self.logarithmic:
            levels: list[tuple[float, list[float]]] = super().tickValues(low, high, size)
            return levels
        first, last = -int(-low // 1), int(high // 1)
        step = max(1, (last - first) // 6)
        powers = [float(power) for power in range(first, last + 1, step)]
        return [(float(step), powers)]

    def tickStrings(self, values: Sequence[float], scale: float, spacing: float) -> list[str]:
        if self.logarithmic:
            return [_count(10.0**power) for power in values]
        if spacing < 1:
            return [float_text(value, 4) for value in values]
        return [_count(value) for value in values]


def _count(number: float) -> str:
    if number < 1:
        return float_text(number, 4)
    whole = round(number)
    return count_text(whole) if whole >= _LONGEST else integer_text(whole)
