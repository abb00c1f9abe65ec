"""A page whose view is made when it is first shown.

A panel that few look at costs its imports, and pyqtgraph 150 ms: the window is on the screen first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

View = TypeVar("View", bound=QWidget)


class Deferred(QWidget, Generic[View]):
    """Holds a view once it is needed.

    Args:
        make: Makes the view, given its parent.
        on_made: Called with the view: connects it, and gives it what the others have already.
        parent: Owner of the page.
    """

    def __init__(
        self,
        make: Callable[[QWidget], View],
        on_made: Callable[[View], object],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._make = make
        self._on_made = on_made
        self._view: View | None = None
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)

    @property
    def existing(self) -> View | None:
        """The view, or None if nobody has needed it yet."""
        return self._view

    def make(self) -> View:
        """Make the view if nobody has needed it yet; return it."""
        if self._view is None:
            view = self._view = self._make(self)
            self._layout.addWidget(view)
            self.setFocusProxy(view)
            self._on_made(view)
        return self._view

    @property
    def view(self) -> View:
        """The view; it is made if nobody has needed it yet."""
        return self.make()

    def need(self) -> None:
        """Have the view made: somebody looks."""
        self.make()

    # Qt

    def showEvent(self, event: QShowEvent) -> None:
        self.need()
        super().showEvent(event)
