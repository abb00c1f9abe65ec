"""What the colours of the map mean."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QAccessible, QFontMetricsF, QPainter, QPaintEvent, QPalette, QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from explorer.present.explanations import picture_text
from explorer.qt.views.plots.themed_plot import PlotColours
from explorer.qt.views.survey.model_map import ModelMap


class MapLegend(QWidget):
    """The legend of a map, as high as it must be."""

    accessible_role = QAccessible.Role.Graphic

    def __init__(self, model_map: ModelMap, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setLayoutDirection(Qt.LayoutDirection.LeftToRight)  # a picture
        self._map = model_map
        self.setAccessibleName(self.tr("Legend"))
        self.setWhatsThis(picture_text("map_legend"))
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.setBackgroundRole(QPalette.ColorRole.Base)
        self.setAutoFillBackground(True)
        self.follow()

    def follow(self) -> None:
        """Show what the map's colours mean now."""
        painter = self._map.painter_for(self._colours(), self._map.layout_)
        metrics = QFontMetricsF(self.font())
        height = metrics.height() + 8
        if painter is not None:
            height = max(height, painter.legend_height(metrics, self.width()))
            self.setAccessibleDescription(painter.legend_text())
        if round(height) != self.height():
            self.setFixedHeight(round(height))
        self.update()

    def _colours(self) -> PlotColours:
        return PlotColours.of_palette(self.palette())

    # Qt

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.follow()

    def paintEvent(self, event: QPaintEvent) -> None:
        map_painter = self._map.painter_for(self._colours(), self._map.layout_)
        if map_painter is not None:
            painter = QPainter(self)
            painter.setLayoutDirection(Qt.LayoutDirection.LeftToRight)
            map_painter.paint_legend(painter, self.width())
            painter.end()

    def sizeHint(self) -> QSize:
        return QSize(300, self.height())
