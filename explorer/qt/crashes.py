"""Uncaught exceptions: log each once, report it to the user, keep running.

They come from slots, from methods that Qt calls (a `paintEvent` that fails does so at every frame),
from jobs and other threads, from destructors, and from Qt. Reports are files on this machine, which
the user can read, send or delete. A Python error is written when it happens. When the process
crashes (a segmentation fault, a fatal message of Qt), `faulthandler` writes into a file that every
running program keeps open; the next start finds it.
"""

from __future__ import annotations

import faulthandler
import os
import platform
import re
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, TextIO

from PySide6 import QtCore
from PySide6 import __version__ as pyside_version
from PySide6.QtCore import Signal
from PySide6.QtGui import QGuiApplication
from shiboken6 import isValid

from explorer import __version__
from explorer.paths import cache_folder, make_private_folder
from explorer.quantization import kernel_cache
from explorer.text import plain_text, shorten

MOST_REPORTS: Final = 20
MOST_CHARACTERS: Final = 64_000

_DIED_IN_MACHINE_CODE: Final = re.compile(
    "Fatal Python error: (Segmentation fault|Bus error|Illegal instruction|Floating point)"
)
_REPORT: Final = "report-"
_FAULT: Final = "running-"  # of a process; a crash is written into it


class CrashReports:
    """A folder of the newest 20 reports; it need not exist. None: there is no place to write."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._fault: TextIO | None = None

    @classmethod
    def of_user(cls) -> CrashReports:
        """Return the reports of the user who runs the program."""
        try:
            return cls(cache_folder() / "crashes")
        except RuntimeError:  # a user without a home
            return cls(None)

    def write(self, text: str) -> Path | None:
        """Write a report; return its file, or None where it cannot be written."""
        if self._folder is None:
            return None
        moment = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
        path = self._folder / f"{_REPORT}{moment}-{time.time_ns() % 10**9:09}-{os.getpid()}.txt"
        try:
            make_private_folder(self._folder)
            path.write_text(text, encoding="utf-8")
            self._remove_oldest()
        except OSError:  # a full disk, say: then the window alone reports it
            with suppress(OSError):
                path.unlink()
            return None
        return path

    def _remove_oldest(self) -> None:
        assert self._folder is not None
        for path in sorted(self._folder.glob(f"{_REPORT}*.txt"))[:-MOST_REPORTS]:
            path.unlink(missing_ok=True)

    def watch(self) -> None:
        """Write a crash of this process into a file of its own, until `stop_watching`."""
        if self._folder is None:
            return
        with suppress(OSError):
            make_private_folder(self._folder)
            # the time, since in a sandbox every process of a program has the same number
            path = self._folder / f"{_FAULT}{time.time_ns()}-{os.getpid()}.txt"
            self._fault = open(path, "w", encoding="utf-8")  # noqa: SIM115 - open until the end
            _mark_as_running(self._fault)
            faulthandler.enable(self._fault)

    def stop_watching(self) -> None:
        """Remove the file of `watch`, at the end of a process that did not crash."""
        if self._fault is not None:
            faulthandler.disable()
            self._fault.close()
            with suppress(OSError):
                os.unlink(self._fault.name)
            self._fault = None

    def note_before_abort(self, text: str) -> None:
        """Write into the file of `watch`: Qt is about to end the process."""
        if self._fault is not None:
            with suppress(OSError):
                self._fault.write(f"{_safe(text)}\n")
                self._fault.flush()

    def take_crash(self) -> tuple[str, Path | None] | None:
        """Return the latest crash since the last call and the file of its report, or None.

        Files of processes that were killed, as at a power failure, are empty and are removed.
        """
        found = None
        with suppress(OSError):
            for path in sorted(self._folder.glob(f"{_FAULT}*.txt")) if self._folder else ():
                found = self._take_one(path) or found
        return found

    def _take_one(self, path: Path) -> tuple[str, Path | None] | None:
        with open(path, "r+", encoding="utf-8", errors="replace") as file:
            if not _mark_as_running(file):
                return None
            left = file.read(MOST_CHARACTERS)
            path.unlink()  # while it is marked: of two programs that start now, one takes it
        if not left:
            return None
        if _DIED_IN_MACHINE_CODE.search(left):
            kernel_cache.remove_kernels()
        text = _headed("crashed", left)
        return text, self.write(text)


def error_report(error: BaseException) -> str:
    """Return an error with its traceback, safe to show, without the name of the home folder."""
    return _headed("met an error inside itself", "".join(traceback.format_exception(error)))


def _headed(what: str, details: str) -> str:
    moment = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    facts = (
        f"GGUF Explorer {__version__} {what}; {moment}",
        f"Python {platform.python_version()}, PySide6 {pyside_version}, Qt {QtCore.qVersion()} "
        f"({QGuiApplication.platformName() or 'no screen'}), {platform.platform()}",
        "",
    )
    return "\n".join(facts) + _safe(details)


def _safe(text: str) -> str:
    """Return text from anywhere, bounded, plain, and without the user's name in paths."""
    half = MOST_CHARACTERS // 2
    if len(text) > 2 * half:
        text = f"{text[:half]}\n…\n{text[-half:]}"
    home = os.path.expanduser("~").rstrip(os.sep)
    if len(home) > 1:
        text = text.replace(home + os.sep, "~" + os.sep)
    return plain_text(text, lines=True)


def _mark_as_running(file: TextIO) -> bool:
    """Lock a file for as long as it is open; return False if another process has locked it."""
    if sys.platform == "win32":
        return True  # an open file cannot be removed there, which shows the same
    import fcntl  # noqa: PLC0415 - not on every system

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


_MOST_OF_A_MESSAGE: Final = 100


class QtFault(RuntimeError):
    """A critical message of Qt."""


class Crashes(QtCore.QObject):
    """Reports faults of the program.

    Signals:
        happened: A sentence for the user, and the report; for a fault that repeats, the 1st, 10th,
            100th … time.
    """

    happened = Signal(str, str)

    def __init__(self, reports: CrashReports, parent: QtCore.QObject | None = None) -> None:
        super().__init__(parent)
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
        report = error_report(error)
        if count == 1:
            _print(report)
            self._written[place] = self.reports.write(report)
        if not isValid(self):  # the window is gone
            return
        sentence = self.tr(
            "Something went wrong inside the program ({kind}). Please report the details."
        ).format(kind=type(error).__name__)
        if count > 1:
            sentence += " " + self.tr("It has happened {count} times.").format(count=count)
        self._report(sentence, report, self._written.get(place))

    def report_last_run(self) -> None:
        """Report once that the program crashed the last time, if it did."""
        found = self.reports.take_crash()
        if found is not None:
            self._report(
                self.tr("The program crashed the last time. Please report the details."), *found
            )

    def _report(self, sentence: str, report: str, path: Path | None) -> None:
        if path is not None:
            sentence += " " + self.tr("They are also in {path}").format(path=path)
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
