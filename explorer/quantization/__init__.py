"""Blocks and float32: the tensor-type table. Knows no file."""

from explorer.quantization.types import GGML_TYPES, TENSOR_TYPES, TensorType, ggml_type

__all__ = ["GGML_TYPES", "TENSOR_TYPES", "TensorType", "ggml_type"]
