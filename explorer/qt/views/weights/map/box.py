"""The area of a map: zoomed along both axes alike, moved by hand, and never outside of the matrix.

Row 0 is at the top. A weight takes the square from its row and column to the next ones.
"""

from __future__ import annotations

from typing import Any, Final

from PySide6.QtCore import QPointF, QRectF, Qt

from explorer.qt.views.plots.zoom_box import ZoomBox

_LEAST: Final = 4.0  # rows and columns that are always in sight
_FLAT_PIXELS: Final = 6  # a rubber band of less reaches from edge to edge


class MapBox(ZoomBox):
    """A `ZoomBox` for a matrix. A drag with Shift, or with the middle button, moves it."""

    def __init__(self) -> None:
        super().__init__()
        self.invertY(True)

    def narrowed(self, factor: float, centre: QPointF) -> QRectF:
        area = QRectF(self.viewRect())
        width = max(area.width() / factor, min(_LEAST, self.home.width()))
        height = max(area.height() / factor, min(_LEAST, self.home.height()))
        left = centre.x() - (centre.x() - area.left()) * width / area.width()
        top = centre.y() - (centre.y() - area.top()) * height / area.height()
        return QRectF(left, top, width, height)

    def zoom_to(self, area: QRectF) -> None:
        if self._inside(area) == self.home:
            self.go_home()
        else:
            super().zoom_to(area)

    def move_by(self, x: float, y: float) -> None:
        """Move by shares of what is shown; that is no zoom, and not taken back by `go_back`."""
        if self.is_zoomed:
            area = QRectF(self.viewRect())
            self._show(area.translated(x * area.width(), y * area.height()))
            self.zoomed.emit()

    def centre_on(self, row: int, column: int, rows: int, columns: int) -> None:
        """Show a weight with so many others around it."""
        self.zoom_to(QRectF(column + 0.5 - columns / 2, row + 0.5 - rows / 2, columns, rows))

    def _inside(self, area: QRectF) -> QRectF:
        """Return an area of the same size, or as large as can be, that is inside of the matrix."""
        home = self.home
        width, height = min(area.width(), home.width()), min(area.height(), home.height())
        left = min(max(area.left(), home.left()), home.right() - width)
        top = min(max(area.top(), home.top()), home.bottom() - height)
        return QRectF(left, top, width, height)

    def _show(self, area: QRectF) -> None:
        super()._show(self._inside(area))

    def _band(self, event: Any) -> QRectF:
        band = QRectF(event.buttonDownPos(event.button()), event.pos()).normalized()
        if not band.width() < _FLAT_PIXELS <= band.height():
            return super()._band(event)
        box = self.boundingRect()
        band.setLeft(box.left())
        band.setRight(box.right())
        return band.intersected(box)

    # Qt

    def mouseDragEvent(self, event: Any, axis: int | None = None) -> None:
        shift = event.modifiers() & Qt.KeyboardModifier.ShiftModifier
        if event.button() == Qt.MouseButton.MiddleButton or shift:
            event.accept()
            here, before = (self.mapToView(place) for place in (event.pos(), event.lastPos()))
            area = QRectF(self.viewRect())
            moved = before - here
            self.move_by(moved.x() / area.width(), moved.y() / area.height())
        else:
            super().mouseDragEvent(event, axis)
