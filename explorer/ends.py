"""How the program ends before its time: signals, and the temporary files that it then removes.

A signal ends the process at once, wherever it is. An exception, which Python would raise instead,
may come while a library is loaded or an object destroyed, where it is printed and forgotten. What
a process that was killed has left is removed at the next start.

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

_RECORDS: Final = "unfinished"
_SUFFIX: Final = ".tmp"
_KEPT_S: Final = 30 * 24 * 3600.0  # how long a disk may be absent until it is forgotten
_MOST_BYTES: Final = 1 << 16  # of a path in a record
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
    """A file or folder that nothing leaves behind: not the end of its work, a signal, or a kill.

    A record in the user's cache folder names it for as long as it is needed. Where none can be
    written, a process that is killed leaves it.
    """

    def __init__(self, path: Path | str) -> None:
        """Note a path that is about to be made; its name ends in ``.tmp``."""
        self._path = os.path.abspath(path)
        assert self._path.endswith(_SUFFIX)
        self._maker = os.getpid()
        self._record = _open_record(self._path)
        _alive.add(self)

    def remove(self) -> None:
        """Remove what is still there, and forget it. A forked process leaves it to its parent."""
        _alive.discard(self)
        if os.getpid() == self._maker:
            _remove(self._path)
            _close_record(self._record)


_alive: Final[set[Temporary]] = set()


def remove_leftovers() -> None:
    """Remove the temporary files of processes that were killed; one that resists is left."""
    try:
        folder = _folder()
        names = os.listdir(folder)
    except (OSError, RuntimeError):  # there never was one
        return
    for name in names:
        try:
            _take_record(os.path.join(folder, name))
        except OSError:  # another start takes it, or it can only be read
            continue


def mark_as_running(file: IO[Any]) -> bool:
    """Lock a file for as long as it is open; return False if another process has locked it."""
    if sys.platform == "win32":
        return True  # an open file cannot be removed there, which shows the same
    import fcntl  # noqa: PLC0415 - not on every system

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _folder() -> str:
    from explorer.paths import cache_folder  # noqa: PLC0415 - see above

    return str(cache_folder() / _RECORDS)


def _open_record(path: str) -> IO[bytes] | None:
    import secrets  # noqa: PLC0415 - see above
    from pathlib import Path  # noqa: PLC0415

    from explorer.paths import make_private_folder  # noqa: PLC0415

    try:
        folder = Path(_folder())
        make_private_folder(folder)
        record = open(folder / secrets.token_hex(8), "xb")  # noqa: SIM115 - open as long as it holds
    except (OSError, RuntimeError):  # a full disk, a user without a home
        return None
    mark_as_running(record)
    record.write(os.fsencode(path))
    record.flush()
    return record


def _close_record(record: IO[bytes] | None) -> None:
    if record is not None:
        record.close()
        _remove(record.name)


def _take_record(name: str) -> None:
    """Remove what a record names, and the record, unless its process still runs.

    Raises:
        OSError: The record cannot be read or removed.
    """
    with open(name, "rb") as record:
        if not mark_as_running(record):
            return
        path = os.fsdecode(record.read(_MOST_BYTES))
        if os.name != "posix":
            record.close()
        if os.path.isdir(os.path.dirname(path)):
            os.unlink(name)  # on Windows this fails while its process runs
            if path.endswith(_SUFFIX) and os.path.isabs(path):
                _remove(path)
        elif not path or os.stat(name).st_mtime < _now() - _KEPT_S:  # else the disk may come back
            os.unlink(name)


def _now() -> float:
    import time  # noqa: PLC0415 - see above

    return time.time()


def _remove(path: str) -> None:
    import shutil  # noqa: PLC0415 - see above
    from contextlib import suppress  # noqa: PLC0415

    with suppress(OSError):
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            os.unlink(path)
