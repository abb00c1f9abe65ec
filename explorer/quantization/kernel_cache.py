"""The folder that keeps compiled kernels: one for each version of their sources.

Its content is executed, so it is guarded as `explorer.private_folder` says, also where the user
names another one by `NUMBA_CACHE_DIR`. Where it cannot be used, each process compiles for itself.

Numba would keep machine code beside a kernel's source, and compile anew when that file changes. It
does not look at what the kernel imports: helpers, tables, compiler options. So a new version of the
program, or an edit, could go on with old machine code, and a program that is installed where the
user may not write had nowhere to keep it. Here each state of the sources has a folder of its own,
in the user's cache folder.
"""

from __future__ import annotations

import errno
import os
import shutil
import time
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Final

from explorer import __version__
from explorer.ends import remove
from explorer.private_folder import PrivateFolder, warn

SOURCES: Final = (
    "quantization/*.py",
    "quantization/grouped/*.py",
    "quantization/huggingface/*.py",
    "analysis/kernel*.py",
    "analysis/*/kernel*.py",
)
"""Modules that define kernels, or helpers and constants that are compiled into kernels."""

UNUSED_S: Final = 30 * 24 * 3600.0
"""How long an unused folder is kept."""

SUFFIX: Final = ".nbc"
MAX_BYTES: Final = 64 << 20
"""Longest kernel that is read; the largest takes about a megabyte."""

_VARIABLE: Final = "NUMBA_CACHE_DIR"
_PREFIX: Final = "kernels-"
_PACKAGE: Final = Path(__file__).resolve().parents[1]
_MOST_FOLDERS: Final = 16  # editing kernels makes many


def kernel_folder() -> PrivateFolder:
    """Return the folder of this version, or the one that the user has named."""
    named = os.environ.get(_VARIABLE)
    if named:
        return PrivateFolder(root=Path(named).absolute())
    return PrivateFolder(_PREFIX + source_digest())


def choose_kernel_folder() -> PrivateFolder | None:
    """Return the folder, made and marked as used; None, with a warning, if it is not safe.

    Folders of other versions are removed if they were not used for 30 days, or if there are many.
    """
    folder = kernel_folder()
    try:
        path = folder.make()
        os.utime(path)  # marks it as used
        if not os.access(path, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, "it can only be read", str(path))
    except OSError as error:
        warn(error)
        return None
    folder.remove_leftovers()
    if not os.environ.get(_VARIABLE):
        _remove_old(path)
    return folder


def remove_kernels() -> None:
    """Remove the kernels of this version: the last process died, maybe in one of them."""
    with suppress(OSError):
        for path in kernel_folder().make().glob(f"*{SUFFIX}"):
            remove(path)


_compilations = 0  # under way, one within the other


def count_compilation(change: int) -> None:
    """Count the beginning (1) or the end (-1) of a compilation; under Numba's compiler lock."""
    global _compilations  # noqa: PLW0603 - one compiler a process
    _compilations += change


def is_compiling() -> bool:
    """Return whether a thread of this process compiles a kernel."""
    return _compilations > 0


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
    with suppress(OSError), os.scandir(current.parent) as entries:
        for entry in entries:
            is_other = entry.name.startswith(_PREFIX) and entry.name != current.name
            if is_other and entry.is_dir(follow_symlinks=False):
                others.append((entry.stat(follow_symlinks=False).st_mtime, entry.path))
    others.sort(reverse=True)
    oldest = time.time() - UNUSED_S
    for place, (used, path) in enumerate(others):
        if used < oldest or place >= _MOST_FOLDERS:
            shutil.rmtree(path, ignore_errors=True)
