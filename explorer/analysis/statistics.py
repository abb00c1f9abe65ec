"""Statistics of a tensor: exact, of every weight, in bounded memory, on any number of threads.

Bins need the range, and the range is known only when every weight was seen. So there are two walks:
the first for counts, extremes and moments, the second for block scales and for the histogram of
bins and parts of bins, of which the percentiles are made. The second time a tensor is usually read
from the system's file cache, and decoding it again costs less than anything that would spare it
(bounds from the scales of all blocks cost as much as their weights).

Weights that have few different values are walked over once, and counted by value, which is all that
has to be known: those of 16 bits, and those of blocks without minima whose scales recur.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from explorer.analysis.blocks import (
    BlockUnpacker,
    RunningLevels,
    is_quantized,
    level_error,
    running_levels,
)
from explorer.analysis.histogram import (
    Binning,
    Counted,
    Histogram,
    RunningCounts,
    RunningHalves,
    RunningKeys,
)
from explorer.analysis.moments import PERCENTS, Moments, RunningMoments, percentiles
from explorer.formats.tensors import Shape, Tensor
from explorer.formats.weights import Span, check_decodable, spans_of
from explorer.parallel import Check, PerThread, map_in_order, never

DEFAULT_BINS: Final = 256

Range: TypeAlias = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class TensorStatistics(Moments):
    """What `gguf-explorer stats` shows of a tensor.

    Attributes:
        tensor: The tensor's name.
        type: Its type's name.
        shape: Row-major, outermost first.
        percentiles: Weights below which so many per cent of the finite ones lie, right to a
            65,536th of the range; NaN if there are none.
        histogram: Finite weights by equal bins, as `numpy.histogram` counts.
        step_error_rms: RMS rounding error that the block scales imply; None if not quantized.
    """

    tensor: str
    type: str
    shape: Shape
    percentiles: dict[float, float]
    histogram: Histogram
    step_error_rms: float | None


class GrowingStatistics:
    """Statistics of all weights of a tensor, while they are gathered; nothing is sampled.

    Args:
        tensor: The tensor.
        bins: Bins of the histogram, 1 to `histogram.MAX_BINS`.
        range: First and last edge of the histogram; None for the least and greatest finite weight.
        workers: Threads. The result is the same to the bit for any number.
        check: Called before every chunk, in the thread that reads it; what it raises ends the work
            and is passed on.
        rough: Whether `so_far` will be called, which makes the work a fifth longer.

    Attributes:
        done: Weights walked over so far, those of both walks together; the only one counts twice.
        statistics: All statistics, once `walk` has ended.

    Raises:
        FormatError: The file is damaged there, or the type's weights cannot be decoded.
        ValueError: There are too few or too many bins, or the range cannot be divided into them.
    """

    statistics: TensorStatistics

    def __init__(  # noqa: PLR0913 - all but the tensor have a default
        self,
        tensor: Tensor,
        bins: int = DEFAULT_BINS,
        range: Range | None = None,  # noqa: A002 - numpy.histogram's name for it
        workers: int = 1,
        check: Check = never,
        *,
        rough: bool = False,
    ) -> None:
        check_decodable(tensor)
        self._tensor = tensor
        self._bins = bins
        self._range = range
        self._given = None if range is None else Binning.of_range(*range, bins)
        self._workers = workers
        self._check = check
        self.done = 0
        self._moments = RunningMoments()
        self._levels: RunningHalves | RunningLevels | None = None
        self._counted: Counted | None = None
        self._keys = RunningKeys() if rough else None

    def walk(self) -> Generator[int, None, None]:
        """Walk over the weights once or twice; yield `done` now and then.

        Raises:
            FormatError: The file is damaged there.
            SourceError: The file changed since it was opened.
        """
        with closing(self._walks()) as walks:
            for done in walks:
                if done > self.done:  # a walk may have ended early, in vain
                    self.done = done
                    yield done

    def _walks(self) -> Generator[int, None, None]:
        self._levels = running_levels(self._tensor, self._check)
        yield from self._walk_first()
        if self._levels is not None and not self._levels.is_complete:
            self._levels = None
            yield from self._walk_first()
        if self._levels is not None:
            self._counted = self._levels.found
            self._moments = self._counted.moments
        yield from self._count()

    def _walk_first(self) -> Generator[int, None, None]:
        walks = 1 if self._levels is None else 2  # this one stands for both
        spans = spans_of(self._tensor)
        with map_in_order(spans, self._gather, workers=self._workers, check=self._check) as found:
            for span, moments in found:
                self._moments.combine(moments)
                yield walks * span.stop

    def so_far(self) -> tuple[Moments, Histogram]:
        """Return statistics of the weights seen in the first walk, and an approximate histogram.

        It is over their range so far, or over the given one.
        """
        levels = self._levels
        counted = levels.found if levels and self._counted is None else self._counted
        moments = self._moments if counted is None else counted.moments
        low, high = self._range or (moments.low, moments.high)
        if counted is not None:
            binning = self._given or Binning.of_weights(low, high, self._bins)
            return moments.moments(), binning.histogram(binning.counts(counted))
        assert self._keys is not None  # asked for at the beginning
        rough = self._keys.histogram(low, high, self._bins, whole=self._range is None)
        return moments.moments(), rough

    def _gather(self, span: Span, check: Check) -> RunningMoments:
        moments = RunningMoments()
        if self._levels is not None:
            self._levels.add(span, check)
            return moments
        for batch in span.batches(check):
            moments.add_batch(batch)
            if self._keys is not None:
                self._keys.add(batch.coded)
        return moments

    def _count(self) -> Generator[int, None, None]:
        """Walk over the weights a second time, and make the statistics of all that is known."""
        tensor, given = self._tensor, self._given
        bins = self._bins if given is None else DEFAULT_BINS
        fine = Binning.of_weights(self._moments.low, self._moments.high, bins)
        binnings = [fine] if given is None else [fine, given]
        counts, scales = RunningCounts(binnings), RunningMoments()
        unpackers = PerThread(lambda: BlockUnpacker(tensor)) if is_quantized(tensor) else None

        def count(span: Span, check: Check) -> RunningMoments:
            scales = RunningMoments()
            for batch in span.batches(check):
                counts.add_coded([batch.coded] * len(binnings))
                if unpackers is not None:
                    scales.add(unpackers.own.scales(batch.stored).scales.reshape(-1))
            return scales

        counted = self._counted
        spans = spans_of(tensor) if counted is None else iter(())
        with map_in_order(spans, count, workers=self._workers, check=self._check) as found:
            for span, more in found:
                scales.combine(more)
                yield tensor.parameters + span.stop
        if counted is not None:
            scales = counted.scales
        totals = counts.totals if counted is None else [one.counts(counted) for one in binnings]
        self.statistics = TensorStatistics(
            tensor=tensor.name,
            type=tensor.type.name,
            shape=tensor.shape,
            percentiles=self._percentiles(fine, totals[0]),
            histogram=binnings[-1].histogram(totals[-1]),
            step_error_rms=None
            if unpackers is None
            else level_error(unpackers.own.levels) * scales.moments().rms,
            **self._moments.fields(),
        )

    def _percentiles(self, fine: Binning, counts: NDArray[np.int64]) -> dict[float, float]:
        if not self._moments.finite:
            return dict.fromkeys(PERCENTS, math.nan)
        least, greatest = self._moments.low, self._moments.high
        found = percentiles(counts, float(fine.edges[0]), float(fine.edges[-1]))
        return {at: min(max(x, least), greatest) for at, x in zip(PERCENTS, found, strict=True)}


def tensor_statistics(  # noqa: PLR0913 - all but the tensor have a default
    tensor: Tensor,
    bins: int = DEFAULT_BINS,
    range: Range | None = None,  # noqa: A002 - numpy.histogram's name for it
    workers: int = 1,
    *,
    cancel: Check | None = None,
    steps: Callable[[int], object] | None = None,
) -> TensorStatistics:
    """Return the statistics of all weights of a tensor; see `GrowingStatistics`.

    Args:
        cancel: Its `check`.
        steps: Called in the caller's thread with the weights walked over so far, of twice those
            that the tensor has.

    Raises:
        FormatError: The file is damaged there, or the type's weights cannot be decoded.
        SourceError: The file changed since it was opened.
        ValueError: There are too few or too many bins, or the range cannot be divided into them.
    """
    growing = GrowingStatistics(tensor, bins, range, workers, cancel or never)
    with closing(growing.walk()) as walk:
        for done in walk:
            if steps is not None:
                steps(done)
    return growing.statistics
