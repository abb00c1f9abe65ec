"""What a block of a tensor is compared with: the same weights in a pair of reference and candidate.

A pair may see the tensor in another order than it is stored in (a permutation, a slice of a fused
tensor), so the block's weights are looked up one by one, and read in as few runs as there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from explorer.analysis.errors.lockstep import Run
from explorer.analysis.errors.weights_pair import MatchedPair, RoundedPair, WeightsPair
from explorer.analysis.matching.views import TensorPart
from explorer.errors import ExplorerError
from explorer.formats.tensors import Tensor
from explorer.parallel import Check, never

Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Beside:
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


def read_beside(
    pairs: Sequence[WeightsPair], tensor: Tensor, run: Run, check: Check = never
) -> Beside:
    """Read what a run of a tensor's weights is compared with.

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
            reader = pair.pairs()
            for first, stop in _runs(places):
                check()
                both = reader.read((int(places[first]), stop - first), check)
                reference[first:stop], candidate[first:stop] = both
            return Beside(pair, reference, candidate)
    raise ExplorerError("the reference has no tensor that these weights belong to")


def parts_of(pair: WeightsPair, tensor: Tensor) -> Iterator[tuple[int, TensorPart]]:
    """Yield the parts of a pair's candidate that come from a tensor, with their place in the pair.

    Of a tensor that is rounded, this is the whole.
    """
    if isinstance(pair, MatchedPair):
        first = 0
        for part in pair.match.candidate.parts:
            if part.tensor is tensor:
                yield first, part
            first += part.parameters
    elif isinstance(pair, RoundedPair) and pair.tensor is tensor:
        yield 0, TensorPart.whole(tensor)


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
        part: The part.
        flat: int64 [n]: flat indices in the tensor.

    Returns:
        int64 [n]: flat indices in the part.
    """
    rest = flat - part.start
    found = np.zeros(flat.size, np.int64)
    known = rest >= 0
    steps = np.cumprod((1, *part.shape[:0:-1]))[::-1].tolist() if part.shape else []
    dimensions = sorted(zip(part.strides, part.shape, steps, strict=True), reverse=True)
    for stride, size, step in dimensions:
        if size > 1:
            number, rest = np.divmod(rest, stride)
            known &= number < size
            found += number * step
    return np.where(known & (rest == 0), found, -1)


def _runs(places: Places) -> Iterator[tuple[int, int]]:
    """Yield first and stop of each run of places that follow each other."""
    breaks = (np.flatnonzero(np.diff(places) != 1) + 1).tolist()
    yield from zip([0, *breaks], [*breaks, places.size], strict=True)
