"""What is taken for growth, and what is not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from explorer.qt.main_window import MainWindow
from explorer.qt.settings import Settings
from tests.helpers.leftovers import leftovers
from tests.soak.monkey import Monkey
from tests.soak.resting import allocated, rest

_FREES_20_MIB = """
import ctypes, threading
from explorer.qt.freed_memory import share_arenas
from tests.soak.resting import allocated, keep_nothing_freed, own_memory

share_arenas()
library = ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p
library.free.argtypes = [ctypes.c_void_p]

def work():
    library.free(library.malloc(16 << 20))  # from now on 32 MiB are kept, as after a large array
    held = [library.malloc(4_000) for _ in range(5_000)]
    for piece in held:
        ctypes.memset(piece, 1, 4_000)
    for piece in held:
        library.free(piece)

def growth():
    before = own_memory()
    for _ in range(2):  # one of them takes from the arena that is not the first
        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    library.malloc_trim(0)
    return own_memory() - before

keep_nothing_freed()
print(growth() < 8 << 20)
"""


@pytest.fixture
def window(
    qtbot: QtBot, qapp: QApplication, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[MainWindow]:
    monkeypatch.setenv("GGUF_EXPLORER_CACHE", str(tmp_path / "cache"))
    window = MainWindow(Settings(tmp_path / "settings.ini"))
    qtbot.addWidget(window)
    window.show()
    qtbot.waitExposed(window)
    yield window
    window.close()
    assert leftovers(qapp) == []


@pytest.mark.skipif(not allocated(), reason="the C library does not tell what it has given out")
@pytest.mark.slow  # a window is shown as large as any
def test_the_size_of_the_window_is_no_growth(qtbot: QtBot, window: MainWindow) -> None:
    monkey = Monkey(window, 1, [])
    held = []
    for size in ((1000, 700), (2000, 1400), (1000, 700)):
        window.resize(*size)
        qtbot.wait(50)  # until it is painted
        held.append(rest(monkey, 0).allocated)
    assert max(held) - min(held) < 2 << 20  # its own picture takes 8 MiB more


@pytest.mark.skipif(not allocated(), reason="it is glibc that keeps what threads free")
def test_what_threads_have_freed_is_no_growth() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _FREES_20_MIB],
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "True\n"
