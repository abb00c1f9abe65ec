"""Vertical lines with names at the top of a plot; names never overlap, and stay in the picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyqtgraph as pg
from PySide6.QtCore import QPointF, QRectF, Qt

from explorer.qt.views.plots.themed_plot import ThemedPlot

_ROWS: Final = 2  # of names, one below the other
_GAP: Final = 4  # pixels
_ON_TOP: Final = 20
_LEFT_ARROW: Final = "\u25c2 "
_RIGHT_ARROW: Final = " \u25b8"


@dataclass(frozen=True, slots=True)
class Mark:
    """A place worth knowing.

    Attributes:
        x: Where it is.
        text: What it is; plain text.
        style: How its line is drawn.
        points: Whether the name stays at the edge, with an arrow, where the place is out of sight.
    """

    x: float
    text: str
    style: Qt.PenStyle = Qt.PenStyle.DashLine
    points: bool = False


class Marks:
    """The marks of a plot, the most important ones first: these keep their names.

    Args:
        plot: The plot.

    Attributes:
        covered: What the names cover, in pixels of the plot's box.
    """

    def __init__(self, plot: ThemedPlot) -> None:
        self._plot = plot
        self._marks: tuple[Mark, ...] = ()
        self._lines: list[Any] = []
        self._names: list[Any] = []
        self.covered: tuple[QRectF, ...] = ()
        plot.box.sigRangeChanged.connect(lambda *_: self.place())
        plot.box.sigResized.connect(lambda *_: self.place())

    def show(self, marks: Sequence[Mark]) -> None:
        """Show other marks."""
        while len(self._lines) < len(marks):
            self._lines.append(pg.InfiniteLine(angle=90))
            self._names.append(pg.TextItem(anchor=(0, 0)))
            self._names[-1].setZValue(_ON_TOP)
            self._plot.addItem(self._lines[-1], ignoreBounds=True)
            self._plot.addItem(self._names[-1], ignoreBounds=True)
        self._marks = tuple(marks)
        self.restyle()

    def restyle(self) -> None:
        """Take the plot's colours."""
        colours = self._plot.colours
        for place, (line, name) in enumerate(zip(self._lines, self._names, strict=True)):
            shown = place < len(self._marks)
            line.setVisible(shown)
            name.setVisible(shown)
            if shown:
                mark = self._marks[place]
                line.setPos(mark.x)
                line.setPen(pg.mkPen(colours.text, width=1, style=mark.style))
                name.fill = pg.mkBrush(colours.background)
        self.place()

    def place(self) -> None:
        """Put each name beside its line where there is room."""
        box = self._plot.box
        area = QRectF(box.boundingRect())
        taken: list[QRectF] = []
        view = box.viewRect()
        for mark, name in zip(self._marks, self._names, strict=False):
            outside = -1 if mark.x < view.left() else 1 if mark.x > view.right() else 0
            if outside and not mark.points:
                name.hide()
                continue
            text = mark.text
            if outside:
                text = f"{_LEFT_ARROW}{text}" if outside < 0 else f"{text}{_RIGHT_ARROW}"
            name.setText(text, color=self._plot.colours.text)
            spot = self._free_spot(name, box.mapFromView(QPointF(mark.x, 0)).x(), area, taken)
            name.setVisible(spot is not None)
            if spot is not None:
                taken.append(spot)
                name.setPos(box.mapToView(spot.topLeft()))
        self.covered = tuple(taken)

    def shown_names(self) -> list[str]:
        """Return the names that are in the picture."""
        return [name.toPlainText() for name in self._names if name.isVisible()]

    def _free_spot(self, name: Any, x: float, area: QRectF, taken: list[QRectF]) -> QRectF | None:
        size = name.textItem.boundingRect()
        left = min(max(x - size.width() / 2, area.left()), area.right() - size.width())
        for row in range(_ROWS):
            top = area.top() + row * size.height()
            spot = QRectF(left, top, size.width(), size.height())
            room = spot.adjusted(-_GAP, 0, _GAP, -1)
            if left >= area.left() and not any(room.intersects(other) for other in taken):
                return spot
        return None
