"""Data files that the program ships: found the same way in a checkout, a wheel and a frozen build.

A build maps the checkout's `resources/` into the package as `explorer/_resources` (pyproject.toml);
in a checkout that folder is missing and the original lies beside the package.
"""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path


def resource(name: str) -> Traversable:
    """Return a shipped file or folder.

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
