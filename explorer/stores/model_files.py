"""Which models the files of one folder make, told by their names.

safetensors_and_blobs.md sections 1 and 6. A GGUF model is a file, or shards with numbered names; a
safetensors model is a folder with an index or a `config.json`, or else a file.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from explorer.errors import unreadable_reason
from explorer.formats import Severity
from explorer.formats.confinement import leads_out
from explorer.formats.huggingface import INDEX_SUFFIX
from explorer.formats.naming import natural_key
from explorer.formats.problems import ProblemLog
from explorer.stores.entries import Entry, PartialDownload, name_problems

GGUF: Final = ".gguf"
SAFETENSORS: Final = ".safetensors"

_SHARD: Final = re.compile(r"(?P<prefix>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.[a-z]+")
_UNFINISHED: Final = (".incomplete", ".part", ".partial", ".tmp", ".download", ".crdownload")
_UNFINISHED_TOO: Final = (".downloading", ".downloadinprogress")
_SHOWN = 5


@dataclass
class _Found:
    """Files that make one model.

    Attributes:
        path: What to open.
        name: What to call it.
        format: Its format.
        log: What is wrong with it.
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
        """Count a file, or note why it cannot be one of a model."""
        self.files.add(file.name)
        if roots and file.is_symlink() and leads_out(Path(file.path), *roots):
            what = "is a link out of the store; it is not opened"
            self.log.add(Severity.ERROR, file.name, what)
            self.refused = True
            return
        try:
            status = file.stat()
        except FileNotFoundError:
            what = "is a link to a file that is not there; the download may not have finished"
            self.log.add(Severity.ERROR, file.name, what)
        except OSError as error:
            what = f"cannot be looked at: {unreadable_reason(error)}"
            self.log.add(Severity.ERROR, file.name, what)
        else:
            if not stat.S_ISREG(status.st_mode):
                what = "is a pipe, a device or a socket, not a file; it is not opened"
                self.log.add(Severity.ERROR, file.name, what)
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
) -> list[Entry]:
    """Return the models that the files of a folder make, in natural order.

    Args:
        folder: The folder.
        title: What to call it; "" for the root of a store.
        files: What is in it, folders left out.
        roots: Folders that links may not leave; none for no limit.
    """
    return [entry for entry, _ in models_and_files(folder, title, files, roots)]


def models_and_files(
    folder: Path, title: str, files: Iterable[os.DirEntry[str]], roots: Sequence[Path] = ()
) -> list[tuple[Entry, set[str]]]:
    """Return what `models_of` does, each with the names of the files that it is made of."""
    visible = [file for file in files if not file.name.startswith(".")]
    found = _gguf_models(folder, title, visible, roots)
    found += _safetensors_models(folder, title, visible, roots)
    found.sort(key=lambda model: natural_key(model.name))
    return [(model.entry(), model.files) for model in found]


def partial_download(file: os.DirEntry[str]) -> PartialDownload | None:
    """Return a model's file that is still being loaded, or None if it is anything else."""
    name = file.name.lower()
    unfinished = name.endswith((*_UNFINISHED, *_UNFINISHED_TOO))
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
    found = []
    for shards in _by_model(file for file in files if file.name.lower().endswith(GGUF)):
        first = shards[0]
        model = _Found(folder / first.name, _join(title, first.name), "gguf")
        _report_missing(shards, model.log)
        for file in shards:
            model.add(file, roots)
        found.append(model)
    return found


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
        model = _Found(path, _join(title, shards[0].name), "safetensors")
        _report_missing(shards, model.log)
        for file in shards:
            model.add(file, roots)
        found.append(model)
    return found


def _join(title: str, name: str) -> str:
    return f"{title}/{name}" if title else name


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
        log.add(Severity.ERROR, shards[0].name, what)
