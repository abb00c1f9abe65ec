"""A plan in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from explorer.formats.model import Model
from explorer.planner.devices import Device, Host
from explorer.planner.hyperparameters import Hyperparameters
from explorer.planner.profiles import GRAPH_SIZE, profile_named
from explorer.planner.result import Plan, PlanRequest
from explorer.planner.settings import Settings


def plan(  # noqa: PLR0913 - the options by name are interface.md's promise
    model: Model | Hyperparameters,
    settings: Settings | None = None,
    devices: Sequence[Device] = (),
    *,
    host: Host | None = None,
    environment: Mapping[str, str] | None = None,
    profile: str = GRAPH_SIZE.name,
) -> Plan:
    """Return the memory that a model needs, and where its layers go.

    Args:
        model: The model, or what was read of it before; reading is the slower part.
        settings: What is asked for; None asks for nothing.
        devices: The GPUs. None are looked for.
        host: Memory of the machine; None checks nothing against it.
        environment: Ollama's environment variables; those of the process are not looked at.
        profile: Name of one profile.

    Raises:
        PlanError: The model cannot be planned, the profile does not exist, or Ollama would refuse
            to load the model (see `PlanError.reason`).
    """
    h = model if isinstance(model, Hyperparameters) else Hyperparameters.from_model(model)
    request = PlanRequest(h, settings or Settings(), tuple(devices), host, environment or {})
    return profile_named(profile).plan(request)
