"""From weights to the stored bytes of groups; imports Numba.

`grouped.quantize_groups` comes here when it is first called.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from explorer.quantization import float_formats as formats
from explorer.quantization.arrays import read_only
from explorer.quantization.encode import quantize
from explorer.quantization.encoders import groups as kernels
from explorer.quantization.grouped.layout import GroupedLayout, Mode, StoredGroups

_KERNELS: Final[dict[Mode, Any]] = {
    Mode.NVFP4: kernels.encode_nvfp4,
    Mode.MXFP4: kernels.encode_mxfp4,
    Mode.MXFP8: kernels.encode_mxfp8,
}


def encode(layout: GroupedLayout, values: NDArray[np.float32]) -> StoredGroups:
    """Round weights to groups; takes and raises what `grouped.quantize_groups` does."""
    if values.dtype != np.float32 or values.size % layout.group_size:
        raise ValueError(f"weights must be float32 in whole groups of {layout.group_size}")
    groups = read_only(np.ascontiguousarray(values).reshape(-1, layout.group_size))
    packed = np.empty((len(groups), layout.packed_bytes), np.uint8)
    if layout.mode is Mode.AFFINE:
        assert layout.bias_type is not None
        scales, biases = np.empty(len(groups), np.float32), np.empty(len(groups), np.float32)
        kernels.encode_affine(groups, layout.bits, scales, biases, packed)
        return StoredGroups(
            packed.reshape(-1),
            quantize(scales, layout.scale_type),
            quantize(biases, layout.bias_type),
        )
    codes = np.empty(len(groups), np.uint8)
    decoded = formats.E4M3 if layout.mode is Mode.NVFP4 else formats.E8M0
    _KERNELS[layout.mode](groups, codes, decoded, packed)
    return StoredGroups(packed.reshape(-1), codes)
