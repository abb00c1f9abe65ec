"""A page beside the picture: it follows the plan only while it is seen, and not in every frame."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QTimer
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QWidget

from explorer.qt.models.planner.session import PlannerSession

_DELAY_MS: Final = 80


class LatePage(QWidget):
    """Calls `refresh` soon after a change, while it is visible, and when it comes into sight.

    A drag changes the plan sixty times a second. The picture follows each time; a table of three
    hundred formulas need not, and must not take the time of a frame.
    """

    def __init__(self, session: PlannerSession, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.session = session
        self._delay = QTimer(self)
        self._delay.setSingleShot(True)
        self._delay.setInterval(_DELAY_MS)
        self._delay.timeout.connect(self._refresh_if_seen)
        session.planned.connect(self.invalidate)

    def refresh(self) -> None:
        """Show the current plan."""
        raise NotImplementedError

    def invalidate(self) -> None:
        """Refresh soon, if anybody looks."""
        if self.isVisible() and not self._delay.isActive():
            self._delay.start()

    @property
    def is_late(self) -> bool:
        """Whether a change is still to be shown."""
        return self._delay.isActive()

    def _refresh_if_seen(self) -> None:
        if self.isVisible():
            self.refresh()

    # Qt

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.refresh()
