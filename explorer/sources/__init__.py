"""Where bytes come from: random access to a place that holds a model, one small class per place."""

from explorer.sources.files import BufferedSource, ByteSource, FileSource, MemorySource
from explorer.sources.places import open_source
from explorer.sources.remote import Address, is_address, parse_address

__all__ = [
    "Address",
    "BufferedSource",
    "ByteSource",
    "FileSource",
    "MemorySource",
    "is_address",
    "open_source",
    "parse_address",
]
