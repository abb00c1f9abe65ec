"""What an action takes, on a machine that has other work too."""

from __future__ import annotations

import time
from collections.abc import Callable


def seconds(action: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the seconds of one run, by the wall's clock if no other one is given."""
    started = clock()
    action()
    return clock() - started


def best_seconds(action: Callable[[], object], runs: int = 5) -> float:
    """Return the least seconds of some runs: what is above it is the machine's other work."""
    return min(seconds(action) for _ in range(runs))
