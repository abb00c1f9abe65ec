"""The histogram of errors: over a linear axis, or of their sizes over a logarithmic one."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from PySide6.QtWidgets import QWidget

from explorer.present.explanations import picture_text
from explorer.qt.models.weights.histogram_curve import BinReading, HistogramCurve, curve_columns
from explorer.qt.views.plots.histogram_plot import HistogramPlot

_MOST_TICKS = 10


class ErrorPlot(HistogramPlot):
    """A `HistogramPlot` of one curve, whose lower axis may be logarithmic.

    Attributes:
        by_size: Whether it is.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.by_size = False
        self._curve: HistogramCurve | None = None
        self.set_normal(False)
        self.setAccessibleName(self.tr("Histogram of errors"))
        self.setWhatsThis(picture_text("error_histogram"))

    def show_errors(self, curve: HistogramCurve, *, by_size: bool) -> None:
        """Draw a histogram.

        Args:
            curve: The histogram; with a logarithmic axis all edges are above 0.
            by_size: Whether the axis is logarithmic.
        """
        changed = by_size != self.by_size
        self.by_size = by_size
        self._curve = curve
        if by_size:
            histogram = curve.histogram
            edges = np.log10(histogram.edges)
            self.set_code_ticks(_decades(float(edges[0]), float(edges[-1])))
            drawn = replace(histogram, low=float(edges[0]), high=float(edges[-1]), edges=edges)
            curve = replace(curve, histogram=drawn)
        elif changed:
            self.set_code_ticks(None)
        self.show_curves((curve,))

    def errors_of(self, reading: BinReading) -> tuple[float, float]:
        """Return the edges of a bin that was read."""
        assert self._curve is not None
        edges = self._curve.histogram.edges
        return float(edges[reading.index]), float(edges[reading.index + 1])

    def data_columns(self) -> list[tuple[str, list[Any]]]:
        """Return edges and counts."""
        return [] if self._curve is None else curve_columns([self._curve])


def _decades(low: float, high: float) -> list[tuple[float, str]]:
    """Return ticks at powers of ten."""
    first, last = math.floor(low), math.ceil(high)
    step = max(1, -(-(last - first) // _MOST_TICKS))
    return [(float(power), f"1e{power}") for power in range(first, last + 1, step)]
