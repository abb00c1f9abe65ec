"""The wheel and the source archive: build both in isolation, install the wheel, start it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from proof import Started, new_home, prove_commands, prove_window
from tools import BUILD, DIST, NAME, PackagingError, new_venv, pip_install, run, say

from explorer import __version__

WHEEL = DIST / f"gguf_explorer-{__version__}-py3-none-any.whl"
SOURCES = DIST / f"gguf_explorer-{__version__}.tar.gz"


def build_wheel() -> Path:
    """Build the source archive, and from it the wheel, each in a fresh environment.

    Made from the archive, the wheel shows that the archive is complete.

    Raises:
        PackagingError: The build failed.
    """
    say("building the source archive and the wheel")
    run([sys.executable, "-P", "-m", "build", "--outdir", DIST])  # -P: here is a folder build/
    for path in (SOURCES, WHEEL):
        if not path.exists():
            raise PackagingError(f"the build did not make {path}")
        say(f"{path.relative_to(DIST.parent)}: {path.stat().st_size / 1e6:.1f} MB")
    return WHEEL


def console_script(python: Path) -> Path:
    """Return the command that an installed wheel put beside an interpreter."""
    return python.with_name(f"{NAME}.exe" if python.suffix == ".exe" else NAME)


def prove_without_window(program: Started) -> None:
    """See that without Qt the program says in one line how to get the window.

    Raises:
        PackagingError: It does not.
    """
    done = subprocess.run(
        [str(word) for word in program.command],
        env=program.environment, cwd=program.home, capture_output=True, text=True, check=False,
    )  # fmt: skip
    lines = done.stderr.splitlines()
    if (
        done.returncode != 1
        or len(lines) != 1
        or "pip install 'gguf-explorer[gui]'" not in lines[0]
    ):
        raise PackagingError(f"without Qt the program should name the extra, but says:\n{lines}")
    say(f"without Qt: {lines[0]}")


def start_wheel(model: Path) -> None:
    """Install the wheel without Qt and try the commands; then with Qt, and try the window.

    Raises:
        PackagingError: Something is not as promised.
    """
    python = new_venv(BUILD / "venv-wheel")
    say("installing the wheel without Qt")
    pip_install(python, WHEEL)
    program = Started("wheel", [console_script(python)], new_home("wheel"))
    prove_without_window(program)
    prove_commands(program, model)
    say("installing the wheel with Qt")
    pip_install(python, f"{WHEEL}[gui]")
    prove_window(program, model)
