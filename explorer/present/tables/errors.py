"""Tables of errors: of weights against a reference, of a tensor in other types, of rounding."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any, Final, Protocol

from explorer.analysis.errors.compare import ExpectedRounding
from explorer.analysis.errors.metrics import ERROR_PERCENTS, ErrorMetrics, WeightedErrors
from explorer.analysis.errors.pairs import PairErrors
from explorer.analysis.errors.pictures import ErrorPicture
from explorer.analysis.matching.pairing import Mismatch
from explorer.analysis.moments import Moments
from explorer.analysis.requantization import Requantized
from explorer.analysis.surveys import PairRow
from explorer.present.tables.table import (
    BITS,
    BYTES,
    INTEGER,
    LIST,
    SHAPE,
    TEXT,
    TYPE,
    Column,
    Kind,
    Table,
)
from explorer.text import digits_text, fixed_text, integer_text, percent_text

_RMSE: Final = (
    "Root mean square error: the usual size of an error. Large errors count more than small ones."
)
_RELATIVE: Final = (
    "RMSE divided by the root mean square of the reference, so that tensors of different sizes can "
    "be compared."
)
_SQNR: Final = (
    "Signal to quantization noise ratio: the relative RMSE in decibels. More is better. 6 dB are "
    "one bit."
)
_MOST: Final = "The largest distance of a weight from its reference."
_BIAS: Final = (
    "Mean of the errors with their signs: far from 0 if the candidate is too large or too small on "
    "the whole."
)
_ANGLE: Final = (
    "The angle between reference and candidate as vectors: 0 is the same direction. It does not "
    "see a wrong scale."
)
_RMS: Final = "Root mean square of the reference's weights: how large they are."
_NOT_FINITE: Final = (
    "Weights that are NaN or infinite. Their pairs are left out of all other figures."
)
_FLIPS: Final = "Weights above 0 whose reference is below 0, or the other way round."
_COUNT: Final = (
    "Pairs of a weight and its reference. All are read, none is sampled. The other figures are of "
    "those that are finite."
)
_SATURATED: Final = (
    "Weights with the lowest or the highest level of the type, which may have been farther out. "
    "Types whose scale comes from the largest weight of a block have one in every block."
)


def _error_text(value: float, digits: int = 5) -> str:
    return digits_text(value, digits, scientific=True)


def _decibels(value: float, digits: int | None = None) -> str:
    if value == math.inf:
        return "no error"
    # a decibel is as much anywhere: as many places, not digits
    return f"{digits_text(value, digits) if digits else fixed_text(value, 2)} dB"


ERROR: Final = Kind(_error_text)
"""Errors of weights, which are of any size: 1.6102e-03."""
DECIBELS: Final = Kind(_decibels)
RELATIVE: Final = Kind(partial(percent_text, digits=4))
"""An error by what it is an error of, in per cent."""


def _counted(name: str, title: str, tip: str) -> Column[ErrorMetrics]:
    """Return a number of weights, with its share in words."""

    def text(found: ErrorMetrics) -> str:
        count = getattr(found, name)
        share = percent_text(count / found.compared if found.compared else 0.0)
        return f"{integer_text(count)} ({share})"

    return Column(name, title, INTEGER, tip, text=text, extra=True)


def _not_finite(side: str) -> Column[ErrorMetrics]:
    name, title = f"{side}_not_finite", f"{side.capitalize()} not finite"

    def text(found: ErrorMetrics) -> str:
        return INTEGER.write(count) if (count := getattr(found, name)) else ""

    return Column(name, title, INTEGER, _NOT_FINITE, text=text, extra=True, sparse=True)


def _percentile(percent: float) -> Column[ErrorMetrics]:
    title = "Median |e|" if percent == 50 else f"{{{percent:g}}} % of |e| below"
    tip = "So many of the errors, without their signs, are not larger than this."
    of = lambda found: found.percentiles[percent]  # noqa: E731 - a function of one expression
    return Column(f"percentile_{percent:g}", title, ERROR, tip, of, extra=True, flat_only=True)


FIGURES: Final = Table[ErrorMetrics](
    Column("rmse", "RMSE", ERROR, _RMSE),
    Column("relative_rmse", "Relative RMSE", RELATIVE, _RELATIVE),
    Column("max_abs_error", "Maximum error", ERROR, _MOST),
    Column("mean_error", "Bias", ERROR, _BIAS),
    Column("sqnr_db", "SQNR", DECIBELS, _SQNR),
    Column("cosine", "Cosine", ERROR, extra=True),
    Column("one_minus_cosine", "1 - cosine", ERROR, _ANGLE),
    Column("mean_abs_error", "Mean |e|", ERROR, "Mean of the errors without signs.", extra=True),
    Column("reference_rms", "RMS, reference", ERROR, _RMS, extra=True),
    Column(
        *("candidate_rms", "RMS, candidate", ERROR),
        "Root mean square of the candidate's weights.",
        extra=True,
    ),
    Column("compared", "Finite pairs", INTEGER, extra=True),
    _not_finite("reference"),
    _not_finite("candidate"),
    _counted("equal", "Equal", "Weights without any error."),
    _counted("sign_flips", "Sign flips", _FLIPS),
    _counted("zeroed", "Zeroed", "Weights that are 0 and whose reference is not."),
    Column(
        *("percentiles", "Percentiles", LIST),
        of=lambda found: {f"{percent:g}": value for percent, value in found.percentiles.items()},
        json_only=True,
    ),
    *map(_percentile, ERROR_PERCENTS),
    title="Errors",
)
"""Figures of how large the errors are; those of other tables are at the rows that have them."""

SATURATION: Final = Column[Any](
    *("saturated_codes", "Saturated codes", RELATIVE, _SATURATED), extra=True
)


_WEIGHTED: Final = (
    "Each squared error counts by the importance of its column, as llama-quantize weighs it. Only "
    "tensors that the importance matrix has."
)


WEIGHTED: Final = Table[WeightedErrors](
    *(
        Column[WeightedErrors](
            *(f"weighted_{name}", f"Weighted {title}", FIGURES[name].kind, _WEIGHTED),
            attrgetter(name),
        )
        for name, title in (("relative_rmse", "relative RMSE"), ("sqnr_db", "SQNR"))
    ),
    title="Errors by importance",
)
"""Errors by importance, beside the plain ones where a matrix is given."""


class _Errors(Protocol):
    """Errors, plain and by importance."""

    @property
    def metrics(self) -> ErrorMetrics: ...
    @property
    def weighted(self) -> WeightedErrors | None: ...


class WithErrors(Protocol):
    """A row with errors; None of what was not compared."""

    @property
    def errors(self) -> _Errors | None: ...


def errors_of(row: WithErrors) -> ErrorMetrics | None:
    return None if row.errors is None else row.errors.metrics


def weighted_of(row: WithErrors) -> WeightedErrors | None:
    return None if row.errors is None else row.errors.weighted


def _of_picture(found: ErrorPicture) -> ErrorMetrics:
    return found.metrics


PICTURED: Final = Table[ErrorPicture](
    *FIGURES.without("cosine", "compared", "percentiles").at(_of_picture, extra=False),
    Column("count", "Weights", INTEGER, _COUNT, lambda found: found.metrics.count),
    replace(SATURATION, extra=False, sparse=True),
    *(replace(column, sparse=True) for column in WEIGHTED.at(weighted_of)),
    title="Errors of a tensor",
)
"""What is said of one tensor; of one that is still being read, of the weights so far."""

_SAID: Final = "What had to be undone of what a converter did."


def _tensors(side: str) -> Column[PairRow]:
    def of(row: PairRow) -> list[str]:
        return [tensor.name for tensor in getattr(row.pair, side).tensors]

    return Column(f"{side}_tensors", f"Tensors of the {side}", LIST, of=of, json_only=True)


def _requantized(row: Requantized) -> ErrorMetrics | None:
    return row.errors


def _kept(row: PairRow) -> PairErrors | None:
    return row.errors


COMPARED: Final = Table[PairRow](
    Column("reference_name", "Reference", of=lambda row: row.pair.reference_name, extra=True),
    Column(
        *("candidate_name", "Candidate", TEXT, "The tensor that is compared."),
        lambda row: row.pair.candidate_name,
    ),
    Column("type", "Type", TYPE, "How it is stored.", lambda row: row.pair.candidate_type),
    Column(
        *("reference_type", "Type of the reference", TYPE),
        of=lambda row: row.pair.reference_type,
        extra=True,
    ),
    Column(
        *("shape", "Shape", SHAPE, "Lengths of its dimensions, rows first."),
        lambda row: list(row.pair.candidate.shape),
    ),
    Column("count", "Weights", INTEGER, _COUNT, lambda row: row.pair.parameters, extra=True),
    *FIGURES.at(errors_of),
    replace(SATURATION, of=lambda found: found.saturated).at(_kept),
    _tensors("reference"),
    _tensors("candidate"),
    Column("notes", "Notes", LIST, _SAID, lambda row: [*row.pair.notes], extra=True),
    Column("problem", "Problem", of=lambda row: row.error and row.error.what, extra=True),
    title="Errors of tensors",
    problem=lambda row: "" if row.error is None else row.error.what,
)


def compared_table(*, weighted: bool) -> Table[PairRow]:
    """Return `COMPARED`; with the errors by importance where a matrix is given."""
    more = WEIGHTED.at(weighted_of) if weighted else []
    return COMPARED.with_columns([*COMPARED, *more])


REQUANTIZED: Final = Table[Requantized](
    Column("type", "Type", TYPE, "The type that the tensor is rounded to."),
    Column("bytes", "Size", BYTES, "Bytes that it would take.", lambda row: row.nbytes),
    Column("bits_per_weight", "Bits/weight", BITS, "Bits for each weight, scales included."),
    *FIGURES.at(_requantized),
    SATURATION,
    Column("problem", "Problem", extra=True),
    title="A tensor in other types",
    problem=lambda row: row.problem or "",
)

MISMATCHES: Final = Table[Mismatch](
    Column("reference_name", "Reference", TEXT, "The tensor of the reference."),
    Column("candidate_name", "Candidate", TEXT, "The tensor that would be compared."),
    Column("reason", "Why not", TEXT, "Why the two are not compared."),
    title="Not comparable",
)


# The rounding error that the blocks of a tensor imply, without a reference.

_STEP: Final = (
    "Expected error of rounding to the nearest level if weights are spread evenly: the distance of "
    "levels times the block scale, divided by the root of 12. The true error needs a reference."
)
_SHARING: Final = "Weights that share a block scale: the fewer, the better a scale fits them."
_SPREAD: Final = "One far larger than the root mean square: a block with outliers."
_ZERO_CODES: Final = "Weights whose code stands for 0 before a minimum is subtracted."


def _moments(
    prefix: str, one: str, many: str, of: Callable[[ExpectedRounding], Moments | None], zeros: str
) -> list[Column[ExpectedRounding]]:
    """Return what is said of the scales, or of the minima, of the blocks."""
    counted = "Block scales of the tensor."
    if prefix == "minimum":
        counted = "Numbers that are subtracted from a block."
    columns = [
        Column[Moments]("count", many, INTEGER, counted),
        Column("min", f"Smallest {one}", ERROR, _SPREAD),
        Column("max", f"Largest {one}", ERROR, _SPREAD),
        Column("rms", f"RMS of {many.lower()}", ERROR, _SPREAD),
        Column("zeros", f"{many} of 0", INTEGER, zeros),
    ]
    return [column.at(of, name=f"{prefix}_{column.name}", sparse=True) for column in columns]


ROUNDING: Final = Table[ExpectedRounding](
    Column("step_error_rms", "Rounding error, RMS", ERROR, _STEP, lambda found: found.rms),
    Column(
        *("used_codes", "Codes used", INTEGER, "Levels of the type that at least one weight uses."),
        text=lambda found: f"{found.used_codes} of {found.codes}",
    ),
    replace(SATURATION, of=lambda found: found.saturated, extra=False),
    Column("zero_codes", "Zero codes", RELATIVE, _ZERO_CODES, lambda found: found.zeros),
    Column("weights_per_scale", "Weights per scale", INTEGER, _SHARING),
    *_moments(
        *("scale", "scale", "Scales", lambda found: found.scales),
        "Blocks that keep nothing but their minimum.",
    ),
    *_moments(
        *("minimum", "minimum", "Minima", lambda found: found.minima),
        "Blocks that reach down to 0.",
    ),
    title="Rounding to expect",
)
