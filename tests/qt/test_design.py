"""What design rules can be measured: one left edge, no boxes around tables, one place of tokens."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QRect
from PySide6.QtGui import QFont
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from explorer.qt.main_window import MainWindow
from explorer.qt.theme import apply_text_size, scaled
from tests.helpers.window import wait_idle

_QT = Path(__file__).parents[2] / "explorer" / "qt"


def _show(qtbot: QtBot, window: MainWindow, page: str) -> None:
    window.resize(1280, 800)
    window.panels.show_page(page)
    if page == "planner":
        qtbot.waitUntil(lambda: window.panels.planner.widget.body is not None)
    wait_idle(qtbot, window)
    QApplication.processEvents()


def _lines() -> Iterator[tuple[str, str]]:
    for path in sorted(_QT.rglob("*.py")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            yield f"{path.relative_to(_QT)}:{number}", line


def test_colours_of_the_window_are_named_in_one_module() -> None:
    """Those that carry a meaning are in `present.colours`, for the report too."""
    literal = re.compile(r"""["']#[0-9a-fA-F]{3,8}["']""")
    found = [place for place, line in _lines() if literal.search(line)]
    assert [place for place in found if not place.startswith("theme.py:")] == []


def test_spaces_of_the_window_are_named_in_one_module() -> None:
    number = re.compile(
        r"(margins=\([^)]*[1-9]|spacing=[1-9]|set(Horizontal|Vertical)?Spacing\([1-9]"
        r"|setContentsMargins\(\s*[1-9]|setContentsMargins\([^)*S]*[1-9])"
    )
    found = [
        place
        for place, line in _lines()
        if number.search(re.sub(r"\d \* Space\.\w+|Space\.\w+|\* \d", "", line))
    ]
    assert found == []


def test_nothing_beside_a_page_is_cut_in_the_larger_font_of_a_desktop(
    qtbot: QtBot, make_window: Callable[..., MainWindow], demo_path: Path
) -> None:
    """GNOME's texts have 11 points, where those of a bare Qt have 9."""
    font, usual = QApplication.font(), scaled(272)
    larger = QFont(font)
    larger.setPointSizeF(font.pointSizeF() * 11 / 9)
    QApplication.setFont(larger)
    try:
        window = make_window(demo_path)
        _show(qtbot, window, "planner")
        body = window.panels.planner.widget.body
        assert body is not None
        side = body.side
        assert side.viewport().width() >= side.widget().minimumSizeHint().width()
        _show(qtbot, window, "weights")
        table = window.panels.weights.widget.histogram.panel.table
        assert table.horizontalScrollBar().maximum() == 0
        assert window.open_models.width() > 1.15 * usual
    finally:
        QApplication.setFont(font)


@pytest.mark.parametrize("percent", [100, 200])
def test_buttons_of_the_planner_are_whole_at_every_size_of_text(
    qtbot: QtBot, make_window: Callable[..., MainWindow], demo_path: Path, percent: int
) -> None:
    apply_text_size(percent)
    try:
        window = make_window(demo_path)
        _show(qtbot, window, "planner")
        body = window.panels.planner.widget.body
        assert body is not None
        qtbot.waitUntil(body.answer.ask.isVisible)
        buttons = [one for one in body.answer.tab_chain() if one.isVisible()]
        assert len(buttons) >= 3
        narrow = [one.text() for one in buttons if one.width() < one.sizeHint().width()]
        assert narrow == []
        areas = [QRect(one.mapTo(body, QPoint(0, 0)), one.size()) for one in buttons]
        assert all(not one.intersects(other) for one, other in combinations(areas, 2))
        assert all(body.rect().contains(area) for area in areas)
        assert body.side.width() >= body.side.widget().minimumSizeHint().width()
    finally:
        apply_text_size(100)


def test_the_tree_hides_itself_in_a_narrow_window_until_it_is_asked_for(
    qtbot: QtBot, make_window: Callable[..., MainWindow], demo_path: Path
) -> None:
    window = make_window(demo_path)
    _show(qtbot, window, "planner")
    tree, action = window.shell.tree, window.actions_.show_tree
    assert action.isChecked() is tree.isVisible()
    for width, shown in ((1280, True), (960, False), (1280, True)):
        window.resize(width, 640)
        qtbot.waitUntil(lambda shown=shown: tree.isVisible() is shown)
        assert action.isChecked() is shown
    window.resize(960, 640)
    qtbot.waitUntil(lambda: not tree.isVisible())
    button = window.top.tree  # always in sight: it leads to the other open models
    assert not button.isChecked()
    button.click()
    assert tree.isVisible()
    assert button.isChecked()
    assert action.isChecked()
    window.panels.show_page("library")  # which has a tree of its own
    assert not button.isEnabled()
    assert not action.isEnabled()
    wait_idle(qtbot, window)


def test_all_pages_of_the_planner_are_seen_at_once(
    qtbot: QtBot, make_window: Callable[..., MainWindow], demo_path: Path, small_path: Path
) -> None:
    window = make_window(demo_path, small_path)
    _show(qtbot, window, "planner")
    body = window.panels.planner.widget.body
    assert body is not None
    bar = body.pages.tabBar()
    seen = [bar.tabText(place) for place in range(bar.count()) if bar.isTabVisible(place)]
    assert seen == ["Curves", "Details", "Use it", "Compare plans"]
    window.panels.planner.widget.compare_log("no log")
    assert bar.tabText(bar.currentIndex()) == "Log"  # once there is one
    assert all(bar.rect().contains(bar.tabRect(place)) for place in range(bar.count()))
