"""Blocks of 256 weights rounded to -1, 0 or 1 times the largest magnitude, ties away from zero.

Source: ggml/src/ggml-quants.c, `quantize_row_tq1_0_ref`, `quantize_row_tq2_0_ref`.
"""

from __future__ import annotations

from typing import Any

from explorer.quantization.encoders.rounding import away_from_zero, inverse, largest, load
from explorer.quantization.jit import i32, inlined, kernel, set_half, u8, u32


@inlined
def _load_digits(values: Any, b: Any, work: Any) -> Any:
    """Write a digit, 0 to 2, for each weight of block `b`, and return the scale."""
    load(values, b, 0, 256, work.x)
    d = largest(work.x, 256)
    factor = inverse(d)
    for i in range(256):
        work.codes[i] = u8(away_from_zero(work.x[i] * factor) + i32(1))
    return d


@inlined
def _fraction(digits: Any, first: Any, step: Any) -> Any:
    """Return a number of five digits as a fraction of 256, rounded up."""
    number = u32(u32(digits[first]) * u32(3) + u32(digits[first + step]))
    number = u32(number * u32(3) + u32(digits[first + 2 * step]))
    number = u32(number * u32(3) + u32(digits[first + 3 * step]))
    number = u32(number * u32(3) + u32(digits[first + 4 * step]))
    return u8(u32(number * u32(256) + u32(242)) // u32(243))


@kernel
def encode_tq1_0(values: Any, _importance: Any, blocks: Any, work: Any) -> None:
    """Encode TQ1_0; see `Encode`."""
    digits = work.codes
    digits[256:260] = 0
    for b in range(blocks.shape[0]):
        set_half(blocks, b, 52, _load_digits(values, b, work))
        for i in range(32):
            blocks[b, i] = _fraction(digits, i, 32)
        for i in range(16):
            blocks[b, 32 + i] = _fraction(digits, 160 + i, 16)
        for i in range(4):  # their fifth digit is 0
            blocks[b, 48 + i] = _fraction(digits, 240 + i, 4)


@kernel
def encode_tq2_0(values: Any, _importance: Any, blocks: Any, work: Any) -> None:
    """Encode TQ2_0; see `Encode`."""
    digits = work.codes
    for b in range(blocks.shape[0]):
        set_half(blocks, b, 64, _load_digits(values, b, work))
        for half in range(2):
            for i in range(32):
                k = 128 * half + i
                low = digits[k] | digits[k + 32] << 2
                blocks[b, 32 * half + i] = low | digits[k + 64] << 4 | digits[k + 96] << 6


ENCODERS = {"TQ1_0": encode_tq1_0, "TQ2_0": encode_tq2_0}
