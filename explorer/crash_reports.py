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
import sysconfig
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

from explorer import __version__
from explorer.ends import mark_as_running
from explorer.private_folder import PrivateFolder
from explorer.quantization import kernel_cache
from explorer.text import plain_text, shorten

MOST_REPORTS: Final = 20
MOST_BYTES: Final = 16 << 10
"""Longest report."""

_MOST_READ: Final = 1 << 20  # of what a process that died has left
_LONGEST_MESSAGE: Final = 300

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
        seconds, fraction = divmod(time.time_ns(), 10**9)  # at once: names are in order of time
        moment = time.strftime("%Y%m%d-%H%M%S", time.gmtime(seconds))
        name = f"{_REPORT}{moment}-{fraction:09}-{os.getpid()}.txt"
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
            left = file.read(_MOST_READ).decode(errors="replace")
            path.unlink()  # while it is marked: of two programs that start now, one takes it
        if not left:
            return None
        if _DIED_IN_MACHINE_CODE.search(left):
            kernel_cache.remove_kernels()
        text = _headed("crashed", left, self.surroundings)
        return text, self.write(text)


def error_report(error: BaseException, surroundings: str = "") -> str:
    """Return an error with its traceback, safe to show: no path, and nothing of a model."""
    details = "".join(traceback.format_exception(error))
    return _headed("met an error inside itself", details, surroundings)


def _headed(what: str, details: str, surroundings: str) -> str:
    moment = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    facts = (
        f"GGUF Explorer {__version__} {what}; {moment}",
        f"Python {platform.python_version()}{surroundings}, {platform.platform()}",
        "",
    )
    return _bounded(plain_text("\n".join(facts), lines=True) + _safe(details))


def _bounded(text: str) -> str:
    """Return the beginning and the end of a text that is longer than `MOST_BYTES`."""
    whole, half = text.encode(), MOST_BYTES // 2 - 8
    if len(whole) <= MOST_BYTES:
        return text
    return f"{whole[:half].decode(errors='ignore')}\n…\n{whole[-half:].decode(errors='ignore')}"


# A line of a traceback, of Python and of faulthandler.
_FRAME: Final = re.compile(r'(\s*File ")([^"\n]*)(", line \d+.*)')
_SOURCE: Final = "    "  # begins the lines below it, which are the program's own
# What may be a path: from the first part with a slash, or with a drive or server of Windows, to the
# last one of a line, and its name, which may have spaces, to its ending.
_PATH: Final = re.compile(
    r"""(?:[^\s'"(\[{<=,]*/|\b[A-Za-z]:\\|\\\\\w)(?:[^\n]*[/\\])?"""
    r"""(?:[^\n'"/\\]*?\.[A-Za-z]\w{0,11}\b|[^\s'"\])}>,:]*)"""
)
# What begins the description of an object: a model's holds its path and names.
_OBJECT: Final = re.compile(r"\b[A-Za-z_]\w*\((?:\w+=|\[).*", re.DOTALL)


def _safe(text: str) -> str:
    """Return a traceback or a message from anywhere, plain, with neither paths nor objects."""
    found, message, below_frame = list[str](), list[str](), False

    def end_message() -> None:
        whole = shorten("\n".join(message), _LONGEST_MESSAGE)
        whole = _OBJECT.sub(lambda match: f"{match[0].partition('(')[0]}(…)", whole)
        found.extend(_PATH.sub("<path>", whole).split("\n") if message else [])
        message.clear()

    for line in text.splitlines():
        frame = _FRAME.fullmatch(line)
        if frame is not None:
            end_message()
            found.append(f"{frame[1]}{_placed(frame[2])}{frame[3]}")
        elif below_frame and line.startswith(_SOURCE):
            found.append(line)
            continue
        else:
            message.append(line)
        below_frame = frame is not None
    end_message()
    return plain_text("\n".join(found), lines=True)


def _placed(path: str) -> str:
    """Return where a module lies, with a placeholder for the folder that it is installed in."""
    if path.startswith("<"):  # "<string>", "<frozen importlib>"
        return path
    folders = {
        str(Path(__file__).parent): "explorer",
        sysconfig.get_path("purelib"): "<packages>",
        sysconfig.get_path("platlib"): "<packages>",
        sysconfig.get_path("stdlib"): "<python>",
    }
    for folder, name in folders.items():
        if path.startswith(folder + os.sep):
            return f"{name}/{path[len(folder) + 1 :].replace(os.sep, '/')}"
    return "<path>"
