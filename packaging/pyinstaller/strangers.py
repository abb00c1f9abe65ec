"""Finds installed packages that are no part of the program.

PyInstaller follows every import, those too that a library only tries: pyqtgraph offers matplotlib,
Numba colours its listings with Pygments. Whether they come along must not depend on what else the
building machine has installed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from importlib import metadata

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def canonical(requirement: str) -> str:
    """Return the name of a requirement's package, as registries compare names (PEP 503)."""
    match = _NAME.match(requirement.strip())
    return "" if match is None else re.sub(r"[-_.]+", "-", match.group()).lower()


def requirements_of(name: str) -> list[str]:
    """Return what an installed package requires, without its extras; nothing if it is absent."""
    try:
        listed = metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        return []  # of another system, as colorama may be
    return [requirement for requirement in listed if "extra ==" not in requirement]


def closure(
    requirements: Iterable[str], ask: Callable[[str], Iterable[str]] = requirements_of
) -> set[str]:
    """Return the names of required packages, and of all that those require."""
    waiting, found = [canonical(requirement) for requirement in requirements], set()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += map(canonical, ask(name))
    return found


def strangers(requirements: Iterable[str]) -> list[str]:
    """Return the modules of all installed packages that the requirements do not lead to."""
    ours = closure(requirements)
    return sorted(
        module
        for module, owners in metadata.packages_distributions().items()
        if ours.isdisjoint(map(canonical, owners))
    )
