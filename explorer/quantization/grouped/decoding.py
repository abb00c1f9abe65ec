"""From the stored bytes of groups to weights, or to their codes and scales; imports Numba.

What `grouped` says of runs of groups comes here when it is first called.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from explorer.quantization import float_formats as formats
from explorer.quantization.arrays import Weights, read_only
from explorer.quantization.decoders.affine import decode_affine, unpack_codes
from explorer.quantization.decoders.float_groups import decode_mxfp4, decode_mxfp8, decode_nvfp4
from explorer.quantization.decoders.small_floats import look_up_bytes
from explorer.quantization.grouped.layout import GroupedLayout, Mode, StoredGroups
from explorer.quantization.registry import decoder
from explorer.quantization.types import TENSOR_TYPES

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


def decode(layout: GroupedLayout, stored: StoredGroups, out: Weights) -> None:
    """Decode a run of groups; takes and raises what `grouped.decode_groups` does."""
    if not out.flags.c_contiguous or out.size % layout.group_size:
        raise ValueError(f"out must be contiguous, in whole groups of {layout.group_size} weights")
    weights = out.reshape(-1, layout.group_size)
    packed = _rows(stored.packed, len(weights), layout.packed_bytes, "packed codes")
    scales = _stored_scales(layout, stored, len(weights))
    if layout.mode is Mode.AFFINE:
        biases = _biases(layout, stored, len(weights))
        decode_affine(packed, layout.bits, scales, biases, weights)
    elif layout.mode is Mode.NVFP4:
        decode_nvfp4(packed, scales, _global_scales(stored, len(weights)), weights)
    elif layout.mode is Mode.MXFP4:
        decode_mxfp4(packed, scales, weights)
    else:
        decode_mxfp8(packed, scales, weights)


def take_codes(layout: GroupedLayout, stored: StoredGroups, codes: Bytes) -> None:
    """Tell the codes of a run of groups; see `grouped.take_group_codes`."""
    if codes.shape[1:] != (layout.group_size,) or not codes.flags.c_contiguous:
        raise ValueError(f"codes must be contiguous, of shape [groups, {layout.group_size}]")
    packed = _rows(stored.packed, len(codes), layout.packed_bytes, "packed codes")
    unpack_codes(packed, layout.bits, codes)


def take_scales(
    layout: GroupedLayout, stored: StoredGroups, scales: Floats, minima: Floats
) -> None:
    """Tell the scales of a run of groups; see `grouped.take_group_scales`."""
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
