"""The area of a plot whose two axes are of one kind: a unit is as long on both."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF

from explorer.qt.views.plots.zoom_box import ZoomBox


class SquareBox(ZoomBox):
    """A `ZoomBox` that zooms along both axes alike."""

    def __init__(self) -> None:
        super().__init__()
        self.setAspectLocked(True)

    def narrowed(self, factor: float, centre: QPointF) -> QRectF:
        area = QRectF(self.viewRect())
        left = centre.x() - (centre.x() - area.left()) / factor
        top = centre.y() - (centre.y() - area.top()) / factor
        return QRectF(left, top, area.width() / factor, area.height() / factor)
