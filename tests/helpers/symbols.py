"""Pictures of symbols that pyqtgraph keeps for a plot."""

from __future__ import annotations

import pyqtgraph as pg

from explorer.qt.widgets.plot import ThemedPlot


def kept_symbols(plot: ThemedPlot) -> int:
    """Return how many there are: one for each symbol, size, pen and brush, as objects."""
    items = [each for each in plot.scene().items() if isinstance(each, pg.ScatterPlotItem)]
    return sum(len(item.fragmentAtlas) for item in items)


def kept_after_drawing_again(plot: ThemedPlot) -> tuple[int, int]:
    """Return how many there are now, and after the plot was drawn 20 times more."""
    before = kept_symbols(plot)
    for _ in range(20):
        plot.restyle()
    return before, kept_symbols(plot)
