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

from typing import Any

from explorer.quantization.jit import f32, half_at, i32, inlined, kernel, set_half, u8, u32
from explorer.quantization.k_quants import copy_pairs_of_bits
from explorer.quantization.registry import BlockField, BlockLayout, integers
from explorer.quantization.scale_search import away_from_zero, inverse, largest, load


@inlined
def base_3_digit(byte: Any, power: Any) -> Any:
    """Return a digit of a TQ1_0 byte, 0 to 2; `power` is 3 to the digit's number, a uint32."""
    return u32(u32(u32(byte) * power) & u32(255)) * u32(3) >> u32(8)


@inlined
def _ternary(byte: Any, power: Any) -> Any:
    return f32(i32(i32(base_3_digit(byte, power)) - i32(1)))


@kernel
def _decode_tq1_0(blocks: Any, out: Any) -> None:
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


@kernel
def _decode_tq2_0(blocks: Any, out: Any) -> None:
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 64)
        for half in range(2):
            for j in range(4):
                for i in range(32):
                    code = blocks[b, 32 * half + i] >> 2 * j & 3
                    out[b, 128 * half + 32 * j + i] = f32(i32(code) - 1) * d


DECODERS = {"TQ1_0": _decode_tq1_0, "TQ2_0": _decode_tq2_0}


# Codes and scales of ternary blocks.


@kernel
def _codes_of_tq1_0(blocks: Any, codes: Any) -> None:
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
def _scales_of_tq1_0(blocks: Any, scales: Any, _minima: Any) -> None:
    for b in range(blocks.shape[0]):
        scales[b, 0] = half_at(blocks, b, 52)


@kernel
def _codes_of_tq2_0(blocks: Any, codes: Any) -> None:
    for b in range(blocks.shape[0]):
        copy_pairs_of_bits(blocks, b, 0, codes)


@kernel
def _scales_of_tq2_0(blocks: Any, scales: Any, _minima: Any) -> None:
    for b in range(blocks.shape[0]):
        scales[b, 0] = half_at(blocks, b, 64)


LAYOUTS = {
    "TQ1_0": BlockLayout(
        levels=integers(-1, 1),
        weights_per_scale=256,
        fields=(
            BlockField("qs", 0, 48, "base-3 digits", "five weights in each byte, 0-239"),
            BlockField("qh", 48, 4, "base-3 digits", "four weights in each byte, 240-255"),
            BlockField("d", 52, 2, "f16", "scale of all weights"),
        ),
        unpack_codes=_codes_of_tq1_0,
        unpack_scales=_scales_of_tq1_0,
    ),
    "TQ2_0": BlockLayout(
        levels=integers(-1, 2),
        weights_per_scale=256,
        fields=(
            BlockField("qs", 0, 64, "2-bit codes", "byte l of a half: weights l, l+32, l+64, l+96"),
            BlockField("d", 64, 2, "f16", "scale of all weights"),
        ),
        unpack_codes=_codes_of_tq2_0,
        unpack_scales=_scales_of_tq2_0,
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
