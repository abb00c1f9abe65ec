"""Ternary blocks, taken apart; their layouts are drawn in `decoders/ternary.py`."""

from __future__ import annotations

from typing import Any

from explorer.quantization.anatomy.contract import Anatomy, BlockField, integers
from explorer.quantization.anatomy.k_quants import copy_pairs_of_bits
from explorer.quantization.decoders.ternary import base_3_digit
from explorer.quantization.jit import half_at, kernel, u32


@kernel
def codes_of_tq1_0(blocks: Any, codes: Any) -> None:
    """Tell the codes of TQ1_0; blocks: uint8 [n, 54], codes: [n, 256]."""
    for b in range(blocks.shape[0]):
        power = u32(1)
        for n in range(5):
            for i in range(32):
                codes[b, 32 * n + i] = base_3_digit(blocks[b, i], power)
            for i in range(16):
                codes[b, 160 + 16 * n + i] = base_3_digit(blocks[b, 32 + i], power)
            if n < 4:
                for i in range(4):
                    codes[b, 240 + 4 * n + i] = base_3_digit(blocks[b, 48 + i], power)
            power = u32(power * u32(3))


@kernel
def scales_of_tq1_0(blocks: Any, scales: Any, _minima: Any) -> None:
    """Tell the scales of TQ1_0; blocks: uint8 [n, 54], scales: [n, 1]."""
    for b in range(blocks.shape[0]):
        scales[b, 0] = half_at(blocks, b, 52)


@kernel
def codes_of_tq2_0(blocks: Any, codes: Any) -> None:
    """Tell the codes of TQ2_0; blocks: uint8 [n, 66], codes: [n, 256]."""
    for b in range(blocks.shape[0]):
        copy_pairs_of_bits(blocks, b, 0, codes)


@kernel
def scales_of_tq2_0(blocks: Any, scales: Any, _minima: Any) -> None:
    """Tell the scales of TQ2_0; blocks: uint8 [n, 66], scales: [n, 1]."""
    for b in range(blocks.shape[0]):
        scales[b, 0] = half_at(blocks, b, 64)


ANATOMIES = {
    "TQ1_0": Anatomy(
        levels=integers(-1, 1),
        weights_per_scale=256,
        has_minimum=False,
        uniform=True,
        fields=(
            BlockField("qs", 0, 48, "base-3 digits", "five weights in each byte, 0-239"),
            BlockField("qh", 48, 4, "base-3 digits", "four weights in each byte, 240-255"),
            BlockField("d", 52, 2, "f16", "scale of all weights"),
        ),
        take_codes=codes_of_tq1_0,
        take_scales=scales_of_tq1_0,
    ),
    "TQ2_0": Anatomy(
        levels=integers(-1, 2),
        weights_per_scale=256,
        has_minimum=False,
        uniform=True,
        fields=(
            BlockField("qs", 0, 64, "2-bit codes", "byte l of a half: weights l, l+32, l+64, l+96"),
            BlockField("d", 64, 2, "f16", "scale of all weights"),
        ),
        take_codes=codes_of_tq2_0,
        take_scales=scales_of_tq2_0,
    ),
}
