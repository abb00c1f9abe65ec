"""Files that hold the same bytes in several places, such as a model in two programs' stores.

A digest of each file would say it for certain, and take minutes for each hundred gigabytes. Files
of one size that agree in their first bytes, their last and fourteen places between are called the
same: of two models of equal size the headers differ already.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from explorer.errors import SourceError
from explorer.parallel import Check, never
from explorer.sources import FileSource

_LEAST_BYTES: Final = 1 << 20  # smaller ones free nothing worth a look
_PLACES: Final = 16
_SAMPLE: Final = 4096


def duplicates(files: Iterable[tuple[Path, int]], check: Check = never) -> list[list[Path]]:
    """Return groups of files with the same content. For a worker: it reads 64 KiB of each.

    Two names of one file on the disk are no duplicates: removing one frees nothing.

    Args:
        files: Paths and sizes in bytes.
        check: Called before each file is read; raises to give up.
    """
    by_size: dict[int, list[Path]] = {}
    for path, nbytes in files:
        if nbytes >= _LEAST_BYTES:
            by_size.setdefault(nbytes, []).append(path)
    found: list[list[Path]] = []
    for nbytes, paths in by_size.items():
        alike: dict[tuple[bytes, ...], dict[tuple[int, int], Path]] = {}
        for path in dict.fromkeys(paths) if len(paths) > 1 else ():
            check()
            try:
                samples = _samples(path, nbytes)
                alike.setdefault(samples, {}).setdefault(_identity(path), path)
            except (OSError, SourceError):  # gone meanwhile, a folder, or not to be read
                continue
        found += [list(same.values()) for same in alike.values() if len(same) > 1]
    return found


def _identity(path: Path) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino


def _samples(path: Path, nbytes: int) -> tuple[bytes, ...]:
    with FileSource(path) as source:
        if source.size != nbytes:
            raise SourceError("is one of several files, or has changed", path)
        last = source.size - _SAMPLE
        places = [last * place // (_PLACES - 1) for place in range(_PLACES)]
        return tuple(source.read(place, _SAMPLE) for place in places)
