"""What an action takes, on a machine that has other work too."""

from __future__ import annotations

import time
from collections.abc import Callable


def seconds(action: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the seconds of one run, by the wall's clock if no other one is given."""
    started = clock()
    action()
    return clock() - started


def best_seconds(
    *actions: Callable[[], object], runs: int = 5, clock: Callable[[], float] = time.perf_counter
) -> list[float]:
    """Return the least seconds of each action: what is above it is the machine's other work.

    The actions take turns, so that all of them meet one machine.
    """
    times = [[seconds(action, clock) for action in actions] for _ in range(runs)]
    return [min(column) for column in zip(*times, strict=True)]
