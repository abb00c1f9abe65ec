"""What is to be known of one weight: its value, its block, its code, what a reference has there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from explorer.analysis.block.detail import BlockReader
from explorer.analysis.errors.weights_pair import MatchedPair, RoundedPair, WeightsPair
from explorer.analysis.splitting import is_quantized
from explorer.formats.tensors import Tensor
from explorer.formats.weights import WeightReader
from explorer.parallel import Check, never


@dataclass(frozen=True, slots=True)
class WeightFacts:
    """One weight of a tensor.

    Attributes:
        value: Its value.
        block: Number of its block; None if the type has no blocks.
        place: Its place in the block.
        code: Its code; None, as what follows, if the type has none.
        level: What the code stands for before scaling.
        scale: The scale that it is multiplied by.
        minimum: What is subtracted then; None if the type has no minima.
    """

    value: float
    block: int | None = None
    place: int = 0
    code: int | None = None
    level: float | None = None
    scale: float | None = None
    minimum: float | None = None


def weight_facts(tensor: Tensor, index: int, check: Check = never) -> WeightFacts:
    """Return what is to be known of a weight; reads its block only.

    Args:
        tensor: The tensor.
        index: Flat, row-major index of the weight.
        check: Raises to stop.

    Raises:
        FormatError: The file is damaged there, or the type's weights cannot be decoded.
        IndexError: There is no such weight.
        SourceError: The file changed since it was opened.
    """
    if not 0 <= index < tensor.parameters:
        raise IndexError(f"weight {index} of {tensor.parameters}")
    if not is_quantized(tensor):
        reader, value = WeightReader(tensor), np.empty(1, np.float32)
        reader.read_into(index, value, check)
        block, place = divmod(index, reader.unit)
        return WeightFacts(float(value[0]), block if reader.unit > 1 else None, place)
    block, place = divmod(index, tensor.type.block_weights)
    found = BlockReader(tensor).read(block, check)
    code, scale = int(found.codes[place]), place // found.weights_per_scale
    return WeightFacts(
        float(found.values[place]),
        block,
        place,
        code,
        float(found.levels[code]),
        float(found.scales[scale]),
        None if found.minima is None else float(found.minima[scale]),
    )


def pair_facts(pair: WeightsPair, index: int, check: Check = never) -> tuple[float, float]:
    """Return a weight of the reference and of the candidate; raises as `weight_facts` does."""
    if not 0 <= index < pair.parameters:
        raise IndexError(f"weight {index} of {pair.parameters}")
    reference, candidate = pair.pairs().read((index, 1), check)
    return float(reference[0]), float(candidate[0])


def places_agree(pair: WeightsPair, tensor: Tensor) -> bool:
    """Tell whether a place in a pair is the same place in the tensor that it was made for.

    It is not where tensors were joined, or rows brought into the reference's order.
    """
    if pair.shape != tensor.shape:
        return False
    if isinstance(pair, RoundedPair):
        return pair.tensor is tensor
    if not isinstance(pair, MatchedPair):
        return False
    parts = pair.match.candidate.parts
    return len(parts) == 1 and parts[0].in_order and parts[0].tensor is tensor
