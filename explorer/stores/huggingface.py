"""The Hugging Face hub's cache: snapshots of repositories, whose files are links to blobs.

safetensors_and_blobs.md section 5; huggingface_hub, `utils/_cache_manager.py`. Where the system
forbids links, as Windows may, a snapshot holds the files themselves and there are no blobs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final

from explorer.errors import ExplorerError, unreadable_reason
from explorer.formats.model import ProblemLog
from explorer.formats.side_files import HUB_REPOSITORY, escapes
from explorer.sources import FileSource
from explorer.stores.entries import Blob, Check, Entry, PartialDownload, Store, StoreKind
from explorer.stores.folders import (
    list_folder,
    models_of,
    partial_file,
    scan_folder,
    unreadable_entry,
    walk,
)

_MAIN: Final = "main"
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_SHORT_COMMIT: Final = 8
_INCOMPLETE: Final = ".incomplete"


@dataclass
class _Repository:
    """One ``models--…`` folder.

    Attributes:
        folder: The folder.
        name: ``organisation/name``.
        links: Etag → names of the entries whose snapshot links to that blob.
    """

    folder: Path
    name: str
    links: dict[str, dict[str, None]]


def is_hub_cache(path: Path) -> bool:
    """Return whether a folder is a hub cache: whether it holds a repository."""
    try:
        with os.scandir(path) as children:
            return any(child.name.startswith(HUB_REPOSITORY) for child in children)
    except OSError:
        return False


def scan_hub_cache(
    root: Path, check: Check, kind: StoreKind = StoreKind.HUGGINGFACE
) -> Iterator[Entry | Store]:
    """Read a cache; yield models as they are found, and then the store.

    Args:
        root: The folder that holds the ``models--…`` folders.
        check: Called for every folder; raises to give up.
        kind: Whose store it is: llama.cpp uses the same layout.
    """
    scan = _Scan(root, check)
    entries = []
    for entry in scan.entries():
        entries.append(entry)
        yield entry
    yield Store(
        kind, root, tuple(entries), tuple(scan.blobs), tuple(scan.partials), scan.log.problems()
    )


class _Scan:
    """One pass over a cache.

    Attributes:
        blobs: Its blobs, after `entries`.
        partials: Downloads that have not finished.
        log: What is wrong with the cache itself.
    """

    def __init__(self, root: Path, check: Check) -> None:
        self.blobs: list[Blob] = []
        self.partials: list[PartialDownload] = []
        self.log = ProblemLog()
        self._root = root
        self._check = check
        self._failures: list[Entry] = []

    def entries(self) -> Iterator[Entry]:
        """Yield the models, one repository after the other."""
        try:
            children = list_folder(self._root)
        except OSError as error:
            what = f"the folder cannot be read: {unreadable_reason(error)}"
            self.log.add_error(str(self._root), what)
            return
        for child in children:
            if child.name.startswith(HUB_REPOSITORY):
                self._check()
                name = child.name.removeprefix(HUB_REPOSITORY).replace("--", "/")
                repository = _Repository(self._root / child.name, name, {})
                if child.is_symlink() and escapes(repository.folder, self._root):
                    what = "is a link out of the cache; it is not followed"
                    self.log.add_error(child.name, what)
                    continue
                yield from self._repository_entries(repository)
                self._read_blobs(repository)

    def _repository_entries(self, repository: _Repository) -> Iterator[Entry]:
        branches = _branches(repository.folder / "refs")
        snapshots = repository.folder / "snapshots"
        try:
            commits = [child.name for child in list_folder(snapshots)]
        except FileNotFoundError:
            return  # a download that has just begun
        except OSError as error:
            yield unreadable_entry(snapshots, self._root, error)
            return
        main = branches.get(_MAIN)
        for commit in sorted(commits, key=lambda commit: (commit != main, commit)):
            if commit.startswith("."):
                continue
            title = repository.name
            if commit != main and len(commits) > 1:
                branch = next((name for name, at in branches.items() if at == commit), None)
                title += f"@{branch or commit[:_SHORT_COMMIT]}"
            yield from self._snapshot_entries(repository, snapshots / commit, title)

    def _snapshot_entries(
        self, repository: _Repository, snapshot: Path, title: str
    ) -> Iterator[Entry]:
        failures: list[Entry] = []

        def report(folder: Path, error: OSError) -> None:
            failures.append(unreadable_entry(folder, self._root, error))

        for folder, files in walk(snapshot, self._check, report, self.log):
            if escapes(folder, self._root):
                what = "is a link out of the cache; it is not followed"
                self.log.add_error(str(folder), what)
                continue
            inner = "" if folder == snapshot else f"/{folder.relative_to(snapshot).as_posix()}"
            models = models_of(folder, title + inner, files, (self._root,))
            owners = {name: entry.name for entry, names in models for name in names}
            other = models[0][0].name if models else title  # of a README and the like
            for file in files:
                self._note_link(repository, file, owners.get(file.name, other))
            yield from (entry for entry, _ in models)
        yield from failures

    def _note_link(self, repository: _Repository, file: os.DirEntry[str], name: str) -> None:
        if file.is_symlink():
            target = os.path.basename(os.readlink(file.path))
            repository.links.setdefault(target, {})[name] = None

    def _read_blobs(self, repository: _Repository) -> None:
        folder = repository.folder / "blobs"
        try:
            files = list_folder(folder)
        except FileNotFoundError:
            return  # no links on this system
        except OSError as error:
            what = f"the folder cannot be read: {unreadable_reason(error)}"
            self.log.add_error(str(folder), what)
            return
        for file in files:
            if file.name.endswith(_INCOMPLETE):
                self.partials += filter(None, [partial_file(file)])
            elif file.is_file(follow_symlinks=False):
                users = tuple(repository.links.get(file.name, ()))
                self.blobs.append(Blob(file.name, Path(file.path), file.stat().st_size, users))


def _branches(refs: Path) -> dict[str, str]:
    """Return the commit of each branch; a branch with a slash is in a folder of its own."""
    branches = {}
    for folder, files in walk(refs, lambda: None, lambda path, error: None, ProblemLog()):
        for file in files:
            commit = None if file.is_symlink() else _read_commit(Path(file.path))
            if commit is not None:
                branches[(folder / file.name).relative_to(refs).as_posix()] = commit
    return branches


def _read_commit(path: Path) -> str | None:
    """Return the commit in a reference, or None if there is none."""
    try:
        with FileSource(path) as source:
            text = source.read(0, min(source.size, 64))
    except ExplorerError:
        return None
    match = _COMMIT.fullmatch(text.strip().decode("ascii", "replace"))
    return None if match is None else match[0]


def scan_llama_cpp(root: Path, check: Check) -> Iterator[Entry | Store]:
    """Read llama.cpp's cache; yield models as they are found, and then the store.

    Older versions have flat files, those since 2026 the hub cache's layout; after an update one
    folder may hold both (docs/safetensors_and_blobs.md, section 6). Other folders in it are not
    searched: ``rpc`` holds tensors of other machines' models.

    Args:
        root: The folder.
        check: Called now and then; raises to give up.
    """
    stores = []
    scans = [scan_folder(StoreKind.LLAMA_CPP, root, check, deep=False)]
    if is_hub_cache(root):
        scans.append(scan_hub_cache(root, check, StoreKind.LLAMA_CPP))
    for found in chain(*scans):
        if isinstance(found, Store):
            stores.append(found)
        else:
            yield found
    yield Store(
        StoreKind.LLAMA_CPP,
        root,
        tuple(entry for store in stores for entry in store.entries),
        tuple(blob for store in stores for blob in store.blobs),
        tuple(partial for store in stores for partial in store.partials),
        tuple(problem for store in stores for problem in store.problems),
    )
