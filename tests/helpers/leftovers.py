"""What a test of the window has left running."""

from __future__ import annotations

from PySide6.QtCore import QThread, QTimer
from PySide6.QtWidgets import QApplication
from shiboken6 import getAllValidWrappers

from explorer.qt.jobs import JobRunner


def leftovers(app: QApplication) -> list[str]:
    """Return what is on the screen, and which timers, threads and jobs of Python still work.

    Shiboken knows all objects of Qt that Python has, some thousands; the garbage collector knows a
    million others too, and looking through them for every test took a fifth of the suite's time.
    """
    left = [f"visible window {widget!r}" for widget in app.topLevelWidgets() if widget.isVisible()]
    for thing in getAllValidWrappers():
        if isinstance(thing, QTimer):
            if thing.isActive():
                left.append(f"active timer {thing!r} of {thing.parent()!r}")
        elif isinstance(thing, QThread):
            if thing is not app.thread() and thing.isRunning():
                left.append(f"running thread {thing!r}")
        elif isinstance(thing, JobRunner) and thing._pool.activeThreadCount():
            left.append(f"running job {[job.title for job in thing.jobs]}")
    return left
