"""Blocks and float32, both ways, and the tensor-type table. Knows no file.

What decodes and encodes is loaded on first use: listing a model needs the table alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from explorer.late import late_names
from explorer.quantization.registry import QuantizationError
from explorer.quantization.types import GGML_TYPES, TENSOR_TYPES, TensorType, ggml_type

if TYPE_CHECKING:
    from explorer.quantization.convert import dequantize, quantize, warm_up
else:
    __getattr__ = late_names(__name__, {"convert": ["dequantize", "quantize", "warm_up"]})

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
