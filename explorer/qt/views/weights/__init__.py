"""The weights panel: histograms, statistics, codes, scales and values of tensors."""

from explorer.qt.views.weights.panel import WeightsView

__all__ = ["WeightsView"]
