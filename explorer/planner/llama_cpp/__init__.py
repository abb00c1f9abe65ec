"""What llama.cpp allocates: `header` is read of a model, `allocation` adds up buffers."""

from explorer.planner.llama_cpp.allocation import (
    CACHE_TYPES,
    MAX_SEQUENCES,
    Allocation,
    Buffer,
    Settings,
    allocate,
)
from explorer.planner.llama_cpp.header import Header

__all__ = ["CACHE_TYPES", "MAX_SEQUENCES", "Allocation", "Buffer", "Header", "Settings", "allocate"]
