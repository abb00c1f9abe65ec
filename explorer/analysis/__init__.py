"""Streams of float32 to evidence: statistics, histograms, errors.

Importing it loads nothing else: each part is loaded with its first use, Numba with the first weight
that is read.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from explorer.analysis.binning import Histogram
    from explorer.analysis.blocks import BlockStatistics, Distribution, block_statistics
    from explorer.analysis.codes import CodeShares, code_shares
    from explorer.analysis.comparison import Comparison, TensorErrors, compare_tensors
    from explorer.analysis.errors import ErrorFigures
    from explorer.analysis.lines import LineFigures, Lines, tensor_lines
    from explorer.analysis.moments import Moments
    from explorer.analysis.requantization import Requantized, requantize
    from explorer.analysis.statistics import Snapshot, TensorStatistics, tensor_statistics
    from explorer.analysis.tensor_survey import SurveyRow, survey

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

_NAMES = {
    "explorer.analysis.binning": ("Histogram",),
    "explorer.analysis.blocks": (
        "BlockStatistics",
        "Distribution",
        "block_statistics",
    ),
    "explorer.analysis.codes": (
        "CodeShares",
        "code_shares",
    ),
    "explorer.analysis.comparison": (
        "Comparison",
        "TensorErrors",
        "compare_tensors",
    ),
    "explorer.analysis.errors": ("ErrorFigures",),
    "explorer.analysis.lines": (
        "LineFigures",
        "Lines",
        "tensor_lines",
    ),
    "explorer.analysis.moments": ("Moments",),
    "explorer.analysis.requantization": (
        "Requantized",
        "requantize",
    ),
    "explorer.analysis.statistics": (
        "Snapshot",
        "TensorStatistics",
        "tensor_statistics",
    ),
    "explorer.analysis.tensor_survey": (
        "SurveyRow",
        "survey",
    ),
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)
