"""Blobs of an Ollama store: found by their digest, and read without keeping them open.

A model of tensor blobs has thousands of files, and a process may have some hundred open at a time.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from explorer.errors import FormatError, SourceError
from explorer.formats.confinement import leads_out
from explorer.formats.ollama_manifest import BLOBS, Layer
from explorer.sources import ByteSource, FileSource

_PREFIX: Final = "sha256-"


class BlobSource(ByteSource):
    """A `ByteSource` over a file that is opened for each read and closed again.

    Args:
        path: The file.
        nbytes: Its size when it was looked at first.
    """

    def __init__(self, path: Path, nbytes: int) -> None:
        self.path = path
        self.size = nbytes
        self._closed = False

    def read_into(self, offset: int, buffer: bytearray | memoryview) -> None:
        self._checked(offset, len(buffer))
        if self._closed:
            raise SourceError("was closed; open it again", self.path)
        with FileSource(self.path) as file:
            if file.size != self.size:
                raise SourceError("changed while it was open; open it again", self.path, offset)
            file.read_into(offset, buffer)

    def close(self) -> None:
        self._closed = True


def find_blob(models: Path, layer: Layer) -> Path:
    """Return where a layer's blob lies; it need not be there.

    Args:
        models: The folder that holds ``blobs``.
        layer: A layer of a manifest.

    Raises:
        FormatError: The layer has no usable digest, or its blob is a link out of the store.
    """
    if not layer.digest:
        raise FormatError(f"{layer.title}: {layer.fault}")
    folder = models / BLOBS
    path = folder / layer.digest
    if not os.path.lexists(path):
        old = folder / layer.digest.replace(_PREFIX, "sha256:", 1)  # as very old stores name them
        path = old if os.path.lexists(old) else path
    if leads_out(path, folder, models):
        what = f"{layer.title}: its blob is a link out of the store; it is not opened"
        raise FormatError(what, path)
    return path


def size_fault(layer: Layer, found_bytes: int) -> str | None:
    """Tell what is wrong with a blob's size, or None."""
    if layer.nbytes is None or layer.nbytes == found_bytes:
        return None
    return (
        f"its blob has {found_bytes} bytes, the manifest says {layer.nbytes}; pull the model again"
    )
