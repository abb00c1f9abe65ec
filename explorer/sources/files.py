"""The contract of a place that bytes come from.

Positioned reads, not a memory map: a file that shrinks, an unplugged disk or a dead network share
under a map kills the process (SIGBUS); under a positioned read it is an exception to show.
"""

from __future__ import annotations

import os
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from explorer.errors import SourceError, system_reason
from explorer.sources.descriptors import FileDescriptor


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


# A regular local file, read by position.
#
# Only regular files are opened: each other thing is refused by name before the first read, and
# the check is repeated on the open descriptor so that a file swapped in between cannot slip
# through.


_ONE_CALL_BYTES = 1 << 20  # more is read into a buffer, in as many calls as the system likes


class FileSource(ByteSource):
    """A `ByteSource` over a regular file, opened read-only.

    While it is not read it may be closed and opened again (see `explorer.sources.descriptors`):
    then a file that was deleted, replaced or changed meanwhile is a `SourceError`.

    Raises:
        SourceError: The path is missing, unreadable, or not a regular file.
    """

    def __init__(self, path: Path | str) -> None:
        self._seeking = threading.Lock()
        self.path = Path(path)
        self._descriptor = FileDescriptor(self.path)
        self.size = self._descriptor.nbytes

    def read(self, offset: int, length: int) -> bytes:
        if hasattr(os, "pread") and 0 < length <= _ONE_CALL_BYTES:
            self._checked(offset, length)
            number = self._descriptor.borrow()
            try:
                content = os.pread(number, length, offset)
            except OSError as error:
                what = f"cannot be read: {system_reason(error)}"
                raise SourceError(what, self.path, offset) from error
            finally:
                self._descriptor.give_back()
            if len(content) == length:
                return content
        return super().read(offset, length)  # which tells what is wrong

    def read_into(self, offset: int, buffer: bytearray | memoryview) -> None:
        self._checked(offset, len(buffer))
        view = memoryview(buffer)
        position = offset
        try:
            while view:
                count = self._read_some(position, view)
                if count == 0:
                    raise SourceError(
                        "became shorter while it was open; open it again", self.path, position
                    )
                view = view[count:]
                position += count
        except OSError as error:
            what = f"cannot be read: {system_reason(error)}"
            raise SourceError(what, self.path, position) from error

    def close(self) -> None:
        self._descriptor.close()

    def __del__(self, finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # A model that was opened for nobody (its job was cancelled at the last moment) is dropped
        # unclosed; its descriptor goes with it, as that of Python's own files does.
        # At the end of the process the system closes it, and what `close` needs may be gone.
        if hasattr(self, "_descriptor") and not finalizing():  # opening it may have failed
            self.close()

    def _read_some(self, position: int, view: memoryview) -> int:
        number = self._descriptor.borrow()
        try:
            if hasattr(os, "preadv"):
                return os.preadv(number, [view], position)
            with self._seeking:  # Windows and old macOS have no positioned read into a buffer
                os.lseek(number, position, os.SEEK_SET)
                content = os.read(number, len(view))
        finally:
            self._descriptor.give_back()
        view[: len(content)] = content
        return len(content)


# Bytes that are already in memory: small layers of a store, and tests.


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
