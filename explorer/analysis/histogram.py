"""Histograms with the very counts of `numpy.histogram`, and a finer one from the same walk.

numpy places a float32 value by ``(x - first) / (last - first) * bins`` in float32, and then moves
it to the bin that the edges (float32 as well, from `numpy.linspace`) give, if it is another one
(numpy/lib/_histograms_impl.py, `histogram`, "Fast algorithm for equal bins"). The edges here are
made by numpy itself, and near them the kernel does the same arithmetic and the same correction;
elsewhere any arithmetic finds the bin. Besides, it counts equal parts of each bin, of which the
percentiles are made.

numpy refuses a range that float32 cannot divide into so many bins. Then edges and arithmetic are
float64, as if numpy had got the same weights as float64; where even that fails (a constant beyond
2^53) the bins reach a millionth of the value to both sides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from explorer.analysis import kernel_api
from explorer.analysis.kernel_api import PIECE
from explorer.analysis.moments import RunningMoments
from explorer.formats.tensors import Tensor
from explorer.formats.weights import Coded, Span, Values, spans_of
from explorer.parallel import Check, PerThread, map_in_order, never
from explorer.quantization.registry import Blocks, decoder, read_only

FINE_BINS: Final = 1 << 16
"""Least number of parts that a range is divided into."""

MAX_BINS: Final = 1 << 20
"""Most bins of a histogram; float32 distinguishes no more than 2^24 parts of a range."""


@dataclass(frozen=True)
class Histogram:
    """Counts of weights in equal bins, half-open but for the last one.

    Attributes:
        low: The first edge, as it was asked for; `edges` has it as a float32, like the weights.
        high: The last edge.
        edges: float64 [bins + 1].
        counts: int64 [bins].
    """

    low: float
    high: float
    edges: NDArray[np.float64]
    counts: NDArray[np.int64]


Made = TypeVar("Made")

Counters: TypeAlias = tuple[NDArray[np.uint16], NDArray[np.int64]]
"""Counts of parts, both [bins * parts]: small numbers, and what they have no room for."""


class Binning:
    """A division of a range into equal bins, and of each bin into equal parts.

    Attributes:
        edges: float32 or float64 [bins + 1].
        bins: Number of bins.
        parts: Parts of each bin, a power of two, so that there are at least FINE_BINS in all.
    """

    def __init__(self, edges: NDArray[Any], asked: tuple[float, float] | None = None) -> None:
        self.edges = edges
        self._asked = asked or (float(edges[0]), float(edges[-1]))
        self.bins = edges.size - 1
        self.parts = 1 << max(0, (FINE_BINS - 1) // self.bins).bit_length()

    @classmethod
    def of_weights(cls, low: float, high: float, bins: int) -> Binning:
        """Divide the range of weights, as numpy does where no range is given.

        Args:
            low: The least weight, a float32; inf if there is none.
            high: The greatest weight.
            bins: Number of bins, 1 to MAX_BINS.

        Raises:
            ValueError: There are too few or too many bins.
        """
        _check_bins(bins)
        if not low <= high:
            return cls(np.linspace(0.0, 1.0, bins + 1, dtype=np.float32))  # as numpy, of nothing
        edges = _edges(np.float32(low), np.float32(high), bins, np.dtype(np.float32))
        if edges is None:
            edges = _edges(low, high, bins, np.dtype(np.float64))
        if edges is None:
            reach = max(abs(low), abs(high)) * 2.0**-20
            edges = _edges(low - reach, high + reach, bins, np.dtype(np.float64))
        assert edges is not None  # float64 distinguishes 2^20 bins of 2^-20 of a value
        return cls(edges)

    @classmethod
    def of_range(cls, low: float, high: float, bins: int) -> Binning:
        """Divide a given range, as numpy does.

        Raises:
            ValueError: It is empty, not finite, or too narrow for so many bins, or these are not
                1 to MAX_BINS.
        """
        _check_bins(bins)
        for kind in (np.float32, np.float64):
            edges = _edges(low, high, bins, np.dtype(kind))
            if edges is not None:
                return cls(edges, (low, high) if low < high else None)
        raise ValueError(f"{low:g} to {high:g} cannot be divided into {bins} bins")

    @cached_property
    def _geometry(self) -> NDArray[Any]:
        """The argument `geometry` of `count_bins`, in the edges' type.

        A place that the kernel works out is wrong by up to 4 roundings of a number up to `bins`,
        and an edge by 2 of those and one of the greatest edge. Twice as much is taken, and
        everything where numbers get subnormal, because these round coarsely.
        """
        kind = np.finfo(self.edges.dtype)
        width = float(self.edges[-1]) - float(self.edges[0])
        greatest = max(abs(float(self.edges[0])), abs(float(self.edges[-1])))
        margin = float(kind.eps) * self.bins * (6 + greatest / width)
        if width / (self.bins * self.parts) < float(kind.tiny) * FINE_BINS:
            margin = 1.0
        steps = 1 << min(
            22, 30 - self.bins.bit_length()
        )  # of a bin, of which all fit into an int32
        near = min(int(margin * steps) + 1, steps)
        shift = (steps // self.parts).bit_length() - 1
        outside = -0.5 * steps, (self.bins + 0.5) * steps
        with np.errstate(over="ignore"):  # then the margin is everything
            scale = np.array(self.bins / width, self.edges.dtype) * self.edges.dtype.type(steps)
        found = [scale, *outside, steps, shift, near, self.bins, 1]
        return np.array(found, self.edges.dtype)

    def count(
        self, coded: Coded, counters: Counters, numbers: NDArray[np.int64] | None = None
    ) -> None:
        """Add weights to the counts of parts; those outside of the range are left out.

        Args:
            numbers: How often each of them occurs, if not once.
        """
        room = np.empty(PIECE, np.float32), np.empty(2 * PIECE, np.int32)
        binning = self.edges, self._geometry
        kernel_api.kernels().count_bins(coded, numbers, binning, room, counters)

    def counts(self, counted: Counted) -> NDArray[np.int64]:
        """Return the counts of parts, int64 [bins * parts]."""
        counters = self.counters()
        for values, numbers, *_ in counted.pieces():
            self.count(Coded.of_values(values), counters, numbers)
        return counters[1]

    def counters(self) -> Counters:
        """Return counts of parts with no weights counted."""
        return _counters(self.bins * self.parts)

    def histogram(self, counts: NDArray[np.int64]) -> Histogram:
        """Return the counts of bins, from counts of all parts."""
        together = counts.reshape(self.bins, self.parts).sum(axis=1)
        return Histogram(*self._asked, self.edges.astype(np.float64), together)


def _counters(size: int) -> Counters:
    return np.zeros(size, np.uint16), np.zeros(size, np.int64)


def _total(all_counters: Sequence[Counters]) -> NDArray[np.int64]:
    total = np.zeros(all_counters[0][1].size, np.int64)
    for few, many in tuple(all_counters):
        total += many
        total += few
    return total


def kept(made: list[Made], make: Callable[[], Made]) -> Callable[[], Made]:
    """Return a function that makes one for each thread, and keeps all of them in the list."""

    def make_one() -> Made:
        made.append(make())
        return made[-1]

    return make_one


class RunningCounts:
    """Weights so far, counted by the parts of binnings; any number of threads may add at once.

    Args:
        binnings: To each belongs its own stream of weights.
    """

    def __init__(self, binnings: Sequence[Binning]) -> None:
        self._binnings = binnings
        self._all: list[list[Counters]] = []
        self._threads = PerThread(kept(self._all, lambda: [one.counters() for one in binnings]))

    def add(self, streams: Sequence[Values]) -> None:
        """Count weights, a run of float32 for each binning."""
        self.add_coded([Coded.of_values(values) for values in streams])

    def add_coded(self, streams: Sequence[Coded]) -> None:
        """Count weights, a run for each binning."""
        for binning, coded, counters in zip(
            self._binnings, streams, self._threads.own, strict=True
        ):
            binning.count(coded, counters)

    @property
    def totals(self) -> list[NDArray[np.int64]]:
        """Counts of all threads, which are at rest: int64 [bins * parts] for each binning."""
        return [_total(of_one) for of_one in zip(*self._all, strict=True)]


class Counted(NamedTuple):
    """A tensor's weights, and how often each occurs.

    Attributes:
        moments: Their statistics.
        scales: Those of the scales of their blocks.
        pieces: Yields different ones, float32 [n], and how many there are of each, int64 [n].
    """

    moments: RunningMoments
    scales: RunningMoments
    pieces: Callable[[], Iterator[tuple[NDArray[Any], ...]]]


class Halves:
    """Numbers of 16 bits so far; any number of threads may count at once."""

    def __init__(self) -> None:
        self._all: list[Counters] = []
        self._threads = PerThread(kept(self._all, lambda: _counters(kernel_api.HALVES)))

    def add_halves(self, blocks: Blocks) -> None:
        """Count numbers, uint8 [n, 2], little-endian."""
        kernel_api.kernels().count_halves(read_only(blocks), *self._threads.own)

    @property
    def numbers(self) -> NDArray[np.int64]:
        """How many there are of each, int64 [HALVES]; a thread at work may have counted more."""
        return _total(self._all)


class RunningHalves(Halves):
    """Weights of 16 bits so far: all figures follow from how many there are of each number."""

    is_complete = True

    def __init__(self, tensor: Tensor) -> None:
        super().__init__()
        bits = np.arange(kernel_api.HALVES, dtype="<u2").view(np.uint8).reshape(-1, 2)
        values = np.empty((kernel_api.HALVES, 1), np.float32)
        decoder(tensor.type.name)(bits, values)
        self._values = values.reshape(-1)

    def add(self, span: Span, check: Check) -> None:
        """Count the weights of a span."""
        for batch in span.batches(check):
            assert isinstance(batch.stored, np.ndarray)  # blocks of one weight each
            self.add_halves(batch.stored)

    @property
    def found(self) -> Counted:
        """What was counted so far; threads at work may have counted more."""
        numbers = self.numbers
        used = np.flatnonzero(numbers)
        piece = self._values[used], numbers[used]
        moments = RunningMoments()
        moments.add_counted(*piece)
        return Counted(moments, RunningMoments(), lambda: iter([piece]))


def _check_bins(bins: int) -> None:
    if not 1 <= bins <= MAX_BINS:
        raise ValueError(f"a histogram has 1 to {MAX_BINS:,} bins, not {bins}")


def _edges(low: Any, high: Any, bins: int, kind: np.dtype[Any]) -> NDArray[Any] | None:
    """Return the edges that numpy makes for weights of a type, or None if it cannot."""
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        return None
    try:
        with np.errstate(all="ignore"):
            edges = np.histogram_bin_edges(np.empty(0, kind), bins, (low, high))
            width = edges[-1] - edges[0]
    except ValueError:  # the range is too narrow for so many bins
        return None
    return edges if np.isfinite(width) and np.isfinite(edges).all() and width > 0 else None


def count_weights(
    tensor: Tensor, counts: RunningCounts, workers: int = 1, check: Check = never
) -> Generator[int, None, None]:
    """Count a tensor's weights by bin; yield how many were walked over so far.

    Another histogram of weights whose statistics are known needs no more than this.

    Args:
        tensor: The tensor.
        counts: Gets the counts; of one binning.
        workers: Threads. The counts are the same for any number.
        check: Called before every chunk, in the thread that reads it; what it raises is passed on.

    Raises:
        FormatError: The file is damaged there, or the type's weights cannot be decoded.
        SourceError: The file changed since it was opened.
    """

    def count(span: Span, check: Check) -> None:
        for batch in span.batches(check):
            counts.add_coded([batch.coded])

    with map_in_order(spans_of(tensor), count, workers=workers, check=check) as counted:
        for span, _ in counted:
            yield span.stop


# A histogram of weights whose range is not known yet, good enough to look at.
#
# Weights are counted by a key, the upper half of their float32 bits: sign, exponent and seven
# bits of mantissa. Whatever range they turn out to have, bins are filled from these counts, where
# the weights of a key are taken to be spread over the numbers that share it.


_HALF = kernel_api.HALVES // 2
_FINITE = 0x7F80  # keys of one sign that are finite numbers


class RunningKeys(Halves):
    """Weights so far, counted by key."""

    def add(self, coded: Coded) -> None:
        """Count weights."""
        kernel_api.kernels().count_keys(coded, np.empty(PIECE, np.float32), *self._threads.own)

    def histogram(self, low: float, high: float, bins: int, *, whole: bool) -> Histogram:
        """Return a histogram from `low` to `high` whose counts are approximate.

        Args:
            whole: Whether the edges are the least and the greatest weight: then the sum of the
                counts is right.
        """
        if not low < high:
            low, high = (low - 0.5, high + 0.5) if low == high else (0.0, 1.0)
        edges = np.linspace(low, high, bins + 1)
        # Borders between keys, in the order of numbers: of -inf, …, of -0 and 0, …, of inf.
        borders = (np.arange(_FINITE + 1, dtype=np.uint32) << 16).view(np.float32)
        borders = np.concatenate((-borders[::-1], borders)).astype(np.float64)
        counts = self.numbers
        negative = counts[_HALF : _HALF + _FINITE][::-1]
        weights = np.concatenate((negative, [0], counts[:_FINITE]))
        below = np.concatenate(([0], np.cumsum(weights)))
        at_edges = np.rint(np.interp(edges, borders, below)).astype(np.int64)
        if whole:
            at_edges[0], at_edges[-1] = 0, below[-1]
        return Histogram(low, high, edges, np.diff(at_edges))
