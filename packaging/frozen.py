"""The one-folder program made by PyInstaller, with the licences of all that is in it."""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
from importlib.util import find_spec
from pathlib import Path

import icons
import licences
from proof import (
    Started,
    files_of,
    new_home,
    prove_commands,
    prove_window,
    smallest_quantized_tensor,
)
from tools import BUILD, DIST, NAME, ROOT, PackagingError, new_folder, run, say
from wayland import prove_on_wayland

from explorer import __version__

FOLDER = DIST / NAME
SPEC = ROOT / "packaging" / "pyinstaller" / f"{NAME}.spec"
# What the build asks on Linux → its Debian package
TOOLS = {"objdump": "binutils", "dpkg": "dpkg"}


def missing() -> str:
    """Return what freezing needs and is not here, as a phrase; empty if nothing is missing."""
    if find_spec("PyInstaller") is None:
        return "PyInstaller; install it with: pip install -e '.[packaging]'"
    for name, package in TOOLS.items() if sys.platform == "linux" else ():
        if shutil.which(name) is None:
            return f"{name}; on Debian: apt-get install {package}"
    # needs objdump as soon as it is loaded
    from PyInstaller.depend.bindepend import get_python_library_path  # noqa: PLC0415
    from PyInstaller.exceptions import PythonLibraryNotFoundError  # noqa: PLC0415

    try:
        found = get_python_library_path()
    except PythonLibraryNotFoundError:
        found = None
    version = "{}.{}".format(*sys.version_info)
    return "" if found else f"Python's library; on Debian: apt-get install libpython{version}"


def build_frozen(dist: Path = DIST, build: Path = BUILD) -> Path:
    """Freeze the program and return its folder.

    Args:
        dist: The folder that gets the program's folder.
        build: The folder for what is needed on the way; both are in one.

    Raises:
        PackagingError: Something is missing, PyInstaller failed, or a part has no licence.
    """
    if lacking := missing():
        raise PackagingError(f"freezing needs {lacking}")
    icons.write_all()
    say("freezing the program: a minute or more")
    run(
        [
            *[sys.executable, "-P", "-m", "PyInstaller", "--noconfirm", "--log-level", "WARN"],
            *("--distpath", dist, "--workpath", build / "pyinstaller", SPEC),
        ]
    )
    folder = dist / NAME
    for path in folder.rglob("*"):
        if path.is_symlink() and not path.exists():
            raise PackagingError(f"{path} is a link to nothing")
    count = licences.gather(build / "frozen.json", new_folder(folder / "licences"))
    total = sum(path.lstat().st_size for path in folder.rglob("*"))
    say(f"{folder}: {total / 1e6:.0f} MB, licences of {count} parts")
    return folder


def pack_frozen() -> Path:
    """Put the folder into one archive that can be handed out, and return it."""
    path = DIST / f"{NAME}-{__version__}-{sys.platform}.tar.xz"
    with tarfile.open(path, "w:xz", preset=1) as archive:
        archive.add(FOLDER, NAME)
    say(f"{path.name}: {path.stat().st_size / 1e6:.0f} MB")
    return path


def program_in(folder: Path) -> Path:
    """Return the program in its folder."""
    return folder / (f"{NAME}.exe" if os.name == "nt" else NAME)


def start_frozen(model: Path) -> None:
    """Start the program from where it was built, and from another place.

    Raises:
        PackagingError: Something is not as promised.
    """
    program = Started("frozen", [program_in(FOLDER)], new_home("frozen"))
    prove_commands(program, model)
    prove_moved(program, model)
    prove_without_cache(program, model)
    fresh = Started("frozen-window", program.command, new_home("frozen-window"))
    prove_window(fresh, model)
    prove_on_wayland(Started("frozen-wayland", program.command, new_home("frozen-wayland")), model)


def prove_moved(program: Started, model: Path) -> None:
    """See that a folder that was moved finds its kernels again.

    Raises:
        PackagingError: It compiled them anew.
    """
    moved = BUILD / "moved" / "elsewhere"
    shutil.rmtree(moved.parent, ignore_errors=True)
    moved.parent.mkdir(parents=True)
    FOLDER.rename(moved)
    before = files_of(program.cache)
    try:
        prove_commands(Started("frozen, moved", [program_in(moved)], program.home), model)
    finally:
        moved.rename(FOLDER)
    if {path for path in files_of(program.cache) if path.suffix == ".nbc"} - set(before):
        raise PackagingError("kernels are kept by where the program lies")


def prove_without_cache(program: Started, model: Path) -> None:
    """See that statistics can be had where no compiled kernel can be kept.

    Raises:
        PackagingError: They cannot.
    """
    file = program.home / "a file is no folder"
    file.touch()
    environment = {**program.environment, "GGUF_EXPLORER_CACHE": str(file / "cache")}
    tensor = smallest_quantized_tensor(program, model)["name"]
    run([*program.command, "stats", model, tensor], cwd=program.home, environment=environment)
