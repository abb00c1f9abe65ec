"""The fields of a group whose scale and bias lie in tensors of their own, as one run of bytes.

A group has no block in the file. For looking at it, its codes, its scale and its bias stand one
behind the other, as `WeightReader.block` gives them, and are described like the fields of a block.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from explorer.quantization.anatomy.contract import BlockField
from explorer.quantization.grouped.layout import (
    GroupedLayout,
    Mode,
    StoredGroups,
    take_group_codes,
    take_group_scales,
)

_DTYPES: Final = {"BF16": "bf16", "F16": "f16", "F32": "f32"}
_BYTE_SCALES: Final = {Mode.NVFP4: "E4M3", Mode.MXFP4: "E8M0", Mode.MXFP8: "E8M0"}
_CODES: Final = {Mode.NVFP4: "E2M1", Mode.MXFP4: "E2M1", Mode.MXFP8: "E4M3"}


def group_fields(layout: GroupedLayout) -> tuple[BlockField, ...]:
    """Return the fields of a group: codes, scale and, in affine mode, bias."""
    size, bits = layout.packed_bytes, layout.bits
    kind = f"{bits}-bit codes"
    meaning = "one stream of bits, lowest first, a code for each weight"
    if layout.mode is not Mode.AFFINE:
        meaning = f"small floats ({_CODES[layout.mode]}), lowest bits first, one for each weight"
    scale = _DTYPES.get(layout.scale_type) or _BYTE_SCALES[layout.mode]
    fields = [
        BlockField("weight", 0, size, kind, meaning),
        BlockField("scales", size, layout.scale_bytes, scale, "scale of the group"),
    ]
    if layout.bias_type is not None:
        offset = size + layout.scale_bytes
        kind = _DTYPES[layout.bias_type]
        bias = BlockField("biases", offset, layout.bias_bytes, kind, "value of code 0")
        fields.append(bias)
    return tuple(fields)


def stored_groups(layout: GroupedLayout, raw: NDArray[np.uint8]) -> StoredGroups:
    """Return groups, uint8 [n, bytes of all fields], as the arrays that they come from."""
    packed, scales, *biases = (
        np.ascontiguousarray(raw[:, field.offset : field.offset + field.nbytes])
        for field in group_fields(layout)
    )
    return StoredGroups(packed, scales, biases[0] if biases else None)


def split_bytes(
    layout: GroupedLayout,
    raw: NDArray[np.uint8],
    codes: NDArray[np.uint8],
    scales: NDArray[np.float32],
    minima: NDArray[np.float32],
) -> None:
    """Take groups apart, as an `Anatomy.split` does blocks; raw: uint8 [n, bytes of all fields]."""
    stored = stored_groups(layout, raw)
    take_group_codes(layout, stored, codes)
    take_group_scales(layout, stored, scales, minima)
