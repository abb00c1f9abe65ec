"""The Python API that users script against (docs/interface.md): each name is there, no module."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

import pytest

_PROMISED = {
    "explorer.formats": ("open_model", "FormatError"),
    "explorer.quantization": ("dequantize", "quantize", "TENSOR_TYPES"),
    "explorer.analysis": ("tensor_statistics", "compare_tensors", "survey"),
    "explorer.planner": (
        "Hyperparameters",
        "Settings",
        "Device",
        "Host",
        "effective_settings",
        "graph_size",
        "lay_out",
        "plan",
    ),
    "explorer.planner.llama_cpp": ("Settings", "allocate", "fit"),
    "explorer.errors": ("ExplorerError", "FormatError", "SourceError", "PlanError"),
}


@pytest.mark.parametrize("package", _PROMISED)
def test_promised_names_are_there(package: str) -> None:
    """A package that loads its parts late must not give a part's module for a name like it."""
    module = importlib.import_module(package)
    for part in pkgutil.iter_modules(getattr(module, "__path__", ())):
        importlib.import_module(f"{package}.{part.name}")
    for name in _PROMISED[package]:
        assert not isinstance(getattr(module, name), ModuleType), name
