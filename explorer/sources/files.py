"""Bytes by position, from a file or from memory, and the search for bytes in them.

Positioned reads, not a memory map: a file that shrinks, an unplugged disk or a dead network share
under a map kills the process (SIGBUS); under a positioned read it is an exception to show.

A model may lie in 250 shards, and macOS lets a program have 256 files open at a time. So only some
files stay open. A file that was closed is opened again when it is next read, and must then be the
same: same device, inode, size and time of change. Otherwise a replaced file would be read with the
offsets of the old one.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Self

from explorer.errors import SourceError, system_reason, unreadable_reason
from explorer.model_files import note_model_file

MOST_OPEN: Final = 64

_BUFFERED_BYTES: Final = 1 << 16

# O_NONBLOCK: opening a FIFO that was swapped in after the check must not wait for a writer.
# O_BINARY exists on Windows only, where text mode would translate line ends.
_OPEN_FLAGS: Final = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_CLOEXEC", 0)
)

# When a model was last used, the library says by when it was last read: by others, not by us. Only
# Linux can do this, and for files of one's own.
_UNNOTED: Final = getattr(os, "O_NOATIME", 0)


class ByteSource(ABC):
    """Bounded, thread-safe random access to bytes.

    Attributes:
        path: Name of the place in messages; the file's path where there is one.
        size: Number of bytes when the source was opened.
        version: What tells its content from a later one at the same address; "" if nothing does.
    """

    path: Path
    size: int
    version: str = ""

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

    def end_header(self) -> None:  # noqa: B027 - most have nothing to do
        """Take note that the header was read, and weights follow, if any."""

    def expect(self, offset: int, length: int) -> None:  # noqa: B027 - as above
        """Take note that these bytes may be read, one behind the other."""

    def close(self) -> None:  # noqa: B027 - memory needs no release
        """Release the place; reading raises `SourceError` from then on. Closing twice is fine."""

    def _checked(self, offset: int, length: int) -> int:
        """Return `length` if the range is empty or lies inside; nothing is allocated before."""
        if offset < 0 or length < 0 or (length and offset + length > self.size):
            left = max(0, self.size - max(0, offset))
            what = f"asked for {length} bytes where only {left} are left"
            raise SourceError(what, self.path, offset)
        return length

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class MemorySource(ByteSource):
    """A `ByteSource` over a bytes object."""

    def __init__(self, content: bytes, path: Path | str = "<memory>") -> None:
        self.path = path if isinstance(path, Path) else Path(path)  # making one again takes long
        self.size = len(content)
        self._content = content

    def read_into(self, offset: int, buffer: bytearray | memoryview) -> None:
        end = offset + self._checked(offset, len(buffer))
        buffer[:] = self._content[offset:end]


class BufferedSource(ByteSource):
    """Many small reads of another source, one behind the other, in few large ones.

    For one thread. The other source stays its owner's to close.
    """

    def __init__(self, source: ByteSource) -> None:
        self.path, self.size = source.path, source.size
        self._source = source
        self._window = b""
        self._base = 0

    def read(self, offset: int, length: int) -> bytes:
        start = offset - self._base
        if start < 0 or length < 0 or start + length > len(self._window):
            if not 0 <= length < _BUFFERED_BYTES or not 0 <= offset <= self.size - length:
                return self._source.read(offset, length)
            self._window = self._source.read(offset, min(_BUFFERED_BYTES, self.size - offset))
            self._base, start = offset, 0
        return self._window[start : start + length]

    def read_into(self, offset: int, buffer: bytearray | memoryview) -> None:
        self._source.read_into(offset, buffer)


class FileSource(ByteSource):
    """A `ByteSource` over a regular file, opened read-only.

    Raises:
        SourceError: The path is missing, unreadable, or not a regular file; while reading, also
            that the file was deleted, replaced or changed.
    """

    def __init__(self, path: Path | str) -> None:
        self._seeking = threading.Lock()
        self.path = Path(path)
        self._descriptor = FileDescriptor(self.path)
        note_model_file(self.path)
        self.size = self._descriptor.nbytes

    def read_into(self, offset: int, buffer: bytearray | memoryview) -> None:
        self._checked(offset, len(buffer))
        view = memoryview(buffer)
        position = offset
        try:
            while view:
                count = self._read_some(position, view)
                if count == 0:
                    what = "became shorter while it was open. Open it again"
                    raise SourceError(what, self.path, position)
                view = view[count:]
                position += count
        except OSError as error:
            what = f"cannot be read: {system_reason(error)}"
            raise SourceError(what, self.path, position) from error

    def close(self) -> None:
        self._descriptor.close()

    def __del__(self, finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # A model whose job was cancelled at the last moment is dropped unclosed. At the end of the
        # process the system closes its files, and what `close` needs may be gone.
        if hasattr(self, "_descriptor") and not finalizing():  # opening it may have failed
            self.close()

    def _read_some(self, position: int, view: memoryview) -> int:
        number = self._descriptor.borrow()
        try:
            if sys.platform != "win32" and hasattr(os, "preadv"):
                return os.preadv(number, [view], position)
            with self._seeking:  # Windows and old macOS have no positioned read into a buffer
                os.lseek(number, position, os.SEEK_SET)
                content = os.read(number, len(view))
        finally:
            self._descriptor.give_back()
        view[: len(content)] = content
        return len(content)


class DescriptorPool:
    """Knows which files are open, and closes idle ones when they are too many.

    Args:
        most_open: Files that stay open; more only while all of them are being read.
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
        """Register an open file; close idle ones if there are too many now."""
        with self.lock:
            self._open[descriptor] = number
        self.close_idle(self.most_open)

    def close(self, descriptor: FileDescriptor) -> None:
        """Close an idle file, if it is open."""
        with self.lock:
            number = self._open.pop(descriptor, None)
        if number is not None:
            os.close(number)

    def close_idle(self, keep: int) -> None:
        """Close idle files, least recently used first, until at most `keep` are open."""
        with self.lock:
            for descriptor in list(self._open):
                if len(self._open) <= keep:
                    return
                if not descriptor.reader_count:
                    self.close(descriptor)


POOL: Final = DescriptorPool()
"""The pool of the program."""


class _Identity(NamedTuple):
    """What stays the same as long as a file is the same."""

    device: int
    inode: int
    nbytes: int
    changed_ns: int


class FileDescriptor:
    """A regular file that is open while it is read, and often in between.

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

        The system gives a closed descriptor's number to the next file that is opened: a read that
        was overtaken by `close` would return bytes of another file.

        Raises:
            SourceError: It was closed, or it is another file now.
        """
        with self._pool.lock:
            if self._closed:
                raise SourceError("was closed. Open it again", self._path)
            self.reader_count += 1  # from here on it stays open
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
        """Close the file for good as soon as the reads under way have ended."""
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
                what = "was replaced or changed while it was open. Open it again"
                raise SourceError(what, self._path)
            self._pool.add(self, number)
            return number

    def _open(self) -> tuple[int, _Identity]:
        """Open the file. What it is, is checked again on the open descriptor: it may be swapped."""
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
            return _open_unnoted(self._place)
        except OSError as error:
            if error.errno not in {errno.EMFILE, errno.ENFILE}:
                raise
        self._pool.close_idle(0)  # the system's limit is below ours
        return _open_unnoted(self._place)


def _open_unnoted(place: str) -> int:
    """Open a file so that reading it changes nothing of it, not even when it was last read."""
    if _UNNOTED:
        try:
            return os.open(place, _OPEN_FLAGS | _UNNOTED)
        except PermissionError:  # of somebody else, or not ours to read at all
            pass
    return os.open(place, _OPEN_FLAGS)


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
        raise SourceError(f"is {kind}, not a file. Choose a model file", path)


def _explained(error: OSError | ValueError | SourceError, path: Path) -> SourceError:
    if isinstance(error, SourceError):
        return error
    if isinstance(error, FileNotFoundError):
        return SourceError("does not exist. It may have been moved or deleted", path)
    if isinstance(error, PermissionError):
        return SourceError(unreadable_reason(error), path)
    return SourceError(f"cannot be opened: {system_reason(error)}", path)


_CHUNK_BYTES: Final = 1 << 20  # some ms of a disk's time, so that cancelling is quick
_REPORT_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Found:
    """A run of bytes, and whether the search went past the end (or the start) to find it."""

    offset: int
    nbytes: int
    wrapped: bool


@dataclass
class ByteSearch:
    """A search for bytes in a file."""

    source: ByteSource  # the file
    pattern: bytes  # what to find; not empty
    start: int  # forwards, the first place where a match may begin; backwards, where it may not
    forward: bool
    check: Callable[[], None]  # called for each chunk; raises to stop
    report: Callable[[int, int], None]  # called now and then with (bytes done, bytes in all)

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
