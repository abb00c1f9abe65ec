"""One row of a table as lines: what is listed of a single thing, each figure with its name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from explorer.present.tables.table import FIGURE, Column, Row, Table, is_unknown
from explorer.text import UNKNOWN


@dataclass(frozen=True, slots=True)
class Line:
    """One figure: the name, title and meaning of its column, its value, and its text."""

    name: str
    title: str
    tip: str
    value: Any
    text: str


def line(title: str, text: str, tip: str = "") -> Line:
    """Return a figure of no column."""
    return Line("", title, tip, None, text)


def lines_of(table: Table[Row], row: Row, unknown: str = UNKNOWN) -> list[Line]:
    """Return the columns of a table as lines, with all digits that are sure.

    Args:
        table: The columns; sparse ones have a line only if the row has a value.
        row: The row.
        unknown: Stands where a value is not known.
    """
    lines = []
    for column in table.shown([row]):
        value, text = column.value(row), column.exact(row) or unknown
        known = None if is_unknown(value) else value
        lines.append(Line(column.name, column.head, column.tip, known, text))
    return lines


_NAME: Final = "A statistic of all weights. Each line has its own explanation."
_VALUE: Final = "The figure. Copies and exports have all of its digits."

LINES: Final = Table[Line](
    Column(
        *("statistic", "Statistic"),
        tip=_NAME,
        of=lambda line: line.name,
        text=lambda line: line.title,
        row_tip=lambda line: line.tip,
    ),
    Column(
        *("value", "Value", FIGURE, _VALUE),
        text=lambda line: line.text,
        row_tip=lambda line: line.tip,
    ),
    title="Figures",
)
