"""Quantized weights whose scales lie in tensors of their own; what reads them is loaded late."""

from explorer.quantization.grouped.layout import (
    AFFINE_BITS,
    AFFINE_GROUPS,
    AFFINE_SCALES,
    BYTE_SCALES,
    FIXED_SIZES,
    GroupAnatomy,
    GroupedLayout,
    Mode,
    StoredGroups,
    decode_groups,
    group_anatomy,
    quantization_name,
    quantize_groups,
    take_group_codes,
    take_group_scales,
)

__all__ = [
    "AFFINE_BITS",
    "AFFINE_GROUPS",
    "AFFINE_SCALES",
    "BYTE_SCALES",
    "FIXED_SIZES",
    "GroupAnatomy",
    "GroupedLayout",
    "Mode",
    "StoredGroups",
    "decode_groups",
    "group_anatomy",
    "quantization_name",
    "quantize_groups",
    "take_group_codes",
    "take_group_scales",
]
