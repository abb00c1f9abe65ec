"""A picture that is painted: what is at a point, where keys lead, tips, copying and saving."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Final, Generic, TypeVar

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QAccessible,
    QContextMenuEvent,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
)
from PySide6.QtWidgets import QToolTip, QWidget

from explorer.qt.widgets.building import add_picture_actions, show_menu
from explorer.qt.widgets.painting import plain_tip
from explorer.qt.widgets.plot import PlotColours

Hit = TypeVar("Hit")

ENTER: Final = (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space)


class Chart(QWidget, Generic[Hit]):
    """A painted picture of parts that can be read, chosen and opened, by mouse and by keys.

    A subclass paints, says which part is at a point, what a part means and where a key leads.

    Attributes:
        current: The part that keys start from; None for none.
        pointed: The part under the mouse; None for none.
        opacity: Less than 1 while what it shows is out of date.

    Signals:
        read: The mouse is over another part; None when it is over none.
        chosen: The user chose a part.
        opened: The user double-clicked a part, or pressed Enter on it.
        copy_requested: Copy the picture.
        save_requested: Save the picture or its data.
    """

    accessible_role: ClassVar[QAccessible.Role] = QAccessible.Role.Chart

    read = Signal(object)
    chosen = Signal(object)
    opened = Signal(object)
    copy_requested = Signal()
    save_requested = Signal()

    def __init__(self, name: str, explanation: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.current: Hit | None = None
        self.pointed: Hit | None = None
        self.opacity = 1.0
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)
        self.setAccessibleName(name)
        self.setWhatsThis(explanation)
        saving = self.copy_requested, self.save_requested
        self.commands = add_picture_actions(self, *saving, self.sentence)

    # What a picture defines

    def paint(self, painter: QPainter, size: QSize, colours: PlotColours) -> None:
        """Paint the picture, without marks, into a size."""
        raise NotImplementedError

    def paint_marks(self, painter: QPainter, colours: PlotColours) -> None:
        """Paint what is chosen or under the mouse; of the window only."""

    def hit(self, point: QPointF) -> Hit | None:
        """Return the part at a point; None where there is none."""
        raise NotImplementedError

    def describe(self, hit: Hit | None) -> str:
        """Return what a part is, for tool tips and screen readers; "" of None."""
        return ""

    def sentence(self) -> str:
        """Return what the whole picture shows, in words: while no part is current, and to copy."""
        return ""

    def after(self, key: Qt.Key) -> Hit | None:
        """Return the part that a key leads to from the current one; None for nowhere."""
        return None

    def data_columns(self) -> list[tuple[str, list[Any]]]:
        """Return the data behind the picture, for files."""
        raise NotImplementedError

    # What it is told

    def select(self, hit: Hit | None) -> None:
        """Make a part current, without a signal."""
        self.current = hit
        self.speak()
        self.update()

    def speak(self) -> None:
        """Tell screen readers what is current."""
        self.setAccessibleDescription(self.describe(self.current))

    def choose(self, hit: Hit | None) -> None:
        """Choose a part, as if the user had."""
        if hit is not None:
            self.select(hit)
            self.chosen.emit(hit)

    def arrive(self, hit: Hit) -> None:
        """Go to a part by keys: it is chosen, unless choosing leads elsewhere."""
        self.choose(hit)

    def paint_on_paper(self, painter: QPainter, area: QRectF) -> None:
        """Draw all of it into an area, in the colours of paper."""
        painter.save()
        painter.translate(area.topLeft())
        painter.scale(area.width() / self.width(), area.height() / self.height())
        painter.setFont(self.font())
        self.paint(painter, self.size(), PlotColours.on_paper())
        painter.restore()

    @contextmanager
    def sized(self, size: QSize) -> Iterator[None]:
        """Lay the picture out in another size within, if not too small; nothing of it is seen."""
        before = self.size()
        try:
            self._take_size(size)
            yield
        finally:
            self._take_size(before)

    def panels(self) -> list[str]:
        """Return the titles of the parts that can be saved alone; none of a single picture."""
        return []

    @contextmanager
    def alone(self, panel: int | None) -> Iterator[None]:
        """Draw one part alone within, by place; None draws all. Nothing of it is seen."""
        yield

    def _take_size(self, size: QSize) -> None:
        for _ in range(2):  # the least height may be another one in this width
            before = self.size()
            self.resize(size)
            if not self.isVisible():  # Qt would tell it once it is shown
                self.resizeEvent(QResizeEvent(self.size(), before))

    def _point_at(self, hit: Hit | None) -> None:
        if hit != self.pointed:
            self.pointed = hit
            self.read.emit(hit)
            self.update()

    # Qt

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            hit = self.hit(QPointF(event.pos()))
            text = "" if hit is None else self.describe(hit)
            QToolTip.showText(event.globalPos(), plain_tip(text), self)
            return True
        return super().event(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        colours = PlotColours.of_palette(self.palette())
        painter.fillRect(event.rect(), colours.background)
        painter.setFont(self.font())
        painter.setOpacity(self.opacity)
        self.paint(painter, self.size(), colours)
        self.paint_marks(painter, colours)
        painter.end()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self._point_at(self.hit(event.position()))

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self._point_at(None)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        super().mousePressEvent(event)
        self.choose(self.hit(event.position()))  # also the right button: its menu is of this part

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        hit = self.hit(event.position())
        if hit is not None:
            self.opened.emit(hit)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key = Qt.Key(event.key())
        if key in ENTER and self.current is not None:
            self.opened.emit(self.current)
        elif (hit := self.after(key)) is not None:
            self.arrive(hit)
        else:
            super().keyPressEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        show_menu(self, event.globalPos(), self.commands)
