"""What llama.cpp allocates: `header` is read of a model, `allocation` adds up buffers.

`fitting` decides what llama.cpp decides by itself.
"""

from explorer.planner.engines.llama_cpp.allocation import (
    MAX_SEQUENCES,
    Allocation,
    Buffer,
    Settings,
    allocate,
)
from explorer.planner.engines.llama_cpp.builds import CHANGES, NEWEST
from explorer.planner.engines.llama_cpp.fitting import Decision, fit
from explorer.planner.engines.llama_cpp.header import Header

__all__ = [
    "CHANGES",
    "MAX_SEQUENCES",
    "NEWEST",
    "Allocation",
    "Buffer",
    "Decision",
    "Header",
    "Settings",
    "allocate",
    "fit",
]
