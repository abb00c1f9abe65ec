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
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias

from explorer.errors import ExplorerError, unreadable_reason
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
from explorer.parallel import Check, never
from explorer.sources import FileSource
from explorer.stores.entries import Blob, Entry, Part, name_problems
from explorer.stores.folders import Scan, broken_entry, list_folder

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


def ollama_models(scan: Scan) -> Iterator[Entry]:
    """Yield the models of the folder that holds ``manifests`` and ``blobs``, or of the one above.

    The scan's blobs are known at the end.
    """
    try:
        models = models_folder(scan.root)
    except OSError:  # reading it, next, reports the reason
        models = scan.root
    manifests = models / MANIFESTS
    blobs = _Blobs(scan, models)
    try:
        os.stat(manifests)
    except FileNotFoundError:  # a store before its first download
        if not os.path.lexists(models):
            scan.log.add_error(str(models), "the folder does not exist")
    except OSError as error:
        scan.report_unreadable(manifests, error)
    else:
        paths = _manifest_paths(scan, manifests, manifests, models)
        for number, (path, failure) in enumerate(paths):
            if number % _CHECK_EVERY == 0:
                scan.check()
            if failure is not None:
                yield _broken(path, manifests, failure)
            elif (entry := _entry(scan, path, manifests, blobs)) is not None:
                yield entry
    scan.blobs += blobs.with_users()


class _Blobs:
    """The blobs of a store, and which models use them.

    Args:
        scan: The pass over the store; gets problems and downloads that have not finished.
        models: The folder that holds ``blobs``.
    """

    def __init__(self, scan: Scan, models: Path) -> None:
        self._scan = scan
        self._models = models
        self._blobs: dict[str, Blob] = {}
        self._faults: dict[str, str] = {}
        self._users: dict[str, dict[str, None]] = {}  # digest → names, in order
        self._parts: dict[str, Part] = {}
        self._read: dict[str, float | None] = {}  # digest → when it was last read
        folder = models / BLOBS
        try:
            files = list_folder(folder)
        except FileNotFoundError:  # an empty store
            files = []
        except OSError as error:
            scan.report_unreadable(folder, error)
            self._readable = False
            return
        self._readable = True
        for number, file in enumerate(files):
            if number % (64 * _CHECK_EVERY) == 0:
                scan.check()
            match = _BLOB_NAME.fullmatch(file.name)
            if match is None:
                if file.name.startswith("sha256"):
                    what = "has a name that Ollama gives no blob; nothing reads it"
                    scan.log.add_warning(file.path, what)
                continue
            if match["partial"]:
                scan.add_partial(file)
            else:
                self._add(file, f"sha256-{match['hex']}")

    def _add(self, file: os.DirEntry[str], digest: str) -> None:
        """Store a blob, or why it cannot be one."""
        path = Path(file.path)
        if file.is_symlink() and escapes(path, path.parent, self._models):
            self._faults[digest] = "its blob is a link out of the store. It is not opened"
            return
        try:
            status = file.stat()
        except OSError as error:
            if not self._scan.note_gone(path, error):
                what = f"its blob cannot be looked at: {unreadable_reason(error)}"
                self._faults[digest] = what
            return
        if stat.S_ISREG(status.st_mode):
            self._blobs[digest] = Blob(digest, path, status.st_size, ())
            self._read[digest] = self._scan.last_read(path, status)
        else:
            what = "its blob is a folder, a pipe or a device, not a file. It is not opened"
            self._faults[digest] = what

    def use(self, manifest: Manifest, name: str, log: ProblemLog) -> int:
        """Record the blobs that a model uses; return their bytes, each blob once."""
        sizes: dict[str, int] = {}
        for layer in manifest.all_layers:
            fault = layer.fault
            blob = self._blobs.get(layer.digest)
            if blob is not None:
                fault = fault or size_fault(layer, blob.nbytes)
                self._users.setdefault(layer.digest, {})[name] = None
                self._parts.setdefault(layer.digest, Part(layer.kind, layer.name))
                sizes[layer.digest] = blob.nbytes
            elif layer.digest and self._readable:
                what = "its blob is missing. Pull the model again"
                fault = self._faults.get(layer.digest, what)
            if fault is not None:
                log.add_error(layer.title, fault)
        return sum(sizes.values())

    def last_read(self, manifest: Manifest) -> float | None:
        """Return when a program last read weights of a model; None if nothing says it."""
        weights = (*manifest.of_kind("model"), *manifest.of_kind("tensor"))
        times = (self._read.get(layer.digest) for layer in weights)
        return max((time for time in times if time is not None), default=None)

    def with_users(self) -> Iterator[Blob]:
        """Yield each blob with the models that use it, in order of digests."""
        for digest, blob in sorted(self._blobs.items()):
            users = tuple(self._users.get(digest, ()))
            yield replace(blob, used_by=users, part=self._parts.get(digest))


def _manifest_paths(
    scan: Scan, folder: Path, manifests: Path, models: Path
) -> Iterator[tuple[Path, str | None]]:
    """Yield what lies four levels down, and what cannot be read with the reason."""
    try:
        children = list_folder(folder)
    except OSError as error:
        if not scan.note_gone(folder, error):
            yield folder, f"the folder cannot be read: {unreadable_reason(error)}"
        return
    level = len(folder.relative_to(manifests).parts)
    for child in children:
        if child.name.startswith("."):  # .DS_Store and its like
            continue
        path = folder / child.name
        if child.is_symlink() and escapes(path, manifests, models):
            yield path, "is a link out of the store. It is not followed"
        elif level == _LEVELS - 1:
            yield path, None
        else:
            try:
                inner = child.is_dir()
            except OSError as error:
                yield path, f"cannot be looked at: {unreadable_reason(error)}"
                continue
            if inner:
                yield from _manifest_paths(scan, path, manifests, models)


def _broken(path: Path, manifests: Path, what: str) -> Entry:
    name = path.relative_to(manifests).as_posix()
    if name.count("/") == _LEVELS - 1:
        name = str(OllamaName(*name.split("/")))
    return broken_entry(name, path, what)


def _entry(scan: Scan, path: Path, manifests: Path, blobs: _Blobs) -> Entry | None:
    """Return the entry of a manifest, None if it is gone."""
    try:
        modified = os.stat(path).st_mtime
        manifest = read_manifest(path)
    except (OSError, ExplorerError) as error:
        if scan.note_gone(path, error):
            return None
        if isinstance(error, ExplorerError):
            return _broken(path, manifests, error.without_path)
        return _broken(path, manifests, f"cannot be read: {unreadable_reason(error)}")
    name = str(manifest.name)
    log = ProblemLog()
    log.extend(name_problems(name))
    if not manifest.name.valid:
        log.add_warning(name, "is not a name that Ollama accepts")
    nbytes = blobs.use(manifest, name, log)
    kind = _format_of(manifest)
    if kind is None:
        what = "has no weights here: it runs on another machine, or its download did not finish"
        log.add_warning(name, what)
    used = blobs.last_read(manifest)
    return Entry(name, path, kind, nbytes, modified, log.problems(), used=used)


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
    path: Path, name: str, progress: Progress = lambda count: None, check: Check = never
) -> str | None:
    """Read all of a blob and compare its digest with its name.

    Args:
        name: ``sha256-…`` (Ollama), a bare SHA-256 or a git object's SHA-1 (Hugging Face).
        progress: Called with the bytes read.
        check: Called for every megabyte; raises to cancel.

    Returns:
        The fault, or None if the content is right.
    """
    sha256 = _SHA256.fullmatch(name)
    if sha256 is None and _GIT_SHA1.fullmatch(name) is None:
        return "its name is not a digest, so its content cannot be checked"
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
    return f"its content has the digest {found}, not {expected}. It is damaged, pull it again"


def manifest_blobs(path: Path) -> Iterator[tuple[str, Path, str]]:
    """Yield the blobs that a manifest names, each once: title, file, digest.

    Those that are missing or may not be opened are left out: opening the model reports them.

    Raises:
        FormatError: The file is not a manifest.
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
