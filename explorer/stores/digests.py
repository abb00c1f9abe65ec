"""Whether a blob's content is what its name says: the one check that reads every byte."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

from explorer.errors import ExplorerError
from explorer.formats.ollama.blobs import find_blob
from explorer.formats.ollama.manifest import read_manifest
from explorer.sources import FileSource
from explorer.stores.entries import Check

Progress: TypeAlias = Callable[[int], None]
"""Called with the number of bytes read since the last call."""

_SHA256: Final = re.compile(r"(?:sha256[:-])?([0-9a-fA-F]{64})")
_GIT_SHA1: Final = re.compile(r"[0-9a-f]{40}")
_CHUNK_BYTES: Final = 1 << 20


def digest_fault(
    path: Path,
    name: str,
    progress: Progress = lambda count: None,
    check: Check = lambda: None,
) -> str | None:
    """Read a blob and compare its digest with its name.

    Args:
        path: The blob.
        name: ``sha256-…`` (Ollama), a bare SHA-256 or a git object's SHA-1 (Hugging Face).
        progress: Told of the bytes read.
        check: Called for every megabyte; raises to give up.

    Returns:
        What is wrong, or None if the content is right.
    """
    sha256 = _SHA256.fullmatch(name)
    if sha256 is None and _GIT_SHA1.fullmatch(name) is None:
        return "its name is no digest, so nothing says what its content should be"
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
    """Yield the blobs that a manifest names, each once: what to call it, its file, its digest.

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
