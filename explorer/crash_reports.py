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
from typing import BinaryIO, Final

from explorer import __version__
from explorer.ends import mark_as_running
from explorer.private_folder import PrivateFolder
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

    def __init__(self) -> None:
        self.surroundings = ""
        self._folder = PrivateFolder("crashes")
        self._fault: BinaryIO | None = None
        self._fault_name = ""

    def write(self, text: str) -> Path | None:
        """Write a report; return its file, or None where it cannot be written."""
        moment = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
        name = f"{_REPORT}{moment}-{time.time_ns() % 10**9:09}-{os.getpid()}.txt"
        try:
            with self._folder.create(name) as file:
                file.write(text.encode())
            for old in sorted(self._folder.path.glob(f"{_REPORT}*.txt"))[:-MOST_REPORTS]:
                old.unlink(missing_ok=True)
        except OSError:  # a full disk, say: then the window alone reports it
            with suppress(OSError):
                (self._folder.path / name).unlink()
            return None
        return self._folder.path / name

    def watch(self) -> None:
        """Write a crash of this process into a file of its own, until `stop_watching`."""
        with suppress(OSError):
            # the time, since in a sandbox every process of a program has the same number
            self._fault_name = f"{_FAULT}{time.time_ns()}-{os.getpid()}.txt"
            self._fault = self._folder.create(self._fault_name)
            mark_as_running(self._fault)
            faulthandler.enable(self._fault)

    def stop_watching(self) -> None:
        """Remove the file of `watch`, at the end of a process that did not crash."""
        if self._fault is not None:
            faulthandler.disable()
            self._fault.close()
            with suppress(OSError):
                (self._folder.path / self._fault_name).unlink()
            self._fault = None

    def note_before_abort(self, text: str) -> None:
        """Write into the file of `watch`: Qt is about to end the process."""
        if self._fault is not None:
            with suppress(OSError):
                self._fault.write(f"{_safe(text)}\n".encode())
                self._fault.flush()

    def take_crash(self) -> tuple[str, Path | None] | None:
        """Return the latest crash since the last call and the file of its report, or None.

        Files of processes that were killed, as at a power failure, are empty and are removed.
        """
        found = None
        with suppress(OSError):
            for path in sorted(self._folder.path.glob(f"{_FAULT}*.txt")):
                found = self._take_one(path) or found
        return found

    def _take_one(self, path: Path) -> tuple[str, Path | None] | None:
        file = self._folder.open(path.name)
        if file is None:  # none that this program has made
            return None
        with file:
            if not mark_as_running(file):
                return None
            left = file.read(MOST_CHARACTERS).decode(errors="replace")
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
