"""Quantized weights whose scales lie in tensors of their own; what reads them is loaded late."""

from explorer.quantization.grouped.layout import (
    AFFINE_BITS,
    AFFINE_GROUPS,
    AFFINE_SCALES,
    BYTE_SCALES,
    FIXED_SIZES,
    GroupCoding,
    GroupedLayout,
    Mode,
    StoredGroups,
    decode_groups,
    group_coding,
    quantization_name,
    quantize_groups,
    unpack_group_codes,
    unpack_group_scales,
)

__all__ = [
    "AFFINE_BITS",
    "AFFINE_GROUPS",
    "AFFINE_SCALES",
    "BYTE_SCALES",
    "FIXED_SIZES",
    "GroupCoding",
    "GroupedLayout",
    "Mode",
    "StoredGroups",
    "decode_groups",
    "group_coding",
    "quantization_name",
    "quantize_groups",
    "unpack_group_codes",
    "unpack_group_scales",
]
