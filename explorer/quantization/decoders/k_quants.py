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

Source: `gguf.md` section 8; ggml/src/ggml-quants.c, `dequantize_row_q2_K` and its siblings.
"""

from __future__ import annotations

from typing import Any

from explorer.quantization.jit import (
    callback_kernel,
    f32,
    float32_of_bits,
    half_at,
    i8,
    i32,
    inlined,
    u32_at,
)


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


@callback_kernel
def decode_q2_k(blocks: Any, out: Any) -> None:
    """Decode Q2_K; blocks: uint8 [n, 84], out: float32 [n, 256]."""
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


@callback_kernel
def decode_q3_k(blocks: Any, out: Any) -> None:
    """Decode Q3_K; blocks: uint8 [n, 110], out: float32 [n, 256]."""
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


@callback_kernel
def decode_q4_k(blocks: Any, out: Any) -> None:
    """Decode Q4_K; blocks: uint8 [n, 144], out: float32 [n, 256]."""
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


@callback_kernel
def decode_q5_k(blocks: Any, out: Any) -> None:
    """Decode Q5_K; blocks: uint8 [n, 176], out: float32 [n, 256]."""
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


@callback_kernel
def decode_q6_k(blocks: Any, out: Any) -> None:
    """Decode Q6_K; blocks: uint8 [n, 210], out: float32 [n, 256]."""
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


@callback_kernel
def decode_q8_k(blocks: Any, out: Any) -> None:
    """Decode Q8_K; blocks: uint8 [n, 292], out: float32 [n, 256]."""
    for b in range(blocks.shape[0]):
        d = float32_of_bits(u32_at(blocks, b, 0))
        for i in range(256):
            out[b, i] = d * f32(i8(blocks[b, 4 + i]))


DECODERS = {
    "Q2_K": decode_q2_k,
    "Q3_K": decode_q3_k,
    "Q4_K": decode_q4_k,
    "Q5_K": decode_q5_k,
    "Q6_K": decode_q6_k,
    "Q8_K": decode_q8_k,
}
