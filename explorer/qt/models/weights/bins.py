"""Into which bins the weights of one or several tensors are counted, and rough counts at once."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from explorer.analysis import Histogram, TensorStatistics
from explorer.analysis.histogram import Binning
from explorer.qt.models.weights.figures import Figures, Wish
from explorer.qt.models.weights.histogram_choices import RangeKind
from explorer.qt.models.weights.histogram_curve import (
    HistogramCurve,
    resampled,
    robust_range,
    union,
)


def can_divide(low: float, high: float, bins: int) -> bool:
    """Whether a range can be divided into so many bins: float64 must tell their edges apart."""
    try:
        Binning.of_range(low, high, bins)
    except ValueError:
        return False
    return True


def binnings_of(figures: Sequence[TensorStatistics], wish: Wish) -> list[Binning | None]:
    """Return the bins of each tensor; None for those that have no finite weight to draw.

    Raises:
        ValueError: The typed range cannot be divided into so many bins.
    """
    if wish.common:
        return [_binning(figures, wish)] * len(figures)
    return [_binning([each], wish) for each in figures]


def _binning(figures: Sequence[TensorStatistics], wish: Wish) -> Binning | None:
    """Return bins that hold the weights of all of some tensors; None if no weight is finite."""
    if wish.kind is RangeKind.TYPED and wish.typed is not None:
        return Binning.of_range(*wish.typed, wish.bins)
    finite = [each for each in figures if each.finite]
    whole = union([(each.min, each.max) for each in finite])
    if whole is None:
        return None
    if wish.kind is RangeKind.ROBUST:
        low, high = (
            union([(each.percentiles[0.1], each.percentiles[99.9]) for each in finite]) or whole
        )
        if low < high:
            with suppress(ValueError):  # nearly all weights are equal: the whole range shows that
                return Binning.of_range(low, high, wish.bins)
    return Binning.of_weights(*whole, wish.bins)


def rough_curves(
    figures: Sequence[Figures], fine: Sequence[Histogram], wish: Wish
) -> tuple[HistogramCurve, ...]:
    """Return curves in about the bins asked for, from finer histograms."""
    if not wish.common:
        alone = replace(wish, common=True)
        pairs = zip(figures, fine, strict=True)
        return tuple(c for one, its in pairs for c in rough_curves([one], [its], alone))
    shown = wish.typed if wish.kind is RangeKind.TYPED else None
    if shown is None:
        ranges = []
        for each, histogram in zip(figures, fine, strict=True):
            found = robust_range(histogram) if wish.kind is RangeKind.ROBUST else None
            if each.moments.finite:
                ranges.append(found or (each.moments.min, each.moments.max))
        shown = union(ranges)
    if shown is None:
        return ()
    return tuple(
        curve_of(each, resampled(histogram, *shown, wish.bins))
        for each, histogram in zip(figures, fine, strict=True)
    )


def curve_of(figures: Figures, histogram: Histogram) -> HistogramCurve:
    """Return the curve of a tensor's histogram."""
    subject = figures.subject
    return HistogramCurve.of_moments(subject.name, histogram, figures.moments, subject.row)
