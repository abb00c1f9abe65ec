"""What two threads can gain on this machine now, with work that needs no Python and not each other.

Other programs, and other machines on the same processor, may leave less than two cores. A benchmark
of two threads says so then, where its mark is out of reach.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np

from explorer.analysis.histogram import Binning, RunningCounts
from explorer.analysis.moments import RunningMoments
from explorer.formats.weights import CHUNK_WEIGHTS


def work_on_one_and_two() -> tuple[Callable[[], None], Callable[[], None]]:
    """Return 20 ms of the loops that statistics spend their time in, and two threads of it."""
    works = [_loops(seed) for seed in range(2)]

    def together() -> None:
        threads = [threading.Thread(target=work) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return works[0], together


def _loops(seed: int) -> Callable[[], None]:
    values = np.random.default_rng(seed).standard_normal(CHUNK_WEIGHTS, np.float32)
    known = RunningMoments()
    known.add(values)
    binning = Binning.of_weights(known.low, known.high, 256)

    def run() -> None:
        moments, counts = RunningMoments(), RunningCounts([binning])
        for _ in range(32):
            moments.add(values)
            counts.add([values])

    return run
