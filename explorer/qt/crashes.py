"""Uncaught exceptions: log each once, report it to the user, keep running.

They come from slots, from methods that Qt calls (a `paintEvent` that fails does so at every frame),
from jobs and other threads, from destructors, and from Qt. Reports: `explorer.crash_reports`.
"""

from __future__ import annotations

import re
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Final

from PySide6 import QtCore
from PySide6 import __version__ as pyside_version
from PySide6.QtCore import Signal
from PySide6.QtGui import QGuiApplication
from shiboken6 import isValid

from explorer.crash_reports import CrashReports, error_report
from explorer.text import plain_text, shorten

_MOST_OF_A_MESSAGE: Final = 100
# before Qt exits: qxcbconnection.cpp, qwaylanddisplay.cpp
_DISPLAY_LOST: Final = re.compile("^The (X11|Wayland) connection (broke|experienced a fatal error)")


def _versions() -> str:
    """Return the versions of Qt and its binding, for a report."""
    screen = QGuiApplication.platformName() or "no screen"
    return f", PySide6 {pyside_version}, Qt {QtCore.qVersion()} ({screen})"


class QtFault(RuntimeError):
    """A critical message of Qt."""


class Crashes(QtCore.QObject):
    """Reports faults of the program.

    Signals:
        happened: A sentence for the user, and the report; for a fault that repeats, the 1st, 10th,
            100th … time.
        display_lost: The display went away; Qt ends the process when this returns.
    """

    happened = Signal(str, str)
    display_lost = Signal()

    def __init__(self, reports: CrashReports, parent: QtCore.QObject | None = None) -> None:
        super().__init__(parent)
        reports.surroundings = _versions()
        self.reports = reports
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._written: dict[str, Path | None] = {}

    def note(self, error: BaseException) -> None:
        """Report an uncaught exception. Safe in any thread."""
        place = _place(error)
        with self._lock:
            self._counts[place] += 1
            count = self._counts[place]
        if str(count).strip("0") != "1":
            return
        report = error_report(error, self.reports.surroundings)
        if count == 1:
            _print(report)
            self._written[place] = self.reports.write(report)
        if not isValid(self):  # the window is gone
            return
        sentence = (
            f"Something went wrong inside the program ({type(error).__name__}). Please report the "
            "details."
        )
        if count > 1:
            sentence += " " + f"It has happened {count} times."
        self._report(sentence, report, self._written.get(place))

    def report_last_run(self) -> None:
        """Report once that the program crashed the last time, if it did."""
        found = self.reports.take_crash()
        if found is not None:
            self._report("The program crashed the last time. Please report the details.", *found)

    def _report(self, sentence: str, report: str, path: Path | None) -> None:
        if path is not None:
            sentence += " " + f"They are also in {path}"
        self.happened.emit(sentence, report)


def _place(error: BaseException) -> str:
    """Return what identifies a fault: its kind, and where it was raised."""
    trace = error.__traceback__
    if trace is None:
        return f"{type(error).__name__} {shorten(str(error), _MOST_OF_A_MESSAGE)}"
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f"{type(error).__name__} {trace.tb_frame.f_code.co_filename} {trace.tb_lineno}"


def _print(text: str) -> None:
    """Write to standard error, if the program has one."""
    if sys.stderr is not None:
        with suppress(OSError, ValueError):  # a closed pipe, a closed file
            sys.stderr.write(text.rstrip("\n") + "\n")
            sys.stderr.flush()


@contextmanager
def catching(crashes: Crashes) -> Iterator[None]:
    """Send uncaught exceptions to `crashes`, for as long as the context lasts."""

    def note(_kind: object, error: BaseException | None, _trace: TracebackType | None) -> None:
        if error is not None and not isinstance(error, KeyboardInterrupt):
            crashes.note(error)

    def note_of_hook(arguments: threading.ExceptHookArgs | sys.UnraisableHookArgs) -> None:
        note(arguments.exc_type, arguments.exc_value, arguments.exc_traceback)

    def note_of_qt(
        kind: QtCore.QtMsgType, _context: QtCore.QMessageLogContext, message: str
    ) -> None:
        line = plain_text(message)
        _print(line)
        if _DISPLAY_LOST.search(line):
            crashes.display_lost.emit()
        if kind is QtCore.QtMsgType.QtFatalMsg:  # Qt ends the process when this returns
            crashes.reports.note_before_abort(line)
        elif kind is QtCore.QtMsgType.QtCriticalMsg:
            crashes.note(QtFault(line))

    before = sys.excepthook, threading.excepthook, sys.unraisablehook
    sys.excepthook, threading.excepthook, sys.unraisablehook = note, note_of_hook, note_of_hook
    handler = QtCore.qInstallMessageHandler(note_of_qt)
    crashes.reports.watch()
    try:
        yield
    finally:
        crashes.reports.stop_watching()
        QtCore.qInstallMessageHandler(handler)
        sys.excepthook, threading.excepthook, sys.unraisablehook = before
