"""The area of a plot: rubber band and wheel zoom, and every zoom can be taken back.

pyqtgraph keeps a history of rubber bands only, and without the view before the first; so it is kept
here.
"""

from __future__ import annotations

import time
from typing import Any, Final

import pyqtgraph as pg
from PySide6.QtCore import QPointF, QRectF, Qt, Signal

_WHEEL_STEP: Final = 1.2
_ONE_TURN_S: Final = 0.6  # notches in quick succession are one zoom
_LEAST_PIXELS: Final = 6  # of a rubber band; less is a click with an unsteady hand
_MOST_HISTORY: Final = 100


class ZoomBox(pg.ViewBox):  # type: ignore[misc] # pyqtgraph has no types
    """A `ViewBox` that a left drag and the wheel zoom.

    Attributes:
        home: The area that shows everything.

    Signals:
        zoomed: The user zoomed, or took a zoom back.
    """

    zoomed = Signal()

    def __init__(self) -> None:
        super().__init__(enableMenu=False)
        self.home = QRectF(0, 0, 1, 1)
        self._history: list[QRectF] = []
        self._last_wheel = 0.0
        self.disableAutoRange()

    @property
    def is_zoomed(self) -> bool:
        """Whether something else than everything is shown."""
        return bool(self._history)

    def set_home(self, area: QRectF) -> None:
        """Say what everything is; it is shown unless the user has zoomed."""
        self.home = area
        if not self._history:
            self._show(area)

    def forget(self) -> None:
        """Show everything: the zooms were of something else."""
        self._history.clear()
        self._show(self.home)

    def zoom_to(self, area: QRectF) -> None:
        """Show an area; `go_back` shows what was shown before."""
        self._history.append(QRectF(self.viewRect()))
        del self._history[:-_MOST_HISTORY]
        self._show(area)
        self.zoomed.emit()

    def zoom_by(self, factor: float, x: float) -> None:
        """Make what is shown so much narrower around `x`."""
        self.zoom_to(self.narrowed(factor, QPointF(x, self.viewRect().center().y())))

    def pan_by(self, share: float) -> None:
        """Move along by a share of the width."""
        area = QRectF(self.viewRect())
        self.zoom_to(area.translated(area.width() * share, 0))

    def go_back(self) -> None:
        """Take the last zoom back."""
        if self._history:
            before = self._history.pop()
            # the view before the first zoom was everything, which may have grown since
            self._show(before if self._history else self.home)
            self.zoomed.emit()

    def go_home(self) -> None:
        """Show everything."""
        if self._history:
            self.forget()
            self.zoomed.emit()

    def narrowed(self, factor: float, centre: QPointF) -> QRectF:
        """Return what is shown, so much narrower around a place."""
        area, x = QRectF(self.viewRect()), centre.x()
        left, right = x - (x - area.left()) / factor, x + (area.right() - x) / factor
        return QRectF(left, area.top(), right - left, area.height())

    def _show(self, area: QRectF) -> None:
        self.setRange(area, padding=0, disableAutoRange=True)

    def _band(self, event: Any) -> QRectF:
        """Return the dragged area in the box's pixels; a flat one reaches from top to bottom."""
        band = QRectF(event.buttonDownPos(event.button()), event.pos()).normalized()
        box = self.boundingRect()
        if band.height() < _LEAST_PIXELS:
            band.setTop(box.top())
            band.setBottom(box.bottom())
        return band.intersected(box)

    # Qt

    def mouseDragEvent(self, event: Any, axis: int | None = None) -> None:
        event.accept()
        if event.button() != Qt.MouseButton.LeftButton or axis is not None:
            return
        if not event.isFinish():
            self.updateScaleBox(event.buttonDownPos(), event.pos())
            return
        self.rbScaleBox.hide()
        band = self._band(event)
        if band.width() >= _LEAST_PIXELS:
            self.zoom_to(self.childGroup.mapRectFromParent(band).normalized())

    def wheelEvent(self, event: Any, axis: int | None = None) -> None:
        event.accept()
        notches = event.delta() / 120
        area = self.narrowed(_WHEEL_STEP**notches, self.mapSceneToView(event.scenePos()))
        now = time.monotonic()
        if self._history and now - self._last_wheel < _ONE_TURN_S:
            self._show(area)
            self.zoomed.emit()
        else:
            self.zoom_to(area)
        self._last_wheel = now
