"""Which GPUs a person lets programs see, by the variables that CUDA, HIP and ROCm read.

CUDA C++ Programming Guide, "CUDA Environment Variables": the list is of numbers or of the
beginnings of UUIDs, in the order to use, and it ends at the first entry that is neither.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from explorer.planner import Device

_VARIABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "CUDA": ("CUDA_VISIBLE_DEVICES",),
    "ROCm": ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"),  # HIP counts what ROCR leaves
    "Vulkan": ("GGML_VK_VISIBLE_DEVICES",),
}
_MOST_ENTRIES: Final = 256


def visible_devices(
    devices: Sequence[Device], environment: Mapping[str, str]
) -> tuple[tuple[Device, ...], tuple[str, ...]]:
    """Return the devices that the environment leaves visible, and a note for each variable.

    A number counts the devices of one library in the order in which they were found.
    """
    left: list[Device] = []
    notes: list[str] = []
    for library in dict.fromkeys(device.library for device in devices):
        chosen = [device for device in devices if device.library == library]
        for name in _VARIABLES.get(library, ()):
            if name in environment:
                before = len(chosen)
                chosen = _chosen(chosen, environment[name])
                notes.append(f"{name} leaves {len(chosen)} of {before} {library} GPUs visible.")
        left += chosen
    return tuple(left), tuple(notes)


def _chosen(devices: Sequence[Device], value: str) -> list[Device]:
    chosen: list[Device] = []
    for entry in value.split(",", _MOST_ENTRIES)[:_MOST_ENTRIES]:
        device = _device(devices, entry.strip())
        if device is None:
            break
        if device not in chosen:
            chosen.append(device)
    return chosen


def _device(devices: Sequence[Device], entry: str) -> Device | None:
    if entry.isdecimal() and entry.isascii() and len(entry) < 6:
        return devices[int(entry)] if int(entry) < len(devices) else None
    if not entry.startswith(("GPU-", "MIG-")):
        return None
    matching = [device for device in devices if device.id.startswith(entry)]
    return matching[0] if len(matching) == 1 else None
