"""Weights whose scales lie in arrays of their own, in memory, without a file around them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from explorer.formats.tensors import Extent, GroupedWeights, StoredArray, Tensor
from explorer.quantization.grouped.kernels import quantize_groups
from explorer.quantization.grouped.layout import FIXED_SIZES, GroupedLayout, Mode, StoredGroups
from explorer.quantization.types import TENSOR_TYPES
from explorer.sources import MemorySource

AFFINE_4 = GroupedLayout(Mode.AFFINE, 4, 64, "BF16", "BF16")
LAYOUTS = [
    AFFINE_4,
    GroupedLayout(Mode.AFFINE, 3, 32, "F16", "F16"),
    GroupedLayout(Mode.AFFINE, 8, 64, "F32", "F32"),
    *(GroupedLayout(mode, *sizes, "U8") for mode, sizes in FIXED_SIZES.items()),
]


def grouped_tensor(
    layout: GroupedLayout, values: NDArray[np.float32], factors: NDArray[np.float32] | None = None
) -> tuple[Tensor, StoredGroups]:
    """Round weights, float32 [rows, columns], and return them as a tensor and as its arrays.

    Args:
        layout: How they are stored: codes, scales, biases and factors in sources of their own,
            behind 16 bytes of something else.
        values: The weights.
        factors: Global scales, which the weights are multiplied with.
    """
    stored = quantize_groups(layout, values)
    arrays = []
    for content, kind in (
        (stored.packed, "U8"),
        (stored.scales, layout.scale_type),
        (stored.biases, layout.bias_type),
        (factors, "F32"),
    ):
        if content is None or kind is None:
            arrays.append(None)
            continue
        raw = np.ascontiguousarray(content).tobytes()
        extent = Extent(MemorySource(bytes(16) + raw, "groups.safetensors"), 16, len(raw))
        arrays.append(StoredArray(extent, TENSOR_TYPES[kind], (len(raw),)))
    weight, scales, biases, factor = arrays
    assert weight is not None
    assert scales is not None
    groups = values.size // layout.group_size
    each = 0 if factors is None else groups // factors.size
    grouped = GroupedWeights(weight, scales, biases, factor, layout, each)
    extents = tuple(array.extent for array in grouped.arrays)
    tensor = Tensor(
        "grouped.weight", values.shape, layout.type, extents, values.size, grouped=grouped
    )
    return tensor, stored
