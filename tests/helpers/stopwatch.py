"""How long something took, on a machine that other programs use too."""

from __future__ import annotations

import os
import time
from typing import Final

_BUSY_TIMES: Final = 5  # as long as something may take where programs wait for a processor


class Stopwatch:
    """Measures from when it is made.

    Where more programs want to run than there are processors, as when the suite runs on all of
    them, the time on the wall says little. Then what the processors spent on this process counts,
    or a fifth of the time on the wall if that is more: a wait that is none of the machine's fault
    is still found.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._spent = time.process_time()

    def seconds(self) -> float:
        """Return the seconds since then."""
        wall = time.monotonic() - self._began
        busy = not hasattr(os, "getloadavg") or os.getloadavg()[0] > (os.cpu_count() or 1)
        if not busy:
            return wall
        return min(wall, max(time.process_time() - self._spent, wall / _BUSY_TIMES))
