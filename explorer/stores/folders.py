"""Plain folders of models, and LM Studio's, which is one: searched recursively.

Links to folders are followed, for models may lie on other disks; each folder is read once, so that
a link to a folder above is not an endless loop.

Names make the models (docs/safetensors_and_blobs.md, sections 1 and 6): a GGUF model is a file, or
shards with numbered names; a safetensors model is a folder with an index or a `config.json`, or
else a file.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from explorer.errors import ExplorerError, unreadable_reason
from explorer.formats import Problem, Severity
from explorer.formats.huggingface import group_files
from explorer.formats.model import ProblemLog
from explorer.formats.side_files import CONFIG_NAME, INDEX_SUFFIX, escapes, missing_shards
from explorer.formats.tensors import natural_key
from explorer.parallel import Check
from explorer.paths import user_id
from explorer.stores.entries import Blob, Entry, PartialDownload, Store, StoreKind, name_problems

GGUF: Final = ".gguf"
SAFETENSORS: Final = ".safetensors"

_UNFINISHED: Final = (
    *(".incomplete", ".part", ".partial", ".tmp", ".download", ".crdownload"),
    *(".downloading", ".downloadinprogress"),
)
_GONE: Final = "was removed while the store was read. It is left out"
_DANGLING: Final = "is a link to a file that is not there. The download may not have finished"
_MAX_DEPTH: Final = 64
_MAX_FILES: Final = 500_000
"""Most files of a folder that is read; Ollama's largest stores of tensor blobs have some 10,000."""


class Scan:
    """One pass over a store.

    Attributes:
        kind: Whose store it is.
        root: Its folder.
        check: Called for every folder; raises to cancel.
        blobs: Its blobs.
        partials: Downloads that have not finished.
        log: What is wrong with the store itself.
    """

    def __init__(self, kind: StoreKind, root: Path, check: Check) -> None:
        self.kind = kind
        self.root = root
        self.check = check
        self.blobs: list[Blob] = []
        self.partials: list[PartialDownload] = []
        self.log = ProblemLog()
        self._noting: dict[int, bool] = {}  # disk → whether it notes when files are read

    def last_read(self, path: Path | str, status: os.stat_result) -> float | None:
        """Return when a file was last read, seconds since 1970; None if nothing says it.

        Only where this program reads without being noted itself: what it has listed would else
        seem to be used (see `FileDescriptor`).
        """
        if sys.platform != "linux" or user_id() not in {None, 0, status.st_uid}:
            return None
        if status.st_dev not in self._noting:
            try:
                flags = os.statvfs(path).f_flag
            except OSError:
                return None
            self._noting[status.st_dev] = not flags & os.ST_NOATIME
        return status.st_atime if self._noting[status.st_dev] else None

    def run(self, models: Callable[[Scan], Iterator[Entry]]) -> Iterator[Entry | Store]:
        """Yield the models that a function finds, and then the store.

        A fault that the function does not expect ends this store, not those that come after it.
        """
        entries = []
        try:
            for entry in models(self):
                entries.append(entry)
                yield entry
        except (OSError, ValueError, ExplorerError) as error:
            reason = error.what if isinstance(error, ExplorerError) else unreadable_reason(error)
            what = f"the store could not be read to its end: {reason}. Scan it again"
            self.log.add_error(str(self.root), what)
        problems = self.log.problems()
        partials = tuple(self.partials)
        yield Store(self.kind, self.root, tuple(entries), tuple(self.blobs), partials, problems)

    def report_unreadable(self, folder: Path, error: OSError) -> None:
        """Note a folder that cannot be read as a problem of the store."""
        self.log.add_error(str(folder), _unreadable(error))

    def unreadable_entry(self, folder: Path, error: OSError) -> Entry:
        """Return the entry of a folder that cannot be read."""
        return broken_entry(folder.relative_to(self.root).as_posix(), folder, _unreadable(error))

    def note_gone(self, path: Path | str, error: Exception) -> bool:
        """Note what was listed and is gone since, as downloads are; return whether it is gone.

        A link that leads nowhere is not gone.

        Args:
            path: What was listed.
            error: Why it could not be looked at, or what that error caused.
        """
        missing = isinstance(error, FileNotFoundError)
        missing = missing or isinstance(error.__cause__, FileNotFoundError)
        gone = missing and not os.path.islink(path)  # it may be back already
        if gone:
            self.log.add_warning(str(path), _GONE)
        return gone

    def remaining(self, files: Iterable[os.DirEntry[str]]) -> Iterator[os.DirEntry[str]]:
        """Yield the files that are still there; each of them keeps what it says of itself now."""
        for file in files:
            try:
                file.stat()
            except OSError as error:  # who reads one that is there meets it again, and says it
                if self.note_gone(file.path, error):
                    continue
            yield file

    def add_partial(self, file: os.DirEntry[str]) -> None:
        """Note an unfinished file."""
        try:
            nbytes = file.stat(follow_symlinks=False).st_size
        except OSError as error:
            self.report_file(file, error)
        else:
            self.partials.append(PartialDownload(Path(file.path), nbytes))

    def report_file(self, file: os.DirEntry[str], error: OSError) -> None:
        """Note a file that cannot be looked at as a problem of the store."""
        if self.note_gone(file.path, error):
            return
        if isinstance(error, FileNotFoundError):  # a link, for it is not gone
            self.log.add_error(file.path, _DANGLING)
        else:
            self.log.add_error(file.path, f"cannot be looked at: {unreadable_reason(error)}")

    def walk(
        self,
        root: Path,
        unreadable: Callable[[Path, OSError], object] = lambda folder, error: None,
        *,
        deep: bool = True,
    ) -> Iterator[tuple[Path, list[os.DirEntry[str]]]]:
        """Yield each folder once, with its files in order of their names.

        Args:
            root: Where to begin.
            unreadable: Called for folders that cannot be read.
            deep: Whether to look into the folders in it.
        """
        visited: set[tuple[int, int]] = set()
        waiting = [(root, 0)]
        while waiting:
            self.check()
            folder, depth = waiting.pop()
            try:
                status = os.stat(folder)
                children = list_folder(folder)
            except OSError as error:
                if folder == self.root or not self.note_gone(folder, error):
                    unreadable(folder, error)
                continue
            place = (status.st_dev, status.st_ino)
            if place in visited and status.st_ino:  # some network disks number nothing
                what = "leads to a folder that is listed already. It is not followed"
                self.log.add_warning(str(folder), what)
                continue
            visited.add(place)
            inner = [child.name for child in children if _is_folder(child)]
            names = set(inner)
            yield folder, [child for child in children if child.name not in names]
            if deep and depth < _MAX_DEPTH:
                visible = [folder / name for name in inner if not name.startswith(".")]
                waiting += [(path, depth + 1) for path in reversed(visible)]


def folder_models(scan: Scan, *, deep: bool = True) -> Iterator[Entry]:
    failures: list[Entry] = []

    def unreadable(folder: Path, error: OSError) -> None:
        if folder == scan.root:
            scan.report_unreadable(folder, error)
        else:
            failures.append(scan.unreadable_entry(folder, error))

    for folder, files in scan.walk(scan.root, unreadable, deep=deep):
        title = "" if folder == scan.root else folder.relative_to(scan.root).as_posix()
        for entry, _ in models_of(scan, folder, title, files):
            yield entry
        for file in files:
            name = file.name.lower()
            if name.endswith(_UNFINISHED) and (GGUF in name or SAFETENSORS in name):
                scan.add_partial(file)
    yield from failures


def models_of(
    scan: Scan,
    folder: Path,
    title: str,
    files: Iterable[os.DirEntry[str]],
    roots: Sequence[Path] = (),
) -> list[tuple[Entry, set[str]]]:
    """Return the models that the files of a folder make, in natural order, with their files' names.

    Args:
        scan: The pass over the store; notes files that are gone.
        title: Its name in the store; "" for the root.
        files: Its files, without folders.
        roots: Folders that links may not leave; none for no limit.
    """
    visible = {file.name: file for file in files if not file.name.startswith(".")}
    models = [name for name in visible if name.lower().endswith((GGUF, SAFETENSORS))]
    there = {file.name: file for file in scan.remaining(visible[name] for name in models)}
    kept = [name for name in visible if name in there or name not in models]
    found = []
    for group in group_files(kept):
        own, name = [there[name] for name in group.names], None
        path = folder / group.opened if group.opened else folder
        if group.format == "safetensors" and _is_merged(kept):
            own += scan.remaining(visible[name] for name in kept if name not in models)
            name = title or folder.name
        if own:
            found.append(_Found(scan, path, title, group.format, own, roots, name))
    found.sort(key=lambda model: natural_key(model.name))
    return [(model.entry(), model.files) for model in found]


class _Found:
    """Files that make one model.

    Args:
        scan: The pass over the store.
        path: The path to open.
        title: Name of their folder in the store.
        kind: The model's format.
        files: The files.
        roots: Folders that links may not leave; none for no limit.
        name: Its name in the store; None for that of its first file, one of its shards.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what a model is made of
        self,
        scan: Scan,
        path: Path,
        title: str,
        kind: str,
        files: list[os.DirEntry[str]],
        roots: Sequence[Path],
        name: str | None = None,
    ) -> None:
        first = files[0].name
        self._scan = scan
        self.path = path
        self.name = name or (f"{title}/{first}" if title else first)
        self.files = {file.name for file in files}
        self._format: str | None = kind
        self._log = ProblemLog()
        self._nbytes = self._own_bytes = 0
        self._modified: float | None = None
        self._used: float | None = None
        if name is None:
            for where, what in missing_shards(file.name for file in files):
                self._log.add_error(where, what)
        for file in files:
            self._add(file, roots)

    def _add(self, file: os.DirEntry[str], roots: Sequence[Path]) -> None:
        """Count a file, or log why it cannot be part of a model."""
        if roots and file.is_symlink() and escapes(Path(file.path), *roots):
            self._log.add_error(file.name, "is a link out of the store. It is not opened")
            self._format = None  # nothing may be opened
            return
        try:
            status = file.stat()
        except FileNotFoundError:
            self._log.add_error(file.name, _DANGLING)
        except OSError as error:
            self._log.add_error(file.name, f"cannot be looked at: {unreadable_reason(error)}")
        else:
            if not stat.S_ISREG(status.st_mode):
                what = "is a pipe, a device or a socket, not a file. It is not opened"
                self._log.add_error(file.name, what)
                return
            self._nbytes += status.st_size
            if not (roots and file.is_symlink()):  # in a hub's cache, to a blob
                self._own_bytes += status.st_size
            self._modified = max(self._modified or 0.0, status.st_mtime)
            if file.name.lower().endswith((GGUF, SAFETENSORS)):
                used = self._scan.last_read(file.path, status)
                self._used = used if self._used is None else max(self._used, used or 0.0)

    def entry(self) -> Entry:
        return Entry(
            name=self.name,
            path=self.path,
            format=self._format,
            nbytes=self._nbytes,
            modified=self._modified,
            used=self._used,
            problems=(*name_problems(self.name), *self._log.problems()),
            own_bytes=self._own_bytes,
        )


def _is_merged(names: Iterable[str]) -> bool:
    """Return whether a folder's safetensors are one model, for an index or a config says so."""
    return any(name.endswith(INDEX_SUFFIX) or name == CONFIG_NAME for name in names)


def broken_entry(name: str, path: Path, what: str) -> Entry:
    """Return the entry of what should be a model, or hold some, and cannot be read."""
    problem = Problem(Severity.ERROR, name, what)
    return Entry(name, path, None, 0, None, (*name_problems(name), problem))


def _unreadable(error: OSError) -> str:
    return f"the folder cannot be read: {unreadable_reason(error)}"


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
