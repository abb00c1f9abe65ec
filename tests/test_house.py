"""The house rules, held by the tools that check them; run as tests so that one command says all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

_CORE_WITHOUT_QT = """
import sys
import explorer.cli.main, explorer.demo, explorer.display, explorer.formats, explorer.tabular
import explorer.formats.vocabulary, explorer.formats.tensor_filter, explorer.formats.structure
qt = ("PySide6", "shiboken6", "pyqtgraph")
found = [name for name in sys.modules if name.split(".")[0] in qt]
assert not found, found
"""


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *command],
        check=False,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(
    "command",
    [
        ("-m", "ruff", "check", "--no-cache", "."),
        ("-m", "ruff", "format", "--no-cache", "--check", "."),
        ("-m", "mypy"),
        ("-c", "import sys; from importlinter.cli import lint_imports_command as c; sys.exit(c())"),
    ],
    ids=["lint", "format", "types", "layers"],
)
def test_the_tools_agree(command: tuple[str, ...]) -> None:
    result = _run(*command)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_core_runs_without_qt() -> None:
    result = _run("-c", _CORE_WITHOUT_QT)
    assert result.returncode == 0, result.stderr
