"""Streams of float32 to evidence: statistics, histograms, errors.

Importing it loads nothing else: each part is loaded with its first use, Numba with the first weight
that is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from explorer.late import late_names

if TYPE_CHECKING:
    from explorer.analysis.binning import Histogram
    from explorer.analysis.codes import CodeShares, code_shares
    from explorer.analysis.codes_and_scales import BlockStatistics, Distribution, block_statistics
    from explorer.analysis.errors.comparison import Comparison, TensorErrors, compare_tensors
    from explorer.analysis.errors.figures import ErrorFigures
    from explorer.analysis.lines import LineFigures, Lines, tensor_lines
    from explorer.analysis.moments import Moments
    from explorer.analysis.statistics import Snapshot, TensorStatistics, tensor_statistics
    from explorer.analysis.surveys.tensors import SurveyRow, survey
    from explorer.analysis.what_if.requantization import Requantized, requantize
else:
    __getattr__ = late_names(
        __name__,
        {
            "binning": ["Histogram"],
            "codes_and_scales": ["BlockStatistics", "Distribution", "block_statistics"],
            "codes": ["CodeShares", "code_shares"],
            "errors.comparison": ["Comparison", "TensorErrors", "compare_tensors"],
            "errors.figures": ["ErrorFigures"],
            "lines": ["LineFigures", "Lines", "tensor_lines"],
            "moments": ["Moments"],
            "what_if.requantization": ["Requantized", "requantize"],
            "statistics": ["Snapshot", "TensorStatistics", "tensor_statistics"],
            "surveys.tensors": ["SurveyRow", "survey"],
        },
    )

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
