"""Streams of float32 to evidence: statistics, histograms, errors.

Importing it loads no Numba; the first weight that is read does.
"""

from explorer.analysis.binning import Histogram
from explorer.analysis.blocks import BlockStatistics, Distribution, block_statistics
from explorer.analysis.codes import CodeShares, code_shares
from explorer.analysis.comparison import Comparison, TensorErrors, compare_tensors
from explorer.analysis.errors import ErrorFigures
from explorer.analysis.lines import LineFigures, Lines, tensor_lines
from explorer.analysis.moments import Moments
from explorer.analysis.requantization import Requantized, requantize
from explorer.analysis.statistics import Snapshot, TensorStatistics, tensor_statistics
from explorer.analysis.survey import SurveyRow, survey

__all__ = [
    "BlockStatistics",
    "CodeShares",
    "Comparison",
    "Distribution",
    "ErrorFigures",
    "Histogram",
    "LineFigures",
    "Lines",
    "Moments",
    "Requantized",
    "Snapshot",
    "SurveyRow",
    "TensorErrors",
    "TensorStatistics",
    "block_statistics",
    "code_shares",
    "compare_tensors",
    "requantize",
    "survey",
    "tensor_lines",
    "tensor_statistics",
]
