"""What is read of files, before and after a job was cancelled: asked in bytes, not by a clock.

How long a cancel takes depends on the machine and its other work; what is read until it is heard
does not. A worker looks between pieces of at most `CHUNK_WEIGHTS` weights.
"""

from __future__ import annotations

from typing import Final

import pytest

from explorer.qt.jobs import Job
from explorer.sources import FileSource

AT_ONCE: Final = 32 << 20
"""Bytes that threads may still read: the pieces that they have begun. At 1 GB/s they take 30 ms."""


class Reading:
    """Counts the bytes that all files of this process deliver."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._pieces: list[int] = []
        self._at_cancel = 0
        read, cancel = FileSource.read_into, Job.cancel

        def count(source: FileSource, offset: int, buffer: bytearray | memoryview) -> None:
            self._pieces.append(len(buffer))
            read(source, offset, buffer)

        def mark(job: Job) -> None:
            cancel(job)
            self._at_cancel = self.nbytes

        patch.setattr(FileSource, "read_into", count)
        patch.setattr(Job, "cancel", mark)

    @property
    def nbytes(self) -> int:
        """What was read so far."""
        return sum(self._pieces)

    @property
    def since_cancel(self) -> int:
        """What was read after the last job was cancelled."""
        return self.nbytes - self._at_cancel
