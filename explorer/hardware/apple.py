"""The GPU of a Mac with Apple silicon, which shares the main memory.

Metal advises how much of the memory its GPU should hold (`recommendedMaxWorkingSetSize`), and
Ollama takes this as the GPU's memory. Asking Metal needs Objective-C; the sizes follow a rule:

- ``iogpu.wired_limit_mb``, if a person has set it, is the size (llmfit pull request 754 tried it);
- else two thirds of up to 32 GiB, three quarters of more (llama.cpp discussion 2182). Printed by
  llama.cpp: 10,922.67 MiB of 16 GiB (llama-cpp-python issue 687), 21,845.34 of 32 (ollama issue
  434), 49,152 of 64 (llama.cpp issue 1870), 73,728 of 96 (llama.cpp issue 3213).

Newer versions of macOS give the GPU more (17.76 of 24 GiB, 107.5 of 128), so the rule is careful.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Final

from explorer.hardware.findings import Findings, device_name
from explorer.hardware.memory import Memory
from explorer.planner import Device

SysctlReader = Callable[[str], str | None]

_GIB: Final = 1 << 30
_MIB: Final = 1 << 20
_TWO_THIRDS_UP_TO: Final = 32 * _GIB
_SYSCTL: Final = "/usr/sbin/sysctl"
_PATIENCE_S: Final = 5.0


def working_set_bytes(memory_bytes: int) -> int:
    """Return how much of a Mac's memory its GPU can hold, by the rule above."""
    if memory_bytes <= _TWO_THIRDS_UP_TO:
        return memory_bytes * 2 // 3
    return memory_bytes * 3 // 4


def read_sysctl(name: str) -> str | None:
    """Return a value of the kernel as text, or None where there is no such value."""
    try:
        answer = subprocess.run(
            [_SYSCTL, "-n", name], capture_output=True, check=False, timeout=_PATIENCE_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    text = answer.stdout.decode("utf-8", "replace").strip()
    return text if answer.returncode == 0 and text else None


def apple_devices(memory: Memory, sysctl: SysctlReader = read_sysctl) -> Findings:
    """Return the GPU of this Mac.

    Args:
        memory: The main memory.
        sysctl: Reads a value of the kernel by its name.
    """
    limit = sysctl("iogpu.wired_limit_mb") or ""
    if limit.isdecimal() and len(limit) < 12 and int(limit) > 0:
        free = min(int(limit) * _MIB, memory.total_bytes)
        how = "the limit that is set in iogpu.wired_limit_mb"
    else:
        free = working_set_bytes(memory.total_bytes)
        how = "macOS's usual share of the memory; yours may give the GPU more"
    name = device_name(sysctl("machdep.cpu.brand_string") or "", "Apple silicon")
    device = Device(
        id="0",
        library="Metal",
        free=free,
        integrated=True,
        name=name,
        total=memory.total_bytes,
    )
    return Findings((device,), (f"{name}: the GPU's memory is {how}.",))
