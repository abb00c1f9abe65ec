"""A page whose view is made when it is first shown, and whose module is loaded in a worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from PySide6.QtGui import QHideEvent
from PySide6.QtWidgets import QWidget

from explorer.qt.jobs import JobRunner
from explorer.qt.views.deferred import Deferred
from explorer.qt.views.late_body import LateBody
from explorer.qt.views.state_page import StatePage

View = TypeVar("View", bound=QWidget)


class LateView(Deferred[View]):
    """Holds a view once it is needed; `Deferred` is for one whose module is small.

    Whoever asks for `view` gets it at once, loaded on the spot if need be.

    Args:
        runner: Runs the loading.
        module: Full name of the module that `make` imports.
        make: Makes the view, given its parent.
        on_made: Called with the view: connects it, and gives it what the others have already.
        parent: Owner of the page.
    """

    def __init__(
        self,
        runner: JobRunner,
        module: str,
        make: Callable[[QWidget], View],
        on_made: Callable[[View], object],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(make, on_made, parent)
        self._state: StatePage | None = None
        self._late = LateBody(runner, module, self, self._tell)
        self._late.due.connect(self._make_if_seen)

    def make(self) -> View:
        state, self._state = self._state, None
        if state is not None:
            self._layout.removeWidget(state)
            state.hide()
            state.deleteLater()
        return super().make()

    def need(self) -> None:
        if self.existing is None and not self._late.is_loaded:
            self._late.announce()
            self._late.load()
        else:
            self.make()

    def _make_if_seen(self) -> None:
        if self.isVisible():
            self.make()

    def _tell(self, heading: str, sentence: str, button: str) -> None:
        if self.existing is not None:
            return
        if self._state is None:
            self._state = StatePage(self)
            self._state.pressed.connect(self.need)
            self._layout.addWidget(self._state)
        self._state.tell(heading, sentence, button)

    # Qt

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._late.forget()
