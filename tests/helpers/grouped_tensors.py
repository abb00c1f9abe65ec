"""Weights of MLX and Ollama, whose scales are arrays of their own, without a file around them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from explorer.formats.tensors import CompanionWeights, Extent, StoredArray, Tensor
from explorer.quantization import quantize
from explorer.quantization.grouped.encode import GroupRounder
from explorer.quantization.grouped.layout import FIXED_SIZES, GroupedLayout, Mode
from explorer.quantization.types import E4M3, E8M0, TENSOR_TYPES
from explorer.sources import MemorySource

Bytes = NDArray[np.uint8]

AFFINE_4 = GroupedLayout(Mode.AFFINE, 4, 64, "BF16", "BF16")
LAYOUTS = [
    AFFINE_4,
    GroupedLayout(Mode.AFFINE, 3, 32, "F16", "F16"),
    GroupedLayout(Mode.AFFINE, 8, 64, "F32", "F32"),
    *(GroupedLayout(mode, *sizes, "U8") for mode, sizes in FIXED_SIZES.items()),
]


class Groups(NamedTuple):
    """The stored bytes of groups, uint8 [n]; global scales, float32, one for all or for each."""

    packed: Bytes
    scales: Bytes
    biases: Bytes | None = None
    global_scales: NDArray[np.float32] | None = None


def rounded(layout: GroupedLayout, values: NDArray[np.float32]) -> tuple[Groups, Any]:
    """Round weights; return what a file would store, and the weights after it."""
    rounder, out = GroupRounder(layout), np.empty(values.shape, np.float32)
    rounder.round(np.ascontiguousarray(values), 0, out)
    codes, scales = rounder.codes(), np.ascontiguousarray(rounder.lines.scales)
    bits = np.unpackbits(codes.reshape(-1, 1), axis=1, bitorder="little")[:, : layout.bits]
    packed = np.packbits(bits, bitorder="little")
    if layout.mode is not Mode.AFFINE:
        table = E4M3[:127] if layout.mode is Mode.NVFP4 else E8M0[:255]
        return Groups(packed, np.searchsorted(table, scales.reshape(-1)).astype(np.uint8)), out
    biases = np.ascontiguousarray(-rounder.lines.zeros)
    stored = (quantize(numbers, layout.scale_type) for numbers in (scales, biases))
    return Groups(packed, *stored), out


def tensor_of_groups(layout: GroupedLayout, stored: Groups, shape: tuple[int, ...]) -> Tensor:
    """Return a tensor whose parts have sources of their own, behind 16 bytes of something else."""
    parts = {}
    factors = stored.global_scales
    for role, content, kind in (
        ("weight", stored.packed, "U8"),
        ("scales", stored.scales, layout.scale_type),
        ("biases", stored.biases, layout.bias_type),
        ("global_scale", factors, "F32"),
    ):
        if content is not None and kind is not None:
            raw = np.ascontiguousarray(content).tobytes()
            extent = Extent(MemorySource(bytes(16) + raw, "groups.safetensors"), 16, len(raw))
            parts[role] = StoredArray(extent, TENSOR_TYPES[kind], (len(raw),))
    size = int(np.prod(shape))
    each = 0 if factors is None else size // layout.group_size // factors.size
    return Tensor(
        "grouped.weight",
        shape,
        layout.type,
        tuple(part.extent for part in parts.values()),
        size,
        companions=CompanionWeights(
            layout.companions(shape, each), parts, {role: role for role in parts}, {}
        ),
    )


def grouped_tensor(
    layout: GroupedLayout, values: NDArray[np.float32], factors: NDArray[np.float32] | None = None
) -> Tensor:
    """Round weights, float32 [rows, columns], and return them as a tensor.

    Args:
        layout: How they are stored.
        values: The weights.
        factors: Global scales, which the weights are multiplied with.
    """
    stored = rounded(layout, values)[0]._replace(global_scales=factors)
    return tensor_of_groups(layout, stored, values.shape)
