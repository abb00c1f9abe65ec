"""Blocks and float32, both ways, and the tensor-type table. Knows no file."""

from explorer.quantization.arrays import QuantizationError
from explorer.quantization.decode import dequantize, warm_up
from explorer.quantization.encode import quantize
from explorer.quantization.types import GGML_TYPES, TENSOR_TYPES, TensorType, ggml_type

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
