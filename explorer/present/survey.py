"""What is known of all tensors of a model, as columns of numbers.

Statistics come from a survey, errors from a comparison with a reference; both grow while they run.
A figure that is not known (yet) is NaN. Of several tensors together (the experts of a layer, or a
tensor that is several in the reference), figures are those of all their weights: squares are added,
not roots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from explorer.formats.tensors import Tensor
from explorer.present.statistics import Floats, quotients

if TYPE_CHECKING:
    from explorer.analysis.errors.figures import ErrorFigures
    from explorer.analysis.statistics import TensorStatistics

_STATISTICS: Final = ("std", "rms", "abs_max", "kurtosis", "zeros", "finite", "step_error_rms")


class StatisticsColumns:
    """Statistics of each tensor; see `analysis.moments.Moments` for what they mean.

    Attributes:
        known: Whether a tensor was surveyed, bool [n].
        problems: Why a tensor cannot be, by row.
        std: Standard deviation, float64 [n], as are all that follow.
        rms: Root mean square.
        abs_max: Greatest absolute value.
        kurtosis: Fourth standardized moment.
        zeros: Number of weights that are 0.
        finite: Number of weights that are neither NaN nor infinite.
        step_error_rms: Rounding error that the block scales imply; NaN if not quantized.
    """

    def __init__(self, count: int) -> None:
        self.known = np.zeros(count, np.bool_)
        self.problems: dict[int, str] = {}
        self.std, self.rms, self.abs_max, self.kurtosis = (_unknown(count) for _ in range(4))
        self.zeros, self.finite, self.step_error_rms = (_unknown(count) for _ in range(3))

    def put(self, row: int, found: TensorStatistics) -> None:
        """Note the statistics of a tensor."""
        for name in _STATISTICS:
            value = getattr(found, name)
            if value is not None:
                getattr(self, name)[row] = value
        self.known[row] = True

    @property
    def outlier_ratio(self) -> Floats:
        """Greatest absolute value by RMS: how far the largest weight stands out."""
        return quotients(self.abs_max, self.rms)

    @property
    def zero_share(self) -> Floats:
        """Part of the weights that are 0."""
        return quotients(self.zeros, self.finite)

    @property
    def relative_step_error(self) -> Floats:
        """Rounding error that the block scales imply, by RMS."""
        return quotients(self.step_error_rms, self.rms)


@dataclass(frozen=True, slots=True)
class PairPlace:
    """Where the errors of a pair of tensors belong.

    Attributes:
        rows: Rows of the candidate's tensors.
        shares: What part of the pair's weights each of them holds.
    """

    rows: tuple[int, ...]
    shares: tuple[float, ...]

    @classmethod
    def of(cls, rows: Sequence[int], tensors: Sequence[Tensor]) -> PairPlace:
        """Return the place of a pair by the candidate's tensors."""
        total = sum(tensor.parameters for tensor in tensors)
        return cls(tuple(rows), tuple(t.parameters / total if total else 0.0 for t in tensors))


@dataclass(frozen=True, slots=True)
class TensorError:
    """Errors of one tensor, of all pairs that it has a part in.

    Attributes:
        relative_rmse: RMS error by the RMS of the reference.
        sqnr_db: Signal to quantization noise in dB.
    """

    relative_rmse: float
    sqnr_db: float


class ErrorColumns:
    """Errors of each tensor, of all pairs that it has a part in.

    Attributes:
        known: Whether errors of a tensor are known, bool [n].
        problems: Why a tensor has none, by row.
        compared: Number of pairs of finite weights, float64 [n], as are all that follow.
        squares: Sum of their squared errors.
        signal: Sum of the reference's squares.
        errors: Sum of the errors.
        max_abs_error: Greatest |error|.
    """

    def __init__(self, count: int) -> None:
        self.known = np.zeros(count, np.bool_)
        self.problems: dict[int, str] = {}
        self.compared, self.squares, self.signal, self.errors = (np.zeros(count) for _ in range(4))
        self.max_abs_error = _unknown(count)

    def put(self, place: PairPlace, found: ErrorFigures) -> None:
        """Add the errors of a pair."""
        if not found.compared:
            return
        for row, share in zip(place.rows, place.shares, strict=True):
            count = found.compared * share
            self.compared[row] += count
            self.squares[row] += found.rmse**2 * count
            self.signal[row] += found.reference_rms**2 * count
            self.errors[row] += found.mean_error * count
            self.max_abs_error[row] = np.fmax(self.max_abs_error[row], found.max_abs_error)
            self.known[row] = True

    def by_tensor(self) -> list[TensorError | None]:
        """Return the errors of each tensor; None if they are not known."""
        figures = zip(self.relative_rmse.tolist(), self.sqnr_db.tolist(), strict=True)
        return [
            TensorError(*found) if known else None
            for known, found in zip(self.known.tolist(), figures, strict=True)
        ]

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


def grouped(codes: NDArray[np.int64], groups: int, weights: Floats, values: Floats) -> Floats:
    """Return the weighted mean of the known values of each group, float64 [groups]; NaN of none.

    Args:
        codes: Group of each value, int64 [n].
        groups: Number of groups.
        weights: How much each value counts, float64 [n].
        values: The values, float64 [n]; NaN is not known.
    """
    known = ~np.isnan(values) & (weights > 0)
    sums = np.bincount(codes[known], weights[known] * values[known], groups).astype(np.float64)
    counts = np.bincount(codes[known], weights[known], groups).astype(np.float64)
    return quotients(sums, counts)


def greatest(codes: NDArray[np.int64], groups: int, values: Floats) -> Floats:
    """Return the greatest known value of each group, float64 [groups]; NaN of none."""
    found = np.full(groups, -np.inf)
    known = ~np.isnan(values)
    np.maximum.at(found, codes[known], values[known])
    return np.where(np.bincount(codes[known], minlength=groups) > 0, found, np.nan)


def _unknown(count: int) -> Floats:
    return np.full(count, np.nan)
