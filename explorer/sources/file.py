"""A regular local file, read by position.

Only regular files are opened: each other thing is refused by name before the first read, and the
check is repeated on the open descriptor so that a file swapped in between cannot slip through.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from explorer.errors import SourceError, system_reason
from explorer.sources.base import ByteSource
from explorer.sources.descriptors import FileDescriptor

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
