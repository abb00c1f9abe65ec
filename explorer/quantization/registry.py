"""Which kernel decodes which tensor type.

A family's module is imported when one of its types is first asked for: opening and listing a model
must not pay for Numba. To add a type: a row in `types.py`, a kernel in its family's module under
`decoders/`, its name in `_FAMILIES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Final, TypeAlias

from explorer.quantization.arrays import Blocks, Weights

Decoder: TypeAlias = Callable[[Blocks, Weights], None]
"""decode(blocks: uint8 [n, block_bytes], out: float32 [n, block_weights]) fills `out`."""

_FAMILIES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "plain": ("F32", "F16", "BF16", "F64", "I8", "I16", "I32", "I64"),
    }
)
_FAMILY_OF: Final = {name: family for family, names in _FAMILIES.items() for name in names}

WITHOUT_DECODER: Final[Mapping[str, str]] = MappingProxyType({})
"""Types that carry no weights we can decode, with the reason."""


def has_decoder(type_name: str) -> bool:
    """Tell whether weights of that type can be decoded; loads nothing."""
    return type_name in _FAMILY_OF


@cache
def decoder(type_name: str) -> Decoder:
    """Return the kernel of a tensor type, importing its family on first use.

    Raises:
        KeyError: There is none; `has_decoder` tells.
    """
    family = import_module(f"explorer.quantization.decoders.{_FAMILY_OF[type_name]}")
    kernels: Mapping[str, Decoder] = family.DECODERS
    return kernels[type_name]
