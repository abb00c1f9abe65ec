"""The folder of what is kept between two runs: everything in it is this user's alone, or unused.

Compiled kernels are executed from there, and results, headers and crash reports are believed. So
each folder must be a real one of this user that nobody else may write, up to the user's cache
folder, and each file a regular one, likewise. One that is not safe is not used: work goes on in
memory, and one warning says why. No link is followed.

A file that is written lies in the folder `unfinished` until it is complete. What a process that was
killed has left there is removed by a later start, an hour after: nothing else is ever put there.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, Final

from explorer.ends import Temporary, remove
from explorer.errors import system_reason
from explorer.paths import cache_folder, user_id

ABANDONED_S: Final = 3600.0
"""How long what is unfinished is left alone: another process may be at work on it."""

DIGEST_BYTES: Final = 32

_UNFINISHED: Final = "unfinished"
_NO_FILE: Final = {errno.ELOOP, errno.EACCES, errno.ENXIO}  # a link, a closed file, a socket
# O_NONBLOCK: a FIFO has no writer to wait for
_READ: Final = sum(getattr(os, f"O_{name}", 0) for name in ("NOFOLLOW", "NONBLOCK", "BINARY"))
_CREATE: Final = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0)

_log = logging.getLogger(__name__)
_warning = ""


def why_unavailable() -> str:
    """Return the warning that was given in this process; "" if there was none."""
    return _warning


def warn(error: OSError) -> None:
    """Say why nothing can be kept, once a process."""
    global _warning  # noqa: PLW0603 - once a process
    if not _warning:
        where = "for the next run" if error.filename is None else f"in {error.filename}"
        _warning = f"nothing is kept {where}: {system_reason(error)}"
        _log.warning(_warning)


class PrivateFolder:
    """A folder within the user's cache folder, or within another root.

    Every method but `path` raises an OSError where the folder is not safe, or cannot be made.
    """

    def __init__(self, *names: str, root: Path | None = None) -> None:
        """Name a folder, which need not exist: ``PrivateFolder("crashes")``."""
        self._names = names
        self._root = root

    @property
    def path(self) -> Path:
        """Where it is; raises OSError if the user has no home folder."""
        return self._top().joinpath(*self._names)

    def make(self) -> Path:
        """Make the folder if it is not there, check it and those above it, and return its path."""
        folder = self._top()
        for name in ("", *self._names):
            folder = folder / name
            _make_private(folder)
            fault = _fault(os.lstat(folder), stat.S_IFDIR)
            if fault:
                error = PermissionError(errno.EPERM, fault, str(folder))
                if self._root is None:
                    warn(error)  # of another root, its owner says it
                raise error
        return folder

    def open(self, name: str) -> BinaryIO | None:
        """Open a file for reading; None if there is none.

        What is not a file of this user alone is removed: a link, a folder, a pipe, a file that
        others own or may write.
        """
        path = self.make() / name
        try:
            descriptor = os.open(path, os.O_RDONLY | _READ)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno not in _NO_FILE:
                raise
            remove(path)
            return None
        # the look at a link is for systems that cannot refuse to open one
        if os.path.islink(path) or _fault(os.fstat(descriptor), stat.S_IFREG):
            os.close(descriptor)
            remove(path)
            return None
        return open(descriptor, "rb")

    def create(self, name: str) -> BinaryIO:
        """Open a new file for writing, closed to other users."""
        return open(os.open(self.make() / name, _CREATE, 0o600), "wb")

    def read(self, name: str, most_bytes: int) -> bytes | None:
        """Return what `write` was given; None, and the file is removed, if that is not in it."""
        file = self.open(name)
        if file is None:
            return None
        with file:
            content = file.read(most_bytes + DIGEST_BYTES + 1)
        path = self.path / name
        plain = content[:-DIGEST_BYTES]
        if len(plain) <= most_bytes and content[-DIGEST_BYTES:] == seal(path, plain):
            return plain
        remove(path)
        return None

    def write(self, name: str, content: bytes) -> None:
        """Write a file that ends in a digest of it; it appears whole or not at all."""
        path = self.make() / name
        with self.unfinished() as temporary:
            with open(os.open(temporary, _CREATE, 0o600), "wb") as file:
                file.write(content)
                file.write(seal(path, content))
                file.flush()
                os.fsync(file.fileno())  # else a power failure may leave the name without the bytes
            os.replace(temporary, path)

    @contextmanager
    def unfinished(self) -> Iterator[Path]:
        """Give a path for a file or folder that is about to be made, on the same disk.

        What is there at the end is removed, also if a signal ends the process.
        """
        temporary = Temporary(self._unfinished().make() / os.urandom(8).hex())
        try:
            yield temporary.path
        finally:
            temporary.remove()

    def why_unwritable(self) -> str:
        """Try to write a few bytes, after somebody else could not, and return the system's reason.

        Where that succeeds, another program had the file, or the disk has room again.
        """
        name = os.urandom(8).hex()
        try:
            with self.create(name) as file:
                file.write(bytes(4096))
        except OSError as error:
            return system_reason(error)
        finally:
            remove(self.path / name)
        return "another program may be writing it"

    def remove_leftovers(self) -> None:
        """Remove what processes that were killed have left unfinished; what resists is left."""
        folder = self._unfinished()
        with suppress(OSError):
            if not folder.path.exists():
                return
            oldest = time.time() - ABANDONED_S
            for entry in list(os.scandir(folder.make())):
                if entry.stat(follow_symlinks=False).st_mtime < oldest:
                    remove(Path(entry))

    def _unfinished(self) -> PrivateFolder:
        return PrivateFolder(_UNFINISHED, root=self._root)

    def _top(self) -> Path:
        try:
            return self._root or cache_folder()
        except RuntimeError as error:
            raise FileNotFoundError(errno.ENOENT, "there is no home folder") from error


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Make an empty folder, closed to other users, and remove it at the end with all in it.

    It lies in the user's cache folder; where that is not safe, which is said, among the system's
    temporary files.
    """
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(PrivateFolder().unfinished())
            folder.mkdir(mode=0o700)
        except OSError as error:
            warn(error)
            from tempfile import TemporaryDirectory  # noqa: PLC0415 - rarely needed

            name = stack.enter_context(TemporaryDirectory(prefix="gguf-explorer-"))
            folder = Path(name)
        yield folder


def _make_private(folder: Path) -> None:
    """Make a folder, and those that it lies in, each closed to other users if it is new.

    A home folder that is not there is not made: its disk may come later.
    """
    if not folder.parent.exists():
        _make_private(folder.parent)
    if str(folder) == os.path.expanduser("~") and not folder.exists():
        raise FileNotFoundError(errno.ENOENT, "the home folder does not exist", str(folder))
    folder.mkdir(mode=0o700, exist_ok=True)


def check_replaceable(path: Path) -> None:
    """Raise PermissionError if a path leads to something else than a file of this user, or nothing.

    Links are seen through. Only such a file is replaced by a new one, which is one, too.
    """
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return
    fault = _fault(found, stat.S_IFREG)
    if fault:
        raise PermissionError(errno.EPERM, fault, str(path))


def seal(path: Path, content: bytes) -> bytes:
    """Return the digest of a file.

    Its own name and its folder's are part of it, so that a sound file under another's name is none.
    """
    names = "/".join(path.parts[-2:])
    return blake2b(f"{names}\0".encode() + content, digest_size=DIGEST_BYTES).digest()


def _fault(found: os.stat_result, kind: int) -> str:
    """Return why others than this user could change a file or folder; "" if they could not."""
    if os.name != "posix":
        return ""  # a user's own folders are closed to others there
    if stat.S_IFMT(found.st_mode) != kind:
        folder = kind == stat.S_IFDIR
        return f"it is {'a link or a file, not a folder' if folder else 'not a regular file'}"
    if user_id() not in {None, found.st_uid}:
        return "it belongs to another user"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "other users can write to it; `chmod go-w` mends that"
    return ""
