"""This machine's AMD GPUs, from the files that the Linux driver amdgpu shows.

Documentation of the files: kernel.org, "GPU driver developer's guide", amdgpu, "Misc AMDGPU driver
information". ROCm's own library would say more, and is not on most machines. Only reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from explorer.hardware.findings import MOST_DEVICES, Findings, device_name
from explorer.planner import Device

_CARD: Final = re.compile(r"card(\d{1,4})")
_AMD: Final = 0x1002
_INTEL: Final = 0x8086
_READ_LIMIT: Final = 4096
_NAMES_LIMIT: Final = 1 << 20
_SMALLEST_DISCRETE: Final = 1 << 30
_LARGEST_MEMORY: Final = 1 << 50


@dataclass(frozen=True, slots=True)
class Places:
    """Where the files lie.

    Attributes:
        drm: Folder of the graphics cards.
        kfd: There if the driver's part for computing, which ROCm needs, is loaded.
        names: libdrm's table of product names.
    """

    drm: Path = Path("/sys/class/drm")
    kfd: Path = Path("/dev/kfd")
    names: Path = Path("/usr/share/libdrm/amdgpu.ids")


def amd_devices(places: Places | None = None) -> Findings:
    """Return one device for each AMD GPU with its driver loaded."""
    places = Places() if places is None else places
    library = "ROCm" if places.kfd.exists() else "Vulkan"
    devices: list[Device] = []
    notes: list[str] = []
    names: dict[tuple[int, int], str] | None = None
    for number, folder in _cards(places.drm):
        vendor = _number(folder / "vendor")
        if vendor == _INTEL and _number(folder / "tile0" / "physical_vram_size_bytes"):
            notes.append(
                f"The Intel GPU of card {number} does not tell its free memory: name it yourself."
            )
        if vendor != _AMD:
            continue
        total = _number(folder / "mem_info_vram_total")
        used = _number(folder / "mem_info_vram_used")
        if total is None or used is None or not used <= total <= _LARGEST_MEMORY:
            notes.append(f"The AMD GPU of card {number} does not tell its memory.")
            continue
        names = _product_names(places.names) if names is None else names
        device = Device(
            id=_text(folder / "unique_id") or str(number),
            library=library,
            free=total - used,
            integrated=_integrated(folder, total),
            name=_name(folder, names),
            total=total,
        )
        if device.integrated:
            notes.append(
                f"{device.name} shares the main memory: only the part that is set aside for it "
                "is counted."
            )
        devices.append(device)
    return Findings(tuple(devices), tuple(notes))


def _cards(drm: Path) -> Iterator[tuple[int, Path]]:
    try:
        entries = [(m, entry) for entry in drm.iterdir() if (m := _CARD.fullmatch(entry.name))]
    except OSError:  # no graphics at all, or not Linux
        return
    for number, entry in sorted((int(match[1]), entry) for match, entry in entries)[:MOST_DEVICES]:
        yield number, entry / "device"


def _bytes(path: Path, limit: int = _READ_LIMIT) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(limit)
    except OSError:  # the file belongs to another card or driver
        return b""


def _text(path: Path) -> str:
    return _bytes(path).decode("utf-8", "replace").strip()


def _number(path: Path) -> int | None:
    """Return a number, decimal or ``0x…``, or None where there is none."""
    text = _text(path)
    if len(text) > 20:  # of 64 bits
        return None
    try:
        value = int(text, 0)
    except ValueError:
        return None
    return value if value >= 0 else None


def _integrated(folder: Path, total: int) -> bool:
    """Tell whether the GPU is part of a processor.

    The driver has no file for that. Its table of measurements has another format for processors:
    the third byte is the revision, 1 for cards, 2 or 3 for processors (kgd_pp_interface.h).
    """
    header = _bytes(folder / "gpu_metrics", 4)
    if len(header) == 4:
        return header[2] in (2, 3)
    return total < _SMALLEST_DISCRETE


def _name(folder: Path, names: dict[tuple[int, int], str]) -> str:
    device, revision = _number(folder / "device"), _number(folder / "revision")
    known = ""
    if device is not None and revision is not None:
        known = names.get((device, revision), "")
    otherwise = "AMD GPU" if device is None else f"AMD GPU {device:#06x}"
    return device_name(_text(folder / "product_name") or known, otherwise)


def _product_names(path: Path) -> dict[tuple[int, int], str]:
    """Return libdrm's table: lines of ``device id, revision, name``, both in hexadecimal."""
    names: dict[tuple[int, int], str] = {}
    for line in _bytes(path, _NAMES_LIMIT).decode("utf-8", "replace").splitlines():
        fields = [field.strip() for field in line.split(",", 2)]
        if len(fields) != 3:
            continue
        try:
            names[int(fields[0][:8], 16), int(fields[1][:8], 16)] = fields[2]
        except ValueError:  # the table's version, a comment
            continue
    return names
