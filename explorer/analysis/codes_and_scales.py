"""What a quantized tensor's blocks are made of: how often each code is used, how scales spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from explorer.analysis import kernel_fields
from explorer.analysis.binning import Binning, Histogram, RunningCounts
from explorer.analysis.moments import Moments, RunningMoments
from explorer.analysis.remembering import remembering
from explorer.analysis.splitting import BlockScales, Splitter, is_quantized
from explorer.formats.tensors import Tensor
from explorer.formats.weights import Fold, Stored, WeightReader, fold_parts
from explorer.parallel import Check, never

_CODES = 256  # a code is a byte at most


@dataclass(frozen=True, slots=True)
class Distribution:
    """How numbers spread.

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
        tensor: The tensor.
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
    check = never if cancel is None else cancel
    tensor = remembering(tensor)
    fold = Fold(lambda: _Gathered(tensor), _Gathered.add, _Gathered.combine, WeightReader.runs)
    found = fold_parts(tensor, fold, workers=workers, check=check)
    binnings = [Binning.of_weights(one.low, one.high, bins) for one in found.moments]
    counting = Fold(
        lambda: _Counted(tensor, binnings),
        _Counted.add,
        _Counted.combine,
        WeightReader.runs,
        any_order=True,
    )
    counted = fold_parts(tensor, counting, workers=workers, check=check).counts
    spread = [
        Distribution(one.moments(), binning.histogram(counts))
        for one, binning, counts in zip(found.moments, binnings, counted.totals, strict=True)
    ]
    splitter = found.splitter
    return BlockStatistics(
        levels=splitter.levels,
        code_counts=found.codes[: splitter.levels.size],
        weights_per_scale=splitter.weights_per_scale,
        scales=spread[0],
        minima=spread[1] if splitter.has_minimum else None,
    )


class _Gathered:
    """Codes counted, and statistics of scales and minima."""

    def __init__(self, tensor: Tensor) -> None:
        self.splitter = Splitter(tensor)
        self._codes = np.zeros((2, _CODES), np.int64)
        self.moments = [RunningMoments() for _ in range(1 + self.splitter.has_minimum)]

    def add(self, stored: Stored) -> None:
        codes = self.splitter.codes(stored).reshape(-1)
        kernel_fields.kernels().count_codes(codes, self._codes[0], self._codes[1])
        streams = _streams(self.splitter.scales(stored))
        for moments, stream in zip(self.moments, streams, strict=True):
            moments.add(stream)

    @property
    def codes(self) -> NDArray[np.int64]:
        """How often each code is used, int64 [256]."""
        counts: NDArray[np.int64] = self._codes.sum(axis=0)
        return counts

    def combine(self, other: _Gathered) -> None:
        self._codes += other._codes
        for moments, more in zip(self.moments, other.moments, strict=True):
            moments.combine(more)


class _Counted:
    """Scales and minima counted by bin."""

    def __init__(self, tensor: Tensor, binnings: Sequence[Binning]) -> None:
        self._splitter = Splitter(tensor)
        self.counts = RunningCounts(binnings)

    def add(self, stored: Stored) -> None:
        self.counts.add(_streams(self._splitter.scales(stored)))

    def combine(self, other: _Counted) -> None:
        self.counts.combine(other.counts)


def _streams(found: BlockScales) -> list[NDArray[np.float32]]:
    """Return scales, and minima if there are any, as flat arrays."""
    return [part.reshape(-1) for part in (found.scales, found.minima) if part.shape[1]]
