"""`gguf-explorer compile-kernels`, which the window starts."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from explorer.cli.main import main
from explorer.quantization.kernel_cache import is_compiled


def _mute(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Leave the priority of the tests alone, and keep marks in a folder of the test's own."""
    monkeypatch.setattr(os, "nice", lambda increment: increment, raising=False)
    monkeypatch.setattr(sys, "stdin", None)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(folder))


def test_types_are_marked_once_they_are_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _mute(monkeypatch, tmp_path)
    assert main(["compile-kernels", "general", "Q4_0", "mxfp4", "C64", "unheard of"]) == 0
    assert is_compiled("general")
    assert is_compiled("Q4_0")
    assert is_compiled("mxfp4")
    assert not is_compiled("MXFP4")
    assert not is_compiled("C64")
    assert not is_compiled("unheard of")


def test_it_ends_with_its_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from explorer.cli import other as compile_command

    ended: list[int] = []
    waiting = compile_command.deque(["Q2_K"])
    monkeypatch.setattr(sys, "stdin", io.StringIO("Q4_K\nQ6_K\n"))
    monkeypatch.setattr(os, "_exit", ended.append)
    compile_command._listen(waiting)
    assert ended == [0]
    assert list(waiting) == ["Q6_K", "Q4_K", "Q2_K"]


def test_people_are_not_told_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--help"])
    assert "compile" not in capsys.readouterr().out
