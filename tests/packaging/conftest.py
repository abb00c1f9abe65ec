"""The packaging scripts, which are no package: imported from their folder."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
_FOLDERS = (ROOT / "packaging", ROOT / "packaging" / "pyinstaller")


@pytest.fixture
def script() -> Iterator[Callable[[str], ModuleType]]:
    """Return a function that imports a script by its name."""
    path = list(sys.path)
    ours = {file.stem for folder in _FOLDERS for file in folder.glob("*.py")}
    others = {  # such as PyPI's `build`
        name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] in ours
    }
    modules = set(sys.modules)
    sys.path[:0] = [str(folder) for folder in _FOLDERS]
    yield importlib.import_module
    sys.path[:] = path
    for name in set(sys.modules) - modules:  # names such as `tools` belong to nobody
        place = getattr(sys.modules[name], "__file__", None) or ""
        if Path(place).parent in _FOLDERS:
            del sys.modules[name]
    sys.modules.update(others)
