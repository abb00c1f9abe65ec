"""Plain folders of models, and LM Studio's, which is one: searched through, however deep.

Links to folders are followed, because people keep models on other disks that way; each folder is
read once, so that a link to a folder above ends nothing.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Generator, Iterator
from itertools import islice
from pathlib import Path
from typing import Final, TypeAlias

from explorer.errors import unreadable_reason
from explorer.formats import Problem, Severity
from explorer.formats.problems import ProblemLog
from explorer.stores.entries import (
    Check,
    Entry,
    PartialDownload,
    Store,
    StoreKind,
    name_problems,
)
from explorer.stores.model_files import models_of, partial_download

Report: TypeAlias = Callable[[Path, OSError], None]

_MAX_DEPTH: Final = 64
_MAX_FILES: Final = 500_000
"""Most files of a folder that is read; Ollama's largest stores of tensor blobs have some 10,000."""


def scan_folder(
    kind: StoreKind, root: Path, check: Check, *, deep: bool = True
) -> Generator[Entry, None, Store]:
    """Search a folder and those in it; yield models as they are found, and return the store.

    Args:
        kind: Whose store it is.
        root: The folder.
        check: Called for every folder; raises to give up.
        deep: Whether to look into the folders in it.
    """
    entries: list[Entry] = []
    partials: list[PartialDownload] = []
    log = ProblemLog()
    failures: list[Entry] = []

    def report(folder: Path, error: OSError) -> None:
        if folder == root:
            what = f"the folder cannot be read: {unreadable_reason(error)}"
            log.add(Severity.ERROR, str(root), what)
        else:
            failures.append(unreadable_entry(folder, root, error))

    for folder, files in walk(root, check, report, log, deep=deep):
        title = "" if folder == root else folder.relative_to(root).as_posix()
        for entry in models_of(folder, title, files):
            entries.append(entry)
            yield entry
        partials += filter(None, map(partial_download, files))
    yield from failures
    return Store(
        kind, root, (*entries, *failures), partials=tuple(partials), problems=log.problems()
    )


def unreadable_entry(folder: Path, root: Path, error: OSError) -> Entry:
    """Return the entry of a folder that cannot be read."""
    name = folder.relative_to(root).as_posix()
    what = f"the folder cannot be read: {unreadable_reason(error)}"
    problem = Problem(Severity.ERROR, name, what)
    return Entry(name, folder, None, 0, None, (*name_problems(name), problem))


def walk(
    root: Path, check: Check, report: Report, log: ProblemLog, *, deep: bool = True
) -> Iterator[tuple[Path, list[os.DirEntry[str]]]]:
    """Yield each folder once, with its files in order of their names.

    Args:
        root: Where to begin.
        check: Called for every folder; raises to give up.
        report: Told of folders that cannot be read.
        log: Where links that lead back are noted.
        deep: Whether to look into the folders in it.
    """
    visited: set[tuple[int, int]] = set()
    waiting = [(root, 0)]
    while waiting:
        check()
        folder, depth = waiting.pop()
        try:
            status = os.stat(folder)
            children = list_folder(folder)
        except OSError as error:
            report(folder, error)
            continue
        place = (status.st_dev, status.st_ino)
        if place in visited and status.st_ino:  # some network disks number nothing
            what = "leads to a folder that is listed already; it is not followed"
            log.add(Severity.WARNING, str(folder), what)
            continue
        visited.add(place)
        inner = []
        files = []
        for child in children:
            if _is_folder(child):
                inner.append(folder / child.name)
            else:
                files.append(child)
        yield folder, files
        if deep and depth < _MAX_DEPTH:
            visible = (path for path in inner if not path.name.startswith("."))
            waiting += [(path, depth + 1) for path in reversed(list(visible))]


def list_folder(folder: Path) -> list[os.DirEntry[str]]:
    """Return what is in a folder, in order of names.

    Raises:
        OSError: It cannot be read, or holds too many files.
    """
    with os.scandir(folder) as children:
        found = sorted(islice(children, _MAX_FILES + 1), key=lambda child: child.name)
    if len(found) > _MAX_FILES:
        raise OSError(errno.EFBIG, f"it holds more than {_MAX_FILES} files", str(folder))
    return found


def _is_folder(child: os.DirEntry[str]) -> bool:
    try:
        return child.is_dir()
    except OSError:  # a link that leads to itself: as a file, it is told if it is named like one
        return False
