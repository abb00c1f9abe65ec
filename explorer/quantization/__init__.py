"""Blocks and float32, both ways, and the tensor-type table. Knows no file.

What decodes and encodes is loaded on first use: listing a model needs the table alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from explorer.quantization.arrays import QuantizationError
from explorer.quantization.types import GGML_TYPES, TENSOR_TYPES, TensorType, ggml_type

if TYPE_CHECKING:
    from explorer.quantization.decode import dequantize, warm_up
    from explorer.quantization.encode import quantize

__all__ = [
    "GGML_TYPES",
    "TENSOR_TYPES",
    "QuantizationError",
    "TensorType",
    "dequantize",
    "ggml_type",
    "quantize",
    "warm_up",
]

_LATE = {"dequantize": "decode", "quantize": "encode", "warm_up": "decode"}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATE[name]}"), name)
