"""Bytes that are already in memory: small layers of a store, and tests."""

from __future__ import annotations

from pathlib import Path

from explorer.sources.base import ByteSource


class MemorySource(ByteSource):
    """A `ByteSource` over a bytes object."""

    def __init__(self, content: bytes, path: Path | str = "<memory>") -> None:
        self.path = Path(path)
        self.size = len(content)
        self._content = content

    def read(self, offset: int, length: int) -> bytes:
        end = offset + self._checked(offset, length)
        return self._content[offset:end]

    def read_into(self, offset: int, buffer: bytearray | memoryview) -> None:
        end = offset + self._checked(offset, len(buffer))
        buffer[:] = self._content[offset:end]

    def close(self) -> None:
        """Do nothing: memory needs no release."""
