"""The user's folders of this program, and the data files that it ships."""

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
        return _base("LOCALAPPDATA", "AppData/Local") / "gguf-explorer" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "gguf-explorer"
    return _base("XDG_CACHE_HOME", ".cache") / "gguf-explorer"


def settings_file() -> Path:
    """Return the user's settings file, where Qt has it; it need not exist.

    Raises:
        RuntimeError: The user has no home folder that the system knows of.
    """
    if sys.platform == "win32":
        base = _base("APPDATA", "AppData/Roaming")
    else:
        base = _base("XDG_CONFIG_HOME", ".config")
    return base / "gguf-explorer" / "gguf-explorer.ini"


def user_id() -> int | None:
    """Return this user's number, as `os.stat` gives owners; None on Windows, which has none."""
    if sys.platform == "win32" or not hasattr(os, "geteuid"):
        return None
    return os.geteuid()


def _base(variable: str, usual: str) -> Path:
    """Return the folder that a variable names absolutely, else the usual one in the home folder."""
    named = os.environ.get(variable, "")
    return Path(named) if os.path.isabs(named) else Path.home() / usual


def resource(name: str) -> Traversable:
    """Return a shipped file or folder, in a checkout, a wheel or a frozen build.

    A build maps the checkout's `resources/` into the package as `explorer/_resources`
    (pyproject.toml); in a checkout the original lies beside the package.

    Args:
        name: Its place below `resources/`, with slashes: ``"guide/start.md"``.

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
        raise FileNotFoundError(f"the installation lacks its file {name!r}. Install it again")
    return place


def demo_model() -> Path:
    """Return the demo model: a GGUF file of random weights that the program ships."""
    return Path(str(resource("demo/Demo-2.5M-v1.0-Q4_0.gguf")))
