"""What every family's module in this package gives: one `Anatomy` for each of its tensor types.

A module holds ``ANATOMIES``, a mapping of type names to `Anatomy`. One test checks for all types
that codes and scales make the weights that the type's decoder gives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from explorer.quantization.arrays import Blocks

Codes: TypeAlias = NDArray[np.uint8]
"""One code for each weight: uint8 [blocks, weights of a block], C-contiguous."""

Scales: TypeAlias = NDArray[np.float32]
"""Effective scales or minima: float32 [blocks, scales of a block], C-contiguous."""

TakeCodes: TypeAlias = Callable[[Blocks, Codes], None]
"""take_codes(blocks, codes) fills the latter."""

TakeScales: TypeAlias = Callable[[Blocks, Scales, Scales], None]
"""take_scales(blocks, scales, minima) fills the last two.

`minima` is left alone, and may be of shape [blocks, 0], where the type has none.
"""


@dataclass(frozen=True, slots=True)
class BlockField:
    """A run of bytes in a block, all of one meaning.

    The fields of a type, in order, cover the block without gap or overlap.

    Attributes:
        name: ggml's name of the field, such as ``"qs"``.
        offset: Its first byte, counted from the block's start.
        nbytes: Its length in bytes.
        dtype: What is stored: ``"f16"``, ``"f32"``, ``"u8"``, ``"i8"``, ``"u16"`` and so on, a
            small float's name such as ``"E8M0"``, or for packed numbers the bits of each, such as
            ``"4-bit codes"``.
        meaning: What it is for, in a few plain words.
    """

    name: str
    offset: int
    nbytes: int
    dtype: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Anatomy:
    """How a tensor type makes weights from codes: scale * levels[code] - minimum.

    That holds up to float32 rounding (bits are the decoders' promise) and where all scales are
    finite. Scales are effective ones: a super-block's scale times the sub-block's; so are minima.

    Attributes:
        levels: float32 [number of codes], at most 256: the value of each code before scaling.
            A sign bit, or a shift such as IQ1's, belongs to the code and so to the level.
        weights_per_scale: Consecutive weights that share a scale (and a minimum).
        has_minimum: Whether a minimum is subtracted.
        uniform: Whether `levels` rise in equal steps, so that rounding to the nearest level
            errs by up to half of ``scale * (levels[1] - levels[0])``.
        fields: The block's bytes, field by field.
        take_codes: The kernel that tells the codes of blocks.
        take_scales: The kernel that tells their scales and minima: a fraction of the work, and
            often all that somebody wants.
    """

    levels: NDArray[np.float32]
    weights_per_scale: int
    has_minimum: bool
    uniform: bool
    fields: tuple[BlockField, ...]
    take_codes: TakeCodes
    take_scales: TakeScales

    def split(self, blocks: Blocks, codes: Codes, scales: Scales, minima: Scales) -> None:
        """Take blocks apart; fills the last three."""
        self.take_codes(blocks, codes)
        self.take_scales(blocks, scales, minima)


def integers(low: int, high: int) -> NDArray[np.float32]:
    """Return the levels low, low + 1, … high."""
    return np.arange(low, high + 1, dtype=np.float32)
