"""Where bytes come from: random access to a place that holds a model, one small class per place."""

from explorer.sources.files import ByteSource, FileSource, MemorySource

__all__ = ["ByteSource", "FileSource", "MemorySource"]
