"""The page of figures over the layers, with sums by role, by layer and of the model."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import Any, Final, TypeAlias

import numpy as np
from PySide6 import QtGui
from PySide6.QtCore import QByteArray, QEvent, QPointF, QSize, Qt, QTimer, Signal
from PySide6.QtWidgets import QPushButton, QWidget

from explorer.analysis.columns import Known, layer_summaries, summaries
from explorer.analysis.model_grid import ModelGrid
from explorer.present.explanations import picture_text
from explorer.present.pictures import extremes_sentence
from explorer.present.survey import (
    ABOUT_SUMMED_ERRORS,
    ABOUT_SUMS,
    OVER_LAYERS,
    layer_facts,
    layer_lines,
    summary_lines,
)
from explorer.present.tables.survey import METRICS, SummedUp, metric_named, sums_table
from explorer.present.tables.table import Table
from explorer.qt.jobs import JobSlot
from explorer.qt.survey.bar import metrics_of
from explorer.qt.survey.layer_paint import (
    LEAST_HEIGHT,
    LEAST_WIDTH,
    LayerGrid,
    LayerPicture,
    LayerValues,
    layer_grids,
)
from explorer.qt.survey.session import SurveyContent, SurveySession
from explorer.qt.theme import Space
from explorer.qt.widgets.building import LINE, NOTE, column, row
from explorer.qt.widgets.chart import Chart
from explorer.qt.widgets.controls import BETWEEN, LONGEST_READOUT, check, choice, readout, split
from explorer.qt.widgets.figures import PlotExport
from explorer.qt.widgets.labels import empty_label, plain_label
from explorer.qt.widgets.plot import PlotColours
from explorer.qt.widgets.table_model import TableModel
from explorer.qt.widgets.table_view import TableView
from explorer.text import plain_text, shorten

_RENEW_MS: Final = 250
_AT_ONCE: Final = 4096  # tensors that are added up within a frame


Point: TypeAlias = tuple[int, int, int | None]
"""Chart (-1 for none in particular), layer and role, by place; no role of a layer as a whole."""


class LayerLines(Chart[Point]):
    """Small multiples: a chart for each metric, a line for each role, a bar of the layers.

    Attributes:
        picture: What is painted; None while there is nothing.

    Signals:
        cell_chosen: The user chose a point; the number of its cell in the model's grid.
        cell_opened: The user opened a point; the same.
        layer_chosen: The user chose a layer as a whole; its place.
    """

    cell_chosen = Signal(int)
    cell_opened = Signal(int)
    layer_chosen = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("Figures over the layers", picture_text("by_layer"), parent)
        self._grid: LayerGrid | None = None
        self._values: Sequence[LayerValues] = ()
        self._shown: tuple[int, ...] = ()
        self._alone: int | None = None  # the role that stands out
        self.picture: LayerPicture | None = None
        self.setMinimumWidth(LEAST_WIDTH)
        self.chosen.connect(self._emit_choice)
        self.opened.connect(lambda point: self.cell_opened.emit(self._cell(point)))

    def show_grid(self, grid: LayerGrid | None) -> None:
        """Show another stack of layers; nothing is known of it yet."""
        self._grid, self._values, self._shown = grid, (), ()
        self._alone = self.pointed = self.current = None
        self._lay_out()

    def show_values(self, values: Sequence[LayerValues], *, norms: bool = False) -> None:
        """Draw a chart for each metric, with norms and biases or without."""
        if self._grid is not None:
            roles = range(len(self._grid.roles))
            some = tuple(role for role in roles if norms or self._grid.matrices[role])
            self._values, self._shown = values, some or tuple(roles)
            self._lay_out()

    @property
    def shown_roles(self) -> list[str]:
        return [] if self._grid is None else [self._grid.roles[role] for role in self._shown]

    def select_cell(self, cell: int, *, layer: bool = False) -> None:
        """Mark a cell of the model's grid, or its layer; -1, or one elsewhere, marks none."""
        at: list[list[int]] = []
        if self._grid is not None and cell >= 0:
            at = np.argwhere(self._grid.cells == cell).tolist()
        self.select((-1, at[0][0], None if layer else at[0][1]) if at else None)

    def stand_out(self, role: int | None) -> None:
        """Have one role stand out, by place; None has all alike."""
        self._alone = role
        self.update()

    def sentence(self) -> str:
        grid = self._grid
        if grid is None:
            return ""
        shown = list(self._shown)

        def said(one: LayerValues) -> str:
            values = one.lines[:, shown]

            def name_of(at: int) -> str:
                layer, role = divmod(at, len(shown))
                figure = one.metric.shown(float(values[layer, role]))
                return f"{figure} in {grid.roles[shown[role]]} of layer {grid.layers[layer]}"

            return extremes_sentence(one.metric.title, values.ravel(), name_of)

        return " ".join(filter(None, map(said, self._values)))

    def panels(self) -> list[str]:
        return [one.metric.title for one in self._values]

    @contextmanager
    def alone(self, panel: int | None) -> Iterator[None]:
        values = self._values
        self._values = values if panel is None else [values[panel]]
        self._lay_out()
        try:
            yield
        finally:
            self._values = values
            self._lay_out()

    def data_columns(self) -> list[tuple[str, list[Any]]]:
        """Return a row for each role of each layer, and one for each layer together."""
        grid = self._grid
        if grid is None:
            return []
        places = [(layer, role) for layer in range(len(grid.layers)) for role in self._shown]
        columns: list[tuple[str, list[Any]]] = [
            ("layer", [grid.layers[layer] for layer, _ in places] + list(grid.layers)),
            ("role", [grid.roles[role] for _, role in places] + [""] * len(grid.layers)),
        ]
        for one in self._values:
            found = [float(one.lines[place]) for place in places] + one.together.tolist()
            known = [None if math.isnan(value) else value for value in found]
            columns.append((one.metric.name, known))
        return columns

    def _lay_out(self) -> None:
        self.picture = None
        if self._grid is not None and self._values:
            about = self._grid, self._values, self._shown
            self.picture = LayerPicture(*about, self.font(), self.size())
            self.setMinimumHeight(self.picture.least_height)
        self.update()

    def _cell(self, point: Point) -> int:
        """Return the number of a point's cell; -1 where there is none."""
        _, layer, role = point
        return -1 if self._grid is None or role is None else int(self._grid.cells[layer, role])

    def paint(self, painter: QtGui.QPainter, size: QSize, colours: PlotColours) -> None:
        if self.picture is not None:
            self.picture.paint(painter, colours, self._alone)

    def paint_marks(self, painter: QtGui.QPainter, colours: PlotColours) -> None:
        for point, colour in ((self.current, colours.accent), (self.pointed, colours.text)):
            if self.picture is not None and point is not None:
                self.picture.paint_mark(painter, colour, (point[1], point[2]))
        if self.hasFocus():
            painter.setPen(QtGui.QPen(colours.accent, 1))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(self.rect().adjusted(0, 0, -1, -1))

    def hit(self, point: QPointF) -> Point | None:
        return None if self.picture is None else self.picture.near(point)

    def choose(self, hit: Point | None) -> None:
        if hit is not None and (hit[2] is None or self._cell(hit) >= 0):
            super().choose((-1, *hit[1:]))

    def _emit_choice(self, point: Point) -> None:
        if point[2] is None:
            self.layer_chosen.emit(point[1])
        else:
            self.cell_chosen.emit(self._cell(point))

    def after(self, key: Qt.Key) -> Point | None:
        """Return the next known point: a layer to the side, or a role up or down the key."""
        steps = {Qt.Key.Key_Left: (-1, 0), Qt.Key.Key_Right: (1, 0)}
        steps |= {Qt.Key.Key_Up: (0, -1), Qt.Key.Key_Down: (0, 1)}
        if key not in steps or self._grid is None or not self._shown:
            return None
        layers, roles = steps[key]
        layer, place = 0, 0
        if self.current is not None and self.current[2] is None:
            layer = self.current[1] + layers  # a layer as a whole; up and down lead to its roles
            if layers:
                return (-1, layer, None) if 0 <= layer < len(self._grid.layers) else None
        elif self.current is not None and self.current[2] in self._shown:
            layer, place = self.current[1] + layers, self._shown.index(self.current[2]) + roles
        while 0 <= layer < len(self._grid.layers) and 0 <= place < len(self._shown):
            if self._grid.cells[layer, self._shown[place]] >= 0:
                return -1, layer, self._shown[place]
            layer, place = layer + layers, place + roles
        return None

    # Qt

    def sizeHint(self) -> QSize:
        return QSize(3 * LEAST_WIDTH, 2 * LEAST_HEIGHT)

    def resizeEvent(self, event: QtGui.QResizeEvent) -> None:
        super().resizeEvent(event)
        self._lay_out()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.StyleChange):
            self._lay_out()

    def mousePressEvent(self, event: QtGui.QMouseEvent) -> None:
        role = None if self.picture is None else self.picture.role_at(event.position())
        if role is None or event.button() == Qt.MouseButton.RightButton:
            super().mousePressEvent(event)
        else:
            self.stand_out(None if self._alone == role else role)


def layer_values(
    session: SurveySession, grid: LayerGrid | None, names: Sequence[str]
) -> list[LayerValues]:
    """Return metrics over the layers of a stack, as far as they are known by now."""
    known = session.known
    if known is None or grid is None:
        return []
    weighted = session.references.matrix is not None
    metrics = [one for one in map(metric_named, names) if weighted or not one.needs_matrix]
    return [grid.values(one, known) for one in metrics]


_Sums: TypeAlias = "tuple[list[SummedUp], set[str]]"


_LEAST_CHARACTERS: Final = 16  # of a role: its figures are all seen
_LEAST_LINES: Final = 8  # of the table; in a small window the page scrolls


class By(IntEnum):
    """What is summed up; the places in the list."""

    ROLE = 0
    LAYER = 1
    ROLES_OF_LAYER = 2


def _add_up(
    known: Known, grid: ModelGrid, table: Table[SummedUp], by: By, layer: tuple[int, int] | None
) -> _Sums:
    """Return the lines of sums, and which columns have no figure."""
    if by is By.ROLES_OF_LAYER:
        lines = [] if layer is None else layer_lines(layer_summaries(known, grid, layer))
    else:
        lines = summary_lines(summaries(known, grid), by_layer=by is By.LAYER)
    shown = [column.name for column in table.shown(lines)]
    return lines, set(table.names).difference(shown)


class ByLayerPage(QWidget):
    """What is known of the model over its layers, and sums by role, by layer and of all."""

    def __init__(self, session: SurveySession, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.app = app = session.app
        self._session = session
        offered = {metric.name for metric in metrics_of(session)}
        self._names = [name for name in OVER_LAYERS if name in offered]
        self._sums = sums_table(None).without(*(m.name for m in METRICS if m.name not in offered))
        self._content: SurveyContent | None = None
        self._grids: list[LayerGrid] = []
        self._row = -1
        self._layer = False  # whether the layer of the tensor is selected as a whole
        self._unknown: set[str] | None = None  # columns of the sums that are hidden
        self.stack = choice(self, "Stack of layers", "Which layers the charts show")
        why = "They are large, and quantizers leave them as they are"
        self.norms = check(self, "&Norms and biases too", why)
        ways = "Sums by role", "Sums by layer", "One layer"
        self.sums = choice(self, "Sums by", "What the table below puts together", *ways)
        self.lines = LayerLines(self)
        self.readout = readout(self, 2)
        self.save = QPushButton("&Save…", self)
        self.save.setToolTip("Save picture or data (Ctrl+S)")
        self.table = TableView(TableModel(self), app, self)
        self.table.setAccessibleName(self._sums.title)
        self.table.column_layout.least = _LEAST_CHARACTERS
        self.table.setMinimumHeight(_LEAST_LINES * self.fontMetrics().lineSpacing())
        self.hint = empty_label(self)
        self.hint.setText("Click a layer in the chart")
        self.hint.hide()
        self.export = PlotExport(app, self)
        self._adding = JobSlot(app.runner, self)
        self._added_too_soon = False
        self._renewing = QTimer(self, singleShot=True, interval=_RENEW_MS)
        self._lay_out()
        self._connect()

    def _lay_out(self) -> None:
        about = plain_label(
            self, ABOUT_SUMMED_ERRORS if self._session.compares else ABOUT_SUMS, wraps=True
        )
        about.setContentsMargins(*NOTE)
        lower = QWidget(self)
        column(row(self.sums, 1, margins=NOTE), (self.table, 1), (self.hint, 1), about, of=lower)
        upper = QWidget(self)
        under = row((self.readout, 1), self.save, margins=NOTE)
        column((self.lines, 1), under, of=upper)
        self.splitter = split(self, (upper, 300), (lower, 300), vertical=True)
        bar = row(self.stack, self.norms, 1, margins=LINE, spacing=Space.NEAR)
        column(bar, (self.splitter, 1), of=self)

    def _connect(self) -> None:
        self.stack.activated.connect(lambda _: self._show_stack())
        self.norms.toggled.connect(lambda _: self._renew())
        self.sums.currentIndexChanged.connect(lambda _: self._show_sums())
        self.lines.read.connect(self._show_reading)
        self.lines.cell_chosen.connect(self._choose)
        self.lines.layer_chosen.connect(self._choose_layer)
        self.table.row_opened.connect(self._open_line)
        self.lines.cell_opened.connect(lambda cell: self.app.open_tensors(self._row_of(cell)))
        self.lines.copy_requested.connect(lambda: self.export.copy(self.lines))
        self.lines.save_requested.connect(self.ask_save)
        self.save.clicked.connect(self.ask_save)
        self._renewing.timeout.connect(self._renew)
        self._session.replaced.connect(self._drop_previous)

    def refresh(self) -> None:
        """Show what is known now; the model or the reference may be another one."""
        content = self._session.content
        if content is not self._content:
            self._content = content
            self._grids = []
            if content is not None:
                self._grids = layer_grids(content.grid, content.matrices)
            self.stack.clear()
            self.stack.addItems([grid.title for grid in self._grids])
            self.stack.setVisible(len(self._grids) > 1)
            self._adding.cancel()
            self._show_stack()
        else:
            self._renew()
        if self._row >= 0:
            self.select_tensor(self._row, layer=self._layer)

    def grow(self) -> None:
        """Show more of the same, not too often."""
        if not self._renewing.isActive():
            self._renewing.start()

    def select_tensor(self, row: int, *, layer: bool = False) -> None:
        """Mark a tensor, or its layer and list its roles; -1 marks none. Emits nothing."""
        self._row, self._layer = row, layer
        content, at = self._content, self._layer_at
        cell = -1 if content is None or row < 0 else int(content.grid.cell_of[row])
        title = "One layer"
        if content is not None and at is not None:
            title = f"Layer {content.grid.sections[at[0]].layers[at[1]]}"
            stacks = [grid.section for grid in self._grids]
            if at[0] in stacks and stacks.index(at[0]) != self.stack.currentIndex():
                self.stack.setCurrentIndex(stacks.index(at[0]))
                self._show_stack()
        self.sums.setItemText(By.ROLES_OF_LAYER, title)
        self.lines.select_cell(cell, layer=layer)
        if layer and self.sums.currentIndex() != By.ROLES_OF_LAYER:
            self.sums.setCurrentIndex(By.ROLES_OF_LAYER)
        elif self.sums.currentIndex() == By.ROLES_OF_LAYER:
            self._show_sums()
        self._show_reading(None)

    @property
    def _layer_at(self) -> tuple[int, int] | None:
        """Section and row of the layer of what is selected; None outside of layers."""
        content = self._content
        if content is None or self._row < 0:
            return None
        return content.grid.layer_of(int(content.grid.cell_of[self._row]))

    def ask_save(self) -> None:
        """Ask for a file, and save the charts or their data into it."""
        document = self._session.document
        if document is not None and self.lines.picture is not None:
            self.export.ask(self.lines, f"{document.title} by layer")

    @property
    def grid(self) -> LayerGrid | None:
        """The stack of layers that is shown."""
        place = self.stack.currentIndex()
        return self._grids[place] if 0 <= place < len(self._grids) else None

    def _drop_previous(self) -> None:
        """Drop a model that is not the current one, also while another page is in front."""
        if self._session.content is not self._content:
            self._content, self._grids, self._row = None, [], -1
            self.lines.show_grid(None)
            self.table.table.clear()
            self._renewing.stop()
            self._adding.cancel()

    def _show_stack(self) -> None:
        self.lines.show_grid(self.grid)
        self._renew()

    def _renew(self) -> None:
        """Show the figures known by now."""
        self.lines.show_values(
            layer_values(self._session, self.grid, self._names), norms=self.norms.isChecked()
        )
        self.save.setEnabled(self.lines.picture is not None)
        self._show_sums()
        self._show_reading(None)

    def _show_sums(self) -> None:
        """Show sums of what is known by now; of many tensors when a worker has added them up."""
        content, known = self._session.content, self._session.known
        if content is None or known is None:
            return
        by = By(self.sums.currentIndex()), self._layer_at
        no_layer = by == (By.ROLES_OF_LAYER, None)
        self.hint.setVisible(no_layer)
        self.table.setHidden(no_layer)
        if known.count <= _AT_ONCE:
            self._show_lines(_add_up(known, content.grid, self._sums, *by))
            return
        if self._adding.busy:  # it would never end while figures come in
            self._added_too_soon = True
            return
        self._added_too_soon = False
        self._adding.run(
            "Adding up",
            lambda _job: _add_up(known, content.grid, self._sums, *by),
            self._show_added,
            self.app.report,
        )

    def _show_added(self, sums: _Sums) -> None:
        self._show_lines(sums)
        if self._added_too_soon:
            self._renewing.start()

    def _show_lines(self, sums: _Sums) -> None:
        lines, unknown = sums
        if self.table.table.update(self._sums, lines):
            self._unknown = None
        if unknown != self._unknown:  # what is known from now on is shown from now on
            self._unknown = unknown
            self.table.show_columns(QByteArray(), unknown)

    def _show_reading(self, at: Point | None) -> None:
        """Say what the mouse is over; else what is selected."""
        picture = self.lines.picture
        place = at or self.lines.current
        text = "Point at a line to read it, or move with the arrow keys."
        if picture is not None and place is not None:
            text = BETWEEN.join(self._parts(picture, *place))
        self.readout.setText(shorten(text, LONGEST_READOUT))
        self.lines.setAccessibleDescription(text)

    def _parts(
        self, picture: LayerPicture, chart: int, layer: int, role: int | None
    ) -> Iterator[str]:
        grid, content = picture.grid, self._content
        shown = picture.values if chart < 0 else picture.values[chart : chart + 1]
        if role is not None and content is not None:
            cell = int(grid.cells[layer, role])
            if cell >= 0:
                yield plain_text(content.document.model.tensors.columns.names[self._row_of(cell)])
            for one in shown:
                text = one.metric.shown(float(one.lines[layer, role]))
                if text:
                    yield f"{one.metric.title} {text}"
        if chart >= 0 or role is None:
            figures = ((one.metric, one.together) for one in shown)
            yield from layer_facts(grid.layers[layer], figures, layer)

    def _row_of(self, cell: int) -> int:
        return -1 if self._content is None else self._content.grid.row_of(cell, self._row)

    def _choose(self, cell: int) -> None:
        self._row, self._layer = self._row_of(cell), False
        self._show_reading(None)
        self.app.selection.select_tensors([self._row])

    def _choose_layer(self, place: int) -> None:
        """Select a layer of the stack that is shown, as a whole."""
        if self._content is not None and self.grid is not None:
            row = self._content.grid.row_in(self.grid.section, place, self._row)
            self.select_tensor(row, layer=True)
            self.app.selection.select_tensors([row], layer=True)

    def _open_line(self, number: int) -> None:
        """Show the tensor of a line, or the layer; sums of many lead nowhere."""
        content, at = self._content, self._layer_at
        line = self.table.table.items[number][1]
        if content is None or line.layer is None:
            return
        section = next(n for n, one in enumerate(content.grid.sections) if one.stack == line.stack)
        one = content.grid.sections[section]
        row = one.layers.index(line.layer)
        if not line.role:
            self.select_tensor(content.grid.row_in(section, row, self._row), layer=True)
            self.app.selection.select_tensors([self._row], layer=True)
        elif at is not None:
            names = [column.name for column in one.columns]
            cell = one.cells[row, names.index(line.role)]
            self.app.open_tensors(self._row_of(cell))
