"""Several models loaded at once: what those that are there already leave of a machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from explorer.errors import PlanError
from explorer.planner.devices import Device, Host
from explorer.planner.hyperparameters import Hyperparameters
from explorer.planner.inputs import PlanInputs
from explorer.planner.plans import Plan
from explorer.planner.settings import USUAL_CONTEXT


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model that is loaded already.

    Attributes:
        title: What to call it.
        on_gpus: Bytes on each GPU, with the reserve that its program needs there as well.
        in_memory: Bytes of main memory.
    """

    title: str
    on_gpus: tuple[int, ...]
    in_memory: int

    @property
    def total(self) -> int:
        return sum(self.on_gpus) + self.in_memory

    def record(self) -> dict[str, Any]:
        """Return the object of ``also`` in docs/interface.md."""
        return {"model": self.title, "devices": list(self.on_gpus), "cpu": self.in_memory}


LoadedFirst: TypeAlias = tuple[str, Hyperparameters, PlanInputs]
"""A model's title, what the formulas read of it, and what is asked of it."""

Left: TypeAlias = tuple[tuple[Device, ...], Host | None, tuple[Loaded, ...]]
"""What models leave of GPUs and main memory, and what each takes."""


def usual_inputs(h: Hyperparameters) -> PlanInputs:
    """Return what a model of which nothing else is known is planned with: a chat's context."""
    trained = h.trained_context or USUAL_CONTEXT
    return PlanInputs().with_settings(context=min(trained, USUAL_CONTEXT))


def load_first(
    models: Iterable[LoadedFirst],
    devices: tuple[Device, ...],
    host: Host | None,
    environment: Mapping[str, str],
) -> Left:
    """Load models one after the other; return what is free then, and what each takes.

    Args:
        models: The models.
        devices: The GPUs.
        host: The main memory, or None.
        environment: Ollama's environment variables.

    Raises:
        PlanError: One cannot be planned, or does not fit beside those before it.
    """
    found = []
    for title, h, inputs in models:
        asked = replace(inputs, devices=devices, host=host)
        plan = asked.engine_for(h).plan(asked.request(h, environment))
        if plan.verdict.short:
            raise PlanError(f"{title} does not fit beside what is loaded before it")
        loaded = _loaded(title, plan)
        found.append(loaded)
        devices = tuple(
            replace(device, free=max(0, device.free - taken))
            for device, taken in zip(devices, loaded.on_gpus, strict=True)
        )
        host = None if host is None else replace(host, free=max(0, host.free - loaded.in_memory))
    return devices, host, tuple(found)


def _loaded(title: str, plan: Plan) -> Loaded:
    taken = {
        held.device: held.total + held.reserve.high if held.layers else 0 for held in plan.gpus
    }
    return Loaded(title, tuple(taken.get(one, 0) for one in plan.request.devices), plan.main.total)
