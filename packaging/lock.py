"""Make packaging/lock/ anew: the newest versions that pyproject.toml allows, with their hashes.

  python3 packaging/lock.py

uv resolves for every supported Python on Linux at once, in a throw-away environment. The files
are pip's requirements files: program.txt is what the program needs, tests.txt adds the rest. They
list wheels for glibc on x86_64 and aarch64, and the source archive where such a wheel is missing.
"""

from __future__ import annotations

import re
import tempfile
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import Any

from tools import ROOT, PackagingError, fail, new_venv, pip_install, run, say

LOCK = ROOT / "packaging" / "lock"
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
OLDEST, BEYOND = map(int, re.findall(r'requires-python = ">=3\.(\d+),<3\.(\d+)"', PROJECT)[0])
MACHINES = ("x86_64", "aarch64")
TARGETS = {(minor, machine) for minor in range(OLDEST, BEYOND) for machine in MACHINES}
LINUX, BEFORE = "sys_platform == 'linux'", f"python_full_version < '3.{BEYOND}'"
IMPLIED = (LINUX, BEFORE, f"python_full_version >= '3.{OLDEST}'")  # part of every marker
PROGRAM = ("--extra", "gui", "--extra", "nvidia", "--extra", "remote")
HEAD = "# Made by packaging/lock.py; do not edit.\n"


def supported(wheel: str) -> set[tuple[int, str]]:
    """Return the targets that a wheel is for: minor version of Python and machine."""
    python, abi, platform = wheel.removesuffix(".whl").split("-")[-3:]

    def fits(minor: int, machine: str) -> bool:
        if platform != "any" and not re.search(rf"manylinux.*_{machine}$", platform):
            return False
        if "abi3" in abi.split("."):
            return int(python.removeprefix("cp3")) <= minor
        return "py3" in python.split(".") or python == abi == f"cp3{minor}"

    return {target for target in TARGETS if fits(*target)}


def resolve(python: Path, folder: Path, *options: str) -> list[dict[str, Any]]:
    """Return the packages that uv chooses, as a pylock.toml lists them."""
    lock = folder / "pylock.toml"
    lock.unlink(missing_ok=True)  # uv would keep its versions
    output = ("--universal", f"--python-version=3.{OLDEST}", "--format=pylock.toml", "--quiet")
    compiled = ("pip", "compile", "pyproject.toml", "build.in", *output, *options, "-o", str(lock))
    run([python.with_name("uv"), *compiled], cwd=folder)
    packages: list[dict[str, Any]] = tomllib.loads(lock.read_text(encoding="utf-8"))["packages"]
    return packages


def pin(package: dict[str, Any]) -> str:
    """Return a package as a requirement of one version, with its marker."""
    terms = package.get("marker", LINUX).split(" and ")
    marker = " and ".join(term for term in terms if term not in IMPLIED)
    return f"{package['name']}=={package['version']}" + (f" ; {marker}" if marker else "")


def entries(packages: list[dict[str, Any]]) -> list[str]:
    """Return the entries of a requirements file: pins with the hashes of their files."""
    hashes: defaultdict[str, list[str]] = defaultdict(list)
    covered: defaultdict[str, set[tuple[int, str]]] = defaultdict(set)
    for package in packages:
        for wheel in package.get("wheels", []):
            if targets := supported(wheel["url"].rsplit("/", 1)[1]):
                covered[package["name"]] |= targets  # of all its versions
                hashes[pin(package)].append(wheel["hashes"]["sha256"])
    for package in packages:
        if covered[package["name"]] != TARGETS:
            if "sdist" not in package:
                raise PackagingError(f"{package['name']} has no files for some supported Python")
            say(f"{package['name']}: a wheel is missing, so the source archive is locked too")
            hashes[pin(package)].append(package["sdist"]["hashes"]["sha256"])
    return [
        " \\\n    ".join([pinned, *(f"--hash=sha256:{digest}" for digest in sorted(digests))])
        for pinned, digests in sorted(hashes.items())
    ]


def main() -> None:
    """Resolve, write both files, and print the versions that changed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pip_install(python := new_venv(folder / "venv"), "uv")
        limit = f'[tool.uv]\nenvironments = ["{LINUX} and {BEFORE}"]\n'
        (folder / "pyproject.toml").write_text(f"{PROJECT}\n{limit}", encoding="utf-8")
        # An editable installation takes hatchling's editables in addition to the backend.
        build = [*tomllib.loads(PROJECT)["build-system"]["requires"], "editables"]
        (folder / "build.in").write_text("\n".join(build), encoding="utf-8")
        everything = resolve(python, folder, "--all-extras")
        (folder / "pins.txt").write_text("\n".join(map(pin, everything)), encoding="utf-8")
        program = entries(resolve(python, folder, *PROGRAM, "--constraint=pins.txt"))
    rest = [entry for entry in entries(everything) if entry not in program]
    before = "".join(path.read_text(encoding="utf-8") for path in LOCK.glob("*.txt"))
    files = {
        "program.txt": "\n".join([HEAD, *program, ""]),
        "tests.txt": "\n".join([f"{HEAD}-r program.txt\n", *rest, ""]),
    }
    LOCK.mkdir(exist_ok=True)
    for name, text in files.items():
        (LOCK / name).write_text(text, encoding="utf-8")
    old, new = (
        set(re.findall(r"(?m)^(\w.*) \\$", text)) for text in (before, "".join(files.values()))
    )
    for changed in sorted(old ^ new):
        say(f"{'+' if changed in new else '-'} {changed}")
    say(f"{len(new)} packages locked, {len(new - old)} of them new or changed")


if __name__ == "__main__":
    try:
        main()
    except PackagingError as error:
        fail(str(error))
