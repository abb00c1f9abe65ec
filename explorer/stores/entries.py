"""Stores and what they hold, by folders and manifests alone; where each program keeps its store."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from explorer.formats import Problem, Severity
from explorer.text import plain_text

HIDDEN_CHARACTERS: Final = (
    "its name holds characters that cannot be seen, such as line ends or direction marks. "
    "They are shown as escapes"
)


class StoreKind(StrEnum):
    """Programs that keep models, named as in docs/interface.md."""

    OLLAMA = "ollama"
    HUGGINGFACE = "huggingface"
    LMSTUDIO = "lmstudio"
    LLAMA_CPP = "llama_cpp"
    FOLDER = "folder"

    @property
    def program(self) -> str:
        return _PROGRAMS[self]


_PROGRAMS: Final = {
    StoreKind.OLLAMA: "Ollama",
    StoreKind.HUGGINGFACE: "Hugging Face",
    StoreKind.LMSTUDIO: "LM Studio",
    StoreKind.LLAMA_CPP: "llama.cpp",
    StoreKind.FOLDER: "Folder",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One model of a store."""

    name: str  # its name there
    path: Path  # the path to open
    format: str | None  # "gguf", "safetensors" or "ollama" (tensor blobs), guessed; None if unknown
    nbytes: int  # bytes on disk of all its files, shared ones included
    modified: float | None  # time of the last change, seconds since 1970; None if unknown
    problems: tuple[Problem, ...] = ()  # problems found
    own_bytes: int = 0  # of `nbytes`, those in files that are not blobs of the store
    used: float | None = field(default=None, compare=False)
    """Time when a program last read its weights, seconds since 1970; None if nothing says it."""


@dataclass(frozen=True, slots=True)
class Part:
    """What a file is to its model."""

    kind: str  # as Ollama names layers: "model", "projector", "license", "tensor", "json" …
    name: str = ""  # the file or the tensor; of an orphan, what its header calls it


@dataclass(frozen=True, slots=True)
class Blob:
    """A file of a store that is named after its content."""

    digest: str  # sha256-… in an Ollama store, the etag in a Hugging Face cache
    path: Path  # the file
    nbytes: int  # its size
    used_by: tuple[str, ...]  # names of the models that use it; empty for an orphan
    part: Part | None = None  # what it is to them; None for an orphan


@dataclass(frozen=True, slots=True)
class PartialDownload:
    """A file of a download that has not finished, and the bytes that it takes on disk."""

    path: Path
    nbytes: int


@dataclass(frozen=True, slots=True)
class Store:
    """A store after a scan."""

    kind: StoreKind  # whose store it is
    root: Path  # its folder, as it was given
    entries: tuple[Entry, ...] = ()  # its models, in the order in which they were found
    blobs: tuple[Blob, ...] = ()  # its blobs, each once; empty for a store without
    partials: tuple[PartialDownload, ...] = ()  # downloads that have not finished
    problems: tuple[Problem, ...] = ()  # why the store, or a part of it, could not be read

    @property
    def nbytes(self) -> int:
        """Bytes on disk of all models; what several of them share counts once."""
        own = sum(entry.own_bytes for entry in self.entries)
        return own + sum(blob.nbytes for blob in self.blobs)


def name_problems(name: str) -> tuple[Problem, ...]:
    """Return a warning if a name holds characters that cannot be seen."""
    if plain_text(name) == name:
        return ()
    return (Problem(Severity.WARNING, name, HIDDEN_CHARACTERS),)


_SERVICE_MODELS: Final = Path("/usr/share/ollama/.ollama/models")  # of the user `ollama`


@dataclass(frozen=True, slots=True)
class Place:
    """A folder that is a store, or may be one."""

    kind: StoreKind
    root: Path


def default_places(environment: Mapping[str, str], home: Path, platform: str) -> list[Place]:
    """Return the folders where programs keep models, whether they exist or not.

    Source: docs/safetensors_and_blobs.md, sections 2, 5 and 6.

    Args:
        environment: The environment variables.
        home: The user's folder.
        platform: As `sys.platform` names it.
    """
    cache = Path(environment.get("XDG_CACHE_HOME") or home / ".cache")
    roots = [
        *((StoreKind.OLLAMA, root) for root in ollama_roots(environment, home, platform)),
        (StoreKind.HUGGINGFACE, _hub_cache(environment, cache)),
        (StoreKind.LMSTUDIO, home / ".lmstudio" / "models"),
        (StoreKind.LMSTUDIO, home / ".cache" / "lm-studio" / "models"),
        (StoreKind.LLAMA_CPP, _llama_cpp_cache(environment, home, cache, platform)),
    ]
    places: dict[Path, Place] = {}
    for kind, root in roots:  # llama.cpp may share the Hugging Face cache
        places.setdefault(root, Place(kind, root))
    return list(places.values())


def this_machine() -> list[Place]:
    """Return `default_places` of this machine and its user."""
    return default_places(os.environ, _home(), sys.platform)


def this_machine_ollama() -> list[Path]:
    """Return `ollama_roots` of this machine and its user."""
    return ollama_roots(os.environ, _home(), sys.platform)


def _home() -> Path:
    return Path(os.path.expanduser("~"))  # unlike Path.home, it never raises


def present_places(places: list[Place]) -> list[Place]:
    """Return the places that exist, those without permission included."""
    return [place for place in places if _is_present(place.root)]


def _is_present(root: Path) -> bool:
    try:
        os.stat(root)
    except PermissionError:
        return True  # a scan reports the reason
    except (OSError, ValueError):
        return False
    return True


def ollama_roots(environment: Mapping[str, str], home: Path, platform: str) -> list[Path]:
    """Return the folders where Ollama keeps models, the likeliest first."""
    chosen = environment.get("OLLAMA_MODELS")
    if chosen:
        return [Path(chosen)]
    own = home / ".ollama" / "models"
    return [own, _SERVICE_MODELS] if platform.startswith("linux") else [own]


def _hub_cache(environment: Mapping[str, str], cache: Path) -> Path:
    chosen = environment.get("HF_HUB_CACHE") or environment.get("HUGGINGFACE_HUB_CACHE")
    if chosen:
        return Path(chosen)
    return Path(environment.get("HF_HOME") or cache / "huggingface") / "hub"


def _llama_cpp_cache(
    environment: Mapping[str, str], home: Path, cache: Path, platform: str
) -> Path:
    if environment.get("LLAMA_CACHE"):
        return Path(environment["LLAMA_CACHE"])
    if platform == "darwin":
        cache = home / "Library" / "Caches"
    elif platform == "win32":
        cache = Path(environment.get("LOCALAPPDATA") or home / "AppData" / "Local")
    return cache / "llama.cpp"
