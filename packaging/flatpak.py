"""The Flatpak: the wheel and what it needs, in KDE's runtime, without network and read-only.

The manifest's permissions, with their reasons:

- wayland, fallback-x11, ipc (X11's shared memory), dri (graphics; also lets NVML see the GPUs);
- the folders where models are downloaded to, each read-only. /usr/share/ollama, of a system-wide
  Ollama, is a path that Flatpak keeps for itself: such a store is opened by the file dialog;
- no network: the program needs none;
- QT_PLUGIN_PATH is emptied: the wheel brings its own Qt, which must not load the plug-ins of the
  runtime's. The runtime is KDE's for its libxcb-cursor, which Qt needs on X11.

Libraries stay as their makers built them: flatpak-builder would strip them, and pack what it took
off. Of the programs that come with the wheels, only ours is kept.

A build has no network: the wheels are fetched before, for the runtime's Python.
"""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path

import python_package
from tools import APP_ID, BUILD, ROOT, PackagingError, new_folder, run, say, tool

MANIFEST = ROOT / "packaging" / "flatpak" / f"{APP_ID}.json"
WHEELS = BUILD / "flatpak" / "wheels"
PYTHON = "3.13"  # of freedesktop-sdk 25.08, on which KDE's runtime 6.10 stands
GLIBC = "2_34"  # what PySide6 asks for


def fetch_wheels() -> Path:
    """Put our wheel and all it needs, for the runtime's Python, into one folder; return it.

    Raises:
        PackagingError: Our wheel is not built, or pip failed.
    """
    if not python_package.WHEEL.exists():
        raise PackagingError("the Flatpak holds the wheel: build that first")
    machine = platform.machine()
    platforms = [f"--platform=manylinux_{minor}_{machine}" for minor in (GLIBC, "2_28", "2_17")]
    platforms.append(f"--platform=manylinux2014_{machine}")
    run(
        [
            *[sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet"],
            *["--only-binary=:all:", f"--python-version={PYTHON}", *platforms],
            *("--dest", new_folder(WHEELS), f"{python_package.WHEEL}[gui,nvidia]"),
        ]
    )
    return WHEELS


def builder_command(folder: Path, *options: str) -> list[str | Path]:
    """Return the command that builds the manifest into a folder's app/ and repository/.

    It keeps its state in the folder in which it is started.
    """
    repository = f"--repo={folder / 'repository'}"
    builder = tool("flatpak-builder", "flatpak-builder")
    return [builder, "--force-clean", *options, repository, folder / "app", MANIFEST]


def build_flatpak() -> None:
    """Fetch the wheels, read the manifest, and build where the runtime is installed.

    Raises:
        PackagingError: flatpak-builder refuses the manifest, or a build failed.
    """
    wheels = list(fetch_wheels().glob("*.whl"))
    size = sum(wheel.stat().st_size for wheel in wheels)
    say(f"{len(wheels)} wheels for Python {PYTHON}: {size / 1e6:.0f} MB")
    builder = tool("flatpak-builder", "flatpak-builder")
    folder = WHEELS.parent
    manifest = json.loads(run([builder, "--show-manifest", MANIFEST], cwd=folder))
    runtime = f"{manifest['sdk']}//{manifest['runtime-version']}"
    try:
        run([tool("flatpak", "flatpak"), "info", runtime])
    except PackagingError:
        say(f"{runtime} is not installed: the manifest was read, and nothing was built")
        return
    run(builder_command(folder), cwd=folder)
    say(f"{folder / 'repository'} has {APP_ID}")
