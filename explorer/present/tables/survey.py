"""Figures that tensors are ranked and coloured by, and the tables of them and of their sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import numpy as np

from explorer.analysis.columns import MEASURES, Floats, Groups, Known, Source, Summary
from explorer.formats.model import Model
from explorer.present.tables.errors import FIGURES as ERRORS
from explorer.present.tables.errors import WEIGHTED
from explorer.present.tables.statistics import MOMENTS
from explorer.present.tables.table import (
    BITS,
    BYTES,
    COUNT,
    FIGURE,
    INTEGER,
    PART,
    RATIO,
    TEXT,
    TYPE,
    YES_NO,
    Column,
    Kind,
    Table,
    digits,
)
from explorer.text import bytes_text, fixed_text

Figures: TypeAlias = Mapping[str, float]
"""Figures by the names of their metrics; NaN is not known."""


@dataclass(frozen=True)
class Metric:
    """A figure that tensors are coloured and ranked by; see `Measure`.

    Attributes:
        column: What it is called, what it means, and how it is written.
        contribution_title: Name of a tensor's share of the sum over the model.
        low_is_worse: Whether the minimum is the worst.
    """

    column: Column[Figures]
    contribution_title: str
    low_is_worse: bool = False

    @property
    def name(self) -> str:
        """Stable name, for files, of `MEASURES`."""
        return self.column.name

    @property
    def title(self) -> str:
        return self.column.title

    @property
    def tip(self) -> str:
        return self.column.tip

    @property
    def source(self) -> Source:
        return MEASURES[self.name].source

    @property
    def needs_matrix(self) -> bool:
        """Whether errors are weighted by an importance matrix."""
        return self.name in WEIGHTED.names

    @property
    def unit(self) -> float:
        """What a figure is multiplied by where it is shown and typed: 100 of per cent."""
        return 100.0 if self.shown(1.0).endswith("%") else 1.0

    def of_tensors(self, known: Known) -> Floats:
        """Return it for each tensor, float64 [n]."""
        return MEASURES[self.name].of_tensors(known)

    def of_groups(self, known: Known, groups: Groups) -> Floats:
        """Return it for each group of tensors, float64 [groups]."""
        return MEASURES[self.name].of_groups(known, groups)

    def contribution(self, known: Known) -> Floats:
        """Return what each tensor adds to the sum over the model, float64 [n]."""
        return MEASURES[self.name].contribution(known)

    def shown(self, value: float) -> str:
        """Return the figure as text, "" of NaN."""
        return self.column.write(value)

    def tick_text(self, value: float) -> str:
        """Return a round figure of an axis as text, which needs no zeros at the end."""
        mantissa = f"{abs(value):.5e}".partition("e")[0]
        needed = len(mantissa.replace(".", "").rstrip("0")) or 1
        return self.column.kind.write(value, digits=needed)


def _bytes(value: float, digits: int | None = None) -> str:
    return bytes_text(round(value))


def _metric(
    column: Column[Any], contribution_title: str, tip: str = "", *, low_is_worse: bool = False
) -> Metric:
    name = column.name
    made = Column[Figures](
        *(name, column.title, column.kind, tip or column.tip), lambda figures: figures[name]
    )
    return Metric(made, contribution_title, low_is_worse)


_STEP: Final = (
    "Rounding error to expect from the block scales (step/√12 for even steps), divided by the root "
    "mean square of the weights. It needs no reference. Only quantized tensors have one."
)
_FRONT: Final = "No other model is smaller and not worse."
_RANGE: Final = "Maximum minus minimum. For several tensors together: of all their weights."
_OUTLIER: Final = (
    "Maximum absolute value divided by the root mean square of all weights: how far the largest "
    "weight stands out. For several tensors together: the maximum."
)
_KURTOSIS: Final = (
    "Fourth standardized moment: 3 for a normal distribution, more where the tails are heavy. For "
    "several tensors together: the maximum."
)
_SQUARES: Final = "Share of squared error"
_WEIGHTED_SQUARES: Final = "Share of weighted squared error"
_OF_WEIGHTS: Final = "Share, by parameters"
_BITS_TIP: Final = "Stored bits for each weight, scales included."
_ZEROS: Final = "Part of the weights that are exactly 0."

METRICS: Final = (
    _metric(Column("bits_per_weight", "Bits per weight", BITS, _BITS_TIP), "Share of bytes"),
    _metric(Column("bytes", "Size", Kind(_bytes), "Stored bytes."), "Share of bytes"),
    _metric(replace(MOMENTS["std"], kind=digits(3)), "Share of variance"),
    _metric(Column("range", "Range", FIGURE, _RANGE), _OF_WEIGHTS),
    _metric(MOMENTS["outlier_ratio"], _OF_WEIGHTS, _OUTLIER),
    _metric(replace(MOMENTS["kurtosis"], kind=digits(3)), _OF_WEIGHTS, _KURTOSIS),
    _metric(Column("zero_share", "Zeros", RATIO, _ZEROS), "Share of zeros"),
    _metric(
        Column("step_error", "Rounding error per step", RATIO, _STEP),
        "Share of squared rounding error",
    ),
    _metric(ERRORS["relative_rmse"], _SQUARES),
    _metric(ERRORS["sqnr_db"], _SQUARES, low_is_worse=True),
    _metric(ERRORS["rmse"], _SQUARES),
    _metric(ERRORS["max_abs_error"], _SQUARES),
    _metric(WEIGHTED["weighted_relative_rmse"], _WEIGHTED_SQUARES),
    _metric(WEIGHTED["weighted_sqnr_db"], _WEIGHTED_SQUARES, low_is_worse=True),
)
"""All metrics, those of the header first, errors by importance last."""


def metric_named(name: str) -> Metric:
    return next(one for one in METRICS if one.name == name)


# Sums and means of roles, layers and the model.

SummedUp: TypeAlias = "tuple[str, Summary]"
"""Tensors together, with what they are, safe to show."""

OF_SOURCE: Final = {
    Source.STATISTICS: ("range", "std", "outlier_ratio", "kurtosis", "zero_share", "step_error"),
    Source.ERRORS: ("relative_rmse", "sqnr_db", "rmse", "max_abs_error"),
}
"""Figures of the tables of one source, beside those of the header."""

_SHORT: Final = {
    "parameters": "Weights",
    "bits_per_weight": "Bits",
    "std": "Std.",
    "outlier_ratio": "Outliers",
    "step_error": "Rounding",
    "relative_rmse": "Rel. RMSE",
    "max_abs_error": "Max. error",
    "weighted_relative_rmse": "Wtd. RMSE",
    "weighted_sqnr_db": "Wtd. SQNR",
}
"""Titles of figures where all stand side by side."""

_SAID_BY_RMSE: Final = "weighted_sqnr_db"  # in other words; there is no room for both

_SUMMED: Final = "The tensors whose weights are taken together: all, a role, or a layer."

COUNTS: Final = Table[Summary](
    Column("tensors", "Tensors", INTEGER, "Number of tensors that are taken together."),
    Column("parameters", "Parameters", COUNT, "Number of their weights."),
    Column("bytes", "Size", BYTES, "Their stored bytes.", lambda one: one.nbytes),
    title="Sums",
)


def sums_of(*names: str, sparse: bool = False) -> list[Column[Summary]]:
    """Return the columns of sums and means, with these figures."""
    figures = [
        metric_named(name).column.at(_figures, sparse=sparse)
        for name in ("bits_per_weight", *names)
    ]
    return [*COUNTS, *figures]


def _figures(summary: Summary) -> Figures:
    return summary.figures


def _summary(line: SummedUp) -> Summary:
    return line[1]


def sums_table(source: Source | None, *more: str) -> Table[SummedUp]:
    """Return the table of sums and means, of the figures of one source; of None all that are known.

    Args:
        more: Names of further metrics, which stand behind the first figure.
    """
    first, *others = OF_SOURCE[source or Source.ERRORS]
    if source is None:
        more, others = tuple(WEIGHTED.names), [*others, *OF_SOURCE[Source.STATISTICS]]
    columns = sums_of(first, *more, *others, sparse=source is None)
    if source is None:
        columns = [
            replace(one, title=_SHORT.get(one.name, one.title), extra=one.name == _SAID_BY_RMSE)
            for one in columns
        ]
    return Table(
        Column("summed", "Summed up", TEXT, _SUMMED, lambda line: line[0]),
        *Table(*columns).at(_summary),
        title="Sums and means",
    )


def sums_record_table(source: Source, of: str = "", *more: str) -> Table[Summary]:
    """Return what JSON says of sums and means: of a ``"role"``, a ``"layer"``, or all.

    Args:
        more: Names of further metrics.
    """
    stack = Column[Summary]("stack", "Stack", of=lambda one: one.stack or None)
    named = (Column[Summary](of, of.capitalize()), stack) if of else ()
    return Table(*named, *sums_of(*OF_SOURCE[source], *more))


# The worst tensors.

SHARE: Final = "share"
"""Name of the column of a tensor's share of the model's sum."""

PERCENTILE: Final = "role_percentile"
"""Name of the column of a tensor's place among those of its role."""

EXTREMES: Final = ("min", "max", "rms")
"""Figures beside the metrics, by which nothing is ranked."""

_SHARE_TIP: Final = "What this tensor adds to the sum over all tensors: size counts."
_PLACE_TIP: Final = "Part of the other tensors of its role that are not worse: 100 % is the worst."
_WHY_TIP: Final = "Why there are no figures of the tensor."


def figure_column(column: Column[Any], known: Floats) -> Column[int]:
    """Return a column of tensors by their numbers, with bars; NaN is not known."""
    top = float(np.abs(known[np.isfinite(known)]).max(initial=0.0))

    def of(row: int) -> float | None:
        value = float(known[row])
        return None if math.isnan(value) else value

    def bar(row: int) -> float | None:
        value = of(row)
        return None if value is None or not top else min(1.0, abs(value) / top)

    return replace(column, of=of, text=None, bar=bar, keys=lambda: known)


def worst_tensors(
    tensors: Table[int],
    metric: Metric,
    metrics: Sequence[Metric],
    values: Mapping[str, Floats],
    reason: Callable[[int], str],
) -> Table[int]:
    """Return the table of tensors by what is known of them; its rows are their numbers.

    Args:
        tensors: What is said of a tensor first; its name is called as on the command line.
        metric: What they are ranked by.
        metrics: What is shown.
        values: Figures of all tensors, float64 [n], by names of columns; NaN is not known.
        reason: Returns why a tensor has no figures, "" if it has.
    """

    def figure(column: Column[Any]) -> Column[int]:
        return figure_column(column, values[column.name])

    name, *others = tensors
    return Table(
        replace(name, name="tensor", title="Tensor"),
        *others,
        figure(Column(SHARE, metric.contribution_title, PART, _SHARE_TIP)),
        figure(Column(PERCENTILE, "Percentile in role", RATIO, _PLACE_TIP)),
        *(figure(one.column) for one in metrics),
        *(figure(MOMENTS[name]) for name in EXTREMES),
        Column("problem", "Problem", TEXT, _WHY_TIP, lambda row: reason(row) or None, sparse=True),
        title="Tensors and their weights",
    )


_RATIO: Final = Kind(lambda value: f"{fixed_text(value, 2)} ×")


def ranked_table(name: str) -> Table[Any]:
    """Return the table of the first tensors by a metric; its rows are a report's `Ranked`."""
    column = metric_named(name).column
    return Table(
        Column("tensor", "Tensor", TEXT, "Its name.", lambda one: one.found.tensor.name),
        Column("type", "Type", TYPE, "How it is stored.", lambda one: one.found.tensor.type.name),
        Column(name, column.title, column.kind, column.tip, lambda one: one.value),
        Column(
            *("place", "Place in its role", INTEGER, "1 is the worst."),
            text=lambda one: f"{one.place} of {one.peers}",
        ),
        Column("to_median", "Of the role's median", _RATIO, "The figure by that of its role."),
        Column(
            *("parameters", "Weights", COUNT, "How many weights it has."),
            lambda one: one.found.tensor.parameters,
        ),
        title=column.title,
    )


def map_table(
    layers: Sequence[int], values: Mapping[tuple[str, int], float], write: Callable[[float], str]
) -> Table[str]:
    """Return the data of a map of the model: a row for each role, a column for each layer."""

    def layer(number: int) -> Column[str]:
        tip = f"The figure of layer {number}."
        title = f"layer {number}"
        return Column(
            *(f"layer_{number}", title, Kind(write), tip), lambda role: values.get((role, number))
        )

    role = Column[str]("role", "role", TEXT, "What the tensors do in their layers.", str)
    return Table(role, *map(layer, layers), title="Data of the map")


# All models of a folder.


@dataclass(frozen=True, slots=True)
class FolderRow:
    """A model of a folder, with figures of all its matrices together.

    Attributes:
        model: Its name.
        path: Where it is.
        type: What most of its weights are stored as.
        size: Whose sizes they are; None of what cannot be opened.
        figures: Figures by the names of their metrics; empty of what cannot be read.
        on_front: Whether no other model is smaller and not worse.
        problem: Why it, or some of its weights, cannot be read, or None.
    """

    model: str
    path: str
    type: str = ""
    size: Model | None = None
    figures: Figures = field(default_factory=dict)
    on_front: bool = False
    problem: str | None = None

    @property
    def nbytes(self) -> int | None:
        """Stored bytes of all its tensors."""
        return None if self.size is None else self.size.nbytes


def _figures_of(row: FolderRow) -> Figures | None:
    return row.figures or None


def folder_table(source: Source, *more: str) -> Table[FolderRow]:
    """Return the table of all models of a folder, with the figures of one source.

    Args:
        more: Names of further metrics.
    """

    def figure(name: str) -> Column[FolderRow]:
        return metric_named(name).column.at(_figures_of)

    front = Column[FolderRow]("on_front", "Best trade-off", YES_NO, _FRONT)
    return Table(
        Column("model", "Model", TEXT, "Its name."),
        Column("path", "Path", TEXT, "Where it is.", extra=True),
        Column("type", "Type", TYPE, "What most of its weights are stored as."),
        Column("bytes", "Size", BYTES, "Stored bytes of its tensors.", lambda row: row.nbytes),
        Column(
            *("bits_per_weight", "Bits/weight", BITS, "Stored bits for each weight."),
            lambda row: None if row.size is None else row.size.bits_per_weight,
        ),
        *(figure(name) for name in (*OF_SOURCE[source], *more)),
        *([front] if source is Source.ERRORS else []),
        Column("problem", "Problem", TEXT, "Why it cannot be read.", extra=True),
        title="Models of the folder",
        problem=lambda row: row.problem or "",
    )
