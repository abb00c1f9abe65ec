"""Errors of weights against a reference: labels, explanations, and how they are written."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from explorer.analysis import ErrorMetrics
from explorer.analysis.errors.compare import ComparedRow, TotalErrors
from explorer.analysis.matching.pairing import Matching
from explorer.present.statistics import STATISTICS
from explorer.quantization.huggingface.schemes import scheme
from explorer.text import digits_text, fixed_text, float_text, integer_text, percent_text

_DIGITS: Final = 5
_SHARE_DIGITS: Final = 4
_SHARES: Final = frozenset({"relative_rmse", "saturated_codes"})
_NOT_FINITE: Final = (
    "Weights that are NaN or infinite; their pairs are left out of all other figures."
)
_SPREAD: Final = "One far larger than the root mean square: a block with outliers."


class Text(NamedTuple):
    """The label of a figure, and its explanation, plain text."""

    title: str
    tip: str


ERROR_TEXTS: Final = {
    "rmse": Text(
        "RMSE",
        "Root mean square error: the usual size of an error. Large errors count more than small "
        "ones.",
    ),
    "relative_rmse": Text(
        "Relative RMSE",
        "RMSE divided by the root mean square of the reference, so that tensors of different sizes "
        "can be compared.",
    ),
    "sqnr_db": Text(
        "SQNR",
        "Signal to quantization noise ratio: the relative RMSE in decibels. More is better; 6 dB "
        "are one bit.",
    ),
    "max_abs_error": Text("Maximum error", "The largest distance of a weight from its reference."),
    "mean_abs_error": Text("Mean |e|", "Mean of the errors without their signs."),
    "mean_error": Text(
        "Bias",
        "Mean of the errors with their signs: far from 0 if the candidate is too large or too "
        "small on the whole.",
    ),
    "one_minus_cosine": Text(
        "1 - cosine",
        "The angle between reference and candidate as vectors: 0 is the same direction. It does "
        "not see a wrong scale.",
    ),
    "reference_rms": Text(
        "RMS, reference", "Root mean square of the reference's weights: how large they are."
    ),
    "candidate_rms": Text("RMS, candidate", "Root mean square of the candidate's weights."),
    "count": Text(
        "Weights",
        "Pairs of a weight and its reference. All are read, none is sampled; the other figures "
        "are of those that are finite.",
    ),
    "equal": Text("Equal", "Weights without any error."),
    "sign_flips": Text(
        "Sign flips", "Weights above 0 whose reference is below 0, or the other way round."
    ),
    "zeroed": Text("Zeroed", "Weights that are 0 and whose reference is not."),
    "reference_not_finite": Text("Reference not finite", _NOT_FINITE),
    "candidate_not_finite": Text("Candidate not finite", _NOT_FINITE),
    "saturated_codes": Text(
        "Saturated codes",
        "Weights with the lowest or the highest level of the type, which may have been farther "
        "out. Types whose scale comes from the largest weight of a block have one in every block.",
    ),
}
"""Texts of errors by the name in `gguf-explorer compare --json`."""

ROUNDING_TEXTS: Final = {
    "step_error_rms": Text(
        STATISTICS["step_error_rms"],
        "Expected error of rounding to the nearest level if weights are spread evenly: the "
        "distance of levels times the block scale, divided by the root of 12. The true error "
        "needs a reference.",
    ),
    "used_codes": Text("Codes used", "Levels of the type that at least one weight uses."),
    "saturated_codes": ERROR_TEXTS["saturated_codes"],
    "zero_codes": Text(
        "Zero codes", "Weights whose code stands for 0 before a minimum is subtracted."
    ),
    "weights_per_scale": Text(
        "Weights per scale",
        "Weights that share a block scale: the fewer, the better a scale fits them.",
    ),
    "scale_count": Text("Scales", "Block scales of the tensor."),
    "scale_min": Text("Smallest scale", _SPREAD),
    "scale_rms": Text("RMS of scales", _SPREAD),
    "scale_max": Text("Largest scale", _SPREAD),
    "scale_zeros": Text("Scales of 0", "Blocks of which nothing but the minimum is left."),
    "minimum_count": Text("Minima", "Numbers that are subtracted from a block."),
    "minimum_min": Text("Smallest minimum", _SPREAD),
    "minimum_rms": Text("RMS of minima", _SPREAD),
    "minimum_max": Text("Largest minimum", _SPREAD),
    "minimum_zeros": Text("Minima of 0", "Blocks that reach down to 0."),
}
"""Texts of what the blocks of a tensor imply about its rounding, without a reference."""


def percentile_text(percent: float) -> Text:
    """Return the text of a percentile of |e|."""
    title = f"{float_text(percent, 6)} % of |e| below"
    return Text(
        "Median |e|" if percent == 50 else title,
        "So many of the errors, without their signs, are not larger than this.",
    )


def error_label(name: str) -> str:
    """Return the label of an error figure, by its name in `gguf-explorer compare --json`."""
    return ERROR_TEXTS[name].title


def error_text(name: str, value: float, digits: int | None = None) -> str:
    """Return an error figure for people; errors of weights are of any size: 1.6102e-03.

    Args:
        digits: Significant digits, if not as many as usual.
    """
    if isinstance(value, int):
        return integer_text(value)
    if name == "sqnr_db":
        if value == math.inf:
            return "no error"
        # a decibel is as much anywhere: as many places, not digits
        return f"{digits_text(value, digits) if digits else fixed_text(value, 2)} dB"
    if name in _SHARES:
        return percent_text(value, digits or _SHARE_DIGITS)
    return digits_text(value, digits or _DIGITS, scientific=True)


ABOUT_ERRORS: Final = (
    "Weight error ranks tensors of one role (all ffn_down, say) and types of one tensor. It does "
    "not by itself predict the quality of a model's answers."
)
"""Shown wherever such figures are."""

_NO_CALIBRATION: Final = (
    "Types of Hugging Face models are rounded to nearest, from the weights alone: what calibration "
    "with sample texts gains, or HQQ by its search, is not in the figures."
)


def rounding_notes(type_names: Iterable[str]) -> list[str]:
    """Return what must be said of rounding to some types; nothing of those that others make so."""
    return [_NO_CALIBRATION] if any(scheme(name) for name in type_names) else []


ERRORS: Final = tuple(ERROR_TEXTS)[:7]
"""Figures of how large the errors are, all of them, in order."""

SHOWN_FIGURES: Final = (
    *("rmse", "relative_rmse", "sqnr_db", "max_abs_error", "mean_error", "one_minus_cosine"),
)
"""Figures of the tables for people."""


def errors_record(found: ErrorMetrics | None) -> dict[str, Any]:
    """Return the error fields of `compare` and `requantize --json`; of None all are null."""
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


def compared_record(row: ComparedRow) -> dict[str, Any]:
    """Return a row of `compare --json`."""
    reference, candidate = row.match.reference, row.match.candidate
    errors = row.errors
    return {
        "reference_name": reference.name,
        "candidate_name": candidate.name,
        "type": candidate.type_name,
        "reference_type": reference.type_name,
        "shape": list(candidate.shape),
        "count": candidate.parameters,
        **errors_record(errors),
        "saturated_codes": None if errors is None else errors.saturated_codes,
        "reference_tensors": [tensor.name for tensor in reference.tensors],
        "candidate_tensors": [tensor.name for tensor in candidate.tensors],
        "notes": [*reference.notes, *candidate.notes],
        "problem": None if row.problem is None else row.problem.what,
    }


_NOT_IN_CSV: Final = ("percentiles", "reference_tensors", "candidate_tensors")
COLUMNS: Final = [
    *("reference_name", "candidate_name", "type", "reference_type", "shape", "count"),
    *(name for name in errors_record(None) if name not in _NOT_IN_CSV),
    *("percentile_50", "percentile_90", "percentile_99", "percentile_99.9"),
    *("saturated_codes", "notes", "problem"),
]
"""Columns of the CSV table."""


def document(
    paths: tuple[str, str], records: list[dict[str, Any]], matching: Matching, total: TotalErrors
) -> dict[str, Any]:
    """Return the whole object of `compare --json`."""
    figures = total.metrics
    return {
        "reference": paths[0],
        "candidate": paths[1],
        "tensors": records,
        "unmatched": {
            "reference": list(matching.unmatched_reference),
            "candidate": list(matching.unmatched_candidate),
        },
        "not_comparable": [
            {name: getattr(pair, name) for name in ("reference_name", "candidate_name", "reason")}
            for pair in matching.not_comparable
        ],
        "total": {
            "rmse": figures.rmse,
            "relative_rmse": figures.relative_rmse,
            "sqnr_db": figures.sqnr_db,
            "bits_per_weight": total.bits_per_weight,
            "count": figures.count,
        },
        "notes": [ABOUT_ERRORS],
    }
