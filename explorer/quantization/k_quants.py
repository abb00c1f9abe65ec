"""Super-blocks of 256 weights, whose sub-blocks' scales (and minima) are small integers.

::

    Q2_K  | scales 16 B | qs 64 B: 2-bit codes | d f16 | dmin f16 |
    Q3_K  | hmask 32 B: 3rd bits | qs 64 B: low 2 bits | scales 12 B | d f16 |
    Q4_K  | d f16 | dmin f16 | scales 12 B | qs 128 B: 4-bit codes |
    Q5_K  | d f16 | dmin f16 | scales 12 B | qh 32 B: 5th bits | qs 128 B: low 4 bits |
    Q6_K  | ql 128 B: low 4 bits | qh 64 B: high 2 bits | scales 16 B: int8 | d f16 |
    Q8_K  | d f32 | qs 256 B: int8 codes | bsums 32 B: sums of 16 codes, int16 |

    Q2_K  d * scale * code - dmin * minimum     16 sub-blocks of 16 weights
    Q3_K  d * (scale - 32) * (code - 4)         16 sub-blocks of 16 weights
    Q4_K  d * scale * code - dmin * minimum      8 sub-blocks of 32 weights
    Q5_K  d * scale * code - dmin * minimum      8 sub-blocks of 32 weights
    Q6_K  d * scale * (code - 32)               16 sub-blocks of 16 weights
    Q8_K  d * code

    Q2_K, Q3_K: one byte of qs holds weights l, l + 32, l + 64, l + 96 of a half (128 weights):
                bits 0-1 | 2-3 | 4-5 | 6-7
    Q4_K, Q5_K: one byte of qs holds weights l and l + 32 of a quarter (64 weights)
    Q6_K:       of a half, ql's bytes 0-31 hold weights l and l + 64, its bytes 32-63 l + 32 and
                l + 96; qh as qs in Q2_K

    the 12 bytes of scales in Q4_K and Q5_K, six bits each, k = 0..3:
        byte k       | scale k + 4: bits 4-5   | scale k: bits 0-5   |
        byte k + 4   | minimum k + 4: bits 4-5 | minimum k: bits 0-5 |
        byte k + 8   | minimum k + 4: bits 0-3 | scale k + 4: bits 0-3 |
    and in Q3_K:
        byte k, 0-7  | scale k + 8: bits 0-3 | scale k: bits 0-3 |
        byte k + 8   | bits 4-5 of scales k + 12 | k + 8 | k + 4 | k |

Source: `docs/gguf.md`, section 8; ggml/src/ggml-quants.c, `dequantize_row_q2_K` and its siblings.
"""

from __future__ import annotations

from typing import Any

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
from explorer.quantization.registry import BlockField, BlockLayout, integers


@inlined
def q3_k_scale(blocks: Any, b: Any, k: Any) -> Any:
    """Return the scale of sub-block k of 16, from -32 to 31."""
    low = blocks[b, 96 + (k & 7)] >> (k >> 3) * 4 & 15
    high = blocks[b, 104 + (k & 3)] >> (k >> 2) * 2 & 3
    return (low | high << 4) - 32


@inlined
def q4_k_scale(blocks: Any, b: Any, k: Any) -> Any:
    """Return the scale of sub-block k of 8 in Q4_K and Q5_K, from 0 to 63."""
    if k < 4:
        return blocks[b, 4 + k] & 63
    return blocks[b, 8 + k] & 15 | blocks[b, k] >> 6 << 4


@inlined
def q4_k_minimum(blocks: Any, b: Any, k: Any) -> Any:
    """Return the minimum of sub-block k of 8 in Q4_K and Q5_K, from 0 to 63."""
    if k < 4:
        return blocks[b, 8 + k] & 63
    return blocks[b, 8 + k] >> 4 | blocks[b, 4 + k] >> 6 << 4


@kernel
def _decode_q2_k(blocks: Any, out: Any) -> None:
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 80)
        dmin = half_at(blocks, b, 82)
        for half in range(2):
            for j in range(4):
                for part in range(2):
                    packed = blocks[b, 8 * half + 2 * j + part]
                    scale = d * f32(i32(packed & 15))
                    minimum = dmin * f32(i32(packed >> 4))
                    for i in range(16):
                        code = blocks[b, 16 + 32 * half + 16 * part + i] >> 2 * j & 3
                        value = scale * f32(i32(code)) - minimum
                        out[b, 128 * half + 32 * j + 16 * part + i] = value


@kernel
def _decode_q3_k(blocks: Any, out: Any) -> None:
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 108)
        for half in range(2):
            for j in range(4):
                for part in range(2):
                    scale = d * f32(i32(q3_k_scale(blocks, b, 8 * half + 2 * j + part)))
                    for i in range(16):
                        code = i32(blocks[b, 32 + 32 * half + 16 * part + i] >> 2 * j & 3)
                        if not blocks[b, 16 * part + i] & 1 << 4 * half + j:
                            code -= 4
                        out[b, 128 * half + 32 * j + 16 * part + i] = scale * f32(i32(code))


@kernel
def _decode_q4_k(blocks: Any, out: Any) -> None:
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 0)
        dmin = half_at(blocks, b, 2)
        for quarter in range(4):
            for part in range(2):
                k = 2 * quarter + part
                scale = d * f32(i32(q4_k_scale(blocks, b, k)))
                minimum = dmin * f32(i32(q4_k_minimum(blocks, b, k)))
                for i in range(32):
                    code = blocks[b, 16 + 32 * quarter + i] >> 4 * part & 15
                    out[b, 32 * k + i] = scale * f32(i32(code)) - minimum


@kernel
def _decode_q5_k(blocks: Any, out: Any) -> None:
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 0)
        dmin = half_at(blocks, b, 2)
        for quarter in range(4):
            for part in range(2):
                k = 2 * quarter + part
                scale = d * f32(i32(q4_k_scale(blocks, b, k)))
                minimum = dmin * f32(i32(q4_k_minimum(blocks, b, k)))
                for i in range(32):
                    code = i32(blocks[b, 48 + 32 * quarter + i] >> 4 * part & 15)
                    if blocks[b, 16 + i] & 1 << k:
                        code += 16
                    out[b, 32 * k + i] = scale * f32(i32(code)) - minimum


@kernel
def _decode_q6_k(blocks: Any, out: Any) -> None:
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 208)
        for half in range(2):
            for j in range(4):
                for part in range(2):
                    scale = d * f32(i8(blocks[b, 192 + 8 * half + 2 * j + part]))
                    for i in range(16):
                        low = blocks[b, 64 * half + 32 * (j & 1) + 16 * part + i] >> (j >> 1) * 4
                        high = blocks[b, 128 + 32 * half + 16 * part + i] >> 2 * j
                        value = scale * f32(i32((low & 15 | (high & 3) << 4) - 32))
                        out[b, 128 * half + 32 * j + 16 * part + i] = value


@kernel
def _decode_q8_k(blocks: Any, out: Any) -> None:
    for b in range(blocks.shape[0]):
        d = float32_of_bits(u32_at(blocks, b, 0))
        for i in range(256):
            out[b, i] = d * f32(i8(blocks[b, 4 + i]))


DECODERS = {
    "Q2_K": _decode_q2_k,
    "Q3_K": _decode_q3_k,
    "Q4_K": _decode_q4_k,
    "Q5_K": _decode_q5_k,
    "Q6_K": _decode_q6_k,
    "Q8_K": _decode_q8_k,
}


# Codes and scales of super-blocks.


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
def _codes_of_q2_k(blocks: Any, codes: Any) -> None:
    for b in range(blocks.shape[0]):
        copy_pairs_of_bits(blocks, b, 16, codes)


@kernel
def _scales_of_q2_k(blocks: Any, scales: Any, minima: Any) -> None:
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 80)
        dmin = half_at(blocks, b, 82)
        for k in range(16):
            scales[b, k] = d * f32(i32(blocks[b, k] & 15))
            minima[b, k] = dmin * f32(i32(blocks[b, k] >> 4))


@kernel
def _codes_of_q3_k(blocks: Any, codes: Any) -> None:
    for b in range(blocks.shape[0]):
        copy_pairs_of_bits(blocks, b, 32, codes)
        for k in range(8):
            for i in range(32):
                codes[b, 32 * k + i] |= (blocks[b, i] >> k & 1) << 2


@kernel
def _scales_of_q3_k(blocks: Any, scales: Any, _minima: Any) -> None:
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 108)
        for k in range(16):
            scales[b, k] = d * f32(i32(q3_k_scale(blocks, b, k)))


@kernel
def _codes_of_q4_k(blocks: Any, codes: Any) -> None:
    for b in range(blocks.shape[0]):
        _copy_quarters(blocks, b, 16, codes)


@kernel
def _codes_of_q5_k(blocks: Any, codes: Any) -> None:
    for b in range(blocks.shape[0]):
        _copy_quarters(blocks, b, 48, codes)
        for k in range(8):
            for i in range(32):
                codes[b, 32 * k + i] |= (blocks[b, 16 + i] >> k & 1) << 4


@kernel
def _scales_of_q4_k(blocks: Any, scales: Any, minima: Any) -> None:
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 0)
        dmin = half_at(blocks, b, 2)
        for k in range(8):
            scales[b, k] = d * f32(i32(q4_k_scale(blocks, b, k)))
            minima[b, k] = dmin * f32(i32(q4_k_minimum(blocks, b, k)))


@kernel
def _codes_of_q6_k(blocks: Any, codes: Any) -> None:
    for b in range(blocks.shape[0]):
        copy_pairs_of_bits(blocks, b, 128, codes)
        for half in range(2):
            for j in range(4):
                for i in range(32):
                    low = blocks[b, 64 * half + 32 * (j & 1) + i] >> (j >> 1) * 4 & 15
                    at = 128 * half + 32 * j + i
                    codes[b, at] = codes[b, at] << 4 | low


@kernel
def _scales_of_q6_k(blocks: Any, scales: Any, _minima: Any) -> None:
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 208)
        for k in range(16):
            scales[b, k] = d * f32(i8(blocks[b, 192 + k]))


@kernel
def _codes_of_q8_k(blocks: Any, codes: Any) -> None:
    for b in range(blocks.shape[0]):
        for i in range(256):
            codes[b, i] = blocks[b, 4 + i] ^ 128  # int8 + 128


@kernel
def _scales_of_q8_k(blocks: Any, scales: Any, _minima: Any) -> None:
    for b in range(blocks.shape[0]):
        scales[b, 0] = float32_of_bits(u32_at(blocks, b, 0))


_HEAD = (  # of Q4_K and Q5_K
    BlockField("d", 0, 2, "f16", "scale of the scales"),
    BlockField("dmin", 2, 2, "f16", "scale of the minima"),
    BlockField("scales", 4, 12, "6-bit scales", "8 scales and 8 minima of 32 weights each"),
)

LAYOUTS = {
    "Q2_K": BlockLayout(
        levels=integers(0, 3),
        weights_per_scale=16,
        has_minimum=True,
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
        unpack_codes=_codes_of_q2_k,
        unpack_scales=_scales_of_q2_k,
    ),
    "Q3_K": BlockLayout(
        levels=integers(-4, 3),
        weights_per_scale=16,
        fields=(
            BlockField("hmask", 0, 32, "1-bit codes", "highest bit: bit k of byte l, weight 32k+l"),
            BlockField("qs", 32, 64, "2-bit codes", "low two bits, bytes as in Q2_K"),
            BlockField("scales", 96, 12, "6-bit scales", "16 scales, 32 more than their value"),
            BlockField("d", 108, 2, "f16", "scale of the scales"),
        ),
        unpack_codes=_codes_of_q3_k,
        unpack_scales=_scales_of_q3_k,
    ),
    "Q4_K": BlockLayout(
        levels=integers(0, 15),
        weights_per_scale=32,
        has_minimum=True,
        fields=(*_HEAD, BlockField("qs", 16, 128, "4-bit codes", f"quarters {_QUARTERS}")),
        unpack_codes=_codes_of_q4_k,
        unpack_scales=_scales_of_q4_k,
    ),
    "Q5_K": BlockLayout(
        levels=integers(0, 31),
        weights_per_scale=32,
        has_minimum=True,
        fields=(
            *_HEAD,
            BlockField("qh", 16, 32, "1-bit codes", "highest bit: bit k of byte l, weight 32k+l"),
            BlockField("qs", 48, 128, "4-bit codes", f"low four bits, quarters {_QUARTERS}"),
        ),
        unpack_codes=_codes_of_q5_k,
        unpack_scales=_scales_of_q4_k,
    ),
    "Q6_K": BlockLayout(
        levels=integers(-32, 31),
        weights_per_scale=16,
        fields=(
            BlockField("ql", 0, 128, "4-bit codes", "low four bits: weights l and l+64 of a half"),
            BlockField("qh", 128, 64, "2-bit codes", "high two bits, bytes as in Q2_K"),
            BlockField("scales", 192, 16, "i8", "one scale for each 16 weights"),
            BlockField("d", 208, 2, "f16", "scale of the scales"),
        ),
        unpack_codes=_codes_of_q6_k,
        unpack_scales=_scales_of_q6_k,
    ),
    "Q8_K": BlockLayout(
        levels=integers(-128, 127),
        weights_per_scale=256,
        fields=(
            BlockField("d", 0, 4, "f32", "scale of all weights"),
            BlockField("qs", 4, 256, "i8", "one code for each weight"),
            BlockField("bsums", 260, 32, "i16", "sums of 16 codes each, for dot products"),
        ),
        unpack_codes=_codes_of_q8_k,
        unpack_scales=_scales_of_q8_k,
    ),
}
