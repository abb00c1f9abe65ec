"""Where models lie, on each system: safetensors_and_blobs.md sections 2, 5 and 6."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from explorer.stores.entries import StoreKind

_SERVICE_MODELS: Final = Path("/usr/share/ollama/.ollama/models")  # of the user `ollama`


@dataclass(frozen=True, slots=True)
class Place:
    """A folder that is a store, or may be one.

    Attributes:
        kind: Whose store it is.
        root: The folder.
    """

    kind: StoreKind
    root: Path


def default_places(environment: Mapping[str, str], home: Path, platform: str) -> list[Place]:
    """Return the folders where programs keep models, whether they are there or not.

    Args:
        environment: The environment variables.
        home: The user's folder.
        platform: As `sys.platform` names it.
    """
    places = []
    seen = set()
    for place in _places(environment, home, platform):
        if place.root not in seen:  # llama.cpp may share the Hugging Face cache
            seen.add(place.root)
            places.append(place)
    return places


def this_machine() -> list[Place]:
    """Return `default_places` of this machine and its user."""
    return default_places(os.environ, _home(), sys.platform)


def this_machine_ollama() -> list[Path]:
    """Return `ollama_roots` of this machine and its user."""
    return ollama_roots(os.environ, _home(), sys.platform)


def _home() -> Path:
    return Path(os.path.expanduser("~"))  # unlike Path.home, it never raises


def present_places(places: list[Place]) -> list[Place]:
    """Return the places that are there, those included that may not be looked at."""
    present = []
    for place in places:
        try:
            os.stat(place.root)
        except PermissionError:
            present.append(place)  # scanning it tells the reason
        except (OSError, ValueError):
            continue
        else:
            present.append(place)
    return present


def _places(environment: Mapping[str, str], home: Path, platform: str) -> Iterator[Place]:
    for root in ollama_roots(environment, home, platform):
        yield Place(StoreKind.OLLAMA, root)
    yield Place(StoreKind.HUGGINGFACE, hub_cache(environment, home))
    yield Place(StoreKind.LMSTUDIO, home / ".lmstudio" / "models")
    yield Place(StoreKind.LMSTUDIO, home / ".cache" / "lm-studio" / "models")
    yield Place(StoreKind.LLAMA_CPP, _llama_cpp_cache(environment, home, platform))


def ollama_roots(environment: Mapping[str, str], home: Path, platform: str) -> list[Path]:
    """Return the folders where Ollama keeps models, the likeliest first."""
    chosen = environment.get("OLLAMA_MODELS")
    if chosen:
        return [Path(chosen)]
    roots = [home / ".ollama" / "models"]
    if platform.startswith("linux"):
        roots.append(_SERVICE_MODELS)
    return roots


def hub_cache(environment: Mapping[str, str], home: Path) -> Path:
    """Return the cache of huggingface_hub."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if environment.get(name):
            return Path(environment[name])
    if environment.get("HF_HOME"):
        return Path(environment["HF_HOME"]) / "hub"
    return _cache_home(environment, home) / "huggingface" / "hub"


def _cache_home(environment: Mapping[str, str], home: Path) -> Path:
    chosen = environment.get("XDG_CACHE_HOME")
    return Path(chosen) if chosen else home / ".cache"


def _llama_cpp_cache(environment: Mapping[str, str], home: Path, platform: str) -> Path:
    if environment.get("LLAMA_CACHE"):
        return Path(environment["LLAMA_CACHE"])
    if platform == "darwin":
        return home / "Library" / "Caches" / "llama.cpp"
    if platform == "win32":
        local = environment.get("LOCALAPPDATA")
        return (Path(local) if local else home / "AppData" / "Local") / "llama.cpp"
    return _cache_home(environment, home) / "llama.cpp"
