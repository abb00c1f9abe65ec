"""Whether a path that a stranger's file names stays where it belongs.

A digest or a file name in an index is checked as text before it becomes a path. What text cannot
tell is whether the path is a symbolic link: an archive or a repository may bring one that points
anywhere.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

HUB_REPOSITORY: Final = "models--"
"""What the folders of repositories in the Hugging Face hub's cache begin with."""


def leads_out(path: Path, *roots: Path) -> bool:
    """Tell whether a path, all symbolic links followed, is outside of all the folders given.

    A folder may be a link itself: whoever uses the program put it there. A path that cannot be
    looked at leads nowhere.

    Args:
        path: A path that begins in one of the folders.
        roots: Folders that it may lead into.
    """
    try:
        target = os.path.realpath(path)
        return not any(_is_inside(target, os.path.realpath(root)) for root in roots)
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return False


def hub_cache(folder: Path) -> Path | None:
    """Return the Hugging Face cache of which a folder is a snapshot, or lies in one; else None."""
    for parent in (found := Path(os.path.abspath(folder)), *found.parents):
        if parent.parent.name == "snapshots":
            repository = parent.parents[1]
            return repository.parent if repository.name.startswith(HUB_REPOSITORY) else None
    return None


def _is_inside(target: str, folder: str) -> bool:
    try:
        return os.path.commonpath((target, folder)) == folder
    except ValueError:  # on different drives
        return False
