"""Whether a path that a stranger's file names stays where it belongs.

A digest or a file name in an index is checked as text before it becomes a path. What text cannot
tell is whether the path is a symbolic link: an archive or a repository may bring one that points
anywhere.
"""

from __future__ import annotations

import os
from pathlib import Path


def leads_out(path: Path, *roots: Path) -> bool:
    """Tell whether a path is a symbolic link to a place outside of all the folders given.

    A folder may be a link itself: whoever uses the program put it there. A path that is not there,
    or cannot be looked at, leads nowhere.

    Args:
        path: A path directly inside one of the folders.
        roots: Folders that it may lead into.
    """
    try:
        if not os.path.islink(path):
            return False
        target = os.path.realpath(path)
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return False
    return not any(_is_inside(target, os.path.realpath(root)) for root in roots)


def _is_inside(target: str, folder: str) -> bool:
    try:
        return os.path.commonpath((target, folder)) == folder
    except ValueError:  # on different drives
        return False
