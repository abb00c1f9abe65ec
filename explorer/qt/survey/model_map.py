"""The map of a model: a cell for each role of each layer, to look at and to choose from."""

from __future__ import annotations

from typing import Final

import numpy as np
from PySide6.QtCore import QEvent, QPoint, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QAccessible,
    QFocusEvent,
    QFontMetricsF,
    QHelpEvent,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPalette,
    QResizeEvent,
    QShowEvent,
)
from PySide6.QtWidgets import QAbstractScrollArea, QToolTip, QWidget

from explorer.analysis.model_grid import Kind, ModelGrid
from explorer.present.explanations import picture_text
from explorer.qt.survey.map_layout import MapLayout
from explorer.qt.survey.map_paint import Colouring, MapPainter, MapWords, outline
from explorer.qt.widgets.painting import plain_tip
from explorer.qt.widgets.plot import PlotColours

_EMPTY: Final = ModelGrid((), (), np.zeros(0, np.int64))


class ModelMap(QAbstractScrollArea):
    """Shows a grid in a colouring.

    Attributes:
        layout_: Where the cells are.
        current: The cell that is selected, or -1.

    Signals:
        cell_chosen: The user chose a cell; its number.
        cell_opened: The user wants to see more of a cell.
        cell_read: The mouse is over another cell, or over none (-1).
        copy_requested: The user wants what is known of the cell in the clipboard.
        save_requested: The user wants the picture or its data in a file.
    """

    accessible_role = QAccessible.Role.Graphic

    cell_chosen = Signal(int)
    cell_opened = Signal(int)
    cell_read = Signal(int)
    copy_requested = Signal()
    save_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setLayoutDirection(Qt.LayoutDirection.LeftToRight)  # a picture
        self.current = -1
        self._grid = _EMPTY
        self._colouring: Colouring | None = None
        self._read = -1
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setFrameShape(QAbstractScrollArea.Shape.NoFrame)
        self.setAccessibleName(self.tr("Map of the model: layers and roles"))
        self.setWhatsThis(picture_text("model_map"))
        self.viewport().setMouseTracking(True)
        self.viewport().setBackgroundRole(QPalette.ColorRole.Base)
        self.layout_ = self._laid_out(400.0)

    def show_grid(self, grid: ModelGrid | None) -> None:
        """Show other tensors; none of them is selected."""
        self._grid = _EMPTY if grid is None else grid
        self._colouring = None
        self.current = self._read = -1
        self._lay_out()
        for bar in (self.verticalScrollBar(), self.horizontalScrollBar()):
            bar.setValue(0)

    def show_colouring(self, colouring: Colouring | None) -> None:
        """Show the same tensors in other colours; None shows none of them until there are some."""
        self._colouring = colouring
        self.viewport().update()

    def select(self, cell: int) -> None:
        """Mark a cell and scroll to it; -1 marks none. Emits nothing."""
        self.current = cell if 0 <= cell < len(self._grid.cells) else -1
        self._show_current()
        self.viewport().update()

    def _show_current(self) -> None:
        if self.current >= 0 and self.isVisible():  # before, nobody knows how large it will be
            self._scroll_to(self.layout_.place_of(self.current))

    def cell_place(self, cell: int) -> QRectF:
        """Return where a cell is in the viewport."""
        return self.layout_.place_of(cell).translated(-self._origin())

    def painter_for(self, colours: PlotColours, layout: MapLayout) -> MapPainter | None:
        """Return what paints the map; None while there is nothing to paint."""
        if self._colouring is None:
            return None
        return MapPainter(layout, self._colouring, colours, self._words())

    def layout_for_paper(self) -> MapLayout:
        """Return the places of the cells where there is as much room as they need."""
        return self._laid_out(float(max(640, self.viewport().width())))

    def _words(self) -> MapWords:
        return MapWords(
            before=self.tr("Before the layers"),
            after=self.tr("Behind the layers"),
            stack=self.tr("{stack}: {count} layers"),
            logarithmic=self.tr("logarithmic"),
            nothing=self.tr("–"),
            least=self.tr("least of each role"),
            greatest=self.tr("greatest of each role"),
        )

    def _laid_out(self, width: float) -> MapLayout:
        metrics = QFontMetricsF(self.font())
        return MapLayout(self._grid, width, metrics.height(), metrics.horizontalAdvance)

    def _lay_out(self) -> None:
        port = self.viewport().size()
        self.layout_ = self._laid_out(float(port.width()))
        vertical, horizontal = self.verticalScrollBar(), self.horizontalScrollBar()
        vertical.setRange(0, max(0, int(self.layout_.height) - port.height()))
        vertical.setPageStep(port.height())
        vertical.setSingleStep(int(QFontMetricsF(self.font()).height()) * 2)
        horizontal.setRange(0, max(0, int(self.layout_.width) - port.width()))
        horizontal.setPageStep(port.width())
        horizontal.setSingleStep(int(self.layout_.cell_width))
        self.viewport().update()

    def _origin(self) -> QPoint:
        """Return the place of the map that is at the upper left corner."""
        return QPoint(self.horizontalScrollBar().value(), self.verticalScrollBar().value())

    def _scroll_to(self, place: QRectF) -> None:
        port, origin = self.viewport().size(), self._origin()
        header = self.layout_.header_of(self._grid.cells[self.current].section)
        top = place.top() - (0.0 if header is None else header.height)
        if top < origin.y():
            self.verticalScrollBar().setValue(int(top))
        elif place.bottom() > origin.y() + port.height():
            self.verticalScrollBar().setValue(int(place.bottom()) - port.height() + 2)
        left = place.left() - self.layout_.label_width
        if left < origin.x():
            self.horizontalScrollBar().setValue(int(left))
        elif place.right() > origin.x() + port.width():
            self.horizontalScrollBar().setValue(int(place.right()) - port.width() + 2)

    def _cell_at(self, place: QPoint) -> int:
        there = place + self._origin()
        return self.layout_.cell_at(there.x(), there.y())

    def _choose(self, cell: int) -> None:
        if cell >= 0:
            self.select(cell)
            self.cell_chosen.emit(cell)

    def _next(self, key: Qt.Key) -> int:
        """Return the cell that a key leads to; -1 if it leads nowhere."""
        cells = self._grid.cells
        if not cells:
            return -1
        edges = {Qt.Key.Key_Home: 0, Qt.Key.Key_End: len(cells) - 1}
        if key in edges:
            return edges[key]
        layout = self.layout_
        page = max(1, int(self.viewport().height() / (layout.lines[0].height + 1)) - 2)
        sideways = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}
        lines = {
            Qt.Key.Key_Up: -1,
            Qt.Key.Key_Down: 1,
            Qt.Key.Key_PageUp: -page,
            Qt.Key.Key_PageDown: page,
        }
        if key not in sideways and key not in lines:
            return -1
        if self.current < 0:
            return 0
        if key in sideways:
            return layout.beside(self.current, sideways[key])
        return layout.beyond(self.current, lines[key])

    # Qt

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self.viewport())
        painter.setLayoutDirection(Qt.LayoutDirection.LeftToRight)
        colours = PlotColours.of_palette(self.palette())
        painter.fillRect(event.rect(), colours.background)
        map_painter = self.painter_for(colours, self.layout_)
        if map_painter is not None:
            origin = self._origin()
            painter.translate(-origin)
            area = QRectF(event.rect()).translated(origin)
            map_painter.paint(painter, area)
            if self.current >= 0:
                highlight = self.palette().color(QPalette.ColorRole.Highlight)
                place = self.layout_.place_of(self.current)
                outline(painter, place, colours, highlight if self.hasFocus() else colours.text)
            map_painter.paint_layer_numbers(painter, float(origin.x()), area)
            self._paint_fixed_header(painter, map_painter, area)
        painter.end()

    def _paint_fixed_header(self, painter: QPainter, map_painter: MapPainter, area: QRectF) -> None:
        """Keep the roles in sight while their layers are scrolled."""
        top = float(self._origin().y())
        for line in self.layout_.lines_between(top, top):
            if self._grid.sections[line.section].kind is not Kind.LAYERS:
                continue
            header = self.layout_.header_of(line.section)
            if header is None or header.top >= top:
                continue
            top = min(top, self.layout_.bottom_of(line.section) - header.height)
            place = QRectF(area.left(), top, area.width(), header.height)
            painter.fillRect(place, map_painter.colours.background)
            map_painter.paint_header(painter, header, top, area)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._lay_out()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._show_current()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.StyleChange):
            self._lay_out()

    def scrollContentsBy(self, dx: int, dy: int) -> None:
        self.viewport().update()  # roles and layers stay where they are: nothing is moved

    def viewportEvent(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            cell = self._cell_at(event.pos())
            text = self.tip(cell) if cell >= 0 else ""
            QToolTip.showText(event.globalPos(), plain_tip(text), self)
            return True
        if event.type() == QEvent.Type.Leave:
            self._tell_read(-1)
        return super().viewportEvent(event)

    def tip(self, cell: int) -> str:
        """Return the role of a cell as names have it."""
        one = self._grid.cells[cell]
        column = self._grid.sections[one.section].columns[one.column]
        return f"{column.role}.{column.suffix}" if column.suffix else column.role

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self._tell_read(self._cell_at(event.position().toPoint()))

    def _tell_read(self, cell: int) -> None:
        if cell != self._read:
            self._read = cell
            self.cell_read.emit(cell)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self._choose(self._cell_at(event.position().toPoint()))

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        cell = self._cell_at(event.position().toPoint())
        if cell >= 0:
            self.cell_opened.emit(cell)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key = Qt.Key(event.key())
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy_requested.emit()
        elif event.matches(QKeySequence.StandardKey.Save):
            self.save_requested.emit()
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            if self.current >= 0:
                self.cell_opened.emit(self.current)
        elif (cell := self._next(key)) >= 0:
            self._choose(cell)
        else:
            super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.viewport().update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.viewport().update()

    def sizeHint(self) -> QSize:
        return QSize(700, 420)
