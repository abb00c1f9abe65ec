"""Blocks of one scale, taken apart; their layouts are drawn in `decoders/legacy.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.quantization.anatomy.contract import Anatomy, BlockField, integers
from explorer.quantization.jit import half_at, inlined, kernel, u32, u32_at

_SCALE = BlockField("d", 0, 2, "f16", "scale of all weights")
_MINIMUM = BlockField("m", 2, 2, "f16", "added to all weights")


@inlined
def copy_nibbles(blocks: Any, b: Any, offset: Any, codes: Any) -> None:
    """Write the low halves of 16 bytes as codes of weights 0 to 15, the high ones as 16 to 31."""
    for i in range(16):
        codes[b, i] = blocks[b, offset + i] & 15
        codes[b, 16 + i] = blocks[b, offset + i] >> 4


@inlined
def _add_fifth_bits(bits: Any, b: Any, codes: Any) -> None:
    for i in range(32):
        if bits & u32(u32(1) << u32(i)):
            codes[b, i] |= 16


@kernel
def scales_at_the_start(blocks: Any, scales: Any, _minima: Any) -> None:
    """Tell the scales of blocks that begin with one; blocks: uint8 [n, any], scales: [n, 1]."""
    for b in range(blocks.shape[0]):
        scales[b, 0] = half_at(blocks, b, 0)


@kernel
def scales_and_minima_at_the_start(blocks: Any, scales: Any, minima: Any) -> None:
    """The same of blocks in which a number that is added comes next; minima: [n, 1]."""
    for b in range(blocks.shape[0]):
        scales[b, 0] = half_at(blocks, b, 0)
        minima[b, 0] = -half_at(blocks, b, 2)


@kernel
def codes_of_q4_0(blocks: Any, codes: Any) -> None:
    """Tell the codes of Q4_0; blocks: uint8 [n, 18], codes: [n, 32]."""
    for b in range(blocks.shape[0]):
        copy_nibbles(blocks, b, 2, codes)


@kernel
def codes_of_q4_1(blocks: Any, codes: Any) -> None:
    """Tell the codes of Q4_1; blocks: uint8 [n, 20], codes: [n, 32]."""
    for b in range(blocks.shape[0]):
        copy_nibbles(blocks, b, 4, codes)


@kernel
def codes_of_q5_0(blocks: Any, codes: Any) -> None:
    """Tell the codes of Q5_0; blocks: uint8 [n, 22], codes: [n, 32]."""
    for b in range(blocks.shape[0]):
        copy_nibbles(blocks, b, 6, codes)
        _add_fifth_bits(u32_at(blocks, b, 2), b, codes)


@kernel
def codes_of_q5_1(blocks: Any, codes: Any) -> None:
    """Tell the codes of Q5_1; blocks: uint8 [n, 24], codes: [n, 32]."""
    for b in range(blocks.shape[0]):
        copy_nibbles(blocks, b, 8, codes)
        _add_fifth_bits(u32_at(blocks, b, 4), b, codes)


@kernel
def codes_of_q8_0(blocks: Any, codes: Any) -> None:
    """Tell the codes of Q8_0; blocks: uint8 [n, 34], codes: [n, 32]."""
    for b in range(blocks.shape[0]):
        for i in range(32):
            codes[b, i] = blocks[b, 2 + i] ^ 128  # int8 + 128


@kernel
def codes_of_q8_1(blocks: Any, codes: Any) -> None:
    """Tell the codes of Q8_1; blocks: uint8 [n, 36], codes: [n, 32]."""
    for b in range(blocks.shape[0]):
        for i in range(32):
            codes[b, i] = blocks[b, 4 + i] ^ 128


@kernel
def codes_of_q1_0(blocks: Any, codes: Any) -> None:
    """Tell the codes of Q1_0; blocks: uint8 [n, 18], codes: [n, 128]."""
    for b in range(blocks.shape[0]):
        for group in range(4):
            bits = u32_at(blocks, b, 2 + 4 * group)
            for i in range(32):
                codes[b, 32 * group + i] = u32(bits >> u32(i)) & u32(1)


@kernel
def codes_of_q2_0(blocks: Any, codes: Any) -> None:
    """Tell the codes of Q2_0; blocks: uint8 [n, 18], codes: [n, 64]."""
    for b in range(blocks.shape[0]):
        for group in range(4):
            packed = u32_at(blocks, b, 2 + 4 * group)
            for i in range(16):
                codes[b, 16 * group + i] = u32(packed >> u32(2 * i)) & u32(3)


ANATOMIES = {
    "Q4_0": Anatomy(
        levels=integers(-8, 7),
        weights_per_scale=32,
        has_minimum=False,
        uniform=True,
        fields=(
            _SCALE,
            BlockField("qs", 2, 16, "4-bit codes", "weights 0-15 in the low halves, 16-31 in high"),
        ),
        take_codes=codes_of_q4_0,
        take_scales=scales_at_the_start,
    ),
    "Q4_1": Anatomy(
        levels=integers(0, 15),
        weights_per_scale=32,
        has_minimum=True,
        uniform=True,
        fields=(
            _SCALE,
            _MINIMUM,
            BlockField("qs", 4, 16, "4-bit codes", "weights 0-15 in the low halves, 16-31 in high"),
        ),
        take_codes=codes_of_q4_1,
        take_scales=scales_and_minima_at_the_start,
    ),
    "Q5_0": Anatomy(
        levels=integers(-16, 15),
        weights_per_scale=32,
        has_minimum=False,
        uniform=True,
        fields=(
            _SCALE,
            BlockField("qh", 2, 4, "1-bit codes", "highest bit of each code, weight 0 lowest"),
            BlockField("qs", 6, 16, "4-bit codes", "low four bits, halves as in Q4_0"),
        ),
        take_codes=codes_of_q5_0,
        take_scales=scales_at_the_start,
    ),
    "Q5_1": Anatomy(
        levels=integers(0, 31),
        weights_per_scale=32,
        has_minimum=True,
        uniform=True,
        fields=(
            _SCALE,
            _MINIMUM,
            BlockField("qh", 4, 4, "1-bit codes", "highest bit of each code, weight 0 lowest"),
            BlockField("qs", 8, 16, "4-bit codes", "low four bits, halves as in Q4_0"),
        ),
        take_codes=codes_of_q5_1,
        take_scales=scales_and_minima_at_the_start,
    ),
    "Q8_0": Anatomy(
        levels=integers(-128, 127),
        weights_per_scale=32,
        has_minimum=False,
        uniform=True,
        fields=(_SCALE, BlockField("qs", 2, 32, "i8", "one code for each weight")),
        take_codes=codes_of_q8_0,
        take_scales=scales_at_the_start,
    ),
    "Q8_1": Anatomy(
        levels=integers(-128, 127),
        weights_per_scale=32,
        has_minimum=False,
        uniform=True,
        fields=(
            _SCALE,
            BlockField("s", 2, 2, "f16", "scale times the sum of the codes, for dot products"),
            BlockField("qs", 4, 32, "i8", "one code for each weight"),
        ),
        take_codes=codes_of_q8_1,
        take_scales=scales_at_the_start,
    ),
    "Q1_0": Anatomy(
        levels=np.array([-1, 1], np.float32),
        weights_per_scale=128,
        has_minimum=False,
        uniform=True,
        fields=(
            _SCALE,
            BlockField("qs", 2, 16, "1-bit codes", "set: plus the scale, clear: minus the scale"),
        ),
        take_codes=codes_of_q1_0,
        take_scales=scales_at_the_start,
    ),
    "Q2_0": Anatomy(
        levels=integers(-1, 2),
        weights_per_scale=64,
        has_minimum=False,
        uniform=True,
        fields=(
            _SCALE,
            BlockField("qs", 2, 16, "2-bit codes", "four consecutive weights in each byte"),
        ),
        take_codes=codes_of_q2_0,
        take_scales=scales_at_the_start,
    ),
}
