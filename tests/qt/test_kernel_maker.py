"""Kernels are compiled by a program beside the window: in order, in time, and nothing is left."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from explorer.qt.jobs import Cancelled
from explorer.qt.kernel_compiler import KernelMaker, compile_command
from explorer.quantization.kernel_cache import is_compiled, note_compiled
from explorer.quantization.kernel_sets import GENERAL, exact, is_later, later, rounding_to
from tests.helpers.patience import PATIENCE_S

Make = Callable[[str], KernelMaker]

_COMPILING_S = 420.0  # by a program that lets all others go first, on a machine that they keep busy

# Stands for the compiler: marks what it is given, the types on standard input first, once there is
# a file "go"; writes down what it was told and what it marked, each in a file of its own.
_MARK = """
import os, sys, threading, time
from pathlib import Path
from explorer.quantization.kernel_cache import note_compiled
folder = Path(os.environ["NUMBA_CACHE_DIR"])
told = (folder / f"told-{os.getpid()}").open("a", buffering=1)
marked = (folder / f"marked-{os.getpid()}").open("a", buffering=1)
waiting = sys.argv[1:]
def listen():
    for line in sys.stdin:
        waiting.insert(0, line.strip())
        told.write(line)
threading.Thread(target=listen, daemon=True).start()
while not (folder / "go").exists():
    time.sleep(0.005)
while waiting:
    name = waiting.pop(0)
    marked.write(name + "\\n")
    note_compiled(name)
"""
_SLEEP = "import time; time.sleep(3600)"
_FAIL = """
import os, sys
from pathlib import Path
(Path(os.environ["NUMBA_CACHE_DIR"]) / "failed").touch()
sys.exit(3)
"""


def never() -> None:
    pass


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for compiled kernels."""
    kernels = tmp_path / "kernels"
    kernels.mkdir()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(kernels))
    # Else whoever waits might have given up while other programs kept the machine busy
    monkeypatch.setattr("explorer.qt.kernel_compiler._LONGEST_WAIT_S", 10 * PATIENCE_S)
    return kernels


def _go(folder: Path) -> None:
    """Let the programs mark what they are given."""
    (folder / "go").touch()


def _written(folder: Path, what: str) -> list[list[str]]:
    """Return what each program wrote down: what it was "told", or what it "marked"."""
    return [path.read_text().splitlines() for path in folder.glob(f"{what}-*")]


@pytest.fixture
def make(qtbot: QtBot) -> Iterator[Make]:
    """Make makers whose program is a Python script."""
    makers: list[KernelMaker] = []

    def make_one(script: str) -> KernelMaker:
        makers.append(KernelMaker(None, lambda: (sys.executable, ["-c", script]), 2))
        return makers[-1]

    yield make_one
    for maker in makers:
        maker.close()
        assert not maker.running


def _wait_in_thread(maker: KernelMaker, *types: str, first_look: bool = False) -> threading.Thread:
    thread = threading.Thread(
        target=maker.wait, args=(types, never), kwargs={"first_look": first_look}
    )
    thread.start()
    return thread


def test_a_worker_waits_until_the_kernels_are_there(qtbot: QtBot, folder: Path, make: Make) -> None:
    maker = make(_MARK)
    assert maker.ask_now(["Q4_K", "Q6_K"]) == ["Q4_K", "Q6_K"]
    thread = _wait_in_thread(maker, "Q4_K")
    assert thread.is_alive()
    _go(folder)
    qtbot.waitUntil(lambda: not thread.is_alive())
    assert is_compiled("Q4_K")
    qtbot.waitUntil(lambda: not maker.running)
    assert is_compiled("Q6_K")
    assert maker.ask_now(["Q4_K"]) == []


def test_what_somebody_waits_for_goes_first(qtbot: QtBot, folder: Path, make: Make) -> None:
    maker = make(_MARK)
    many = ["Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "Q8_0", "F16"]
    assert maker.ask_now(many) == many
    assert maker.ask_now(["F16"]) == ["F16"]
    qtbot.waitUntil(lambda: any("F16" in told for told in _written(folder, "told")))
    _go(folder)
    qtbot.waitUntil(lambda: not maker.running)
    (order,) = (marked for marked in _written(folder, "marked") if "F16" in marked)
    assert order[0] == "F16"
    assert set(order) > {"F16"}


def test_what_all_types_need_is_made_beside_what_one_needs(
    qtbot: QtBot, folder: Path, make: Make
) -> None:
    maker = make(_SLEEP)
    assert maker.ask_now(["Q4_K", "int4"]) == ["Q4_K", "int4"]
    assert [program.names for program in maker._programs] == [
        [GENERAL, "int4", exact("Q4_K")],
        ["Q4_K", exact(GENERAL), exact("int4")],
    ]
    looking = _wait_in_thread(maker, "Q4_K", first_look=True)
    thread = _wait_in_thread(maker, "Q4_K")
    note_compiled("Q4_K")
    qtbot.waitUntil(lambda: "Q4_K" not in maker._missing)
    assert looking.is_alive()
    note_compiled(GENERAL)
    qtbot.waitUntil(lambda: not looking.is_alive())
    assert thread.is_alive()
    assert maker.ask_now(["Q4_K"]) == ["Q4_K"]
    note_compiled(exact(GENERAL))
    note_compiled(exact("Q4_K"))
    qtbot.waitUntil(lambda: not thread.is_alive())
    assert maker.ask_now(["Q4_K"]) == []


def test_where_a_core_is_the_window_s_alone_there_is_one_program(folder: Path) -> None:
    maker = KernelMaker(None, lambda: (sys.executable, ["-c", _SLEEP]), 1)
    maker.ask_now(["Q4_K", "Q6_K"])
    first = [GENERAL, "Q4_K", "Q6_K"]
    assert [program.names for program in maker._programs] == [[*first, *map(exact, first)]]
    maker.ask_now(["F16"])
    assert [program.more for program in maker._programs] == [[exact("F16"), "F16"]]
    maker.close()


def test_what_rounds_comes_after_what_reads(qtbot: QtBot, folder: Path, make: Make) -> None:
    maker = make(_MARK)
    rounding = rounding_to("int4/32")
    assert maker.ask_now(["Q4_K", rounding, rounding_to("Q8_K")]) == ["Q4_K", rounding]
    _go(folder)
    qtbot.waitUntil(lambda: not maker.running)
    assert is_compiled("Q4_K")
    (order,) = (marked for marked in _written(folder, "marked") if rounding in marked)
    assert order == [GENERAL, exact(GENERAL), rounding]
    assert not is_compiled(exact(rounding))
    assert not is_compiled(rounding_to("Q8_K"))  # nothing rounds to it


def test_what_can_wait_is_made_when_nothing_else_is(qtbot: QtBot, folder: Path, make: Make) -> None:
    maker = make(_MARK)
    maker.ask(["Q4_K"])
    qtbot.waitUntil(lambda: maker.running)
    first = [*maker._programs]
    assert not [name for program in first for name in program.names if is_later(name)]
    _go(folder)
    qtbot.waitUntil(lambda: is_compiled(later("Q4_K")) and is_compiled(later(GENERAL)))
    assert is_compiled("Q4_K")
    assert is_compiled(GENERAL)
    qtbot.waitUntil(lambda: not maker.running)
    assert len(_written(folder, "marked")) == len(first) + 1


def test_what_can_wait_may_fail(qtbot: QtBot, folder: Path, make: Make) -> None:
    for name in (GENERAL, "Q4_K"):
        note_compiled(name)
        note_compiled(exact(name))
    maker = make(_FAIL)
    maker.ask(["Q4_K"])
    qtbot.waitUntil((folder / "failed").exists)
    qtbot.waitUntil(lambda: not maker.running)
    assert maker.ask_now(["Q6_K"]) == ["Q6_K"]


def test_nothing_is_started_for_what_is_there(folder: Path, make: Make) -> None:
    for name in (GENERAL, "Q4_K"):
        note_compiled(name)
        note_compiled(exact(name))
    maker = make(_FAIL)
    assert maker.ask_now(["Q4_K", "C64", "unheard of"]) == []
    assert not maker.running
    maker.wait(["Q4_K", "C64"], never)


@pytest.mark.parametrize("where", ["", "missing", "a file"])
def test_without_a_folder_everybody_compiles_for_himself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Make, where: str
) -> None:
    (tmp_path / "a file").touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / where) if where else "")
    monkeypatch.setenv("GGUF_EXPLORER_CACHE", str(tmp_path / "a file" / "cache"))
    maker = make(_SLEEP)
    assert maker.ask_now(["Q4_K"]) == []
    assert not maker.running
    maker.wait(["Q4_K"], never)


@pytest.mark.parametrize("script", [_FAIL, "raise SystemExit(0)"])
def test_a_program_that_fails_keeps_nobody_waiting(
    qtbot: QtBot, folder: Path, make: Make, script: str
) -> None:
    maker = make(script)
    assert maker.ask_now(["Q4_K"]) == ["Q4_K"]
    thread = _wait_in_thread(maker, "Q4_K")
    qtbot.waitUntil(lambda: not thread.is_alive())
    assert maker.ask_now(["Q6_K"]) == []
    qtbot.waitUntil(lambda: not maker.running)


def test_a_program_that_cannot_be_started_keeps_nobody_waiting(qtbot: QtBot, folder: Path) -> None:
    maker = KernelMaker(None, lambda: (str(folder / "missing"), []))
    maker.ask_now(["Q4_K"])
    thread = _wait_in_thread(maker, "Q4_K")
    qtbot.waitUntil(lambda: not thread.is_alive() and not maker.running)
    maker.close()


def test_waiting_can_be_cancelled_and_closing_ends_the_program(
    qtbot: QtBot, folder: Path, make: Make
) -> None:
    maker = make(_SLEEP)
    maker.ask_now(["Q4_K"])
    program = maker._programs[0]
    qtbot.waitUntil(lambda: program.number > 0)
    number = program.number

    def cancelled() -> None:
        raise Cancelled

    with pytest.raises(Cancelled):
        maker.wait(["Q4_K"], cancelled)
    thread = _wait_in_thread(maker, "Q4_K")
    maker.close()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    if sys.platform != "win32":
        with pytest.raises(ProcessLookupError):  # neither running nor a zombie
            os.kill(number, 0)


def test_wishes_wait_for_an_idle_moment(qtbot: QtBot, folder: Path, make: Make) -> None:
    maker = make(_MARK)
    maker.ask(["Q4_K"])
    maker.ask(["Q6_K"])
    assert not maker.running
    _go(folder)
    qtbot.waitUntil(lambda: is_compiled("Q6_K") and is_compiled("Q4_K"))


def test_what_is_wanted_soon_does_not_wait(qtbot: QtBot, folder: Path, make: Make) -> None:
    maker = make(_SLEEP)
    maker.ask(["Q6_K"])
    maker.ask(["Q4_K"], soon=True)
    qtbot.waitUntil(lambda: maker.running)
    assert [program.names for program in maker._programs] == [
        [GENERAL, "Q6_K", exact("Q4_K")],
        ["Q4_K", exact(GENERAL), exact("Q6_K")],
    ]


@pytest.mark.slow
@pytest.mark.timeout(2 * _COMPILING_S)
def test_the_program_itself_compiles(qtbot: QtBot, folder: Path) -> None:
    maker = KernelMaker(None, compile_command)
    maker.ask_now(["Q4_0"])
    qtbot.waitUntil(lambda: is_compiled("Q4_0"), timeout=int(1000 * _COMPILING_S))
    assert list(folder.rglob("*.nbc"))
    qtbot.waitUntil(lambda: is_compiled(GENERAL), timeout=int(1000 * _COMPILING_S))
    maker.close()
