"""Which bits of a block act on which weights, found by turning them.

A block is taken apart, one of its bits is turned, and it is taken apart again: what differs is what
the bit acts on. So no layout is written down a second time, and every type is covered that can be
taken apart. A bit may act for some contents of the block only (the lowest bit of a base-3 byte, a
bit of a grid's row), so this is done for many contents, and what was found is put together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from explorer.quantization.grouped import GroupedLayout, group_coding
from explorer.quantization.grouped.layout import unpack_bytes
from explorer.quantization.iq_layout import group_weights
from explorer.quantization.registry import BlockField, Blocks, Codes, Scales, block_layout
from explorer.quantization.types import TENSOR_TYPES, TensorType

Masks: TypeAlias = NDArray[np.uint8]
"""For each byte of a block and each of some things, the bits of the byte that act on it."""

_Split: TypeAlias = Callable[[Blocks, Codes, Scales, Scales], None]

_CONTENTS: Final = 256  # so that every byte takes every value
_SEED: Final = 5


@dataclass(frozen=True, slots=True)
class BlockBits:
    """What the bits of a block act on; a bit that acts on nothing is not read for decoding.

    Attributes:
        codes: uint8 [bytes, weights]: bits that the code of a weight is told from, of a weight
            without a code of its own the bits of its group and of its sign.
        scales: uint8 [bytes, scales]: bits that an effective scale is told from.
        minima: uint8 [bytes, scales]; [bytes, 0] if the type has no minima.
    """

    codes: Masks
    scales: Masks
    minima: Masks

    def acts_on(self, byte: int, weights_per_scale: int) -> NDArray[np.bool_]:
        """Tell which weights a byte acts on, be it by their codes, scales or minima; bool [n]."""
        shared = self.scales[byte] != 0
        if self.minima.shape[1]:
            shared = shared | (self.minima[byte] != 0)
        acting: NDArray[np.bool_] = self.codes[byte] != 0
        acting |= np.repeat(shared, weights_per_scale)
        return acting


@cache
def bits_of_type(type_name: str) -> BlockBits:
    """Return the bits of a tensor type's blocks; worked out when first asked for.

    Raises:
        KeyError: The type is not quantized.
    """
    parts = block_layout(type_name)
    kind = _Kind(TENSOR_TYPES[type_name], parts.weights_per_scale, parts.has_minimum)
    group = group_weights(type_name)
    sizes = np.unique(np.abs(parts.levels), return_inverse=True)[1].astype(np.uint8)
    return _turn_bits(parts.unpack, kind, group, sizes)


@cache
def bits_of_layout(layout: GroupedLayout) -> BlockBits:
    """Return the bits of a group, whose bytes are those of its codes, its scale and its bias."""

    def unpack(blocks: Blocks, codes: Codes, scales: Scales, minima: Scales) -> None:
        unpack_bytes(layout, blocks, codes, scales, minima)

    parts = group_coding(layout)
    return _turn_bits(unpack, _Kind(layout.type, parts.weights_per_scale, parts.has_minimum))


def _turn_bits(
    split: _Split, kind: _Kind, group: int = 1, sizes: NDArray[np.uint8] | None = None
) -> BlockBits:
    """Turn every bit of blocks of many contents, one by one.

    Args:
        split: Takes blocks apart.
        kind: What they are like.
        group: Weights that a row of a grid is for, a power of 2. What acts on the size of one
            of them acts on the row, and so on all of them, though two rows may agree in some.
        sizes: uint8 [codes]: a number for each absolute level, if there are such groups.
    """
    nbytes = kind.type.block_bytes
    bits = np.uint8(1) << np.arange(8, dtype=np.uint8)
    places = np.arange(8 * nbytes)
    blocks = np.empty((1 + 8 * nbytes, nbytes), np.uint8)
    codes = np.empty((len(blocks), kind.type.block_weights), np.uint8)
    scales = np.empty((len(blocks), kind.scales), np.float32)
    minima = np.empty((len(blocks), kind.scales if kind.has_minimum else 0), np.float32)
    # of floats the bits: a NaN differs from itself, and 0 does not from -0
    parts: tuple[NDArray[Any], ...] = codes, scales.view(np.uint32), minima.view(np.uint32)
    acting = [np.zeros((8 * nbytes, part.shape[1]), np.bool_) for part in parts]
    for content in _contents(nbytes):
        blocks[:] = content
        blocks[1 + places, places // 8] ^= bits[places % 8]
        split(blocks, codes, scales, minima)
        for number, part in enumerate(parts):
            acting[number] |= part[1:] != part[0]
        if sizes is not None and group > 1:
            other = sizes[codes]
            rows = (other[1:] != other[0]).view(f"u{group}") != 0  # a group's bytes as one number
            acting[0] |= rows.repeat(group, axis=1)
    return BlockBits(*(_masks(found, nbytes) for found in acting))


@dataclass(frozen=True, slots=True)
class _Kind:
    """What blocks are like."""

    type: TensorType
    weights_per_scale: int
    has_minimum: bool

    @property
    def scales(self) -> int:
        """Scales of a block."""
        return self.type.block_weights // self.weights_per_scale


def _contents(nbytes: int) -> NDArray[np.uint8]:
    """Return contents of a block in which each byte takes each value once, in its own order."""
    order = np.random.default_rng(_SEED).random((_CONTENTS, nbytes))
    return order.argsort(axis=0).astype(np.uint8)


def _masks(acting: NDArray[np.bool_], nbytes: int) -> Masks:
    """Put the eight bits of each byte together: bool [8 bytes, n] becomes uint8 [bytes, n]."""
    by_bit = acting.reshape(nbytes, 8, acting.shape[1])
    masks: Masks = np.packbits(by_bit, axis=1, bitorder="little")[:, 0]
    masks.flags.writeable = False
    return masks


# What the sub-blocks of a block store for scales and minima: small factors of the block's own.
#
# A block of several scales holds a float, d, and for each scale a small number, and so for
# minima. A block whose d is 1 has these very numbers for effective scales: so d is set to 1 and
# the scales are taken.


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
    parts, kind = block_layout(type_name), TENSOR_TYPES[type_name]
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
    parts.unpack_scales(ones, scales, minima)
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
