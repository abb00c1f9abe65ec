"""The map with its legend as a picture of its own size, and the figures behind it."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from PySide6.QtCore import QRectF, QSize
from PySide6.QtGui import QFont, QFontMetricsF, QPainter

from explorer.present.survey import METRICS, Groups, Known
from explorer.qt.models.survey.content import SurveyContent
from explorer.qt.views.survey.map_painter import MapPainter

_MOST_PIXELS: Final = 4 << 20  # a larger map is drawn smaller


class MapPicture:
    """The whole map, also what is scrolled out of sight; see `plots.export.Picture`.

    Args:
        painter: Paints it in the colours of paper.
        font: The map's.
        content: Whose tensors it shows.
        known: What is known of them.
    """

    def __init__(
        self, painter: MapPainter, font: QFont, content: SurveyContent, known: Known
    ) -> None:
        self._painter = painter
        self._font = font
        self._content = content
        self._known = known
        self._legend = painter.legend_height(QFontMetricsF(font), painter.layout.width)

    def size(self) -> QSize:
        """Return its size."""
        layout = self._painter.layout
        width, height = layout.width, layout.height + self._legend
        shrunk = min(1.0, math.sqrt(_MOST_PIXELS / (width * height)))
        return QSize(max(1, int(width * shrunk)), max(1, int(height * shrunk)))

    def paint_on_paper(self, painter: QPainter, area: QRectF) -> None:
        """Draw it."""
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
        """Return a row for each cell, and all figures that are known of it."""
        grid, arrays = self._content.grid, self._content.document.arrays
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
                told = [None if np.isnan(value) else value for value in values.tolist()]
                columns.append((metric.name, told))
        return columns

    def _types(self, rows: tuple[int, ...]) -> str:
        arrays = self._content.document.arrays
        codes = np.unique(arrays.type_codes[list(rows)]).tolist()
        return " ".join(arrays.types[code].name for code in codes)
