"""Commands that are ended from outside: quietly, with the right code, and nothing left behind."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from explorer.cli import main as program
from explorer.tabular import write_atomically
from tests.helpers.demo import copy_demo
from tests.helpers.patience import PATIENCE_S, PROGRAM_S

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs signals")

ROOT = Path(__file__).resolve().parents[2]

# Says when Python's own start is over: what comes before is not ours to change.
_START = "import sys; from explorer.__main__ import main; print('.', flush=True); sys.exit(main())"
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("GGUF_EXPLORER_CACHE", str(folder))
    return folder


@pytest.fixture
def start(tmp_path: Path) -> Start:
    def start_one(*arguments: str, code: str = _START) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    return start_one


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return copy_demo(tmp_path / "demo")


def interrupt(process: subprocess.Popen[str], delay_s: float, number: int = signal.SIGINT) -> str:
    """Send a signal some time after the program's first line; return what it said of that."""
    assert process.stdout is not None
    assert process.stdout.readline() == ".\n"
    time.sleep(delay_s)
    process.send_signal(number)
    return process.communicate(timeout=PROGRAM_S)[1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_command_ends_quietly_at_any_moment(start: Start, model: Path, number: int) -> None:
    chance = random.Random(number)
    for _ in range(2):  # docs/security.md has the campaign
        process = start("stats", str(model), "output_norm.weight")
        assert interrupt(process, chance.random() * 0.6 + 0.02, number) == ""
        # 0: it was faster; the system's own end: the program was not loaded so far
        assert process.returncode in (
            128 + number,
            0,
            *(() if number == signal.SIGINT else (-number,)),
        )


def test_a_command_ends_quietly_while_it_compiles(
    start: Start, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new folder for kernels, and a hook that says when the first compilation begins."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "kernels"))
    code = """
import sys
from explorer.__main__ import main
from explorer.quantization import kernel_cache
count = kernel_cache.count_compilation
def told(change):
    print('.', flush=True)
    count(change)
kernel_cache.count_compilation = told
sys.exit(main())
"""
    process = start("stats", str(model), "output_norm.weight", code=code)
    assert interrupt(process, 0.05) == ""
    assert process.returncode == 130


def test_a_command_that_is_done_is_not_interrupted_any_more(start: Start) -> None:
    """Python's own end takes some time, in which a signal would be one of the system again."""
    code = """
import os, sys, time
class Last:
    def __del__(self, write=os.write, sleep=time.sleep):
        write(1, b'.\\n')
        sleep(0.3)
sys.last = Last()
from explorer.__main__ import main
sys.exit(main())
"""
    process = start("--version", code=code)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("gguf-explorer")
    assert interrupt(process, 0.1) == ""
    assert process.returncode == 0


def test_what_is_ignored_stays_ignored(start: Start, model: Path) -> None:
    code = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n" + _START
    process = start("inspect", str(model), code=code)  # as under nohup
    assert interrupt(process, 0.0, signal.SIGHUP) == ""
    assert process.returncode == 0


_SLOW_EXPORT = """
import os, sys, time
from explorer import tabular
if sys.argv.pop(1) == "named":
    tabular._can_be_named_later = lambda name: False
from explorer.tabular import write_atomically
from explorer.__main__ import main
from explorer.cli import main as command
def run(*_):
    with write_atomically("table.csv") as stream:
        stream.write("x" * (1 << 20))
        stream.flush()
        print(".", flush=True)
        time.sleep(60)
command.main = run
sys.exit(main())
"""


@pytest.mark.parametrize("how", ["unnamed", "named"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_export_that_is_killed_leaves_nothing(
    start: Start, tmp_path: Path, how: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "table.csv").write_text("before")
    process = start(how, code=_SLOW_EXPORT)
    interrupt(process, 0.0, number)
    assert process.returncode == (-number if number == signal.SIGKILL else 128 + number)
    if how == "named" and number == signal.SIGKILL:
        assert list(tmp_path.glob(".gguf-explorer-*.tmp"))
        without_names_for_later(monkeypatch)  # as of the same system
        with write_atomically(tmp_path / "other.csv"):
            pass
        (tmp_path / "other.csv").unlink()
    assert {path.name for path in tmp_path.iterdir()} == {"table.csv"}
    assert (tmp_path / "table.csv").read_text() == "before"


def without_names_for_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("explorer.tabular._can_be_named_later", lambda _name: False)


def test_the_next_save_leaves_what_is_in_use_or_of_others(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / "mine"
    mine.write_text("mine")
    link, folder, left, other = (tmp_path / f".gguf-explorer-{digit * 16}.tmp" for digit in "0123")
    link.symlink_to(mine)
    folder.mkdir()
    left.write_text("half")
    other.write_text("another program's")
    other = other.rename(tmp_path / ".table.csv.0123456789abcdef.tmp")
    without_names_for_later(monkeypatch)
    process = start("named", code=_SLOW_EXPORT)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == ".\n"
        with write_atomically(tmp_path / "other.csv"):
            pass
        found = set(tmp_path.glob(".*.tmp"))
        assert {link, folder, other} < found
        assert len(found) == 4  # and that of the process, which runs
        assert left not in found
        assert mine.read_text() == "mine"
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE_S)


# Mistakes of the program


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object, **_options: object) -> None:
        raise ZeroDivisionError("a mistake")

    monkeypatch.setattr(program.program, "main", fail)


@pytest.mark.usefixtures("broken")
def test_a_mistake_of_the_program_leaves_a_report(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert program.main(["inspect", "x"]) == 1
    (report,) = (cache / "crashes").iterdir()
    assert capsys.readouterr().err == (
        "error: this is a mistake of the program, please report it: ZeroDivisionError: a mistake. "
        f"The details are in {report}\n"
    )
    text = report.read_text()
    assert text.startswith("GGUF Explorer")
    assert "in fail" in text


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize(("value", "shown"), [("1", True), ("0", False), ("", False)])
def test_a_variable_asks_for_the_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, value: str, shown: bool
) -> None:
    monkeypatch.setenv("GGUF_EXPLORER_DEBUG", value)
    assert program.main(["inspect", "x"]) == 1
    assert ("in fail" in capsys.readouterr().err) == shown


def test_errors_of_an_input_are_traced_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GGUF_EXPLORER_DEBUG", "1")
    assert program.main(["inspect", str(tmp_path / "\x1b[31m.gguf")]) == 1
    error = capsys.readouterr().err
    assert error.startswith("Traceback")
    assert "\x1b" not in error
    assert error.splitlines()[-1].startswith("error: ")
