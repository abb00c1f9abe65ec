"""Groups of integer codes with a scale and a bias: `value = code * scale + bias`.

The product and the sum are each rounded to float32. Four and eight bits have ways of their own,
which are three times as quick as the one for any width. `grouped` has the layout.

Source: `safetensors_and_blobs.md` section 4; mlx/backend/metal/kernels/quantized.h, `dequantize`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.quantization.arrays import Blocks, Weights
from explorer.quantization.jit import f32, i32, inlined, kernel, u8, u64


@inlined
def _eight_codes(packed: Any, g: Any, i: Any, bits: Any) -> Any:
    """Return codes 8 i to 8 i + 7 of a group in one word: they fill `bits` bytes."""
    word = u64(0)
    for j in range(8):  # a loop of constant length, in place of one to `bits`, doubles the speed
        if j < bits:
            word |= u64(packed[g, i * bits + j]) << u64(8 * j)
    return word


@kernel
def unpack_codes(packed: Any, bits: Any, codes: Any) -> None:
    """Unpack codes of any width.

    Args:
        packed: uint8 [groups, bytes of a group's codes], each group a little-endian bit stream.
        bits: Bits of a code, 2 to 8.
        codes: uint8 [groups, group size], filled.
    """
    groups, size = codes.shape
    mask = u64((1 << bits) - 1)
    for g in range(groups):
        for i in range(size // 8):
            word = _eight_codes(packed, g, i, bits)
            for j in range(8):
                codes[g, 8 * i + j] = u8((word >> u64(j * bits)) & mask)


@kernel
def _decode_any(packed: Any, bits: Any, scales: Any, biases: Any, out: Any) -> None:
    groups, size = out.shape
    mask = u64((1 << bits) - 1)
    for g in range(groups):
        scale, bias = scales[g], biases[g]
        for i in range(size // 8):
            word = _eight_codes(packed, g, i, bits)
            for j in range(8):
                code = (word >> u64(j * bits)) & mask
                out[g, 8 * i + j] = f32(i32(code)) * scale + bias


# Groups are 32, 64 or 128 codes, so loops of 32 leave nothing over.
@kernel
def _decode_4(packed: Any, scales: Any, biases: Any, out: Any) -> None:
    groups, size = out.shape
    for g in range(groups):
        scale, bias = scales[g], biases[g]
        for i in range(size // 32):
            for j in range(16):
                pair, k = packed[g, 16 * i + j], 32 * i + 2 * j
                out[g, k] = f32(i32(pair & u8(15))) * scale + bias
                out[g, k + 1] = f32(i32(pair >> u8(4))) * scale + bias


@kernel
def _decode_8(packed: Any, scales: Any, biases: Any, out: Any) -> None:
    groups, size = out.shape
    for g in range(groups):
        scale, bias = scales[g], biases[g]
        for i in range(size // 32):
            for j in range(32):
                k = 32 * i + j
                out[g, k] = f32(i32(packed[g, k])) * scale + bias


def decode_affine(
    packed: Blocks,
    bits: int,
    scales: NDArray[np.float32],
    biases: NDArray[np.float32],
    out: Weights,
) -> None:
    """Decode affine groups.

    Args:
        packed: uint8 [groups, bytes of a group's codes].
        bits: Bits of a code, 2 to 8.
        scales: float32 [groups].
        biases: float32 [groups].
        out: float32 [groups, group size], a multiple of 32, filled.
    """
    if bits == 4:
        _decode_4(packed, scales, biases, out)
    elif bits == 8:
        _decode_8(packed, scales, biases, out)
    else:
        _decode_any(packed, bits, scales, biases, out)
