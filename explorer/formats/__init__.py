"""Bytes become models: GGUF, safetensors, Hugging Face folders."""

from explorer.errors import ExplorerError, FormatError
from explorer.formats.metadata import Metadata, MetadataEntry, NumberArray, StringArray
from explorer.formats.model import Model, ModelFile, Problem, Severity
from explorer.formats.open import open_model
from explorer.formats.tensors import Extent, Tensor, TensorGroup, TensorTable

__all__ = [
    "ExplorerError",
    "Extent",
    "FormatError",
    "Metadata",
    "MetadataEntry",
    "Model",
    "ModelFile",
    "NumberArray",
    "Problem",
    "Severity",
    "StringArray",
    "Tensor",
    "TensorGroup",
    "TensorTable",
    "open_model",
]
