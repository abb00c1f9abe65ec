"""The Hugging Face hub's cache: snapshots of repositories, whose files are links to blobs.

docs/safetensors_and_blobs.md, section 5; huggingface_hub, `utils/_cache_manager.py`. Where the
system forbids links, as Windows may, a snapshot holds the files themselves and there are no blobs.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from explorer.errors import ExplorerError
from explorer.formats.side_files import escapes
from explorer.model_files import hub_name
from explorer.parallel import never
from explorer.sources import FileSource
from explorer.stores.entries import Blob, Entry, Part
from explorer.stores.folders import Scan, folder_models, list_folder, models_of

_MAIN: Final = "main"
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_SHORT_COMMIT: Final = 8
_INCOMPLETE: Final = ".incomplete"


def is_hub_cache(path: Path) -> bool:
    """Return whether a folder is a hub cache: whether it holds a repository."""
    try:
        with os.scandir(path) as children:
            return any(hub_name(child.name) for child in children)
    except OSError:
        return False


def hub_models(scan: Scan) -> Iterator[Entry]:
    """Yield the models of a cache, one repository (a ``models--…`` folder) after the other."""
    try:
        children = list_folder(scan.root)
    except OSError as error:
        scan.report_unreadable(scan.root, error)
        return
    for child in children:
        if hub_name(child.name):
            scan.check()
            folder = scan.root / child.name
            if child.is_symlink() and escapes(folder, scan.root):
                scan.log.add_error(child.name, "is a link out of the cache. It is not followed")
                continue
            users: dict[str, dict[str, str]] = {}  # etag → model whose snapshot links to it → file
            yield from _repository_models(scan, folder, users)
            _read_blobs(scan, folder / "blobs", users)


def _repository_models(
    scan: Scan, folder: Path, users: dict[str, dict[str, str]]
) -> Iterator[Entry]:
    name = hub_name(folder.name)
    branches = _branches(scan, folder / "refs")
    snapshots = folder / "snapshots"
    try:
        commits = [child.name for child in list_folder(snapshots)]
    except FileNotFoundError as error:
        if not os.path.lexists(folder):  # else a download has just begun
            scan.note_gone(folder, error)
        return
    except OSError as error:
        yield scan.unreadable_entry(snapshots, error)
        return
    main = branches.get(_MAIN)
    for commit in sorted(commits, key=lambda commit: (commit != main, commit)):
        if commit.startswith("."):
            continue
        title = name
        if commit != main and len(commits) > 1:
            branch = next((name for name, at in branches.items() if at == commit), None)
            title += f"@{branch or commit[:_SHORT_COMMIT]}"
        yield from _snapshot_models(scan, snapshots / commit, title, users)


def _snapshot_models(
    scan: Scan, snapshot: Path, title: str, users: dict[str, dict[str, str]]
) -> Iterator[Entry]:
    failures: list[Entry] = []

    def unreadable(folder: Path, error: OSError) -> None:
        failures.append(scan.unreadable_entry(folder, error))

    for folder, files in scan.walk(snapshot, unreadable):
        if escapes(folder, scan.root):
            scan.log.add_error(str(folder), "is a link out of the cache. It is not followed")
            continue
        inner = "" if folder == snapshot else f"/{folder.relative_to(snapshot).as_posix()}"
        models = models_of(scan, folder, title + inner, files, (scan.root,))
        owners = {name: entry.name for entry, names in models for name in names}
        other = models[0][0].name if models else title  # of a README and the like
        for file in files:
            if file.is_symlink():
                try:
                    target = os.path.basename(os.readlink(file.path))
                except OSError as error:
                    scan.report_file(file, error)
                    continue
                users.setdefault(target, {})[owners.get(file.name, other)] = file.name
        yield from (entry for entry, _ in models)
    yield from failures


def _read_blobs(scan: Scan, folder: Path, users: dict[str, dict[str, str]]) -> None:
    try:
        files = list_folder(folder)
    except FileNotFoundError:
        return  # no links on this system
    except OSError as error:
        scan.report_unreadable(folder, error)
        return
    for file in files:
        if file.name.endswith(_INCOMPLETE):
            scan.add_partial(file)
            continue
        try:
            status = file.stat(follow_symlinks=False)
        except OSError as error:
            scan.report_file(file, error)
            continue
        if stat.S_ISREG(status.st_mode):
            names = users.get(file.name, {})
            part = next((Part("json", name) for name in names.values()), None)
            blob = Blob(file.name, Path(file.path), status.st_size, tuple(names), part)
            scan.blobs.append(blob)


def _branches(scan: Scan, refs: Path) -> dict[str, str]:
    """Return the commit of each branch; a branch with a slash is in a folder of its own."""
    branches = {}
    for folder, files in Scan(scan.kind, refs, never).walk(refs):
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


def llama_cpp_models(scan: Scan) -> Iterator[Entry]:
    """Yield the models of llama.cpp's cache.

    Older versions have flat files, those since 2026 the hub cache's layout; after an update one
    folder may hold both (docs/safetensors_and_blobs.md, section 6). Other folders in it are not
    searched: ``rpc`` holds tensors of other machines' models.
    """
    yield from folder_models(scan, deep=False)
    if is_hub_cache(scan.root):
        yield from hub_models(scan)
