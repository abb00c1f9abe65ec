"""Where the program keeps what it can make again."""

from __future__ import annotations

import os
import sys
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
