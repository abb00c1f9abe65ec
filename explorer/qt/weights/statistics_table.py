"""Tables of statistics: the figures of one thing line by line, or a line for each of several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QCoreApplication, QObject

from explorer.analysis import Moments
from explorer.present import Figure
from explorer.present.errors import ROUNDING_TEXTS
from explorer.present.explanations import percentile_text, statistic_column_texts, statistic_texts
from explorer.present.statistics import moment_figures, percentile_figures, step_error_figures
from explorer.qt.weights.curves import Figures
from explorer.qt.widgets.table_model import Cell, Column, TableModel
from explorer.text import float_text, integer_text


@dataclass(frozen=True, slots=True)
class Line:
    """One figure.

    Attributes:
        name: Stable name, for export: that of `gguf-explorer stats`.
        title: What it is called.
        value: The figure; None while it is not known.
        tip: What it means, as plain text.
        shown: The figure for people, if not as all figures are written.
    """

    name: str
    title: str
    value: int | float | None
    tip: str
    shown: str = ""

    @property
    def text(self) -> str:
        """The figure for people."""
        if self.value is None:
            return "…"
        if self.shown:
            return self.shown
        return integer_text(self.value) if isinstance(self.value, int) else float_text(self.value)


def moment_lines(moments: Moments) -> list[Line]:
    """Return the lines that statistics of anything have."""
    return [_line(figure) for figure in moment_figures(moments)]


def figure_lines(figures: Figures) -> list[Line]:
    """Return the lines of a tensor, some without a value while it streams."""
    complete = figures.complete
    found = [] if complete is None else step_error_figures(complete)
    found += percentile_figures(None if complete is None else complete.percentiles)
    return [*moment_lines(figures.moments), *map(_line, found)]


def _line(figure: Figure) -> Line:
    tip = statistic_texts().get(figure.name)
    if figure.name == "step_error_rms":
        tip = ROUNDING_TEXTS[figure.name].tip
    return Line(figure.name, figure.label, figure.value, tip or percentile_text(), figure.text)


class StatisticsTable(TableModel):
    """Lines of figures; new figures of the same kind keep selection and scroll position."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._kind: list[str] = []

    def show_lines(self, lines: Sequence[Line]) -> None:
        """Show the figures of one thing."""
        self._replace([line.name for line in lines], _line_columns(lines), len(lines))

    def show_several(self, several: Sequence[Figures]) -> None:
        """Show a row for each of several tensors."""
        self._replace([], _several_columns(several), len(several))

    def _replace(self, kind: list[str], columns: list[Column], row_count: int) -> None:
        names = [column.name for column in columns]
        same = [column.name for column in self.columns] == names
        if not same or row_count != self.content_count or kind != self._kind:
            self._kind = kind
            self.set_content(columns, row_count)
        elif row_count:
            self.columns = tuple(columns)
            if self.rowCount() and columns:
                corners = self.index(0, 0), self.index(self.rowCount() - 1, len(columns) - 1)
                self.dataChanged.emit(*corners)


def _line_columns(lines: Sequence[Line]) -> list[Column]:
    def tr(text: str) -> str:
        return QCoreApplication.translate("StatisticsTable", text)

    values = np.array([np.nan if line.value is None else line.value for line in lines], np.float64)
    tips = statistic_column_texts()

    def meaning(row: int) -> str:
        return lines[row].tip

    return [
        Column(
            "statistic",
            tr("Statistic"),
            lambda row: lines[row].title,
            lambda row: lines[row].name,
            lambda: np.arange(len(lines)),
            tip=tips["statistic"],
            row_tip=meaning,
        ),
        Column(
            "value",
            tr("Value"),
            lambda row: lines[row].text,
            lambda row: lines[row].value,
            lambda: values,
            numeric=True,
            tip=tips["value"],
            row_tip=meaning,
        ),
    ]


def _several_columns(several: Sequence[Figures]) -> list[Column]:
    def tr(text: str) -> str:
        return QCoreApplication.translate("StatisticsTable", text)

    def name(row: int) -> str:
        return several[row].subject.name

    tip = statistic_column_texts()["tensor"]
    columns = [Column("tensor", tr("Tensor"), name, name, lambda: np.arange(len(several)), tip=tip)]
    first = [] if not several else figure_lines(several[0])
    table = [figure_lines(figures) for figures in several]
    # a tensor that is not quantized has fewer lines: what only some have is left out
    for place, line in enumerate(first[: min(map(len, table), default=0)]):
        columns.append(_several_column(line, [lines[place] for lines in table]))
    return columns


def _several_column(kind: Line, cells: Sequence[Line]) -> Column:
    def text(row: int) -> str:
        return cells[row].text

    def raw(row: int) -> Cell:
        return cells[row].value

    def keys() -> NDArray[np.float64]:
        return np.array([np.nan if cell.value is None else cell.value for cell in cells])

    return Column(kind.name, kind.title, text, raw, keys, numeric=True, tip=kind.tip)
