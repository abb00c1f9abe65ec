"""File descriptors that are lent for a read and may be closed between two reads.

A model may lie in 250 shards, and macOS lets a program have 256 files open at a time. So only some
files stay open; one that was closed meanwhile is opened again when it is next read, and must then
be the same file, byte for byte as far as the system can tell: same device, inode, size and time of
change. Otherwise a replaced file would be read with the offsets of the old one.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Final, NamedTuple

from explorer.errors import SourceError, system_reason, unreadable_reason

MOST_OPEN: Final = 64

# O_NONBLOCK: opening a FIFO that was swapped in after the check must not wait for a writer.
# O_BINARY exists on Windows only, where text mode would translate line ends.
_OPEN_FLAGS: Final = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_CLOEXEC", 0)
)
_TOO_MANY_OPEN: Final = (errno.EMFILE, errno.ENFILE)


class _Identity(NamedTuple):
    """What stays the same as long as a file is the same."""

    device: int
    inode: int
    nbytes: int
    changed_ns: int


class DescriptorPool:
    """Knows which files are open, and closes those that nobody reads once they are too many.

    Args:
        most_open: Files that stay open; more only while they are all being read.
    """

    def __init__(self, most_open: int = MOST_OPEN) -> None:
        self.most_open = most_open
        # Re-entrant: the garbage collector may run while it is held, and end a `FileSource` that
        # closes its file.
        self.lock = threading.RLock()
        self._open: OrderedDict[FileDescriptor, int] = OrderedDict()  # last used at the end

    def __len__(self) -> int:
        """Return how many files are open."""
        return len(self._open)

    def number(self, descriptor: FileDescriptor) -> int | None:
        """Return the system's number of an open file, which counts as used now, or None."""
        with self.lock:
            number = self._open.get(descriptor)
            if number is not None:
                self._open.move_to_end(descriptor)
            return number

    def add(self, descriptor: FileDescriptor, number: int) -> None:
        """Note that a file was opened; close others if they are too many now."""
        with self.lock:
            self._open[descriptor] = number
        self.close_idle(self.most_open)

    def close(self, descriptor: FileDescriptor) -> None:
        """Close a file that nobody reads, if it is open."""
        with self.lock:
            number = self._open.pop(descriptor, None)
        if number is not None:
            os.close(number)

    def close_idle(self, keep: int) -> None:
        """Close files that nobody reads, those first that were not used for longest.

        Args:
            keep: Stop as soon as not more are open.
        """
        with self.lock:
            for descriptor in list(self._open):
                if len(self._open) <= keep:
                    return
                if not descriptor.reader_count:
                    self.close(descriptor)


POOL: Final = DescriptorPool()
"""The pool of the program."""


class FileDescriptor:
    """A regular file that is open while it is read, and often in between.

    Attributes:
        nbytes: Size of the file.
        reader_count: Reads under way.

    Raises:
        SourceError: The path is missing, unreadable, or not a regular file.
    """

    def __init__(self, path: Path, pool: DescriptorPool | None = None) -> None:
        self._path = path
        self._place = os.path.abspath(path)  # another folder may be the current one later
        self._pool = POOL if pool is None else pool
        self._opening = threading.Lock()
        self._closed = False
        self.reader_count = 0
        number, self._identity = self._open()
        self.nbytes = self._identity.nbytes
        self._pool.add(self, number)

    def borrow(self) -> int:
        """Return the system's number of the file and keep it open until `give_back`.

        The system hands a closed descriptor's number to the next file that is opened: a read that
        was overtaken by `close` would return bytes of another file.

        Raises:
            SourceError: It was closed; or it was closed in between, and is another file now.
        """
        with self._pool.lock:
            if self._closed:
                raise SourceError("was closed; open it again", self._path)
            self.reader_count += 1  # from here on nobody closes it
            number = self._pool.number(self)
        if number is not None:
            return number
        try:
            return self._reopen()
        except SourceError:
            self.give_back()
            raise

    def give_back(self) -> None:
        """End what `borrow` began."""
        with self._pool.lock:
            self.reader_count -= 1
            if self._closed and not self.reader_count:
                self._pool.close(self)

    def close(self) -> None:
        """Close the file as soon as the reads under way have ended, for good."""
        with self._pool.lock:
            self._closed = True
            if not self.reader_count:
                self._pool.close(self)

    def _reopen(self) -> int:
        with self._opening:  # not the pool's lock: a dead network share holds up its own readers
            known = self._pool.number(self)
            if known is not None:  # another reader was faster
                return known
            number, identity = self._open()
            if identity != self._identity:
                os.close(number)
                raise SourceError(
                    "was replaced or changed while it was open; open it again", self._path
                )
            self._pool.add(self, number)
            return number

    def _open(self) -> tuple[int, _Identity]:
        number = -1
        try:
            _refuse_irregular(os.stat(self._place).st_mode, self._path)
            number = self._open_number()
            status = os.fstat(number)
            _refuse_irregular(status.st_mode, self._path)
        except (OSError, ValueError, SourceError) as error:
            if number >= 0:
                os.close(number)
            raise _explained(error, self._path) from error
        return number, _Identity(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)

    def _open_number(self) -> int:
        try:
            return os.open(self._place, _OPEN_FLAGS)
        except OSError as error:
            if error.errno not in _TOO_MANY_OPEN:
                raise
        self._pool.close_idle(0)  # the system's limit is below ours
        return os.open(self._place, _OPEN_FLAGS)


def _refuse_irregular(mode: int, path: Path) -> None:
    """Refuse by name what is not a file: a FIFO would block for ever, a device never ends."""
    names = (
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISFIFO, "a pipe (FIFO)"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISBLK, "a block device"),
        (stat.S_ISSOCK, "a socket"),
    )
    if not stat.S_ISREG(mode):
        kind = next((name for test, name in names if test(mode)), "a special file")
        raise SourceError(f"is {kind}, not a file; choose a model file", path)


def _explained(error: OSError | ValueError | SourceError, path: Path) -> SourceError:
    if isinstance(error, SourceError):
        return error
    if isinstance(error, FileNotFoundError):
        return SourceError("does not exist; it may have been moved or deleted", path)
    if isinstance(error, PermissionError):
        return SourceError(unreadable_reason(error), path)
    return SourceError(f"cannot be opened: {system_reason(error)}", path)
