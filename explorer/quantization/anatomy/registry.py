"""Which module knows the anatomy of which tensor type.

Families are those of the decoders (`explorer.quantization.registry`), and are imported late for
the same reason: a kernel's module brings Numba.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module

from explorer.quantization.anatomy.contract import Anatomy
from explorer.quantization.registry import family
from explorer.quantization.types import TENSOR_TYPES


def has_anatomy(type_name: str) -> bool:
    """Tell whether blocks of that type hold codes and scales; loads nothing."""
    kind = TENSOR_TYPES.get(type_name)
    return kind is not None and kind.quantized


@cache
def anatomy(type_name: str) -> Anatomy:
    """Return the anatomy of a quantized tensor type, importing its family on first use.

    Raises:
        KeyError: The type is not quantized; `has_anatomy` tells.
    """
    if not has_anatomy(type_name):
        raise KeyError(type_name)
    module = import_module(f"explorer.quantization.anatomy.{family(type_name)}")
    anatomies: Mapping[str, Anatomy] = module.ANATOMIES
    return anatomies[type_name]
