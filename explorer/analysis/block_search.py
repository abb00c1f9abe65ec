"""Search for blocks: the largest scale, the largest error, and the reference of given weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from explorer.analysis.blocks import BlockUnpacker
from explorer.analysis.errors.pairs import RUN_WEIGHTS, RoundedPair, Run, WeightsPair
from explorer.analysis.matching.views import TensorPart, row_major
from explorer.errors import ExplorerError
from explorer.formats.tensors import Tensor
from explorer.formats.weights import Span, spans_of
from explorer.parallel import Check, PerThread, map_in_order, never

Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ComparedBlock:
    """Weights of a reference and of a candidate.

    Attributes:
        pair: Whose they are.
        reference: float32 [weights].
        candidate: float32 [weights]; its error is candidate - reference.
    """

    pair: WeightsPair
    reference: NDArray[np.float32]
    candidate: NDArray[np.float32]

    @property
    def errors(self) -> NDArray[np.float64]:
        """Error of each weight, float64 [weights]."""
        with np.errstate(invalid="ignore"):  # inf - inf
            return self.candidate.astype(np.float64) - self.reference

    @property
    def is_rounding(self) -> bool:
        """Whether the tensor is the reference, and the candidate what rounding leaves of it."""
        return isinstance(self.pair, RoundedPair)


def read_compared(
    pairs: Sequence[WeightsPair], tensor: Tensor, run: Run, check: Check = never
) -> ComparedBlock:
    """Read the reference and the candidate of a run of a tensor's weights.

    A pair may have the tensor in another order than it is stored in (a permutation, a slice of a
    fused tensor): each weight is looked up, and they are read in as few runs as possible.

    Args:
        pairs: Pairs that hold weights of the tensor.
        tensor: The tensor; in a pair of two models, the candidate's.
        run: Flat index of the first weight in the tensor, and number of weights.
        check: Called before every chunk; raises to stop.

    Raises:
        ExplorerError: No pair holds all of them, or a file is damaged there.
    """
    flat = np.arange(run[0], run[0] + run[1], dtype=np.int64)
    for pair in pairs:
        places = _places(pair, tensor, flat)
        if (places >= 0).all():
            reference = np.empty(run[1], np.float32)
            candidate = reference.copy()
            reader = pair.reader()
            for first, stop in _runs(places):
                check()
                both = reader.read((int(places[first]), stop - first), check)
                reference[first:stop], candidate[first:stop] = both
            return ComparedBlock(pair, reference, candidate)
    raise ExplorerError("the reference has no tensor that these weights belong to")


def parts_of(pair: WeightsPair, tensor: Tensor) -> Iterator[tuple[int, TensorPart]]:
    """Yield the parts of a pair's candidate that come from a tensor, with their place in the pair.

    Of a tensor that is rounded, this is the whole.
    """
    first = 0
    for part in pair.candidate.parts:
        if part.tensor is tensor:
            yield first, part
        first += part.parameters


def _places(pair: WeightsPair, tensor: Tensor, flat: Places) -> Places:
    """Return where weights of the tensor are in the pair, -1 where they are not; int64 [n]."""
    places = np.full(flat.size, -1, np.int64)
    for first, part in parts_of(pair, tensor):
        inside = places_in_part(part, flat)
        places = np.where(inside >= 0, first + inside, places)
    return places


def places_in_part(part: TensorPart, flat: Places) -> Places:
    """Return where weights of a tensor are in a part of it, -1 where they are not.

    Strides of a part come from slices and transpositions of a whole, so that the larger one counts
    for more than all that the smaller ones reach.

    Args:
        flat: int64 [n]: flat indices in the tensor.

    Returns:
        int64 [n]: flat indices in the part.
    """
    rest = flat - part.start
    found = np.zeros(flat.size, np.int64)
    known = rest >= 0
    dimensions = zip(part.strides, part.shape, row_major(part.shape), strict=True)
    for stride, size, step in sorted(dimensions, reverse=True):
        if size > 1:
            number, rest = np.divmod(rest, stride)
            known &= number < size
            found += number * step
    return np.where(known & (rest == 0), found, -1)


def _runs(places: Places) -> Iterator[tuple[int, int]]:
    """Yield first and stop of each run of places that follow each other."""
    breaks = (np.flatnonzero(np.diff(places) != 1) + 1).tolist()
    yield from zip([0, *breaks], [*breaks, places.size], strict=True)


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

    Returns:
        The block; None of an empty tensor.

    Raises:
        FormatError: The file is damaged there, or the type's weights cannot be decoded.
        SourceError: The file changed since it was opened.
    """
    unpackers = PerThread(lambda: BlockUnpacker(tensor))

    def largest_of(span: Span, check: Check) -> FoundBlock | None:
        largest, first = None, span.start // tensor.type.block_weights
        for stored in span.runs(check):
            scales = unpackers.own.scales(stored).scales
            place = int(np.where(np.isfinite(scales), np.abs(scales), np.inf).argmax())
            block, _ = divmod(place, scales.shape[1])
            largest = _larger(largest, FoundBlock(first + block, float(scales.flat[place])))
            first += len(scales)
        return largest

    largest = None
    with map_in_order(spans_of(tensor), largest_of, workers=workers, check=check) as results:
        for span, found in results:
            largest = _larger(largest, found)
            if progress is not None:
                progress(span.stop)
    return largest


def _larger(first: FoundBlock | None, later: FoundBlock | None) -> FoundBlock | None:
    """Return the block with the larger scale, the first of equals."""
    if first is None or later is None:
        return first or later
    sizes = [abs(one.figure) if math.isfinite(one.figure) else math.inf for one in (first, later)]
    return later if sizes[1] > sizes[0] else first


def worst_block(
    pairs: Sequence[WeightsPair],
    tensor: Tensor,
    workers: int = 1,
    check: Check = never,
    progress: Progress | None = None,
) -> FoundBlock | None:
    """Find the block with the greatest RMS error; pairs with a weight that is not finite count 0.

    Args:
        pairs: Pairs that hold weights of the tensor; see `read_compared`.
        tensor: A quantized tensor.
        workers: Threads. The result is the same for any number.
        check: Called before every run, in the thread that reads it; raises to stop.

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
            with _worst_of_runs(pair, first, part, workers, check) as results:
                for run, (place, square) in results:
                    done += run[1]
                    if progress is not None:
                        progress(done)
                    figure = math.sqrt(square / unit)
                    index = part.flat_index(run[0] - first + place * unit) // unit
                    if best is None or (-figure, index) < (-best.figure, best.index):
                        best = FoundBlock(index, figure)
    return best


def _worst_of_runs(
    pair: WeightsPair, first: int, part: TensorPart, workers: int, check: Check
) -> AbstractContextManager[Iterator[tuple[Run, tuple[int, float]]]]:
    """Give each run with its worst block, counted from the run's start, and its sum of squares."""
    unit = part.tensor.type.block_weights
    readers = PerThread(pair.reader)
    stop = first + part.parameters
    runs = ((start, min(RUN_WEIGHTS, stop - start)) for start in range(first, stop, RUN_WEIGHTS))

    def work(run: Run, check: Check) -> tuple[int, float]:
        check()
        reference, candidate = readers.own.read(run, check)
        with np.errstate(invalid="ignore"):  # inf - inf
            errors = candidate.astype(np.float64)
            errors -= reference
        errors[~np.isfinite(errors)] = 0
        blocks = errors.reshape(-1, unit)
        squares = np.einsum("ij,ij->i", blocks, blocks)
        place = int(squares.argmax())
        return place, float(squares[place])

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
