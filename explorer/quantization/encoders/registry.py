"""Which kernel makes blocks of which tensor type, and why others have none.

A family's module has the name that it has among the decoders, and is imported when one of its types
is first asked for. To add a type: a kernel in its family's module and its name in `_TYPES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Final, TypeAlias

from explorer.quantization.arrays import (
    FLOAT32,
    UINT8,
    Blocks,
    Weights,
    check_array,
    check_output,
    read_only,
)
from explorer.quantization.encoders.contract import Encode, new_work
from explorer.quantization.registry import family
from explorer.quantization.types import TENSOR_TYPES

Encoder: TypeAlias = Callable[[Weights, Weights | None, Blocks], None]
"""encode(values, importance, blocks) fills `blocks`; see `contract.Encode`."""

_PLAIN: Final = ("F32", "F16", "BF16")
_LEGACY: Final = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q1_0", "Q2_0")
_K: Final = ("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K")
_IQ: Final = ("IQ2_S", "IQ3_XXS", "IQ3_S", "IQ4_NL", "IQ4_XS")
_OTHERS: Final = ("TQ1_0", "TQ2_0", "MXFP4", "NVFP4")
_TYPES: Final = frozenset({*_PLAIN, *_LEGACY, *_K, *_IQ, *_OTHERS})
_WEIGHTED: Final = frozenset({"Q4_0", "Q4_1", "Q5_0", "Q5_1", *_K, *_IQ})
_AT_RUN_TIME: Final = "ggml makes it of activations while a model runs; no file has it"
_BOOK: Final = "ggml makes it only with an importance matrix, and this program not at all"
_NO_SCALE: Final = "it has no scales, so weights would have to be scaled before"

WITHOUT_ENCODER: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("Q8_1", "Q8_K"), _AT_RUN_TIME),
        **dict.fromkeys(("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS"), _BOOK),
        **{
            name: _NO_SCALE
            for name, kind in TENSOR_TYPES.items()
            if not kind.quantized and name not in _TYPES
        },
    }
)
"""Types that weights cannot be rounded to, with the reason."""


def has_encoder(type_name: str) -> bool:
    """Tell whether weights can be rounded to that type; loads nothing."""
    return type_name in _TYPES


def uses_importance(type_name: str) -> bool:
    """Tell whether the importance of weights changes how they are rounded to that type."""
    return type_name in _WEIGHTED


@cache
def encoder(type_name: str) -> Encoder:
    """Return the encoder of a tensor type, importing its family on first use.

    It raises `QuantizationError` for arrays of other shapes or elements.

    Raises:
        KeyError: There is none; `has_encoder` tells.
    """
    if not has_encoder(type_name):
        raise KeyError(type_name)
    module = import_module(f"explorer.quantization.encoders.{family(type_name)}")
    kernels: Mapping[str, Encode] = module.ENCODERS
    kernel = kernels[type_name]
    kind = TENSOR_TYPES[type_name]

    def encode(values: Weights, importance: Weights | None, blocks: Blocks) -> None:
        count = len(values)
        check_array("values", values, FLOAT32, (count, kind.block_weights))
        check_output("blocks", blocks, UINT8, (count, kind.block_bytes))
        if importance is not None:
            check_array("importance", importance, FLOAT32, (len(importance), kind.block_weights))
            importance = read_only(importance)
        kernel(read_only(values), importance, blocks, new_work())

    return encode
