"""Bytes become models: GGUF, safetensors, Hugging Face folders, Ollama manifests.

The readers are loaded when the first model is opened: a window is on the screen before.
"""

from __future__ import annotations

from importlib import import_module
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

if TYPE_CHECKING:
    from explorer.formats.open import open_model
else:

    def __getattr__(name: str) -> object:  # PEP 562
        if name == "open_model":
            return import_module(f"{__name__}.open").open_model
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


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
