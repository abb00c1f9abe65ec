"""Error figures as `compare` and `requantize` print them (docs/interface.md)."""

from __future__ import annotations

from typing import Any, Final

from explorer.analysis import ErrorFigures

ABOUT_ERRORS: Final = (
    "Weight error ranks tensors of one role (all ffn_down, say) and types of one tensor. It does "
    "not by itself predict the quality of a model's answers."
)
"""What has to be said wherever such figures are shown."""

SHOWN_FIGURES: Final = (
    "rmse",
    "relative_rmse",
    "sqnr_db",
    "max_abs_error",
    "mean_error",
    "one_minus_cosine",
)
"""Figures of the tables for people."""


def errors_record(found: ErrorFigures | None) -> dict[str, Any]:
    """Return the fields of the JSON object; of None all are null."""
    names = (
        *("rmse", "relative_rmse", "max_abs_error", "mean_error", "sqnr_db", "cosine"),
        *("one_minus_cosine", "mean_abs_error", "reference_rms", "candidate_rms"),
        *("compared", "reference_not_finite", "candidate_not_finite"),
        *("equal", "sign_flips", "zeroed", "percentiles"),
    )
    if found is None:
        return dict.fromkeys(names)
    record = {name: getattr(found, name) for name in names}
    record["percentiles"] = {f"{percent:g}": value for percent, value in found.percentiles.items()}
    return record
