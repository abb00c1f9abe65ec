"""What a test of the window has left running."""

from __future__ import annotations

from functools import cache

from PySide6.QtCore import QThread, QTimer
from PySide6.QtWidgets import QApplication
from shiboken6 import getAllValidWrappers

from explorer.qt.jobs import JobRunner
from tests.helpers.patience import PATIENCE_MS

_WORKING = (QTimer, QThread, JobRunner)


@cache  # the wrappers are of few types, and asking each of them costs twice as much as listing them
def _may_work(kind: type) -> bool:
    return issubclass(kind, _WORKING)


def leftovers(app: QApplication) -> list[str]:
    """Return what is on the screen, and which timers, threads and jobs of Python still work.

    Shiboken knows all objects of Qt that Python has, some thousands; the garbage collector knows a
    million others too, and looking through them for every test took a fifth of the suite's time.
    """
    left = [f"visible window {widget!r}" for widget in app.topLevelWidgets() if widget.isVisible()]
    for thing in getAllValidWrappers():
        if not _may_work(type(thing)):
            continue
        if isinstance(thing, QTimer):
            if thing.isActive():
                left.append(f"active timer {thing!r} of {thing.parent()!r}")
        elif isinstance(thing, QThread):
            if thing is not app.thread() and thing.isRunning():
                left.append(f"running thread {thing!r}")
        elif (
            isinstance(thing, JobRunner)
            and thing._pool.activeThreadCount()  # of the last job it may have told already
            and (thing.jobs or not thing._pool.waitForDone(PATIENCE_MS))
        ):
            left.append(f"running job {[job.title for job in thing.jobs]}")
    return left
