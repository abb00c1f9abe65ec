"""Notices that something changed in the stores' folders, and says so now and then."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from PySide6.QtCore import QFileSystemWatcher, QObject, QTimer, Signal

_LEAST_MS: Final = 500  # a download changes its folder many times
_MOST_MS: Final = 30_000
_SHARE: Final = 5  # of the time at most one part in five goes into scans


class FolderWatch(QObject):
    """Watches folders.

    Signals:
        changed: Something changed in one of them, or in several.
    """

    changed = Signal()

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._watcher = QFileSystemWatcher(self)
        self._watcher.directoryChanged.connect(self._note)
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(_LEAST_MS)
        self._timer.timeout.connect(self.changed)

    @property
    def folders(self) -> list[str]:
        """The folders watched."""
        return self._watcher.directories()

    def watch(self, folders: Iterable[Path]) -> None:
        """Watch these folders and no others."""
        wanted = dict.fromkeys(map(str, folders))
        now = set(self._watcher.directories())
        gone = [folder for folder in now if folder not in wanted]
        new = [folder for folder in wanted if folder not in now]
        if gone:
            self._watcher.removePaths(gone)
        if new:
            self._watcher.addPaths(new)

    def set_pace(self, scan_seconds: float) -> None:
        """Wait longer between two signals where a scan takes long."""
        pause = int(1000 * _SHARE * scan_seconds)
        self._timer.setInterval(max(_LEAST_MS, min(_MOST_MS, pause)))

    def stop(self) -> None:
        """Forget a change that was not told yet."""
        self._timer.stop()

    def remind(self) -> None:
        """Tell in a while that something has changed."""
        if not self._timer.isActive():
            self._timer.start()

    def _note(self, _: str) -> None:
        self.remind()
