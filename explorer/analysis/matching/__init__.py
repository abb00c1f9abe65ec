"""Tensors of two models that belong together, across formats, fusions and permutations."""

from explorer.analysis.matching.pairing import Match, Matching, Mismatch, match_models
from explorer.analysis.matching.rules import NotComparable
from explorer.analysis.matching.views import TensorPart, TensorView, ViewReader

__all__ = [
    "Match",
    "Matching",
    "Mismatch",
    "NotComparable",
    "TensorPart",
    "TensorView",
    "ViewReader",
    "match_models",
]
