"""Commands that die, and the start after: its kernels, and what standard error says."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.demo import copy_demo

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs signals and modes of folders")

_ROOT = Path(__file__).resolve().parents[2]
_PROGRAM = """
import faulthandler, os, signal, sys
from explorer.cli import inspect, main
how = sys.argv[1]
if how == "segfault":
    inspect.open_model = lambda path: faulthandler._sigsegv()
elif how == "killed":
    inspect.open_model = lambda path: os.kill(os.getpid(), signal.SIGKILL)
sys.exit(main.main(sys.argv[2:]))
"""
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a command in a process of its own, and let it end by something else."""

    def run_once(how: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", _PROGRAM, how, *arguments],
            cwd=_ROOT,
            env={**os.environ, "NUMBA_CACHE_DIR": "", "TMPDIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )

    return run_once


@pytest.mark.slow
def test_after_a_death_in_machine_code_a_command_removes_kernels_and_says_so_once(
    run: Run, tmp_path: Path
) -> None:
    path = str(copy_demo(tmp_path / "demo"))
    cache = tmp_path / "cache"
    assert run("ends", "stats", path, "output_norm.weight").returncode == 0
    assert list(cache.rglob("*.nbc"))
    assert run("segfault", "inspect", path).returncode < 0
    result = run("ends", "inspect", path)
    (report,) = (cache / "crashes").iterdir()
    assert result.stderr == f"warning: the program crashed the last time. The report is {report}\n"
    assert "Segmentation fault" in report.read_text()
    assert not list(cache.rglob("*.nbc"))
    assert run("killed", "inspect", path).returncode < 0  # from outside: no fault of the program
    assert run("ends", "inspect", path).stderr == ""
    assert list((cache / "crashes").iterdir()) == [report]


def test_a_folder_that_others_may_write_is_told_of_once(run: Run, tmp_path: Path) -> None:
    path = str(copy_demo(tmp_path / "demo"))
    cache = tmp_path / "cache"
    cache.mkdir(0o700, exist_ok=True)
    cache.chmod(0o777)
    result = run("ends", "stats", path, "output_norm.weight")
    assert result.returncode == 0
    assert result.stderr == (
        f"warning: nothing is kept in {cache}: other users can write to it; "
        "`chmod go-w` mends that\n"
    )
    assert list(cache.iterdir()) == []
