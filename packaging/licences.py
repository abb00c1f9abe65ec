"""Gather the licence of everything that a frozen program contains.

A part without a licence stops the build: we may not give away what we cannot name the terms of.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from tools import ROOT, PackagingError

sys.path.append(str(ROOT / "packaging" / "pyinstaller"))
from strangers import canonical

TEXTS = ROOT / "packaging" / "licences"
_LICENCE_FILE = re.compile(r"(?i)(^|/)(licen[cs]es?/|licen[cs]e|copying|notice|authors)")
# The wheels of Qt come without a text; qt.io/licensing: LGPL 3 or GPL; the former refers to the
# latter. The one-folder form keeps Qt's libraries apart, so that users can exchange them.
_WITHOUT_TEXT = {
    "pyside6-essentials": ("LGPL-3.0.txt", "GPL-3.0.txt"),
    "shiboken6": ("LGPL-3.0.txt", "GPL-3.0.txt"),
}
# Its terms are the comment at the top of its only module.
_IN_A_MODULE = {"nvidia-ml-py": "pynvml.py"}
NOTICE = """\
GGUF Explorer is under the MIT licence: LICENSE.

Each folder here has the licence of a part that this program contains.

Qt and PySide6 are used under the GNU Lesser General Public License, version 3. Their libraries lie
beside the program as files of their own; you may replace them by versions that you have changed.
Their source code: https://code.qt.io/ (qt/qtbase, qt/qtsvg, pyside/pyside-setup). What Qt itself
contains of others: https://doc.qt.io/qt-6/licenses-used-in-qt.html
"""


def of_distribution(name: str, target: Path) -> int:
    """Copy the licence files of an installed package; return how many.

    Args:
        name: The package, as pip calls it.
        target: The folder that gets them.

    Raises:
        PackagingError: It has none, and we know of none.
    """
    distribution = metadata.distribution(name)
    files = distribution.files or []
    places = [
        file
        for file in files
        if ".dist-info" in file.parts[0] and _LICENCE_FILE.search("/".join(file.parts[1:]))
    ]
    inside = _IN_A_MODULE.get(canonical(name))
    if not places and inside is not None:
        copy(Path(str(distribution.locate_file(inside))), target / inside)
        return 1
    for file in places:
        copy(Path(str(file.locate())), target / "/".join(file.parts[1:]).removeprefix("licenses/"))
    texts = () if places else _WITHOUT_TEXT.get(canonical(name), ())
    for text in texts:
        copy(TEXTS / text, target / text)
    if not places and not texts:
        raise PackagingError(f"{name} has no licence file: find out its terms, see licences.py")
    return len(places) + len(texts)


def copy(source: Path, target: Path) -> None:
    """Copy a file and make the folders above it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def distributions_of(modules: Iterable[str]) -> list[str]:
    """Return the packages that modules come from; the standard library's come from none."""
    owners = metadata.packages_distributions()
    tops = {module.split(".")[0] for module in modules}
    return sorted({canonical(owner) for top in tops for owner in owners.get(top, ())})


def debian_packages(libraries: Iterable[Path]) -> dict[str, Path]:
    """Return the Debian packages that own shared libraries, each with its copyright file.

    Raises:
        PackagingError: A library belongs to no package.
    """
    found: dict[str, Path] = {}
    for library in sorted(set(libraries)):
        package = debian_owner(library)
        text = Path("/usr/share/doc") / package / "copyright"
        if not package or not text.exists():
            raise PackagingError(f"{library}: find out its terms, see licences.py")
        found[package] = text
    return found


def debian_owner(library: Path) -> str:
    """Return the Debian package that a library belongs to; empty if to none."""
    # /lib is a link to /usr/lib, and dpkg knows a file by either
    for path in (library, library.resolve(), Path("/", *library.resolve().parts[2:])):
        done = subprocess.run(
            ["dpkg", "-S", str(path)], capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            return done.stdout.split(":")[0]
    return ""


def python_licence() -> Path:
    """Return the licence of the interpreter.

    Raises:
        PackagingError: It is not where Python installs it.
    """
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for path in (
        Path(sysconfig.get_path("stdlib")) / "LICENSE.txt",
        Path(sys.base_prefix) / "LICENSE.txt",
        Path("/usr/share/doc") / version / "copyright",
    ):
        if path.exists():
            return path
    raise PackagingError("the licence of Python is not beside it")


def system_libraries(binaries: Iterable[str]) -> list[Path]:
    """Return the shared libraries that neither a wheel nor the interpreter brought."""
    ours = [Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve()]
    if Path(sys.base_prefix) == Path("/usr"):
        ours = ours[:1]  # the interpreter is the system's: so are its libraries
    paths = [Path(binary) for binary in binaries]
    return [
        path for path in paths if not any(path.resolve().is_relative_to(place) for place in ours)
    ]


def gather(record: Path, target: Path) -> int:
    """Gather all licences for a frozen program.

    Args:
        record: What the recipe wrote: ``{"modules": […], "binaries": […]}``.
        target: The folder that gets them.

    Returns:
        For how many parts.

    Raises:
        PackagingError: The terms of a part are not known.
    """
    content = json.loads(record.read_text(encoding="utf-8"))
    target.mkdir(parents=True, exist_ok=True)
    (target / "README.txt").write_text(NOTICE, encoding="utf-8")
    copy(ROOT / "LICENSE", target / "LICENSE")
    copy(python_licence(), target / "python" / "LICENSE.txt")
    names = [name for name in distributions_of(content["modules"]) if name != "gguf-explorer"]
    for name in [*names, "pyinstaller"]:  # whose loader is in every frozen program
        of_distribution(name, target / name)
    system = {}
    if sys.platform == "linux":
        system = debian_packages(system_libraries(content["binaries"]))
    for package, text in system.items():
        copy(text, target / "debian" / package / "copyright")
    return len(names) + len(system) + 3
