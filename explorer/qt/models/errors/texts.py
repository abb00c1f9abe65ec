"""What the figures of errors are called, and what they mean to one who does not know them."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from PySide6.QtCore import QCoreApplication

from explorer.present.errors import error_label
from explorer.present.statistics import statistic_label
from explorer.qt.models.figure_texts import translated
from explorer.text import float_text


class Text(NamedTuple):
    """A figure in words, plain text.

    Attributes:
        title: What it is called.
        tip: What it means.
    """

    title: str
    tip: str


@cache
def error_texts() -> dict[str, Text]:
    """Return the texts of figures of errors, by the figure's stable name."""
    return _size_texts() | _count_texts()


@cache
def implied_texts() -> dict[str, Text]:
    """Return the texts of what blocks imply, by the figure's stable name."""
    return {
        "step_error_rms": Text(
            statistic_label("step_error_rms", translated),
            _tr(
                "What rounding to the nearest level costs if weights are spread evenly: the "
                "distance of levels times the block scale, divided by the root of 12. The true "
                "error needs a reference."
            ),
        ),
        "used_codes": Text(
            _tr("Codes used"), _tr("Levels of the type that at least one weight uses.")
        ),
        "saturated_codes": error_texts()["saturated_codes"],
        "zero_codes": Text(
            _tr("Zero codes"),
            _tr("Weights whose code stands for 0 before a minimum is subtracted."),
        ),
        "weights_per_scale": Text(
            _tr("Weights per scale"),
            _tr("Weights that share a block scale: the fewer, the better a scale fits them."),
        ),
        "scale_count": Text(_tr("Scales"), _tr("Block scales of the tensor.")),
        "scale_min": Text(_tr("Least scale"), _spread()),
        "scale_rms": Text(_tr("RMS of scales"), _spread()),
        "scale_max": Text(_tr("Greatest scale"), _spread()),
        "scale_zeros": Text(
            _tr("Scales of 0"), _tr("Blocks of which nothing but the minimum is left.")
        ),
        "minimum_count": Text(_tr("Minima"), _tr("Numbers that are subtracted from a block.")),
        "minimum_min": Text(_tr("Least minimum"), _spread()),
        "minimum_rms": Text(_tr("RMS of minima"), _spread()),
        "minimum_max": Text(_tr("Greatest minimum"), _spread()),
        "minimum_zeros": Text(_tr("Minima of 0"), _tr("Blocks that reach down to 0.")),
    }


def percentile_text(percent: float) -> Text:
    """Return the text of a percentile of |e|."""
    title = _tr("{p} % of |e| below").format(p=float_text(percent, 6))
    return Text(
        _tr("Median |e|") if percent == 50 else title,
        _tr("So many of the errors, without their signs, are not larger than this."),
    )


def _size_texts() -> dict[str, Text]:
    """Return the texts of how large weights and errors are."""
    return {
        "rmse": Text(
            error_label("rmse", translated),
            _tr(
                "Root mean square error: the usual size of an error. Large errors count more "
                "than small ones."
            ),
        ),
        "relative_rmse": Text(
            error_label("relative_rmse", translated),
            _tr(
                "RMSE divided by the root mean square of the reference, so that tensors of "
                "different sizes can be compared."
            ),
        ),
        "sqnr_db": Text(
            error_label("sqnr_db", translated),
            _tr(
                "Signal to quantization noise ratio: the relative RMSE in decibels. More is "
                "better; 6 dB are one bit."
            ),
        ),
        "max_abs_error": Text(
            error_label("max_abs_error", translated),
            _tr("The largest distance of a weight from its reference."),
        ),
        "mean_abs_error": Text(
            error_label("mean_abs_error", translated),
            _tr("Mean of the errors without their signs."),
        ),
        "mean_error": Text(
            error_label("mean_error", translated),
            _tr(
                "Mean of the errors with their signs: far from 0 if the candidate is too large "
                "or too small on the whole."
            ),
        ),
        "one_minus_cosine": Text(
            error_label("one_minus_cosine", translated),
            _tr(
                "How far reference and candidate point apart as vectors: 0 is the same "
                "direction. It does not see a wrong scale."
            ),
        ),
        "reference_rms": Text(
            _tr("RMS, reference"),
            _tr("Root mean square of the reference's weights: how large they are."),
        ),
        "candidate_rms": Text(
            _tr("RMS, candidate"), _tr("Root mean square of the candidate's weights.")
        ),
    }


def _count_texts() -> dict[str, Text]:
    """Return the texts of how many weights are of some kind."""
    return {
        "count": Text(
            _tr("Weights"),
            _tr(
                "Pairs of a weight and its reference. All are read, none is sampled; the other "
                "figures are of those that are finite."
            ),
        ),
        "equal": Text(_tr("Equal"), _tr("Weights without any error.")),
        "sign_flips": Text(
            _tr("Sign flips"),
            _tr("Weights above 0 whose reference is below 0, or the other way round."),
        ),
        "zeroed": Text(_tr("Zeroed"), _tr("Weights that are 0 and whose reference is not.")),
        "reference_not_finite": Text(_tr("Reference not finite"), _not_finite()),
        "candidate_not_finite": Text(_tr("Candidate not finite"), _not_finite()),
        "saturated_codes": Text(
            _tr("Saturated codes"),
            _tr(
                "Weights with the least or the greatest level of the type, which may have been "
                "farther out. Types whose scale comes from the largest weight of a block have "
                "one in every block."
            ),
        ),
    }


def _not_finite() -> str:
    return _tr("Weights that are NaN or infinite; their pairs are left out of all other figures.")


def _spread() -> str:
    return _tr("One far larger than the root mean square tells of a block with outliers.")


def _tr(text: str) -> str:
    return QCoreApplication.translate("ErrorTable", text)
