"""Blocks of one scale: 4, 5 and 8 bits a weight from ggml's first days, and the newer 1 and 2 bits.

::

    Q4_0  | d f16 | qs 16 B: 4-bit codes |                             d * (code - 8)
    Q4_1  | d f16 | m f16 | qs 16 B: 4-bit codes |                     d * code + m
    Q5_0  | d f16 | qh u32: 5th bits | qs 16 B: low 4 bits |           d * (code - 16)
    Q5_1  | d f16 | m f16 | qh u32: 5th bits | qs 16 B: low 4 bits |   d * code + m
    Q8_0  | d f16 | qs 32 B: int8 codes |                              d * code
    Q8_1  | d f16 | s f16: d * sum of codes | qs 32 B: int8 codes |    d * code
    Q1_0  | d f16 | qs 16 B: 128 bits |                                d or -d
    Q2_0  | d f16 | qs 16 B: 64 codes of 2 bits |                      d * (code - 1)

    nibbles of qs:     byte 0     byte 1          byte 15       Q1_0, Q2_0: from the lowest bit
      low half:      weight 0   weight 1   ...   weight 15      on, one weight after the other
      high half:     weight 16  weight 17  ...   weight 31

Source: `gguf.md` section 8; ggml/src/ggml-quants.c, `dequantize_row_q4_0` and its siblings.
"""

from __future__ import annotations

from typing import Any

from explorer.quantization.jit import callback_kernel, f32, half_at, i8, i32, u32, u32_at


@callback_kernel
def decode_q4_0(blocks: Any, out: Any) -> None:
    """Decode Q4_0; blocks: uint8 [n, 18], out: float32 [n, 32]."""
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 0)
        for i in range(16):
            codes = blocks[b, 2 + i]
            out[b, i] = f32(i32((codes & 15) - 8)) * d
            out[b, 16 + i] = f32(i32((codes >> 4) - 8)) * d


@callback_kernel
def decode_q4_1(blocks: Any, out: Any) -> None:
    """Decode Q4_1; blocks: uint8 [n, 20], out: float32 [n, 32]."""
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 0)
        m = half_at(blocks, b, 2)
        for i in range(16):
            codes = blocks[b, 4 + i]
            out[b, i] = f32(i32(codes & 15)) * d + m
            out[b, 16 + i] = f32(i32(codes >> 4)) * d + m


@callback_kernel
def decode_q5_0(blocks: Any, out: Any) -> None:
    """Decode Q5_0; blocks: uint8 [n, 22], out: float32 [n, 32]."""
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 0)
        high = u32_at(blocks, b, 2)
        for i in range(16):
            low_code = i32(blocks[b, 6 + i] & 15)
            high_code = i32(blocks[b, 6 + i] >> 4)
            if not high & u32(u32(1) << u32(i)):
                low_code -= 16
            if not high & u32(u32(1) << u32(16 + i)):
                high_code -= 16
            out[b, i] = f32(i32(low_code)) * d
            out[b, 16 + i] = f32(i32(high_code)) * d


@callback_kernel
def decode_q5_1(blocks: Any, out: Any) -> None:
    """Decode Q5_1; blocks: uint8 [n, 24], out: float32 [n, 32]."""
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 0)
        m = half_at(blocks, b, 2)
        high = u32_at(blocks, b, 4)
        for i in range(16):
            low_code = i32(blocks[b, 8 + i] & 15)
            high_code = i32(blocks[b, 8 + i] >> 4)
            if high & u32(u32(1) << u32(i)):
                low_code += 16
            if high & u32(u32(1) << u32(16 + i)):
                high_code += 16
            out[b, i] = f32(i32(low_code)) * d + m
            out[b, 16 + i] = f32(i32(high_code)) * d + m


@callback_kernel
def decode_q8_0(blocks: Any, out: Any) -> None:
    """Decode Q8_0; blocks: uint8 [n, 34], out: float32 [n, 32]."""
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 0)
        for i in range(32):
            out[b, i] = f32(i8(blocks[b, 2 + i])) * d


@callback_kernel
def decode_q8_1(blocks: Any, out: Any) -> None:
    """Decode Q8_1; blocks: uint8 [n, 36], out: float32 [n, 32]."""
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 0)
        for i in range(32):
            out[b, i] = f32(i8(blocks[b, 4 + i])) * d


@callback_kernel
def decode_q1_0(blocks: Any, out: Any) -> None:
    """Decode Q1_0; blocks: uint8 [n, 18], out: float32 [n, 128]."""
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 0)
        for group in range(4):
            bits = u32_at(blocks, b, 2 + 4 * group)
            for i in range(32):
                out[b, 32 * group + i] = d if bits & u32(u32(1) << u32(i)) else -d


@callback_kernel
def decode_q2_0(blocks: Any, out: Any) -> None:
    """Decode Q2_0; blocks: uint8 [n, 18], out: float32 [n, 64]."""
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 0)
        for group in range(4):
            codes = u32_at(blocks, b, 2 + 4 * group)
            for i in range(16):
                code = u32(codes >> u32(2 * i)) & u32(3)
                out[b, 16 * group + i] = f32(i32(i32(code) - i32(1))) * d


DECODERS = {
    "Q4_0": decode_q4_0,
    "Q4_1": decode_q4_1,
    "Q5_0": decode_q5_0,
    "Q5_1": decode_q5_1,
    "Q8_0": decode_q8_0,
    "Q8_1": decode_q8_1,
    "Q1_0": decode_q1_0,
    "Q2_0": decode_q2_0,
}
