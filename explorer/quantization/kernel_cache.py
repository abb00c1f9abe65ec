"""The folder that keeps compiled kernels: one for each version of their sources, guarded.

Its content is executed. So the folder must be this user's and closed to others; else a private
temporary one is used. Each file ends in a digest (`seal`), which is checked before anything in it
is used (`is_sound`).

Numba keeps machine code beside a kernel's source, and compiles anew when that file changes. It does
not look at what the kernel imports: helpers, tables, compiler options. So a new version of the
program, or an edit, could go on with old machine code, and a program that is installed where the
user may not write had nowhere to keep it. Here each state of the sources has a folder of its own,
in the user's cache folder. The command that compiles all kernels leaves a mark there.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import platform
import shutil
import stat
import sys
import tempfile
import time
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Final

from explorer import __version__
from explorer.paths import cache_folder, make_private_folder

SOURCES: Final = (
    "quantization/*.py",
    "quantization/grouped/*.py",
    "analysis/kernel*.py",
    "analysis/*/kernel*.py",
)
"""Modules that define kernels, or helpers and constants that are compiled into kernels."""

KEPT_S: Final = 30 * 24 * 3600.0
"""How long an unused folder is kept."""

_log = logging.getLogger(__name__)

_VARIABLE: Final = "NUMBA_CACHE_DIR"
_PREFIX: Final = "kernels-"
_PACKAGE: Final = Path(__file__).resolve().parents[1]
_MOST_KEPT: Final = 16  # editing kernels makes many


def choose_kernel_cache() -> None:
    """Name this version's folder to Numba, unless the user or an earlier call has named one.

    A folder that another user could write to is not used, and the log says so. Without a folder,
    kernels are kept in a private temporary one, for this process and those that it starts. Folders
    of other versions are removed if they were not used for 30 days, or if there are many.
    """
    named = os.environ.get(_VARIABLE)
    if named:
        if os.path.lexists(named) and not _is_private(Path(named)):
            _choose_temporary()
        return
    with contextlib.suppress(OSError, RuntimeError):  # a read-only disk, a user without a home
        folder = cache_folder() / (_PREFIX + source_digest())
        make_private_folder(folder)
        private = _is_private(folder.parent) and _is_private(folder)
        if private and os.access(folder, os.W_OK | os.X_OK):
            os.utime(folder)  # marks it as used
            os.environ[_VARIABLE] = str(folder)
            _remove_old(folder)
            return
    _choose_temporary()


def _is_private(folder: Path) -> bool:
    """Return whether only this user can change what a folder holds; log it if not."""
    if os.name != "posix":
        return True  # a user's own folders are closed to others there
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode):
        fault = "it is a link or a file, not a folder"
    elif found.st_uid != os.geteuid():
        fault = "it belongs to another user"
    elif found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        fault = "other users can write to it; `chmod go-w` mends that"
    else:
        return True
    _log.warning("%s: compiled kernels are not kept there: %s", folder, fault)
    return False


def _choose_temporary() -> None:
    """Choose a private folder until this process ends."""
    try:
        folder = tempfile.mkdtemp(prefix="gguf-explorer-kernels-")
    except OSError:
        os.environ.pop(_VARIABLE, None)
        return
    os.environ[_VARIABLE] = folder
    maker = os.getpid()  # a forked process ends earlier, and must leave it

    @atexit.register
    def remove() -> None:
        if os.getpid() == maker:
            shutil.rmtree(folder, ignore_errors=True)


DIGEST_BYTES: Final = 32


def seal(path: Path, content: bytes) -> bytes:
    """Return the digest of a file of the cache.

    Its own name and its folder's are part of it, so that a sound file under another's name is none.
    """
    names = "/".join(path.parts[-3:])
    return blake2b(f"{names}\0".encode() + content, digest_size=DIGEST_BYTES).digest()


def is_sound(path: Path) -> bool:
    """Return whether a file ends in the digest of what is before; remove one that does not.

    Raises:
        OSError: It cannot be read.
    """
    content = path.read_bytes()
    if content[-DIGEST_BYTES:] == seal(path, content[:-DIGEST_BYTES]):
        return True
    path.unlink()
    return False


def remove_kernels() -> None:
    """Remove the kernels of the chosen folder: the last process died, maybe in one of them."""
    choose_kernel_cache()
    chosen = os.environ.get(_VARIABLE)
    if chosen:
        for path in [*Path(chosen).rglob("*.nb[ic]"), *Path(chosen).glob("all-*.compiled")]:
            with contextlib.suppress(OSError):
                path.unlink()


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
    return Path(folder) / f"all-{digest}.compiled"


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
    with contextlib.suppress(OSError), os.scandir(current.parent) as entries:
        for entry in entries:
            is_other = entry.name.startswith(_PREFIX) and entry.name != current.name
            if is_other and entry.is_dir(follow_symlinks=False):
                others.append((entry.stat(follow_symlinks=False).st_mtime, entry.path))
    others.sort(reverse=True)
    oldest = time.time() - KEPT_S
    for place, (used, path) in enumerate(others):
        if used < oldest or place >= _MOST_KEPT:
            shutil.rmtree(path, ignore_errors=True)
