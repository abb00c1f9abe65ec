"""packaging/lock/ agrees with pyproject.toml; packaging/lock.py reads names of wheels."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "packaging" / "lock"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PYTHONS = [
    minor
    for minor in range(8, 30)
    if f"3.{minor}" in SpecifierSet(PROJECT["project"]["requires-python"])
]
AGAIN = "run packaging/lock.py"


def entries(file: str) -> dict[str, list[str]]:
    """Return the pins of one lock file with their hashes."""
    text = (LOCK / file).read_text(encoding="utf-8").replace(" \\\n", "")
    lines = [line.split(" --hash=") for line in text.splitlines() if re.match(r"\w", line)]
    return {line[0].rstrip(): [digest.strip() for digest in line[1:]] for line in lines}


def locked(files: tuple[str, ...], minor: int) -> dict[str, str]:
    """Return the version of each package that is installed on Linux with Python 3.minor."""
    environment = {
        "python_version": f"3.{minor}",
        "python_full_version": f"3.{minor}.1",
        "sys_platform": "linux",
        "platform_python_implementation": "CPython",
    }
    versions: dict[str, str] = {}
    for requirement in (Requirement(pin) for file in files for pin in entries(file)):
        if requirement.marker is None or requirement.marker.evaluate(environment):
            (specifier,) = requirement.specifier
            assert specifier.operator == "=="
            name = canonicalize_name(requirement.name)
            assert versions.setdefault(name, specifier.version) == specifier.version, name
    return versions


def declared(*extras: str) -> list[Requirement]:
    listed = [PROJECT["project"]["dependencies"], PROJECT["build-system"]["requires"]]
    listed += [PROJECT["project"]["optional-dependencies"][extra] for extra in extras]
    return [Requirement(line) for requirements in listed for line in requirements]


@pytest.mark.parametrize("minor", PYTHONS)
@pytest.mark.parametrize(
    ("files", "extras"),
    [
        (("program.txt",), ("gui", "nvidia")),
        (("program.txt", "tests.txt"), tuple(PROJECT["project"]["optional-dependencies"])),
    ],
    ids=["program", "tests"],
)
def test_each_dependency_is_locked_in_a_version_that_is_allowed(
    files: tuple[str, ...], extras: tuple[str, ...], minor: int
) -> None:
    versions = locked(files, minor)
    for requirement in declared(*extras):
        version = versions.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement.name} is not locked: {AGAIN}"
        assert version in requirement.specifier, f"{requirement} but {version} locked: {AGAIN}"
    assert "editables" in versions  # the editable installation builds without network


@pytest.mark.parametrize("file", ["program.txt", "tests.txt"])
def test_each_entry_has_hashes(file: str) -> None:
    pins = entries(file)
    assert len(pins) > 10
    for pin, hashes in pins.items():
        assert hashes, pin
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", digest) for digest in hashes), pin


def test_the_tests_add_to_what_the_program_needs() -> None:
    assert "\n-r program.txt\n" in (LOCK / "tests.txt").read_text(encoding="utf-8")
    assert not entries("tests.txt").keys() & entries("program.txt").keys()


def test_no_entry_names_an_index() -> None:
    for path in LOCK.iterdir():
        assert not re.search(r"://|--(extra-)?index|--find-links", path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("wheel", "pythons", "machines"),
    [
        ("x-1-py3-none-any.whl", PYTHONS, ("aarch64", "x86_64")),
        ("x-1-py2.py3-none-any.whl", PYTHONS, ("aarch64", "x86_64")),
        ("x-1-1-cp312-cp312-manylinux_2_17_x86_64.manylinux2014_x86_64.whl", [12], ("x86_64",)),
        ("x-1-cp39-abi3-manylinux_2_34_x86_64.whl", PYTHONS, ("x86_64",)),
        ("x-1-cp313-abi3-manylinux_2_39_aarch64.whl", [13, 14], ("aarch64",)),
        ("x-1-cp315-abi3.abi3t-manylinux_2_17_x86_64.whl", [], ()),
        ("x-1-cp314-cp314t-manylinux_2_17_x86_64.whl", [], ()),
        ("x-1-cp310-cp310-manylinux_2_17_x86_64.whl", [], ()),
        ("x-1-py3-none-musllinux_1_2_x86_64.whl", [], ()),
        ("x-1-py3-none-win_amd64.whl", [], ()),
        ("x-1-pp311-pypy311_pp73-manylinux_2_17_x86_64.whl", [], ()),
    ],
)
def test_only_wheels_of_supported_systems_are_locked(
    script: Callable[[str], ModuleType], wheel: str, pythons: list[int], machines: tuple[str, ...]
) -> None:
    expected = {(minor, machine) for minor in pythons for machine in machines}
    assert script("lock").supported(wheel) == expected


def test_a_package_without_a_wheel_is_locked_as_a_source_archive(
    script: Callable[[str], ModuleType],
) -> None:
    def file(name: str, digest: str) -> dict[str, object]:
        return {"url": f"https://host/{name}", "hashes": {"sha256": digest}}

    package = {
        "name": "x",
        "version": "1",
        "marker": "python_full_version == '3.11.*' and sys_platform == 'linux'",
        "sdist": file("x-1.tar.gz", "b"),
        "wheels": [file("x-1-cp311-cp311-manylinux_2_17_x86_64.whl", "a")],
    }
    pin = "x==1 ; python_full_version == '3.11.*'"
    lock = script("lock")
    expected = f"{pin} \\\n    --hash=sha256:a \\\n    --hash=sha256:b"
    assert lock.entries([package]) == [expected]
    package["wheels"] = [file("x-1-py3-none-any.whl", "a")]
    assert lock.entries([package]) == [f"{pin} \\\n    --hash=sha256:a"]
