"""What a histogram plot draws of one tensor, and a coarser look at a finer histogram."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, TypeAlias

import numpy as np

from explorer.analysis.histogram import Binning, Histogram
from explorer.analysis.moments import Moments, percentiles
from explorer.analysis.statistics import TensorStatistics
from explorer.errors import ExplorerError
from explorer.formats.tensors import Tensor
from explorer.qt.widgets.curves import HistogramCurve, histogram_of
from explorer.quantization.registry import WITHOUT_DECODER, has_decoder

Range: TypeAlias = tuple[float, float]


def resampled(histogram: Histogram, low: float, high: float, bins: int) -> Histogram:
    """Return about what a histogram of other bins would hold, as if each bin were spread evenly."""
    if not low < high:
        low, high = low - 0.5, high + 0.5
    edges = np.linspace(low, high, bins + 1)
    below = np.concatenate(([0], np.cumsum(histogram.counts)))
    at_edges = np.rint(np.interp(edges, histogram.edges, below)).astype(np.int64)
    return histogram_of(edges, at_edges[1:] - at_edges[:-1])


def robust_range(histogram: Histogram) -> Range | None:
    """Return about where all but the outermost 0.1 % on each side lie; None of nothing."""
    if not histogram.counts.any():
        return None
    low, high = percentiles(histogram.counts, histogram.low, histogram.high, (0.1, 99.9))
    return low, high


def union(ranges: Sequence[Range]) -> Range | None:
    """Return the smallest range that holds all of some ranges; None of none."""
    if not ranges:
        return None
    return min(low for low, _ in ranges), max(high for _, high in ranges)


MOST_BINS: Final = 4096
"""Most bins of a histogram: more than a screen has pixels side by side."""


class RangeKind(StrEnum):
    """Which weights a histogram shows."""

    ROBUST = "robust"
    FULL = "full"
    TYPED = "typed"  # as in `widgets.ranges`


@dataclass(frozen=True, slots=True)
class HistogramRequest:
    """How a histogram is to be.

    Attributes:
        bins: Number of bins, up to MOST_BINS.
        kind: Which weights it shows.
        typed: First and last edge, where they were typed.
        common: Whether several tensors have the same bins, or each those of its own weights.
    """

    bins: int = 256
    kind: RangeKind = RangeKind.ROBUST
    typed: Range | None = None
    common: bool = True


@dataclass(frozen=True, slots=True)
class SelectedTensor:
    """A tensor to show."""

    row: int
    name: str
    tensor: Tensor


@dataclass(frozen=True, slots=True)
class SubjectStatistics:
    """What is known of one tensor.

    Attributes:
        subject: The tensor.
        moments: Its statistics, of the weights seen so far.
        complete: The statistics of all weights; None while they are read.
    """

    subject: SelectedTensor
    moments: Moments
    complete: TensorStatistics | None


@dataclass(frozen=True, slots=True)
class HistogramResult:
    """What is known of all tensors that were asked for.

    Attributes:
        statistics: Statistics of those that were reached.
        curves: Their histograms.
        exact: Whether the counts are exact, and complete.
        done: Weights walked over, each walk counted.
        total: What `done` will be.
        nbytes: Stored bytes walked over.
        failures: What could not be read: the tensor and why.
    """

    statistics: tuple[SubjectStatistics, ...]
    curves: tuple[HistogramCurve, ...]
    exact: bool
    done: int = 0
    total: int = 0
    nbytes: int = 0
    failures: tuple[tuple[SelectedTensor, ExplorerError], ...] = ()


def unsupported_reason(tensor: Tensor) -> str | None:
    """Return why weights of that type are never shown; None if they are."""
    name = tensor.type.name
    if tensor.companions is not None or has_decoder(name):
        return None
    return WITHOUT_DECODER.get(name, "this program does not know the type")


def can_divide(low: float, high: float, bins: int) -> bool:
    """Whether a range can be divided into so many bins, whose edges differ as float64."""
    try:
        Binning.of_range(low, high, bins)
    except ValueError:
        return False
    return True


def binnings_of(
    statistics: Sequence[TensorStatistics], request: HistogramRequest
) -> list[Binning | None]:
    """Return the bins of each tensor; None for those that have no finite weight to draw.

    Raises:
        ValueError: The typed range cannot be divided into so many bins.
    """
    if request.common:
        return [_binning(statistics, request)] * len(statistics)
    return [_binning([each], request) for each in statistics]


def _binning(statistics: Sequence[TensorStatistics], request: HistogramRequest) -> Binning | None:
    """Return bins that hold the weights of all of some tensors; None if no weight is finite."""
    if request.kind is RangeKind.TYPED and request.typed is not None:
        return Binning.of_range(*request.typed, request.bins)
    finite = [each for each in statistics if each.finite]
    whole = union([(each.min, each.max) for each in finite])
    if whole is None:
        return None
    if request.kind is RangeKind.ROBUST:
        robust = union([(each.percentiles[0.1], each.percentiles[99.9]) for each in finite])
        low, high = robust or whole
        if low < high:
            with suppress(ValueError):  # nearly all weights are equal: the whole range shows that
                return Binning.of_range(low, high, request.bins)
    return Binning.of_weights(*whole, request.bins)


def rough_curves(
    statistics: Sequence[SubjectStatistics], fine: Sequence[Histogram], request: HistogramRequest
) -> tuple[HistogramCurve, ...]:
    """Return curves in about the bins asked for, from finer histograms."""
    pairs = list(zip(statistics, fine, strict=True))
    if not request.common:
        alone = replace(request, common=True)
        return tuple(c for one, its in pairs for c in rough_curves([one], [its], alone))
    shown = request.typed if request.kind is RangeKind.TYPED else None
    if shown is None:
        ranges = []
        for each, histogram in pairs:
            found = robust_range(histogram) if request.kind is RangeKind.ROBUST else None
            if each.moments.finite:
                ranges.append(found or (each.moments.min, each.moments.max))
        shown = union(ranges)
    if shown is None:
        return ()
    return tuple(
        curve_of(each, resampled(histogram, *shown, request.bins)) for each, histogram in pairs
    )


def curve_of(statistics: SubjectStatistics, histogram: Histogram) -> HistogramCurve:
    """Return the curve of a tensor's histogram."""
    subject = statistics.subject
    moments, kind = statistics.moments, subject.tensor.type.name
    return HistogramCurve.of_moments(subject.name, histogram, moments, subject.row, kind)
