"""A line of text that is as wide as there is room and loses its middle where there is none."""

from __future__ import annotations

import html

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QHelpEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QLabel, QToolTip, QWidget


class ElidedLabel(QLabel):
    """Shows plain text; the whole text is its tool tip where it does not fit."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.PlainText)

    def shown_text(self) -> str:
        """Return what fits."""
        return self.fontMetrics().elidedText(
            self.text(), Qt.TextElideMode.ElideMiddle, self.contentsRect().width()
        )

    # Qt

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            # markup whose text cannot be markup: else Qt guesses which of both it is
            whole = f"<qt>{html.escape(self.text())}</qt>"
            elided = self.shown_text() != self.text()
            QToolTip.showText(event.globalPos(), whole if elided else "", self)
            return True
        return super().event(event)

    def minimumSizeHint(self) -> QSize:
        return QSize(0, super().minimumSizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setLayoutDirection(Qt.LayoutDirection.LayoutDirectionAuto)  # a path is no sentence
        self.style().drawItemText(
            painter,
            self.contentsRect(),
            int(self.alignment()),
            self.palette(),
            self.isEnabled(),
            self.shown_text(),
            self.foregroundRole(),
        )
        painter.end()
