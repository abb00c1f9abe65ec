"""An axis of rows or columns: whole numbers only, each at the middle of its row or column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import pyqtgraph as pg

_MIDDLE: Final = 0.5


class IndexAxis(pg.AxisItem):  # type: ignore[misc] # pyqtgraph has no types
    """Names rows or columns.

    Attributes:
        name_of: Makes a name of a number.
    """

    def __init__(self, side: str) -> None:
        super().__init__(side)
        self.enableAutoSIPrefix(False)
        self.name_of: Callable[[int], str] = str

    # pyqtgraph

    def tickSpacing(self, low: float, high: float, size: float) -> list[tuple[float, float]]:
        spacings = {max(1.0, float(spacing)) for spacing, _ in super().tickSpacing(low, high, size)}
        return [(spacing, _MIDDLE) for spacing in sorted(spacings, reverse=True)]

    def tickStrings(self, values: Sequence[float], scale: float, spacing: float) -> list[str]:
        return [self.name_of(int(value)) for value in values]
