"""The box of a tour with its words and buttons, and the frame around what it points at."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QPoint, QPointF, QRect, QRectF, QSize, Qt, Signal, SignalInstance
from PySide6.QtGui import (
    QAccessible,
    QAccessibleAnnouncementEvent,
    QFont,
    QKeySequence,
    QPainter,
    QPainterPath,
    QPaintEvent,
    QPalette,
    QPen,
    QPolygonF,
    QShortcut,
)
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from explorer.qt.views.labels import plain_label
from explorer.qt.views.tour.placement import Side

_ARROW: Final = 10
_RADIUS: Final = 6
_WIDTH_IN_LETTERS: Final = 46
_FRAME_PIXELS: Final = 2


class Callout(QWidget):
    """A box of words. It is a part of the window, not a window of its own.

    Signals:
        next_wanted: The user wants to go on.
        back_wanted: The user wants to go back.
        skipped: The user has had enough.
    """

    next_wanted = Signal()
    back_wanted = Signal()
    skipped = Signal()

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._side: Side | None = None
        self._tip = QPoint()
        self.title = plain_label(self)
        font = QFont(self.title.font())
        font.setWeight(QFont.Weight.DemiBold)
        font.setPointSizeF(font.pointSizeF() * 1.1)
        self.title.setFont(font)
        self.text = plain_label(self)
        self.count = plain_label(self)
        for label in (self.title, self.text, self.count):
            label.setForegroundRole(QPalette.ColorRole.ToolTipText)
            label.setWordWrap(label is not self.count)
        self.skip = self._button(self.tr("&Skip the tour"), self.skipped)
        self.back = self._button(self.tr("&Back"), self.back_wanted)
        self.next = self._button(self.tr("&Next"), self.next_wanted)
        self._lay_out()
        left_to_right = Qt.LayoutDirection.LeftToRight
        for key, slot in (
            (Qt.Key.Key_Escape, self.skipped.emit),
            (Qt.Key.Key_Right, lambda: self._step(self.layoutDirection() == left_to_right)),
            (Qt.Key.Key_Left, lambda: self._step(self.layoutDirection() != left_to_right)),
        ):
            # as shortcuts: a button would take an arrow key for a step to its neighbour
            shortcut = QShortcut(QKeySequence(key), self)
            shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
            shortcut.activated.connect(slot)

    def say(self, title: str, text: str, number: int, count: int) -> None:
        """Say something.

        Args:
            title: In a few words.
            text: In a sentence or two.
            number: Which box this is, from 1 up.
            count: How many there are.
        """
        self.title.setText(title)
        self.text.setText(text)
        self.count.setText(self.tr("{n} of {all}").format(n=number, all=count))
        self.back.setEnabled(number > 1)
        self.next.setText(self.tr("&Done") if number == count else self.tr("&Next"))
        self.skip.setVisible(number < count)
        told = f"{title}. {text} ({self.count.text()})"
        self.setAccessibleName(self.tr("Tour"))
        self.setAccessibleDescription(told)
        self.next.setAccessibleDescription(told)  # a screen reader reads it with the button
        QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self, told))

    def wanted_size(self) -> QSize:
        """Return how large the box must be for its words, the arrow's room included."""
        letters = self.fontMetrics().averageCharWidth() * _WIDTH_IN_LETTERS
        width = max(letters, self.minimumSizeHint().width())
        layout = self.layout()
        assert layout is not None
        return QSize(width, max(layout.heightForWidth(width), layout.minimumSize().height()))

    def point(self, side: Side | None, target: QRect) -> None:
        """Draw the arrow towards a thing, given in the coordinates of the parent."""
        self._side = side
        self._tip = target.center() - self.pos()
        self.update()

    def _step(self, onwards: bool) -> None:
        """Go on or back, as an arrow key says that points the way the words run."""
        if onwards:
            self.next_wanted.emit()
        elif self.back.isEnabled():
            self.back_wanted.emit()

    def _button(self, text: str, signal: SignalInstance) -> QPushButton:
        button = QPushButton(text, self)
        button.clicked.connect(lambda _=False: signal.emit())
        return button

    def _lay_out(self) -> None:
        line = QHBoxLayout()
        line.addWidget(self.count)
        line.addStretch(1)
        for button in (self.skip, self.back, self.next):
            line.addWidget(button)
        layout = QVBoxLayout(self)
        edge = _ARROW + 12
        layout.setContentsMargins(edge, edge, edge, edge)
        layout.addWidget(self.title)
        layout.addWidget(self.text, 1)
        layout.addSpacing(6)
        layout.addLayout(line)

    def _outline(self) -> QPainterPath:
        box = QRectF(self.rect()).adjusted(_ARROW, _ARROW, -_ARROW, -_ARROW)
        path = QPainterPath()
        path.addRoundedRect(box, _RADIUS, _RADIUS)
        if self._side is None:
            return path
        arrow = QPainterPath()
        arrow.addPolygon(QPolygonF(self._arrow(box)))
        arrow.closeSubpath()
        return path.united(arrow)

    def _arrow(self, box: QRectF) -> list[QPointF]:
        """Return the corners of the arrow, its foot inside the box."""
        reach = _ARROW + _RADIUS
        x = min(max(float(self._tip.x()), box.left() + reach), box.right() - reach)
        y = min(max(float(self._tip.y()), box.top() + reach), box.bottom() - reach)
        match self._side:
            case Side.BELOW:
                edge, tip = box.top() + 1, QPointF(x, box.top() - _ARROW + 1)
            case Side.ABOVE:
                edge, tip = box.bottom() - 1, QPointF(x, box.bottom() + _ARROW - 1)
            case Side.RIGHT:
                edge, tip = box.left() + 1, QPointF(box.left() - _ARROW + 1, y)
            case _:
                edge, tip = box.right() - 1, QPointF(box.right() + _ARROW - 1, y)
        if self._side in (Side.BELOW, Side.ABOVE):
            return [QPointF(x - _ARROW, edge), tip, QPointF(x + _ARROW, edge)]
        return [QPointF(edge, y - _ARROW), tip, QPointF(edge, y + _ARROW)]

    # Qt

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        palette = self.palette()
        painter.setPen(QPen(palette.color(QPalette.ColorRole.Highlight), _FRAME_PIXELS))
        painter.setBrush(palette.color(QPalette.ColorRole.ToolTipBase))
        painter.drawPath(self._outline())
        painter.end()


class TargetFrame(QWidget):
    """A frame around what a box points at; the mouse goes through it."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)

    def surround(self, target: QRect) -> None:
        """Stand around a thing, or nowhere if it is empty."""
        self.setVisible(not target.isEmpty())
        self.setGeometry(
            target.adjusted(-_FRAME_PIXELS, -_FRAME_PIXELS, _FRAME_PIXELS, _FRAME_PIXELS)
        )

    # Qt

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(self.palette().color(QPalette.ColorRole.Highlight), _FRAME_PIXELS))
        edge = _FRAME_PIXELS / 2
        area = QRectF(self.rect()).adjusted(edge, edge, -edge, -edge)
        painter.drawRoundedRect(area, _RADIUS / 2, _RADIUS / 2)
        painter.end()
