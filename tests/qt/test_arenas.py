"""Threads share the memory that they free."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from tests.helpers.patience import PROGRAM_S

# each thread has a piece of its own arena, as long as all threads wait for each other
PROGRAM = """
import ctypes, os, sys, threading
from explorer.qt.app import share_arenas

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
