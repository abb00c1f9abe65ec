"""What a table is: columns that say what they hold, and kinds that say how it is written.

The window, the terminal, the report, CSV, Parquet and JSON all render the same columns, so that a
column is added in one place and no two front ends can differ. Rows are objects of any kind; of a
table over arrays they are the numbers of its rows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Generic, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from explorer.formats.columns import text_ranks
from explorer.text import (
    bits_text,
    bytes_text,
    count_text,
    digits_text,
    float_text,
    integer_text,
    part_text,
    percent_text,
    plain_text,
    runs_text,
    scale_writer,
    shape_text,
    signed_text,
)

Row = TypeVar("Row")
RowT_contra = TypeVar("RowT_contra", contravariant=True)
Outer = TypeVar("Outer")


def _number_keys(values: Sequence[Any]) -> NDArray[Any]:
    return np.array([math.nan if value is None else value for value in values], np.float64)


def _text_keys(values: Sequence[Any]) -> NDArray[Any]:
    return text_ranks(["" if value is None else str(value) for value in values])


@dataclass(frozen=True, slots=True)
class Kind:
    """How the values of a column are written and sorted.

    Attributes:
        write: Returns the text of a value; safe to show, whatever a file says.
        numeric: Whether it is aligned to the right.
        keys: Returns the sort keys of values, [n]; by default numbers, and words by their text.
        is_type: Whether the value names a tensor type, whose colour is shown beside it.
        exact: The same as `write` where there is room for all digits that are sure.
    """

    write: Callable[..., str]
    numeric: bool = True
    keys: Callable[[Sequence[Any]], NDArray[Any]] | None = None
    is_type: bool = False
    exact: Callable[..., str] | None = None

    def order(self, values: Sequence[Any]) -> NDArray[Any]:
        """Return the sort keys of values, [n]."""
        if self.keys is not None:
            return self.keys(values)
        if self.numeric:
            return _number_keys(values)
        return _text_keys([None if value is None else self.write(value) for value in values])


TEXT: Final = Kind(plain_text, numeric=False, keys=_text_keys)
TYPE: Final = replace(TEXT, is_type=True)
YES_NO: Final = Kind(lambda value: "yes" if value else "no", numeric=False)
INTEGER: Final = Kind(integer_text)
PLACE: Final = Kind(str)
"""A number that names something, such as a layer: without separators."""
COUNT: Final = Kind(count_text)
"""Parameters, to three digits."""
BYTES: Final = Kind(bytes_text)
BYTES_CHANGE: Final = Kind(partial(signed_text, text=bytes_text))
BITS: Final = Kind(bits_text)
PART: Final = Kind(part_text)
"""A part of a whole, 0 to 1, in per cent."""
RATIO: Final = Kind(percent_text)
"""A ratio of any size, in per cent."""
FIGURE: Final = Kind(partial(digits_text, digits=4))
"""A figure of any size."""
SHAPE: Final = Kind(
    shape_text, keys=lambda shapes: _number_keys([math.prod(shape) for shape in shapes])
)

_SHOWN_RUNS: Final = 6


def layer_runs(layers: Sequence[int]) -> str:
    """Return ``"3"`` or ``"0, 3–7"``; very scattered layers are only counted."""
    return runs_text(layers, _SHOWN_RUNS) or (f"{len(layers)} layers" if layers else "")


LAYERS: Final = Kind(
    layer_runs,
    numeric=False,
    keys=lambda values: _number_keys([layers[0] if layers else -1 for layers in values]),
)


LIST: Final = Kind(
    lambda items: integer_text(len(items)),
    keys=lambda values: _number_keys([len(items or ()) for items in values]),
)
"""Several records: shown and sorted by how many they are."""


def digits(count: int) -> Kind:
    """Return the kind of figures that are written with so many significant digits."""
    return Kind(partial(digits_text, digits=count))


def scaled(values: NDArray[Any], count: int) -> Kind:
    """Return the kind of figures of one scale, so that their decimal signs stand in a line.

    Args:
        values: All figures of the column, [n].
        count: Significant digits of the largest; of whole numbers all.
    """
    finite = values[np.isfinite(values)]
    top = float(np.abs(finite).max(initial=0.0))
    write = scale_writer(0.0 if (finite == np.rint(finite)).all() else top, top, count)
    return Kind(lambda value: write(value) if value else "0")


_NUMBER: Final = re.compile(r"{([\d.]+)}")


@dataclass(frozen=True)
class Column(Generic[RowT_contra]):
    """A column of a table.

    Attributes:
        name: Its key in JSON, its name in CSV and Parquet; for settings, too.
        title: Its head, in the window, the terminal and the report; a number in it is in braces.
        kind: How values are written.
        tip: What the column means, in a sentence.
        of: Returns the value of a row, as JSON has it, and None where it is not known; by default
            the row's attribute of the column's name.
        blank: What stands where the value is not known.
        text: Returns the cell of a row where it says more than its value.
        extra: Whether it is for files and JSON: the window hides it at first, the terminal and the
            report leave it out.
        sparse: Whether it is shown only where some row has a value.
        json_only: Whether only JSON has it: a record, or a list of them.
        flat_only: Whether JSON says the same in another form.
        stretches: Whether it takes the width that the others leave; else the first of words does.
        bar: How much of the cell a bar behind its text takes, 0 to 1; None for no bar.
        keys: Returns the sort keys of all rows, [n], where they are known already.
        row_tip: What a cell means, where that is more than what its column does.
        tone: Whether a cell is "good", "warn" or "bad", and is set off; "" if neither.
    """

    name: str
    title: str
    kind: Kind = TEXT
    tip: str = ""
    of: Callable[[RowT_contra], Any] | None = None
    blank: str = ""
    text: Callable[[RowT_contra], str] | None = None
    extra: bool = False
    sparse: bool = False
    json_only: bool = False
    flat_only: bool = False
    stretches: bool = False
    bar: Callable[[RowT_contra], float | None] | None = None
    keys: Callable[[], NDArray[Any]] | None = None
    row_tip: Callable[[RowT_contra], str] | None = None
    tone: Callable[[RowT_contra], str] | None = None

    @property
    def head(self) -> str:
        """The title with its numbers in the notation of the country."""
        return _NUMBER.sub(lambda found: float_text(float(found[1]), 6), self.title)

    def value(self, row: RowT_contra) -> Any:
        """Return the value of a row, as JSON has it; None where it is not known."""
        return getattr(row, self.name) if self.of is None else self.of(row)

    def cell(self, row: RowT_contra) -> str:
        """Return the text of a row's cell; safe to show."""
        if self.text is not None:
            return plain_text(self.text(row))
        return self.write(self.value(row))

    def exact(self, row: RowT_contra) -> str:
        """Return the text of a row's cell with all digits that are sure, if it has a value."""
        if self.kind.exact is None or self.is_blank(row):
            return self.cell(row)
        return self.kind.exact(self.value(row))

    def write(self, value: Any) -> str:
        """Return the text of a value; safe to show."""
        return self.blank if is_unknown(value) else self.kind.write(value)

    def is_blank(self, row: RowT_contra) -> bool:
        return is_unknown(self.value(row))

    def at(self, part: Callable[[Outer], RowT_contra | None], **changes: Any) -> Column[Outer]:
        """Return the same column for rows that hold one of this table's, or None."""
        text = self.text

        def of(outer: Outer) -> Any:
            inner = part(outer)
            return None if inner is None else self.value(inner)

        def cell(outer: Outer) -> str:
            inner = part(outer)
            return self.blank if inner is None or text is None else text(inner)

        column = replace(self, of=of, text=None if text is None else cell)  # type: ignore[arg-type] # rows of another kind
        return replace(cast("Column[Outer]", column), **changes)

    def flat(self, row: RowT_contra) -> str | int | float | bool | None:
        """Return the value of a row as a file with one value a cell has it."""
        value = self.value(row)
        if isinstance(value, (list, tuple)):
            return ("x" if self.kind is SHAPE else "; ").join(map(str, value))
        if isinstance(value, dict):
            return self.cell(row)
        return value  # type: ignore[no-any-return] # what JSON can hold has no type


def is_unknown(value: object) -> bool:
    """Return whether a figure is None or not a number."""
    return value is None or (isinstance(value, float) and math.isnan(value))


class Table(Generic[RowT_contra]):
    """A table: its columns, in their order.

    Args:
        columns: The columns.
        title: What it is a table of, for headings and screen readers.
        problem: Returns why a row has no figures, "" for one that has: it stands across the row.

    """

    def __init__(
        self,
        *columns: Column[RowT_contra],
        title: str = "",
        problem: Callable[[RowT_contra], str] | None = None,
    ) -> None:
        self.columns, self.title, self.problem = columns, title, problem

    def __iter__(self) -> Iterator[Column[RowT_contra]]:
        return iter(self.columns)

    def __getitem__(self, name: str) -> Column[RowT_contra]:
        return next(column for column in self.columns if column.name == name)

    def only(self, *names: str) -> Table[RowT_contra]:
        """Return the same table with some columns, in this order, none of them extra."""
        return self.with_columns(replace(self[name], extra=False) for name in names)

    def without(self, *names: str) -> Table[RowT_contra]:
        """Return the same table without some columns."""
        return self.with_columns(one for one in self.columns if one.name not in names)

    def replacing(self, *columns: Column[RowT_contra]) -> Table[RowT_contra]:
        """Return the same table with columns in place of those of the same names."""
        others = {column.name: column for column in columns}
        return self.with_columns(others.get(one.name, one) for one in self.columns)

    def with_columns(self, columns: Iterable[Column[RowT_contra]]) -> Table[RowT_contra]:
        """Return the same table with other columns."""
        return Table(*columns, title=self.title, problem=self.problem)

    @property
    def names(self) -> list[str]:
        """Names of the columns of a file with one value a cell: the heads of CSV and Parquet."""
        return [column.name for column in self.flat_columns]

    @property
    def flat_columns(self) -> list[Column[RowT_contra]]:
        """All columns but those that only JSON can hold: those of files, and of the window."""
        return [column for column in self.columns if not column.json_only]

    def at(
        self, part: Callable[[Outer], RowT_contra | None], *names: str, **changes: Any
    ) -> list[Column[Outer]]:
        """Return columns, or those of some names, for rows that hold one of this table's."""
        chosen = map(self.__getitem__, names) if names else self.columns
        return [column.at(part, **changes) for column in chosen]

    def why_blank(self, row: RowT_contra) -> str:
        """Return why a row has no figures; "" if it has."""
        return "" if self.problem is None else plain_text(self.problem(row))

    def shown(self, rows: Sequence[RowT_contra] = ()) -> list[Column[RowT_contra]]:
        """Return the columns that a reader sees at first: no extra ones, sparse ones with cells."""
        return [
            column
            for column in self.flat_columns
            if not (column.extra or (column.sparse and not any(map(column.cell, rows))))
        ]

    def flat(self, row: RowT_contra) -> list[str | int | float | bool | None]:
        """Return the values below `names`."""
        return [column.flat(row) for column in self.flat_columns]

    def record(self, row: RowT_contra) -> dict[str, Any]:
        """Return a row as a JSON object."""
        return {c.name: c.value(row) for c in self.columns if not c.flat_only}
