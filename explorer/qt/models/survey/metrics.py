"""What tensors of a model are coloured and ranked by: each figure, and where it is from.

Where a tensor is weighted by its parameters, what counts is what it adds to a sum over the model:
of errors and deviations their squares, of a ratio the ratio times the number of weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from explorer.formats.columns import TensorArrays
from explorer.present.errors import error_text
from explorer.present.statistics import Floats, statistic_text
from explorer.present.survey import (
    ErrorColumns,
    StatisticsColumns,
    greatest,
    grouped,
)
from explorer.qt.models.survey.texts import metric_texts
from explorer.text import bytes_text, float_text


class Source(Enum):
    """What has to be read before a figure is known."""

    HEADER = auto()
    STATISTICS = auto()
    ERRORS = auto()


@dataclass(frozen=True)
class Known:
    """All columns of a model.

    Attributes:
        arrays: What the header says.
        statistics: What the survey says.
        errors: What the comparison says; None without a reference.
    """

    arrays: TensorArrays
    statistics: StatisticsColumns
    errors: ErrorColumns | None

    @property
    def count(self) -> int:
        """Number of tensors."""
        return len(self.arrays)

    @property
    def weights(self) -> Floats:
        """Parameters of each tensor, float64 [n]."""
        return self.arrays.parameters.astype(np.float64)


@dataclass(frozen=True)
class Groups:
    """Tensors that are told of together.

    Attributes:
        codes: Group of each tensor, int64 [n].
        count: Number of groups.
    """

    codes: NDArray[np.int64]
    count: int

    def sums(self, values: Floats) -> Floats:
        """Return the sum of each group, float64 [count]."""
        return np.bincount(self.codes, values, self.count).astype(np.float64)


@dataclass(frozen=True)
class Metric:
    """A figure of tensors.

    Attributes:
        name: Stable name, for files.
        source: What has to be read for it.
        text: The figure as text; never called with NaN.
        of_tensors: Returns it for each tensor, float64 [n].
        of_groups: Returns it for each group of tensors, float64 [groups].
        burden: Returns what each tensor adds to the sum over the model, float64 [n].
        low_is_worse: Whether the least is the worst.
    """

    name: str
    source: Source
    text: Callable[[float], str]
    of_tensors: Callable[[Known], Floats]
    of_groups: Callable[[Known, Groups], Floats]
    burden: Callable[[Known], Floats]
    low_is_worse: bool = False

    @property
    def title(self) -> str:
        """What it is called, in the user's language."""
        return metric_texts(self.name).title

    @property
    def tip(self) -> str:
        """What it means."""
        return metric_texts(self.name).tip

    @property
    def burden_title(self) -> str:
        """What the share of the model's sum is called."""
        return metric_texts(self.name).burden


def _number(value: float) -> str:
    return float_text(value, 3)


def _percent(value: float) -> str:
    return f"{float_text(100 * value, 3)} %"


def _size(value: float) -> str:
    return bytes_text(round(value))


def _bytes(known: Known) -> Floats:
    return known.arrays.nbytes.astype(np.float64)


def _of_errors(column: Callable[[ErrorColumns], Floats]) -> Callable[[Known], Floats]:
    def values(known: Known) -> Floats:
        return np.full(known.count, np.nan) if known.errors is None else column(known.errors)

    return values


def _summed(column: Callable[[ErrorColumns], Floats]) -> Callable[[Known, Groups], Floats]:
    """Return a figure of errors of groups: that of their sums."""

    def values(known: Known, groups: Groups) -> Floats:
        if known.errors is None:
            return np.full(groups.count, np.nan)
        together = ErrorColumns(groups.count)
        for name in ("compared", "squares", "signal", "errors"):
            setattr(together, name, groups.sums(getattr(known.errors, name)))
        return column(together)

    return values


def _most(column: Callable[[Known], Floats]) -> Callable[[Known, Groups], Floats]:
    return lambda known, groups: greatest(groups.codes, groups.count, column(known))


def _mean_square(column: Callable[[Known], Floats]) -> Callable[[Known, Groups], Floats]:
    def values(known: Known, groups: Groups) -> Floats:
        squares = column(known) ** 2
        return np.sqrt(grouped(groups.codes, groups.count, known.weights, squares))

    return values


def _ratio(
    above: Callable[[Known], Floats], below: Callable[[Known], Floats]
) -> Callable[[Known, Groups], Floats]:
    """Return the ratio of two sums, over the tensors of which both are known."""

    def values(known: Known, groups: Groups) -> Floats:
        weight = np.where(np.isnan(above(known)), 0.0, below(known))
        share = np.full(known.count, np.nan)
        np.divide(above(known), weight, out=share, where=weight > 0)
        return grouped(groups.codes, groups.count, np.nan_to_num(weight), share)

    return values


def _std(known: Known) -> Floats:
    return known.statistics.std


def _outliers(known: Known) -> Floats:
    return known.statistics.outlier_ratio


def _kurtosis(known: Known) -> Floats:
    return known.statistics.kurtosis


def _step_squares(known: Known) -> Floats:
    return known.statistics.step_error_rms**2 * known.weights


def _squares(known: Known) -> Floats:
    return known.statistics.rms**2 * known.weights


def _root(values: Callable[[Known, Groups], Floats]) -> Callable[[Known, Groups], Floats]:
    return lambda known, groups: np.sqrt(values(known, groups))


_error_squares: Final = _of_errors(lambda errors: np.where(errors.known, errors.squares, np.nan))

METRICS: Final = (
    Metric(
        "bits_per_weight",
        Source.HEADER,
        lambda value: float_text(value, 4),
        lambda known: known.arrays.bits_per_weight,
        _ratio(lambda known: 8 * _bytes(known), lambda known: known.weights),
        _bytes,
    ),
    Metric(
        "bytes",
        Source.HEADER,
        _size,
        _bytes,
        lambda known, groups: groups.sums(_bytes(known)),
        _bytes,
    ),
    Metric(
        "std",
        Source.STATISTICS,
        _number,
        _std,
        _mean_square(_std),
        lambda known: _std(known) ** 2 * known.weights,
    ),
    Metric(
        "outlier_ratio",
        Source.STATISTICS,
        partial(statistic_text, "outlier_ratio"),
        _outliers,
        _most(_outliers),
        lambda known: _outliers(known) * known.weights,
    ),
    Metric(
        "kurtosis",
        Source.STATISTICS,
        _number,
        _kurtosis,
        _most(_kurtosis),
        lambda known: _kurtosis(known) * known.weights,
    ),
    Metric(
        "zero_share",
        Source.STATISTICS,
        _percent,
        lambda known: known.statistics.zero_share,
        _ratio(lambda known: known.statistics.zeros, lambda known: known.statistics.finite),
        lambda known: known.statistics.zeros,
    ),
    Metric(
        "step_error",
        Source.STATISTICS,
        partial(statistic_text, "relative_step_error"),
        lambda known: known.statistics.relative_step_error,
        _root(_ratio(_step_squares, _squares)),
        _step_squares,
    ),
    Metric(
        "relative_rmse",
        Source.ERRORS,
        partial(error_text, "relative_rmse"),
        _of_errors(lambda errors: errors.relative_rmse),
        _summed(lambda errors: errors.relative_rmse),
        _error_squares,
    ),
    Metric(
        "sqnr_db",
        Source.ERRORS,
        partial(error_text, "sqnr_db"),
        _of_errors(lambda errors: errors.sqnr_db),
        _summed(lambda errors: errors.sqnr_db),
        _error_squares,
        low_is_worse=True,
    ),
    Metric(
        "rmse",
        Source.ERRORS,
        partial(error_text, "rmse"),
        _of_errors(lambda errors: errors.rmse),
        _summed(lambda errors: errors.rmse),
        _error_squares,
    ),
    Metric(
        "max_abs_error",
        Source.ERRORS,
        partial(error_text, "max_abs_error"),
        _of_errors(lambda errors: errors.max_abs_error),
        _most(_of_errors(lambda errors: errors.max_abs_error)),
        _error_squares,
    ),
)
"""All of them, those first that the header tells."""


def shares(burden: Floats) -> Floats:
    """Return what part of the known sum each tensor has, float64 [n]; NaN is not known."""
    total = float(np.nansum(burden))
    return burden / total if total > 0 and np.isfinite(total) else np.full(len(burden), np.nan)


def metric_named(name: str) -> Metric:
    """Return a metric by its stable name."""
    return next(metric for metric in METRICS if metric.name == name)
