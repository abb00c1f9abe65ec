"""K-quants' super-blocks, taken apart; their layouts are drawn in `decoders/k_quants.py`."""

from __future__ import annotations

from typing import Any

from explorer.quantization.anatomy.contract import Anatomy, BlockField, integers
from explorer.quantization.decoders.k_quants import q3_k_scale, q4_k_minimum, q4_k_scale
from explorer.quantization.jit import (
    f32,
    float32_of_bits,
    half_at,
    i8,
    i32,
    inlined,
    kernel,
    u32_at,
)

_QUARTERS = "of 64 weights: the first 32 in the low halves of 32 bytes, the others in the high"


@inlined
def copy_pairs_of_bits(blocks: Any, b: Any, offset: Any, codes: Any) -> None:
    """Write 256 codes of two bits, whose byte holds weights l, l + 32, l + 64, l + 96 of a half."""
    for half in range(2):
        for j in range(4):
            for i in range(32):
                code = blocks[b, offset + 32 * half + i] >> 2 * j & 3
                codes[b, 128 * half + 32 * j + i] = code


@inlined
def _copy_quarters(blocks: Any, b: Any, offset: Any, codes: Any) -> None:
    for quarter in range(4):
        for i in range(32):
            packed = blocks[b, offset + 32 * quarter + i]
            codes[b, 64 * quarter + i] = packed & 15
            codes[b, 64 * quarter + 32 + i] = packed >> 4


@kernel
def codes_of_q2_k(blocks: Any, codes: Any) -> None:
    """Tell the codes of Q2_K; blocks: uint8 [n, 84], codes: [n, 256]."""
    for b in range(blocks.shape[0]):
        copy_pairs_of_bits(blocks, b, 16, codes)


@kernel
def scales_of_q2_k(blocks: Any, scales: Any, minima: Any) -> None:
    """Tell the scales of Q2_K; blocks: uint8 [n, 84], scales and minima: [n, 16]."""
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 80)
        dmin = half_at(blocks, b, 82)
        for k in range(16):
            scales[b, k] = d * f32(i32(blocks[b, k] & 15))
            minima[b, k] = dmin * f32(i32(blocks[b, k] >> 4))


@kernel
def codes_of_q3_k(blocks: Any, codes: Any) -> None:
    """Tell the codes of Q3_K; blocks: uint8 [n, 110], codes: [n, 256]."""
    for b in range(blocks.shape[0]):
        copy_pairs_of_bits(blocks, b, 32, codes)
        for k in range(8):
            for i in range(32):
                codes[b, 32 * k + i] |= (blocks[b, i] >> k & 1) << 2


@kernel
def scales_of_q3_k(blocks: Any, scales: Any, _minima: Any) -> None:
    """Tell the scales of Q3_K; blocks: uint8 [n, 110], scales: [n, 16]."""
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 108)
        for k in range(16):
            scales[b, k] = d * f32(i32(q3_k_scale(blocks, b, k)))


@kernel
def codes_of_q4_k(blocks: Any, codes: Any) -> None:
    """Tell the codes of Q4_K; blocks: uint8 [n, 144], codes: [n, 256]."""
    for b in range(blocks.shape[0]):
        _copy_quarters(blocks, b, 16, codes)


@kernel
def codes_of_q5_k(blocks: Any, codes: Any) -> None:
    """Tell the codes of Q5_K; blocks: uint8 [n, 176], codes: [n, 256]."""
    for b in range(blocks.shape[0]):
        _copy_quarters(blocks, b, 48, codes)
        for k in range(8):
            for i in range(32):
                codes[b, 32 * k + i] |= (blocks[b, 16 + i] >> k & 1) << 4


@kernel
def scales_of_q4_k(blocks: Any, scales: Any, minima: Any) -> None:
    """Tell the scales of Q4_K or Q5_K; blocks: uint8 [n, 144 or 176], the others: [n, 8]."""
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 0)
        dmin = half_at(blocks, b, 2)
        for k in range(8):
            scales[b, k] = d * f32(i32(q4_k_scale(blocks, b, k)))
            minima[b, k] = dmin * f32(i32(q4_k_minimum(blocks, b, k)))


@kernel
def codes_of_q6_k(blocks: Any, codes: Any) -> None:
    """Tell the codes of Q6_K; blocks: uint8 [n, 210], codes: [n, 256]."""
    for b in range(blocks.shape[0]):
        copy_pairs_of_bits(blocks, b, 128, codes)
        for half in range(2):
            for j in range(4):
                for i in range(32):
                    low = blocks[b, 64 * half + 32 * (j & 1) + i] >> (j >> 1) * 4 & 15
                    at = 128 * half + 32 * j + i
                    codes[b, at] = codes[b, at] << 4 | low


@kernel
def scales_of_q6_k(blocks: Any, scales: Any, _minima: Any) -> None:
    """Tell the scales of Q6_K; blocks: uint8 [n, 210], scales: [n, 16]."""
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 208)
        for k in range(16):
            scales[b, k] = d * f32(i8(blocks[b, 192 + k]))


@kernel
def codes_of_q8_k(blocks: Any, codes: Any) -> None:
    """Tell the codes of Q8_K; blocks: uint8 [n, 292], codes: [n, 256]."""
    for b in range(blocks.shape[0]):
        for i in range(256):
            codes[b, i] = blocks[b, 4 + i] ^ 128  # int8 + 128


@kernel
def scales_of_q8_k(blocks: Any, scales: Any, _minima: Any) -> None:
    """Tell the scales of Q8_K; blocks: uint8 [n, 292], scales: [n, 1]."""
    for b in range(blocks.shape[0]):
        scales[b, 0] = float32_of_bits(u32_at(blocks, b, 0))


ANATOMIES = {
    "Q2_K": Anatomy(
        levels=integers(0, 3),
        weights_per_scale=16,
        has_minimum=True,
        uniform=True,
        fields=(
            BlockField(
                "scales", 0, 16, "4-bit pairs", "scale (low) and minimum (high) of 16 weights"
            ),
            BlockField(
                "qs", 16, 64, "2-bit codes", "byte l of a half: weights l, l+32, l+64, l+96"
            ),
            BlockField("d", 80, 2, "f16", "scale of the scales"),
            BlockField("dmin", 82, 2, "f16", "scale of the minima"),
        ),
        take_codes=codes_of_q2_k,
        take_scales=scales_of_q2_k,
    ),
    "Q3_K": Anatomy(
        levels=integers(-4, 3),
        weights_per_scale=16,
        has_minimum=False,
        uniform=True,
        fields=(
            BlockField("hmask", 0, 32, "1-bit codes", "highest bit: bit k of byte l, weight 32k+l"),
            BlockField("qs", 32, 64, "2-bit codes", "low two bits, bytes as in Q2_K"),
            BlockField("scales", 96, 12, "6-bit scales", "16 scales, 32 more than their value"),
            BlockField("d", 108, 2, "f16", "scale of the scales"),
        ),
        take_codes=codes_of_q3_k,
        take_scales=scales_of_q3_k,
    ),
    "Q4_K": Anatomy(
        levels=integers(0, 15),
        weights_per_scale=32,
        has_minimum=True,
        uniform=True,
        fields=(
            BlockField("d", 0, 2, "f16", "scale of the scales"),
            BlockField("dmin", 2, 2, "f16", "scale of the minima"),
            BlockField("scales", 4, 12, "6-bit scales", "8 scales and 8 minima of 32 weights each"),
            BlockField("qs", 16, 128, "4-bit codes", f"quarters {_QUARTERS}"),
        ),
        take_codes=codes_of_q4_k,
        take_scales=scales_of_q4_k,
    ),
    "Q5_K": Anatomy(
        levels=integers(0, 31),
        weights_per_scale=32,
        has_minimum=True,
        uniform=True,
        fields=(
            BlockField("d", 0, 2, "f16", "scale of the scales"),
            BlockField("dmin", 2, 2, "f16", "scale of the minima"),
            BlockField("scales", 4, 12, "6-bit scales", "8 scales and 8 minima of 32 weights each"),
            BlockField("qh", 16, 32, "1-bit codes", "highest bit: bit k of byte l, weight 32k+l"),
            BlockField("qs", 48, 128, "4-bit codes", f"low four bits, quarters {_QUARTERS}"),
        ),
        take_codes=codes_of_q5_k,
        take_scales=scales_of_q4_k,
    ),
    "Q6_K": Anatomy(
        levels=integers(-32, 31),
        weights_per_scale=16,
        has_minimum=False,
        uniform=True,
        fields=(
            BlockField("ql", 0, 128, "4-bit codes", "low four bits: weights l and l+64 of a half"),
            BlockField("qh", 128, 64, "2-bit codes", "high two bits, bytes as in Q2_K"),
            BlockField("scales", 192, 16, "i8", "one scale for each 16 weights"),
            BlockField("d", 208, 2, "f16", "scale of the scales"),
        ),
        take_codes=codes_of_q6_k,
        take_scales=scales_of_q6_k,
    ),
    "Q8_K": Anatomy(
        levels=integers(-128, 127),
        weights_per_scale=256,
        has_minimum=False,
        uniform=True,
        fields=(
            BlockField("d", 0, 4, "f32", "scale of all weights"),
            BlockField("qs", 4, 256, "i8", "one code for each weight"),
            BlockField("bsums", 260, 32, "i16", "sums of 16 codes each, for dot products"),
        ),
        take_codes=codes_of_q8_k,
        take_scales=scales_of_q8_k,
    ),
}
