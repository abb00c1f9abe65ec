"""Start GGUF Explorer, or its tests, from a checkout, installing whatever is missing first.

  python3 packaging/run.py [PATH ...]            start the program
  python3 packaging/run.py tests [PYTEST ARGS]   run the tests
  python3 packaging/run.py -- [ARGUMENTS ...]    start the program with just these (-- --help)

The first start makes .venv in the checkout and installs the project into it, and on Debian
and Ubuntu also the system libraries that Qt needs; later starts only look. To begin again,
delete .venv.

A bare machine has only the standard library, and so has this file. Tools such as uv are faster,
but do not install system libraries.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, NoReturn

ROOT = Path(__file__).resolve().parent.parent
OLDEST_PYTHON = (3, 11)
PYTHON_VERSION = "{}.{}".format(*sys.version_info)

# What Qt's wheels leave to the system: shared library → Debian package.
OFFSCREEN_LIBRARIES = {
    "libglib-2.0.so.0": "libglib2.0-0",
    "libGL.so.1": "libgl1",
    "libEGL.so.1": "libegl1",
    "libdbus-1.so.3": "libdbus-1-3",
    "libfontconfig.so.1": "libfontconfig1",  # brings a font, without which there is no text
    "libxkbcommon.so.0": "libxkbcommon0",
}
WINDOW_LIBRARIES = {
    "libxcb-cursor.so.0": "libxcb-cursor0",
    "libxcb-icccm.so.4": "libxcb-icccm4",
    "libxcb-keysyms.so.1": "libxcb-keysyms1",
    "libxcb-shape.so.0": "libxcb-shape0",
    "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
    "libwayland-cursor.so.0": "libwayland-cursor0",
}


class Task(NamedTuple):
    """What one command needs, and the Python arguments that carry it out."""

    extras: tuple[str, ...]
    libraries: dict[str, str]
    command: tuple[str, ...]


# -P: a folder of downloaded models is no place to import modules from.
APP = Task(("gui",), {**OFFSCREEN_LIBRARIES, **WINDOW_LIBRARIES}, ("-P", "-m", "explorer"))
# One process more than there are cores: a window's test often waits for a timer.
WORKERS = str((os.cpu_count() or 1) + 1)
TESTS = Task(
    ("gui", "test"),
    OFFSCREEN_LIBRARIES,
    ("-m", "pytest", "-n", WORKERS, "--dist", "worksteal"),
)


def say(text: str) -> None:
    """Print a line of progress, leaving standard output to the program."""
    print(f"run.py: {text}", file=sys.stderr, flush=True)


def fail(text: str) -> NoReturn:
    """End with exit status 1 and a sentence that says what to do."""
    sys.exit(f"run.py: {text}")


def succeeds(command: list[str], cwd: Path | None = None) -> bool:
    """Run a command, its output on standard error, and tell whether it succeeded."""
    return subprocess.run(command, cwd=cwd, stdout=sys.stderr, check=False).returncode == 0


def choose(arguments: list[str]) -> tuple[Task, list[str]]:
    """Split the command line into the task and the arguments that it gets."""
    if arguments[:1] == ["tests"]:
        return TESTS, arguments[1:]
    return APP, arguments[1:] if arguments[:1] == ["--"] else arguments


def loads(library: str) -> bool:
    """Tell whether the dynamic linker finds a shared library and all that it needs."""
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def missing_from_system(task: Task, root: Path) -> dict[str, str]:
    """Return what the system lacks for a task: the thing → its Debian package."""
    libraries = task.libraries if sys.platform == "linux" else {}
    missing = {name: package for name, package in libraries.items() if not loads(name)}
    if not venv_python(root).exists() and find_spec("ensurepip") is None:
        missing["Python's ensurepip module"] = f"python{PYTHON_VERSION}-venv"
    return missing


def install_packages(missing: dict[str, str]) -> None:
    """Install Debian packages, through sudo unless run by root."""
    say(f"missing on this system: {', '.join(missing)}")
    install = ["apt-get", "install", "-y", "--no-install-recommends", *missing.values()]
    sudo = [] if getattr(os, "geteuid", lambda: 1)() == 0 else ["sudo"]
    if not all(shutil.which(program) for program in [*sudo, "apt-get"]):
        fail(f"please install these and start again; on Debian, as root: {' '.join(install)}")
    say(f"running {' '.join([*sudo, *install])}")
    # One dead source fails the update, while the packages may still be had from the others.
    succeeds([*sudo, "apt-get", "update", "-q"])
    if not succeeds([*sudo, *install]):
        fail("apt-get could not install the packages: see its message above")


def venv_python(root: Path) -> Path:
    """Return the path of the interpreter in the checkout's virtual environment."""
    windows = sys.platform == "win32"
    return root / ".venv" / ("Scripts/python.exe" if windows else "bin/python")


def fingerprint(root: Path) -> str:
    """Return a digest of all that makes an installation out of date when it changes."""
    digest = hashlib.sha256((root / "pyproject.toml").read_bytes())
    digest.update(f"\0{PYTHON_VERSION}\0{root}".encode())
    return digest.hexdigest()


def installed_extras(root: Path) -> set[str]:
    """Return the extras that are installed and up to date; empty when nothing is."""
    stamp = root / ".venv" / "installed"
    if not (stamp.exists() and venv_python(root).exists()):
        return set()
    digest, *extras = stamp.read_text(encoding="utf-8").split() or [""]
    return set(extras) if digest == fingerprint(root) else set()


def has_pip(root: Path) -> bool:
    """Tell whether the virtual environment works and is of this Python version."""
    command = [str(venv_python(root)), "-m", "pip", "--version"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except OSError:
        return False
    return f"(python {PYTHON_VERSION})" in answer


def make_venv(root: Path) -> None:
    """Make the virtual environment anew, leaving nothing behind where that fails."""
    say(f"making .venv with Python {PYTHON_VERSION}")
    made = False
    try:
        made = succeeds([sys.executable, "-m", "venv", "--clear", str(root / ".venv")])
    finally:
        if not made:
            shutil.rmtree(root / ".venv", ignore_errors=True)
    if not made:
        fail(f"Python could not make {root / '.venv'}: see its message above")


def install_project(root: Path, extras: tuple[str, ...]) -> None:
    """Install the project, editable, with its extras; the stamp is written last."""
    if not has_pip(root):
        make_venv(root)
    stamp = root / ".venv" / "installed"
    stamp.unlink(missing_ok=True)
    digest = fingerprint(root)
    project = f".[{','.join(extras)}]"
    say(f"installing {project} into .venv: a large download the first time")
    pip = [str(venv_python(root)), "-m", "pip", "--disable-pip-version-check"]
    if not succeeds([*pip, "install", "-e", project], cwd=root):
        fail("pip could not install the project: see its message above, and start again")
    stamp.write_text(" ".join([digest, *extras]), encoding="utf-8")


def start(command: list[str]) -> int:
    """Become the command; on Windows, where that would detach the terminal, wait for it."""
    if sys.platform != "win32":
        os.execv(command[0], command)
    return subprocess.call(command)


def main(arguments: list[str]) -> int:
    """Set up what is missing and start the task; return the exit status."""
    if arguments[:1] in (["-h"], ["--help"]):
        print(__doc__.split("\n\nA bare")[0])
        return 0
    if sys.version_info < OLDEST_PYTHON:
        fail(f"Python 3.11 or newer is needed; this is {PYTHON_VERSION}")
    task, rest = choose(arguments)
    try:
        if missing := missing_from_system(task, ROOT):
            install_packages(missing)
        if not installed_extras(ROOT).issuperset(task.extras):
            install_project(ROOT, task.extras)
        if task is TESTS:
            os.chdir(ROOT)
        return start([str(venv_python(ROOT)), *task.command, *rest])
    except OSError as error:
        fail(str(error))
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
