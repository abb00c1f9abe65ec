"""Find bytes in a file of any size: chunk by chunk, forwards or backwards, round the end once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from explorer.sources.files import ByteSource

_CHUNK_BYTES: Final = 1 << 20  # some ms of a disk's time, so that cancelling is quick
_REPORT_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Found:
    """Where the bytes are.

    Attributes:
        offset: First byte.
        nbytes: Number of bytes.
        wrapped: The search went past the end (or the start) of the file and came back.
    """

    offset: int
    nbytes: int
    wrapped: bool


@dataclass
class ByteSearch:
    """One search.

    Attributes:
        source: The file.
        pattern: What to find; not empty.
        start: Forwards, the first place where it may begin; backwards, the first where it may not.
        forward: Direction.
        check: Called for each chunk; raises to stop.
        report: Called now and then with (bytes done, bytes in all).
    """

    source: ByteSource
    pattern: bytes
    start: int
    forward: bool
    check: Callable[[], None]
    report: Callable[[int, int], None]

    def run(self) -> Found | None:
        """Return the next place, or None if the bytes are nowhere in the file.

        Raises:
            SourceError: The file cannot be read.
        """
        size, more = self.source.size, len(self.pattern) - 1
        start = min(max(0, self.start), size)
        # a match may begin before `start` and end behind it
        before, behind = (0, min(size, start + more)), (start, size)
        spans = (behind, before) if self.forward else (before, behind)
        done, reported = 0, time.monotonic()
        for wrapped, (low, high) in enumerate(spans):
            for offset, chunk in self._chunks(low, high):
                self.check()
                at = chunk.find(self.pattern) if self.forward else chunk.rfind(self.pattern)
                if at >= 0:
                    return Found(offset + at, len(self.pattern), bool(wrapped))
                done += len(chunk) - more
                if time.monotonic() - reported >= _REPORT_S:
                    reported = time.monotonic()
                    self.report(min(done, size), size)
        return None

    def _chunks(self, low: int, high: int) -> Iterator[tuple[int, bytes]]:
        """Read a span in the search's direction; chunks share all but one byte of a pattern."""
        size = max(_CHUNK_BYTES, 2 * len(self.pattern))
        step = size - (len(self.pattern) - 1)
        position = low if self.forward else high
        while (high - position if self.forward else position - low) >= len(self.pattern):
            if self.forward:
                yield position, self.source.read(position, min(size, high - position))
                position += step
            else:
                begin = max(low, position - size)
                yield begin, self.source.read(begin, position - begin)
                position -= step
