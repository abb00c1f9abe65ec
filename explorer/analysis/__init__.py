"""Streams of float32 to evidence: statistics, histograms, errors.

Importing it loads no Numba; the first weight that is read does.
"""

from explorer.analysis.binning import Histogram
from explorer.analysis.blocks import BlockStatistics, Distribution, block_statistics
from explorer.analysis.lines import LineFigures, Lines, tensor_lines
from explorer.analysis.moments import Moments
from explorer.analysis.statistics import Snapshot, TensorStatistics, tensor_statistics
from explorer.analysis.survey import SurveyRow, survey

__all__ = [
    "BlockStatistics",
    "Distribution",
    "Histogram",
    "LineFigures",
    "Lines",
    "Moments",
    "Snapshot",
    "SurveyRow",
    "TensorStatistics",
    "block_statistics",
    "survey",
    "tensor_lines",
    "tensor_statistics",
]
