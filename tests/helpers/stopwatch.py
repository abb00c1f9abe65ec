"""How long something took, on a machine that other programs use too."""

from __future__ import annotations

import os
import time
from typing import Final

_BUSY_TIMES: Final = 10  # as long as something may take where programs wait for a processor
_FIXED_WORK_S: Final = 0.01  # of `_fixed_work` where the limits were set


def in_time(seconds: float, most: float) -> bool:
    """Tell whether a computation took no longer than it may.

    Args:
        seconds: What the processor spent on it.
        most: What it may take on the machine where the limits were set. A slower one, or one whose
            caches others use too, may take longer, as it does for a fixed piece of Python.
    """
    if seconds <= most:
        return True
    return seconds <= most * min(map(_fixed_work, range(3))) / _FIXED_WORK_S


def _fixed_work(_: int) -> float:
    """Return the processor's seconds for some work."""
    started = time.process_time()
    found: dict[str, int] = {}
    for number in range(50_000):
        found[str(number)] = len(found) * 3 % 7
    return time.process_time() - started


def _is_busy() -> bool:
    """Tell whether more programs may want to run than there are processors.

    The suite by itself is that where it runs in several processes. The system's load is an average
    over a minute, and says nothing in a container that may use few of the processors.
    """
    if "PYTEST_XDIST_WORKER" in os.environ or not hasattr(os, "getloadavg"):
        return True
    return os.getloadavg()[0] > (os.cpu_count() or 1)


class Stopwatch:
    """Measures from when it is made.

    Where more programs want to run than there are processors, as when the suite runs on all of
    them, the time on the wall says little. Then what the processors spent on this process counts,
    or a tenth of the time on the wall if that is more: a wait that is none of the machine's fault
    is still found.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._spent = time.process_time()

    def seconds(self) -> float:
        """Return the seconds since then."""
        wall = time.monotonic() - self._began
        if not _is_busy():
            return wall
        return min(wall, max(time.process_time() - self._spent, wall / _BUSY_TIMES))
