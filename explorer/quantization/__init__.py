"""Blocks and float32, both ways, and the tensor-type table. Knows no file.

Kernels, and Numba with them, are loaded on first use.
"""

from explorer.quantization.convert import dequantize, quantize
from explorer.quantization.registry import QuantizationError
from explorer.quantization.types import GGML_TYPES, TENSOR_TYPES, TensorType, ggml_type

__all__ = [
    "GGML_TYPES",
    "TENSOR_TYPES",
    "QuantizationError",
    "TensorType",
    "dequantize",
    "ggml_type",
    "quantize",
]
