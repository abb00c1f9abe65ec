"""Metrics of all tensors of a model: columns of numbers, and the words for them.

Statistics come from a survey, errors from a comparison with a reference; both grow while they run.
A figure that is not known (yet) is NaN. Of several tensors together (the experts of a layer, or a
tensor that is several in the reference), figures are those of all their weights: squares are added,
not roots.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from explorer.formats.columns import TensorArrays
from explorer.formats.tensors import Tensor
from explorer.present.errors import error_label, error_text
from explorer.present.statistics import (
    STATISTICS,
    Floats,
    outlier_ratio,
    quotients,
    relative_step_error,
    statistic_text,
)
from explorer.text import bytes_text, float_text

if TYPE_CHECKING:
    from explorer.analysis.errors.metrics import ErrorMetrics
    from explorer.analysis.statistics import TensorStatistics


_STATISTICS: Final = ("std", "rms", "kurtosis", "zeros", "finite", "step_error_rms")


class StatisticsColumns:
    """Statistics of each tensor; see `analysis.moments.Moments` for what they mean.

    Attributes:
        known: Whether a tensor was surveyed, bool [n].
        problems: Why a tensor cannot be, by row.
        std: Standard deviation, float64 [n], as are all that follow.
        rms: Root mean square.
        kurtosis: Fourth standardized moment.
        zeros: Number of weights that are 0.
        finite: Number of weights that are neither NaN nor infinite.
        step_error_rms: Rounding error that the block scales imply; NaN if not quantized.
        outlier_ratio, relative_step_error: See the functions of these names.
    """

    def __init__(self, count: int) -> None:
        self.known = np.zeros(count, np.bool_)
        self.problems: dict[int, str] = {}
        self.std, self.rms, self.kurtosis, self.zeros = (_unknown(count) for _ in range(4))
        self.finite, self.step_error_rms = _unknown(count), _unknown(count)
        self.outlier_ratio, self.relative_step_error = _unknown(count), _unknown(count)

    def put(self, row: int, found: TensorStatistics) -> None:
        """Store the statistics of a tensor."""
        for name in _STATISTICS:
            value = getattr(found, name)
            if value is not None:
                getattr(self, name)[row] = value
        self.outlier_ratio[row] = outlier_ratio(found)
        self.relative_step_error[row] = relative_step_error(found)
        self.known[row] = True

    @property
    def zero_share(self) -> Floats:
        """Part of the weights that are 0."""
        return quotients(self.zeros, self.finite)


def parameter_shares(rows: Sequence[int], tensors: Sequence[Tensor]) -> dict[int, float]:
    """Return the share of each tensor in the weights of all, by its row."""
    total = sum(tensor.parameters for tensor in tensors)
    shares = (tensor.parameters / total if total else 0.0 for tensor in tensors)
    return dict(zip(rows, shares, strict=True))


class ErrorColumns:
    """Errors of each tensor, of all pairs that it has a part in.

    Attributes:
        known: Whether errors of a tensor are known, bool [n].
        problems: Why a tensor has none, by row.
        compared: Number of pairs of finite weights, float64 [n], as are all that follow.
        squares: Sum of their squared errors.
        signal: Sum of the reference's squares.
        errors: Sum of the errors.
        max_abs_error: Maximum |error|.
    """

    def __init__(self, count: int) -> None:
        self.known = np.zeros(count, np.bool_)
        self.problems: dict[int, str] = {}
        self.compared, self.squares, self.signal, self.errors = (np.zeros(count) for _ in range(4))
        self.max_abs_error = _unknown(count)

    def put(self, shares: Mapping[int, float], found: ErrorMetrics) -> None:
        """Add the errors of a pair; `shares` are those of the candidate's tensors in it, by row."""
        if not found.compared:
            return
        for row, share in shares.items():
            count = found.compared * share
            self.compared[row] += count
            self.squares[row] += found.rmse**2 * count
            self.signal[row] += found.reference_rms**2 * count
            self.errors[row] += found.mean_error * count
            self.max_abs_error[row] = np.fmax(self.max_abs_error[row], found.max_abs_error)
            self.known[row] = True

    @property
    def rmse(self) -> Floats:
        """Root mean square error."""
        return np.sqrt(quotients(self.squares, self.compared))

    @property
    def relative_rmse(self) -> Floats:
        """RMSE by the RMS of the reference."""
        return np.sqrt(self._noise(self.squares, self.signal))

    @property
    def sqnr_db(self) -> Floats:
        """Signal to quantization noise in dB; inf without error."""
        with np.errstate(divide="ignore"):
            return -10 * np.log10(self._noise(self.squares, self.signal))

    def total_relative_rmse(self, chosen: Sequence[bool]) -> float:
        """Return the relative RMSE of all weights of the chosen tensors; NaN if none is known."""
        mask = np.asarray(chosen, np.bool_) & self.known
        signal = math.fsum(self.signal[mask])
        return math.sqrt(math.fsum(self.squares[mask]) / signal) if signal else math.nan

    @property
    def mean_error(self) -> Floats:
        """Bias."""
        return quotients(self.errors, self.compared)

    def _noise(self, squares: Floats, signal: Floats) -> Floats:
        """Return noise by signal; 0 where neither is, inf where there is noise alone."""
        with np.errstate(divide="ignore", invalid="ignore"):
            found = squares / signal
        found[(squares == 0) & (self.compared > 0)] = 0.0
        found[self.compared == 0] = np.nan
        return found


def _unknown(count: int) -> Floats:
    return np.full(count, np.nan)


class Source(Enum):
    """What has to be read before a figure is known."""

    HEADER = auto()
    STATISTICS = auto()
    ERRORS = auto()


@dataclass(frozen=True)
class Known:
    """All columns of a model."""

    arrays: TensorArrays  # of the header
    statistics: StatisticsColumns  # of the survey
    errors: ErrorColumns | None  # of the comparison; None without a reference

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
    """Tensors that are shown together. A figure of a group without known values is NaN."""

    codes: NDArray[np.int64]  # group of each tensor, int64 [n]
    count: int

    def sums(self, values: Floats) -> Floats:
        """Return the sum of each group, float64 [count]."""
        return np.bincount(self.codes, values, self.count).astype(np.float64)

    def means(self, weights: Floats, values: Floats) -> Floats:
        """Return the weighted mean of the known values of each group, float64 [count]."""
        known = ~np.isnan(values) & (weights > 0)
        part = Groups(self.codes[known], self.count)
        return quotients(part.sums(weights[known] * values[known]), part.sums(weights[known]))

    def maxima(self, values: Floats) -> Floats:
        """Return the maximum of the known values of each group, float64 [count]."""
        found = _unknown(self.count)
        np.fmax.at(found, self.codes, values)
        return found


@dataclass(frozen=True)
class Metric:
    """A figure that tensors are coloured and ranked by, with its words.

    Where a tensor is weighted by its parameters, its burden counts: what it adds to a sum over the
    model. Of errors and deviations that is their square, of a ratio the ratio times the number of
    weights.
    """

    name: str  # stable name, for files
    source: Source  # what has to be read for it
    title: str  # its name for the user
    tip: str
    text: Callable[[float], str]  # the figure as text; never called with NaN
    of_tensors: Callable[[Known], Floats]  # for each tensor, float64 [n]
    # for each group of tensors, float64 [groups]
    of_groups: Callable[[Known, Groups], Floats]
    # what each tensor adds to the sum over the model, float64 [n]
    burden: Callable[[Known], Floats]
    burden_title: str  # name of a tensor's share of that sum
    low_is_worse: bool = False  # whether the minimum is the worst


def _bytes(known: Known) -> Floats:
    return known.arrays.nbytes.astype(np.float64)


def _statistic(name: str) -> Callable[[Known], Floats]:
    return lambda known: getattr(known.statistics, name)


def _step_squares(known: Known) -> Floats:
    return known.statistics.step_error_rms**2 * known.weights


def _squares(known: Known) -> Floats:
    return known.statistics.rms**2 * known.weights


def _error_squares(known: Known) -> Floats:
    errors = known.errors
    if errors is None:
        return _unknown(known.count)
    return np.where(errors.known, errors.squares, np.nan)


def _most(column: Callable[[Known], Floats]) -> Callable[[Known, Groups], Floats]:
    """Return the maximum of each group."""
    return lambda known, groups: groups.maxima(column(known))


def _mean_square(column: Callable[[Known], Floats]) -> Callable[[Known, Groups], Floats]:
    return lambda known, groups: np.sqrt(groups.means(known.weights, column(known) ** 2))


def _ratio(
    above: Callable[[Known], Floats], below: Callable[[Known], Floats]
) -> Callable[[Known, Groups], Floats]:
    """Return the ratio of two sums, over the tensors of which both are known."""

    def values(known: Known, groups: Groups) -> Floats:
        weight = np.where(np.isnan(above(known)), 0.0, below(known))
        return groups.means(np.nan_to_num(weight), quotients(above(known), weight))

    return values


def _error(name: str, tip: str, *, low_is_worse: bool = False) -> Metric:
    """Return the metric of an error, by its column; of a group, that of its sums."""

    def of_tensors(known: Known) -> Floats:
        errors = known.errors
        return _unknown(known.count) if errors is None else getattr(errors, name)

    def of_groups(known: Known, groups: Groups) -> Floats:
        if known.errors is None:
            return _unknown(groups.count)
        together = ErrorColumns(groups.count)
        for column in ("compared", "squares", "signal", "errors"):
            setattr(together, column, groups.sums(getattr(known.errors, column)))
        together.max_abs_error = groups.maxima(known.errors.max_abs_error)
        found: Floats = getattr(together, name)
        return found

    return Metric(
        name,
        Source.ERRORS,
        error_label(name),
        tip,
        partial(error_text, name),
        of_tensors,
        of_groups,
        _error_squares,
        "Share of squared error",
        low_is_worse,
    )


METRICS: Final = (
    Metric(
        "bits_per_weight",
        Source.HEADER,
        "Bits per weight",
        "Stored bits for each weight, scales included.",
        lambda value: float_text(value, 4),
        lambda known: known.arrays.bits_per_weight,
        _ratio(lambda known: 8 * _bytes(known), lambda known: known.weights),
        _bytes,
        "Share of bytes",
    ),
    Metric(
        "bytes",
        Source.HEADER,
        "Size",
        "Stored bytes.",
        lambda value: bytes_text(round(value)),
        _bytes,
        lambda known, groups: groups.sums(_bytes(known)),
        _bytes,
        "Share of bytes",
    ),
    Metric(
        "std",
        Source.STATISTICS,
        "Standard deviation",
        "How far the weights are spread around their mean.",
        lambda value: float_text(value, 3),
        _statistic("std"),
        _mean_square(_statistic("std")),
        lambda known: known.statistics.std**2 * known.weights,
        "Share of variance",
    ),
    Metric(
        "outlier_ratio",
        Source.STATISTICS,
        STATISTICS["outlier_ratio"],
        "Maximum absolute value by the root mean square of all weights: how far the largest "
        "weight stands out. Of several tensors together, the maximum.",
        partial(statistic_text, "outlier_ratio"),
        _statistic("outlier_ratio"),
        _most(_statistic("outlier_ratio")),
        lambda known: known.statistics.outlier_ratio * known.weights,
        "Share, by parameters",
    ),
    Metric(
        "kurtosis",
        Source.STATISTICS,
        "Kurtosis",
        "Fourth standardized moment: 3 for a normal distribution, more where the tails are heavy. "
        "Of several tensors together, the maximum.",
        lambda value: float_text(value, 3),
        _statistic("kurtosis"),
        _most(_statistic("kurtosis")),
        lambda known: known.statistics.kurtosis * known.weights,
        "Share, by parameters",
    ),
    Metric(
        "zero_share",
        Source.STATISTICS,
        "Zeros",
        "Part of the weights that are exactly 0.",
        lambda value: f"{float_text(100 * value, 3)} %",
        _statistic("zero_share"),
        _ratio(_statistic("zeros"), _statistic("finite")),
        _statistic("zeros"),
        "Share of zeros",
    ),
    Metric(
        "step_error",
        Source.STATISTICS,
        STATISTICS["relative_step_error"],
        "Rounding error that the block scales imply (step/√12 for even steps), by the root mean "
        "square of the weights. Needs no reference; only quantized tensors have one.",
        partial(statistic_text, "relative_step_error"),
        _statistic("relative_step_error"),
        lambda known, groups: np.sqrt(_ratio(_step_squares, _squares)(known, groups)),
        _step_squares,
        "Share of squared step error",
    ),
    _error("relative_rmse", "Root mean square error by the root mean square of the reference."),
    _error(
        "sqnr_db",
        "Signal to quantization noise in dB: 6 dB less is twice the error.",
        low_is_worse=True,
    ),
    _error("rmse", "Root mean square error."),
    _error("max_abs_error", "Maximum absolute error of a single weight."),
)
"""All metrics, those of the header first."""


def shares(burden: Floats) -> Floats:
    """Return each tensor's part of the known sum, float64 [n]; NaN is not known."""
    total = float(np.nansum(burden))
    return burden / total if total > 0 and np.isfinite(total) else np.full(len(burden), np.nan)


def metric_named(name: str) -> Metric:
    """Return a metric by its stable name."""
    return next(metric for metric in METRICS if metric.name == name)
