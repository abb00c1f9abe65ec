"""Blocks and float32: the tensor-type table and the decoders. Knows no file."""

from explorer.quantization.decode import QuantizationError, dequantize, warm_up
from explorer.quantization.types import GGML_TYPES, TENSOR_TYPES, TensorType, ggml_type

__all__ = [
    "GGML_TYPES",
    "TENSOR_TYPES",
    "QuantizationError",
    "TensorType",
    "dequantize",
    "ggml_type",
    "warm_up",
]
