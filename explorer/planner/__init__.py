"""From a model's header to the memory it needs: pure arithmetic, no Qt, no hardware.

All of it is loaded when it is first asked for: to say what llama.cpp refuses takes a third of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from explorer.planner.devices import Device, Host
    from explorer.planner.engines.ollama_013.layout import lay_out
    from explorer.planner.engines.ollama_013.settings import effective_settings
    from explorer.planner.engines.ollama_013.sizes import graph_size
    from explorer.planner.hyperparameters import Hyperparameters
    from explorer.planner.inputs import plan
    from explorer.planner.settings import Settings
else:
    _MODULES = {
        "Device": "devices",
        "Host": "devices",
        "Hyperparameters": "hyperparameters",
        "Settings": "settings",
        "effective_settings": "engines.ollama_013.settings",
        "graph_size": "engines.ollama_013.sizes",
        "lay_out": "engines.ollama_013.layout",
        "plan": "inputs",
    }

    def __getattr__(name: str) -> object:  # PEP 562
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


__all__ = [
    "Device",
    "Host",
    "Hyperparameters",
    "Settings",
    "effective_settings",
    "graph_size",
    "lay_out",
    "plan",
]
