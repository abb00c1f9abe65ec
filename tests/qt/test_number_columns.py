"""Columns of numbers: one notation in each, and as many digits or as many places in all cells.

The rule is held by every table that a person reads: those of the window are found by a walk over
it, those of the command line and of the report by reading what is printed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QTableView
from pytestqt.qtbot import QtBot

from explorer.cli.main import main
from explorer.formats import open_model
from explorer.qt.main_window import MainWindow
from explorer.qt.references import Rounding
from explorer.qt.weights.values import ValuesTable
from explorer.qt.widgets.table_model import TableModel, float_column
from explorer.report.gather import gather
from explorer.report.sections import report_html
from tests.helpers.everywhere import everywhere, settle

_NUMBER = re.compile(r"[-+\u2212±]?([\d,]+)(?:\.(\d+))?(e[-+\u2212]\d+)?(?: ?(\D{1,12}))?")
_UNKNOWN = frozenset(("", "–", "…", "NaN", "inf", "no error", "not measured"))
_EXACT_UNITS = frozenset(("", "B"))
# Lists: each line is another figure, which has digits of its own.
_LISTS = frozenset(("statistic", "figure", "what", "symbol"))
_MOST_CELLS = 400


@dataclass(frozen=True)
class Number:
    """A number as it is written."""

    whole: str
    fraction: str
    exponent: str
    unit: str

    @property
    def digits(self) -> int:
        """Significant digits."""
        return len((self.whole + self.fraction).lstrip("0"))

    @property
    def exact(self) -> bool:
        """Whether it is whole, so that it has the digits that it needs: ``1,789``, ``216 B``."""
        return not self.fraction and not self.exponent


def numbers_in(cells: Iterable[str]) -> list[Number] | None:
    """Return the numbers of a column but 0, None of a column of words."""
    found = []
    for cell in cells:
        if cell in _UNKNOWN:
            continue
        match = _NUMBER.fullmatch(cell)
        if match is None:
            return None
        whole, fraction, exponent, unit = (part or "" for part in match.groups())
        number = Number(whole.replace(",", ""), fraction, exponent, unit.strip())
        if number.digits:
            found.append(number)
    return found


def uneven(cells: Sequence[str]) -> str:
    """Return what is wrong with a column of texts, "" if nothing is."""
    numbers = numbers_in(cells)
    if numbers is None or all(one.exact for one in numbers):
        return ""
    if len({bool(one.exponent) for one in numbers}) > 1:
        return "two notations"
    places = {len(one.fraction) for one in numbers}
    digits = {one.digits for one in numbers if not one.exact}
    short = {one.digits for one in numbers if one.exact and one.unit not in _EXACT_UNITS}
    if len(places) > 1 and (len(digits) > 1 or any(one < max(digits) for one in short)):
        return f"{sorted(digits | short)} digits"
    return ""


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


def _tables(page: MainWindow) -> Iterator[tuple[str, list[str]]]:
    """Yield titles and cells of the columns in the tables that are seen."""
    for view in page.findChildren(QTableView):
        model = view.model()
        if not view.isVisible() or not isinstance(model, (TableModel, ValuesTable)):
            continue
        if isinstance(model, TableModel) and model.columns and model.columns[0].name in _LISTS:
            continue
        for column in range(model.columnCount()):
            title = str(model.headerData(column, Qt.Orientation.Horizontal))
            rows = range(min(_MOST_CELLS, model.rowCount()))
            yield title, [str(model.index(row, column).data()) for row in rows]


@pytest.mark.slow
def test_all_tables_of_the_window(qtbot: QtBot, window: MainWindow) -> None:
    panels = window.panels
    window.reveal_tensor(window.documents[0], 3)
    panels.references.choose(Rounding("Q4_0"))
    panels.setCurrentWidget(panels.survey)
    settle(qtbot, window)
    panels.survey.widget.bar.start.click()
    settle(qtbot, window)
    seen, wrong = set(), set()
    for name, _ in everywhere(qtbot, window):
        for title, cells in _tables(window):
            if numbers_in(cells):
                seen.add(title)
            if problem := uneven(cells):
                wrong.add((name, title, problem, *cells[:8]))
    assert not wrong
    expected = {"Bits/weight", "Relative RMSE", "Kurtosis", "Root mean square", "Level", "Size"}
    assert expected <= seen, seen


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
        column = float_column("value", "Value", np.array(values, np.float32), 5, "")
        return [column.text(row) for row in range(len(values))]

    assert texts(0.0052117, -0.02519, 0.0, 1e-9) == ["0.005212", "-0.025190", "0", "0.000000"]
    assert texts(-31, 29, 0) == ["-31", "29", "0"]
    assert texts(1e-20, 2.5e-21) == ["1.0000e-20", "2.5000e-21"]
    assert texts(1e30, 1.0) == ["1.0000e+30", "1.0000e+00"]
    assert texts(float("nan"), 0.5) == ["NaN", "0.50000"]
    assert texts() == []
