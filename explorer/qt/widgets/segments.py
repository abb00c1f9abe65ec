"""A row of segments, one of which is chosen: the pages of a group, the views of a page.

It is a tab bar of Qt's that is painted otherwise, so keys, screen readers, hidden tabs, and arrows
where there is too little room work as in any other.
"""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import (
    QColor,
    QCursor,
    QFont,
    QFontMetrics,
    QPainter,
    QPainterPath,
    QPaintEvent,
    QPen,
)
from PySide6.QtWidgets import QStyle, QTabBar, QTabWidget, QWidget

from explorer.present.explanations import picture_text
from explorer.qt.theme import CORNER, Space, ink_of


class SegmentBar(QTabBar):
    """Segments in one outline; the chosen one is filled and its text is bolder.

    Args:
        name: What a screen reader calls it.
        padding: Pixels at both sides of a word.
    """

    def __init__(
        self, name: str, parent: QWidget | None = None, *, padding: int = Space.WIDE
    ) -> None:
        super().__init__(parent)
        self._padding = padding
        self.setAccessibleName(name)
        self.setWhatsThis(picture_text("segments"))
        self.setDrawBase(False)
        self.setExpanding(False)
        self.setElideMode(Qt.TextElideMode.ElideNone)
        self.setMouseTracking(True)

    def _bold(self) -> QFont:
        font = QFont(self.font())
        font.setWeight(QFont.Weight.DemiBold)
        return font

    # Qt

    def tabSizeHint(self, index: int) -> QSize:
        metrics = QFontMetrics(self._bold())  # so that no segment moves when another is chosen
        text = self.tabText(index).replace("&", "")
        return QSize(metrics.horizontalAdvance(text) + 2 * self._padding, metrics.height() + 12)

    def minimumTabSizeHint(self, index: int) -> QSize:
        return self.tabSizeHint(index)

    def paintEvent(self, event: QPaintEvent) -> None:
        shown = [place for place in range(self.count()) if self.isTabVisible(place)]
        if not shown:
            return
        ink, painter = ink_of(self.palette()), QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        rects = {place: QRectF(self.tabRect(place)) for place in shown}
        first, last = rects[shown[0]], rects[shown[-1]]
        whole = first.united(last).adjusted(0.5, 0.5, -0.5, -0.5)
        outline = QPainterPath()
        outline.addRoundedRect(whole, CORNER, CORNER)
        painter.fillPath(outline, QColor(ink.surface))
        under = self.tabAt(self.mapFromGlobal(QCursor.pos())) if self.underMouse() else -1
        painter.setClipPath(outline)
        for place, rect in rects.items():
            chosen = place == self.currentIndex()
            if chosen:
                painter.fillRect(rect, QColor(ink.accent))
            elif place == under and self.isTabEnabled(place):
                painter.fillRect(rect, QColor(ink.raised))
            if rect.left() > whole.left() + 1 and not chosen:
                painter.fillRect(
                    QRectF(rect.left(), rect.top(), 1, rect.height()), QColor(ink.line)
                )
        painter.setClipping(False)
        painter.setPen(QPen(QColor(ink.control), 1))
        painter.drawPath(outline)
        for place, rect in rects.items():
            self._paint_text(painter, place, rect)
        painter.end()

    def _paint_text(self, painter: QPainter, place: int, rect: QRectF) -> None:
        ink, chosen = ink_of(self.palette()), place == self.currentIndex()
        colour = ink.on_accent if chosen else ink.text
        painter.setFont(self._bold() if chosen else self.font())
        painter.setPen(QColor(colour if self.isTabEnabled(place) else ink.muted))
        flags = Qt.AlignmentFlag.AlignCenter | (
            Qt.TextFlag.TextShowMnemonic
            if self.style().styleHint(QStyle.StyleHint.SH_UnderlineShortcut, None, self)
            else Qt.TextFlag.TextHideMnemonic
        )
        painter.drawText(rect, int(flags), self.tabText(place))
        if chosen and self.hasFocus():
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(QColor(ink.on_accent), 1.5))
            painter.drawRoundedRect(rect.adjusted(3, 3, -3, -3), CORNER - 2, CORNER - 2)


class LowTabs(QTabWidget):
    """Tabs that can be as low as they are told to be.

    Qt's ask for the height that the longest text of all pages has at their width, which leaves
    nothing to what stands above them.
    """

    # Qt

    def hasHeightForWidth(self) -> bool:
        return False


def segmented(tabs: QTabWidget, name: str, padding: int = Space.WIDE) -> QTabWidget:
    """Let a tab widget, to which no tab was added yet, show its tabs as segments; return it."""
    tabs.setTabBar(SegmentBar(name, tabs, padding=padding))
    tabs.setDocumentMode(True)
    tabs.tabBar().setDrawBase(False)
    tabs.setAccessibleName(name)
    return tabs


def offered_tabs(owner: QWidget) -> dict[str, tuple[QTabWidget, int]]:
    """Return the tabs in a widget that can be chosen: title → tabs and place; outer ones count."""
    found: dict[str, tuple[QTabWidget, int]] = {}
    for tabs in owner.findChildren(QTabWidget):
        for place in filter(tabs.isTabVisible, range(tabs.count())):
            found.setdefault(tabs.tabText(place), (tabs, place))
    return found


def show_tab(owner: QWidget, title: str) -> None:
    """Bring a tab in a widget to the front, if it is offered."""
    if found := offered_tabs(owner).get(title):
        tabs, place = found
        tabs.setCurrentIndex(place)
