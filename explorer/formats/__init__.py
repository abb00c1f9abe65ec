"""Bytes become models: GGUF, safetensors, Hugging Face folders, Ollama manifests.

The readers are loaded when the first model is opened: a window is on the screen before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from explorer.errors import ExplorerError, FormatError
from explorer.formats.model import (
    Metadata,
    MetadataEntry,
    Model,
    ModelFile,
    NumberArray,
    Problem,
    Severity,
    StringArray,
)
from explorer.formats.tensors import Extent, Tensor, TensorGroup, TensorTable
from explorer.late import late_names

if TYPE_CHECKING:
    from explorer.formats.open import open_model
else:
    __getattr__ = late_names(__name__, {"open": ["open_model"]})

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
