"""How long the GUI thread did not come to look at its events."""

from __future__ import annotations

import time
from collections.abc import Callable

from PySide6.QtCore import QEventLoop, Qt, QTimer


class Heartbeat:
    """A precise timer of a millisecond, and how long it stayed away at most.

    Args:
        clock: What counts as time; `time.thread_time` leaves out what other programs take.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._loop = QEventLoop()
        self._done: Callable[[], bool] = lambda: True
        self._longest = self._last = 0.0
        self._timer = QTimer(interval=1, timerType=Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._beat)

    def _beat(self) -> None:
        now = self._clock()
        self._longest = max(self._longest, now - self._last)
        self._last = now
        if self._done():
            self._loop.quit()

    def during(
        self, done: Callable[[], bool], step: Callable[[], object] = lambda: None
    ) -> tuple[float, float]:
        """Do a step and run events until it is done; return the time and the longest pause."""
        self._done = done
        self._longest, self._last = 0.0, self._clock()
        started = self._last
        self._timer.start()
        QTimer.singleShot(0, step)
        self._loop.exec()
        self._timer.stop()
        return self._last - started, self._longest
