"""Blobs of an Ollama store: found by their digest, never outside of the store."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from explorer.errors import FormatError
from explorer.formats.confinement import leads_out
from explorer.formats.ollama.manifest import BLOBS, Layer

_PREFIX: Final = "sha256-"


def find_blob(models: Path, layer: Layer) -> Path:
    """Return where a layer's blob lies; it need not be there.

    Args:
        models: The folder that holds ``blobs``.
        layer: A layer of a manifest.

    Raises:
        FormatError: The layer has no usable digest, or its blob is a link out of the store.
    """
    if not layer.digest:
        raise FormatError(layer.fault or "it has no digest")
    folder = models / BLOBS
    path = folder / layer.digest
    if not os.path.lexists(path):
        old = folder / layer.digest.replace(_PREFIX, "sha256:", 1)  # as very old stores name them
        path = old if os.path.lexists(old) else path
    if os.path.islink(path) and leads_out(path, folder, models):
        raise FormatError("is a link out of the store; it is not opened", path)
    return path


def size_fault(layer: Layer, found_bytes: int) -> str | None:
    """Tell what is wrong with a blob's size, or None."""
    if layer.nbytes is None or layer.nbytes == found_bytes:
        return None
    return (
        f"its blob has {found_bytes} bytes, the manifest says {layer.nbytes}; pull the model again"
    )
