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

Source: `docs/gguf.md`, section 8; ggml/src/ggml-quants.c, `dequantize_row_tq1_0` and
`dequantize_row_tq2_0`.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from explorer.quantization.bits import Bits, BitType, Field, plane
from explorer.quantization.jit import i32, inlined, kernel, set_half, u8, u32
from explorer.quantization.registry import integers
from explorer.quantization.scale_search import away_from_zero, inverse, largest, load

_D: Final = Field("d", 2, "f16", "scale of all weights")
# Runs of weights with one digit each of consecutive bytes: weights, first byte, bytes.
_RUNS: Final = ((160, 0, 32), (80, 32, 16), (16, 48, 4))
_BYTE: Final = np.concatenate([at + np.arange(count) % run for count, at, run in _RUNS])
_DIGIT: Final = np.concatenate([np.arange(count) // run for count, _at, run in _RUNS])

TYPES: Final = {
    "TQ1_0": BitType(
        (
            Field("qs", 48, "base-3 digits", "five weights in each byte, 0-239"),
            *(Field("qh", 4, "base-3 digits", "four weights in each byte, 240-255"), _D),
        ),
        *((Bits(8 * _BYTE, 255),), integers(-1, 1), 256),
        d_at=52,
        powers=3**_DIGIT,
    ),
    "TQ2_0": BitType(
        (Field("qs", 64, "2-bit codes", "byte l of a half: weights l, l+32, l+64, l+96"), _D),
        *((plane(0, 2, 32),), integers(-1, 2), 256),
        d_at=64,
    ),
}


# Blocks of 256 weights rounded to -1, 0 or 1 times the largest magnitude, ties away from zero.
#
# Source: ggml/src/ggml-quants.c, `quantize_row_tq1_0_ref`, `quantize_row_tq2_0_ref`.


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
def _encode_tq1_0(values: Any, _importance: Any, blocks: Any, work: Any) -> None:
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
def _encode_tq2_0(values: Any, _importance: Any, blocks: Any, work: Any) -> None:
    digits = work.codes
    for b in range(blocks.shape[0]):
        set_half(blocks, b, 64, _load_digits(values, b, work))
        for half in range(2):
            for i in range(32):
                k = 128 * half + i
                low = digits[k] | digits[k + 32] << 2
                blocks[b, 32 * half + i] = low | digits[k + 64] << 4 | digits[k + 96] << 6


ENCODERS = {"TQ1_0": _encode_tq1_0, "TQ2_0": _encode_tq2_0}
