"""The one-folder program made by PyInstaller, with the licences of all that is in it."""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
from pathlib import Path

import icons
import licences
from proof import (
    Started,
    new_home,
    prove_commands,
    prove_window,
    smallest_quantized_tensor,
)
from tools import BUILD, DIST, NAME, ROOT, PackagingError, new_folder, run, say

from explorer import __version__

FOLDER = DIST / NAME
SPEC = ROOT / "packaging" / "pyinstaller" / f"{NAME}.spec"


def build_frozen(dist: Path = DIST, build: Path = BUILD) -> Path:
    """Freeze the program and return its folder.

    Args:
        dist: The folder that gets the program's folder.
        build: The folder for what is needed on the way; both are in one.

    Raises:
        PackagingError: PyInstaller failed, or a part has no licence.
    """
    icons.write_all()
    say("freezing the program: a minute or more")
    run(
        [
            *[sys.executable, "-P", "-m", "PyInstaller", "--noconfirm", "--log-level", "WARN"],
            *["--distpath", dist, "--workpath", build / "pyinstaller", SPEC],
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
    prove_window(fresh, model)  # compiles in a second program, which is the same file


def prove_moved(program: Started, model: Path) -> None:
    """See that a folder that was moved finds its kernels again.

    Raises:
        PackagingError: It compiled them anew.
    """
    moved = BUILD / "moved" / "elsewhere"
    shutil.rmtree(moved.parent, ignore_errors=True)
    moved.parent.mkdir(parents=True)
    FOLDER.rename(moved)
    try:
        prove_commands(Started("frozen, moved", [program_in(moved)], program.home), model)
    finally:
        moved.rename(FOLDER)
    folders = list((program.home / ".cache" / NAME).glob("kernels-*/*/"))
    names = {folder.name for folder in folders}
    if any(not name.startswith("explorer_") for name in names):
        raise PackagingError(f"kernels are kept by where the program lies: {sorted(names)}")


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
