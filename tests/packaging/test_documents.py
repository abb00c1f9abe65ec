"""What packaging/README.md says is what the scripts do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

TEXT = " ".join(
    (Path(__file__).resolve().parents[2] / "packaging" / "README.md")
    .read_text(encoding="utf-8")
    .replace("\\\n", "")
    .split()
)


@pytest.mark.parametrize("package", ["wheel", "frozen"])
def test_a_clean_system_gets_only_the_packages_that_are_named(
    script: Callable[[str], ModuleType], package: str
) -> None:
    names = script("try_clean").LIBRARIES[package]
    assert f"apt-get install --no-install-recommends {' '.join(names)} ```" in TEXT


def test_every_package_is_named(script: Callable[[str], ModuleType]) -> None:
    for name in script("build").PACKAGES:
        assert f"[{name}]" in TEXT
    for name in script("try_clean").INSTALLERS:
        assert f"[{name}]" in TEXT


def test_tools_that_look_at_windows_are_named(script: Callable[[str], ModuleType]) -> None:
    for package in script("screen").TOOLS.values():
        assert package in TEXT
