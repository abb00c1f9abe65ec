"""Statistics of a tensor: exact, of every weight, in bounded memory, on any number of threads.

Bins need the range, and the range is known only when every weight was seen. So there are two walks:
the first for counts, extremes and moments, the second for block scales and for the histogram of
bins and parts of bins, of which the percentiles are made. The second time a tensor is usually read
from the system's file cache, and decoding it again costs less than anything that would spare it
(bounds from the scales of all blocks cost as much as their weights).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from explorer.analysis import histogram as provisional
from explorer.analysis.blocks import RunningScales, ThreadUnpacker, level_error
from explorer.analysis.histogram import Binning, Histogram, RunningCounts
from explorer.analysis.moments import PERCENTS, Moments, RunningMoments, percentiles
from explorer.formats.tensors import Shape, Tensor
from explorer.formats.weights import Chunk, Fold, WeightReader, check_decodable, fold_parts
from explorer.parallel import Check, never

DEFAULT_BINS: Final = 256

Range: TypeAlias = tuple[float, float]

_SNAPSHOT_SECONDS: Final = 0.05  # between two, at least


@dataclass(frozen=True, kw_only=True)
class TensorStatistics(Moments):
    """What `gguf-explorer stats` tells of a tensor.

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


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Statistics under way, to look at while they are gathered.

    Attributes:
        done: Weights walked over so far, those of both walks together.
        total: Weights of both walks.
        moments: Statistics of the weights seen in the first walk.
        histogram: Their approximate histogram over their range so far, or over the given one.
    """

    done: int
    total: int
    moments: Moments
    histogram: Histogram


Progress: TypeAlias = Callable[[Snapshot], object]


def tensor_statistics(  # noqa: PLR0913 - all but the tensor have a default
    tensor: Tensor,
    bins: int = DEFAULT_BINS,
    range: Range | None = None,  # noqa: A002 - numpy.histogram's name for it
    workers: int = 1,
    *,
    cancel: Check | None = None,
    progress: Progress | None = None,
    steps: Callable[[int], object] | None = None,
) -> TensorStatistics:
    """Return the statistics of all weights of a tensor; nothing is sampled.

    Args:
        tensor: The tensor.
        bins: Bins of the histogram, 1 to `binning.MAX_BINS`.
        range: First and last edge of the histogram; None for the least and greatest finite weight.
        workers: Threads. The result is the same to the bit for any number.
        cancel: Called before every chunk, in the thread that reads it; what it raises ends the
            work and is passed on.
        progress: Called in the caller's thread, at most every 50 ms, with what is known so far.
        steps: Called there with the weights walked over so far alone, of twice those that the
            tensor has: a fifth quicker than `progress`, which has a histogram made. One of the two.

    Raises:
        FormatError: The file is damaged there, or the type's weights cannot be decoded.
        SourceError: The file changed since it was opened.
        ValueError: There are too few or too many bins, or the range cannot be divided into them.
    """
    check_decodable(tensor)
    given = None if range is None else Binning.of_range(*range, bins)
    check = never if cancel is None else cancel
    watcher: _Watcher | _Steps | None = None
    if progress is not None:
        watcher = _Watcher(progress, 2 * tensor.parameters, bins, range)
    elif steps is not None:
        watcher = _Steps(steps, tensor.parameters)
    keys = None if watcher is None else watcher.keys
    gathering = Fold(lambda: _Gathered(keys), _Gathered.add, _Gathered.combine, WeightReader.chunks)
    watch = None if watcher is None else watcher.first
    moments = fold_parts(tensor, gathering, workers=workers, check=check, watch=watch).moments
    fine = Binning.of_weights(moments.low, moments.high, bins if given is None else DEFAULT_BINS)
    binnings = [fine] if given is None else [fine, given]
    unpacker = ThreadUnpacker(tensor)
    counting = Fold(
        lambda: _Counted(binnings, unpacker),
        _Counted.add,
        _Counted.combine,
        WeightReader.chunks,
        any_order=True,
    )
    again = None if watcher is None else watcher.second
    found = fold_parts(tensor, counting, workers=workers, check=check, watch=again)
    counted = found.counts.totals
    told = dict.fromkeys(PERCENTS, float("nan"))
    if moments.finite:
        low, high = float(fine.edges[0]), float(fine.edges[-1])
        least, greatest = moments.low, moments.high
        points = [min(max(x, least), greatest) for x in percentiles(counted[0], low, high)]
        told = dict(zip(PERCENTS, points, strict=True))
    return TensorStatistics(
        tensor=tensor.name,
        type=tensor.type.name,
        shape=tensor.shape,
        percentiles=told,
        histogram=(fine if given is None else given).histogram(counted[-1]),
        step_error_rms=found.step_error,
        **moments.fields(),
    )


class _Gathered:
    """What the first walk gathers."""

    def __init__(self, keys: provisional.RunningKeys | None) -> None:
        self.moments = RunningMoments()
        self._keys = keys

    def add(self, chunk: Chunk) -> None:
        self.moments.add(chunk.values)
        if self._keys is not None:
            self._keys.add(chunk.values)

    def combine(self, other: _Gathered) -> None:
        self.moments.combine(other.moments)


class _Counted:
    """What the second walk gathers, in any order."""

    def __init__(self, binnings: Sequence[Binning], tools: ThreadUnpacker) -> None:
        self.counts = RunningCounts(binnings)
        self._streams = len(binnings)
        self._tools = tools
        self._scales = RunningScales()

    def add(self, chunk: Chunk) -> None:
        self.counts.add([chunk.values] * self._streams)
        unpacker = self._tools.unpacker
        if unpacker is not None:
            self._scales.add(unpacker.scales(chunk.stored).scales)

    def combine(self, other: _Counted) -> None:
        self.counts.combine(other.counts)
        self._scales.combine(other._scales)

    @property
    def step_error(self) -> float | None:
        """The RMS rounding error that the scales imply; None if the tensor is not quantized."""
        unpacker = self._tools.unpacker
        return None if unpacker is None else level_error(unpacker.levels) * self._scales.rms


class _Steps:
    """Tells somebody how far the two walks are, and nothing else."""

    keys = None

    def __init__(self, steps: Callable[[int], object], parameters: int) -> None:
        self._steps = steps
        self._parameters = parameters

    def first(self, _gathered: _Gathered, done: int) -> None:
        """Tell of the first walk."""
        self._steps(done)

    def second(self, _counted: _Counted, done: int) -> None:
        """Tell of the second walk."""
        self._steps(self._parameters + done)


class _Watcher:
    """Tells somebody how far the two walks are, not too often."""

    def __init__(self, progress: Progress, total: int, bins: int, fixed: Range | None) -> None:
        self._progress = progress
        self._total = total
        self._bins = bins
        self._fixed = fixed
        self._next = 0.0
        self._gathered: _Gathered | None = None
        self.keys = provisional.RunningKeys()

    def first(self, gathered: _Gathered, done: int) -> None:
        """Tell of the first walk."""
        self._gathered = gathered
        self._tell(done)

    def second(self, _counted: _Counted, done: int) -> None:
        """Tell of the second walk, after which the very histogram is known."""
        self._tell(self._total // 2 + done)

    def _tell(self, done: int) -> None:
        now = time.monotonic()
        gathered = self._gathered
        if now < self._next or gathered is None:
            return
        self._next = now + _SNAPSHOT_SECONDS
        low, high = self._fixed or (gathered.moments.low, gathered.moments.high)
        whole = self._fixed is None
        histogram = provisional.histogram(self.keys.counts, low, high, self._bins, whole=whole)
        self._progress(Snapshot(done, self._total, gathered.moments.moments(), histogram))
