"""Ollama's store: manifests name the models, and the blobs that each of them uses.

docs/safetensors_and_blobs.md, section 2. One pass over the folder of blobs gives every size; after
that a model costs one small file. A problem of one manifest stays with its entry.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

from explorer.errors import ExplorerError, unreadable_reason
from explorer.formats import Problem, Severity
from explorer.formats.model import ProblemLog
from explorer.formats.ollama.manifest import (
    BLOBS,
    MANIFESTS,
    Manifest,
    OllamaName,
    find_blob,
    read_manifest,
    size_fault,
)
from explorer.formats.side_files import escapes
from explorer.sources import FileSource
from explorer.stores.entries import (
    Blob,
    Check,
    Entry,
    PartialDownload,
    Store,
    StoreKind,
    name_problems,
)
from explorer.stores.folders import list_folder, partial_file

_BLOB_NAME: Final = re.compile(r"sha256[:-](?P<hex>[0-9a-fA-F]{64})(?P<partial>[-.].*)?", re.DOTALL)
_LEVELS: Final = 4
_CHECK_EVERY: Final = 32


def models_folder(root: Path) -> Path:
    """Return the folder that holds ``manifests``: a root itself, or ``models`` in it."""
    inside = root / "models"
    if not (root / MANIFESTS).exists() and (inside / MANIFESTS).is_dir():
        return inside
    return root


def is_ollama_store(path: Path) -> bool:
    """Return whether a path is the root of an Ollama store, or the folder above it."""
    try:
        return (models_folder(path) / MANIFESTS).is_dir()
    except OSError:  # it may not be looked at
        return False


def scan_ollama(root: Path, check: Check) -> Iterator[Entry | Store]:
    """Read a store's manifests; yield models as they are found, and then the store.

    Args:
        root: The folder that holds ``manifests`` and ``blobs``, or the one above.
        check: Called now and then; raises to give up.
    """
    scan = _Scan(root, check)
    entries = []
    for entry in scan.entries():
        entries.append(entry)
        yield entry
    yield Store(
        StoreKind.OLLAMA,
        root,
        tuple(entries),
        tuple(scan.used_blobs()),
        tuple(scan.partials),
        scan.log.problems(),
    )


class _Scan:
    """One pass over a store.

    Attributes:
        partials: Downloads that have not finished.
        log: What is wrong with the store itself.
    """

    def __init__(self, root: Path, check: Check) -> None:
        self.partials: list[PartialDownload] = []
        self.log = ProblemLog()
        self._check = check
        self._blobs: dict[str, Blob] = {}
        self._faults: dict[str, str] = {}
        self._users: dict[str, dict[str, None]] = {}  # digest → names, in order
        self._readable = False
        try:
            self._models = models_folder(root)
        except OSError:  # reading it, next, reports the reason
            self._models = root
        self._manifests = self._models / MANIFESTS

    def entries(self) -> Iterator[Entry]:
        """Yield the models; blobs and partial downloads are known after that."""
        self._read_blobs()
        try:
            os.stat(self._manifests)
        except FileNotFoundError:
            if not os.path.lexists(self._models):
                self._fail(self._models, "the folder does not exist")
            return  # a store before its first download
        except OSError as error:
            self._fail(self._manifests, f"the folder cannot be read: {unreadable_reason(error)}")
            return
        for number, (path, failure) in enumerate(self._paths(self._manifests, ())):
            if number % _CHECK_EVERY == 0:
                self._check()
            yield self._entry(path) if failure is None else failure

    def used_blobs(self) -> Iterator[Blob]:
        """Yield each blob with the models that use it, in order of digests."""
        for digest, blob in sorted(self._blobs.items()):
            users = tuple(self._users.get(digest, ()))
            yield Blob(blob.digest, blob.path, blob.nbytes, users)

    def _fail(self, where: Path, what: str) -> None:
        self.log.add_error(str(where), what)

    def _read_blobs(self) -> None:
        folder = self._models / BLOBS
        try:
            files = list_folder(folder)
        except FileNotFoundError:
            self._readable = True  # an empty store
            return
        except OSError as error:
            self._fail(folder, f"the folder cannot be read: {unreadable_reason(error)}")
            return
        self._readable = True
        for number, file in enumerate(files):
            if number % (64 * _CHECK_EVERY) == 0:
                self._check()
            match = _BLOB_NAME.fullmatch(file.name)
            if match is None:
                continue
            if match["partial"]:
                self.partials += filter(None, [partial_file(file)])
                continue
            digest = f"sha256-{match['hex']}"
            fault = self._look_at(file, digest)
            if fault is not None:
                self._faults[digest] = fault

    def _look_at(self, file: os.DirEntry[str], digest: str) -> str | None:
        """Store a blob; return why it cannot be one."""
        path = Path(file.path)
        if file.is_symlink() and escapes(path, path.parent, self._models):
            return "its blob is a link out of the store; it is not opened"
        try:
            status = file.stat()
        except OSError as error:
            return f"its blob cannot be looked at: {unreadable_reason(error)}"
        if not stat.S_ISREG(status.st_mode):
            return "its blob is a folder, a pipe or a device, not a file; it is not opened"
        self._blobs[digest] = Blob(digest, path, status.st_size, ())
        return None

    def _paths(self, folder: Path, above: tuple[str, ...]) -> Iterator[tuple[Path, Entry | None]]:
        """Yield what lies four levels down, or an entry for a folder that cannot be read."""
        try:
            children = list_folder(folder)
        except OSError as error:
            what = f"the folder cannot be read: {unreadable_reason(error)}"
            yield folder, self._broken(folder, what)
            return
        for child in children:
            if child.name.startswith("."):  # .DS_Store and its like
                continue
            path = folder / child.name
            if child.is_symlink() and escapes(path, self._manifests, self._models):
                what = "is a link out of the store; it is not followed"
                yield path, self._broken(path, what)
            elif len(above) == _LEVELS - 1:
                yield path, None
            else:
                try:
                    inner = child.is_dir()
                except OSError as error:
                    what = f"cannot be looked at: {unreadable_reason(error)}"
                    yield path, self._broken(path, what)
                    continue
                if inner:
                    yield from self._paths(path, (*above, child.name))

    def _broken(self, path: Path, what: str) -> Entry:
        name = path.relative_to(self._manifests).as_posix()
        if name.count("/") == _LEVELS - 1:
            name = str(OllamaName(*name.split("/")))
        problem = Problem(Severity.ERROR, name, what)
        return Entry(name, path, None, 0, None, (*name_problems(name), problem))

    def _entry(self, path: Path) -> Entry:
        try:
            modified = os.stat(path).st_mtime
            manifest = read_manifest(path)
        except ExplorerError as error:
            return self._broken(path, error.without_path)
        except OSError as error:
            return self._broken(path, f"cannot be read: {unreadable_reason(error)}")
        name = str(manifest.name)
        log = ProblemLog()
        log.extend(name_problems(name))
        if not manifest.name.valid:
            log.add_warning(name, "is not a name that Ollama accepts")
        nbytes = self._add_blobs(manifest, name, log)
        kind = _format_of(manifest)
        if kind is None:
            what = "has no weights here: it runs on another machine, or its download did not finish"
            log.add_warning(name, what)
        return Entry(name, path, kind, nbytes, modified, log.problems())

    def _add_blobs(self, manifest: Manifest, name: str, log: ProblemLog) -> int:
        """Record the blobs that a model uses; return their bytes, each blob once."""
        nbytes = 0
        counted: set[str] = set()
        for layer in manifest.all_layers:
            fault = layer.fault
            blob = self._blobs.get(layer.digest)
            if blob is not None:
                fault = fault or size_fault(layer, blob.nbytes)
                self._users.setdefault(layer.digest, {})[name] = None
                if layer.digest not in counted:
                    counted.add(layer.digest)
                    nbytes += blob.nbytes
            elif layer.digest and self._readable:
                what = "its blob is missing; pull the model again"
                fault = self._faults.get(layer.digest, what)
            if fault is not None:
                log.add_error(layer.title, fault)
        return nbytes


def _format_of(manifest: Manifest) -> str | None:
    """Return the format of a model's weights, or None if it has none."""
    if manifest.of_kind("model"):
        return "gguf"
    return "ollama" if manifest.of_kind("tensor") else None


Progress: TypeAlias = Callable[[int], None]
"""Called with the number of bytes read since the last call."""

_SHA256: Final = re.compile(r"(?:sha256[:-])?([0-9a-fA-F]{64})")
_GIT_SHA1: Final = re.compile(r"[0-9a-f]{40}")
_CHUNK_BYTES: Final = 1 << 20


def digest_fault(
    path: Path, name: str, progress: Progress = lambda count: None, check: Check = lambda: None
) -> str | None:
    """Read all of a blob and compare its digest with its name.

    Args:
        path: The blob.
        name: ``sha256-…`` (Ollama), a bare SHA-256 or a git object's SHA-1 (Hugging Face).
        progress: Called with the bytes read.
        check: Called for every megabyte; raises to give up.

    Returns:
        The fault, or None if the content is right.
    """
    sha256 = _SHA256.fullmatch(name)
    if sha256 is None and _GIT_SHA1.fullmatch(name) is None:
        return "its name is no digest, so its content cannot be checked"
    try:
        with FileSource(path) as source:
            if sha256 is not None:
                digest, expected = hashlib.sha256(), sha256[1].lower()
            else:  # git's "blob" objects, which have their size in front
                digest, expected = hashlib.sha1(usedforsecurity=False), name
                digest.update(f"blob {source.size}\0".encode())
            for offset in range(0, source.size, _CHUNK_BYTES):
                check()
                chunk = source.read(offset, min(_CHUNK_BYTES, source.size - offset))
                digest.update(chunk)
                progress(len(chunk))
    except ExplorerError as error:
        return f"its blob {error.what}"
    found = digest.hexdigest()
    if found == expected:
        return None
    return f"its content has the digest {found}, not {expected}; it is damaged, pull it again"


def manifest_blobs(path: Path) -> Iterator[tuple[str, Path, str]]:
    """Yield the blobs that a manifest names, each once: title, file, digest.

    Those that are missing or may not be opened are left out: opening the model reports them.

    Raises:
        FormatError: The file is no manifest.
        SourceError: It cannot be read.
    """
    manifest = read_manifest(path)
    seen: set[str] = set()
    for layer in manifest.all_layers:
        if not layer.digest or layer.digest in seen:
            continue
        seen.add(layer.digest)
        try:
            blob = find_blob(manifest.models, layer)
        except ExplorerError:
            continue
        if blob.is_file():
            yield layer.title, blob, layer.digest
