"""What the sub-blocks of a block store for scales and minima: small factors of the block's own.

A block of several scales holds a float, d, and for each scale a small number, and so for minima. A
block whose d is 1 has these very numbers for effective scales: so d is set to 1 and the scales are
taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from explorer.quantization.anatomy.contract import BlockField
from explorer.quantization.anatomy.registry import anatomy
from explorer.quantization.types import TENSOR_TYPES

_ONE: Final = {
    "f16": np.array([1], "<f2").view(np.uint8),
    "f32": np.array([1], "<f4").view(np.uint8),
}
_OF_BLOCK: Final = frozenset({"d", "dmin"})

# IQ1_M has no field d: bits 12 to 15 of each of these four u16 are a quarter of it, lowest first
_IQ1_M_TOPS: Final = (49, 51, 53, 55)


@dataclass(frozen=True, slots=True)
class SubScales:
    """What a block's sub-blocks store; an effective scale is the block's own times a factor.

    Attributes:
        d: The block's own scale.
        dmin: Its scale of the minima; None if the type has none.
        scales: float32 [scales]: the factor of each scale.
        minima: float32 [scales]: the factor of each minimum; None if the type has none.
    """

    d: float
    dmin: float | None
    scales: NDArray[np.float32]
    minima: NDArray[np.float32] | None


def sub_scales(type_name: str, block: NDArray[np.uint8]) -> SubScales | None:
    """Return what the sub-blocks of a block store; None for a type whose scales are stored whole.

    Args:
        type_name: A quantized tensor type.
        block: uint8 [block_bytes], little-endian.
    """
    parts, kind = anatomy(type_name), TENSOR_TYPES[type_name]
    count = kind.block_weights // parts.weights_per_scale
    own = [field for field in parts.fields if field.name in _OF_BLOCK and field.dtype in _ONE]
    split_d = type_name == "IQ1_M"
    if count == 1 or not (own or split_d):
        return None
    ones = block[None].copy()
    for field in own:
        ones[0, field.offset : field.offset + field.nbytes] = _ONE[field.dtype]
    numbers = {field.name: _number(block, field) for field in own}
    if split_d:
        numbers["d"] = _unite(ones[0])
    scales = np.empty((1, count), np.float32)
    minima = np.empty((1, count), np.float32)
    parts.take_scales(ones, scales, minima)
    return SubScales(
        numbers["d"], numbers.get("dmin"), scales[0], minima[0] if parts.has_minimum else None
    )


def _number(block: NDArray[np.uint8], field: BlockField) -> float:
    raw = block[field.offset : field.offset + field.nbytes].tobytes()
    return float(np.frombuffer(raw, "<f2" if field.dtype == "f16" else "<f4")[0])


def _unite(block: NDArray[np.uint8]) -> float:
    """Return the scale of an IQ1_M block, and set it to 1."""
    bits, one = 0, int(np.float16(1).view(np.uint16))
    for part, place in enumerate(_IQ1_M_TOPS):
        bits |= int(block[place] >> 4) << 4 * part
        block[place] = int(block[place]) & 15 | (one >> 4 * part & 15) << 4
    return float(np.uint16(bits).view(np.float16))
