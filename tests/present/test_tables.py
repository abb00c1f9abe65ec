"""Tables: each column once, and the same cell in every front end."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import Any

import pytest

import explorer.present.tables as package
from explorer.cli import output
from explorer.present.tables.differences import SizeRow
from explorer.present.tables.errors import FIGURES
from explorer.present.tables.table import (
    BITS,
    BYTES,
    FIGURE,
    LAYERS,
    LIST,
    SHAPE,
    TEXT,
    TYPE,
    Column,
    Table,
)
from explorer.report.sections import table_of

ROOT = Path(package.__file__).parents[2]


def tables() -> Iterator[tuple[str, Table[Any]]]:
    """Yield every table that is defined as a whole."""
    for module in pkgutil.iter_modules(package.__path__):
        found = vars(importlib.import_module(f"{package.__name__}.{module.name}"))
        yield from ((f"{module.name}.{n}", t) for n, t in found.items() if isinstance(t, Table))


@pytest.mark.parametrize(("name", "table"), list(tables()))
def test_names_and_titles_are_unique(name: str, table: Table[Any]) -> None:
    titles = [column.title for column in table.flat_columns]
    assert len(set(table.names)) == len(set(titles)) == len(titles), name
    keys = [column.name for column in table if not column.flat_only]
    assert len(set(keys)) == len(keys), name
    assert all(column.title for column in table)
    assert all(column.tip for column in table.shown([])), "a column that is seen says what it means"


@dataclass(frozen=True)
class Line:
    name: str
    type: str | None
    nbytes: int | None
    bits: float
    shape: tuple[int, ...]
    layers: tuple[int, ...]
    parts: tuple[str, ...]
    problem: str = ""


TABLE = Table[Line](
    Column("name", "Name", tip="A name."),
    Column("type", "Type", TYPE, blank="none"),
    Column("bytes", "Size", BYTES, of=lambda line: line.nbytes),
    Column("bits", "Bits", BITS),
    Column("shape", "Shape", SHAPE),
    Column("layers", "Layers", LAYERS),
    Column("parts", "Parts", LIST, extra=True),
    Column("note", "Note", TEXT, of=lambda _line: None, sparse=True),
    title="Lines",
    problem=lambda line: line.problem,
)
ROWS = [
    Line("blk.0\x1b[31m", "Q4_K", 3 << 20, 4.5, (2048, 64), (0, 1, 2, 9), ("a", "b")),
    Line("blk.1", None, None, nan, (), (), ()),
]


def test_every_front_end_shows_the_same_cells() -> None:
    expected = [
        ["Name", "Type", "Size", "Bits", "Shape", "Layers"],
        ["blk.0\\x1b[31m", "Q4_K", "3.00 MiB", "4.500", "2,048 × 64", "0–2, 9"],
        ["blk.1", "none", "", "", "1", ""],
    ]
    written = table_of(TABLE, ROWS)
    assert [list(written.head), *map(list, written.rows)] == expected
    assert list(written.kinds) == ["name", "", "number", "number", "number", ""]
    printed = output.table_of(TABLE, ROWS).splitlines()
    assert [line.split() for line in printed] == [" ".join(cells).split() for cells in expected]


def test_a_row_without_figures_says_why() -> None:
    broken = Line("blk.2", "Q4_K", None, nan, (1,), (), (), "it is cut short")
    printed = output.table_of(TABLE, [*ROWS, broken]).splitlines()
    assert printed[-1].split(maxsplit=2) == ["blk.2", "Q4_K", "it is cut short"]


def test_files_and_json_have_all_columns_with_their_values() -> None:
    assert TABLE.names == ["name", "type", "bytes", "bits", "shape", "layers", "parts", "note"]
    record = TABLE.record(ROWS[0])
    assert record["shape"] == (2048, 64)
    assert record["parts"] == ("a", "b")
    flat = dict(zip(TABLE.names, TABLE.flat(ROWS[0]), strict=True))
    assert (flat["shape"], flat["layers"], flat["parts"]) == ("2048x64", "0; 1; 2; 9", "a; b")


def test_columns_sort_by_their_values() -> None:
    order = {
        column.name: column.kind.order([column.value(row) for row in ROWS]) for column in TABLE
    }
    assert order["name"].argsort().tolist() == [0, 1]
    assert order["shape"].tolist() == [2048 * 64, 1]
    assert order["parts"].tolist() == [2, 0]


def test_only_tables_make_columns() -> None:
    """A title of a column stands in `present/tables` alone."""
    home, binder = Path(*package.__path__), ROOT / "explorer/qt/widgets/table_model.py"
    makers = [
        f"{path.name}:{node.lineno}"
        for path in (ROOT / "explorer").rglob("*.py")
        if home not in path.parents and path != binder
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and "Column" in (name_of(node.func))
    ]
    assert not makers


def name_of(called: ast.expr) -> list[str]:
    """Return the name of what is called, also where it is given a type."""
    plain = called.value if isinstance(called, ast.Subscript) else called
    return [getattr(plain, "id", "")]


@pytest.mark.parametrize(
    ("values", "errors", "said"),
    [
        ((9.81234, 9.9), (0.0714, 0.0700), ("9.812 ± 0.071", "9.900 ± 0.070", "within the error")),
        ((9.81234, 9.5), (0.0714, 0.0), ("9.812 ± 0.071", "9.500", "better")),
        ((15.919427, 20.0), (0.295934, 12.4), ("15.92 ± 0.30", "20 ± 12", "within the error")),
        ((9.0, 9.1), (0.0, 0.0), ("9.000", "9.100", "worse")),
    ],
)
def test_a_difference_within_the_errors_is_no_gain(
    values: tuple[float, float], errors: tuple[float, float], said: tuple[str, str, str]
) -> None:
    row = SizeRow("perplexity", "Perplexity", FIGURE, values, -1, errors)
    assert (row.text(0), row.text(1)) == said[:2]
    assert row.difference.partition(" ")[2] == said[2]
    assert bool(row.tone) == (said[2] != "within the error")


def test_a_difference_of_percentages_is_no_share() -> None:
    row = SizeRow(
        "relative_rmse", "Relative RMSE", FIGURES["relative_rmse"].kind, (0.0715, 0.0179), -1
    )
    assert row.difference == "-5.360 points better"
