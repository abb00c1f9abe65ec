"""What to plan: model, settings and machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from explorer.planner.attachments import Attachment
from explorer.planner.devices import Device, Host, check_devices
from explorer.planner.hyperparameters import Hyperparameters
from explorer.planner.settings import Settings


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What to plan; without a host nothing is checked against its memory."""

    h: Hyperparameters
    settings: Settings = field(default_factory=Settings)
    devices: tuple[Device, ...] = ()
    host: Host | None = None
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    attached: tuple[Attachment, ...] = ()  # files that are loaded beside it

    def __post_init__(self) -> None:
        check_devices(self.devices)

    @property
    def draft(self) -> Hyperparameters | None:
        """What was read of a model that drafts tokens for this one."""
        return next((one.h for one in self.attached if one.kind == "draft"), None)

    @property
    def projectors(self) -> tuple[int, tuple[int, int]]:
        """Bytes of weights of all projectors; and of their compute buffers, from and to."""
        found = [one for one in self.attached if one.kind == "projector"]
        low, high = (sum(one.compute[i] for one in found) for i in range(2))
        return self.settings.projector_bytes, (low, high)

    def asking(self, **changes: Any) -> PlanRequest:
        """Return the same with other settings; raise `PlanError` if one is out of its limits."""
        return replace(self, settings=replace(self.settings, **changes))
