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
def split_q4_0(blocks: Any, codes: Any, scales: Any, _minima: Any) -> None:
    """Take Q4_0 apart; blocks: uint8 [n, 18], codes: [n, 32], scales: [n, 1]."""
    for b in range(blocks.shape[0]):
        scales[b, 0] = half_at(blocks, b, 0)
        copy_nibbles(blocks, b, 2, codes)


@kernel
def split_q4_1(blocks: Any, codes: Any, scales: Any, minima: Any) -> None:
    """Take Q4_1 apart; blocks: uint8 [n, 20], codes: [n, 32], scales and minima: [n, 1]."""
    for b in range(blocks.shape[0]):
        scales[b, 0] = half_at(blocks, b, 0)
        minima[b, 0] = -half_at(blocks, b, 2)
        copy_nibbles(blocks, b, 4, codes)


@kernel
def split_q5_0(blocks: Any, codes: Any, scales: Any, _minima: Any) -> None:
    """Take Q5_0 apart; blocks: uint8 [n, 22], codes: [n, 32], scales: [n, 1]."""
    for b in range(blocks.shape[0]):
        scales[b, 0] = half_at(blocks, b, 0)
        copy_nibbles(blocks, b, 6, codes)
        _add_fifth_bits(u32_at(blocks, b, 2), b, codes)


@kernel
def split_q5_1(blocks: Any, codes: Any, scales: Any, minima: Any) -> None:
    """Take Q5_1 apart; blocks: uint8 [n, 24], codes: [n, 32], scales and minima: [n, 1]."""
    for b in range(blocks.shape[0]):
        scales[b, 0] = half_at(blocks, b, 0)
        minima[b, 0] = -half_at(blocks, b, 2)
        copy_nibbles(blocks, b, 8, codes)
        _add_fifth_bits(u32_at(blocks, b, 4), b, codes)


@kernel
def split_q8_0(blocks: Any, codes: Any, scales: Any, _minima: Any) -> None:
    """Take Q8_0 apart; blocks: uint8 [n, 34], codes: [n, 32], scales: [n, 1]."""
    for b in range(blocks.shape[0]):
        scales[b, 0] = half_at(blocks, b, 0)
        for i in range(32):
            codes[b, i] = blocks[b, 2 + i] ^ 128  # int8 + 128


@kernel
def split_q8_1(blocks: Any, codes: Any, scales: Any, _minima: Any) -> None:
    """Take Q8_1 apart; blocks: uint8 [n, 36], codes: [n, 32], scales: [n, 1]."""
    for b in range(blocks.shape[0]):
        scales[b, 0] = half_at(blocks, b, 0)
        for i in range(32):
            codes[b, i] = blocks[b, 4 + i] ^ 128


@kernel
def split_q1_0(blocks: Any, codes: Any, scales: Any, _minima: Any) -> None:
    """Take Q1_0 apart; blocks: uint8 [n, 18], codes: [n, 128], scales: [n, 1]."""
    for b in range(blocks.shape[0]):
        scales[b, 0] = half_at(blocks, b, 0)
        for group in range(4):
            bits = u32_at(blocks, b, 2 + 4 * group)
            for i in range(32):
                codes[b, 32 * group + i] = u32(bits >> u32(i)) & u32(1)


@kernel
def split_q2_0(blocks: Any, codes: Any, scales: Any, _minima: Any) -> None:
    """Take Q2_0 apart; blocks: uint8 [n, 18], codes: [n, 64], scales: [n, 1]."""
    for b in range(blocks.shape[0]):
        scales[b, 0] = half_at(blocks, b, 0)
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
        split=split_q4_0,
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
        split=split_q4_1,
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
        split=split_q5_0,
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
        split=split_q5_1,
    ),
    "Q8_0": Anatomy(
        levels=integers(-128, 127),
        weights_per_scale=32,
        has_minimum=False,
        uniform=True,
        fields=(_SCALE, BlockField("qs", 2, 32, "i8", "one code for each weight")),
        split=split_q8_0,
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
        split=split_q8_1,
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
        split=split_q1_0,
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
        split=split_q2_0,
    ),
}
