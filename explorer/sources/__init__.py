"""Where bytes come from: random access to a place that holds a model, one small class per place."""

from explorer.sources.base import ByteSource
from explorer.sources.file import FileSource
from explorer.sources.memory import MemorySource

__all__ = ["ByteSource", "FileSource", "MemorySource"]
