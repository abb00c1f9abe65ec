"""The contract of a place that bytes come from.

Positioned reads, not a memory map: a file that shrinks, an unplugged disk or a dead network share
under a map kills the process (SIGBUS); under a positioned read it is an exception to show.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Self

from explorer.errors import SourceError


class ByteSource(ABC):
    """Bounded, thread-safe random access to bytes.

    Attributes:
        path: What to call the place in messages; the file's path where there is one.
        size: Number of bytes when the source was opened.
    """

    path: Path
    size: int

    def read(self, offset: int, length: int) -> bytes:
        """Return exactly `length` bytes from `offset`.

        Raises:
            SourceError: The range leaves the source, or its bytes are no longer there.
        """
        buffer = bytearray(self._checked(offset, length))
        self.read_into(offset, buffer)
        return bytes(buffer)

    @abstractmethod
    def read_into(self, offset: int, buffer: bytearray | memoryview) -> None:
        """Fill `buffer` with the bytes from `offset` on; raise as `read` does."""

    def view(self, offset: int, length: int) -> memoryview | None:
        """Return bytes that are kept in memory, read-only and uncopied; None if none are kept.

        Raises:
            SourceError: As `read`.
        """
        del offset, length  # for places that keep some
        return None

    @abstractmethod
    def close(self) -> None:
        """Release the place; reading raises `SourceError` from then on. Closing twice is fine."""

    def _checked(self, offset: int, length: int) -> int:
        """Return `length` if the range lies inside the source; nothing is allocated before."""
        if offset < 0 or length < 0 or offset + length > self.size:
            raise SourceError(
                f"asked for {length} bytes where only "
                f"{max(0, self.size - max(0, offset))} are left",
                self.path,
                offset,
            )
        return length

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
