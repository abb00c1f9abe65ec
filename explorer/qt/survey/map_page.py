"""The page of the map: a cell for each role of each layer, its legend, details of a cell."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from PySide6 import QtGui, QtWidgets
from PySide6.QtCore import QEvent, QPoint, QRectF, QSignalBlocker, QSize, Qt, Signal
from PySide6.QtGui import QAccessible, QFont, QFontMetricsF, QPainter, QPaintEvent, QPalette

from explorer.analysis.columns import Floats, Groups, Known
from explorer.analysis.model_grid import Kind, ModelGrid
from explorer.present.explanations import picture_text
from explorer.present.pictures import extremes_sentence
from explorer.present.survey import OVER_LAYERS, layer_facts
from explorer.present.tables.survey import METRICS, Metric, metric_named
from explorer.qt.survey import map_paint
from explorer.qt.survey.bar import TypedRange, list_metrics, metrics_of
from explorer.qt.survey.by_layer import LayerLines, layer_values
from explorer.qt.survey.layer_paint import LayerGrid, layer_grids
from explorer.qt.survey.session import ComparisonContent, SurveyContent, SurveySession, SurveyState
from explorer.qt.widgets import building
from explorer.qt.widgets.building import LINE, NOTE, column, row
from explorer.qt.widgets.controls import (
    BETWEEN,
    LONGEST_READOUT,
    check,
    choice,
    label_of,
    readout,
    split,
)
from explorer.qt.widgets.figures import PlotExport
from explorer.qt.widgets.painting import plain_tip
from explorer.qt.widgets.plot import PlotColours
from explorer.tabular import to_tsv
from explorer.text import bytes_text, integer_text, locale_free, plain_text, shape_text, shorten

_EMPTY: Final = ModelGrid((), np.zeros((0, 3), np.int64), np.zeros(0, np.int64))
_LEAST_HEIGHT: Final = 200  # of the map, in pixels


class ModelMap(QtWidgets.QAbstractScrollArea):
    """A grid of cells in a colouring, to look at and to choose from.

    Attributes:
        layout_: Where the cells are.
        current: The selected cell; -1 for none.
        layer: The layer that is selected as a whole; None for none.

    Signals:
        cell_chosen: The user chose a cell; its number.
        cell_opened: The user opened a cell; its number.
        layer_chosen: The user chose a layer by its number or sum: section and row.
        layer_opened: The user opened a layer; the same.
        cell_read: The mouse is over another cell, or over none (-1).
        copy_requested: Copy the details of the cell.
        picture_requested: Copy the picture.
        save_requested: Save the picture or its data.
    """

    accessible_role = QAccessible.Role.Graphic

    cell_chosen = Signal(int)
    cell_opened = Signal(int)
    layer_chosen = Signal(int, int)
    layer_opened = Signal(int, int)
    cell_read = Signal(int)
    copy_requested = Signal()
    picture_requested = Signal()
    save_requested = Signal()

    def __init__(self, parent: QtWidgets.QWidget | None = None) -> None:
        super().__init__(parent)
        self.current = -1
        self.layer: map_paint.Layer | None = None
        self._grid = _EMPTY
        self._colouring: map_paint.Colouring | None = None
        self._read = -1
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setFrameShape(QtWidgets.QAbstractScrollArea.Shape.NoFrame)
        self.setAccessibleName("Map of the model: layers and roles")
        self.setWhatsThis(picture_text("model_map"))
        details = building.add_action(self, "Copy t&he figures", self.copy_requested, "Ctrl+C")
        asked = self.picture_requested, self.save_requested
        saving = building.add_picture_actions(self, *asked, self.sentence)
        self._commands = [details, *saving]
        self.viewport().setMouseTracking(True)
        self.viewport().setBackgroundRole(QPalette.ColorRole.Window)
        self.layout_ = self._laid_out(400.0)
        self._laid_out_width = -1

    def show_grid(self, grid: ModelGrid | None) -> None:
        """Show other tensors; none of them is selected."""
        self._grid = _EMPTY if grid is None else grid
        self._colouring = self.layer = None
        self.current = self._read = -1
        self._lay_out()
        for bar in (self.verticalScrollBar(), self.horizontalScrollBar()):
            bar.setValue(0)

    def show_colouring(self, colouring: map_paint.Colouring | None) -> None:
        """Show the same tensors in other colours; None shows nothing."""
        self._colouring = colouring
        self.viewport().update()

    def select(self, cell: int, *, layer: bool = False) -> None:
        """Mark a cell, or its layer, and scroll to it; -1 marks none. Emits nothing."""
        self.current = cell if 0 <= cell < len(self._grid.cells) else -1
        self.layer = self._grid.layer_of(self.current) if layer and self.current >= 0 else None
        self._show_current()
        self.viewport().update()

    def _show_current(self) -> None:
        if self.current >= 0 and self.isVisible():  # before, its size is not known
            self._scroll_to(self.layout_.place_of(self.current))

    @property
    def _marked(self) -> QRectF:
        """Where what is selected is; all of it, where nothing is."""
        if self.current < 0:
            seen = self.viewport().rect().translated(self._origin())
            return QRectF(seen).adjusted(2.0, 2.0, -2.0, -2.0)
        if self.layer is not None:
            return self.layout_.place_of_layer(self.layer)
        return self.layout_.place_of(self.current)

    def sentence(self) -> str:
        """Return what the map shows, in words."""
        shown, grid = self._colouring, self._grid
        if not isinstance(shown, map_paint.MetricColouring):
            painter = self.painter_for(PlotColours.of_palette(self.palette()), self.layout_)
            return "" if painter is None else painter.legend_text()

        def name_of(number: int) -> str:
            cell = grid.cells[number]
            section = grid.sections[cell.section]
            layer = f" of layer {section.layers[cell.row]}" if section.layers else ""
            role = plain_text(section.columns[cell.column].label)
            return f"{shown.text(number)} in {role}{layer}"

        return extremes_sentence(shown.title, shown.values, name_of)

    def cell_place(self, cell: int) -> QRectF:
        return self.layout_.place_of(cell).translated(-self._origin())

    def painter_for(
        self, colours: PlotColours, layout: map_paint.MapLayout
    ) -> map_paint.MapPainter | None:
        """Return what paints the map; None while there is nothing to paint."""
        if self._colouring is None:
            return None
        return map_paint.MapPainter(layout, self._colouring, colours)

    def layout_for_paper(self) -> map_paint.MapLayout:
        """Return the places of the cells where there is as much room as they need."""
        return self._laid_out(float(max(640, self.viewport().width())))

    def _laid_out(self, width: float) -> map_paint.MapLayout:
        metrics = QFontMetricsF(self.font())
        return map_paint.MapLayout(self._grid, width, metrics.height(), metrics.horizontalAdvance)

    def _lay_out(self) -> None:
        port = self.viewport().size()
        if self.layout_.grid is not self._grid or self._laid_out_width != port.width():
            self._laid_out_width = port.width()  # a hostile model has 30,000 lines to lay out
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
        left = place.left() - self.layout_.label_width
        for bar, start, end, seen, length in (
            (self.verticalScrollBar(), top, place.bottom(), origin.y(), port.height()),
            (self.horizontalScrollBar(), left, place.right(), origin.x(), port.width()),
        ):
            if start < seen:
                bar.setValue(int(start))
            elif end > seen + length:
                bar.setValue(int(end) - length + 2)

    def _cell_at(self, place: QPoint) -> int:
        there = place + self._origin()
        return self.layout_.cell_at(there.x(), there.y())

    def _layer_at(self, place: QPoint) -> map_paint.Layer | None:
        there = place + self._origin()
        x = there.x() if place.x() >= self.layout_.label_width else place.x()  # numbers stay
        return self.layout_.layer_at(x, there.y())

    def _choose(self, cell: int) -> None:
        if cell >= 0:
            self.select(cell)
            self.cell_chosen.emit(cell)

    def _choose_layer(self, layer: map_paint.Layer) -> None:
        """Choose a layer as if the user had: its first cell is what keys go on from."""
        line = self.layout_.lines[self.layout_.line_of_layer(layer)]
        first = next(c for n in range(line.count) if (c := self.layout_.cell_in(line, n)) >= 0)
        self.select(first, layer=True)
        self.layer_chosen.emit(*layer)

    def _next(self, key: Qt.Key) -> int:
        """Return the cell that a key leads to; -1 if it leads nowhere."""
        cells = self._grid.cells
        if not cells:
            return -1
        edges = {Qt.Key.Key_Home: 0, Qt.Key.Key_End: len(cells) - 1}
        if key in edges:
            return edges[key]
        layout, keys = self.layout_, Qt.Key
        page = max(1, int(self.viewport().height() / (layout.lines[0].height + 1)) - 2)
        sideways = {keys.Key_Left: -1, keys.Key_Right: 1}
        lines = {keys.Key_Up: -1, keys.Key_Down: 1, keys.Key_PageUp: -page, keys.Key_PageDown: page}
        if key not in sideways | lines:
            return -1
        if self.current < 0:
            return 0
        if key in sideways:
            return layout.neighbour(self.current, sideways[key])
        return layout.beyond(self.current, lines[key])

    # Qt

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self.viewport())
        colours = PlotColours.of_palette(self.palette())
        painter.fillRect(event.rect(), colours.background)
        map_painter = self.painter_for(colours, self.layout_)
        if map_painter is not None:
            origin = self._origin()
            painter.translate(-origin)
            area = QRectF(event.rect()).translated(origin)
            map_painter.paint(painter, area)
            if self.current >= 0 or self.hasFocus():
                highlight = self.palette().color(QPalette.ColorRole.Highlight)
                ink = highlight if self.hasFocus() else colours.text
                map_paint.outline(painter, self._marked, colours, ink)
            map_painter.paint_layer_numbers(painter, float(origin.x()), area)
            self._paint_fixed_header(painter, map_painter, area)
        painter.end()

    def _paint_fixed_header(
        self, painter: QPainter, map_painter: map_paint.MapPainter, area: QRectF
    ) -> None:
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

    def resizeEvent(self, event: QtGui.QResizeEvent) -> None:
        super().resizeEvent(event)
        self._lay_out()

    def showEvent(self, event: QtGui.QShowEvent) -> None:
        super().showEvent(event)
        self._show_current()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.StyleChange):
            self._laid_out_width = -1
            self._lay_out()

    def scrollContentsBy(self, dx: int, dy: int) -> None:
        self.viewport().update()  # roles and layers stay where they are: nothing is moved

    def viewportEvent(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QtGui.QHelpEvent):
            cell = self._cell_at(event.pos())
            text = self.tip(cell) if cell >= 0 else ""
            QtWidgets.QToolTip.showText(event.globalPos(), plain_tip(text), self)
            return True
        if event.type() == QEvent.Type.Leave:
            self._read_cell(-1)
        return super().viewportEvent(event)

    def tip(self, cell: int) -> str:
        """Return the role of a cell as names have it."""
        one = self._grid.cells[cell]
        column = self._grid.sections[one.section].columns[one.column]
        return f"{column.role}.{column.suffix}" if column.suffix else column.role

    def mouseMoveEvent(self, event: QtGui.QMouseEvent) -> None:
        self._read_cell(self._cell_at(event.position().toPoint()))

    def _read_cell(self, cell: int) -> None:
        if cell != self._read:
            self._read = cell
            self.cell_read.emit(cell)

    def mousePressEvent(self, event: QtGui.QMouseEvent) -> None:
        place = event.position().toPoint()
        layer = self._layer_at(place)
        if layer is not None:
            self._choose_layer(layer)
        else:
            self._choose(self._cell_at(place))  # a menu is of what is there

    def mouseDoubleClickEvent(self, event: QtGui.QMouseEvent) -> None:
        place = event.position().toPoint()
        layer, cell = self._layer_at(place), self._cell_at(place)
        if layer is not None:
            self.layer_opened.emit(*layer)
        elif cell >= 0:
            self.cell_opened.emit(cell)

    def keyPressEvent(self, event: QtGui.QKeyEvent) -> None:
        key = Qt.Key(event.key())
        opens = key in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        layer = self.layer if self.current >= 0 else None
        cell = self._next(key)
        if opens and layer is not None:
            self.layer_opened.emit(*layer)
        elif opens and self.current >= 0:
            self.cell_opened.emit(self.current)
        elif key == Qt.Key.Key_Left and cell == self.current >= 0 and layer is None:
            if (layer := self._grid.layer_of(cell)) is not None:  # left of its first cell
                self._choose_layer(layer)
        elif layer is not None and key == Qt.Key.Key_Right:
            self._choose(self.current)
        elif layer is not None and cell >= 0 and (beside := self._grid.layer_of(cell)) is not None:
            self._choose_layer(beside)
        elif cell >= 0:
            self._choose(cell)
        else:
            super().keyPressEvent(event)

    def contextMenuEvent(self, event: QtGui.QContextMenuEvent) -> None:
        building.show_menu(self, event.globalPos(), self._commands)

    def event(self, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.FocusIn, QEvent.Type.FocusOut):
            self.viewport().update()
        return super().event(event)

    def sizeHint(self) -> QSize:
        return QSize(700, 420)


class MapLegend(QtWidgets.QWidget):
    """The legend of a map, as high as it must be."""

    accessible_role = QAccessible.Role.Graphic

    def __init__(self, model_map: ModelMap, parent: QtWidgets.QWidget | None = None) -> None:
        super().__init__(parent)
        self._map = model_map
        self.setAccessibleName("Legend")
        self.setWhatsThis(picture_text("map_legend"))
        self.setSizePolicy(QtWidgets.QSizePolicy.Policy.Ignored, QtWidgets.QSizePolicy.Policy.Fixed)
        self.follow()

    def follow(self) -> None:
        """Show the meaning of the map's colours."""
        painter = self._painter()
        metrics = QFontMetricsF(self.font())
        height = metrics.height() + 8
        if painter is not None:
            height = max(height, painter.legend_height(metrics, self.width()))
            self.setAccessibleDescription(painter.legend_text())
        if round(height) != self.height():
            self.setFixedHeight(round(height))
        self.update()

    def _painter(self) -> map_paint.MapPainter | None:
        return self._map.painter_for(PlotColours.of_palette(self.palette()), self._map.layout_)

    # Qt

    def resizeEvent(self, event: QtGui.QResizeEvent) -> None:
        super().resizeEvent(event)
        self.follow()

    def paintEvent(self, event: QPaintEvent) -> None:
        map_painter = self._painter()
        if map_painter is not None:
            painter = QPainter(self)
            map_painter.paint_legend(painter, self.width())
            painter.end()

    def sizeHint(self) -> QSize:
        return QSize(300, self.height())


_MOST_PIXELS: Final = 4 << 20  # a larger map is drawn smaller


class MapPicture:
    """The whole map with its legend as a picture of its own size, and the figures behind it."""

    def __init__(
        self, painter: map_paint.MapPainter, font: QFont, content: SurveyContent, known: Known
    ) -> None:
        self._painter = painter
        self._font = font
        self._content = content
        self._known = known
        self._legend = painter.legend_height(QFontMetricsF(font), painter.layout.width)

    def size(self) -> QSize:
        layout = self._painter.layout
        width, height = layout.width, layout.height + self._legend
        shrunk = min(1.0, math.sqrt(_MOST_PIXELS / (width * height)))
        return QSize(max(1, int(width * shrunk)), max(1, int(height * shrunk)))

    def paint_on_paper(self, painter: QPainter, area: QRectF) -> None:
        layout = self._painter.layout
        painter.save()
        painter.setFont(self._font)
        painter.translate(area.topLeft())
        painter.scale(area.width() / layout.width, area.height() / (layout.height + self._legend))
        self._painter.paint_legend(painter, layout.width)
        painter.translate(0, self._legend)
        whole = QRectF(0, 0, layout.width, layout.height)
        self._painter.paint(painter, whole)
        self._painter.paint_layer_numbers(painter, 0.0, whole)
        painter.restore()

    def data_columns(self) -> list[tuple[str, list[Any]]]:
        """Return a row for each cell, and all its known figures."""
        grid, arrays = self._content.folded, self._content.document.arrays
        names = self._content.document.model.tensors.columns.names
        groups = Groups(grid.cell_of, len(grid.cells))
        sections = [grid.sections[cell.section] for cell in grid.cells]
        places = list(zip(sections, grid.cells, strict=True))
        columns: list[tuple[str, list[Any]]] = [
            ("stack", [section.stack for section in sections]),
            ("layer", [s.layers[cell.row] if s.layers else None for s, cell in places]),
            ("role", [s.columns[cell.column].role for s, cell in places]),
            ("suffix", [s.columns[cell.column].suffix for s, cell in places]),
            ("tensors", [len(cell.rows) for cell in grid.cells]),
            ("first_tensor", [names[cell.rows[0]] for cell in grid.cells]),
            ("types", [self._types(cell.rows) for cell in grid.cells]),
            ("parameters", [int(arrays.parameters[list(c.rows)].sum()) for c in grid.cells]),
        ]
        for metric in METRICS:
            values = metric.of_groups(self._known, groups)
            if not np.isnan(values).all():
                known = [None if np.isnan(value) else value for value in values.tolist()]
                columns.append((metric.name, known))
        return columns

    def _types(self, rows: tuple[int, ...]) -> str:
        arrays = self._content.document.arrays
        codes = np.unique(arrays.type_codes[list(rows)]).tolist()
        return " ".join(arrays.types[code].name for code in codes)


_MAP_WIDTH: Final = 500
_LINES_WIDTH: Final = 260


class ModelMapPage(QtWidgets.QWidget):
    """The map of the current model.

    Attributes:
        readout: Details of the cell under the mouse, else of the selected one.
    """

    def __init__(self, session: SurveySession, parent: QtWidgets.QWidget | None = None) -> None:
        super().__init__(parent)
        self.app = session.app
        self._session = session
        self._export = PlotExport(self.app, self)
        self._content: SurveyContent | None = None
        self._comparison: ComparisonContent | None = None
        self._row = -1
        self._layer = False  # whether the layer of the tensor is selected as a whole
        self._pointed = -1  # the cell that is read: the one under the mouse, here or in the lines
        self._chose = False  # whether the user chose what to colour by
        self._values: dict[str, Floats] = {}
        self.colour_by = choice(self, "Colour by", "", ("Type", ""))
        list_metrics(self.colour_by, metrics_of(session))
        how = "Each role has its own colours, from its minimum to its maximum"
        self.by_role = check(self, "Scal&e per role", how)
        self.typed = TypedRange(self)
        self.map = ModelMap(self)
        self.map.setMinimumHeight(_LEAST_HEIGHT)  # in a small window the page scrolls
        self.legend = MapLegend(self.map, self)
        self.by_layer = LayerLines(self)
        self._layers: LayerGrid | None = None
        self.readout = readout(self, 3, "Cell")
        self.save = QtWidgets.QPushButton("&Save…", self)
        self.save.setToolTip("Save picture or data (Ctrl+S)")
        self._lay_out()
        self.colour_by.currentIndexChanged.connect(lambda _: self._keep_choice())
        self.by_role.toggled.connect(lambda _: self.refresh())
        self.typed.changed.connect(self.refresh)
        self.save.clicked.connect(self.ask_save)
        self.map.save_requested.connect(self.ask_save)
        self.map.copy_requested.connect(self._copy)
        self.map.picture_requested.connect(self._copy_picture)
        session.replaced.connect(self._drop_previous)
        self.map.cell_read.connect(self._read)
        self.map.cell_chosen.connect(self._choose)
        self.map.layer_chosen.connect(self._choose_layer)
        self.map.layer_opened.connect(lambda *_: self.app.open_layer(self._row))
        self.map.cell_opened.connect(lambda cell: self.app.open_tensors(self._row_of(cell)))
        self.by_layer.read.connect(self._read_line)
        self.by_layer.cell_chosen.connect(self.map.select)
        self.by_layer.cell_chosen.connect(self._choose)
        self.by_layer.layer_chosen.connect(
            lambda place: self._layers and self._choose_layer(self._layers.section, place)
        )
        self.by_layer.cell_opened.connect(self.map.cell_opened)
        self.by_layer.copy_requested.connect(lambda: self._export.copy(self.by_layer))
        self.by_layer.save_requested.connect(self.ask_save)

    def _lay_out(self) -> None:
        bar = row(
            label_of(self.colour_by, "C&olour by"),
            self.colour_by,
            self.by_role,
            self.typed,
            1,
            margins=LINE,
        )
        self.splitter = split(self, (self.map, _MAP_WIDTH), (self.by_layer, _LINES_WIDTH), grows=0)
        legend = row((self.legend, 1), self.save)
        under = row((self.readout, 1), margins=NOTE)
        column(bar, legend, (self.splitter, 1), under, of=self)

    @property
    def chosen(self) -> Metric | None:
        """The metric that cells are coloured by; None for their types."""
        name = self.colour_by.currentData()
        return metric_named(name) if name else None

    def colour(self, name: str) -> None:
        """Colour by a metric of that name, or by type if it is empty, from now on."""
        self._chose = True
        self.colour_by.setCurrentIndex(self.colour_by.findData(name))

    def _keep_choice(self) -> None:
        self._chose = True
        self.refresh()

    def _follow_errors(self) -> None:
        """Colour by error as soon as there is one, unless the user chose something else."""
        if self._chose:
            return
        known, session, name = self._session.known, self._session, ""
        if known is not None and known.errors is not None:
            some = session.state is SurveyState.RUNNING or known.errors.known.any()
            name = "relative_rmse" if some else ""
        if known is not None and not self._session.compares:  # what the block scales imply
            rounded = np.isfinite(known.statistics.relative_step_error)
            name = "step_error" if rounded.any() else ""
        with QSignalBlocker(self.colour_by):
            self.colour_by.setCurrentIndex(self.colour_by.findData(name))

    def refresh(self) -> None:
        """Show what is known now."""
        self._follow_errors()
        content, metric = self._session.content, self.chosen
        self._values.clear()
        self._comparison = self._session.comparison
        if content is not self._content:
            self._content = content
            self._pointed = -1
            self.map.show_grid(None if content is None else content.folded)
            self._layers = None
            if content is not None:
                stacks = layer_grids(content.folded, content.matrices)
                self._layers = next(iter(stacks), None)
            self.by_layer.show_grid(self._layers)
            if content is not None and self._row >= 0:
                self._mark()
        for box in (self.by_role, self.typed):
            box.setEnabled(metric is not None)
        meaning = "" if metric is None else f"\n\n{metric.title}: {metric.tip}"
        for part in (self.map, self.colour_by):
            part.setWhatsThis(picture_text("model_map") + meaning)
        colouring = self._colouring(metric)
        if colouring is not None:
            self.map.show_colouring(colouring)
        name = "bits_per_weight" if metric is None else metric.name
        self.by_layer.show_values(layer_values(self._session, self._layers, (name,)))
        self._fold_lines()
        self.legend.follow()
        self.save.setEnabled(colouring is not None)
        self._read(self._pointed)

    def _drop_previous(self) -> None:
        """Drop models that are not the current ones, also while another page is in front."""
        if self._session.content is not self._content:
            self._content = self._layers = None
            self._pointed = -1
            self.map.show_grid(None)
            self.by_layer.show_grid(None)
        elif self._session.comparison is not self._comparison:
            self.map.show_colouring(None)
        self._comparison = self._session.comparison
        self._values.clear()

    def grow(self) -> None:
        """Show more of the same."""
        self._follow_errors()
        self._values.clear()
        if self.chosen is not None:
            self.refresh()

    def select_tensor(self, row: int, *, layer: bool = False) -> None:
        """Mark the cell of a tensor, or its layer; -1 marks none. Emits nothing."""
        self._row, self._layer = row, layer
        content = self._content
        if content is not None and content is self._session.content:
            self._mark()
        self._read(-1)

    def picture(self) -> MapPicture | None:
        """Return the picture to save; None while there is none."""
        content, known = self._session.content, self._session.known
        painter = self.map.painter_for(PlotColours.on_paper(), self.map.layout_for_paper())
        if content is None or known is None or painter is None:
            return None
        return MapPicture(painter, self.map.font(), content, known)

    def ask_save(self) -> None:
        """Ask for a file, and save the map or its data into it."""
        picture, document = self.picture(), self._session.document
        if picture is not None and document is not None:
            self._export.ask(picture, f"{document.title} {self.colour_by.currentText()}")

    def lines(self, cell: int) -> Iterator[tuple[str, str]]:
        """Yield the details of a cell, as names and texts; none of cell -1."""
        content = self._content
        if content is None or cell < 0:
            return
        document, rows = content.document, content.folded.cells[cell].rows
        arrays = document.arrays
        name = plain_text(document.model.tensors.columns.names[self._row_of(cell)])
        if len(rows) > 1:
            more = integer_text(len(rows) - 1)
            name = f"{name} and {more} more"
        yield "Tensor", name
        types = np.unique(arrays.type_codes[list(rows)]).tolist()
        yield "Type", ", ".join(arrays.types[code].name for code in types[:4])
        yield "Shape", shape_text(arrays.shapes[int(arrays.shape_codes[rows[0]])])
        yield "Bytes", bytes_text(arrays.total_bytes(np.array(rows)))
        for metric in METRICS:
            value = self._value(metric, cell)
            if metric.name != "bytes" and not np.isnan(value):
                yield metric.title, metric.shown(value)
        if reason := self._session.reason(self._row_of(cell)):
            yield "Problem", plain_text(reason)

    def _value(self, metric: Metric, cell: int) -> float:
        """Return a figure of a cell; those of all cells are computed at once."""
        content, known = self._content, self._session.known
        if content is None or known is None:
            return math.nan
        if metric.name not in self._values:
            groups = Groups(content.folded.cell_of, len(content.folded.cells))
            self._values[metric.name] = metric.of_groups(known, groups)
        return float(self._values[metric.name][cell])

    def _colouring(self, metric: Metric | None) -> map_paint.Colouring | None:
        content, known = self._session.content, self._session.known
        if content is None or known is None:
            return None
        if metric is None:
            return map_paint.TypeColouring("Type", content, known)
        comparison, by_role = self._session.comparison, self.by_role.isChecked()
        found = map_paint.MetricColouring(metric, known, content, comparison, by_role=by_role)
        typed = self.typed.value(metric, found.scale)
        return found if typed is None else found.in_range(*typed)

    def _row_of(self, cell: int) -> int:
        return -1 if self._content is None else self._content.folded.row_of(cell, self._row)

    def _mark(self) -> None:
        content = self._content
        some = content is not None and self._row >= 0
        cell = int(content.folded.cell_of[self._row]) if content is not None and some else -1
        self.map.select(cell, layer=self._layer)
        self.by_layer.select_cell(cell, layer=self._layer)

    def _read_line(self, at: tuple[int, int, int | None] | None) -> None:
        cell = -1
        if self._layers is not None and at is not None and at[2] is not None:
            cell = int(self._layers.cells[at[1], at[2]])
        self._read(cell)

    def _fold_lines(self) -> None:
        """Show the lines where there is room beside the map, and something to draw."""
        layers = 0 if self._layers is None else len(self._layers.layers)
        self.by_layer.setVisible(layers > 1 and self.width() >= _MAP_WIDTH + _LINES_WIDTH)

    def _choose(self, cell: int) -> None:
        self._row, self._layer = self._row_of(cell), False
        self.by_layer.select_cell(cell)
        self._read(-1)
        self.app.selection.select_tensors([self._row])

    def _choose_layer(self, section: int, row: int) -> None:
        """Select a layer as a whole."""
        if self._content is not None:
            self._row = self._content.folded.row_in(section, row, self._row)
            self._layer = True
            self._mark()
            self._read(-1)
            self.app.selection.select_tensors([self._row], layer=True)

    def _read(self, cell: int) -> None:
        """Show the details of a cell; of the selected one, or of its layer, if it is -1."""
        self._pointed = cell
        lines = list(self.lines(self.map.current if cell < 0 else cell))
        if cell < 0 and self._layer and self._layers is not None and self.by_layer.current:
            at, grid = self.by_layer.current[1], self._layers
            known = layer_values(self._session, grid, OVER_LAYERS)
            figures = ((one.metric, one.together) for one in known)
            lines = [("", text) for text in layer_facts(grid.layers[at], figures, at)]
        parts = [text for _, text in lines[:4]] + [f"{title} {text}" for title, text in lines[4:]]
        text = BETWEEN.join(parts)
        hint = "Point at a cell to read it, or move with the arrow keys."
        self.readout.setText(shorten(self.typed.problem or text or hint, LONGEST_READOUT))
        self.map.setAccessibleDescription(text)
        self.by_layer.setAccessibleDescription(text or hint)

    def _copy_picture(self) -> None:
        if (picture := self.picture()) is not None:
            self._export.copy(picture)

    def _copy(self) -> None:
        with locale_free():
            building.copy_text(to_tsv(self.lines(self.map.current)))

    # Qt

    def resizeEvent(self, event: QtGui.QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fold_lines()
