"""Blocks and float32, both ways, and the tensor-type table. Knows no file.

What decodes and encodes is loaded on first use: listing a model needs the table alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from explorer.quantization.registry import QuantizationError
from explorer.quantization.types import GGML_TYPES, TENSOR_TYPES, TensorType, ggml_type

if TYPE_CHECKING:
    from explorer.quantization.convert import dequantize, quantize
else:

    def __getattr__(name: str) -> object:  # PEP 562
        if name in ("dequantize", "quantize"):
            return getattr(import_module(f"{__name__}.convert"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "GGML_TYPES",
    "TENSOR_TYPES",
    "QuantizationError",
    "TensorType",
    "dequantize",
    "ggml_type",
    "quantize",
]
