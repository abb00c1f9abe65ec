"""How fast something goes, and how long it will take, in words."""

from __future__ import annotations

import time

from PySide6.QtCore import QCoreApplication

from explorer.text import bytes_text, count_text

_SETTLED_S = 0.2  # a rate of less time says nothing
_FORESEEABLE_S = 3.0  # and the time that is left nothing before that


class Pace:
    """Measures from the first figure on that it gets."""

    def __init__(self) -> None:
        self._first: tuple[float, int, int] | None = None

    def text(self, done: int, total: int, nbytes: int, *, left: bool = False) -> str:
        """Return how far it is and how fast it goes.

        Args:
            done: Weights done.
            total: What that will be.
            nbytes: Their stored bytes.
            left: Whether to say how much time is left.
        """
        now = time.monotonic()
        if self._first is None:
            self._first = now, done, nbytes
        start, first_done, first_bytes = self._first
        share = done / total if total else 1.0
        text = _tr("{share:.0f} %").format(share=100 * share)
        elapsed = now - start
        if elapsed < _SETTLED_S:
            return text
        text += _tr("   {weights} weights/s, {size}/s").format(
            weights=count_text(round((done - first_done) / elapsed)),
            size=bytes_text(round((nbytes - first_bytes) / elapsed)),
        )
        if left and elapsed > _FORESEEABLE_S and done > first_done:
            seconds = (total - done) / (done - first_done) * elapsed
            text += _tr("   {time} left").format(time=duration_text(seconds))
        return text

    def forget(self) -> None:
        """Measure from the next figure on."""
        self._first = None


def duration_text(seconds: float) -> str:
    """Return a time as text: ``"45 s"``, ``"3:05 min"``, ``"2:10 h"``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02} min"
    return f"{whole // 3600}:{whole % 3600 // 60:02} h"


def _tr(text: str) -> str:
    return QCoreApplication.translate("ProgressLine", text)
