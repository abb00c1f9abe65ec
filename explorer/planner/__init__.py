"""From a model's header to the memory it needs: pure arithmetic, no Qt, no hardware.

Engines are loaded when they are first asked. They import from this package: where one thread loads
the package and another an engine, each would wait for the other, and Python would give one of them
half a module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from explorer.formats.model import Model
from explorer.planner.devices import Device, Host
from explorer.planner.engines.registry import OLLAMA_013, engine_named
from explorer.planner.hyperparameters import Hyperparameters
from explorer.planner.plan import Plan
from explorer.planner.request import PlanRequest
from explorer.planner.settings import Settings

if TYPE_CHECKING:
    from explorer.planner.engines.ollama_013.layout import lay_out
    from explorer.planner.engines.ollama_013.settings import effective_settings
    from explorer.planner.engines.ollama_013.sizes import graph_size
else:
    _MODULES = {"lay_out": "layout", "effective_settings": "settings", "graph_size": "sizes"}

    def __getattr__(name: str) -> object:  # PEP 562
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.engines.ollama_013.{_MODULES[name]}"), name)


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


def plan(  # noqa: PLR0913 - the options by name are docs/interface.md's promise
    model: Model | Hyperparameters,
    settings: Settings | None = None,
    devices: Sequence[Device] = (),
    *,
    host: Host | None = None,
    environment: Mapping[str, str] | None = None,
    profile: str = OLLAMA_013,
) -> Plan:
    """Return the memory that a model needs, and where its layers go.

    Args:
        model: The model, or what was read of it before; reading is the slower part.
        settings: What is asked for; None asks for nothing.
        devices: The GPUs. None are looked for.
        host: Memory of the machine; None checks nothing against it.
        environment: Ollama's environment variables; those of the process are not looked at.
        profile: Name of the engine.

    Raises:
        PlanError: The model cannot be planned, the engine does not exist, or Ollama would refuse
            to load the model (see `PlanError.reason`).
    """
    h = model if isinstance(model, Hyperparameters) else Hyperparameters.from_model(model)
    request = PlanRequest(h, settings or Settings(), tuple(devices), host, environment or {})
    return engine_named(profile).plan(request)
