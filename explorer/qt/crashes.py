"""Faults of the program that nobody caught: each is told and written down once, and work goes on.

They come from slots, from methods that Qt calls (a `paintEvent` that fails does so at every frame),
from jobs, from other threads, from objects that are being destroyed, and from Qt itself. All of
them end here.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Final

from PySide6.QtCore import (
    QMessageLogContext,
    QObject,
    QtMsgType,
    Signal,
    qInstallMessageHandler,
)
from shiboken6 import isValid

from explorer.qt.crash_reports import CrashReports, error_report
from explorer.text import plain_text, shorten

_MOST_OF_A_MESSAGE: Final = 100


class QtFault(RuntimeError):
    """Something that Qt calls critical."""


class Crashes(QObject):
    """Takes in faults of the program.

    Args:
        reports: Where they are written.
        parent: The owner.

    Signals:
        happened: A sentence for the user, and all that is known. Of a fault that happens again and
            again it is sent the 1st, 10th, 100th … time.
    """

    happened = Signal(str, str)

    def __init__(self, reports: CrashReports, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.reports = reports
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._written: dict[str, Path | None] = {}

    def note(self, error: BaseException) -> None:
        """Take in an error that nobody caught. Safe in any thread."""
        place = _place(error)
        with self._lock:
            self._counts[place] += 1
            count = self._counts[place]
        if str(count).strip("0") != "1":
            return
        report = error_report(error)
        if count == 1:
            _print(report)
            self._written[place] = self.reports.write(report)
        if not isValid(self):  # the window is gone
            return
        told = self.tr(
            "Something went wrong inside the program ({kind}). Please report the details."
        ).format(kind=type(error).__name__)
        if count > 1:
            told += " " + self.tr("It has happened {count} times.").format(count=count)
        self.happened.emit(told + self._place_told(self._written.get(place)), report)

    def tell_of_last_run(self) -> None:
        """Tell if the program crashed the last time; only once."""
        found = self.reports.take_crash()
        if found is not None:
            report, path = found
            told = self.tr("The program crashed the last time. Please report the details.")
            self.happened.emit(told + self._place_told(path), report)

    def _place_told(self, path: Path | None) -> str:
        if path is None:
            return ""
        return " " + self.tr("They are also in {path}").format(path=path)


def _place(error: BaseException) -> str:
    """Return what tells a fault from others: its kind, and where it was raised."""
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


def all_of_them(*actions: Callable[[], object]) -> None:
    """Do several things, also those behind one that fails; then raise the first error."""
    errors = []
    for action in actions:
        try:
            action()
        except Exception as error:  # noqa: BLE001 - raised below
            errors.append(error)
    if errors:
        raise errors[0]


@contextmanager
def catching(crashes: Crashes) -> Iterator[None]:
    """Send all that nobody catches to `crashes`, for as long as the context lasts."""

    def note(_kind: object, error: BaseException | None, _trace: TracebackType | None) -> None:
        if error is not None and not isinstance(error, KeyboardInterrupt):
            crashes.note(error)

    def note_of_thread(arguments: threading.ExceptHookArgs) -> None:
        note(arguments.exc_type, arguments.exc_value, arguments.exc_traceback)

    def note_unraisable(arguments: sys.UnraisableHookArgs) -> None:
        note(arguments.exc_type, arguments.exc_value, arguments.exc_traceback)

    def note_of_qt(kind: QtMsgType, _context: QMessageLogContext, message: str) -> None:
        line = plain_text(message)
        _print(line)
        if kind is QtMsgType.QtFatalMsg:  # Qt ends the process when this returns
            crashes.reports.note_before_abort(line)
        elif kind is QtMsgType.QtCriticalMsg:
            crashes.note(QtFault(line))

    before = sys.excepthook, threading.excepthook, sys.unraisablehook
    sys.excepthook, threading.excepthook = note, note_of_thread
    sys.unraisablehook = note_unraisable
    handler = qInstallMessageHandler(note_of_qt)
    crashes.reports.watch()
    try:
        yield
    finally:
        crashes.reports.stop_watching()
        qInstallMessageHandler(handler)
        sys.excepthook, threading.excepthook, sys.unraisablehook = before
