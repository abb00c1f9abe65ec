"""How long something took, on a machine that other programs use too."""

from __future__ import annotations

import time
from typing import Final

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
