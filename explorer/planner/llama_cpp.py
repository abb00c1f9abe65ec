"""What llama.cpp allocates, for scripts (docs/interface.md)."""

from explorer.planner.engines.llama_cpp import Allocation, Buffer, Decision, Settings, allocate, fit

__all__ = ["Allocation", "Buffer", "Decision", "Settings", "allocate", "fit"]
