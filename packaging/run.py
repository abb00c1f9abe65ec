"""Start GGUF Explorer or its tests from a checkout; install what is missing first.

  python3 packaging/run.py [PATH ...]            start the program
  python3 packaging/run.py tests [PYTEST ARGS]   run the tests
  python3 packaging/run.py -- [ARGUMENTS ...]    start the program with these arguments (-- --help)
  python3 packaging/run.py --newest ...          any of these, with the newest dependencies
  python3 packaging/run.py --yes ...             any of these, without the question

The first start makes .venv in the checkout and installs the project into it, with the versions
that packaging/lock/ lists. On Debian and Ubuntu it also installs the system libraries that Qt
needs, once you agree on a terminal, or with --yes. Later starts only check. --newest ignores the
lock; the next start without it installs the locked versions again. To start afresh, delete .venv.

A bare machine has only the standard library, so this file uses nothing else. Tools such as uv
are faster, but do not install system libraries. The lock lists files for Linux; other systems
get the newest versions.
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
OLDEST_PYTHON, NEWEST_PYTHON = (3, 11), (3, 14)
LOCK = "packaging/lock"
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
    """What one command needs, and the arguments of Python that run it."""

    lock: str
    extras: tuple[str, ...]
    libraries: dict[str, str]
    command: tuple[str, ...]


APP = Task(
    "program.txt",
    ("gui", "nvidia", "remote"),
    {**OFFSCREEN_LIBRARIES, **WINDOW_LIBRARIES},
    ("-P", "-m", "explorer"),  # -P: import nothing from a folder of downloaded models
)
# One process more than there are cores: a window's test often waits for a timer.
WORKERS = str((os.cpu_count() or 1) + 1)
TESTS = Task(
    "tests.txt",
    ("gui", "nvidia", "remote", "test"),
    OFFSCREEN_LIBRARIES,
    ("-m", "pytest", "-n", WORKERS, "--dist", "worksteal"),
)


def say(text: str) -> None:
    """Print a line of progress to standard error; standard output is the program's."""
    print(f"run.py: {text}", file=sys.stderr, flush=True)


def fail(text: str) -> NoReturn:
    """End with exit status 1 and a sentence that says what to do."""
    sys.exit(f"run.py: {text}")


def succeeds(command: list[str], cwd: Path | None = None) -> bool:
    """Run a command with its output on standard error; return whether it succeeded."""
    return subprocess.run(command, cwd=cwd, stdout=sys.stderr, check=False).returncode == 0


def choose(arguments: list[str]) -> tuple[Task, list[str]]:
    """Split the command line into the task and its arguments."""
    if arguments[:1] == ["tests"]:
        return TESTS, arguments[1:]
    return APP, arguments[1:] if arguments[:1] == ["--"] else arguments


def loads(library: str) -> bool:
    """Return whether the dynamic linker finds a shared library and its dependencies."""
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def missing_from_system(task: Task, root: Path) -> dict[str, str]:
    """Return what the system lacks for a task: name → Debian package."""
    libraries = task.libraries if sys.platform == "linux" else {}
    missing = {name: package for name, package in libraries.items() if not loads(name)}
    if not venv_python(root).exists() and find_spec("ensurepip") is None:
        missing["Python's ensurepip module"] = f"python{PYTHON_VERSION}-venv"
    return missing


def agreed(question: str) -> bool:
    """Ask on the terminal; without one nobody agrees."""
    if not (sys.stdin and sys.stdin.isatty()):
        return False
    print(f"run.py: {question} [Y/n] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"", "y", "yes"}


def install_packages(missing: dict[str, str], *, yes: bool = False) -> None:
    """Install Debian packages for the whole system, once the user agrees; use sudo unless root."""
    say(f"missing on this system: {', '.join(missing)}")
    install = ["apt-get", "install", "-y", "--no-install-recommends", *missing.values()]
    sudo = [] if getattr(os, "geteuid", lambda: 1)() == 0 else ["sudo"]
    if not all(shutil.which(program) for program in [*sudo, "apt-get"]):
        fail(f"please install these and start again; on Debian, as root: {' '.join(install)}")
    command = " ".join([*sudo, *install])
    if not yes and not agreed(f"run {command}?"):
        fail(f"nothing was installed; run {command}, or start again with --yes")
    say(f"running {command}")
    # One dead source fails the update; the others may still have the packages.
    succeeds([*sudo, "apt-get", "update", "-q"])
    if not succeeds([*sudo, *install]):
        fail("apt-get could not install the packages: see its message above")


def venv_python(root: Path) -> Path:
    """Return the path of the interpreter in the checkout's virtual environment."""
    windows = sys.platform == "win32"
    return root / ".venv" / ("Scripts/python.exe" if windows else "bin/python")


def fingerprint(root: Path) -> str:
    """Return a digest of everything that an installation depends on."""
    digest = hashlib.sha256((root / "pyproject.toml").read_bytes())
    for lock in sorted((root / LOCK).glob("*.txt")):
        digest.update(b"\0" + lock.read_bytes())
    digest.update(f"\0{PYTHON_VERSION}\0{root}".encode())
    return digest.hexdigest()


def installed_extras(root: Path) -> set[str]:
    """Return the extras that are installed and up to date."""
    stamp = root / ".venv" / "installed"
    if not (stamp.exists() and venv_python(root).exists()):
        return set()
    digest, *extras = stamp.read_text(encoding="utf-8").split() or [""]
    return set(extras) if digest == fingerprint(root) else set()


def has_pip(root: Path) -> bool:
    """Return whether the virtual environment works and has this Python version."""
    command = [str(venv_python(root)), "-m", "pip", "--version"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except OSError:
        return False
    return f"(python {PYTHON_VERSION})" in answer


def make_venv(root: Path) -> None:
    """Make the virtual environment anew; remove it when that fails."""
    say(f"making .venv with Python {PYTHON_VERSION}")
    made = False
    try:
        made = succeeds([sys.executable, "-m", "venv", "--clear", str(root / ".venv")])
    finally:
        if not made:
            shutil.rmtree(root / ".venv", ignore_errors=True)
    if not made:
        fail(f"Python could not make {root / '.venv'}: see its message above")


def pip_arguments(task: Task, newest: bool) -> list[list[str]]:
    """Return the arguments of each call of pip that installs the project for a task."""
    project = f".[{','.join(task.extras)}]"
    if newest:
        return [["--upgrade", "--upgrade-strategy", "eager", "--editable", project]]
    if sys.platform != "linux":
        return [["--editable", project]]
    return [
        ["--require-hashes", "--requirement", f"{LOCK}/{task.lock}"],
        ["--no-deps", "--no-build-isolation", "--editable", "."],
    ]


def install_project(root: Path, task: Task, newest: bool = False) -> None:
    """Install the project, editable, with what a task needs; record it last.

    The newest versions are not recorded, so each start with them looks for newer ones, and the
    next start without them installs the locked versions.
    """
    if not has_pip(root):
        make_venv(root)
    stamp = root / ".venv" / "installed"
    stamp.unlink(missing_ok=True)
    digest = fingerprint(root)
    versions = "the newest versions" if newest else "the project"
    say(f"installing {versions} into .venv: a large download the first time")
    pip = [str(venv_python(root)), "-m", "pip", "--disable-pip-version-check", "install"]
    for arguments in pip_arguments(task, newest):
        if not succeeds([*pip, *arguments], cwd=root):
            fail("pip could not install the project: see its message above, and start again")
    if not newest:
        stamp.write_text(" ".join([digest, *task.extras]), encoding="utf-8")


def start(command: list[str]) -> int:
    """Become the command; on Windows, where this would detach the terminal, wait for it."""
    if sys.platform != "win32":
        os.execv(command[0], command)
    return subprocess.call(command)


def main(arguments: list[str]) -> int:
    """Install what is missing and start the task; return the exit status."""
    if arguments[:1] in (["-h"], ["--help"]):
        print(__doc__.split("\n\nA bare")[0])
        return 0
    if not OLDEST_PYTHON <= sys.version_info[:2] <= NEWEST_PYTHON:
        fail(f"Python 3.11 to 3.14 is needed; this is {PYTHON_VERSION}")
    flags = set()
    while arguments[:1] in (["--newest"], ["--yes"]):
        flags.add(arguments[0])
        arguments = arguments[1:]
    newest = "--newest" in flags
    task, rest = choose(arguments)
    try:
        if missing := missing_from_system(task, ROOT):
            install_packages(missing, yes="--yes" in flags)
        if newest or not installed_extras(ROOT).issuperset(task.extras):
            install_project(ROOT, task, newest)
        if task is TESTS:
            os.chdir(ROOT)
        return start([str(venv_python(ROOT)), *task.command, *rest])
    except OSError as error:
        fail(str(error))
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
