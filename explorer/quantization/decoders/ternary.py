"""Blocks of 256 weights that are -1, 0 or 1 times a scale (TQ2_0 can hold a 2 as well).

::

    TQ1_0  | qs 48 B | qh 4 B | d f16 |      d * (digit - 1), digit in base 3
    TQ2_0  | qs 64 B: 2-bit codes | d f16 |  d * (code - 1)

    TQ1_0: a byte holds 5 digits (4 in qh) of a number below 243, kept as a fraction of 256:
           digit n = 3 * ((byte * 3^n) mod 256) / 256, rounded down
           qs 0-31   digit 0 of weights   0-31,  digit 1 of weights  32-63,  ... digit 4: 128-159
           qs 32-47  digit 0 of weights 160-175, digit 1 of weights 176-191, ... digit 4: 224-239
           qh 0-3    digit 0 of weights 240-243, digit 1 of weights 244-247, ... digit 3: 252-255
    TQ2_0: one byte holds weights l, l + 32, l + 64, l + 96 of a half, from the lowest bits on

Source: `gguf.md` section 8; ggml/src/ggml-quants.c, `dequantize_row_tq1_0`, `dequantize_row_tq2_0`.
"""

from __future__ import annotations

from typing import Any

from explorer.quantization.jit import callback_kernel, f32, half_at, i32, inlined, u32


@inlined
def base_3_digit(byte: Any, power: Any) -> Any:
    """Return a digit of a TQ1_0 byte, 0 to 2; `power` is 3 to the digit's number, a uint32."""
    return u32(u32(u32(byte) * power) & u32(255)) * u32(3) >> u32(8)


@inlined
def _ternary(byte: Any, power: Any) -> Any:
    return f32(i32(i32(base_3_digit(byte, power)) - i32(1)))


@callback_kernel
def decode_tq1_0(blocks: Any, out: Any) -> None:
    """Decode TQ1_0; blocks: uint8 [n, 54], out: float32 [n, 256]."""
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 52)
        power = u32(1)
        for n in range(5):
            for i in range(32):
                out[b, 32 * n + i] = _ternary(blocks[b, i], power) * d
            for i in range(16):
                out[b, 160 + 16 * n + i] = _ternary(blocks[b, 32 + i], power) * d
            power = u32(power * u32(3))
        power = u32(1)
        for n in range(4):
            for i in range(4):
                out[b, 240 + 4 * n + i] = _ternary(blocks[b, 48 + i], power) * d
            power = u32(power * u32(3))


@callback_kernel
def decode_tq2_0(blocks: Any, out: Any) -> None:
    """Decode TQ2_0; blocks: uint8 [n, 66], out: float32 [n, 256]."""
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 64)
        for half in range(2):
            for j in range(4):
                for i in range(32):
                    code = blocks[b, 32 * half + i] >> 2 * j & 3
                    out[b, 128 * half + 32 * j + i] = f32(i32(code) - 1) * d


DECODERS = {"TQ1_0": decode_tq1_0, "TQ2_0": decode_tq2_0}
