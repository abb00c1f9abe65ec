"""A stacked bar for each device: what its memory is spent on.

Painted directly and not with pyqtgraph, which is at its best with axes and zoom and has neither
textures nor parts that one can point at; and a repaint takes a tenth of a millisecond for each bar.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QAccessible,
    QColor,
    QFocusEvent,
    QFont,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPalette,
    QPen,
)
from PySide6.QtWidgets import QToolTip, QWidget

from explorer.present.explanations import picture_text
from explorer.present.plan import Bar, Kind, Part, exact_text, kind_name
from explorer.qt.theme import warning_colour
from explorer.qt.widgets.painting import (
    device_colour,
    draw_caption,
    fill_kind,
    fill_over,
    kind_colour,
    outline,
    plain_tip,
)
from explorer.qt.widgets.plot import PlotColours
from explorer.text import bytes_text

_PAD: Final = 8
_GAP: Final = 8
_SWATCH: Final = 12
_PAPER_WARNING: Final = "#b3261e"

Place = tuple[int, int]
"""Bar and part."""


@dataclass(frozen=True, slots=True)
class Ink:
    """What bars are painted with.

    Attributes:
        colours: Ground, text and lines.
        warning: What is too much.
    """

    colours: PlotColours
    warning: QColor

    @classmethod
    def on_paper(cls) -> Ink:
        """Return dark colours on white, for exported pictures."""
        return cls(PlotColours.on_paper(), QColor(_PAPER_WARNING))


class MemoryBars(QWidget):
    """The bars of a plan.

    Attributes:
        bars: What is shown.
        current: The part that the keyboard is at.
        explain: Returns the formula of a figure as a line of text, or nothing.

    Signals:
        figure_chosen: A part was clicked or entered; the name of its figure.
    """

    accessible_role = QAccessible.Role.Chart

    figure_chosen = Signal(str)

    def __init__(self, explain: Callable[[str], str], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setLayoutDirection(Qt.LayoutDirection.LeftToRight)  # a picture
        self.bars: tuple[Bar, ...] = ()
        self.current: Place = (0, 0)
        self.explain = explain
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)
        self.setAccessibleName(self.tr("Memory of each device"))
        self.setWhatsThis(picture_text("bars"))

    def show_bars(self, bars: tuple[Bar, ...]) -> None:
        """Show other bars; painted in the next frame."""
        resized = len(bars) != len(self.bars)
        self.bars = bars
        if resized:
            self.current = (0, 0)
            self.updateGeometry()
            self.setMinimumHeight(self.sizeHint().height())
        if self.hasFocus():  # formulas take longer than all the rest, so only for one who reads
            self.setAccessibleDescription(self.describe(self.current))
        else:
            held = (f"{bar.title}: {_amount(self, bar)}" for bar in bars)
            self.setAccessibleDescription("; ".join(held))
        self.update()

    def part(self, place: Place) -> tuple[Bar, Part] | None:
        """Return a bar and its part, or None if there is none."""
        row, number = place
        if not 0 <= row < len(self.bars) or not 0 <= number < len(self.bars[row].parts):
            return None
        return self.bars[row], self.bars[row].parts[number]

    def part_area(self, place: Place) -> QRectF:
        """Return where a part is painted; empty if it has no bytes."""
        row, number = place
        area = self._bar_area(row, self.width())
        return list(_divided(self.bars[row], area))[number][1]

    def describe(self, place: Place) -> str:
        """Return all that is known of a part, in lines."""
        found = self.part(place)
        if found is None:
            return ""
        bar, part = found
        lines = [f"{bar.title}: {kind_name(part.kind)} {exact_text(part.nbytes)}"]
        formula = self.explain(part.term) if part.term else ""
        if formula:
            lines.append(formula)
        if bar.over_bytes:
            words = self.tr("{size} more than there is")
            lines.append(words.format(size=exact_text(bar.over_bytes)))
        return "\n".join(lines)

    def data_columns(self) -> list[tuple[str, list[Any]]]:
        """Return the bars as columns, for CSV."""
        kinds = list(dict.fromkeys(part.kind for bar in self.bars for part in bar.parts))
        columns: list[tuple[str, list[Any]]] = [("device", [bar.title for bar in self.bars])]
        columns += [(kind.value, [bar.nbytes(kind) for bar in self.bars]) for kind in kinds]
        columns.append(("over", [bar.over_bytes for bar in self.bars]))
        return columns

    def paint(self, painter: QPainter, width: int, ink: Ink) -> None:
        """Paint legend and bars into a width."""
        painter.setFont(self.font())
        self._paint_legend(painter, ink.colours)
        for row, bar in enumerate(self.bars):
            self._paint_bar(painter, bar, self._bar_area(row, width), ink)

    def place_at(self, point: QPointF) -> Place | None:
        """Return the part at a point, or None."""
        for row, bar in enumerate(self.bars):
            area = self._bar_area(row, self.width())
            if area.contains(point):
                for number, (part, box) in enumerate(_divided(bar, area)):
                    if part.nbytes and box.left() <= point.x() <= box.right():
                        return row, number
        return None

    @property
    def _line(self) -> int:
        return self.fontMetrics().height()

    def row_height(self) -> int:
        """Return the pixels of a bar with its title."""
        return 2 * self._line + 6 + _GAP

    def _bar_area(self, row: int, width: int) -> QRectF:
        top = _PAD + self._line + _GAP + row * self.row_height() + self._line + 2
        return QRectF(_PAD, top, max(1, width - 2 * _PAD), self._line + 4)

    def _paint_legend(self, painter: QPainter, colours: PlotColours) -> None:
        x, kinds = _PAD, dict.fromkeys(part.kind for bar in self.bars for part in bar.parts)
        for kind in kinds:
            swatch = QRectF(x, _PAD + (self._line - _SWATCH) / 2, _SWATCH, _SWATCH)
            fill_kind(painter, swatch, kind, colours.background, colours.text)
            outline(painter, swatch, colours.text)
            painter.setPen(colours.text)
            name = kind_name(kind)
            painter.drawText(QPointF(x + _SWATCH + 4, _PAD + painter.fontMetrics().ascent()), name)
            x += _SWATCH + 4 + painter.fontMetrics().horizontalAdvance(name) + 14

    def _paint_bar(self, painter: QPainter, bar: Bar, area: QRectF, ink: Ink) -> None:
        colours = ink.colours
        self._paint_title(painter, bar, area, ink)
        parts = [(part, box) for part, box in _divided(bar, area) if part.nbytes]
        for part, box in parts:
            fill_kind(painter, box, part.kind, colours.background, colours.text)
        if bar.over_bytes and bar.capacity is not None:
            start = area.x() + area.width() * bar.capacity / bar.length
            over = QRectF(start, area.y(), area.right() - start, area.height())
            fill_over(painter, over, ink.warning)
        for part, box in parts:
            ground = kind_colour(part.kind, colours.background)
            draw_caption(painter, box, bytes_text(part.nbytes), ground)
        if bar.mark is not None and 0 < bar.mark < bar.length:
            x = area.x() + area.width() * bar.mark / bar.length
            painter.setPen(QPen(colours.text, 1, Qt.PenStyle.DashLine))
            painter.drawLine(QPointF(x, area.top()), QPointF(x, area.bottom()))
        outline(painter, area, colours.text)

    def _paint_title(self, painter: QPainter, bar: Bar, area: QRectF, ink: Ink) -> None:
        line = QRectF(area.x(), area.y() - self._line - 2, area.width(), self._line)
        metrics = painter.fontMetrics()
        font = QFont(painter.font())
        if bar.over_bytes:
            right = self.tr("⚠ {size} too much").format(size=bytes_text(bar.over_bytes))
            painter.setPen(ink.warning)
            font.setBold(True)
        else:
            right = _amount(self, bar)
            painter.setPen(ink.colours.text)
        painter.save()
        painter.setFont(font)
        right_width = painter.fontMetrics().horizontalAdvance(right)
        painter.drawText(line, Qt.AlignmentFlag.AlignRight, right)
        painter.restore()
        left = f"{bar.title}   {bar.layers}"
        x = line.x()
        if bar.layers:  # the colour of its layers in the strip below
            swatch = QRectF(x, line.y() + (self._line - _SWATCH) / 2, _SWATCH, _SWATCH)
            painter.fillRect(swatch, device_colour(bar.device))
            x += _SWATCH + 5
        room = line.right() - x - right_width - 12
        painter.setPen(ink.colours.text)
        text = metrics.elidedText(left, Qt.TextElideMode.ElideRight, int(room))
        painter.drawText(QPointF(x, line.y() + metrics.ascent()), text)

    def _move(self, rows: int, parts: int) -> None:
        if not self.bars:
            return
        row = min(max(self.current[0] + rows, 0), len(self.bars) - 1)
        last = len(self.bars[row].parts) - 1
        self.current = row, min(max(self.current[1] + parts, 0), last)
        self.setAccessibleDescription(self.describe(self.current))
        self.update()

    def _choose(self, place: Place | None) -> None:
        found = None if place is None else self.part(place)
        if place is not None and found is not None:
            self.current = place
            self.setAccessibleDescription(self.describe(place))
            self.update()
            if found[1].term:
                self.figure_chosen.emit(found[1].term)

    # Qt

    def sizeHint(self) -> QSize:
        rows = max(1, len(self.bars)) * self.row_height()
        return QSize(420, 2 * _PAD + self._line + rows)

    def minimumSizeHint(self) -> QSize:
        return QSize(240, self.sizeHint().height())

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            place = self.place_at(QPointF(event.pos()))
            text = "" if place is None else self.describe(place)
            QToolTip.showText(event.globalPos(), plain_tip(text), self)
            return True
        return super().event(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setLayoutDirection(Qt.LayoutDirection.LeftToRight)
        palette = self.palette()
        ink = Ink(PlotColours.of_palette(palette), warning_colour(palette))
        painter.fillRect(event.rect(), ink.colours.background)
        self.paint(painter, self.width(), ink)
        if self.hasFocus() and self.part(self.current) is not None:
            painter.setPen(QPen(palette.color(QPalette.ColorRole.Highlight), 3))
            area = self.part_area(self.current)
            painter.drawRect(area if area.width() >= 3 else area.adjusted(-1, 0, 1, 0))
        painter.end()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        place = self.place_at(event.position())
        found = None if place is None else self.part(place)
        points = found is not None and bool(found[1].term)
        shape = Qt.CursorShape.PointingHandCursor if points else Qt.CursorShape.ArrowCursor
        self.setCursor(shape)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self._choose(self.place_at(event.position()))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key = Qt.Key
        steps = {
            key.Key_Left: (0, -1),
            key.Key_Right: (0, 1),
            key.Key_Up: (-1, 0),
            key.Key_Down: (1, 0),
        }
        pressed = key(event.key())
        if pressed in steps:
            self._move(*steps[pressed])
        elif pressed in (key.Key_Return, key.Key_Enter, key.Key_Space):
            self._choose(self.current)
        else:
            super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        self.setAccessibleDescription(self.describe(self.current))
        super().focusInEvent(event)


def _divided(bar: Bar, area: QRectF) -> Iterator[tuple[Part, QRectF]]:
    """Yield each part with its area, in proportion to its bytes."""
    x = area.x()
    for part in bar.parts:
        width = area.width() * part.nbytes / bar.length
        yield part, QRectF(x, area.y(), width, area.height())
        x += width


def _amount(view: QWidget, bar: Bar) -> str:
    """Return what a device holds, of how much."""
    if bar.capacity is None:
        return bytes_text(bar.held_bytes)
    words = view.tr("{held} of {capacity}, {free} free")
    left = bar.nbytes(Kind.FREE) + bar.nbytes(Kind.SWAP)
    return words.format(
        held=bytes_text(bar.held_bytes), capacity=bytes_text(bar.capacity), free=bytes_text(left)
    )
