"""What llama.cpp allocates, for scripts (docs/interface.md)."""

from explorer.planner.engines.llama_cpp.allocation import Allocation, Buffer, Settings, allocate
from explorer.planner.engines.llama_cpp.fitting import Decision, fit

__all__ = ["Allocation", "Buffer", "Decision", "Settings", "allocate", "fit"]
