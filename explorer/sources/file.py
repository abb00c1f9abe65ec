"""A regular local file, read by position.

Only regular files are opened. A FIFO would block for ever, a device never ends, a folder has no
bytes: each is refused by name before the first read, and the check is repeated on the open
descriptor so that a file swapped in between cannot slip through.
"""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

from explorer.errors import SourceError
from explorer.sources.base import ByteSource

# O_NONBLOCK: opening a FIFO that was swapped in after the check must not wait for a writer.
# O_BINARY exists on Windows only, where text mode would translate line ends.
_OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_ONE_CALL_BYTES = 1 << 20  # more is read into a buffer, in as many calls as the system likes


def _kind_of(mode: int) -> str | None:
    """Name what a path is if it is not a regular file."""
    names = (
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISFIFO, "a pipe (FIFO)"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISBLK, "a block device"),
        (stat.S_ISSOCK, "a socket"),
    )
    if stat.S_ISREG(mode):
        return None
    return next((name for test, name in names if test(mode)), "a special file")


def _refuse_irregular(mode: int, path: Path) -> None:
    kind = _kind_of(mode)
    if kind is not None:
        raise SourceError(f"is {kind}, not a file; choose a model file", path)


class FileSource(ByteSource):
    """A `ByteSource` over a regular file, opened read-only.

    Raises:
        SourceError: The path is missing, unreadable, or not a regular file.
    """

    def __init__(self, path: Path | str) -> None:
        self._lock = threading.Lock()
        self._descriptor = -1
        self._readers = 0
        self._closing = False
        self.path = Path(path)
        try:
            _refuse_irregular(os.stat(self.path).st_mode, self.path)
            self._descriptor = os.open(self.path, _OPEN_FLAGS)
            status = os.fstat(self._descriptor)
            _refuse_irregular(status.st_mode, self.path)
        except FileNotFoundError as error:
            raise SourceError("does not exist; it may have been moved or deleted", path) from error
        except PermissionError as error:
            raise SourceError("permission denied; ask its owner for read access", path) from error
        except (OSError, ValueError) as error:
            raise SourceError(f"cannot be opened: {_reason(error)}", path) from error
        except SourceError:
            self.close()
            raise
        self.size = status.st_size

    def read(self, offset: int, length: int) -> bytes:
        if hasattr(os, "pread") and 0 < length <= _ONE_CALL_BYTES:
            self._checked(offset, length)
            descriptor = self._borrow()
            try:
                content = os.pread(descriptor, length, offset)
            except OSError as error:
                raise SourceError(f"cannot be read: {_reason(error)}", self.path, offset) from error
            finally:
                self._give_back()
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
            raise SourceError(f"cannot be read: {_reason(error)}", self.path, position) from error

    def close(self) -> None:
        with self._lock:
            self._closing = True
            self._close_if_unused()

    def __del__(self) -> None:
        # A model that was opened for nobody (its job was cancelled at the last moment) is dropped
        # unclosed; its descriptor goes with it, as that of Python's own files does.
        self.close()

    def _read_some(self, position: int, view: memoryview) -> int:
        descriptor = self._borrow()
        try:
            if hasattr(os, "preadv"):
                return os.preadv(descriptor, [view], position)
            with self._lock:  # Windows and old macOS have no positioned read into a buffer
                os.lseek(descriptor, position, os.SEEK_SET)
                content = os.read(descriptor, len(view))
        finally:
            self._give_back()
        view[: len(content)] = content
        return len(content)

    def _borrow(self) -> int:
        """Return the descriptor and keep it open until `_give_back`.

        The system hands a closed descriptor's number to the next file that is opened: a read that
        was overtaken by `close` would return bytes of another file.
        """
        with self._lock:
            if self._closing:
                raise SourceError("was closed; open it again", self.path)
            self._readers += 1
            return self._descriptor

    def _give_back(self) -> None:
        with self._lock:
            self._readers -= 1
            self._close_if_unused()

    def _close_if_unused(self) -> None:
        if self._closing and not self._readers and self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _reason(error: OSError | ValueError) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()
