"""The machines that a report plans for: this one's GPUs, those that were named, or usual ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from explorer.hardware.catalogue import load_catalogue
from explorer.hardware.detect import Machine
from explorer.planner import Device, Host

# Common sizes of memory: 12, 24 and 80 GB
_USUAL: Final = (
    "NVIDIA GeForce RTX 3060 12 GB",
    "NVIDIA GeForce RTX 4090",
    "NVIDIA H100 SXM5 80 GB",
)


@dataclass(frozen=True, slots=True)
class Target:
    """A machine to plan for.

    Attributes:
        name: What to call it.
        devices: Its GPUs.
        host: Its main memory, or None to check nothing against it.
    """

    name: str
    devices: tuple[Device, ...]
    host: Host | None = None


def targets(named: Sequence[Device], machine: Machine | None) -> list[Target]:
    """Return what to plan for.

    Args:
        named: GPUs that a person named, which are one machine; they go before all others.
        machine: This machine, or None to leave it out.
    """
    if named:
        return [Target(_called(named), tuple(named))]
    if machine is not None and machine.devices:
        called = f"this machine ({_called(machine.devices)})"
        return [Target(called, machine.devices, machine.host)]
    catalogue = load_catalogue()
    return [Target(name, (catalogue.find(name).device(),)) for name in _USUAL]


def _called(devices: Sequence[Device]) -> str:
    return ", ".join(device.name or device.key for device in devices)
