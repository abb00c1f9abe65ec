"""The folder that keeps compiled kernels: one for each version of their sources, guarded.

Its content is executed. So the folder, and each one within it, must be this user's and closed to
others; else a private temporary one is used. Each file ends in a digest (`seal`), which is checked
before anything in it is used (`read_sealed`).

Numba keeps machine code beside a kernel's source, and compiles anew when that file changes. It does
not look at what the kernel imports: helpers, tables, compiler options. So a new version of the
program, or an edit, could go on with old machine code, and a program that is installed where the
user may not write had nowhere to keep it. Here each state of the sources has a folder of its own,
in the user's cache folder. The command that compiles all kernels leaves a mark there.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import logging
import os
import platform
import re
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Final

from explorer import __version__
from explorer.ends import Temporary, mark_as_running
from explorer.errors import system_reason
from explorer.paths import cache_folder, make_private_folder

SOURCES: Final = (
    "quantization/*.py",
    "quantization/grouped/*.py",
    "quantization/huggingface/*.py",
    "analysis/kernel*.py",
    "analysis/*/kernel*.py",
)
"""Modules that define kernels, or helpers and constants that are compiled into kernels."""

KEPT_S: Final = 30 * 24 * 3600.0
"""How long an unused folder is kept."""

ABANDONED_S: Final = 3600.0
"""How long what is unfinished is left alone: another process may be at work on it."""

_log = logging.getLogger(__name__)

_VARIABLE: Final = "NUMBA_CACHE_DIR"
_PREFIX: Final = "kernels-"
_MARK: Final = ".compiled"
_TEMPORARY: Final = "gguf-explorer-kernels-"
_RUNNING: Final = ".running"  # in a temporary folder, locked by the process that made it
_SUFFIX: Final = ".tmp"
_UNFINISHED: Final = re.compile(r".+\.nb[ic]\.tmp\.[0-9a-f]{16}")
_PACKAGE: Final = Path(__file__).resolve().parents[1]
_MOST_KEPT: Final = 16  # editing kernels makes many


def choose_kernel_cache() -> None:
    """Choose the folder of this version, or the one that the user has named, if it is safe.

    A folder that cannot be written, or that others could write to, is not used: kernels are then
    kept in a private temporary one, for this process and those that it starts, and the log says
    why. Folders of other versions are removed if they were not used for 30 days, or if there are
    many; so is what processes that were killed have left, after an hour.
    """
    named = os.environ.get(_VARIABLE)
    try:
        folder = Path(named) if named else cache_folder() / (_PREFIX + source_digest())
        fault = _make_safe(folder, [] if named else [folder.parent])
    except RuntimeError:  # a user without a home
        fault = "there is no home folder"
    except OSError as error:
        fault = f"{folder}: {system_reason(error)}"
    if not named:
        _remove_temporary()
    if fault:
        _choose_temporary(fault)
    elif not named:
        os.environ[_VARIABLE] = str(folder)
        _remove_old(folder)
        _remove_unfinished(folder)


def why_not_kept() -> str:
    """Return why kernels of this process are kept in a temporary folder; "" if they are not."""
    return _why_temporary


def _make_safe(folder: Path, above: Sequence[Path]) -> str:
    """Make a folder; return why it, one above or one within it is not safe, or "".

    Raises:
        OSError: It cannot be made, or marked as used.
    """
    make_private_folder(folder)
    with os.scandir(folder) as entries:
        inner = [Path(entry.path) for entry in entries if not entry.is_file(follow_symlinks=False)]
    for each in (*above, folder, *inner):
        fault = _fault(os.lstat(each), stat.S_IFDIR)
        if fault:
            return f"{each}: {fault}"
    os.utime(folder)  # marks it as used
    return "" if os.access(folder, os.W_OK | os.X_OK) else f"{folder}: it can only be read"


def _fault(found: os.stat_result, kind: int) -> str:
    """Return why others than this user could change a file or folder; "" if they could not."""
    if os.name != "posix":
        return ""  # a user's own folders are closed to others there
    if stat.S_IFMT(found.st_mode) != kind:
        return "it is a link or a file, not a folder"
    if found.st_uid != os.geteuid():
        return "it belongs to another user"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "other users can write to it; `chmod go-w` mends that"
    return ""


_why_temporary = ""


def _choose_temporary(fault: str) -> None:
    """Choose a private folder until this process ends."""
    global _why_temporary  # noqa: PLW0603 - one folder a process
    _why_temporary = f"compiled kernels are kept for this run only: {fault}"
    _log.warning(_why_temporary)
    try:
        folder = tempfile.mkdtemp(_SUFFIX, _TEMPORARY)
        running = open(Path(folder) / _RUNNING, "xb")  # noqa: SIM115 - as long as the process runs
    except OSError:
        os.environ.pop(_VARIABLE, None)
        return
    mark_as_running(running)
    os.environ[_VARIABLE] = folder
    atexit.register(Temporary(folder).remove)
    atexit.register(running.close)  # before: Windows removes no open file


def kernel_folder(name: str) -> Path:
    """Return a folder within the chosen one; it is made if it is not there.

    Raises:
        RuntimeError: No folder is chosen, or another user could write to this one.
        OSError: It cannot be made.
    """
    chosen = os.environ.get(_VARIABLE)
    if not chosen:
        raise RuntimeError("no folder can be written")
    folder = Path(chosen) / name
    make_private_folder(folder)
    fault = _fault(os.lstat(folder), stat.S_IFDIR)
    if fault:
        raise RuntimeError(f"{folder}: {fault}")
    return folder


DIGEST_BYTES: Final = 32
MAX_BYTES: Final = 64 << 20
"""Longest file of the cache that is read; the largest kernel takes about a megabyte."""

_NO_FILE: Final = {errno.ELOOP, errno.EACCES, errno.ENXIO}  # a link, a closed file, a socket


def seal(path: Path, content: bytes) -> bytes:
    """Return the digest of a file of the cache.

    Its own name and its folder's are part of it, so that a sound file under another's name is none.
    """
    names = "/".join(path.parts[-3:])
    return blake2b(f"{names}\0".encode() + content, digest_size=DIGEST_BYTES).digest()


def read_sealed(path: Path) -> bytes | None:
    """Return what was written to a file of the cache, without its digest.

    What is not a file as this user's process wrote it is removed, and None returned: a link, a
    folder, a file that others own or may write, one that is cut short or changed.

    Raises:
        OSError: It cannot be read for a reason that has nothing to do with what it is.
    """
    flags = ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY")  # do not wait for the writer of a FIFO
    try:
        descriptor = os.open(path, sum(getattr(os, flag, 0) for flag in flags))
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno not in _NO_FILE:
            raise
        _remove(path)
        return None
    try:
        found = os.fstat(descriptor)
        safe = not _fault(found, stat.S_IFREG) and found.st_size <= MAX_BYTES
        content = _read_all(descriptor) if safe else b""
    finally:
        os.close(descriptor)
    if content[-DIGEST_BYTES:] == seal(path, content[:-DIGEST_BYTES]):
        return content[:-DIGEST_BYTES]
    _remove(path)
    return None


def _read_all(descriptor: int) -> bytes:
    with open(descriptor, "rb", closefd=False) as file:
        return file.read(MAX_BYTES + 1)


def _remove(path: Path) -> None:
    """Remove what lies at a path, a folder with all that is in it; it may resist."""
    with contextlib.suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


def remove_kernels() -> None:
    """Remove the kernels of the chosen folder: the last process died, maybe in one of them."""
    choose_kernel_cache()
    chosen = os.environ.get(_VARIABLE)
    if chosen:
        for path in [*Path(chosen).rglob("*.nb[ic]"), *Path(chosen).glob(f"*{_MARK}")]:
            _remove(path)


def lacks_kernels() -> bool:
    """Return whether compiled kernels can be kept, and not all of them are there yet."""
    folder = os.environ.get(_VARIABLE, "")
    mark = _mark()
    return mark is not None and os.access(folder, os.W_OK | os.X_OK) and not mark.exists()


def note_all_compiled() -> None:
    """Note in the chosen folder that all kernels are there.

    Raises:
        OSError: The folder cannot be written.
    """
    mark = _mark()
    if mark is not None:
        mark.touch()


_compilations = 0  # under way, one within the other


def count_compilation(change: int) -> None:
    """Count the beginning (1) or the end (-1) of a compilation; under Numba's compiler lock."""
    global _compilations  # noqa: PLW0603 - one compiler a process
    _compilations += change


def is_compiling() -> bool:
    """Return whether a thread of this process compiles a kernel."""
    return _compilations > 0


def _mark() -> Path | None:
    """Return the file that says that all kernels are there; None if no folder is chosen.

    Machine code is for one processor, one Python and one Numba: users share home folders, and
    update what they have installed.
    """
    folder = os.environ.get(_VARIABLE)
    if not folder:
        return None
    digest = blake2b(repr(_surroundings()).encode(), digest_size=6).hexdigest()
    return Path(folder) / f"all-{digest}{_MARK}"


@cache
def _surroundings() -> tuple[str | None, ...]:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - slow to load, and only the window asks

    try:
        numba = version("numba")
    except PackageNotFoundError:  # a frozen program may lack its record, and never changes
        numba = ""
    return sys.implementation.cache_tag, numba, platform.machine(), platform.node()


def source_digest(package: Path = _PACKAGE) -> str:
    """Return a digest of the version and of all `SOURCES`; takes about a millisecond.

    Args:
        package: The folder of the package `explorer`. A frozen program may lack sources, and is
            then identified by its version.
    """
    digest = blake2b(__version__.encode(), digest_size=8)
    for pattern in SOURCES:
        for path in sorted(package.glob(pattern)):
            source = path.read_bytes()
            digest.update(f"{path.relative_to(package).as_posix()} {len(source)} ".encode())
            digest.update(source)
    return digest.hexdigest()


def _remove_old(current: Path) -> None:
    """Remove folders of other versions that are not used any more; one that resists is left."""
    others = []
    with contextlib.suppress(OSError):
        for entry in _entries(current.parent):
            is_other = entry.name.startswith(_PREFIX) and entry.name != current.name
            if is_other and entry.is_dir(follow_symlinks=False):
                others.append((entry.stat(follow_symlinks=False).st_mtime, entry.path))
    others.sort(reverse=True)
    oldest = time.time() - KEPT_S
    for place, (used, path) in enumerate(others):
        if used < oldest or place >= _MOST_KEPT:
            shutil.rmtree(path, ignore_errors=True)


def _remove_unfinished(folder: Path) -> None:
    """Remove files that a process was writing to a folder of kernels when it was killed."""
    oldest = time.time() - ABANDONED_S
    for inner in (each for each in _entries(folder) if each.is_dir(follow_symlinks=False)):
        for entry in filter(lambda entry: _UNFINISHED.fullmatch(entry.name), _entries(inner)):
            with contextlib.suppress(OSError):
                found = entry.stat(follow_symlinks=False)
                if found.st_mtime < oldest and not _fault(found, stat.S_IFREG):
                    os.unlink(entry)


def _remove_temporary() -> None:
    """Remove private folders of this user's processes that were killed.

    They are made where the user's cache folder cannot be trusted or written, and so no record of
    them (`Temporary`) either.
    """
    oldest = time.time() - ABANDONED_S
    try:
        everything = tempfile.gettempdir()
    except FileNotFoundError:  # none of the system's folders can be written
        return
    for entry in _entries(everything):
        if entry.name.startswith(_TEMPORARY) and entry.name.endswith(_SUFFIX):
            with contextlib.suppress(OSError):
                found = entry.stat(follow_symlinks=False)
                if found.st_mtime < oldest and not _fault(found, stat.S_IFDIR) and _is_left(entry):
                    shutil.rmtree(entry, ignore_errors=True)


def _is_left(folder: os.DirEntry[str]) -> bool:
    """Return whether the process that made a temporary folder is over; raises OSError if not."""
    running = Path(folder) / _RUNNING
    try:
        with open(running, "rb") as file:
            over = mark_as_running(file)
    except FileNotFoundError:  # it was killed before it made the file
        return True
    if over:
        running.unlink()  # on Windows this fails while the process runs
    return over


def _entries(folder: Path | str | os.DirEntry[str]) -> list[os.DirEntry[str]]:
    """Return what is in a folder; nothing, if it cannot be listed."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []
