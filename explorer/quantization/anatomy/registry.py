"""Which module knows the anatomy of which tensor type.

Families are those of the decoders (`explorer.quantization.registry`), and are imported late for
the same reason: a kernel's module brings Numba.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module

from explorer.quantization.anatomy.contract import Anatomy, Codes, Scales
from explorer.quantization.arrays import (
    FLOAT32,
    UINT8,
    Blocks,
    check_array,
    check_output,
    read_only,
)
from explorer.quantization.registry import family
from explorer.quantization.types import TENSOR_TYPES, TensorType


def has_anatomy(type_name: str) -> bool:
    """Tell whether blocks of that type hold codes and scales; loads nothing."""
    kind = TENSOR_TYPES.get(type_name)
    return kind is not None and kind.quantized


@cache
def anatomy(type_name: str) -> Anatomy:
    """Return the anatomy of a quantized tensor type, importing its family on first use.

    What takes blocks apart raises `QuantizationError` for arrays of other shapes or elements.

    Raises:
        KeyError: The type is not quantized; `has_anatomy` tells.
    """
    if not has_anatomy(type_name):
        raise KeyError(type_name)
    module = import_module(f"explorer.quantization.anatomy.{family(type_name)}")
    anatomies: Mapping[str, Anatomy] = module.ANATOMIES
    return _checked(anatomies[type_name], TENSOR_TYPES[type_name])


def _checked(parts: Anatomy, kind: TensorType) -> Anatomy:
    """Have what takes blocks apart look at its arguments first."""
    scale_count = kind.block_weights // parts.weights_per_scale

    def take_codes(blocks: Blocks, codes: Codes) -> None:
        check_array("blocks", blocks, UINT8, (len(blocks), kind.block_bytes))
        check_output("codes", codes, UINT8, (len(blocks), kind.block_weights))
        parts.take_codes(read_only(blocks), codes)

    def take_scales(blocks: Blocks, scales: Scales, minima: Scales) -> None:
        check_array("blocks", blocks, UINT8, (len(blocks), kind.block_bytes))
        check_output("scales", scales, FLOAT32, (len(blocks), scale_count))
        if parts.has_minimum:
            check_output("minima", minima, FLOAT32, (len(blocks), scale_count))
        parts.take_scales(read_only(blocks), scales, minima)

    return replace(parts, take_codes=take_codes, take_scales=take_scales)
