"""A plot in the program's colours, with zoom, its history, marks, and export in one context menu.

pyqtgraph does not follow the palette, and its own menu offers much that a histogram does not need.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, Final

import pyqtgraph as pg
from PySide6 import QtGui
from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtWidgets import QToolButton, QWidget

from explorer.qt.theme import PAPER, Space, TextSize, ink_of, text_font
from explorer.qt.widgets.building import add_action, add_picture_actions, show_menu
from explorer.text import axis_texts, count_text, float_text, integer_text, written_number

_LONGEST: Final = 100_000  # from here on a count is rounded
_LOOKS: Final = 256  # pens that are kept: each type's colour in each scheme, and a few lines


class NumberAxis(pg.AxisItem):  # type: ignore[misc] # pyqtgraph has no types
    """An axis with the decimal sign of the user's country."""

    # pyqtgraph

    def tickStrings(self, values: Sequence[float], scale: float, spacing: float) -> list[str]:
        return [written_number(text) for text in super().tickStrings(values, scale, spacing)]


class CountAxis(pg.AxisItem):  # type: ignore[misc] # pyqtgraph has no types
    """The left axis of a plot of counts, shares, or logarithms of them: 2.5 M, not 2.5e+06."""

    def __init__(self) -> None:
        super().__init__("left")
        self.enableAutoSIPrefix(False)
        self.logarithmic = False

    def set_logarithmic(self, on: bool) -> None:
        """Treat heights as logarithms, and label whole powers of ten, or not."""
        self.logarithmic = on
        self.picture = None
        self.update()

    # pyqtgraph

    def tickValues(self, low: float, high: float, size: float) -> list[tuple[float, list[float]]]:
        if not self.logarithmic:
            return list(super().tickValues(low, high, size))
        first, last = -int(-low // 1), int(high // 1)
        step = max(1, (last - first) // 6)
        return [(float(step), [float(power) for power in range(first, last + 1, step)])]

    def tickStrings(self, values: Sequence[float], scale: float, spacing: float) -> list[str]:
        if self.logarithmic:
            return [tick_count(10.0**power) for power in values]
        return axis_texts(values, most=max(map(abs, (*self.range, *values))))


def tick_count(number: float) -> str:
    """Return a count beside an axis, with the unit that it needs where it is a large one."""
    if number < 1:
        return float_text(number, 4)
    whole = round(number)
    return count_text(whole) if whole >= _LONGEST else integer_text(whole)


_WHEEL_STEP: Final = 1.2
_ONE_TURN_S: Final = 0.6  # notches in quick succession are one zoom
_LEAST_PIXELS: Final = 6  # of a rubber band; less is a click with an unsteady hand
_MOST_HISTORY: Final = 100


class ZoomBox(pg.ViewBox):  # type: ignore[misc] # pyqtgraph has no types
    """A `ViewBox` that a left drag and the wheel zoom, with a history of every zoom.

    pyqtgraph's own history has rubber bands only, and not the view before the first.

    Attributes:
        home: The area that shows everything.
        is_empty: Whether nothing is shown yet: there is nothing to zoom into.

    Signals:
        zoomed: The user zoomed, or undid a zoom.
    """

    zoomed = Signal()

    def __init__(self) -> None:
        super().__init__(enableMenu=False)
        self.home = QRectF(0, 0, 1, 1)
        self.is_empty = False
        self._history: list[QRectF] = []
        self._last_wheel = 0.0
        self.disableAutoRange()

    @property
    def is_zoomed(self) -> bool:
        return bool(self._history)

    def set_home(self, area: QRectF, *, grows: bool = False) -> None:
        """Set what a reset shows; show it unless the user has zoomed.

        Args:
            area: Everything.
            grows: Whether what was zoomed into has become so much higher, too, as counts do.
        """
        before, self.home, self.is_empty = self.home, area, False
        if not self._history:
            self._show(area)
        elif grows and before.height():
            self._history = [_grown(one, before, area) for one in self._history]
            self._show(_grown(self.viewRect(), before, area))

    def forget(self) -> None:
        """Show everything and forget the zooms: the content is another one."""
        self._history.clear()
        self._show(self.home)

    def zoom_to(self, area: QRectF) -> None:
        """Show an area, if anything is shown; `go_back` shows what was shown before."""
        if self.is_empty:
            return
        self._history.append(QRectF(self.viewRect()))
        del self._history[:-_MOST_HISTORY]
        self._show(area)
        self.zoomed.emit()

    def zoom_by(self, factor: float, x: float) -> None:
        """Narrow the area by a factor around `x`."""
        self.zoom_to(self.narrowed(factor, QPointF(x, self.viewRect().center().y())))

    def pan_by(self, share: float) -> None:
        """Move along by a share of the width."""
        area = QRectF(self.viewRect())
        self.zoom_to(area.translated(area.width() * share, 0))

    def go_back(self) -> None:
        """Undo the last zoom."""
        if self._history:
            before = self._history.pop()
            # the view before the first zoom was everything, which may have grown since
            self._show(before if self._history else self.home)
            self.zoomed.emit()

    def go_home(self) -> None:
        if self._history:
            self.forget()
            self.zoomed.emit()

    def narrowed(self, factor: float, centre: QPointF) -> QRectF:
        """Return the shown area, narrowed by a factor around a place."""
        area, x = QRectF(self.viewRect()), centre.x()
        left, right = x - (x - area.left()) / factor, x + (area.right() - x) / factor
        return QRectF(left, area.top(), right - left, area.height())

    def area_of(self, low: float, high: float) -> QRectF:
        """Return what a range along x shows: all heights."""
        area = QRectF(self.home)
        area.setLeft(low)
        area.setRight(high)
        return area

    def _show(self, area: QRectF) -> None:
        self.setRange(area, padding=0, disableAutoRange=True)

    def _band(self, event: Any) -> QRectF:
        """Return the dragged area in the box's pixels; a flat one reaches from top to bottom."""
        band = QRectF(event.buttonDownPos(event.button()), event.pos()).normalized()
        box = self.boundingRect()
        if band.height() < _LEAST_PIXELS:
            band.setTop(box.top())
            band.setBottom(box.bottom())
        return band.intersected(box)

    # Qt

    def mouseDragEvent(self, event: Any, axis: int | None = None) -> None:
        event.accept()
        if event.button() != Qt.MouseButton.LeftButton or axis is not None or self.is_empty:
            return
        if not event.isFinish():
            self.updateScaleBox(event.buttonDownPos(), event.pos())
            return
        self.rbScaleBox.hide()
        band = self._band(event)
        if band.width() >= _LEAST_PIXELS:
            self.zoom_to(self.childGroup.mapRectFromParent(band).normalized())

    def wheelEvent(self, event: Any, axis: int | None = None) -> None:
        event.accept()
        notches = event.delta() / 120
        area = self.narrowed(_WHEEL_STEP**notches, self.mapSceneToView(event.scenePos()))
        now = time.monotonic()
        if self._history and now - self._last_wheel < _ONE_TURN_S:
            self._show(area)
            self.zoomed.emit()
        else:
            self.zoom_to(area)
        self._last_wheel = now


def _grown(area: QRectF, before: QRectF, now: QRectF) -> QRectF:
    """Return an area with the share of the height of everything that it had before."""
    factor = now.height() / before.height()
    top = now.top() + (area.top() - before.top()) * factor
    return QRectF(area.left(), top, area.width(), area.height() * factor)


_BEHIND, _IN_FRONT = -1.0, 0.5  # of what is drawn
_LEGEND_ALPHA: Final = 200  # curves shine through
_PAN: Final = 0.1  # of the width
_ZOOM: Final = 1.5


@dataclass(frozen=True, slots=True)
class PlotColours:
    """What a plot is drawn with.

    Attributes:
        background: Behind everything.
        text: Axes, labels and marks.
        grid: Lines that help the eye.
        accent: What is chosen: cursors, frames.
        muted: Numbers at the axes.
        rule: Horizontal lines behind the series.
        raised: The part of a bar that nothing fills.
        warning: What is too much.
        stroke: Dots that a pixel of the width of a line takes: more than one on paper.
    """

    background: QtGui.QColor
    text: QtGui.QColor
    grid: QtGui.QColor
    accent: QtGui.QColor
    muted: QtGui.QColor
    rule: QtGui.QColor
    raised: QtGui.QColor
    warning: QtGui.QColor
    stroke: float = field(default=1.0, kw_only=True)

    @classmethod
    def of_palette(cls, palette: QtGui.QPalette) -> PlotColours:
        """Return the colours of the window; a plot stands on its page, without a box."""
        role, ink = QtGui.QPalette.ColorRole, ink_of(palette)
        text, muted = palette.color(role.Text), palette.color(role.PlaceholderText)
        accent = palette.color(role.Highlight)
        own = map(QtGui.QColor, (ink.line, ink.raised, ink.warning))
        return cls(palette.color(role.Window), text, _faded(text), accent, muted, *own)

    @classmethod
    def on_paper(cls, stroke: float = 1.0) -> PlotColours:
        """Return dark colours on white, for exported pictures."""
        names = [PAPER.surface, PAPER.text, PAPER.accent, PAPER.muted, PAPER.line]
        names += [PAPER.raised, PAPER.warning]
        background, text, *others = map(QtGui.QColor, names)
        return cls(background, text, _faded(text), *others, stroke=stroke)

    def pen(
        self, colour: QtGui.QColor, width: float = 1, style: Qt.PenStyle = Qt.PenStyle.SolidLine
    ) -> QtGui.QPen:
        """Return a pen for pyqtgraph, whose lines are as many dots wide in any scale.

        It is the same object for the same look, and so is a brush: pyqtgraph keeps a picture of
        each symbol by the objects it was drawn with, a thousand of them before it drops any.
        """
        return _pen(colour.rgba(), width * self.stroke, style)


@lru_cache(_LOOKS)
def _pen(rgba: int, width: float, style: Qt.PenStyle) -> QtGui.QPen:
    return pg.mkPen(QtGui.QColor.fromRgba(rgba), width=width, style=style)  # type: ignore[no-any-return]


def brush(colour: QtGui.QColor) -> QtGui.QBrush:
    """Return the brush of a colour for symbols; see `PlotColours.pen`."""
    return _brush(colour.rgba())


@lru_cache(_LOOKS)
def _brush(rgba: int) -> QtGui.QBrush:
    return QtGui.QBrush(QtGui.QColor.fromRgba(rgba))


def _faded(colour: QtGui.QColor) -> QtGui.QColor:
    faded = QtGui.QColor(colour)
    faded.setAlpha(90)
    return faded


class ThemedPlot(pg.PlotWidget):  # type: ignore[misc] # pyqtgraph has no types
    """A `PlotWidget` whose left drag zooms into a rectangle and whose wheel zooms along x.

    A subclass draws in `restyle`, which is called again whenever the colours change.

    Attributes:
        colours: What it is drawn with.
        box: The area inside the axes.
        ruled: Whether horizontal lines stand behind what is drawn, instead of a left edge.
        counts: The left axis.
        more_actions: What a subclass adds to the context menu.

    Signals:
        export_requested: The user wants the picture or its data in a file.
        copy_requested: The user wants the picture in the clipboard.
    """

    accessible_role = QtGui.QAccessible.Role.Chart

    export_requested = Signal()
    copy_requested = Signal()
    ruled = True
    _styled = False  # events come before the plot is made

    def __init__(self, parent: QWidget | None = None, box: ZoomBox | None = None) -> None:
        self.box = ZoomBox() if box is None else box
        self.counts = CountAxis()
        axes = {"left": self.counts, "bottom": NumberAxis("bottom")}
        super().__init__(parent, viewBox=self.box, axisItems=axes)
        # pyqtgraph keeps a picture of the bare background, and that of a hidden plot too: 11 MB
        # in a window of 2000 × 1400
        self.setCacheMode(self.CacheModeFlag.CacheNone)
        self.colours = PlotColours.of_palette(self.palette())
        self.more_actions: list[QtGui.QAction] = []
        item = self.getPlotItem()
        item.setMenuEnabled(False)
        item.hideButtons()
        item.layout.setContentsMargins(Space.TIGHT, Space.NEAR, Space.WIDE, Space.TIGHT)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMinimumSize(240, 160)
        add, box = partial(add_action, self), self.box
        self.back_action = add("&Back", box.go_back, "Backspace")
        self.reset_action = add("&Reset zoom", box.go_home, "Home")
        self.zoom_in_action = add("Zoom &in", lambda: self._zoom(_ZOOM), "+", "=")
        self.zoom_out_action = add("Zoom &out", lambda: self._zoom(1 / _ZOOM), "-")
        add("Move left", lambda: box.pan_by(-_PAN), "Shift+Left")
        add("Move right", lambda: box.pan_by(_PAN), "Shift+Right")
        asked = self.copy_requested, self.export_requested
        self.saving_actions = add_picture_actions(self, *asked, self.sentence)
        self.box.zoomed.connect(self._show_zoom)
        self._show_zoom()

    def zoom_buttons(self, parent: QWidget) -> list[QToolButton]:
        """Return buttons that undo zooms; they are out of sight while there is none."""
        buttons = [QToolButton(parent), QToolButton(parent)]
        for button, action in zip(buttons, (self.back_action, self.reset_action), strict=True):
            button.setDefaultAction(action)
            button.setVisible(action.isEnabled())
            action.enabledChanged.connect(button.setVisible)
        return buttons

    def speak(self, text: str) -> None:
        """Set what a screen reader says; "": the sentence."""
        self.setAccessibleDescription(text)

    def sentence(self) -> str:
        """Return what the picture shows, in words: for screen readers, and to copy."""
        return ""

    def restyle(self) -> None:
        """Draw axes and background in `colours`; a subclass also draws its items."""
        self._styled = True
        colours = self.colours
        self.setBackground(colours.background)
        for name in ("left", "bottom"):
            axis, ruled = self.getPlotItem().getAxis(name), self.ruled and name == "left"
            axis.setGrid(255 if ruled else False)
            axis.setZValue(_BEHIND if ruled else _IN_FRONT)
            axis.setPen(pg.mkPen(None) if ruled else colours.pen(colours.grid))
            axis.setTickPen(colours.pen(colours.rule if ruled else colours.grid))
            axis.setTextPen(pg.mkPen(colours.muted))
            font = text_font(TextSize.CAPTION)
            axis.setStyle(tickFont=font, maxTickLevel=0, tickAlpha=255 if ruled else None)

    def use_colours(self, colours: PlotColours) -> None:
        self.colours = colours
        self.restyle()

    def add_legend(self, offset: tuple[int, int], columns: int = 1) -> Any:
        """Return a legend of pyqtgraph at the right, which grows with the picture on paper."""
        legend = pg.LegendItem(offset=offset, colCount=columns)
        legend.setParentItem(self.box)
        legend.setFlag(legend.GraphicsItemFlag.ItemIgnoresTransformations, False)
        return legend

    def clear_legend(self, legend: Any) -> None:
        """Empty a legend of pyqtgraph, and set the plot's colours."""
        legend.clear()
        legend.setLabelTextColor(self.colours.text)
        fill = QtGui.QColor(self.colours.background)
        fill.setAlpha(_LEGEND_ALPHA)
        legend.setBrush(pg.mkBrush(fill))

    def forget_zoom(self) -> None:
        """Show everything and forget the zooms: the content is another one."""
        self.box.forget()
        self._show_zoom()

    def zoom_centre(self) -> float:
        """Return the x around which keys zoom."""
        return float(self.box.viewRect().center().x())

    def set_logarithmic(self, on: bool) -> None:
        """Draw counts logarithmically, or not; of a picture of counts."""
        raise NotImplementedError

    def pointer_left(self) -> None:
        """The pointer has left the picture; a subclass says no longer what is under it."""

    def data_columns(self) -> list[tuple[str, list[Any]]]:
        """Return the data behind the picture: a name and the values of each column."""
        raise NotImplementedError

    def pointers(self) -> Sequence[Any]:
        """Return the lines that follow the mouse or the keys: no part of a saved picture."""
        return ()

    def paint_on_paper(self, painter: QtGui.QPainter, area: QRectF) -> None:
        """Draw in the colours of paper, without what follows the mouse; restore the window's."""
        colours, pointers = self.colours, [each for each in self.pointers() if each.isVisible()]
        for pointer in pointers:
            pointer.hide()
        scale = painter.transform().m11() * area.width() / max(1, self.width())
        self.use_colours(PlotColours.on_paper(scale))
        marks = [each for each in self.scene().items() if isinstance(each, pg.ScatterPlotItem)]
        try:
            for each in marks:  # else they are pixels of the window
                each.setExportMode(True, {"antialias": True, "resolutionScale": scale})
            self.render(painter, area)
        finally:
            for each in marks:
                each.setExportMode(False)
            self.use_colours(colours)
            for pointer in pointers:
                pointer.show()

    @contextmanager
    def sized(self, size: QSize) -> Iterator[None]:
        """Lay the picture out in another size within; nothing of it is seen."""
        before = self.size()
        try:
            self.resize(size)
            self._lay_out()
            yield
        finally:
            self.resize(before)
            self._lay_out()

    def _lay_out(self) -> None:
        self.getPlotItem().layout.activate()
        self.getPlotItem().resizeEvent(None)
        self.box.updateMatrix()

    def _zoom(self, factor: float) -> None:
        self.box.zoom_by(factor, self.zoom_centre())

    def _show_zoom(self) -> None:
        self.back_action.setEnabled(self.box.is_zoomed)
        self.reset_action.setEnabled(self.box.is_zoomed)

    # Qt

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in (QEvent.Type.PaletteChange, QEvent.Type.FontChange) and self._styled:
            self.use_colours(PlotColours.of_palette(self.palette()))

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self.pointer_left()

    def focusInEvent(self, event: QtGui.QFocusEvent) -> None:
        super().focusInEvent(event)
        colour = self.palette().color(QtGui.QPalette.ColorRole.Highlight)
        self.box.setBorder(pg.mkPen(colour, width=1))

    def focusOutEvent(self, event: QtGui.QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.box.setBorder(None)

    def contextMenuEvent(self, event: QtGui.QContextMenuEvent) -> None:
        zooms = [self.zoom_in_action, self.zoom_out_action, self.back_action, self.reset_action]
        show_menu(self, event.globalPos(), zooms, [*self.more_actions, *self.saving_actions])


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
    """Vertical lines with names at the top of a plot; names never overlap, and stay in the picture.

    The most important marks come first: they keep their names.

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
        while len(self._lines) < len(marks):
            self._lines.append(pg.InfiniteLine(angle=90))
            self._names.append(pg.TextItem(anchor=(0, 0)))
            self._names[-1].setZValue(_ON_TOP)
            self._plot.addItem(self._lines[-1], ignoreBounds=True)
            self._plot.addItem(self._names[-1], ignoreBounds=True)
        self._marks = tuple(marks)
        self.restyle()

    def restyle(self) -> None:
        """Draw in the plot's colours."""
        colours = self._plot.colours
        for place, (line, name) in enumerate(zip(self._lines, self._names, strict=True)):
            shown = place < len(self._marks)
            line.setVisible(shown)
            name.setVisible(shown)
            if shown:
                mark = self._marks[place]
                line.setPos(mark.x)
                line.setPen(colours.pen(colours.text, style=mark.style))
                name.fill = pg.mkBrush(colours.background)
        self.place()

    def place(self) -> None:
        """Put each name beside its line where there is room."""
        box = self._plot.box
        area = QRectF(box.boundingRect())
        taken: list[QRectF] = []
        view = box.viewRect()
        for mark, name in zip(self._marks, self._names, strict=False):
            left = _LEFT_ARROW if mark.x < view.left() else ""
            right = _RIGHT_ARROW if mark.x > view.right() else ""
            name.setText(f"{left}{mark.text}{right}", color=self._plot.colours.text)
            spot = None
            if mark.points or not (left or right):
                x = box.mapFromView(QPointF(mark.x, 0)).x()
                spot = self._free_spot(name, x, area, taken)
            name.setVisible(spot is not None)
            if spot is not None:
                taken.append(spot)
                name.setPos(box.mapToView(spot.topLeft()))
        self.covered = tuple(taken)

    def shown_names(self) -> list[str]:
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
