"""A plot in the program's colours, with zoom, its history, and export in one context menu.

pyqtgraph follows neither the palette nor its changes, and its own menu offers much that a
histogram does not need; so colours, menu and keys are set here once for all plots.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import pyqtgraph as pg
from PySide6.QtCore import QEvent, QRectF, Qt, Signal
from PySide6.QtGui import (
    QAccessible,
    QAction,
    QColor,
    QContextMenuEvent,
    QFocusEvent,
    QKeySequence,
    QPainter,
    QPalette,
)
from PySide6.QtWidgets import QMenu, QWidget

from explorer.qt.views.plots.count_axis import CountAxis, NumberAxis
from explorer.qt.views.plots.zoom_box import ZoomBox

_LEGEND_ALPHA: Final = 200  # curves shine through


@dataclass(frozen=True, slots=True)
class PlotColours:
    """What a plot is drawn with.

    Attributes:
        background: Behind everything.
        text: Axes, labels and marks.
        grid: Lines that help the eye.
        accent: The one series of a plot that has one.
    """

    background: QColor
    text: QColor
    grid: QColor
    accent: QColor

    @classmethod
    def of_palette(cls, palette: QPalette) -> PlotColours:
        """Return the colours of the window."""
        role = QPalette.ColorRole
        text = palette.color(role.Text)
        return cls(palette.color(role.Base), text, _faded(text), palette.color(role.Highlight))

    @classmethod
    def on_paper(cls) -> PlotColours:
        """Return dark colours on white, for exported pictures."""
        text = QColor("#1c1e21")
        return cls(QColor("white"), text, _faded(text), QColor("#0072B2"))


def _faded(colour: QColor) -> QColor:
    faded = QColor(colour)
    faded.setAlpha(90)
    return faded


class ThemedPlot(pg.PlotWidget):  # type: ignore[misc] # pyqtgraph has no types
    """A `PlotWidget` whose left drag zooms into a rectangle and whose wheel zooms along x.

    A subclass draws in `restyle`, which is called again whenever the colours change.

    Attributes:
        colours: What it is drawn with.
        box: The area inside the axes.
        counts: The left axis.
        more_actions: What a subclass adds to the context menu.

    Signals:
        export_requested: The user wants the picture or its data in a file.
    """

    accessible_role = QAccessible.Role.Chart

    export_requested = Signal()
    _PAN: ClassVar[float] = 0.1
    _ZOOM: ClassVar[float] = 1.5
    _styled = False  # events come before the plot is made

    def __init__(self, parent: QWidget | None = None, box: ZoomBox | None = None) -> None:
        self.box = ZoomBox() if box is None else box
        self.counts = CountAxis()
        super().__init__(
            parent,
            viewBox=self.box,
            axisItems={"left": self.counts, "bottom": NumberAxis("bottom")},
        )
        # pyqtgraph keeps a picture of the bare background, and that of a hidden plot too: 11 MB
        # in a window of 2000 × 1400
        self.setCacheMode(self.CacheModeFlag.CacheNone)
        self.setLayoutDirection(Qt.LayoutDirection.LeftToRight)  # axes have one direction
        self.colours = PlotColours.of_palette(self.palette())
        self.more_actions: list[QAction] = []
        item = self.getPlotItem()
        item.setLayoutDirection(Qt.LayoutDirection.LeftToRight)  # else the application's
        item.setMenuEnabled(False)
        item.hideButtons()
        item.layout.setContentsMargins(4, 8, 12, 2)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMinimumSize(240, 160)
        self.back_action = self._action(self.tr("&Back"), self.box.go_back, "Backspace")
        self.reset_action = self._action(self.tr("&Reset zoom"), self.box.go_home, "Home")
        self.zoom_in_action = self._action(
            self.tr("Zoom &in"), lambda: self._zoom(self._ZOOM), "+", "="
        )
        self.zoom_out_action = self._action(
            self.tr("Zoom &out"), lambda: self._zoom(1 / self._ZOOM), "-"
        )
        self._action(self.tr("Move left"), lambda: self.box.pan_by(-self._PAN), "Shift+Left")
        self._action(self.tr("Move right"), lambda: self.box.pan_by(self._PAN), "Shift+Right")
        self.export_action = self._action(
            self.tr("&Save picture or data…"), self.export_requested.emit, "Ctrl+S"
        )
        self.speak("")
        self.box.zoomed.connect(self._show_zoom)
        self._show_zoom()

    def _action(self, text: str, slot: Callable[[], object], *keys: str) -> QAction:
        action = QAction(text, self)
        action.setShortcuts([QKeySequence(key) for key in keys])
        action.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
        action.triggered.connect(lambda _=False: slot())
        self.addAction(action)
        return action

    def speak(self, text: str) -> None:
        """Have a screen reader say what the cursor stands on; else what one can do here."""
        keys = self.tr("Plus and minus zoom, Home shows all, Ctrl+S saves the picture or its data")
        self.setAccessibleDescription(text or keys)

    def restyle(self) -> None:
        """Draw axes and background in `colours`; a subclass also draws its items."""
        self._styled = True
        colours = self.colours
        self.setBackground(colours.background)
        for name in ("left", "bottom"):
            axis = self.getPlotItem().getAxis(name)
            axis.setPen(pg.mkPen(colours.grid))
            axis.setTextPen(pg.mkPen(colours.text))

    def use_colours(self, colours: PlotColours) -> None:
        """Draw in other colours."""
        self.colours = colours
        self.restyle()

    def clear_legend(self, legend: Any) -> None:
        """Take everything out of a legend of pyqtgraph, and give it the plot's colours."""
        legend.clear()
        legend.setLabelTextColor(self.colours.text)
        fill = QColor(self.colours.background)
        fill.setAlpha(_LEGEND_ALPHA)
        legend.setBrush(pg.mkBrush(fill))

    def set_home(self, area: QRectF) -> None:
        """Show an area unless the user has zoomed, and come back to it on reset."""
        self.box.set_home(area)

    def forget_zoom(self) -> None:
        """Show everything: the content has become another one."""
        self.box.forget()
        self._show_zoom()

    def zoom_centre(self) -> float:
        """Return the x around which keys zoom."""
        return float(self.box.viewRect().center().x())

    def data_columns(self) -> list[tuple[str, list[Any]]]:
        """Return the data behind the picture: a name and the values of each column."""
        raise NotImplementedError

    def paint_on_paper(self, painter: QPainter, area: QRectF) -> None:
        """Draw in the colours of paper, and take the window's own again."""
        colours = self.colours
        self.use_colours(PlotColours.on_paper())
        try:
            self.render(painter, area)
        finally:
            self.use_colours(colours)

    def _zoom(self, factor: float) -> None:
        self.box.zoom_by(factor, self.zoom_centre())

    def _show_zoom(self) -> None:
        self.back_action.setEnabled(self.box.is_zoomed)
        self.reset_action.setEnabled(self.box.is_zoomed)

    # Qt

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange and self._styled:
            self.use_colours(PlotColours.of_palette(self.palette()))

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.box.setBorder(pg.mkPen(self.palette().color(QPalette.ColorRole.Highlight), width=1))

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.box.setBorder(None)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.addActions(
            [self.zoom_in_action, self.zoom_out_action, self.back_action, self.reset_action]
        )
        menu.addSeparator()
        menu.addActions([*self.more_actions, self.export_action])
        menu.popup(event.globalPos())
