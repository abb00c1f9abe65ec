"""From the stored bytes of groups to weights and back, and to their codes and scales.

Imports Numba: others come here by `layout.group_kernels`.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from explorer.quantization import types as formats
from explorer.quantization.convert import quantize
from explorer.quantization.grouped.layout import GroupedLayout, Mode, StoredGroups
from explorer.quantization.jit import f32, i32, inlined, kernel, u8, u64
from explorer.quantization.plain import e4m3, look_up_bytes, to_e4m3, twice_e2m1
from explorer.quantization.registry import Weights, decoder, read_only
from explorer.quantization.scale_search import clamped, finite, nearest
from explorer.quantization.types import TENSOR_TYPES

# Groups of integer codes with a scale and a bias: `value = code * scale + bias`.
#
# The product and the sum are each rounded to float32. Four and eight bits have ways of their own,
# which are three times as quick as the one for any width. `grouped` has the layout.
#
# Source: `docs/safetensors_and_blobs.md`, section 4; mlx/backend/metal/kernels/quantized.h,
# `dequantize`.


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
    """Unpack codes of any width, a little-endian bit stream for each group."""
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


# Groups of small floats with a scale: nvfp4, mxfp4 and mxfp8. `grouped` has the layout.
#
# The same numbers as ggml's NVFP4 and MXFP4 (`microscaling`), but packed otherwise, with scales
# that may be negative or NaN, and with a minus zero. Codes are turned into floats by arithmetic,
# not by a table, because arithmetic vectorizes. Every product but the one with a global scale is
# exact in float32's normal range.
#
# Source: `docs/safetensors_and_blobs.md`, section 4; mlx/backend/metal/kernels/fp_quantized.h.


@kernel
def _decode_nvfp4(packed: Any, scales: Any, global_scales: Any, out: Any) -> None:
    step = 0 if global_scales.size == 1 else 1
    for g in range(len(out)):
        # Half of a scale is exact, and undoes the doubling.
        scale, factor = scales[g] * f32(0.5), global_scales[g * step]
        for j in range(8):
            pair = packed[g, j]
            out[g, 2 * j] = twice_e2m1(pair & u8(15)) * scale * factor
            out[g, 2 * j + 1] = twice_e2m1(pair >> u8(4)) * scale * factor


@kernel
def _decode_mxfp4(packed: Any, scales: Any, out: Any) -> None:
    for g in range(len(out)):
        scale = scales[g] * f32(0.5)
        for j in range(16):
            pair = packed[g, j]
            out[g, 2 * j] = twice_e2m1(pair & u8(15)) * scale
            out[g, 2 * j + 1] = twice_e2m1(pair >> u8(4)) * scale


@kernel
def _decode_mxfp8(packed: Any, scales: Any, out: Any) -> None:
    for g in range(len(out)):
        scale = scales[g]
        for j in range(32):
            out[g, j] = e4m3(packed[g, j]) * scale


Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]

_SCALE_TABLES: Final = {
    (Mode.NVFP4, "U8"): formats.E4M3,
    (Mode.NVFP4, "F8_E4M3"): formats.E4M3,
    (Mode.MXFP4, "U8"): formats.E8M0_OF_MLX,
    (Mode.MXFP4, "F8_E8M0"): formats.E8M0,
    (Mode.MXFP8, "U8"): formats.E8M0_OF_MLX,
    (Mode.MXFP8, "F8_E8M0"): formats.E8M0,
}


def decode_groups(layout: GroupedLayout, stored: StoredGroups, out: Weights) -> None:
    """Decode a run of groups, to the bit as float32 arithmetic without fused operations gives.

    Args:
        layout: How the weight is stored.
        stored: The run's bytes.
        out: float32 of any shape, C-contiguous, `group_size` weights for each group; is filled.

    Raises:
        ValueError: An array has not the length that `out` implies, or `out` is not contiguous.
    """
    if not out.flags.c_contiguous or out.size % layout.group_size:
        raise ValueError(f"out must be contiguous, in whole groups of {layout.group_size} weights")
    weights = out.reshape(-1, layout.group_size)
    packed = _rows(stored.packed, len(weights), layout.packed_bytes, "packed codes")
    scales = _stored_scales(layout, stored, len(weights))
    if layout.mode is Mode.AFFINE:
        biases = _biases(layout, stored, len(weights))
        if layout.bits == 4:
            _decode_4(packed, scales, biases, weights)
        elif layout.bits == 8:
            _decode_8(packed, scales, biases, weights)
        else:
            _decode_any(packed, layout.bits, scales, biases, weights)
    elif layout.mode is Mode.NVFP4:
        _decode_nvfp4(packed, scales, _global_scales(stored, len(weights)), weights)
    elif layout.mode is Mode.MXFP4:
        _decode_mxfp4(packed, scales, weights)
    else:
        _decode_mxfp8(packed, scales, weights)


def unpack_group_codes(layout: GroupedLayout, stored: StoredGroups, codes: Bytes) -> None:
    """Unpack the codes of a run of groups, uint8 [groups, group_size], C-contiguous.

    Raises:
        ValueError: There are not as many packed bytes as `codes` implies.
    """
    if codes.shape[1:] != (layout.group_size,) or not codes.flags.c_contiguous:
        raise ValueError(f"codes must be contiguous, of shape [groups, {layout.group_size}]")
    packed = _rows(stored.packed, len(codes), layout.packed_bytes, "packed codes")
    unpack_codes(packed, layout.bits, codes)


def unpack_group_scales(
    layout: GroupedLayout, stored: StoredGroups, scales: Floats, minima: Floats
) -> None:
    """Unpack the scales of a run of groups.

    Args:
        layout: How the weight is stored.
        stored: The run's bytes.
        scales: float32 [groups, 1], C-contiguous: effective scales, a global scale included.
        minima: float32 [groups, 1], C-contiguous: the biases with their sign turned; left alone,
            and may be of shape [groups, 0], in modes that have none.

    Raises:
        ValueError: An array has not the length that `scales` implies.
    """
    if not (scales.flags.c_contiguous and minima.flags.c_contiguous):
        raise ValueError("scales and minima must be contiguous")
    groups = scales.size
    own, shared = _stored_scales(layout, stored, groups), _global_scales(stored, groups)
    with np.errstate(over="ignore", invalid="ignore"):  # an infinite scale is shown as it is
        np.multiply(own, shared, out=scales.reshape(-1))
    if layout.mode is Mode.AFFINE:
        np.negative(_biases(layout, stored, groups), out=minima.reshape(-1))


def _stored_scales(layout: GroupedLayout, stored: StoredGroups, groups: int) -> Floats:
    """Return the scales as float32 [groups], without the global one."""
    if layout.mode is Mode.AFFINE:
        return _widened(stored.scales, groups, layout.scale_type, "scales")
    scales = np.empty(groups, np.float32)
    table = _SCALE_TABLES[layout.mode, layout.scale_type]
    look_up_bytes(table, _rows(stored.scales, groups, 1, "scales").reshape(-1), scales)
    return scales


def _biases(layout: GroupedLayout, stored: StoredGroups, groups: int) -> Floats:
    if layout.bias_type is None or stored.biases is None:
        raise ValueError("groups of affine codes need biases")
    return _widened(stored.biases, groups, layout.bias_type, "biases")


def _widened(stored: Bytes, groups: int, type_name: str, what: str) -> Floats:
    widened = np.empty((groups, 1), np.float32)
    width = TENSOR_TYPES[type_name].block_bytes
    decoder(type_name)(_rows(stored, groups, width, what), widened)
    return widened.reshape(-1)


def _global_scales(stored: StoredGroups, groups: int) -> Floats:
    if stored.global_scales is None:
        return read_only(np.ones(1, np.float32))
    if stored.global_scales.size not in {1, groups}:
        raise ValueError(f"{groups} groups have {stored.global_scales.size} global scales")
    return read_only(np.ascontiguousarray(stored.global_scales, np.float32).reshape(-1))


def _rows(stored: Bytes, groups: int, width: int, what: str) -> Bytes:
    """Return bytes as [groups, width], contiguous, which the kernels read without a check."""
    if stored.size != groups * width:
        wanted = f"{groups} groups need {groups * width:,}"
        raise ValueError(f"{stored.size:,} bytes of {what}, where {wanted}")
    return read_only(np.ascontiguousarray(stored, np.uint8).reshape(groups, width))


# Groups with scales of their own, as MLX makes them: affine, nvfp4, mxfp4 and mxfp8.
#
# Source: mlx/backend/cpu/quantized.cpp, `quantize` and `fp_quantize`; mlx/ops.cpp, `fp_quantize`.


@inlined
def _e2m1(x: Any) -> Any:
    """Return the nearest E2M1 code, of two that are equally near the smaller; never that of -0."""
    magnitude = abs(x)
    code = u8(magnitude > f32(0.25))
    code += u8(magnitude > f32(0.75))
    code += u8(magnitude > f32(1.25))
    code += u8(magnitude > f32(1.75))
    code += u8(magnitude > f32(2.5))
    code += u8(magnitude > f32(3.5))
    code += u8(magnitude > f32(5))
    if x < 0 and code > 0:
        code += u8(8)
    return u8(code)


@inlined
def _largest(values: Any, g: Any) -> Any:
    most = f32(0)
    for i in range(values.shape[1]):
        x = abs(finite(values[g, i]))
        most = x if x > most else most
    return most


@inlined
def _power(most: Any, top: Any) -> Any:
    """Return the E8M0 code of the least power of two that brings `most` to `top` or below."""
    if most == 0:
        return u8(0)
    power = f32(math.ceil(math.log2(most / top)))
    return u8(i32(clamped(power, f32(-127), f32(127))) + i32(127))


@kernel
def _encode_affine(values: Any, bits: Any, scales: Any, biases: Any, packed: Any) -> None:
    """Fill the last three; scales and biases, float32, are not yet of the type that is stored."""
    top = f32((1 << bits) - 1)
    for g in range(values.shape[0]):
        low = high = finite(values[g, 0])
        for i in range(values.shape[1]):
            x = finite(values[g, i])
            low = x if x < low else low
            high = x if x > high else high
        # The end that is farther from zero becomes exact, and zero too.
        edge = low if abs(low) > abs(high) else high
        scale = max((high - low) / top, f32(1e-7))
        scale = scale if abs(low) > abs(high) else -scale
        steps = nearest(edge / scale)
        bias = f32(0)
        if steps != 0:
            scale, bias = edge / steps, edge
        scales[g], biases[g] = scale, bias
        for i in range(values.shape[1] // 8):
            word = u64(0)
            for j in range(8):
                x = (finite(values[g, 8 * i + j]) - bias) / scale
                code = i32(clamped(nearest(x), f32(0), top))
                word |= u64(code) << u64(j * bits)
            for j in range(bits):
                packed[g, i * bits + j] = u8((word >> u64(8 * j)) & u64(255))


@inlined
def _store_e2m1(values: Any, g: Any, scale: Any, packed: Any) -> None:
    divisor = scale if scale != 0 else f32(math.inf)
    for i in range(packed.shape[1]):
        low, high = finite(values[g, 2 * i]), finite(values[g, 2 * i + 1])
        packed[g, i] = _e2m1(low / divisor) | _e2m1(high / divisor) << 4


@kernel
def _encode_nvfp4(values: Any, scales: Any, decoded: Any, packed: Any) -> None:
    """Fill scales, E4M3, and packed; decoded: float32 [256], what each E4M3 code is worth."""
    for g in range(values.shape[0]):
        scales[g] = to_e4m3(_largest(values, g) / f32(6))
        _store_e2m1(values, g, decoded[scales[g]], packed)


@kernel
def _encode_mxfp4(values: Any, scales: Any, decoded: Any, packed: Any) -> None:
    for g in range(values.shape[0]):
        scales[g] = _power(_largest(values, g), f32(6))
        _store_e2m1(values, g, decoded[scales[g]], packed)


@kernel
def _encode_mxfp8(values: Any, scales: Any, decoded: Any, packed: Any) -> None:
    for g in range(values.shape[0]):
        scales[g] = _power(_largest(values, g), f32(448))
        scale = decoded[scales[g]]
        for i in range(values.shape[1]):
            packed[g, i] = to_e4m3(finite(values[g, i]) / scale)


_KERNELS: Final[dict[Mode, Any]] = {
    Mode.NVFP4: _encode_nvfp4,
    Mode.MXFP4: _encode_mxfp4,
    Mode.MXFP8: _encode_mxfp8,
}


def quantize_groups(layout: GroupedLayout, values: Floats) -> StoredGroups:
    """Round weights to groups as MLX does, with no global scale; NaN and infinities count as 0.

    Args:
        layout: How the weight is to be stored.
        values: float32 of any shape, in rows of whole groups.

    Raises:
        ValueError: `values` are no float32, or no whole number of groups.
    """
    if values.dtype != np.float32 or values.size % layout.group_size:
        raise ValueError(f"weights must be float32 in whole groups of {layout.group_size}")
    groups = read_only(np.ascontiguousarray(values).reshape(-1, layout.group_size))
    packed = np.empty((len(groups), layout.packed_bytes), np.uint8)
    if layout.mode is Mode.AFFINE:
        assert layout.bias_type is not None
        scales, biases = np.empty(len(groups), np.float32), np.empty(len(groups), np.float32)
        _encode_affine(groups, layout.bits, scales, biases, packed)
        return StoredGroups(
            packed.reshape(-1),
            quantize(scales, layout.scale_type),
            quantize(biases, layout.bias_type),
        )
    codes = np.empty(len(groups), np.uint8)
    decoded = formats.E4M3 if layout.mode is Mode.NVFP4 else formats.E8M0
    _KERNELS[layout.mode](groups, codes, decoded, packed)
    return StoredGroups(packed.reshape(-1), codes)
