"""Weights stored one by one, without blocks or scales.

::

    F16   | half             |    IEEE 754 binary16
    BF16  | high half of F32 |    value = bits << 16
    F32   | float            |    F64, integers, BOOL: rounded to the nearest float32

Source: `docs/gguf.md`, section 8; ggml/src/ggml-impl.h, `ggml_fp16_to_fp32`, `ggml_bf16_to_fp32`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.quantization import types as formats
from explorer.quantization.jit import (
    bits_of_float32,
    f32,
    float32_of_bits,
    float32_of_half,
    half_of_float32,
    i32,
    inlined,
    kernel,
    u8,
    u16,
    u32,
)
from explorer.quantization.registry import Blocks, Decoder, Weights
from explorer.quantization.scale_search import clamped, nearest

# Floats of eight bits and less, without scales: each code is looked up in its format's table.
#
# ::
#
#     F8_*  | code             |    F6_*  | four codes in three bytes, lowest bit first
#     F4    | two codes, the low nibble first
#
# Source: `docs/safetensors_and_blobs.md`, section 1; the values: `float_formats`.


@inlined
def twice_e2m1(code: Any) -> Any:
    """Return twice the value of an E2M1 code, float32."""
    # Twice the magnitude is an integer below 16, and all eight fit one word: 12 8 6 4 3 2 1 0.
    nibble = (u32(code) & u32(7)) << u32(2)
    magnitude = f32(i32((u32(0xC8643210) >> nibble) & u32(15)))
    sign = (u32(code) & u32(8)) << u32(28)
    return float32_of_bits(bits_of_float32(magnitude) | sign)  # code 8 is -0


@inlined
def e4m3(code: Any) -> Any:
    """Return the value of an E4M3 code, float32."""
    # Moved up by 7 bits it is a half float of 2^-8 the value, subnormal numbers included.
    magnitude = u16((u16(code) & u16(0x7F)) << u16(7))
    if magnitude == u16(0x7F << 7):
        magnitude = u16(0x7E00)  # NaN
    half = u16(magnitude | ((u16(code) & u16(0x80)) << u16(8)))
    return float32_of_half(half) * f32(256)


@inlined
def e5m2(code: Any) -> Any:
    """Return the value of an E5M2 code, float32: the upper byte of a half float."""
    magnitude = u16((u16(code) & u16(0x7F)) << u16(8))
    if magnitude > u16(0x7C00):
        magnitude = u16(0x7E00)  # NaN
    return float32_of_half(u16(magnitude | ((u16(code) & u16(0x80)) << u16(8))))


@inlined
def to_e4m3(x: Any) -> Any:
    """Return the nearest E4M3 code, ties to even, 448 at most."""
    bits = bits_of_float32(clamped(abs(x), f32(0), f32(448)))
    if bits >= u32((127 - 6) << 23):
        rounded = bits + u32(0x7FFFF) + ((bits >> u32(20)) & u32(1))
        code = u8((rounded >> u32(20)) - u32((127 - 7) << 3))
    else:
        code = u8(i32(nearest(float32_of_bits(bits) * f32(512))))  # steps of 2^-9
    return u8(code | u8((bits_of_float32(x) >> u32(24)) & u32(0x80)))


@kernel
def look_up_bytes(table: Any, codes: Any, out: Any) -> None:
    """Look up codes of eight bits; table: float32 [256], codes: uint8 [n], out: float32 [n]."""
    for i in range(out.size):
        out[i] = table[codes[i]]


@kernel
def _look_up_sixes(table: Any, blocks: Any, out: Any) -> None:
    for b in range(len(blocks)):
        codes = u32(blocks[b, 0]) | u32(blocks[b, 1]) << u32(8) | u32(blocks[b, 2]) << u32(16)
        for i in range(4):
            out[b, i] = table[codes >> u32(6 * i) & u32(63)]


@kernel
def _look_up_nibbles(table: Any, blocks: Any, out: Any) -> None:
    for b in range(len(blocks)):
        out[b, 0] = table[blocks[b, 0] & 15]
        out[b, 1] = table[blocks[b, 0] >> 4]


def _bytes(table: NDArray[np.float32]) -> Decoder:
    return lambda blocks, out: look_up_bytes(table, blocks.reshape(-1), out.reshape(-1))


@kernel
def _decode_f16(blocks: Any, out: Any) -> None:
    halves = blocks.reshape(-1).view(np.uint16)
    values = out.reshape(-1)
    for i in range(values.size):
        values[i] = float32_of_half(halves[i])


@kernel
def _decode_bf16(blocks: Any, out: Any) -> None:
    halves = blocks.reshape(-1).view(np.uint16)
    values = out.reshape(-1)
    for i in range(values.size):
        values[i] = float32_of_bits(u32(halves[i]) << u32(16))


def _cast_from(dtype: str) -> Decoder:
    stored = np.dtype(dtype).newbyteorder("<")

    def decode(blocks: Blocks, out: Weights) -> None:
        # NumPy's own cast is as fast as a kernel here; a float64 beyond float32's range is Inf.
        with np.errstate(over="ignore", invalid="ignore"):
            out[...] = blocks.view(stored)

    return decode


_NUMBERS = ("F32", "F64", "I8", "I16", "I32", "I64", "U8", "U16", "U32", "U64")

DECODERS: dict[str, Decoder] = {
    "F16": _decode_f16,
    "BF16": _decode_bf16,
    "BOOL": _cast_from("u1"),
    **{name: _cast_from(f"{name[0].lower()}{int(name[1:]) // 8}") for name in _NUMBERS},
    "F8_E4M3": _bytes(formats.E4M3),
    "F8_E5M2": _bytes(formats.E5M2),
    "F8_E8M0": _bytes(formats.E8M0),
    "F8_E4M3FNUZ": _bytes(formats.E4M3_FNUZ),
    "F8_E5M2FNUZ": _bytes(formats.E5M2_FNUZ),
    "F6_E2M3": partial(_look_up_sixes, formats.E2M3),
    "F6_E3M2": partial(_look_up_sixes, formats.E3M2),
    "F4": partial(_look_up_nibbles, formats.E2M1),
}


# Weights stored one by one, rounded to the nearest number that the type has, ties to even.
#
# NaN and infinities stay what they are; a number beyond a half float's range becomes infinite.
# Source: ggml/src/ggml-impl.h, `ggml_compute_fp32_to_fp16` and `ggml_compute_fp32_to_bf16`.


@kernel
def _encode_f16(values: Any, _importance: Any, blocks: Any, _work: Any) -> None:
    x, halves = values.reshape(-1), blocks.reshape(-1).view(np.uint16)
    for i in range(x.size):
        halves[i] = half_of_float32(x[i])


@kernel
def _encode_bf16(values: Any, _importance: Any, blocks: Any, _work: Any) -> None:
    x, halves = values.reshape(-1), blocks.reshape(-1).view(np.uint16)
    for i in range(x.size):
        bits = bits_of_float32(x[i])
        rounded = (bits + u32(0x7FFF) + ((bits >> u32(16)) & u32(1))) >> u32(16)
        if bits & u32(0x7FFFFFFF) > u32(0x7F800000):
            rounded = (bits >> u32(16)) | u32(64)  # a quiet NaN
        halves[i] = u16(rounded)


@kernel
def _encode_f32(values: Any, _importance: Any, blocks: Any, _work: Any) -> None:
    x, copies = values.reshape(-1), blocks.reshape(-1).view(np.float32)
    for i in range(x.size):
        copies[i] = x[i]


ENCODERS = {"F16": _encode_f16, "BF16": _encode_bf16, "F32": _encode_f32}
