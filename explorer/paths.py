"""The user's cache folder, and the data files that the program ships."""

from __future__ import annotations

import os
import sys
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

CACHE_VARIABLE = "GGUF_EXPLORER_CACHE"


def cache_folder() -> Path:
    """Return the user's cache folder of this program; it need not exist.

    `GGUF_EXPLORER_CACHE` names another one. Else the system's custom holds: `XDG_CACHE_HOME` or
    `~/.cache` on Linux (XDG Base Directory Specification; a relative path there is ignored, as it
    says), `~/Library/Caches` on macOS, `%LOCALAPPDATA%` on Windows.

    Raises:
        RuntimeError: The user has no home folder that the system knows of.
    """
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen).absolute()
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        base = Path(local) if local else Path.home() / "AppData" / "Local"
        return base / "gguf-explorer" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "gguf-explorer"
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(xdg) if os.path.isabs(xdg) else Path.home() / ".cache"
    return base / "gguf-explorer"


def resource(name: str) -> Traversable:
    """Return a shipped file or folder, in a checkout, a wheel or a frozen build.

    A build maps the checkout's `resources/` into the package as `explorer/_resources`
    (pyproject.toml); in a checkout the original lies beside the package.

    Args:
        name: Its place below `resources/`, with slashes: ``"demo/words.txt"``.

    Raises:
        FileNotFoundError: The installation lacks it.
    """
    package = files("explorer")
    place = package / "_resources"
    if not place.is_dir() and isinstance(package, Path):
        place = package.parent / "resources"
    for part in name.split("/"):
        place = place / part
    if not (place.is_file() or place.is_dir()):
        raise FileNotFoundError(f"the installation lacks its file {name!r}; install it again")
    return place
