"""The AppImage: the frozen program in the folder layout that appimagetool packs.

appimagetool and its runtime are in no registry that we may ask; where it is installed, it is used.
Where it is not, the same folder is packed as the file system that an AppImage holds, and started
from two places, read-only, as the runtime would: at each start it lies at another path.
"""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import frozen
import icons
from proof import Started, new_home, prove_commands, prove_window
from tools import APP_ID, BUILD, DIST, NAME, PackagingError, new_folder, run, say, shared_data, tool

from explorer import __version__

FOLDER = BUILD / "GGUF_Explorer.AppDir"
IMAGE = BUILD / "GGUF_Explorer.squashfs"
APPIMAGE = DIST / f"GGUF_Explorer-{__version__}-{platform.machine()}.AppImage"
APP_RUN = f"""\
#!/bin/sh
# Started by the AppImage's runtime, with the image mounted at $APPDIR.
exec "${{APPDIR:-$(dirname "$(readlink -f "$0")")}}/usr/lib/{NAME}/{NAME}" "$@"
"""


def build_appimage() -> Path:
    """Make the folder, and the AppImage where appimagetool is installed; return the folder.

    Raises:
        PackagingError: The frozen program is not there, or a tool failed.
    """
    if not frozen.program_in(frozen.FOLDER).exists():
        raise PackagingError("the AppImage holds the frozen program: build that first")
    new_folder(FOLDER)
    shutil.copytree(frozen.FOLDER, FOLDER / "usr" / "lib" / NAME, symlinks=True)
    for source, place in shared_data().items():
        target = FOLDER / "usr" / place
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    share = FOLDER / "usr" / "share"
    shutil.copyfile(share / "applications" / f"{APP_ID}.desktop", FOLDER / f"{APP_ID}.desktop")
    icon = share / "icons" / "hicolor" / "scalable" / "apps" / f"{APP_ID}.svg"
    shutil.copyfile(icon, FOLDER / f"{APP_ID}.svg")
    icons.write_all()
    shutil.copyfile(icons.FOLDER / f"{NAME}-256.png", FOLDER / ".DirIcon")
    start = FOLDER / "AppRun"
    start.write_text(APP_RUN, encoding="utf-8")
    start.chmod(0o755)
    if shutil.which("appimagetool"):
        environment = {**os.environ, "VERSION": __version__, "ARCH": platform.machine()}
        run(["appimagetool", "--no-appstream", FOLDER, APPIMAGE], environment=environment)
        say(f"{APPIMAGE.name}: {APPIMAGE.stat().st_size / 1e6:.0f} MB")
    return FOLDER


@contextmanager
def mounted() -> Iterator[Path]:
    """Mount the image at a random place, as the runtime does."""
    place = Path(tempfile.mkdtemp(prefix=".mount_GGUF_E"))
    run(["mount", "-t", "squashfs", "-o", "loop,ro", IMAGE, place])
    try:
        yield place
    finally:
        run(["umount", place])
        place.rmdir()


def start_appimage(model: Path) -> None:
    """Start what was built.

    Raises:
        PackagingError: Something is not as promised.
    """
    home = new_home("appimage")
    if APPIMAGE.exists():
        program = Started("appimage", [APPIMAGE], home)
        prove_commands(program, model)
        prove_window(program, model)
    elif os.name == "posix" and os.geteuid() == 0:
        pack = ["-noappend", "-quiet", "-no-progress", "-all-root"]
        run([tool("mksquashfs", "squashfs-tools"), FOLDER, IMAGE, *pack, "-comp", "zstd"])
        say(f"no appimagetool here: mounting {IMAGE.name}, {IMAGE.stat().st_size / 1e6:.0f} MB")
        with mounted() as place:
            prove_commands(Started("appimage", [place / "AppRun"], home), model)
        before = kernels(home)
        with mounted() as place:
            program = Started("appimage, mounted again", [place / "AppRun"], home)
            prove_commands(program, model)
            if kernels(home) != before:
                raise PackagingError("the second mount compiled kernels again")
            prove_window(Started("appimage", program.command, home), model)
    else:
        say("no appimagetool here, and only root may mount: starting the folder itself")
        program = Started("appimage", [FOLDER / "AppRun"], home)
        prove_commands(program, model)
        prove_window(program, model)


def kernels(home: Path) -> list[Path]:
    """Return the files of compiled kernels below a home folder."""
    return sorted((home / ".cache" / NAME).rglob("*.nbc"))
