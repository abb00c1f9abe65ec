"""The user's own llama.cpp: found, asked, ended; whatever it does."""

from __future__ import annotations

import json
import os
import stat
import sys
import time
from pathlib import Path

import pytest

from explorer.hardware import own_build
from explorer.hardware.own_build import OwnBuildError, estimate_command, find_program, run_estimate
from explorer.planner.engines.llama_cpp.allocation import Settings
from explorer.planner.logs.lines import CACHE, COMPUTE, WEIGHTS

pytestmark = pytest.mark.skipif(
    os.name == "nt", reason="the stand-ins are scripts with a first line"
)

TABLE = """
0.585 I common_memory_breakdown_print: | memory breakdown [MiB] | total free self model context |
0.585 I common_memory_breakdown_print: |   - CUDA0 (RTX 4070) | 12282 = 11000 + ( 332 = 235 + 63 + 34) + 950 |
0.585 I common_memory_breakdown_print: |   - Host             |                 192 = 170 + 0 + 22                |
0.628 I common_params_fit_impl: projected to use 332 MiB of device memory vs. 11000 MiB
"""  # noqa: E501 - lines as llama.cpp prints them


def program(folder: Path, name: str, body: str) -> Path:
    """Write a stand-in for a program of llama.cpp."""
    path = folder / name
    path.write_text(f"#!{sys.executable}\nimport os, sys, time\n{body}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def no_check() -> None:
    """Stop nothing."""


def test_it_is_found_on_the_path_or_where_it_was_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OwnBuildError, match="on the PATH"):
        find_program()
    second = program(tmp_path, "llama-fit-params", "")
    assert find_program() == second
    first = program(tmp_path, "llama-server", "")
    assert find_program() == first
    assert find_program(second) == second
    assert find_program(tmp_path) == first
    with pytest.raises(OwnBuildError, match="gone"):
        find_program(tmp_path / "none")


def test_a_program_of_the_current_folder_is_never_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, "llama-server", "")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", ".")
    with pytest.raises(OwnBuildError):
        find_program()


def test_the_server_is_ended_once_its_table_is_there(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    body = f"open({str(mark)!r}, 'w').write(str(os.getpid()))\nprint({TABLE!r}, flush=True)\n"
    server = program(tmp_path, "llama-server", body + "time.sleep(600)")
    command = estimate_command(server, tmp_path / "-m.gguf", ["--ctx-size", "4096", "--kv-unified"])
    assert command[1:3] == ["--model", str(tmp_path / "-m.gguf")]
    assert "--kv-unified" in command
    begin = time.monotonic()
    found = run_estimate(command, Settings(context=4096), no_check)
    assert time.monotonic() - begin < 60
    sizes = {(one.device, one.kind): one.nbytes >> 20 for one in found.buffers}
    assert sizes["CUDA0", COMPUTE] == 34
    assert sizes["Host", WEIGHTS] == 170
    assert found.settings["context"] == 4096
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.read_text()), 0)


def test_its_version_says_which_build_it_is(tmp_path: Path) -> None:
    answers = "print('version: 9849 (1a2b3c4)' if '--version' in sys.argv else " + repr(TABLE) + ")"
    server = program(tmp_path, "llama-server", answers)
    command = estimate_command(server, tmp_path / "m.gguf", [])
    assert run_estimate(command, Settings(), no_check).settings["build"] == 9849
    silent = program(tmp_path, "llama-fit-params", f"print({TABLE!r})")
    command = estimate_command(silent, tmp_path / "m.gguf", [])
    assert run_estimate(command, Settings(), no_check).settings["build"] == Settings().build


def test_what_fit_params_prints_is_read(tmp_path: Path) -> None:
    asked = program(
        tmp_path,
        "llama-fit-params",
        "assert '--no-kv-unified' not in sys.argv\nprint('build: 1')\nprint('CUDA0 235 63 34 ')\n"
        "print('Host 170 0 22 ')",
    )
    command = estimate_command(asked, Path("/m.gguf"), ["--no-kv-unified", "--ctx-size", "1"])
    found = run_estimate(command, Settings(), no_check)
    assert [(one.device, one.kind) for one in found.buffers[:2]] == [
        ("CUDA0", WEIGHTS),
        ("CUDA0", CACHE),
    ]
    assert len(found.buffers) == 6


@pytest.mark.parametrize("safe", [True, False])
def test_it_runs_in_an_empty_folder_of_ours_and_with_few_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, safe: bool
) -> None:
    """Else what lies in the current folder could be loaded as a library or a model."""
    here, seen, cache = tmp_path / "here", tmp_path / "seen", tmp_path / "cache"
    for folder in (here, cache):
        folder.mkdir(mode=0o700)
    (here / "libggml-evil.so").touch()
    if not safe:
        cache.chmod(0o777)
    monkeypatch.chdir(here)
    monkeypatch.setenv("GGUF_EXPLORER_CACHE", str(cache))
    strange = ("LLAMA_ARG_CTX_SIZE", "GGML_BACKEND_PATH", "HF_TOKEN", "LD_PRELOAD", "PYTHONPATH")
    for name in strange:
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    asked = program(
        tmp_path,
        "llama-fit-params",
        "import json, pathlib\n"
        "about = [os.getcwd(), os.listdir(), os.stat('..').st_mode, dict(os.environ)]\n"
        f"pathlib.Path({str(seen)!r}).write_text(json.dumps(about))\nprint('A 0 1 2')",
    )
    run_estimate([str(asked)], Settings(), no_check)
    folder, names, mode, variables = json.loads(seen.read_text())
    assert Path(folder).is_relative_to(cache) is safe
    assert (names, stat.S_IMODE(mode)) == ([], 0o700)
    assert not set(strange) & set(variables)
    assert variables["CUDA_VISIBLE_DEVICES"] == "1"
    assert variables["PATH"] == os.environ["PATH"]
    assert not Path(folder).parent.exists()  # afterwards


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("print('error: no such file')\nsys.exit(1)", "error: no such file"),
        ("", "said nothing"),
        ("sys.stdout.buffer.write(b'\\x1b[31m\\xff\\0' * 999)", "no estimate"),
    ],
)
def test_no_answer_is_one_error(tmp_path: Path, body: str, message: str) -> None:
    asked = program(tmp_path, "llama-server", body)
    with pytest.raises(OwnBuildError, match=message):
        run_estimate([str(asked)], Settings(), no_check)


def test_what_cannot_be_started_is_one_error(tmp_path: Path) -> None:
    path = tmp_path / "llama-server"
    path.write_bytes(b"\0")
    with pytest.raises(OwnBuildError, match="started"):
        run_estimate([str(path)], Settings(), no_check)


def test_endless_output_and_endless_silence_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_build, "_PATIENCE_S", 0.5)
    monkeypatch.setattr(own_build, "_MOST_OUTPUT", 1 << 16)
    loud = program(tmp_path, "llama-server", "while True: print('x' * 99)")
    with pytest.raises(OwnBuildError, match="no estimate"):
        run_estimate([str(loud)], Settings(), no_check)
    silent = program(tmp_path, "llama-server", "time.sleep(600)")
    with pytest.raises(OwnBuildError, match="within"):
        run_estimate([str(silent)], Settings(), no_check)


def test_it_is_ended_when_it_is_cancelled(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    body = f"open({str(mark)!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)"
    asked = program(tmp_path, "llama-server", body)

    def cancel() -> None:
        if mark.exists() and mark.read_text():
            raise KeyError

    with pytest.raises(KeyError):
        run_estimate([str(asked)], Settings(), cancel)
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.read_text()), 0)
