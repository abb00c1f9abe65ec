"""Figures of all tensors of a model as columns, and those of tensors together.

Statistics come from a survey, errors from a comparison with a reference; both grow while they run.
A figure that is not known (yet) is NaN. Of several tensors together (the experts of a layer, a
role, a layer, the model), figures are those of all their weights: squares are added, not roots.
What has no such sum (outlier ratio, kurtosis) is a mean, weighted by parameters, or the maximum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from explorer.analysis.model_grid import Kind, ModelGrid, model_grid
from explorer.formats.columns import SizeArrays, size_arrays
from explorer.formats.model import Model
from explorer.formats.tensors import Tensor, TensorColumns, is_matrix_shape, parse_name
from explorer.text import AtLeast

if TYPE_CHECKING:
    from explorer.analysis.errors.metrics import ErrorMetrics, WeightedErrors
    from explorer.analysis.moments import Moments
    from explorer.analysis.statistics import TensorStatistics


Floats = NDArray[np.float64]


def outlier_ratio(found: Moments) -> float:
    """Return the greatest |weight| by the root mean square; NaN if there is none."""
    return quotient(found.abs_max, found.rms)


def relative_step_error(found: TensorStatistics) -> float:
    """Return the rounding error that the block scales imply, by the RMS; NaN if not known."""
    step = found.step_error_rms
    return math.nan if step is None else quotient(step, found.rms)


def quotient(dividend: float, divisor: float) -> float:
    """Return a quotient; NaN if the divisor is not above 0."""
    return dividend / divisor if divisor > 0 else math.nan


def quotients(dividends: Any, divisors: Any) -> Floats:
    """Return quotients, float64 [n]; NaN where the divisor is not above 0 or is not known."""
    out = np.full(len(dividends), np.nan)
    np.divide(dividends, divisors, out=out, where=divisors > 0)
    return out


_STATISTICS: Final = (
    *("min", "max", "std", "rms", "kurtosis", "zeros", "finite", "step_error_rms"),
)


class StatisticsColumns:
    """Statistics of each tensor; see `analysis.moments.Moments` for what they mean.

    Attributes:
        known: Whether a tensor was surveyed, bool [n].
        problems: Why a tensor cannot be, by row.
        min, max: The smallest and the largest weight, float64 [n], as are all that follow.
        std: Standard deviation.
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
        self.min, self.max, self.std, self.rms = (_unknown(count) for _ in range(4))
        self.kurtosis, self.zeros, self.finite = (_unknown(count) for _ in range(3))
        self.step_error_rms = _unknown(count)
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

    @property
    def range(self) -> Floats:
        """Maximum minus minimum."""
        return self.max - self.min


def parameter_shares(rows: Sequence[int], tensors: Sequence[Tensor]) -> dict[int, float]:
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
        weighted_squares: Sum of the squared errors by importance; 0 where no matrix has a tensor.
        weighted_signal: Sum of the reference's squares by importance.
        max_abs_error: Maximum |error|.
    """

    def __init__(self, count: int) -> None:
        self.known = np.zeros(count, np.bool_)
        self.problems: dict[int, str] = {}
        self.compared, self.squares, self.signal, self.errors = (np.zeros(count) for _ in range(4))
        self.weighted_squares, self.weighted_signal = np.zeros(count), np.zeros(count)
        self.max_abs_error = _unknown(count)

    def put(
        self,
        shares: Mapping[int, float],
        found: ErrorMetrics | None,
        weighted: WeightedErrors | None = None,
    ) -> None:
        """Add the errors of a pair; `shares` are those of the candidate's tensors in it, by row.

        The plain ones are None where they were added before.
        """
        if weighted is not None:
            for row, share in shares.items():
                self.weighted_squares[row] += weighted.squares * share
                self.weighted_signal[row] += weighted.signal * share
        if found is None or not found.compared:
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
        return np.sqrt(self._noise(self.squares, self.signal))

    @property
    def sqnr_db(self) -> Floats:
        """Signal to quantization noise in dB; inf without error."""
        with np.errstate(divide="ignore"):
            return -10 * np.log10(self._noise(self.squares, self.signal))

    @property
    def weighted_relative_rmse(self) -> Floats:
        """RMSE by the RMS of the reference, weighted by importance; NaN where that is not known."""
        return np.sqrt(quotients(self.weighted_squares, self.weighted_signal))

    @property
    def weighted_sqnr_db(self) -> Floats:
        """Signal to quantization noise in dB, weighted likewise."""
        with np.errstate(divide="ignore"):
            return -20 * np.log10(self.weighted_relative_rmse)

    @property
    def mean_error(self) -> Floats:
        return quotients(self.errors, self.compared)

    def together(self, codes: NDArray[np.int64], count: int) -> ErrorColumns:
        """Return the errors of groups, as if the weights of each were those of one tensor.

        Args:
            codes: Group of each tensor, int64 [n].
            count: Number of groups.
        """
        groups, found = Groups(codes, count), ErrorColumns(count)
        for column in _ADDED:
            setattr(found, column, groups.sums(getattr(self, column)))
        found.max_abs_error = groups.maxima(self.max_abs_error)
        found.known = groups.sums(self.known.astype(np.float64)) > 0
        return found

    def summed(self, chosen: NDArray[np.bool_]) -> SummedErrors:
        """Return the errors of all weights of the chosen tensors, bool [n]."""
        found = self.together(np.where(chosen, 0, 1), 2)
        return SummedErrors(
            count=round(float(found.compared[0])),
            **{name: float(getattr(found, name)[0]) for name in _SUMMED},
        )

    def by_role(self, columns: TensorColumns, roles: Mapping[str, str]) -> RoleSums:
        """Return the errors by role, of all tensors, and of all matrices.

        Args:
            columns: The tensors.
            roles: Their roles by name; those of others follow from the name.
        """
        named = [roles.get(name) or parse_name(name).role for name in columns.names]
        order = {role: code for code, role in enumerate(dict.fromkeys(named))}
        codes = np.array([order[role] for role in named], np.int64)
        matrices = np.array([*map(is_matrix_shape, columns.shapes)], np.bool_)
        everything = np.ones(len(named), np.bool_)
        sums = {role: self.summed(self.known & (codes == code)) for role, code in order.items()}
        return RoleSums(
            {role: one for role, one in sums.items() if one.count},
            self.summed(everything),
            self.summed(matrices),
        )

    def _noise(self, squares: Floats, signal: Floats) -> Floats:
        """Return noise by signal; 0 where neither is, inf where there is noise alone."""
        with np.errstate(divide="ignore", invalid="ignore"):
            found = squares / signal
        found[(squares == 0) & (self.compared > 0)] = 0.0
        found[self.compared == 0] = np.nan
        return found


@dataclass(frozen=True, slots=True)
class SummedErrors:
    """Errors of several tensors, as if all weights were those of one; see `ErrorMetrics`."""

    count: int
    relative_rmse: float
    rmse: float
    sqnr_db: float
    max_abs_error: float
    mean_error: float
    weighted_relative_rmse: float

    @property
    def compared(self) -> int:
        """Pairs of finite weights."""
        return self.count


AnyErrors: TypeAlias = "ErrorMetrics | SummedErrors"
"""Errors of weights together, measured at once or added up."""


@dataclass(frozen=True, slots=True)
class RoleSums:
    """Errors of a model by role, in all, and of all but norms and biases."""

    roles: Mapping[str, AnyErrors]
    total: AnyErrors
    matrices: AnyErrors


_SUMMED: Final = (
    *("relative_rmse", "rmse", "sqnr_db", "max_abs_error", "mean_error"),
    "weighted_relative_rmse",
)
_ADDED: Final = ("compared", "squares", "signal", "errors", "weighted_squares", "weighted_signal")


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

    arrays: SizeArrays  # of the header
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
class Measure:
    """A figure of tensors, alone and together.

    Where a tensor is weighted by its parameters, its contribution counts: what it adds to a sum
    over the model. Of errors and deviations that is their square, of a ratio the ratio times the
    number of weights.

    Attributes:
        source: What has to be read for it.
        of_tensors: The figure of each tensor, float64 [n].
        of_groups: The figure of each group of tensors, float64 [groups].
        contribution: What each tensor adds to the sum over the model, float64 [n].
        means: As `of_groups`, but the mean weighted by parameters where that is a maximum.
    """

    source: Source
    of_tensors: Callable[[Known], Floats]
    of_groups: Callable[[Known, Groups], Floats]
    contribution: Callable[[Known], Floats]
    means: Callable[[Known, Groups], Floats]


def _bytes(known: Known) -> Floats:
    return known.arrays.nbytes.astype(np.float64)


def _stored_bits(known: Known) -> Floats:
    return np.where(known.arrays.sized, 8 * _bytes(known), np.nan)


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


def _weighted_squares(known: Known) -> Floats:
    errors = known.errors
    if errors is None:
        return _unknown(known.count)
    return np.where(errors.weighted_signal > 0, errors.weighted_squares, np.nan)


def _most(column: Callable[[Known], Floats]) -> Callable[[Known, Groups], Floats]:
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


def _range(known: Known, groups: Groups) -> Floats:
    return groups.maxima(known.statistics.max) + groups.maxima(-known.statistics.min)


def _mean(column: Callable[[Known], Floats]) -> Callable[[Known, Groups], Floats]:
    return lambda known, groups: groups.means(known.weights, column(known))


def _by_weights(column: Callable[[Known], Floats]) -> Callable[[Known], Floats]:
    return lambda known: column(known) * known.weights


def _sum(
    of_tensors: Callable[[Known], Floats],
    of_groups: Callable[[Known, Groups], Floats],
    contribution: Callable[[Known], Floats],
    source: Source = Source.STATISTICS,
) -> Measure:
    """Return a figure that tensors together have as one tensor of all their weights has it."""
    return Measure(source, of_tensors, of_groups, contribution, of_groups)


def _peak(name: str) -> Measure:
    """Return a figure of which tensors together show the maximum, and the model its mean."""
    column = _statistic(name)
    most, contribution = _most(column), _by_weights(column)
    return Measure(Source.STATISTICS, column, most, contribution, _mean(column))


def _error(name: str, squares: Callable[[Known], Floats] = _error_squares) -> Measure:
    """Return the measure of an error, by its column; of a group, that of its sums."""

    def of_tensors(known: Known) -> Floats:
        errors = known.errors
        return _unknown(known.count) if errors is None else getattr(errors, name)

    def of_groups(known: Known, groups: Groups) -> Floats:
        if known.errors is None:
            return _unknown(groups.count)
        found: Floats = getattr(known.errors.together(groups.codes, groups.count), name)
        return found

    return _sum(of_tensors, of_groups, squares, Source.ERRORS)


_STEP_RATIO: Final = _ratio(_step_squares, _squares)

MEASURES: Final[Mapping[str, Measure]] = MappingProxyType(
    {
        "bits_per_weight": _sum(
            lambda known: known.arrays.bits_per_weight,
            lambda known, groups: quotients(
                groups.sums(_stored_bits(known)), groups.sums(known.weights)
            ),
            _bytes,
            Source.HEADER,
        ),
        "bytes": _sum(
            _bytes, lambda known, groups: groups.sums(_bytes(known)), _bytes, Source.HEADER
        ),
        "std": _sum(
            _statistic("std"),
            _mean_square(_statistic("std")),
            lambda known: known.statistics.std**2 * known.weights,
        ),
        "range": _sum(_statistic("range"), _range, _by_weights(_statistic("range"))),
        "outlier_ratio": _peak("outlier_ratio"),
        "kurtosis": _peak("kurtosis"),
        "zero_share": _sum(
            _statistic("zero_share"),
            _ratio(_statistic("zeros"), _statistic("finite")),
            _statistic("zeros"),
        ),
        "step_error": _sum(
            _statistic("relative_step_error"),
            lambda known, groups: np.sqrt(_STEP_RATIO(known, groups)),
            _step_squares,
        ),
        **{name: _error(name) for name in ("relative_rmse", "sqnr_db", "rmse", "max_abs_error")},
        **{
            name: _error(name, _weighted_squares)
            for name in ("weighted_relative_rmse", "weighted_sqnr_db")
        },
    }
)
"""All figures by their stable names, those of the header first."""


def percentiles_within(
    values: Floats, codes: NDArray[np.int64], *, low_is_worse: bool = False
) -> Floats:
    """Return how many of a tensor's group are not worse than it, as a share of the others.

    1 is the worst of its group, 0 the best; equal ones get the mean of their places. NaN of what is
    not known, and where nothing else of the group is.

    Args:
        values: A figure of each tensor, float64 [n]; NaN is not known.
        codes: Group of each tensor, int64 [n].
        low_is_worse: Whether the least value is the worst.
    """
    found = _unknown(len(values))
    known = np.flatnonzero(~np.isnan(values))
    signed = -values if low_is_worse else values
    order = known[np.lexsort((signed[known], codes[known]))]
    for rows in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1):
        count = len(rows)
        if count < 2:
            continue
        _, place, sizes = np.unique(signed[rows], return_inverse=True, return_counts=True)
        below = np.cumsum(sizes) - sizes
        found[rows] = ((below + (sizes - 1) / 2) / (count - 1))[place]
    return found


def shares(contribution: Floats) -> Floats:
    """Return each tensor's part of the known sum, float64 [n]; NaN is not known."""
    total = float(np.nansum(contribution))
    return (
        contribution / total
        if total > 0 and np.isfinite(total)
        else np.full(len(contribution), np.nan)
    )


# Roles, layers and the model: sums and means, the same for the window, the commands and the report.


@dataclass(frozen=True, slots=True)
class Summary:
    """Tensors together.

    Attributes:
        stack: Prefix of their stack of layers, or "" of none, and of all together.
        role: Their role, with what follows it unless that is ``weight``; "" of all roles.
        layer: Their layer; None of all layers, and outside of them.
        tensors: How many there are.
        parameters: Number of weights.
        nbytes: Stored bytes.
        figures: The figures of `MEASURES` by name (`Measure.means`); NaN is not known.
    """

    stack: str
    role: str
    layer: int | None
    tensors: int
    parameters: int
    nbytes: int
    figures: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Summaries:
    """Sums and means of a model.

    Norms and biases are few, large, and left as they are by quantizers. They would hide what a
    quantization did to a layer, so layers are summed up without them.

    Attributes:
        total: All tensors.
        matrices: All matrices: what is left without norms and biases.
        roles: Each role of each stack of layers, and each tensor outside of layers, in the order of
            the computation.
        layers: The matrices of each layer of each stack.
        stacks: Number of stacks of layers.
    """

    total: Summary
    matrices: Summary
    roles: Sequence[Summary]
    layers: Sequence[Summary]
    stacks: int


@dataclass(frozen=True, slots=True)
class LayerSummaries:
    """The matrices of a layer together, and each of its roles, norms and biases too."""

    layer: Summary
    roles: Sequence[Summary]


class _Summarized(Sequence[Summary]):
    """Groups of tensors, each summed up when asked: a hostile file has a role for each tensor."""

    def __init__(self, keys: Sequence[tuple[str, str, int | None]], columns: _SummedUp) -> None:
        self._keys = keys
        self._columns = columns
        self._order = np.arange(len(keys))

    def chosen(self, order: NDArray[np.int64]) -> Self:
        """Take the groups of these numbers, in this order."""
        self._order = order
        return self

    @overload
    def __getitem__(self, index: int) -> Summary: ...
    @overload
    def __getitem__(self, index: slice) -> list[Summary]: ...
    def __getitem__(self, index: int | slice) -> Summary | list[Summary]:
        if isinstance(index, slice):
            return [self._one(number) for number in self._order[index].tolist()]
        return self._one(int(self._order[index]))

    def __len__(self) -> int:
        return len(self._order)

    def _one(self, number: int) -> Summary:
        found = self._columns
        return Summary(
            *self._keys[number],
            tensors=int(found.counts[number]),
            parameters=round(float(found.weights[number])),
            nbytes=(int if found.sized[number] else AtLeast)(round(float(found.nbytes[number]))),
            figures={name: float(values[number]) for name, values in found.figures.items()},
        )


class _SummedUp(NamedTuple):
    """The figures of `Summary`, a row for each group."""

    counts: NDArray[np.int64]
    weights: Floats
    nbytes: Floats
    sized: NDArray[np.bool_]
    figures: Mapping[str, Floats]


def is_matrix(arrays: SizeArrays) -> NDArray[np.bool_]:
    """Return which tensors have rows and columns, bool [n]."""
    return np.array([*map(is_matrix_shape, arrays.shapes)], np.bool_)[arrays.shape_codes]


def model_summaries(
    model: Model, statistics: StatisticsColumns | None, errors: ErrorColumns | None
) -> Summaries:
    """Return the sums of a model's figures that are known; None where none is."""
    header = model.tensors.columns
    known = Known(size_arrays(header), statistics or StatisticsColumns(len(header)), errors)
    return summaries(known, model_grid(header.names))


def summaries(known: Known, grid: ModelGrid) -> Summaries:
    """Return sums and means by role, by layer and of all; takes no weight into its hands.

    Args:
        known: What is known by now, of all tensors.
        grid: The same tensors by layer and role.
    """
    matrices = is_matrix(known.arrays)
    everything = np.ones(known.count, np.bool_)
    role_keys: dict[tuple[str, str], int] = {}  # those of all sections, in their order
    layer_keys: list[tuple[str, str, int]] = []
    role_codes: list[int] = []
    first_columns, first_layers = [], []
    for section in grid.sections:
        first_columns.append(len(role_codes))
        first_layers.append(len(layer_keys) if section.layers else -1)
        stack = section.stack if section.kind is Kind.LAYERS else ""
        for column in section.columns:
            role_codes.append(role_keys.setdefault((stack, column.name), len(role_keys)))
        layer_keys += [(stack, "", layer) for layer in section.layers]
    section_of, row, place = grid.places[grid.cell_of].T
    roles = np.array(role_codes, np.int64)[np.array(first_columns, np.int64)[section_of] + place]
    first_layer = np.array(first_layers, np.int64)[section_of]
    layers = np.where(matrices & (first_layer >= 0), first_layer + row, -1)
    alone = np.zeros(known.count, np.int64)
    by_role = _summarized(known, everything, roles, [(*key, None) for key in role_keys])
    return Summaries(
        total=_summarized(known, everything, alone, [("", "", None)])[0],
        matrices=_summarized(known, matrices, alone, [("", "", None)])[0],
        roles=by_role,
        layers=_summarized(known, layers >= 0, layers, layer_keys),
        stacks=len({stack for stack, _ in role_keys if stack}),
    )


def layer_summaries(known: Known, grid: ModelGrid, layer: tuple[int, int]) -> LayerSummaries:
    """Return sums and means of a layer; arguments as in `summaries`, and its section and row."""
    section, number = grid.sections[layer[0]], grid.sections[layer[0]].layers[layer[1]]
    chosen = (grid.places[grid.cell_of, :2] == layer).all(axis=1)
    alone, roles = np.zeros(known.count, np.int64), grid.places[grid.cell_of, 2]
    together = [(section.stack, "", number)]
    keys = [(section.stack, column.name, number) for column in section.columns]
    return LayerSummaries(
        _summarized(known, chosen & is_matrix(known.arrays), alone, together)[0],
        _summarized(known, chosen, roles, keys),
    )


def _summarized(
    known: Known,
    chosen: NDArray[np.bool_],
    codes: NDArray[np.int64],
    keys: Sequence[tuple[str, str, int | None]],
) -> _Summarized:
    """Return the groups of the chosen tensors; a group without any is left out, but if alone."""
    groups = Groups(np.where(chosen, codes, len(keys)), len(keys) + 1)  # the others are the last
    counts = np.bincount(groups.codes, minlength=len(keys)).astype(np.int64)
    figures = {name: one.means(known, groups) for name, one in MEASURES.items()}
    sized = groups.sums((~known.arrays.sized).astype(np.float64)) == 0
    found = _SummedUp(
        counts, groups.sums(known.weights), groups.sums(_bytes(known)), sized, figures
    )
    there = np.arange(len(keys)) if len(keys) == 1 else np.flatnonzero(counts[: len(keys)])
    return _Summarized(keys, found).chosen(there)
