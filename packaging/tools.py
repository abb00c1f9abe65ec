"""What the packaging scripts share: the places, running other programs, and saying what happens."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"  # what is given to people
BUILD = ROOT / "build"  # what is needed on the way
PICTURES = BUILD / "screenshots"
NAME = "gguf-explorer"
APP_ID = "io.github.gguf_explorer.GGUFExplorer"
LINUX = ROOT / "packaging" / "linux"
ICON = ROOT / "resources" / "icons" / "gguf-explorer.svg"
LIMIT_S = 900.0

if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))  # a script's own folder is there, not the checkout


class PackagingError(Exception):
    """A package could not be built, or does not do what it promises."""


def say(text: str) -> None:
    """Print a line of progress."""
    print(f"packaging: {text}", flush=True)


def fail(text: str) -> NoReturn:
    """End with exit status 1 and a sentence."""
    sys.exit(f"packaging: {text}")


def shared_data() -> dict[Path, str]:
    """Return what a desktop needs to find: file → its place below a prefix such as /usr.

    The one list of them is that of the wheel, in pyproject.toml.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    listed = project["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-data"]
    return {ROOT / source: target for source, target in listed.items()}


def run(
    command: Sequence[str | Path],
    *,
    cwd: Path = ROOT,
    environment: Mapping[str, str] | None = None,
    limit_s: float = LIMIT_S,
) -> str:
    """Run a program and return what it wrote to standard output.

    Raises:
        PackagingError: It failed; the end of what it wrote is in the message.
    """
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words, cwd=cwd, env=environment, capture_output=True, text=True, check=False,
            timeout=limit_s, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise PackagingError(f"{shlex.join(words)}: took more than {limit_s:.0f} s") from error
    if done.returncode:
        end = "\n".join((done.stdout + done.stderr).splitlines()[-40:])
        raise PackagingError(f"{shlex.join(words)}: exit status {done.returncode}\n{end}")
    return done.stdout


def tool(name: str, package: str) -> str:
    """Return the path of a program of the system.

    Raises:
        PackagingError: It is not there; the message names its Debian package.
    """
    found = shutil.which(name)
    if found is None:
        raise PackagingError(f"{name} is not here; on Debian: apt-get install {package}")
    return found


def new_folder(path: Path) -> Path:
    """Return a folder, emptied if it was there."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def new_venv(path: Path) -> Path:
    """Make a virtual environment anew and return its interpreter."""
    venv.create(path, clear=True, with_pip=True, symlinks=os.name == "posix")
    return path / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def pip_install(python: Path, *what: str | Path) -> None:
    """Install packages with the pip of a virtual environment.

    Raises:
        PackagingError: pip failed.
    """
    quiet = ["--disable-pip-version-check", "--quiet"]
    run([python, "-m", "pip", "install", *quiet, *what])


def user_environment(home: Path) -> dict[str, str]:
    """Return the environment of a user who has installed nothing, in an empty home folder.

    Nothing of the developer's shell may help the program: no PYTHONPATH, no caches.
    """
    kept = {name: os.environ[name] for name in ("LANG", "SYSTEMROOT") if name in os.environ}
    home.mkdir(parents=True, exist_ok=True)
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8", **kept}
