"""Columns of numbers: one notation in each, and as many digits or as many places in all cells.

Those of the window are asked by the walk over it (`tests/qt/walk`), those of the command line and
of the report here, by reading what is printed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import date
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from explorer.cli.main import main
from explorer.formats import open_model
from explorer.present.tables.table import scaled
from explorer.report.gather import gather
from explorer.report.sections import report_html
from tests.qt.walk.texts import numbers_in, uneven

# Lists: each line is another figure, which has digits of its own.


@pytest.mark.parametrize(
    ("cells", "wrong"),
    [
        (["8.500", "5.531", "32.000"], ""),
        (["8.5", "5.531"], "[2, 4] digits"),
        (["4 GiB", "4.07 GiB"], "[1, 3] digits"),
        (["216 B", "0 B", "4.00 KiB", "1,023 MiB"], ""),
        (["1.79e+03", "3.117"], "two notations"),
        (["1,789", "233.8", "\u22120.7969", "0", ""], ""),
        (["9.58 ×", "23.0 ×", "137 ×"], ""),
        (["Q4_K", "8.5", "5.531"], ""),
    ],
)
def test_what_an_uneven_column_is(cells: list[str], wrong: str) -> None:
    assert uneven(cells) == wrong


def _printed(text: str) -> Iterator[list[list[str]]]:
    """Yield the columns of each block of lines."""
    for block in text.split("\n\n"):
        lines = [re.split(r"\s{2,}", line.strip()) for line in block.splitlines()]
        width = Counter(map(len, lines)).most_common(1)[0][0]
        same = [cells for cells in lines if len(cells) == width]
        if width > 2 and len(same) > 2:
            yield [list(column) for column in zip(*same[1:], strict=True)]


@pytest.mark.parametrize(
    "arguments",
    [
        ("inspect", "--tensors"),
        ("survey", "--no-cache"),
        ("recipes",),
        ("requantize", "blk.0.ffn_down.weight", "--to", "Q4_0,Q5_1,Q8_0,F16"),
        ("stats", "blk.0.ffn_down.weight"),
        ("plan", "--gpu", "1GiB", "--profile", "all"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_tables_of_the_command_line(
    arguments: tuple[str, ...], demo_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command, *others = arguments
    assert main([command, str(demo_path), *others]) == 0
    columns = [column for table in _printed(capsys.readouterr().out) for column in table]
    assert any(numbers_in(column) for column in columns)
    assert not [(problem, column) for column in columns if (problem := uneven(column))]


def test_tables_of_the_report(demo_path: Path) -> None:
    with ExitStack() as stack:
        model = stack.enter_context(open_model(demo_path))
        page = report_html(gather(model), date(2026, 11, 26))
    read, wrong = 0, []
    for table in ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>")).iter("table"):
        rows = [["".join(cell.itertext()).strip() for cell in row] for row in table.iter("tr")]
        head, *body = rows
        if len(head) < 3:  # a list
            continue
        for title, column in zip(head, zip(*body, strict=True), strict=True):
            read += bool(numbers_in(column))
            if problem := uneven(column):
                wrong.append((title, problem, column[:8]))
    assert read > 20
    assert not wrong


def test_numbers_of_one_scale_have_their_decimal_signs_in_a_line() -> None:
    def texts(*values: float) -> list[str]:
        array = np.array(values, np.float32)
        return list(map(scaled(array, 5).write, array.tolist()))

    assert texts(0.0052117, -0.02519, 0.0, 1e-9) == ["0.005212", "-0.025190", "0", "0.000000"]
    assert texts(-31, 29, 0) == ["-31", "29", "0"]
    assert texts(1e-20, 2.5e-21) == ["1.0000e-20", "2.5000e-21"]
    assert texts(1e30, 1.0) == ["1.0000e+30", "1.0000e+00"]
    assert texts(float("nan"), 0.5) == ["NaN", "0.50000"]
    assert texts() == []
