"""Open a model of any format."""

from __future__ import annotations

import os
from pathlib import Path

from explorer.errors import FormatError
from explorer.formats.gguf.open import open_gguf
from explorer.formats.huggingface import INDEX_SUFFIX, open_folder, open_index
from explorer.formats.model import Model
from explorer.formats.ollama.manifest import BLOBS, is_manifest_path
from explorer.formats.ollama.open import open_manifest
from explorer.formats.safetensors.open import open_safetensors
from explorer.model_files import GGUF_MAGIC
from explorer.sources import FileSource


def open_model(path: Path | str) -> Model:
    """Open a model: a GGUF or safetensors file, an index, a Hugging Face folder, or a manifest.

    Reads headers only.

    Args:
        path: Any shard of a split GGUF model opens the whole.

    Raises:
        FormatError: The file is not what it claims to be.
        SourceError: It is missing, unreadable or not a regular file.
    """
    path = Path(path)
    if os.path.isdir(path):  # unlike Path.is_dir, it never raises
        return open_folder(path)
    if is_manifest_path(path):  # before any ending: a tag may have one
        return open_manifest(path)
    if path.name.endswith(INDEX_SUFFIX):
        return open_index(path)
    if path.suffix == ".safetensors" or _is_safetensors_blob(path):
        return open_safetensors(path)
    if path.suffix == ".json":
        raise FormatError("is a JSON file, not a model; open its folder instead", path)
    return open_gguf(path)


def _is_safetensors_blob(path: Path) -> bool:
    """Return whether a file of a store, named by a digest, holds safetensors rather than GGUF."""
    if path.suffix or path.parent.name != BLOBS:
        return False
    with FileSource(path) as source:
        start = source.read(0, min(source.size, 9))
    return start[8:] == b"{" and not start.startswith(GGUF_MAGIC)  # of 123 tensors
