"""Errors of weights against a reference: what each figure is called, and how it is written."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from explorer.present import Figure, Translate, english
from explorer.text import float_text, integer_text

if TYPE_CHECKING:
    from explorer.analysis.errors.figures import ErrorFigures

_DIGITS: Final = 5
_SHARES: Final = frozenset({"relative_rmse", "saturated_codes"})
ERRORS: Final = {
    "rmse": "RMSE",
    "relative_rmse": "Relative RMSE",
    "sqnr_db": "SQNR",
    "max_abs_error": "Greatest error",
    "mean_abs_error": "Mean |e|",
    "mean_error": "Bias",
    "one_minus_cosine": "1 - cosine",
}
"""Labels by name, in order."""


def error_label(name: str, tr: Translate = english) -> str:
    """Return what a figure is called, by its name in `gguf-explorer compare --json`."""
    return tr(ERRORS[name])


def error_text(name: str, value: float, tr: Translate = english) -> str:
    """Return a figure for people."""
    if isinstance(value, int):
        return integer_text(value)
    if name == "sqnr_db":
        return tr("{x} dB").format(x=float_text(value, 4))
    if name in _SHARES:
        return share_text(value)
    return float_text(value, _DIGITS)


def share_text(value: float) -> str:
    """Return a share of 1 in per cent."""
    return f"{float_text(100 * value, 4)} %" if math.isfinite(value) else float_text(value)


def error_figures(found: ErrorFigures, tr: Translate = english) -> list[Figure]:
    """Return how large the errors are."""
    values = {name: getattr(found, name) for name in ERRORS}
    return [
        Figure(name, error_label(name, tr), value, error_text(name, value, tr))
        for name, value in values.items()
    ]
