"""Where bytes come from: random access to a place that holds a model, one small class per place."""

from explorer.sources.files import BufferedSource, ByteSource, FileSource, MemorySource

__all__ = ["BufferedSource", "ByteSource", "FileSource", "MemorySource"]
