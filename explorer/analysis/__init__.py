"""Streams of float32 to evidence: statistics, histograms, errors.

What users script against is here (docs/interface.md), and nothing else. Each is loaded with its
first use, Numba with the first weight that is read.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from explorer.analysis.errors.compare import compare_tensors
    from explorer.analysis.statistics import tensor_statistics
    from explorer.analysis.surveys import survey
else:
    _MODULES = {
        "compare_tensors": "errors.compare",
        "survey": "surveys",
        "tensor_statistics": "statistics",
    }

    def __getattr__(name: str) -> object:  # PEP 562
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


__all__ = ["compare_tensors", "survey", "tensor_statistics"]
