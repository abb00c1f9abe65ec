"""The folder that keeps compiled kernels: one for each version of their sources.

Numba keeps machine code beside a kernel's source, and compiles anew when that file changes. It does
not look at what the kernel imports: helpers, tables, compiler options. So a new version of the
program, or an edit, could go on with old machine code, and a program that is installed where the
user may not write had nowhere to keep it. Here each state of the sources has a folder of its own,
in the user's cache folder. The command that compiles all kernels leaves a mark there.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import sys
import time
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Final

from explorer import __version__
from explorer.paths import cache_folder

SOURCES: Final = (
    "quantization/*.py",
    "quantization/grouped/*.py",
    "analysis/kernel*.py",
    "analysis/*/kernel*.py",
)
"""Modules that define kernels, or helpers and constants that are compiled into kernels."""

KEPT_S: Final = 30 * 24 * 3600.0
"""How long a folder that nobody uses is kept."""

_VARIABLE: Final = "NUMBA_CACHE_DIR"
_PREFIX: Final = "kernels-"
_PACKAGE: Final = Path(__file__).resolve().parents[1]
_MOST_KEPT: Final = 16  # whoever edits kernels makes many


def choose_kernel_cache() -> None:
    """Name this version's folder to Numba, unless the user or an earlier call has named one.

    Without a place that can be written, nothing is chosen: Numba then looks for one of its own.
    Folders of other versions are removed if they were not used for 30 days, or if there are many.
    """
    if os.environ.get(_VARIABLE):
        return
    try:
        folder = cache_folder() / (_PREFIX + source_digest())
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)  # marks it as used
    except (OSError, RuntimeError):  # a read-only disk, or a user without a home
        return
    if os.access(folder, os.W_OK | os.X_OK):
        os.environ[_VARIABLE] = str(folder)
        _remove_old(folder)


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
            then told apart by its version.
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
