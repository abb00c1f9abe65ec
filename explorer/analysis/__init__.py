"""Streams of float32 to evidence: statistics, histograms, errors.

Importing it loads nothing else: each part is loaded with its first use, Numba with the first weight
that is read.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from explorer.analysis.blocks import (
        BlockStatistics,
        CodeShares,
        Distribution,
        block_statistics,
        code_shares,
    )
    from explorer.analysis.errors.compare import Comparison, TensorErrors, compare_tensors
    from explorer.analysis.errors.metrics import ErrorMetrics
    from explorer.analysis.histogram import Histogram
    from explorer.analysis.moments import Moments
    from explorer.analysis.requantization import Requantized, requantize
    from explorer.analysis.statistics import TensorStatistics, tensor_statistics
    from explorer.analysis.surveys import SurveyRow, survey
else:
    _MODULES = {
        "blocks": (
            "BlockStatistics",
            "CodeShares",
            "Distribution",
            "block_statistics",
            "code_shares",
        ),
        "errors.compare": ("Comparison", "TensorErrors", "compare_tensors"),
        "errors.metrics": ("ErrorMetrics",),
        "histogram": ("Histogram",),
        "moments": ("Moments",),
        "requantization": ("Requantized", "requantize"),
        "statistics": ("TensorStatistics", "tensor_statistics"),
        "surveys": ("SurveyRow", "survey"),
    }

    def __getattr__(name: str) -> object:  # PEP 562: a module is loaded with its first name
        for module, names in _MODULES.items():
            if name in names:
                return getattr(import_module(f"{__name__}.{module}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "BlockStatistics",
    "CodeShares",
    "Comparison",
    "Distribution",
    "ErrorMetrics",
    "Histogram",
    "Moments",
    "Requantized",
    "SurveyRow",
    "TensorErrors",
    "TensorStatistics",
    "block_statistics",
    "code_shares",
    "compare_tensors",
    "requantize",
    "survey",
    "tensor_statistics",
]
