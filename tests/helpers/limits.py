"""Measure what opening a file costs.

Times are those of the processor: a machine that is busy with something else is not a failure.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from tests.helpers.patience import PROGRAM_S
from tests.helpers.stopwatch import in_time

T = TypeVar("T")

MAX_SECONDS = 1.0
MAX_BYTES = 100 << 20

_ROOT = Path(__file__).resolve().parents[2]

_OPEN_AND_MEASURE = """
import json, sys, time
from pathlib import Path
from explorer.errors import ExplorerError
from explorer.formats.gguf.open import open_gguf
from tests.helpers.memory import most_memory

def look():
    global error, model
    try:
        model = open_gguf(Path(sys.argv[1]))
    except ExplorerError as caught:
        error = str(caught)

error = None
open_gguf(Path(sys.argv[2])).close()  # imports and first uses
started = time.process_time()
nbytes = most_memory(look)
print(json.dumps([time.process_time() - started, nbytes, error]))
"""


def bounded(action: Callable[[], T]) -> T:
    """Call `action` and fail if it takes a second or 100 MB; call it twice, to measure apart.

    What the action raises passes through.
    """
    started = time.process_time()
    with suppress(Exception):  # it comes again below
        action()
    seconds = time.process_time() - started
    tracemalloc.start()
    try:
        return action()
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert in_time(seconds, MAX_SECONDS), f"took {seconds:.2f} s"
        assert peak <= MAX_BYTES, f"took {peak >> 20} MiB"


def open_in_a_process(path: Path, harmless: Path) -> tuple[float, int, str | None]:
    """Open a file in a process of its own.

    Args:
        path: The file to open.
        harmless: A small model to open first, so that imports are not measured.

    Returns:
        Seconds, most bytes of memory over the idle program, the error's text or None.
    """
    done = subprocess.run(
        [sys.executable, "-c", _OPEN_AND_MEASURE, str(path), str(harmless)],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seconds, peak, error = json.loads(done.stdout)
    return seconds, peak, error
