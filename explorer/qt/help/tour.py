"""A tour from stop to stop: it follows the window, and ends whenever one likes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from PySide6.QtCore import (
    QEvent,
    QObject,
    QPoint,
    QPointF,
    QRect,
    QRectF,
    QSize,
    Qt,
    QTimer,
    Signal,
    SignalInstance,
)
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
from PySide6.QtWidgets import QApplication, QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from explorer.qt.widgets.labels import plain_label

# Where a box stands so that it points at something and covers none of it.


GAP: Final = 6
"""Pixels between the box and what it points at."""


class Side(Enum):
    """On which side of a thing a box stands."""

    BELOW = auto()
    RIGHT = auto()
    LEFT = auto()
    ABOVE = auto()


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a box stands.

    Attributes:
        area: The box.
        side: On which side of the thing; None if it points at nothing.
    """

    area: QRect
    side: Side | None


def place_beside(
    size: QSize, target: QRect, room: QRect, direction: Qt.LayoutDirection
) -> Placement:
    """Place a box beside a thing, on the first side that has room for it.

    Where no side has, as in a very small window, it stands in the corner farthest from the thing,
    and points at nothing.

    Args:
        size: Size of the box.
        target: The thing; nothing if it is empty.
        room: Where the box may be.
        direction: Which of left and right is tried first.
    """
    if target.isEmpty():
        return Placement(_inside(_centred(size, room.center()), room), None)
    onwards = (Side.RIGHT, Side.LEFT)
    if direction == Qt.LayoutDirection.RightToLeft:
        onwards = (Side.LEFT, Side.RIGHT)
    for side in (Side.BELOW, *onwards, Side.ABOVE):
        area = _inside(_beside(size, target, side), room)
        if room.contains(area) and not area.intersects(target.adjusted(-1, -1, 1, 1)):
            return Placement(area, side)
    return Placement(_far_corner(size, target, room), None)


def _beside(size: QSize, target: QRect, side: Side) -> QRect:
    """Return a box beside a thing, its middle as near as can be."""
    area = _centred(size, target.center())
    match side:
        case Side.BELOW:
            area.moveTop(target.bottom() + 1 + GAP)
        case Side.ABOVE:
            area.moveBottom(target.top() - 1 - GAP)
        case Side.RIGHT:
            area.moveLeft(target.right() + 1 + GAP)
        case Side.LEFT:
            area.moveRight(target.left() - 1 - GAP)
    return area


def _centred(size: QSize, middle: QPoint) -> QRect:
    area = QRect(QPoint(0, 0), size)
    area.moveCenter(middle)
    return area


def _inside(area: QRect, room: QRect) -> QRect:
    """Return a box moved into the room, as far as it fits."""
    moved = QRect(area)
    moved.moveRight(min(moved.right(), room.right()))
    moved.moveLeft(max(moved.left(), room.left()))
    moved.moveBottom(min(moved.bottom(), room.bottom()))
    moved.moveTop(max(moved.top(), room.top()))
    return moved


def _far_corner(size: QSize, target: QRect, room: QRect) -> QRect:
    area = QRect(room.topLeft(), size)
    if target.center().x() < room.center().x():
        area.moveRight(room.right())
    if target.center().y() < room.center().y():
        area.moveBottom(room.bottom())
    return _inside(area, room)


# The box of a tour with its words and buttons, and the frame around what it points at.


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
