"""Weights stored one by one, rounded to the nearest number that the type has, ties to even.

NaN and infinities stay what they are; a number beyond a half float's range becomes infinite.
Source: ggml/src/ggml-impl.h, `ggml_compute_fp32_to_fp16` and `ggml_compute_fp32_to_bf16`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.quantization.jit import bits_of_float32, half_of_float32, kernel, u16, u32


@kernel
def encode_f16(values: Any, _importance: Any, blocks: Any, _work: Any) -> None:
    """Round to F16; see `Encode`."""
    x, halves = values.reshape(-1), blocks.reshape(-1).view(np.uint16)
    for i in range(x.size):
        halves[i] = half_of_float32(x[i])


@kernel
def encode_bf16(values: Any, _importance: Any, blocks: Any, _work: Any) -> None:
    """Round to BF16; see `Encode`."""
    x, halves = values.reshape(-1), blocks.reshape(-1).view(np.uint16)
    for i in range(x.size):
        bits = bits_of_float32(x[i])
        rounded = (bits + u32(0x7FFF) + ((bits >> u32(16)) & u32(1))) >> u32(16)
        if bits & u32(0x7FFFFFFF) > u32(0x7F800000):
            rounded = (bits >> u32(16)) | u32(64)  # a quiet NaN
        halves[i] = u16(rounded)


@kernel
def encode_f32(values: Any, _importance: Any, blocks: Any, _work: Any) -> None:
    """Copy; see `Encode`."""
    x, copies = values.reshape(-1), blocks.reshape(-1).view(np.float32)
    for i in range(x.size):
        copies[i] = x[i]


ENCODERS = {"F16": encode_f16, "BF16": encode_bf16, "F32": encode_f32}
