"""What llama.cpp takes of a GPU beside its buffers: a range, as public logs show it.

The driver's context, workspaces, pools of temporary buffers and graphs are in no table of
llama.cpp. The figures are what GPUs had in use beyond the buffers, by backend and kind of load.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from explorer.planner.devices import MIB
from explorer.planner.plans import Range


class Reserve(NamedTuple):
    """What was measured on one kind of device, in MiB."""

    low: int
    high: int
    logs: int  # in how many logs
    note: str = ""  # what else was seen

    @property
    def ends(self) -> Range:
        """The ends in bytes."""
        return Range(self.low * MIB, self.high * MIB)

    @property
    def origin(self) -> str:
        """Where the ends come from."""
        note = f", {self.note}" if self.note else ""
        return f"from {self.low} to {self.high} MiB in {self.logs} public logs{note}"


_CUDA: Final = Reserve(
    *(73, 703, 7, "up to 2.6 GiB after long use; 608 to 743 in 28 loads on an H200")
)
"""On that H200 a bare context took 527 MiB; two loads without flash attention came to 829 and 961.
"""
_OTHER: Final = Reserve(0, 2260, 26)  # of any kind
_RESERVES: Final[Mapping[str, Reserve]] = MappingProxyType(
    {
        "CUDA": _CUDA,
        "ROCm": Reserve(253, 5869, 5),
        "Vulkan": Reserve(26, 2260, 10, "at most 239 MiB on four of five NVIDIA GPUs"),
        "Metal": Reserve(0, 933, 5, "nothing in 4 of 5"),
    }
)
_HEAVY: Final[Mapping[str, Reserve]] = MappingProxyType({"CUDA": Reserve(73, 3945, 3)})
"""Of a load with experts on the CPU, or with a context that drafts tokens."""


def reserve_of(library: str, *, is_heavy: bool = False) -> Reserve:
    """Return what devices of a library were seen to need."""
    found = _RESERVES.get(library, _OTHER)
    return _HEAVY.get(library, found) if is_heavy else found
