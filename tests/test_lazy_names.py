"""Packages that load a module with the first of its names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import explorer.analysis
import explorer.formats
import explorer.planner
import explorer.quantization

_PACKAGES = (explorer.analysis, explorer.formats, explorer.planner, explorer.quantization)

_PROGRAM = """
import sys
import explorer.formats as package
late = "explorer.formats.open"
assert late not in sys.modules
from explorer.formats import open_model
assert open_model is sys.modules[late].open_model
"""


def test_a_module_is_loaded_with_the_first_of_its_names() -> None:
    root = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], check=False, cwd=root, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_a_name_that_is_not_there_is_an_error_as_anywhere() -> None:
    for package in _PACKAGES:
        with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute"):
            _ = package.nothing
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        from explorer.analysis import nothing  # noqa: F401


@pytest.mark.parametrize("package", _PACKAGES, ids=lambda package: package.__name__)
def test_every_name_that_a_package_offers_is_there(package: ModuleType) -> None:
    for name in package.__all__:
        assert not isinstance(getattr(package, name), ModuleType), name
