"""Round weights to the tensor types of the demo model, byte for byte as ggml does.

gguf.md section 8, "Quantizing" (ggml/src/ggml-quants.c, `quantize_row_*_ref`). All rows at once in
NumPy, every operation in float32 as in C; speed does not matter for two megabytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]
Bytes: TypeAlias = NDArray[np.uint8]

_BLOCK: Final = 32


def _f16_bytes(values: Floats) -> Bytes:
    return values.astype("<f2").view(np.uint8)


def _inverse(scale: Floats) -> Floats:
    """Return 1 / scale, and 0 for a scale of 0: such a block is all zeros."""
    with np.errstate(divide="ignore"):
        return np.where(scale == 0, np.float32(0), np.float32(1) / scale)


def _codes(values: Floats, most: int) -> Bytes:
    """Truncate to codes from 0 to `most`, as a C cast and a minimum do."""
    return np.clip(np.trunc(values), 0, most).astype(np.uint8)


def _nibbles(codes: Bytes) -> Bytes:
    """Pack the lower four bits: weights 0 to 15 in the low nibbles, 16 to 31 in the high ones."""
    half = _BLOCK // 2
    low, high = codes[:, :half] & np.uint8(15), codes[:, half:] & np.uint8(15)
    return low | (high << np.uint8(4))


def _fifth_bits(codes: Bytes) -> Bytes:
    """Pack bit 4 of each code into 32 bits, weight 0 lowest."""
    return np.packbits(codes >> 4, axis=1, bitorder="little")


def _signed_extreme(blocks: Floats) -> Floats:
    """Return each block's value of largest magnitude, with its sign; the first of equal ones."""
    place = np.abs(blocks).argmax(axis=1, keepdims=True)
    return np.take_along_axis(blocks, place, axis=1)


def _symmetric(blocks: Floats, low: int) -> tuple[Floats, Bytes]:
    """Return scale and codes of Q4_0 (`low` = 8) or Q5_0 (16)."""
    scale = _signed_extreme(blocks) / np.float32(-low)
    codes = _codes(blocks * _inverse(scale) + np.float32(low + 0.5), 2 * low - 1)
    return scale, codes


def _offset(blocks: Floats, most: int) -> tuple[Floats, Floats, Bytes]:
    """Return scale, minimum and codes of Q4_1 (`most` = 15) or Q5_1 (31)."""
    least = blocks.min(axis=1, keepdims=True)
    scale = (blocks.max(axis=1, keepdims=True) - least) / np.float32(most)
    codes = _codes((blocks - least) * _inverse(scale) + np.float32(0.5), most)
    return scale, least, codes


def _q4_0(blocks: Floats) -> Bytes:
    scale, codes = _symmetric(blocks, 8)
    return np.hstack([_f16_bytes(scale), _nibbles(codes)])


def _q4_1(blocks: Floats) -> Bytes:
    scale, least, codes = _offset(blocks, 15)
    return np.hstack([_f16_bytes(scale), _f16_bytes(least), _nibbles(codes)])


def _q5_0(blocks: Floats) -> Bytes:
    scale, codes = _symmetric(blocks, 16)
    return np.hstack([_f16_bytes(scale), _fifth_bits(codes), _nibbles(codes)])


def _q5_1(blocks: Floats) -> Bytes:
    scale, least, codes = _offset(blocks, 31)
    parts = [_f16_bytes(scale), _f16_bytes(least), _fifth_bits(codes), _nibbles(codes)]
    return np.hstack(parts)


def _q8_0(blocks: Floats) -> Bytes:
    scale = np.abs(blocks).max(axis=1, keepdims=True) / np.float32(127)
    exact = blocks * _inverse(scale)
    # roundf: halves away from zero; adding 0.5 first would round 0.49999997 up
    size = np.floor(np.abs(exact))
    size += np.abs(exact) - size >= np.float32(0.5)
    codes = np.copysign(size, exact).astype(np.int8)
    return np.hstack([_f16_bytes(scale), codes.view(np.uint8)])


def _f32(values: Floats) -> Bytes:
    return values.astype("<f4").view(np.uint8)


def _f16(values: Floats) -> Bytes:
    return values.astype("<f2").view(np.uint8)


def _bf16(values: Floats) -> Bytes:
    """Round to the nearest, halves to even (ggml_compute_fp32_to_bf16); a NaN stays a quiet one."""
    bits = values.view(np.uint32)
    rounded = (bits + (0x7FFF + ((bits >> 16) & 1))) >> 16
    quiet = (bits >> 16) | 64
    nan = (bits & 0x7FFFFFFF) > 0x7F800000
    return np.where(nan, quiet, rounded).astype("<u2").view(np.uint8)


_BLOCKWISE: Final[Mapping[str, Callable[[Floats], Bytes]]] = MappingProxyType(
    {"Q4_0": _q4_0, "Q4_1": _q4_1, "Q5_0": _q5_0, "Q5_1": _q5_1, "Q8_0": _q8_0}
)
_PLAIN: Final[Mapping[str, Callable[[Floats], Bytes]]] = MappingProxyType(
    {"F32": _f32, "F16": _f16, "BF16": _bf16}
)
DEMO_TYPES: Final = (*_PLAIN, *_BLOCKWISE)
"""Names of the tensor types that `encode` knows."""


def encode(values: Floats, type_name: str) -> bytes:
    """Return the stored bytes of weights.

    Args:
        values: float32 of any shape; for a quantized type a multiple of 32 values, whose blocks run
            along the last axis.
        type_name: One of `DEMO_TYPES`.
    """
    flat = np.ascontiguousarray(values, dtype=np.float32).reshape(-1)
    if type_name in _PLAIN:
        return _PLAIN[type_name](flat).tobytes()
    return _BLOCKWISE[type_name](flat.reshape(-1, _BLOCK)).tobytes()
