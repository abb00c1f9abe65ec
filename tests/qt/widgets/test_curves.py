"""Histograms side by side: places, keys, and what the mouse reads."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from pytestqt.qtbot import QtBot

from explorer.qt.widgets.curves import HistogramCurve, SmallMultiples, histogram_of

KEY = Qt.Key


@pytest.fixture
def grid(qtbot: QtBot) -> SmallMultiples:
    grid = SmallMultiples()
    qtbot.addWidget(grid)
    grid.resize(600, 500)
    edges = np.linspace(-1, 1, 11)
    grid.show_curves(
        tuple(
            HistogramCurve(f"t{n}", 10 * n, histogram_of(edges, np.arange(10)), 45, 0, 1, -1, 1)
            for n in range(7)
        )
    )
    grid.show()
    qtbot.waitExposed(grid)
    return grid


def test_cells_lie_side_by_side_without_overlap(grid: SmallMultiples) -> None:
    cells = [grid.cell(number) for number in range(7)]
    for number, cell in enumerate(cells):
        assert grid.rect().contains(cell)
        assert not any(cell.intersects(other) for other in cells[number + 1 :])


def test_arrow_keys_move_and_enter_opens(qtbot: QtBot, grid: SmallMultiples) -> None:
    for key, row in (
        (KEY.Key_Right, 0),
        (KEY.Key_Right, 10),
        (KEY.Key_Down, 40),
        (KEY.Key_Left, 30),
        (KEY.Key_End, 60),
        (KEY.Key_Home, 0),
    ):
        with qtbot.waitSignal(grid.chosen) as changed:
            qtbot.keyClick(grid, key)
        assert grid.curves[changed.args[0]].row == row
    with qtbot.waitSignal(grid.opened) as opened:
        qtbot.keyClick(grid, KEY.Key_Return)
    assert opened.args == [0]
    assert grid.accessibleDescription() == "t0"


def test_the_mouse_reads_the_bin_below_it_and_opens(qtbot: QtBot, grid: SmallMultiples) -> None:
    area = grid._plot_area(grid.cell(4))
    place = QPoint(round(area.left() + 0.95 * area.width()), round(area.center().y()))
    with qtbot.waitSignal(grid.bins_read) as read:
        qtbot.mouseMove(grid, place)
    ((reading,),) = read.args
    assert (reading.curve, reading.count) == ("t4", 9)
    with qtbot.waitSignal(grid.opened) as opened:
        qtbot.mouseDClick(grid, Qt.MouseButton.LeftButton, pos=place)
    assert grid.curves[opened.args[0]].row == 40


@pytest.mark.parametrize("logarithmic", [False, True])
def test_each_histogram_is_as_high_as_its_cell(grid: SmallMultiples, logarithmic: bool) -> None:
    grid.set_logarithmic(logarithmic)
    area = grid._plot_area(grid.cell(0))
    steps = grid._steps(grid.curves[0], area)
    assert min(point.y() for point in steps) == pytest.approx(area.top())
    assert max(point.y() for point in steps) == pytest.approx(area.bottom())


def test_draws_nothing_and_too_many_bins_alike(qtbot: QtBot, grid: SmallMultiples) -> None:
    grid.show_curves(())
    assert not grid.grab().isNull()
    counts = np.ones(4096, np.int64)
    histogram = histogram_of(np.linspace(0, 1, 4097), counts)
    grid.show_curves((HistogramCurve("many", 0, histogram, 4096, 0, 1, 0, 1),))
    assert grid._steps(grid.curves[0], grid._plot_area(grid.cell(0))).count() < 300
    assert not grid.grab().isNull()
