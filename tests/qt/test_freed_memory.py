"""What was freed goes back to the system."""

from __future__ import annotations

import ctypes
import gc
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from explorer.qt.freed_memory import give_back
from tests.helpers.patience import PROGRAM_S
from tests.helpers.small_gguf import SmallGguf

_ROOT = Path(__file__).resolve().parents[2]
_TYPES = 2_000


def test_no_name_of_an_attribute_is_kept() -> None:
    """PySide looks attributes up so: by a new text each time, which Python's own cache keeps."""
    look_up = ctypes.pythonapi.PyObject_GetAttrString
    look_up.restype = ctypes.py_object
    look_up.argtypes = [ctypes.py_object, ctypes.c_char_p]
    types = [type("T", (), {"value": None}) for _ in range(_TYPES)]
    give_back()
    gc.collect()
    before = sys.getallocatedblocks()
    for one in types:
        look_up(one, b"value")
    kept = sys.getallocatedblocks() - before
    give_back()
    assert kept > _TYPES / 4  # of some, others took the place
    assert sys.getallocatedblocks() - before < _TYPES / 20


_IMPORTS = """
import linecache
from importlib import import_module
import explorer.qt.app
from explorer.qt.panels import PANEL_MODULES
for name in PANEL_MODULES:
    import_module(name)
print(sum(len(entry[2]) for entry in linecache.cache.values() if len(entry) > 1))
"""


def test_sources_of_modules_are_not_kept() -> None:
    """PySide reads them: 300,000 lines, and 32 MiB, of all that a window imports."""
    told = subprocess.run(
        [sys.executable, "-c", _IMPORTS], cwd=_ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert int(told) < 10_000  # of what is imported before the program can tell it not to


_MODELS = """
import sys
from importlib import import_module
from pathlib import Path
from PySide6.QtWidgets import QApplication
from explorer.qt.freed_memory import share_arenas

share_arenas()
app = QApplication([])
from explorer.qt.main_window import MainWindow
from explorer.qt.panels import PANEL_MODULES
from explorer.qt.settings import Settings
from tests.soak.resting import own_memory

def settle(count):
    while window.runner.jobs or window.loading or len(window.documents) != count:
        app.processEvents()
    app.processEvents()

def open_and_close(paths):
    window.open_paths(paths)
    settle(len(paths))
    for document in list(window.documents):
        window.reveal_model(document)
        settle(len(paths))
    del document
    most = own_memory()
    while window.documents:
        window.close_document(window.documents[0])
    settle(0)
    return most, own_memory()

for name in PANEL_MODULES:
    import_module(name)
folder = Path(sys.argv[1])
window = MainWindow(Settings(folder / "settings.ini"))
window.show()
_, before = open_and_close([folder / "small.gguf"])
most, after = open_and_close(sorted(folder.glob("wide*.gguf")))
print(before >> 20, most >> 20, after >> 20)
"""


@pytest.mark.slow  # a minute of a machine that others share
@pytest.mark.skipif(sys.platform != "linux", reason="other systems count otherwise")
def test_the_memory_of_wide_models_comes_back(tmp_path: Path) -> None:
    architecture = ("general.architecture", "llama")
    (tmp_path / "small.gguf").write_bytes(SmallGguf(keys=[architecture]).write())
    keys = [(f"some.key.{place * 7919 % 60_000}", place) for place in range(60_000)]
    content = SmallGguf(keys=[architecture, *keys]).write()
    for number in range(5):
        (tmp_path / f"wide{number}.gguf").write_bytes(content)
    told = subprocess.run(
        [sys.executable, "-c", _MODELS, str(tmp_path)],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=PROGRAM_S,
    ).stdout
    before, most, after = map(int, told.split())
    assert most > before + 150, told  # MiB: five were open
    assert after < before + 60, told


# each thread has a piece of its own arena, as long as all threads wait for each other
PROGRAM = """
import ctypes, os, sys, threading
from explorer.qt.freed_memory import share_arenas

if sys.argv[1] == "shared":
    share_arenas()
library = ctypes.CDLL(None)
library.fdopen.restype = ctypes.c_void_p
together = threading.Barrier(8)

def take():
    library.malloc(1000)
    together.wait()

threads = [threading.Thread(target=take) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
told = ctypes.c_void_p(library.fdopen(os.dup(1), b"w"))
library.malloc_info(0, told)
library.fclose(told)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no arenas")
@pytest.mark.parametrize(("how", "most"), [("shared", 2), ("apart", 9)])
def test_threads_share_arenas(how: str, most: int) -> None:
    told = subprocess.run(
        [sys.executable, "-c", PROGRAM, how],
        capture_output=True,
        text=True,
        check=True,
        timeout=PROGRAM_S,
    ).stdout
    count = told.count("<heap nr=")
    assert 1 < count <= most
    assert count > 2 or how == "shared"  # without it there are more
