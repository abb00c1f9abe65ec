"""Packages, built and started: what a user gets. packaging/build.py does more, with a screen.

One test for each package: the suite runs in several processes, each of which would build its own.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType

import pytest

from explorer import __version__
from tests.helpers.demo import copy_demo
from tests.helpers.patience import PROGRAM_S
from tests.helpers.web import DATA, serving

ROOT = Path(__file__).resolve().parents[2]
SAID_OFFSCREEN = "This plugin does not support propagateSizeHints()\n"
APP_ID = "io.github.gguf_explorer.GGUFExplorer"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1_800),  # a build on two cores that others use too
    pytest.mark.skipif(os.name != "posix", reason="paths and signals are those of Unix"),
]


def run(
    *command: str | Path, environment: Mapping[str, str] | None = None, cwd: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command],
        env=environment, cwd=cwd, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return copy_demo(tmp_path / "demo")


def of_a_user(home: Path) -> dict[str, str]:
    """Return the environment of a user who has nothing but an empty home folder."""
    home.mkdir()
    return {"PATH": "/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8"}


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    return of_a_user(tmp_path / "home")


def test_a_wheel_works_without_qt(tmp_path: Path, model: Path, home: dict[str, str]) -> None:
    installed = install_wheel(tmp_path / "wheel")
    see_commands(installed, model, home)
    see_how_to_get_the_window(installed, home)
    see_what_a_desktop_looks_for(installed)


def install_wheel(folder: Path) -> Path:
    """Make a fresh virtual environment with the wheel and what it needs, without Qt.

    The wheel is made from the source archive, which therefore is complete.
    """
    # the name alone could be the folder build/ of this checkout
    pytest.importorskip("build.env", reason="build is not installed (extra: test)")
    built = run(sys.executable, "-P", "-m", "build", "--outdir", folder, ROOT)
    assert built.returncode == 0, built.stderr
    assert (folder / f"gguf_explorer-{__version__}.tar.gz").exists()
    wheel = folder / f"gguf_explorer-{__version__}-py3-none-any.whl"
    made = run(sys.executable, "-m", "venv", "--without-pip", folder / "venv")
    assert made.returncode == 0, made.stderr
    python = folder / "venv" / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check")
    answer = run(*pip, "--quiet", "install", "--no-compile", wheel)
    assert answer.returncode == 0, answer.stderr
    return folder / "venv"


def see_commands(installed: Path, model: Path, home: dict[str, str]) -> None:
    program = installed / "bin" / "gguf-explorer"
    told = run(program, "--version", environment=home, cwd=Path("/"))
    assert told.stdout.strip() == f"gguf-explorer {__version__}"
    answer = run(program, "inspect", model, "--json", environment=home, cwd=Path("/"))
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout)["tensor_count"] > 10
    assert run(program, "plan", model, "--gpu", "8GiB", environment=home).returncode == 0


def see_how_to_get_the_window(installed: Path, home: dict[str, str]) -> None:
    answer = run(installed / "bin" / "gguf-explorer", environment=home)
    assert answer.returncode == 1
    (line,) = answer.stderr.splitlines()
    assert "pip install 'gguf-explorer[gui]'" in line


def see_what_a_desktop_looks_for(installed: Path) -> None:
    share = installed / "share"
    for place in (
        f"applications/{APP_ID}.desktop",
        f"metainfo/{APP_ID}.metainfo.xml",
        f"mime/packages/{APP_ID}.xml",
        f"icons/hicolor/scalable/apps/{APP_ID}.svg",
        f"icons/hicolor/symbolic/apps/{APP_ID}-symbolic.svg",
        "man/man1/gguf-explorer.1",
    ):
        assert (share / place).stat().st_size > 300, place
    (icon,) = installed.glob("lib/*/site-packages/explorer/_resources/icons/gguf-explorer.svg")
    assert icon.read_bytes() == (ROOT / "resources" / "icons" / "gguf-explorer.svg").read_bytes()


def test_a_frozen_program_works(
    tmp_path: Path, model: Path, home: dict[str, str], script: Callable[[str], ModuleType]
) -> None:
    if lacking := script("frozen").missing():
        pytest.skip(f"freezing needs {lacking}")
    program = freeze(tmp_path)
    see_that_no_module_is_lost(program, tmp_path / "build" / "frozen.json")
    proof = script("proof")
    started = proof.Started("frozen", [program], tmp_path)
    see_that_kernels_are_kept(
        program, model, proof.smallest_quantized_tensor(started, model)["name"], home
    )
    see_that_the_window_opens(program, model, of_a_user(tmp_path / "2"))
    see_that_addresses_are_read(program, model, of_a_user(tmp_path / "3"))
    see_the_terms_of_its_parts(program)
    shutil.rmtree(tmp_path)  # 800 MB, of which pytest would keep the last three


def freeze(folder: Path) -> Path:
    """Make the one-folder program and return its executable."""
    build = (
        "import sys; from pathlib import Path; import frozen; folder = Path(sys.argv[1]); "
        "frozen.build_frozen(folder / 'dist', folder / 'build')"
    )
    done = subprocess.run(
        [sys.executable, "-c", build, folder],
        env={**os.environ, "PYTHONPATH": str(ROOT / "packaging")},
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder / "dist" / "gguf-explorer" / "gguf-explorer"


def see_that_no_module_is_lost(frozen: Path, record: Path) -> None:
    """See that every module is in the archive or, if it has kernels, beside it as a source."""
    archived = set(json.loads(record.read_text(encoding="utf-8"))["modules"])
    inside = frozen.parent / "_internal"
    for source in (ROOT / "explorer").rglob("*.py"):
        place = source.relative_to(ROOT)
        name = ".".join((place.parent if place.stem == "__init__" else place.with_suffix("")).parts)
        assert name in archived or (inside / place).is_file(), name


def kernels(environment: Mapping[str, str]) -> dict[Path, int]:
    folder = Path(environment["HOME"]) / ".cache" / "gguf-explorer"
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*.nbc")}


def see_that_kernels_are_kept(frozen: Path, model: Path, tensor: str, home: dict[str, str]) -> None:
    first = run(frozen, "stats", model, tensor, "--json", environment=home, cwd=Path("/"))
    assert first.returncode == 0, first.stderr
    kept = kernels(home)
    assert kept, first.stderr
    moved = frozen.parent.with_name("moved")
    frozen.parent.rename(moved)
    try:
        second = run(moved / frozen.name, "stats", model, tensor, "--json", environment=home)
    finally:
        moved.rename(frozen.parent)
    assert second.stdout == first.stdout
    assert kernels(home) == kept


def see_that_the_window_opens(frozen: Path, model: Path, home: dict[str, str]) -> None:
    command: Sequence[str | Path] = [frozen, "--fresh", model]
    environment = {**home, "QT_QPA_PLATFORM": "offscreen"}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as window:
        running = Path(home["HOME"]) / ".cache" / "gguf-explorer" / "crashes"
        end = time.monotonic() + PROGRAM_S
        while not list(running.glob("running-*")) and window.poll() is None:
            if time.monotonic() > end:
                window.kill()
                pytest.fail("the window did not open in time")
            time.sleep(0.2)
        window.send_signal(signal.SIGINT)
        _, said = window.communicate(timeout=PROGRAM_S)
    assert window.returncode == 130  # as commands end at Ctrl+C
    assert said.replace(SAID_OFFSCREEN, "") == ""  # a line for each window, pop-ups too


def see_that_addresses_are_read(frozen: Path, model: Path, home: dict[str, str]) -> None:
    """By TLS, whose certificates the user names; it brings its own OpenSSL and none of them."""
    with serving(tls=True, host="localhost") as web:
        url = web.put("/model.gguf", model.read_bytes())
        untrusted = run(frozen, "check", url, environment=home)
        assert "no valid certificate" in untrusted.stderr
        trusting = {**home, "SSL_CERT_FILE": str(DATA / "authority.pem")}
        answer = run(frozen, "check", url, environment=trusting)
        assert (answer.returncode, answer.stderr) == (0, "")


def see_the_terms_of_its_parts(frozen: Path) -> None:
    folder = frozen.parent / "licences"
    for place in (
        "README.txt",
        "LICENSE",
        "pyside6-essentials/LGPL-3.0.txt",
        "numpy",
        "urllib3",
        "python",
    ):
        assert (folder / place).exists(), place
