"""Settings that are kept between two runs: one class owns the file.

Several programs may run at once. Each writes only what it has changed, and its session under a key
of its own. What is remembered of one model is a key of its own too. So nothing that another program
has written is lost.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import IO, Final

from PySide6.QtCore import QByteArray, QEvent, QSettings

from explorer.ends import mark_as_running
from explorer.errors import FormatError, system_reason
from explorer.paths import settings_file
from explorer.private_folder import PrivateFolder, check_replaceable
from explorer.qt.theme import LEAST_TEXT, MOST_TEXT, Scheme
from explorer.sources.remote.addresses import as_path
from explorer.text import plain_text

_VERSION: Final = 1
_MOST_RECENT: Final = 12
_MOST_MODELS: Final = 200  # of which something is remembered
_CHECKSUM_BYTES: Final = 8
_DIGITS: Final = 20  # of a time; more are no time


_INI: Final = QSettings.Format.IniFormat
_WINDOWS: Final = "windows"
_RECENT: Final = "recent_models"
_MODELS: Final = "models"  # what is remembered of each
_RUNNING: Final = "window-"  # a file for each program that runs, beside that of the settings


class _Store(QSettings):
    """Settings that are written when we say so, not by Qt on the GUI thread."""

    # Qt

    def event(self, event: QEvent) -> bool:
        return event.type() is QEvent.Type.UpdateRequest or super().event(event)


class Settings:
    """Typed access to the settings file (INI, per user).

    What is set is in memory until `write`.

    Args:
        file: Another file than the user's, for tests.
        fresh: Start from nothing and write nothing.

    Attributes:
        changed: Called when there is something to write.
    """

    def __init__(self, file: Path | None = None, *, fresh: bool = False) -> None:
        self._fresh = fresh
        self.changed: Callable[[], object] = lambda: None
        self._window = f"{time.time_ns()}-{os.getpid()}"
        self._running: IO[bytes] | None = None
        self._replaced: list[str] = []
        self._file, self._fault = file, ""
        with suppress(RuntimeError):  # a user without a home folder
            self._file = file or settings_file()
        self._fault = "" if fresh else self._unsafe()
        # Qt follows links, waits for pipes and replaces devices: it gets no such place
        self._store = _Store("" if fresh or self._fault else str(self._file), _INI)
        self._damaged = self._failed = False
        if fresh:
            return
        self._store.allKeys()  # reads the file
        self._damaged = self._store.status() is QSettings.Status.FormatError
        if str(self._store.value("version", _VERSION)) != str(_VERSION):
            self._store.clear()  # written by another version, whose keys may mean other things
        self._store.setValue("version", _VERSION)

    def problem(self) -> str | None:
        """Return what is wrong with the settings file, for the user; None if nothing is.

        May write to the disk, to see whether that can be.
        """
        path = plain_text(str(self._file))
        if self._damaged:
            return (
                f"The settings file {path} is damaged. Defaults are used for what could not be "
                "read."
            )
        if self._fault or (not self._fresh and not self._store.isWritable()):
            reason = f": {self._fault}" if self._fault else ""
            return (
                f"Settings cannot be saved in {path}{reason}. Changes last until the program ends."
            )
        return None

    def _unsafe(self) -> str:
        """Return why the settings file is not used; "" if only this user can change it."""
        if self._file is None:
            return "there is no home folder"
        try:
            self._folder.make()
            check_replaceable(self._file)
        except OSError as error:
            return system_reason(error)
        return ""

    @property
    def _folder(self) -> PrivateFolder:
        """The settings' folder, where links lead to if the user has put it elsewhere."""
        return PrivateFolder(root=Path(os.path.realpath(Path(str(self._file)).parent)))

    @property
    def scheme(self) -> Scheme:
        """Light, dark, high contrast, or the system's."""
        value = self._text("scheme")
        return Scheme(value) if value in tuple(Scheme) else Scheme.SYSTEM

    @scheme.setter
    def scheme(self, scheme: Scheme) -> None:
        self._set("scheme", scheme.value)

    @property
    def text_size(self) -> int:
        """Size of texts, in per cent of the system's."""
        value = self._text("text_size")
        percent = int(value) if value.isascii() and value.isdigit() and len(value) < 4 else 100
        return min(max(percent, LEAST_TEXT), MOST_TEXT)

    @text_size.setter
    def text_size(self, percent: int) -> None:
        self._set("text_size", str(min(max(percent, LEAST_TEXT), MOST_TEXT)))

    def write(self) -> str | None:
        """Write what has changed. Safe in any thread; takes the time of the disk.

        Returns:
            Why that failed, for the user, the first time that it does.
        """
        if self._fresh or self._fault:
            return None
        fault = self._unsafe()
        if not fault:
            with suppress(OSError):  # Qt's own would be open to others; it keeps what it finds
                os.close(os.open(str(self._file), os.O_CREAT | os.O_WRONLY, 0o600))
            store = QSettings(str(self._file), _INI)  # objects of one file share its content
            store.sync()
            if store.status() is QSettings.Status.AccessError:
                fault = self._folder.why_unwritable()
        first = bool(fault) and not self._failed
        self._failed = bool(fault)
        where = plain_text(str(self._file))
        return f"Settings cannot be saved in {where}: {fault}." if first else None

    @property
    def recent(self) -> list[Path]:
        """Models opened last, the newest first."""
        return [path for path, _ in self._recent()[:_MOST_RECENT]]

    def _recent(self) -> list[tuple[Path, str]]:
        """Return the models that are remembered, with their keys, the newest first."""
        found = []
        for key in self._keys(_RECENT):
            moment, _, path = self._text(f"{_RECENT}/{key}").partition(" ")
            if moment.isdecimal() and path:
                found.append((int(moment[:_DIGITS]), _place(path), key))
        return [(path, key) for _, path, key in sorted(found, reverse=True)]

    def add_recent(self, path: Path) -> None:
        """Put a model in front of the recent ones."""
        self._set(f"{_RECENT}/{_key(path)}", f"{time.time_ns()} {path}")
        for _, old in self._recent()[_MOST_RECENT:]:
            self._remove(f"{_RECENT}/{old}")

    def clear_recent(self) -> None:
        """Forget the recent models."""
        self._remove(_RECENT)

    # The session: each program's own, so that none overwrites another's

    def begin_session(self, *, anew: bool) -> None:
        """Mark this program as running, and say what becomes of the sessions that others have left.

        They are replaced by this program's at its first `write`, but if another program runs and
        models are opened anew: then they wait for the next start without models.

        Args:
            anew: Whether models are opened, rather than those of the last session.
        """
        if self._fresh or self._fault:
            return
        ended = [each for each in self._keys(_WINDOWS) if not self._is_running(each)]
        alone = len(ended) == len(self._keys(_WINDOWS))
        self._replaced = ended if alone or not anew else []
        try:
            self._running = self._folder.create(f"{_RUNNING}{self._window}")
        except OSError:  # then its session counts as left while it runs
            return
        mark_as_running(self._running)

    def end_session(self) -> None:
        """Leave the session to the next start; after this nothing is written any more."""
        if self._running is not None:
            self._running.close()
            (self._folder.path / f"{_RUNNING}{self._window}").unlink(missing_ok=True)
            self._running = None

    @property
    def session(self) -> list[Path]:
        """Models of this program, and of all others that ran together and have ended."""
        found: list[str] = []
        for window in sorted(self._keys(_WINDOWS)):
            if window == self._window or not self._is_running(window):
                found += self._texts(f"{_WINDOWS}/{window}/session")
        return [_place(text) for text in dict.fromkeys(found)]

    @session.setter
    def session(self, paths: list[Path]) -> None:
        self._set(f"{_WINDOWS}/{self._window}/session", [str(path) for path in paths])
        for window in self._replaced:
            self._remove(f"{_WINDOWS}/{window}")

    def _is_running(self, window: str) -> bool:
        """Return whether the program of a session still runs; remove what one that died has left.

        Reads the disk, which may be done before the first paint only.
        """
        name = f"{_RUNNING}{window}"
        try:
            file = self._folder.open(name)
            if file is not None:
                with file:
                    if not mark_as_running(file):
                        return True
                os.unlink(self._folder.path / name)  # Windows refuses it while its program runs
        except FileNotFoundError:
            return False
        except (OSError, ValueError):  # a zero byte in what a damaged file calls a window
            return True
        return False

    @property
    def library_folders(self) -> list[Path]:
        """Folders of models that the user added to those of other programs."""
        return [Path(text) for text in self._texts("library_folders")]

    @library_folders.setter
    def library_folders(self, folders: list[Path]) -> None:
        self._set("library_folders", [str(folder) for folder in folders])

    def note(self, name: str) -> str:
        """Return a text that a panel saved; empty if there is none."""
        return self._text(f"notes/{name}")

    def set_note(self, name: str, text: str) -> None:
        """Save a text for a panel."""
        self._set(f"notes/{name}", text)

    def model_note(self, path: Path, name: str) -> str:
        """Return a text that was saved of a model; empty if there is none."""
        return self._text(f"{_MODELS}/{_key(path)}/{name}")

    def set_model_note(self, path: Path, name: str, text: str) -> None:
        """Save a text of a model; the models of which one was saved longest ago are forgotten."""
        group = f"{_MODELS}/{_key(path)}"
        is_new = not self._text(f"{group}/saved")
        self._set(f"{group}/{name}", text)
        self._set(f"{group}/saved", str(time.time_ns()))
        if is_new:
            times = [(self._text(f"{_MODELS}/{key}/saved"), key) for key in self._keys(_MODELS)]
            for _, old in sorted(times, reverse=True)[_MOST_MODELS:]:
                self._remove(f"{_MODELS}/{old}")

    def layout(self, name: str) -> QByteArray:
        """Return a saved layout (geometry, header, splitter); empty if there is none.

        A damaged one is left out, by its checksum: Qt trusts what it restores, and can crash.
        """
        value = self._store.value(f"layout/{name}")
        kept = bytes(value.data()) if isinstance(value, QByteArray) else b""
        checksum, state = kept[:_CHECKSUM_BYTES], kept[_CHECKSUM_BYTES:]
        return QByteArray(state if checksum == _checksum(state) else b"")

    def set_layout(self, name: str, state: QByteArray) -> None:
        plain = bytes(state.data())
        self._set(f"layout/{name}", QByteArray(_checksum(plain) + plain))

    def _set(self, key: str, value: object) -> None:
        if self._store.value(key) != value:
            self._store.setValue(key, value)
            self.changed()

    def _remove(self, key: str) -> None:
        self._store.remove(key)
        self.changed()

    def _keys(self, group: str) -> list[str]:
        self._store.beginGroup(group)
        found = [*self._store.childKeys(), *self._store.childGroups()]
        self._store.endGroup()
        return found

    def _text(self, key: str) -> str:
        value = self._store.value(key)
        return value if isinstance(value, str) else ""

    def _texts(self, key: str) -> list[str]:
        value = self._store.value(key)
        if isinstance(value, str):  # an INI list of one element comes back as text
            return [value] if value else []
        return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def _place(text: str) -> Path:
    """Return what a kept text names; a damaged address becomes a path that does not exist."""
    try:
        return as_path(text)
    except FormatError:
        return Path(text)


def _key(path: Path) -> str:
    """Return the name under which something is kept of a model."""
    return _checksum(os.fsencode(path)).hex()


def _checksum(state: bytes) -> bytes:
    return blake2b(state, digest_size=_CHECKSUM_BYTES).digest()
