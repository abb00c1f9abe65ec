"""Settings that are kept between two runs: one class owns the file."""

from __future__ import annotations

from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Final

from PySide6.QtCore import QByteArray, QCoreApplication, QSettings

from explorer.qt.theme import Scheme
from explorer.text import ByteUnits, plain_text

_VERSION: Final = 1
_MOST_RECENT: Final = 12
_CHECKSUM_BYTES: Final = 8


class Settings:
    """Typed access to the settings file (INI, per user).

    Args:
        file: Another file than the user's, for tests; its folder must exist.
        fresh: Start from nothing and write nothing.
    """

    def __init__(self, file: Path | None = None, *, fresh: bool = False) -> None:
        self._fresh = fresh
        if file is None:
            ini, user = QSettings.Format.IniFormat, QSettings.Scope.UserScope
            self._store = QSettings(ini, user, "gguf-explorer", "gguf-explorer")
        else:
            self._store = QSettings(str(file), QSettings.Format.IniFormat)
        self._damaged = False
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
        path = plain_text(self._store.fileName())
        tr = partial(QCoreApplication.translate, "Settings")
        if self._damaged:
            sentence = tr(
                "The settings file {path} is damaged; defaults are used for what could not be read."
            )
            return sentence.format(path=path)
        if not self._fresh and not self._store.isWritable():
            sentence = tr(
                "Settings cannot be saved in {path}. Changes last until the program ends."
            )
            return sentence.format(path=path)
        return None

    @property
    def scheme(self) -> Scheme:
        """Light, dark, high contrast, or the system's."""
        value = self._text("scheme")
        return Scheme(value) if value in tuple(Scheme) else Scheme.SYSTEM

    @scheme.setter
    def scheme(self, scheme: Scheme) -> None:
        self._set("scheme", scheme.value)

    @property
    def byte_units(self) -> ByteUnits:
        """Units of sizes."""
        value = self._text("byte_units")
        return ByteUnits(value) if value in tuple(ByteUnits) else ByteUnits.BINARY

    @byte_units.setter
    def byte_units(self, units: ByteUnits) -> None:
        self._set("byte_units", units.value)

    @property
    def recent(self) -> list[Path]:
        """Models opened last, the newest first."""
        return [Path(text) for text in self._texts("recent")[:_MOST_RECENT]]

    def add_recent(self, path: Path) -> None:
        """Put a model in front of the recent ones."""
        kept = [other for other in self.recent if other != path]
        self._set("recent", [str(p) for p in (path, *kept)][:_MOST_RECENT])

    def clear_recent(self) -> None:
        """Forget the recent models."""
        self._set("recent", [])

    @property
    def session(self) -> list[Path]:
        """Models that were open when the program was closed."""
        return [Path(text) for text in self._texts("session")]

    @session.setter
    def session(self, paths: list[Path]) -> None:
        self._set("session", [str(path) for path in paths])

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

    @property
    def tour_done(self) -> bool:
        """Whether the tour of the window was shown; always for settings that are not saved."""
        return self._fresh or self._text("tour_done") == "yes"

    @tour_done.setter
    def tour_done(self, done: bool) -> None:
        self._set("tour_done", "yes" if done else "no")

    @property
    def histogram(self) -> str:
        """How the user likes histograms, as text of `HistogramChoices`; empty for the defaults."""
        return self._text("histogram")

    @histogram.setter
    def histogram(self, choices: str) -> None:
        self._set("histogram", choices)

    def layout(self, name: str) -> QByteArray:
        """Return a saved layout (geometry, header, splitter); empty if there is none.

        A damaged one is left out, by its checksum: Qt trusts what it restores, and can crash.
        """
        value = None if self._fresh else self._store.value(f"layout/{name}")
        kept = bytes(value.data()) if isinstance(value, QByteArray) else b""
        checksum, state = kept[:_CHECKSUM_BYTES], kept[_CHECKSUM_BYTES:]
        return QByteArray(state if checksum == _checksum(state) else b"")

    def set_layout(self, name: str, state: QByteArray) -> None:
        """Save a layout."""
        plain = bytes(state.data())
        self._set(f"layout/{name}", QByteArray(_checksum(plain) + plain))

    def reset_layout(self) -> None:
        """Forget all layouts."""
        if not self._fresh:
            self._store.remove("layout")

    def _set(self, key: str, value: object) -> None:
        if not self._fresh:
            self._store.setValue(key, value)

    def _text(self, key: str) -> str:
        value = None if self._fresh else self._store.value(key)
        return value if isinstance(value, str) else ""

    def _texts(self, key: str) -> list[str]:
        value = None if self._fresh else self._store.value(key)
        if isinstance(value, str):  # an INI list of one element comes back as text
            return [value] if value else []
        return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def _checksum(state: bytes) -> bytes:
    return blake2b(state, digest_size=_CHECKSUM_BYTES).digest()
