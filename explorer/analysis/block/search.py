"""Blocks worth looking at: the one with the largest scale, and the one that lost most."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from explorer.analysis.block.beside import parts_of
from explorer.analysis.errors.lockstep import RUN_WEIGHTS, Run
from explorer.analysis.errors.weights_pair import WeightsPair
from explorer.analysis.matching.views import TensorPart
from explorer.analysis.splitting import ThreadSplitter
from explorer.errors import ExplorerError
from explorer.formats.tensors import Tensor
from explorer.formats.weights import Fold, Stored, WeightReader, fold_parts
from explorer.parallel import Check, Pool, map_in_order, never

Progress = Callable[[int], object]
"""Called in the caller's thread with the number of weights done."""


@dataclass(frozen=True, slots=True)
class FoundBlock:
    """A block, and why it was chosen.

    Attributes:
        index: Number of the block in its tensor; one of them if several are equal.
        figure: Its scale, or its RMS error.
    """

    index: int
    figure: float


def largest_scale(
    tensor: Tensor, workers: int = 1, check: Check = never, progress: Progress | None = None
) -> FoundBlock | None:
    """Find the block with the largest absolute scale; one that is not finite counts as larger.

    Args:
        tensor: A quantized tensor.
        workers: Threads. The result is the same for any number.
        check: Called before every run, in the thread that reads it; raises to stop.
        progress: Told how far it is.

    Returns:
        The block; None of an empty tensor.

    Raises:
        FormatError: The file is damaged there, or the type's weights cannot be decoded.
        SourceError: The file changed since it was opened.
    """
    own = ThreadSplitter(tensor)

    def step(largest: _Largest, stored: Stored) -> None:
        assert own.splitter is not None
        largest.add(own.splitter.scales(stored).scales)

    def watch(_largest: _Largest, done: int) -> None:
        if progress is not None:
            progress(done)

    fold = Fold(_Largest, step, _Largest.combine, WeightReader.runs)
    return fold_parts(tensor, fold, workers=workers, check=check, watch=watch).found


class _Largest:
    """The largest scale of a run of blocks, counted from its start.

    Attributes:
        found: Its block; None of no blocks.
    """

    def __init__(self) -> None:
        self.found: FoundBlock | None = None
        self._blocks = 0

    def add(self, scales: NDArray[np.float32]) -> None:
        """Add blocks, by their scales, float32 [blocks, scales of a block]."""
        sizes = np.abs(scales)
        sizes[~np.isfinite(sizes)] = np.inf
        place = int(sizes.argmax())
        self._take(FoundBlock(place // scales.shape[1], float(scales.reshape(-1)[place])))
        self._blocks += len(scales)

    def combine(self, other: _Largest) -> None:
        """Add the blocks that follow."""
        if other.found is not None:
            self._take(other.found)
        self._blocks += other._blocks

    def _take(self, later: FoundBlock) -> None:
        """Keep a block, counted behind those so far, if its scale is larger."""
        if self.found is None or _size(later.figure) > _size(self.found.figure):
            self.found = FoundBlock(self._blocks + later.index, later.figure)


def _size(figure: float) -> float:
    return abs(figure) if math.isfinite(figure) else math.inf


def worst_block(
    pairs: Sequence[WeightsPair],
    tensor: Tensor,
    workers: int = 1,
    check: Check = never,
    progress: Progress | None = None,
) -> FoundBlock | None:
    """Find the block with the greatest RMS error; pairs with a weight that is not finite count 0.

    Args:
        pairs: Pairs that hold weights of the tensor; see `beside.read_beside`.
        tensor: A quantized tensor.
        workers: Threads. The result is the same for any number.
        check: Called before every run, in the thread that reads it; raises to stop.
        progress: Told how far it is.

    Returns:
        The block; None if nothing of the tensor is compared.

    Raises:
        ExplorerError: The pairs have the weights in an order that takes blocks apart.
        FormatError: A file is damaged there, or a type's weights cannot be decoded.
        SourceError: A file changed since it was opened.
    """
    unit = tensor.type.block_weights
    best: FoundBlock | None = None
    done = 0
    for pair in pairs:
        for first, part in parts_of(pair, tensor):
            _check_whole_blocks(part, first, unit)
            with closing(_worst_of_runs(pair, first, part, workers, check)) as results:
                for run, place, square in results:
                    done += run[1]
                    if progress is not None:
                        progress(done)
                    figure = math.sqrt(square / unit)
                    index = _flat(part, run[0] - first + place * unit) // unit
                    if best is None or (-figure, index) < (-best.figure, best.index):
                        best = FoundBlock(index, figure)
    return best


def _worst_of_runs(
    pair: WeightsPair, first: int, part: TensorPart, workers: int, check: Check
) -> Generator[tuple[Run, int, float], None, None]:
    """Yield each run with its worst block, counted from the run's start, and its sum of squares."""
    unit = part.tensor.type.block_weights
    pool = Pool(pair.pairs)
    stop = first + part.parameters
    runs = ((start, min(RUN_WEIGHTS, stop - start)) for start in range(first, stop, RUN_WEIGHTS))

    def work(run: Run, check: Check) -> tuple[Run, int, float]:
        check()
        with pool.one() as reader:
            reference, candidate = reader.read(run, check)
            with np.errstate(invalid="ignore"):  # inf - inf
                errors = candidate.astype(np.float64)
                errors -= reference
        errors[~np.isfinite(errors)] = 0
        blocks = errors.reshape(-1, unit)
        squares = np.einsum("ij,ij->i", blocks, blocks)
        place = int(squares.argmax())
        return run, place, float(squares[place])

    return map_in_order(runs, work, workers=workers, check=check)


def _check_whole_blocks(part: TensorPart, first: int, unit: int) -> None:
    """Raise unless each block's weights follow each other in the part, as they are stored."""
    whole = part.collapsed()
    size, stride = (whole.shape[-1], whole.strides[-1]) if whole.shape else (1, 1)
    outer = whole.strides[:-1]
    if stride != 1 or any(each % unit for each in (first, part.start, size, *outer)):
        raise ExplorerError(
            "the worst block cannot be searched for: the reference has the weights of a block "
            "in several places"
        )


def _flat(part: TensorPart, place: int) -> int:
    """Return the flat index in its tensor of a weight of a part."""
    if not part.shape:
        return part.start
    numbers = np.unravel_index(place, part.shape)
    return part.start + sum(
        int(number) * stride for number, stride in zip(numbers, part.strides, strict=True)
    )
