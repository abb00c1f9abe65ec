"""How the program ends before its time: signals, and the temporary files that it then removes.

A signal ends the process at once, wherever it is. An exception, which Python would raise instead,
may come while a library is loaded or an object destroyed, where it is printed and forgotten.

This module is loaded before anything else, so it loads next to nothing itself.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pathlib import Path

SIGNALS: Final = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
    if hasattr(signal, name)
)
"""Signals by which people and systems end a program; Windows and POSIX have some of them each."""

_CLEAR_LINE: Final = b"\r\x1b[K"  # progress may stand there


def on_signals(act: Callable[[int], object]) -> None:
    """Do something at each of `SIGNALS`, but for those that the caller has us ignore (`nohup`)."""
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, _frame: act(number))


def ignore_signals() -> None:
    """Ignore all of `SIGNALS`: the work is done, its exit code known, and Python is tidying up."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def exit_code(number: int) -> int:
    """Return the exit code of a program that a signal ended, as shells count: 130 for Ctrl+C."""
    return 128 + number


def end_at_once(number: int) -> None:
    """End this process as a signal demands, without a word; remove its temporary files."""
    for temporary in tuple(_alive):
        temporary.remove()
    if os.isatty(2):
        os.write(2, _CLEAR_LINE)
    os._exit(exit_code(number))


class Temporary:
    """A file or folder that neither the end of its work nor a signal leaves behind.

    What a process that was killed leaves is recognised by its name, by whoever chose that.
    """

    def __init__(self, path: Path) -> None:
        """Note a path that is about to be made."""
        self.path = path
        _alive.add(self)

    def remove(self) -> None:
        """Remove what is still there, and forget it."""
        _alive.discard(self)
        remove(self.path)


_alive: Final[set[Temporary]] = set()


def mark_as_running(file: IO[Any]) -> bool:
    """Lock a file for as long as it is open; return False if another process has locked it."""
    if sys.platform == "win32":
        return True  # an open file cannot be removed there, which shows the same
    try:
        import fcntl  # noqa: PLC0415 - not on every system
    except ImportError:
        return True

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def remove(path: Path) -> None:
    """Remove what lies at a path, a folder with all that is in it; it may resist."""
    import shutil  # noqa: PLC0415 - see above
    from contextlib import suppress  # noqa: PLC0415

    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()
