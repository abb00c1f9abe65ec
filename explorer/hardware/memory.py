"""The memory of this machine, by psutil."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from typing import Any

import psutil

from explorer.planner import Host


@dataclass(frozen=True, slots=True)
class Memory:
    """Main memory, in bytes.

    Attributes:
        total_bytes: All of it.
        free_bytes: What a new program can have without swapping: the kernel's estimate.
        swap_bytes: Swap space not in use.
    """

    total_bytes: int
    free_bytes: int
    swap_bytes: int

    def host(self, system: str | None = None) -> Host:
        """Return it as the planner takes it.

        Args:
            system: What `platform.system` says.
        """
        return Host(
            free=self.free_bytes,
            swap=self.swap_bytes,
            total=self.total_bytes,
            macos=(system or platform.system()) == "Darwin",
        )


def read_memory(source: Any = psutil) -> Memory:
    """Ask the system how much memory there is and how much of it is free.

    Args:
        source: psutil, or what a test puts in its place.
    """
    main = source.virtual_memory()
    try:
        swap = int(source.swap_memory().free)
    except (OSError, RuntimeError):  # a container without /proc/vmstat; Windows without counters
        swap = 0
    return Memory(int(main.total), int(main.available), swap)
