"""What a store holds, as its folders and manifests tell it: no model is opened for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeAlias

from explorer.formats import Problem, Severity
from explorer.text import plain_text

Check: TypeAlias = Callable[[], None]
"""Called now and then during long work; raises to give up."""

HIDDEN_CHARACTERS: Final = (
    "its name holds characters that cannot be seen, such as line ends or direction marks; "
    "they are shown as escapes"
)


class StoreKind(StrEnum):
    """Programs that keep models, by the names of interface.md."""

    OLLAMA = "ollama"
    HUGGINGFACE = "huggingface"
    LMSTUDIO = "lmstudio"
    LLAMA_CPP = "llama_cpp"
    FOLDER = "folder"


@dataclass(frozen=True, slots=True)
class Entry:
    """One model of a store.

    Attributes:
        name: What to call it there.
        path: What to open.
        format: ``"gguf"``, ``"safetensors"`` or ``"ollama"`` (a model of tensor blobs), guessed
            from names; None where nothing tells it.
        nbytes: Bytes on disk of all that belongs to it; what it shares with others is counted.
        modified: When it was changed last, seconds since 1970; None if that is not known.
        problems: What is wrong with it.
        own_bytes: Of `nbytes`, those in files that are not blobs of the store.
    """

    name: str
    path: Path
    format: str | None
    nbytes: int
    modified: float | None
    problems: tuple[Problem, ...] = ()
    own_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Blob:
    """A file of a store that is named after its content.

    Attributes:
        digest: ``sha256-…`` in an Ollama store, the etag in a Hugging Face cache.
        path: The file.
        nbytes: Its size.
        used_by: Names of the models that use it; empty for an orphan.
    """

    digest: str
    path: Path
    nbytes: int
    used_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PartialDownload:
    """A file of a download that has not finished.

    Attributes:
        path: The file.
        nbytes: Bytes that it takes on disk.
    """

    path: Path
    nbytes: int


@dataclass(frozen=True, slots=True)
class Store:
    """A store after a scan.

    Attributes:
        kind: Whose store it is.
        root: Its folder, as it was given.
        entries: Its models, in the order in which they were found.
        blobs: Its blobs, each once; empty for a store without.
        partials: Downloads that have not finished.
        problems: What kept the store, or a part of it, from being read.
    """

    kind: StoreKind
    root: Path
    entries: tuple[Entry, ...] = ()
    blobs: tuple[Blob, ...] = ()
    partials: tuple[PartialDownload, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def nbytes(self) -> int:
        """Bytes on disk of all models; what several of them share counts once."""
        own = sum(entry.own_bytes for entry in self.entries)
        return own + sum(blob.nbytes for blob in self.blobs)


def name_problems(name: str) -> tuple[Problem, ...]:
    """Return a warning if a name holds characters that could deceive whoever reads it."""
    if plain_text(name) == name:
        return ()
    return (Problem(Severity.WARNING, name, HIDDEN_CHARACTERS),)
