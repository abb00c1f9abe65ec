"""A selected row as the commands see it, whichever list it is in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from explorer.formats.ollama.manifest import OllamaName
from explorer.qt.models.library.blob_table import StoredFile
from explorer.qt.models.library.node import Node
from explorer.stores import StoreKind

_NAME_PARTS: Final = 4  # of the path of a manifest


@dataclass(frozen=True, slots=True)
class Subject:
    """A selected row.

    Attributes:
        name: What to call it.
        path: Where it is, if anywhere.
        digest: Of a blob: ``sha256:`` and 64 digits, or the hub's etag; else empty.
        run_command: What makes Ollama run it; empty if it cannot.
        own_folder: The folder, if it is one that the user added.
    """

    name: str
    path: Path | None = None
    digest: str = ""
    run_command: str = ""
    own_folder: Path | None = None


def subject_of(node: Node, own_folders: Sequence[Path]) -> Subject:
    """Return a row of the tree as a subject.

    Args:
        node: The row.
        own_folders: Folders that the user added.
    """
    row = node.row
    root = None if row.place is None else row.place.root
    return Subject(
        (row.name or row.title) if row.entry is None else row.entry.name,
        row.path,
        _digest_text(row.digest),
        _run_command(node),
        root if root in own_folders else None,
    )


def subject_of_file(file: StoredFile) -> Subject:
    """Return a blob as a subject."""
    return Subject(file.digest, file.path, _digest_text(file.digest) if file.finished else "")


def _digest_text(name: str) -> str:
    return name.replace("sha256-", "sha256:", 1)


def _run_command(node: Node) -> str:
    """Return the command that runs a model; only a valid name may come near a shell."""
    entry = node.row.entry
    if entry is None or entry.format is None:
        return ""
    place = node.store.row.place
    if place is None or place.kind is not StoreKind.OLLAMA:
        return ""
    parts = entry.path.parts[-_NAME_PARTS:]
    name = OllamaName(*parts) if len(parts) == _NAME_PARTS else None
    return f"ollama run {name}" if name is not None and name.valid else ""
