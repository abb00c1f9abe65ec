"""Plain folders of models, and LM Studio's, which is one: searched recursively.

Links to folders are followed, for models may lie on other disks; each folder is read once, so that
a link to a folder above is no endless loop.

Names make the models (docs/safetensors_and_blobs.md, sections 1 and 6): a GGUF model is a file, or
shards with numbered names; a safetensors model is a folder with an index or a `config.json`, or
else a file.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final, TypeAlias

from explorer.errors import unreadable_reason
from explorer.formats import Problem, Severity
from explorer.formats.huggingface import INDEX_SUFFIX
from explorer.formats.model import ProblemLog
from explorer.formats.side_files import escapes
from explorer.formats.tensors import natural_key
from explorer.stores.entries import Check, Entry, PartialDownload, Store, StoreKind, name_problems

GGUF: Final = ".gguf"
SAFETENSORS: Final = ".safetensors"

_SHARD: Final = re.compile(r"(?P<prefix>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.[a-z]+")
_UNFINISHED: Final = (
    *(".incomplete", ".part", ".partial", ".tmp", ".download", ".crdownload"),
    *(".downloading", ".downloadinprogress"),
)
_SHOWN = 5


@dataclass
class _Found:
    """Files that make one model.

    Attributes:
        path: The path to open.
        name: Its name in the store.
        format: Its format.
        log: Its problems.
        nbytes: Bytes of its files.
        own_bytes: Of these, bytes in files that are no blobs.
        modified: When the last of them was changed.
        refused: Whether one of them leads out of the store, so that nothing may be opened.
        files: Names of its files.
    """

    path: Path
    name: str
    format: str
    log: ProblemLog = field(default_factory=ProblemLog)
    nbytes: int = 0
    own_bytes: int = 0
    modified: float | None = None
    refused: bool = False
    files: set[str] = field(default_factory=set)

    def add(self, file: os.DirEntry[str], roots: Sequence[Path]) -> None:
        """Count a file, or log why it cannot be part of a model."""
        self.files.add(file.name)
        if roots and file.is_symlink() and escapes(Path(file.path), *roots):
            what = "is a link out of the store; it is not opened"
            self.log.add_error(file.name, what)
            self.refused = True
            return
        try:
            status = file.stat()
        except FileNotFoundError:
            what = "is a link to a file that is not there; the download may not have finished"
            self.log.add_error(file.name, what)
        except OSError as error:
            what = f"cannot be looked at: {unreadable_reason(error)}"
            self.log.add_error(file.name, what)
        else:
            if not stat.S_ISREG(status.st_mode):
                what = "is a pipe, a device or a socket, not a file; it is not opened"
                self.log.add_error(file.name, what)
                return
            self.nbytes += status.st_size
            if not (roots and file.is_symlink()):  # in a hub's cache, to a blob
                self.own_bytes += status.st_size
            self.modified = max(self.modified or 0.0, status.st_mtime)

    def entry(self) -> Entry:
        problems = (*name_problems(self.name), *self.log.problems())
        return Entry(
            self.name,
            self.path,
            None if self.refused else self.format,
            self.nbytes,
            self.modified,
            problems,
            self.own_bytes,
        )


def models_of(
    folder: Path, title: str, files: Iterable[os.DirEntry[str]], roots: Sequence[Path] = ()
) -> list[tuple[Entry, set[str]]]:
    """Return the models that the files of a folder make, in natural order, with their files' names.

    Args:
        folder: The folder.
        title: Its name in the store; "" for the root.
        files: Its files, without folders.
        roots: Folders that links may not leave; none for no limit.
    """
    visible = [file for file in files if not file.name.startswith(".")]
    found = _gguf_models(folder, title, visible, roots)
    found += _safetensors_models(folder, title, visible, roots)
    found.sort(key=lambda model: natural_key(model.name))
    return [(model.entry(), model.files) for model in found]


def partial_download(file: os.DirEntry[str]) -> PartialDownload | None:
    """Return a model's file that is still being loaded, or None if it is anything else."""
    name = file.name.lower()
    unfinished = name.endswith(_UNFINISHED)
    if not unfinished or not (GGUF in name or SAFETENSORS in name):
        return None
    return partial_file(file)


def partial_file(file: os.DirEntry[str]) -> PartialDownload | None:
    """Return an unfinished file with its size, or None if it cannot be looked at."""
    try:
        return PartialDownload(Path(file.path), file.stat(follow_symlinks=False).st_size)
    except OSError:
        return None


def _gguf_models(
    folder: Path, title: str, files: list[os.DirEntry[str]], roots: Sequence[Path]
) -> list[_Found]:
    weights = [file for file in files if file.name.lower().endswith(GGUF)]
    return [
        _sharded(shards, folder / shards[0].name, title, "gguf", roots)
        for shards in _by_model(weights)
    ]


def _safetensors_models(
    folder: Path, title: str, files: list[os.DirEntry[str]], roots: Sequence[Path]
) -> list[_Found]:
    names = {file.name for file in files}
    weights = [file for file in files if file.name.lower().endswith(SAFETENSORS)]
    has_index = any(name.endswith(INDEX_SUFFIX) for name in names)
    if has_index or (weights and "config.json" in names):
        model = _Found(folder, title or folder.name, "safetensors")
        for file in files:
            if not file.name.lower().endswith(GGUF):
                model.add(file, roots)
        return [model]
    found = []
    for shards in _by_model(weights):
        whole = len(shards) > 1 and len(shards) == len(weights)
        path = folder if whole else folder / shards[0].name
        found.append(_sharded(shards, path, title, "safetensors", roots))
    return found


def _sharded(
    shards: list[os.DirEntry[str]], path: Path, title: str, kind: str, roots: Sequence[Path]
) -> _Found:
    name = shards[0].name
    model = _Found(path, f"{title}/{name}" if title else name, kind)
    _report_missing(shards, model.log)
    for file in shards:
        model.add(file, roots)
    return model


def _by_model(files: Iterable[os.DirEntry[str]]) -> list[list[os.DirEntry[str]]]:
    """Put shards of one model together, in order; any other file is a model of its own."""
    models: dict[str, list[os.DirEntry[str]]] = {}
    for file in sorted(files, key=lambda file: natural_key(file.name)):
        match = _SHARD.fullmatch(file.name)
        key = f"{match['prefix']}/{match['count']}" if match else file.name
        models.setdefault(key, []).append(file)
    return list(models.values())


def _report_missing(shards: list[os.DirEntry[str]], log: ProblemLog) -> None:
    match = _SHARD.fullmatch(shards[0].name)
    if match is None:
        return
    count = int(match["count"])
    present = {int(match["number"]) for file in shards if (match := _SHARD.fullmatch(file.name))}
    missing = count - len(present)
    if missing > 0:
        absent = (number for number in range(1, count + 1) if number not in present)
        listed = ", ".join(str(number) for number, _ in zip(absent, range(_SHOWN), strict=False))
        more = ", …" if missing > _SHOWN else ""
        what = f"{missing} of {count} shards are missing: number {listed}{more}"
        log.add_error(shards[0].name, what)


Report: TypeAlias = Callable[[Path, OSError], None]

_MAX_DEPTH: Final = 64
_MAX_FILES: Final = 500_000
"""Most files of a folder that is read; Ollama's largest stores of tensor blobs have some 10,000."""


def scan_folder(
    kind: StoreKind, root: Path, check: Check, *, deep: bool = True
) -> Iterator[Entry | Store]:
    """Search a folder and those in it; yield models as they are found, and then the store.

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
            log.add_error(str(root), what)
        else:
            failures.append(unreadable_entry(folder, root, error))

    for folder, files in walk(root, check, report, log, deep=deep):
        title = "" if folder == root else folder.relative_to(root).as_posix()
        for entry, _ in models_of(folder, title, files):
            entries.append(entry)
            yield entry
        partials += filter(None, map(partial_download, files))
    yield from failures
    yield Store(
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
        report: Called for folders that cannot be read.
        log: Gets links that lead back.
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
            log.add_warning(str(folder), what)
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
    except OSError:  # a link to itself: as a file, it is reported if it is named like a model
        return False
