"""Names that a package offers without loading the modules that they are in (PEP 562).

A package's `__init__` runs before any of its modules, so that what it imports is loaded by whoever
wants the least of them: Numba by a window that lists a model. On the ground floor because every
package may have such names. Type checkers do not follow them; a package imports them once more
under `TYPE_CHECKING`, and takes this in the other branch, so that a name with a slip is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from typing import Any


def late_names(package: str, modules: Mapping[str, Collection[str]]) -> Callable[[str], Any]:
    """Return a `__getattr__` for a package, which loads a module when one of its names is wanted.

    Args:
        package: The package, its ``__name__``.
        modules: The names that each module of the package gives. None is that of a module itself:
            once loaded, the module would hide it.
    """
    module_of = {name: module for module, names in modules.items() for name in names}

    def find(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{module_of[name]}"), name)

    return find
