"""What this machine has: its GPUs and its memory, as a plan takes them.

Looking never fails. A driver that is missing, refuses or lies leaves a note in place of a device.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import psutil

from explorer.hardware.gpus import (
    Findings,
    Places,
    SysctlReader,
    amd_devices,
    apple_devices,
    load_nvml,
    nvidia_devices,
    read_memory,
    read_sysctl,
    visible_devices,
)
from explorer.planner import Device, Host


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine.

    Attributes:
        devices: Its GPUs.
        host: Its memory.
        notes: Sentences about the search.
    """

    devices: tuple[Device, ...]
    host: Host
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Probes:
    """Where `detect` looks; a test puts its own in their place.

    Attributes:
        system: What `platform.system` says.
        processor: What `platform.machine` says.
        memory: psutil.
        nvml: Returns NVIDIA's binding.
        amd: Where the driver amdgpu shows its files.
        sysctl: Reads a value of macOS's kernel.
        environment: Variables.
    """

    system: str = field(default_factory=platform.system)
    processor: str = field(default_factory=platform.machine)
    memory: Any = psutil
    nvml: Callable[[], Any] = load_nvml
    amd: Places = field(default_factory=Places)
    sysctl: SysctlReader = read_sysctl
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)


def detect(probes: Probes | None = None) -> Machine:
    """Look for the GPUs and the memory of this machine. Takes some milliseconds, with NVML 100."""
    probes = Probes() if probes is None else probes
    memory = read_memory(probes.memory)
    found: list[Findings] = []
    if probes.system == "Darwin":
        if probes.processor == "arm64":
            found.append(apple_devices(memory, probes.sysctl))
        else:
            note = "Ollama uses no GPU of a Mac with an Intel processor."
            found.append(Findings(notes=(note,)))
    else:
        found.append(nvidia_devices(memory, probes.nvml))
        if probes.system == "Linux":
            found.append(amd_devices(probes.amd))
        else:
            note = f"AMD and Intel GPUs are not looked for on {probes.system}: name them yourself."
            found.append(Findings(notes=(note,)))
    devices = tuple(device for findings in found for device in findings.devices)
    notes = tuple(note for findings in found for note in findings.notes)
    shown, hidden = visible_devices(devices, probes.environment)
    return Machine(shown, memory.host(probes.system), notes + hidden)
