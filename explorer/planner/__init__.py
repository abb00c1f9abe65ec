"""From a model's header to the memory it needs: pure arithmetic, no Qt, no hardware."""

from explorer.planner.devices import Device, Host
from explorer.planner.hyperparameters import Hyperparameters
from explorer.planner.layout import lay_out
from explorer.planner.profiles import plan
from explorer.planner.settings import Settings, effective_settings
from explorer.planner.sizes import graph_size

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
