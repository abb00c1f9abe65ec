"""Which kernel decodes which tensor type.

A family's module is imported when one of its types is first asked for: opening and listing a model
must not pay for Numba. To add a type: a row in `types.py`, a kernel in its family's module under
`decoders/`, its name in `_FAMILIES`; if it is quantized, its anatomy under `anatomy/`; and an
encoder under `encoders/`, or in `encoders/registry.py` a reason for having none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from explorer.quantization.arrays import (
    FLOAT32,
    UINT8,
    Blocks,
    Weights,
    check_array,
    check_output,
    read_only,
)
from explorer.quantization.types import TENSOR_TYPES

Decoder: TypeAlias = Callable[[Blocks, Weights], None]
"""decode(blocks: uint8 [n, block_bytes], out: float32 [n, block_weights]) fills `out`.

Both C-contiguous and apart in memory; `out` writable.
"""

_FAMILIES: Final = (
    ("plain", ("F32", "F16", "BF16", "F64", "I8", "I16", "I32", "I64")),
    ("plain", ("BOOL", "U8", "U16", "U32", "U64")),
    ("legacy", ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q8_1", "Q1_0", "Q2_0")),
    ("k_quants", ("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "Q8_K")),
    ("i_quants", ("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S")),
    ("i_quants", ("IQ3_XXS", "IQ3_S", "IQ4_NL", "IQ4_XS")),
    ("ternary", ("TQ1_0", "TQ2_0")),
    ("microscaling", ("MXFP4", "NVFP4")),
    ("small_floats", ("F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ")),
    ("small_floats", ("F6_E2M3", "F6_E3M2", "F4")),
)
_FAMILY_OF: Final = {name: module for module, names in _FAMILIES for name in names}

WITHOUT_DECODER: Final[Mapping[str, str]] = MappingProxyType(
    {"C64": "complex numbers have no order, so no histogram"}
)
"""Types whose size is known and that are not decoded, with the reason."""


def has_decoder(type_name: str) -> bool:
    """Tell whether weights of that type can be decoded; loads nothing."""
    return type_name in _FAMILY_OF


def family(type_name: str) -> str:
    """Return the name of the module, here and in `anatomy`, that knows a tensor type.

    Raises:
        KeyError: There is none; `has_decoder` tells.
    """
    return _FAMILY_OF[type_name]


@cache
def decoder(type_name: str) -> Decoder:
    """Return the decoder of a tensor type, importing its family on first use.

    It raises `QuantizationError` for arrays of other shapes or elements, at less than a microsecond
    a call; that they are apart in memory is the caller's promise.

    Raises:
        KeyError: There is none; `has_decoder` tells.
    """
    module = import_module(f"explorer.quantization.decoders.{family(type_name)}")
    kernels: Mapping[str, Decoder] = module.DECODERS
    kernel = kernels[type_name]
    kind = TENSOR_TYPES[type_name]

    def decode(blocks: Blocks, out: Weights) -> None:
        count = len(blocks)
        check_array("blocks", blocks, UINT8, (count, kind.block_bytes))
        check_output("out", out, FLOAT32, (count, kind.block_weights))
        kernel(read_only(blocks), out)

    return decode


@cache
def decoder_callback(type_name: str) -> Any:
    """Return a type's decoder as an argument for kernels, which check nothing; None if it is none.

    None are those that NumPy makes, and those that need a code book besides.

    Raises:
        KeyError: The type has no decoder; `has_decoder` tells.
    """
    module = import_module(f"explorer.quantization.decoders.{family(type_name)}")
    kernel = module.DECODERS[type_name]
    jit = import_module("explorer.quantization.jit")  # late, as all that brings Numba
    return jit.decoder_callback(kernel) if jit.is_kernel(kernel) else None
