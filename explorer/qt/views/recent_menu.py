"""File → Open recent: made anew each time it is opened."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu, QWidget

from explorer.qt.settings import Settings
from explorer.text import plain_text


class RecentMenu(QMenu):
    """The models opened last.

    Signals:
        path_chosen: One was chosen; its path.
    """

    path_chosen = Signal(object)

    def __init__(self, settings: Settings, forget: QAction, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setTitle(self.tr("Open &recent"))
        self._settings = settings
        self._forget = forget
        forget.triggered.connect(settings.clear_recent)
        self.aboutToShow.connect(self._fill)

    def _fill(self) -> None:
        self.clear()
        for path in self._settings.recent:
            # a single & in a menu marks the key of an entry
            action = self.addAction(plain_text(str(path)).replace("&", "&&"))
            action.triggered.connect(lambda _=False, path=path: self.path_chosen.emit(path))
        if self.actions():
            self.addSeparator()
            self.addAction(self._forget)
        else:
            self.addAction(self.tr("Nothing was opened yet")).setEnabled(False)
