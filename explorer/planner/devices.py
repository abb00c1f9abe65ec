"""What a plan runs on, as data: GPUs and the memory of the host. Nothing is queried here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from explorer.errors import PlanError
from explorer.planner.checks import MAX_MEMORY, quoted, whole, whole_or_none

MIB: Final = 1 << 20
GIB: Final = 1 << 30

MAX_DEVICES: Final = 64
"""Most GPUs of a plan."""

_MINIMUM_BYTES: Final = 457 * MIB  # planner.md section 7; Ollama's DeviceInfo.MinimumMemory
_METAL_MINIMUM_BYTES: Final = 512 * MIB
_FLASH_ATTENTION_LIBRARIES: Final = frozenset({"Metal", "ROCm", "Vulkan", "cpu"})
_CUDA_DRIVER: Final = 7
_CUDA_WITHOUT: Final = (7, 2)  # compute capability of Xavier, the one exception
_COMPUTE: Final = re.compile(r"(\d{1,4})\.(\d{1,4})")


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU. `id` and `library` together tell it from the others.

    Attributes:
        id: Its name within its library, such as ``"0"``.
        library: ``"CUDA"``, ``"ROCm"``, ``"Vulkan"``, ``"Metal"`` or another.
        free: Free memory in bytes.
        integrated: Whether it shares the memory of the host.
        name: What people call it.
        total: All of its memory in bytes, or None if not known.
        driver_major: Major version of its driver, or None if not known.
        compute: Compute capability (major, minor), or None; a text ``"8.6"`` becomes (8, 6).
    """

    id: str
    library: str
    free: int
    integrated: bool = False
    name: str = ""
    total: int | None = None
    driver_major: int | None = None
    compute: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", str(self.id))
        object.__setattr__(self, "compute", compute_capability(self.compute))
        whole(self.free, f"free memory of GPU {self.id}", MAX_MEMORY)
        whole_or_none(self.total, f"total memory of GPU {self.id}", MAX_MEMORY)
        whole_or_none(self.driver_major, f"driver version of GPU {self.id}")

    @property
    def label(self) -> str:
        """What to call it in a sentence."""
        return f"{self.name} ({self.library} {self.id})" if self.name else self.key

    @property
    def key(self) -> str:
        """Library and id: ``"CUDA 0"``."""
        return f"{self.library} {self.id}"

    @property
    def capacity_bytes(self) -> int:
        """All of its memory, or what is free of it where the whole is not known."""
        return self.free if self.total is None else self.total

    @property
    def minimum_bytes(self) -> int:
        """What Ollama always leaves free on it."""
        return _METAL_MINIMUM_BYTES if self.library == "Metal" else _MINIMUM_BYTES

    @property
    def supports_flash_attention(self) -> bool:
        """Whether Ollama uses flash attention on it (planner.md section 3, step 6).

        Of a CUDA device whose driver or compute capability is not known, a usual one is assumed.
        """
        if self.library in _FLASH_ATTENTION_LIBRARIES:
            return True
        if self.library != "CUDA":
            return False
        modern = self.driver_major is None or self.driver_major >= _CUDA_DRIVER
        return modern and self.compute != _CUDA_WITHOUT


@dataclass(frozen=True, slots=True)
class Host:
    """The memory of the machine itself.

    Attributes:
        free: Free memory in bytes.
        swap: Free swap space in bytes.
        total: All memory in bytes, or None if not known; only macOS's rule reads it.
        macos: Whether macOS's rules hold: no check of the memory left, but of the whole.
    """

    free: int
    swap: int = 0
    total: int | None = None
    macos: bool = False

    def __post_init__(self) -> None:
        whole(self.free, "free system memory", MAX_MEMORY)
        whole(self.swap, "free swap space", MAX_MEMORY)
        whole_or_none(self.total, "total system memory", MAX_MEMORY)


def check_devices(devices: Sequence[Device]) -> tuple[Device, ...]:
    """Return the devices if there are not too many and no two are the same one.

    Raises:
        PlanError: Too many, or two with the same id and library.
    """
    if len(devices) > MAX_DEVICES:
        raise PlanError(f"{len(devices)} GPUs are more than {MAX_DEVICES}")
    seen: set[str] = set()
    for device in devices:
        if device.key in seen:
            raise PlanError(f"two GPUs are both {quoted(device.key)}; give each its own id")
        seen.add(device.key)
    return tuple(devices)


def compute_capability(value: object) -> tuple[int, int] | None:
    """Return a CUDA compute capability, given as (8, 6), ``"8.6"`` or None.

    Raises:
        PlanError: It is none.
    """
    if value is None:
        return None
    if isinstance(value, (str, float)):
        match = _COMPUTE.fullmatch(str(value).strip())
        if match is None:
            what = f"compute capability {quoted(str(value))!r} is not of the form 8.6"
            raise PlanError(what)
        return int(match[1]), int(match[2])
    if isinstance(value, (tuple, list)) and len(value) == 2:
        major, minor = (whole(part, "compute capability") for part in value)
        return major, minor
    raise PlanError("a compute capability is a text such as 8.6, or a pair of integers")
