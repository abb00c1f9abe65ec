"""Watches what the process does: connections, programs that it starts, and changes in a folder.

Python tells an audit hook of each (PEP 578); a hook cannot be taken away again, so there is one for
all tests. What a library does without Python is seen by its traces: sockets among the process's
open files, and the state of the folder before and after.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_PROGRAMS = frozenset(
    {
        *("subprocess.Popen", "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn"),
        *("os.spawn", "os.startfile", "pty.spawn", "webbrowser.open"),
    }
)
_NETWORK = ("socket.", "urllib.", "http.", "ftplib.", "smtplib.", "poplib.", "imaplib.")
_CHANGES = frozenset(
    {
        *("os.chmod", "os.chown", "os.link", "os.mkdir", "os.remove", "os.removexattr"),
        *("os.rename", "os.rmdir", "os.setxattr", "os.symlink", "os.truncate", "os.utime"),
        *("os.chflags", "os.lchmod", "shutil.rmtree", "shutil.move", "tempfile.mkstemp"),
        *("tempfile.mkdtemp", "sqlite3.connect"),
    }
)
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Watch:
    """What was seen.

    Attributes:
        folder: The folder in which nothing may change.
        network: Anything that has to do with a connection.
        programs: Programs that were started.
        changes: Attempts to change something in the folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.network: list[str] = []
        self.programs: list[str] = []
        self.changes: list[str] = []
        self._sockets = open_sockets()
        self._before = snapshot(folder)

    def see(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Take in an event."""
        if event.startswith(_NETWORK):
            self.network.append(f"{event} {arguments!r:.200}")
        elif event in _PROGRAMS:
            self.programs.append(f"{event} {arguments!r:.200}")
        elif (event in _CHANGES or (event == "open" and _writes(*arguments))) and any(
            map(self._is_inside, arguments)
        ):
            self.changes.append(f"{event} {arguments!r:.200}")

    def _is_inside(self, argument: object) -> bool:
        if not isinstance(argument, (str, bytes, os.PathLike)):
            return False
        path = os.path.realpath(os.fsdecode(argument))
        return path == str(self.folder) or path.startswith(str(self.folder) + os.sep)

    def found(self) -> dict[str, object]:
        """Return what should not have been; empty if all is well."""
        after = snapshot(self.folder)
        different = {
            name for name in self._before | after if self._before.get(name) != after.get(name)
        }
        everything = {
            "network": self.network,
            "programs": self.programs,
            "changes": self.changes,
            "sockets": open_sockets() - self._sockets,
            "different files": different,
            "modules": {"PySide6.QtNetwork", "PySide6.QtDBus"} & set(sys.modules),
        }
        return {kind: seen for kind, seen in everything.items() if seen}


def _writes(_path: object, mode: object, flags: object) -> bool:
    if isinstance(mode, str):
        return bool(set(mode) & set("wax+"))
    return isinstance(flags, int) and bool(flags & _WRITING)


def open_sockets() -> set[str]:
    """Return the sockets of this process, where the system tells."""
    folder = Path("/proc/self/fd")
    found = set()
    for entry in folder.iterdir() if folder.is_dir() else ():
        try:
            target = os.readlink(entry)
        except OSError:  # the one that lists the folder
            continue
        if target.startswith("socket:"):
            found.add(target)
    return found


def snapshot(folder: Path) -> dict[str, tuple[object, ...]]:
    """Return what can be told of every file and folder in a folder."""
    found: dict[str, tuple[object, ...]] = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        status = path.lstat()
        facts = (status.st_mode, status.st_size, status.st_mtime_ns, status.st_ino, status.st_nlink)
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path.relative_to(folder))] = (*facts, content)
    return found


_watches: list[Watch] = []


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    for watch in _watches:
        watch.see(event, arguments)


@contextmanager
def watching(folder: Path) -> Iterator[Watch]:
    """Watch the process and a folder, for as long as the context lasts."""
    if not getattr(_hook, "installed", False):
        sys.addaudithook(_hook)
        _hook.installed = True  # type: ignore[attr-defined]
    watch = Watch(folder)
    _watches.append(watch)
    try:
        yield watch
    finally:
        _watches.remove(watch)


def make_read_only(folder: Path) -> None:
    """Take the right to write from everything in a folder; it holds for all but the superuser."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if not path.is_symlink():
            path.chmod(0o555 if path.is_dir() else 0o444)
    folder.chmod(0o555)
