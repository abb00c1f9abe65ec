"""A tour from stop to stop: it follows the window, and ends whenever one likes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, Qt, QTimer, Signal
from PySide6.QtWidgets import QApplication, QWidget

from explorer.qt.views.tour.callout import Callout, TargetFrame
from explorer.qt.views.tour.placement import place_beside

_MOVES: Final = frozenset(
    {
        QEvent.Type.Resize,
        QEvent.Type.Move,
        QEvent.Type.Show,
        QEvent.Type.Hide,
        QEvent.Type.LayoutRequest,
        QEvent.Type.LayoutDirectionChange,
        QEvent.Type.FontChange,
    }
)


@dataclass(frozen=True)
class Stop:
    """One box of a tour.

    Attributes:
        title: In a few words.
        text: In a sentence or two.
        widget: What it points at, or what holds that.
        part: Returns which part of the widget, in its coordinates.
        prepare: Called before: brings the widget into sight.
    """

    title: str
    text: str
    widget: QWidget
    part: Callable[[], QRect]
    prepare: Callable[[], object] = lambda: None


class Tour(QObject):
    """Shows stops one after another. Nothing else waits for it: the window works as ever.

    Args:
        window: The window.
        stops: The stops.

    Attributes:
        callout: The box.

    Signals:
        ended: The tour is over, to its end or before.
    """

    ended = Signal()

    def __init__(self, window: QWidget, stops: Sequence[Stop]) -> None:
        super().__init__(window)
        self._window = window
        self._stops = tuple(stops)
        self._at = 0
        self._watched: list[QWidget] = []
        self._turn = QTimer(self)  # what moves sends many events: one look at the end is enough
        self._turn.setSingleShot(True)
        self._turn.timeout.connect(self._follow)
        self._focus_before: QWidget | None = None
        self._frame = TargetFrame(window)
        self.callout = Callout(window)
        self._frame.hide()
        self.callout.hide()
        self.callout.next_wanted.connect(lambda: self.go_to(self._at + 1))
        self.callout.back_wanted.connect(lambda: self.go_to(self._at - 1))
        self.callout.skipped.connect(self.end)

    @property
    def stop(self) -> int:
        """Number of the current stop, from 0 up."""
        return self._at

    def target(self) -> QRect:
        """Return what the box points at, in the window; empty if it is out of sight."""
        stop = self._stops[self._at]
        if not stop.widget.isVisibleTo(self._window):
            return QRect()
        seen = stop.part().intersected(stop.widget.rect())
        place = stop.widget.mapTo(self._window, QPoint(0, 0))
        return seen.translated(place).intersected(self._window.rect())

    def start(self) -> None:
        """Show the first stop, and give it the keyboard."""
        self._focus_before = QApplication.focusWidget()
        self.go_to(0)
        self.callout.next.setFocus(Qt.FocusReason.OtherFocusReason)

    def go_to(self, number: int) -> None:
        """Show a stop; behind the last one, the tour ends."""
        if number >= len(self._stops):
            self.end()
            return
        self._at = max(0, number)
        stop = self._stops[self._at]
        stop.prepare()
        self._watch(stop.widget)
        skipping = self.callout.skip.hasFocus()  # the button goes with the last stop
        self.callout.say(stop.title, stop.text, self._at + 1, len(self._stops))
        self.callout.show()
        self._follow()
        if skipping and self.callout.skip.isHidden():
            self.callout.next.setFocus(Qt.FocusReason.OtherFocusReason)

    def end(self) -> None:
        """Take the tour away, and give the keyboard back."""
        self._turn.stop()
        self._unwatch()
        held = self.callout.isAncestorOf(QApplication.focusWidget() or self._window)
        for part in (self.callout, self._frame):
            part.hide()
            part.deleteLater()
        before = self._focus_before
        if held:
            (before or self._window).setFocus(Qt.FocusReason.OtherFocusReason)
        self.ended.emit()
        self.deleteLater()

    def _follow(self) -> None:
        """Stand where the window is now."""
        target = self.target()
        size = self.callout.wanted_size()
        direction = self._window.layoutDirection()
        placement = place_beside(size, target, self._window.rect(), direction)
        self.callout.setGeometry(placement.area)
        self.callout.point(placement.side, target)
        self._frame.surround(target)
        self._frame.raise_()
        self.callout.raise_()

    def _watch(self, widget: QWidget) -> None:
        self._unwatch()
        above: QWidget | None = widget
        while above is not None and above is not self._window:
            self._watched.append(above)
            above = above.parentWidget()
        self._watched.append(self._window)
        for each in self._watched:
            each.installEventFilter(self)

    def _unwatch(self) -> None:
        for each in self._watched:
            each.removeEventFilter(self)
        self._watched.clear()

    # Qt

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() in _MOVES:
            self._turn.start()
        return False
