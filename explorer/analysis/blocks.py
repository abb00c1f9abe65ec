"""Codes and scales of a quantized tensor, and its expected rounding error without a reference.

A weight with the lowest or the highest level of its type may have been farther out: it is
saturated. Types whose scale comes from the largest weight of a block have one such weight in every
block at least, so that the share says more between tensors of a type than between types.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from explorer.analysis import kernel_api
from explorer.analysis.histogram import (
    Binning,
    Counted,
    Halves,
    Histogram,
    RunningCounts,
    RunningHalves,
    kept,
)
from explorer.analysis.moments import Moments, RunningMoments
from explorer.formats.tensors import Tensor
from explorer.formats.weights import (
    CHUNK_WEIGHTS,
    Span,
    Stored,
    WeightReader,
    reader_of_lines,
    spans_of,
)
from explorer.parallel import Check, PerThread, map_in_order, never
from explorer.quantization.huggingface.layout import block_layout_of
from explorer.quantization.registry import block_layout, has_block_layout


@dataclass(frozen=True, slots=True)
class BlockScales:
    """The scales of some blocks; float weights are scale * level of their code - minimum.

    Attributes:
        scales: float32 [blocks, scales of a block].
        minima: float32 of the same shape; [blocks, 0] if the type has none.
    """

    scales: NDArray[np.float32]
    minima: NDArray[np.float32]


class BlockUnpacker:
    """Unpacks the codes and scales of one tensor's blocks. Owns buffers: for one thread.

    Attributes:
        levels: float32 [codes]: the value of each code before scaling.
        weights_per_scale: Weights that share a scale.
        has_minimum: Whether there are minima.
    """

    def __init__(self, tensor: Tensor) -> None:
        self._count: Callable[[Any], int] = len
        if tensor.companions is not None:
            unit = tensor.companions.layout.unit
            self._layout = block_layout_of(reader_of_lines(tensor.companions))
            self._count = lambda stored: stored.weights // unit
        else:
            self._layout = block_layout(tensor.type.name)
        self.levels = self._layout.levels
        self.weights_per_scale = self._layout.weights_per_scale
        self.has_minimum = self._layout.has_minimum
        self._type = tensor.type
        self._codes = np.empty((0, tensor.type.block_weights), np.uint8)
        self._scales = self._room_for_scales(0)

    def codes(self, stored: Stored) -> NDArray[np.uint8]:
        """Return the codes of blocks, or groups: uint8 [blocks, weights of a block].

        They are overwritten by the next ones.
        """
        count = self._count(stored)
        if count > len(self._codes):
            self._codes = np.empty((count, self._type.block_weights), np.uint8)
        codes = self._codes[:count]
        self._layout.unpack_codes(stored, codes)
        return codes

    def scales(self, stored: Stored) -> BlockScales:
        """Return the scales of blocks, or groups, overwritten by the next ones."""
        count = self._count(stored)
        if count > len(self._scales.scales):
            self._scales = self._room_for_scales(count)
        found = BlockScales(self._scales.scales[:count], self._scales.minima[:count])
        self._layout.unpack_scales(stored, found.scales, found.minima)
        return found

    def _room_for_scales(self, count: int) -> BlockScales:
        width = self._type.block_weights // self.weights_per_scale
        return BlockScales(
            np.empty((count, width), np.float32),
            np.empty((count, width if self.has_minimum else 0), np.float32),
        )


def is_quantized(tensor: Tensor) -> bool:
    """Return whether a tensor's blocks have codes and scales; loads nothing."""
    return tensor.has_readable_parts or has_block_layout(tensor.type.name)


def level_error(levels: NDArray[np.float32]) -> float:
    """Return the RMS error of rounding to the nearest level, in units of the scale.

    Numbers are taken to be spread evenly between the least and the greatest level. In a gap of
    width g the mean square error is g^2 / 12, so that equal steps of 1 give 1/√12.

    Args:
        levels: float32 [codes], in any order; several codes may have one level.
    """
    known = np.unique(levels.astype(np.float64))
    gaps = np.diff(known[np.isfinite(known)])
    if gaps.size == 0:
        return 0.0
    return math.sqrt(float((gaps**3).sum() / gaps.sum()) / 12)


_GROWTH: Final = 5
"""How many times the scales of the first chunk a tensor may have: of normal weights 2 to 4."""
_WEIGHTS_PER_LEVEL: Final = 8  # with fewer, two walks over the weights take as long
_MOST_LEVELS: Final = 2_000_000  # of more the counters leave the cache, as those of Q6_K
_AT_ONCE: Final = 1 << 16  # levels


class RunningLevels:
    """Weights so far, counted by scale and code: all figures follow from that, as scales recur.

    Of 16.8 M normal weights there are 3 different scales in MXFP4, 2,100 in Q8_0, 5,300 in IQ4_XS
    and 19,100 in Q6_K. Any number of threads may add at once.

    Args:
        tensor: Its blocks have codes and scales, but no minima; it has less than 2^32 weights.
        most: Most different scales.

    Attributes:
        is_complete: Whether all weights were counted: False when there are more scales, or one is
            not finite. That depends on nothing else, however many threads there are.
    """

    def __init__(self, tensor: Tensor, most: int) -> None:
        layout = block_layout(tensor.type.name)
        self._levels, self._weights_per_scale = layout.levels, layout.weights_per_scale
        self._greatest = np.float32(np.finfo(np.float32).max / np.nanmax(np.abs(layout.levels)))
        self._table = _table(most)
        self._lock = threading.Lock()  # of these
        self._all: list[NDArray[np.uint32]] = []
        count = kept(self._all, lambda: np.zeros((most, layout.levels.size), np.uint32))
        self._threads = PerThread(lambda: (BlockUnpacker(tensor), count()))
        self.is_complete = True

    def add(self, span: Span, check: Check) -> None:
        """Count the weights of a span."""
        unpacker, counts = self._threads.own
        kernels = kernel_api.kernels()
        for batch in span.batches(check):
            scales = unpacker.scales(batch.stored).scales.reshape(-1)
            rows = np.empty(scales.size, np.int32)
            with self._lock:
                if not (
                    self.is_complete
                    and kernels.find_rows(scales, self._greatest, self._table, rows)
                ):
                    self.is_complete = False
                    return
            codes = unpacker.codes(batch.stored).reshape(rows.size, -1)
            kernels.count_codes(rows, codes, counts)

    @property
    def found(self) -> Counted:
        """What was counted so far; threads at work may have counted more."""
        _, known, keys = self._table
        keys = keys[: known[0]]
        first, *others = [counts[: keys.size] for counts in self._all]
        pieces = partial(self._pieces, keys, sum(others, first))
        figures = np.concatenate([found for *_, found in pieces()])
        moments, scales = RunningMoments(), RunningMoments()
        moments.add_figures(figures)
        weights = figures[:, kernel_api.FINITE].astype(np.int64)
        scales.add_counted(np.sort(keys).view(np.float32), weights // self._weights_per_scale)
        return Counted(moments, scales, pieces)

    def _pieces(
        self, keys: NDArray[np.uint32], counts: NDArray[np.uint32]
    ) -> Iterator[tuple[NDArray[Any], ...]]:
        """Yield weights and how many there are of each, with the statistics of some scales each.

        They come in the order of the scales' bits, which is the same for any number of threads.
        """
        order, step = keys.argsort(), _AT_ONCE // self._levels.size
        room = step * self._levels.size + 1
        values, numbers = np.empty(room, np.float32), np.empty(room, np.int64)
        for at in range(0, max(1, keys.size), step):
            rows = order[at : at + step]
            figures = np.empty((rows.size, kernel_api.FIGURES))
            used = kernel_api.kernels().list_levels(
                rows, keys.view(np.float32), self._levels, counts, (values, numbers, figures)
            )
            yield values[:used], numbers[:used], figures


def _table(most: int) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.uint32]]:
    """Return a table for the kernel `find_rows`."""
    slots = 1 << (2 * most).bit_length()
    known = np.array([0, 33 - slots.bit_length()])
    return np.zeros(slots, np.int32), known, np.empty(most, np.uint32)


def running_levels(tensor: Tensor, check: Check) -> RunningHalves | RunningLevels | None:
    """Return what counts a tensor's weights in one walk; None if that is not worth while.

    Args:
        check: Called before the first chunk is read.
    """
    kind, parameters = tensor.type, tensor.parameters
    if tensor.companions is not None or not parameters:
        return None
    if (kind.block_weights, kind.block_bytes) == (1, 2):
        return RunningHalves(tensor)
    layout = block_layout(kind.name) if has_block_layout(kind.name) else None
    if layout is None or layout.has_minimum or parameters >= 1 << 32:
        return None
    first = min(parameters, CHUNK_WEIGHTS)
    growth = _GROWTH if first < parameters else 1
    most = min(_MOST_LEVELS, parameters // _WEIGHTS_PER_LEVEL) // layout.levels.size // growth
    stored = next(WeightReader(tensor).runs(0, first, check))
    scales = BlockUnpacker(tensor).scales(stored).scales.reshape(-1)
    table, rows = _table(max(1, most)), np.empty(scales.size, np.int32)
    if not kernel_api.kernels().find_rows(scales, np.float32(np.inf), table, rows):
        return None
    return RunningLevels(tensor, int(table[1][0]) * growth)


@dataclass(frozen=True, slots=True)
class CodeShares:
    """Counts of codes.

    Attributes:
        count: Number of weights.
        saturated: Weights with the least or the greatest level of the type.
        zeros: Weights whose level is 0, which is the value 0 if the type has no minimum, and
            otherwise the least value of the block.
    """

    count: int
    saturated: int
    zeros: int

    @property
    def saturated_share(self) -> float:
        """Share of saturated weights, 0 to 1; NaN of none."""
        return self.saturated / self.count if self.count else float("nan")


def code_shares(tensor: Tensor, workers: int = 1, cancel: Check | None = None) -> CodeShares | None:
    """Return how many codes of a tensor are saturated or zero; None if it is not quantized.

    Args:
        cancel: Called before every run of blocks, in the thread that reads it; what it raises is
            passed on.

    Raises:
        FormatError: The file is damaged there, or the type's weights cannot be decoded.
        SourceError: The file changed since it was opened.
    """
    if not is_quantized(tensor):
        return None
    unpackers = PerThread(lambda: BlockUnpacker(tensor))
    counts = CodeCounts(unpackers.own.levels)

    def count(span: Span, check: Check) -> None:
        for stored in span.runs(check):
            counts.add(unpackers.own.codes(stored))

    with map_in_order(spans_of(tensor), count, workers=workers, check=cancel or never) as found:
        for _ in found:
            pass
    return counts.shares()


def saturated_codes(levels: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Return a mask of the codes with the lowest or the highest level, bool [codes].

    Args:
        levels: float32 [codes], of which one at least is finite.
    """
    known = levels[np.isfinite(levels)]
    found: NDArray[np.bool_] = (levels == known.min()) | (levels == known.max())
    return found


class CodeCounts(Halves):
    """Codes so far, counted two at once; any number of threads may add at once.

    Args:
        levels: float32 [codes]: the value of each code before scaling.
    """

    def __init__(self, levels: NDArray[np.float32]) -> None:
        super().__init__()
        self._levels = levels
        self._odd: list[int] = []  # codes without another beside them

    def add(self, codes: NDArray[np.uint8]) -> None:
        """Count codes, uint8 of any shape, C-contiguous."""
        codes = codes.reshape(-1)
        pairs = codes[: codes.size // 2 * 2].reshape(-1, 2)
        self.add_halves(pairs)
        self._odd += codes[pairs.size :].tolist()

    def combine(self, other: CodeCounts) -> None:
        """Add what another one counted with the same levels."""
        self._all += other._all
        self._odd += other._odd

    @property
    def counts(self) -> NDArray[np.int64]:
        """How often each code is used, int64 [codes]."""
        pairs = self.numbers.reshape(_CODES, _CODES)
        odd = np.bincount(np.array(self._odd, np.intp), minlength=_CODES)
        found: NDArray[np.int64] = pairs.sum(axis=0) + pairs.sum(axis=1) + odd
        return found[: self._levels.size]

    def shares(self) -> CodeShares:
        counts, ends = self.counts, saturated_codes(self._levels)
        return CodeShares(
            *(int(n.sum()) for n in (counts, counts[ends], counts[self._levels == 0]))
        )


_CODES = 256  # a code is a byte at most


@dataclass(frozen=True, slots=True)
class Distribution:
    """The distribution of some numbers.

    Attributes:
        moments: Their statistics.
        histogram: The finite ones by equal bins, as `numpy.histogram` counts.
    """

    moments: Moments
    histogram: Histogram


@dataclass(frozen=True, slots=True)
class BlockStatistics:
    """Codes, scales and minima of a quantized tensor.

    Attributes:
        levels: float32 [codes]: the value of each code before scaling.
        code_counts: int64 [codes]: how many weights use each code.
        weights_per_scale: Weights that share a scale.
        scales: Effective block scales.
        minima: Effective minima, which are subtracted; None if the type has none.
    """

    levels: NDArray[np.float32]
    code_counts: NDArray[np.int64]
    weights_per_scale: int
    scales: Distribution
    minima: Distribution | None


def block_statistics(
    tensor: Tensor, bins: int = 256, workers: int = 1, cancel: Check | None = None
) -> BlockStatistics | None:
    """Return statistics of a tensor's codes and scales; None if it is not quantized.

    Args:
        bins: Bins of the histograms.
        workers: Threads. The result is the same to the bit for any number.
        cancel: Called before every run of blocks, in the thread that reads it; what it raises is
            passed on.

    Raises:
        FormatError: The file is damaged there, or the type's weights cannot be decoded.
        SourceError: The file changed since it was opened.
    """
    if not is_quantized(tensor):
        return None
    check = cancel or never
    unpackers = PerThread(lambda: BlockUnpacker(tensor))
    unpacker = unpackers.own
    known = [RunningMoments() for _ in range(1 + unpacker.has_minimum)]
    codes = CodeCounts(unpacker.levels)

    def gather(span: Span, check: Check) -> list[RunningMoments]:
        moments = [RunningMoments() for _ in known]
        for stored in span.runs(check):
            codes.add(unpackers.own.codes(stored))
            for one, stream in zip(moments, _streams(unpackers.own.scales(stored)), strict=True):
                one.add(stream)
        return moments

    with map_in_order(spans_of(tensor), gather, workers=workers, check=check) as gathered:
        for _, found in gathered:
            for one, more in zip(known, found, strict=True):
                one.combine(more)
    binnings = [Binning.of_weights(one.low, one.high, bins) for one in known]
    counts = RunningCounts(binnings)

    def count(span: Span, check: Check) -> None:
        for stored in span.runs(check):
            counts.add(_streams(unpackers.own.scales(stored)))

    with map_in_order(spans_of(tensor), count, workers=workers, check=check) as counted:
        for _ in counted:
            pass
    scales, *minima = [
        Distribution(one.moments(), binning.histogram(total))
        for one, binning, total in zip(known, binnings, counts.totals, strict=True)
    ]
    return BlockStatistics(
        levels=unpacker.levels,
        code_counts=codes.counts,
        weights_per_scale=unpacker.weights_per_scale,
        scales=scales,
        minima=minima[0] if minima else None,
    )


def _streams(found: BlockScales) -> list[NDArray[np.float32]]:
    """Return scales, and minima if there are any, as flat arrays."""
    return [part.reshape(-1) for part in (found.scales, found.minima) if part.shape[1]]
