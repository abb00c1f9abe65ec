"""Chunks taken apart into codes, scales and minima, and what the scales say of the rounding."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.analysis import kernel_fields
from explorer.formats.tensors import Tensor
from explorer.formats.weights import Stored
from explorer.quantization.grouped import (
    GroupAnatomy,
    group_anatomy,
    take_group_codes,
    take_group_scales,
)
from explorer.quantization.registry import Anatomy, anatomy, has_anatomy


@dataclass(frozen=True, slots=True)
class BlockScales:
    """The scales of some blocks; float weights are scale * level of their code - minimum.

    Attributes:
        scales: float32 [blocks, scales of a block].
        minima: float32 of the same shape; [blocks, 0] if the type has none.
    """

    scales: NDArray[np.float32]
    minima: NDArray[np.float32]


class Splitter:
    """Takes the blocks of one tensor apart. Owns buffers: one thread, one splitter.

    Attributes:
        levels: float32 [codes]: the value of each code before scaling.
        weights_per_scale: Weights that share a scale.
        has_minimum: Whether there are minima.
    """

    def __init__(self, tensor: Tensor) -> None:
        found: Anatomy | GroupAnatomy
        self._count: Callable[[Any], int]
        self._take_codes: Callable[[Any, NDArray[np.uint8]], None]
        self._take_scales: Callable[[Any, NDArray[np.float32], NDArray[np.float32]], None]
        if tensor.grouped is None:
            found, self._count = anatomy(tensor.type.name), len
            self._take_codes, self._take_scales = found.take_codes, found.take_scales
        else:
            layout = tensor.grouped.layout
            found, self._count = group_anatomy(layout), layout.count
            self._take_codes = partial(take_group_codes, layout)
            self._take_scales = partial(take_group_scales, layout)
        self.levels = found.levels
        self.weights_per_scale = found.weights_per_scale
        self.has_minimum = found.has_minimum
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
        self._take_codes(stored, codes)
        return codes

    def scales(self, stored: Stored) -> BlockScales:
        """Return the scales of blocks, or groups, overwritten by the next ones."""
        count = self._count(stored)
        if count > len(self._scales.scales):
            self._scales = self._room_for_scales(count)
        found = BlockScales(self._scales.scales[:count], self._scales.minima[:count])
        self._take_scales(stored, found.scales, found.minima)
        return found

    def _room_for_scales(self, count: int) -> BlockScales:
        width = self._type.block_weights // self.weights_per_scale
        return BlockScales(
            np.empty((count, width), np.float32),
            np.empty((count, width if self.has_minimum else 0), np.float32),
        )


def is_quantized(tensor: Tensor) -> bool:
    """Tell whether a tensor's blocks can be taken apart; loads nothing."""
    return tensor.grouped is not None or has_anatomy(tensor.type.name)


def splitter_of(tensor: Tensor) -> Splitter | None:
    """Return what takes a tensor's blocks apart; None if it is not quantized."""
    return Splitter(tensor) if is_quantized(tensor) else None


class ThreadSplitter(threading.local):
    """A splitter for each thread that asks, made when it first does.

    Attributes:
        splitter: The thread's own; None if the tensor is not quantized.
    """

    def __init__(self, tensor: Tensor) -> None:  # Python calls it again in each thread
        super().__init__()
        self.splitter = splitter_of(tensor)


def level_error(levels: NDArray[np.float32]) -> float:
    """Return the RMS error of rounding to the nearest level, in units of the scale.

    Numbers are taken to be spread evenly between the least and the greatest level. In a gap of
    width g the mean square error is g^2 / 12, so that equal steps of 1 give 1/√12.

    Args:
        levels: float32 [codes], in any order; several codes may have one level.
    """
    return _level_error(levels.tobytes())


@lru_cache(maxsize=64)  # a type's levels are those of all its tensors
def _level_error(levels: bytes) -> float:
    known = np.unique(np.frombuffer(levels, np.float32).astype(np.float64))
    gaps = np.diff(known[np.isfinite(known)])
    if gaps.size == 0:
        return 0.0
    return math.sqrt(float((gaps**3).sum() / gaps.sum()) / 12)


class RunningScales:
    """Mean square of the finite block scales so far.

    Sums of runs are kept apart until the end, and then added exactly: their order changes nothing.
    """

    def __init__(self) -> None:
        self._squares: list[float] = []  # of each run
        self._count = 0

    def add(self, scales: NDArray[np.float32]) -> None:
        """Add a run of scales, each of which holds for as many weights as the others."""
        sums = np.zeros(2, np.float64)
        kernel_fields.kernels().sum_squares(scales.reshape(-1), sums)
        self._squares.append(float(sums[0]))
        self._count += int(sums[1])

    def combine(self, other: RunningScales) -> None:
        """Add other scales."""
        self._squares += other._squares
        self._count += other._count

    @property
    def rms(self) -> float:
        """Root of the mean square; NaN of none."""
        return math.sqrt(math.fsum(self._squares) / self._count) if self._count else math.nan
