"""One door for every format: find out what a path is, and open it."""

from __future__ import annotations

import os
from pathlib import Path

from explorer.errors import FormatError
from explorer.formats.gguf import open_gguf
from explorer.formats.huggingface import INDEX_SUFFIX, open_folder, open_index
from explorer.formats.model import Model
from explorer.formats.safetensors import open_safetensors


def open_model(path: Path | str) -> Model:
    """Open a model: a GGUF file, a safetensors file, its index, or a Hugging Face folder.

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
    if path.name.endswith(INDEX_SUFFIX):
        return open_index(path)
    if path.suffix == ".safetensors":
        return open_safetensors(path)
    if path.suffix == ".json":
        raise FormatError("is a JSON file, not a model; open its folder instead", path)
    return open_gguf(path)
