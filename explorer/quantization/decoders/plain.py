"""Weights stored one by one, without blocks or scales.

::

    F16   | half             |    IEEE 754 binary16
    BF16  | high half of F32 |    value = bits << 16
    F32   | float            |    F64, integers, BOOL: rounded to the nearest float32

Source: `gguf.md` section 8; ggml/src/ggml-impl.h, `ggml_fp16_to_fp32` and `ggml_bf16_to_fp32`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from explorer.quantization.arrays import Blocks, Weights
from explorer.quantization.jit import callback_kernel, float32_of_bits, float32_of_half, u32


@callback_kernel
def decode_f16(blocks: Any, out: Any) -> None:
    """Widen half floats; blocks: uint8 [n, 2], out: float32 [n, 1]."""
    halves = blocks.reshape(-1).view(np.uint16)
    values = out.reshape(-1)
    for i in range(values.size):
        values[i] = float32_of_half(halves[i])


@callback_kernel
def decode_bf16(blocks: Any, out: Any) -> None:
    """Widen bfloat16; blocks: uint8 [n, 2], out: float32 [n, 1]."""
    halves = blocks.reshape(-1).view(np.uint16)
    values = out.reshape(-1)
    for i in range(values.size):
        values[i] = float32_of_bits(u32(halves[i]) << u32(16))


def _cast_from(dtype: str) -> Callable[[Blocks, Weights], None]:
    stored = np.dtype(dtype).newbyteorder("<")

    def decode(blocks: Blocks, out: Weights) -> None:
        # NumPy's own cast is as fast as a kernel here; a float64 beyond float32's range is Inf.
        with np.errstate(over="ignore", invalid="ignore"):
            out[...] = blocks.view(stored)

    return decode


DECODERS = {
    "F32": _cast_from("f4"),
    "F16": decode_f16,
    "BF16": decode_bf16,
    "F64": _cast_from("f8"),
    "I8": _cast_from("i1"),
    "I16": _cast_from("i2"),
    "I32": _cast_from("i4"),
    "I64": _cast_from("i8"),
    "BOOL": _cast_from("u1"),
    "U8": _cast_from("u1"),
    "U16": _cast_from("u2"),
    "U32": _cast_from("u4"),
    "U64": _cast_from("u8"),
}
