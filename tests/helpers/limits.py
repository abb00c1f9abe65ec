"""Measure what opening a file costs.

Times are those of the processor: a machine that is busy with something else is not a failure.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from tests.helpers.stopwatch import in_time

T = TypeVar("T")

MAX_SECONDS = 1.0
MAX_BYTES = 100 << 20


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
