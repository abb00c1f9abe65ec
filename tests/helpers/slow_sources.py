"""Places to read from that are huge, broken, or wait until a test lets them go on."""

from __future__ import annotations

import threading
from pathlib import Path

from explorer.errors import SourceError
from explorer.sources import ByteSource, MemorySource
from tests.helpers.patience import PATIENCE_S


class HugeSource(ByteSource):
    """A terabyte, or any size, of bytes that count the rows of 16."""

    def __init__(self, size: int) -> None:
        self.path = Path("huge.gguf")
        self.size = size

    def read_into(self, offset: int, buffer: bytearray | memoryview) -> None:
        end = offset + self._checked(offset, len(buffer))
        rows = range(offset // 16, -(-end // 16))
        content = b"".join((row % 256).to_bytes(1, "big") * 16 for row in rows)
        start = offset % 16
        buffer[:] = content[start : start + end - offset]

    def close(self) -> None:
        """Do nothing."""


class BrokenSource(MemorySource):
    """Fails to read from a byte on, and counts the attempts."""

    def __init__(self, content: bytes, broken_from: int = 0) -> None:
        super().__init__(content, "broken.gguf")
        self.broken_from = broken_from
        self.attempts = 0

    def read(self, offset: int, length: int) -> bytes:
        if offset + length > self.broken_from:
            self.attempts += 1
            raise SourceError("cannot be read: the disk is <b>gone</b>", self.path, offset)
        return super().read(offset, length)


class WaitingSource(MemorySource):
    """Waits in each read until it may go on."""

    def __init__(self, content: bytes) -> None:
        super().__init__(content, "waiting.gguf")
        self.reading = threading.Event()
        self.go_on = threading.Event()
        self.reads = 0

    def read(self, offset: int, length: int) -> bytes:
        self.reading.set()
        self.reads += 1
        assert self.go_on.wait(PATIENCE_S)
        return super().read(offset, length)
