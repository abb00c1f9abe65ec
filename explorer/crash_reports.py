"""Reports of crashes: files on this machine, which the user can read, send or delete.

A Python error is written when it happens. When the process dies in machine code (a segmentation
fault, a fatal message of Qt), `faulthandler` writes into a file that every running program keeps
open; the next start finds it, and removes compiled kernels before they are used.
"""

from __future__ import annotations

import faulthandler
import os
import platform
import re
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Final, TextIO

from explorer import __version__
from explorer.ends import mark_as_running
from explorer.paths import cache_folder, make_private_folder
from explorer.quantization import kernel_cache
from explorer.text import plain_text

MOST_REPORTS: Final = 20
MOST_CHARACTERS: Final = 64_000

_DIED_IN_MACHINE_CODE: Final = re.compile(
    "Fatal Python error: (Segmentation fault|Bus error|Illegal instruction|Floating point)"
)
_REPORT: Final = "report-"
_FAULT: Final = "running-"  # of a process; a crash is written into it


class CrashReports:
    """A folder of the newest 20 reports.

    Attributes:
        surroundings: What a report says of the system beside Python's version.
    """

    def __init__(self, folder: Path | None) -> None:
        """Name the folder, which need not exist. None: there is no place to write."""
        self.surroundings = ""
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
            mark_as_running(self._fault)
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
            if not mark_as_running(file):
                return None
            left = file.read(MOST_CHARACTERS)
            path.unlink()  # while it is marked: of two programs that start now, one takes it
        if not left:
            return None
        if _DIED_IN_MACHINE_CODE.search(left):
            kernel_cache.remove_kernels()
        text = _headed("crashed", left, self.surroundings)
        return text, self.write(text)


def error_report(error: BaseException, surroundings: str = "") -> str:
    """Return an error with its traceback, safe to show, without the name of the home folder."""
    details = "".join(traceback.format_exception(error))
    return _headed("met an error inside itself", details, surroundings)


def _headed(what: str, details: str, surroundings: str) -> str:
    moment = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    facts = (
        f"GGUF Explorer {__version__} {what}; {moment}",
        f"Python {platform.python_version()}{surroundings}, {platform.platform()}",
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
