"""Tables of statistics: of the weights of a tensor, and of all tensors of a model."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final, Protocol

from explorer.analysis.columns import outlier_ratio
from explorer.analysis.histogram import Histogram
from explorer.analysis.moments import PERCENTS, Moments
from explorer.analysis.statistics import TensorStatistics
from explorer.formats.tensors import Tensor
from explorer.present.tables.errors import FIGURES as ERRORS
from explorer.present.tables.errors import ROUNDING, WEIGHTED
from explorer.present.tables.table import (
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
from explorer.text import digits_text, scale_writer

_EXACT: Final = partial(digits_text, digits=7)  # of a float32, all that are sure

WEIGHT: Final = Kind(partial(digits_text, digits=5), exact=_EXACT)
OF_ANY_SIZE: Final = Kind(
    partial(digits_text, digits=5, scientific=True),
    exact=partial(digits_text, digits=7, scientific=True),
)
"""Figures that differ by powers of ten from row to row."""


def _times(value: float, digits: int = 3) -> str:
    return f"{digits_text(value, digits)} ×"


TIMES: Final = Kind(_times)
"""A multiple of something."""

_NEGATIVE: Final = "\N{MINUS SIGN}inf"
_DEVIATION: Final = "Root mean square distance of the values from their mean."
_ROOT: Final = "The root of the mean of the squares: the usual size of a value."
_KURTOSIS: Final = (
    "Fourth standardized moment: 3 for a normal distribution, more with heavy tails. They are hard "
    "to quantize, because the largest weight of a block determines its scale."
)
_SKEWNESS: Final = "Third standardized moment: 0 if symmetric, above 0 with a longer right tail."
_FINITE: Final = "Values that are neither NaN nor infinite. The figures below are of these."
_OUTLIER: Final = "Maximum magnitude divided by the root mean square."
_NO_MINUS: Final = "Values of minus infinity. A healthy model has none."

MOMENTS: Final = Table[Moments](
    Column("count", "Count", INTEGER, "All values. Nothing is sampled."),
    Column("finite", "Finite", INTEGER, _FINITE),
    Column("nan", "NaN", INTEGER, "NaN values. A healthy model has none."),
    Column("positive_inf", "+inf", INTEGER, "Infinite values. A healthy model has none."),
    Column("negative_inf", _NEGATIVE, INTEGER, _NO_MINUS),
    Column("zeros", "Zeros", INTEGER, "Values that are exactly 0, or minus 0."),
    Column("min", "Minimum", WEIGHT, "The smallest value."),
    Column("max", "Maximum", WEIGHT, "The largest value."),
    Column("mean", "Mean", OF_ANY_SIZE, "The sum of the values divided by their count."),
    Column("std", "Standard deviation", WEIGHT, _DEVIATION),
    Column("rms", "Root mean square", WEIGHT, _ROOT),
    Column("abs_max", "Maximum magnitude", WEIGHT, "The value farthest from 0, without its sign."),
    Column("outlier_ratio", "Outlier ratio", TIMES, _OUTLIER, outlier_ratio),
    Column("skewness", "Skewness", WEIGHT, _SKEWNESS),
    Column("kurtosis", "Kurtosis", WEIGHT, _KURTOSIS),
    title="Statistics",
)
"""Statistics of numbers of any kind."""

_SHARE: Final = "This share of the weights is not larger. From a histogram of at least 65,536 bins."


def _percentile(percent: float) -> Column[TensorStatistics]:
    title = "Median" if percent == 50 else f"Percentile {{{percent:g}}} %"
    of = lambda found: found.percentiles[percent]  # noqa: E731 - a function of one expression
    return Column(f"percentile_{percent:g}", title, WEIGHT, _SHARE, of, flat_only=True)


PERCENTILES: Final = Table[TensorStatistics](*map(_percentile, PERCENTS), title="Percentiles")

STATISTICS: Final = Table[TensorStatistics](
    *MOMENTS,
    Column("not_finite", "Not finite", INTEGER, "NaN and infinities.", lambda s: s.nan + s.inf),
    Column("inf", "Infinite", INTEGER, "Infinities of both signs."),
    Column(
        *("step_error_rms", ROUNDING["step_error_rms"].title, OF_ANY_SIZE),
        ROUNDING["step_error_rms"].tip,
        sparse=True,
    ),
    *PERCENTILES,
    title="Statistics",
)
"""All statistics of a tensor; other tables choose among them."""


class Surveyed(Protocol):
    """A tensor, and what reading its weights gave.

    Attributes:
        tensor: The tensor.
        statistics: Of its weights; None if they were not or cannot be read.
        problem: Why they cannot; "" if they can.
    """

    @property
    def tensor(self) -> Tensor: ...
    @property
    def statistics(self) -> TensorStatistics | None: ...
    @property
    def problem(self) -> str: ...


class Compared(Surveyed, Protocol):
    """The same with errors against a reference by name; none if it was not compared."""

    @property
    def errors(self) -> Mapping[str, float]: ...


def _percentiles(row: Surveyed) -> dict[str, float | None]:
    found = row.statistics
    return {f"{p:g}": None if found is None else found.percentiles[p] for p in PERCENTS}


_NAME: Final = "The tensor's name in the file."
_TYPE: Final = "How its weights are stored."
_SHAPE: Final = "Lengths of its dimensions, rows first."
_SUBJECT: Final = (
    Column[Surveyed]("tensor", "Tensor", TEXT, _NAME, lambda row: row.tensor.name),
    Column[Surveyed]("type", "Type", TYPE, _TYPE, lambda row: row.tensor.type.name),
    Column[Surveyed]("shape", "Shape", SHAPE, _SHAPE, lambda row: list(row.tensor.shape)),
)
_WHY: Final = Column[Surveyed](
    *("problem", "Problem", TEXT, "Why it cannot be read."), lambda row: row.problem or None
)


def _read(row: Surveyed) -> TensorStatistics | None:
    return row.statistics


_STEP: Final = STATISTICS["step_error_rms"].at(_read, sparse=False)

SURVEYED: Final = Table[Surveyed](
    *_SUBJECT,
    Column("count", "Count", INTEGER, MOMENTS["count"].tip, lambda row: row.tensor.parameters),
    *STATISTICS.at(_read, "finite", "nan", "inf", "zeros", "min", "max", "mean", "std", "rms"),
    *STATISTICS.at(_read, "abs_max", "skewness", "kurtosis"),
    Column("percentiles", "Percentiles", LIST, of=_percentiles, json_only=True),
    *PERCENTILES.at(_read),
    _STEP,
    _WHY,
    title="Statistics of all tensors",
)
"""What files and JSON have of a tensor."""

PRINTED: Final = Table[Surveyed](
    *_SUBJECT,
    *STATISTICS.at(_read, "zeros", "not_finite", "min", "max", "mean", "std", "rms"),
    *STATISTICS.at(_read, "outlier_ratio", "kurtosis"),
    _STEP,
    title="Statistics of all tensors",
    problem=lambda row: row.problem,
)
"""What a terminal has of a tensor."""

REPORT_ERRORS: Final = ("relative_rmse", "sqnr_db", *WEIGHTED.names)
"""Names of the errors in a report; those by importance are there with a matrix only."""


def _error(name: str) -> Column[Compared]:
    column = WEIGHTED[name] if name in WEIGHTED.names else ERRORS[name]
    of = lambda row: row.errors.get(name)  # noqa: E731 - a function of one expression
    sparse = name in WEIGHTED.names
    return Column(name, column.title, column.kind, column.tip, of, sparse=sparse)


def figures_of_all(*, compared: bool) -> Table[Compared]:
    """Return what a report has of each tensor."""
    return Table(
        *_SUBJECT,
        *STATISTICS.at(_read, "min", "max", "mean", "std", "rms", "outlier_ratio"),
        _STEP,
        *(map(_error, REPORT_ERRORS) if compared else ()),
        title="All figures",
    )


REPORTED: Final = Table[Compared](
    *SURVEYED.without("problem"),
    Column("bytes", "Size", BYTES, "Stored bytes.", lambda row: row.tensor.nbytes),
    *map(_error, REPORT_ERRORS),
    _WHY,
    title="Statistics of all tensors",
)
"""What the files beside a report have of each tensor."""


def bin_table(histogram: Histogram) -> Table[int]:
    """Return the table of a histogram's bins, its rows their places."""
    edges = histogram.edges.tolist()
    value = Kind(scale_writer(edges[1] - edges[0], max(abs(edges[0]), abs(edges[-1]))))
    return Table(
        Column("from", "from", value, "The least weight of the bin.", edges.__getitem__),
        Column("to", "to", value, "The weight where the bin ends.", edges[1:].__getitem__),
        Column(
            *("weights", "weights", INTEGER, "Weights of the bin."),
            histogram.counts.tolist().__getitem__,
        ),
        title="Bins of the histogram",
    )
