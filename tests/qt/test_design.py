"""What design rules can be measured: one left edge, no boxes around tables, one place of tokens."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtGui import QFont
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QFrame,
    QGraphicsView,
    QLabel,
    QLineEdit,
    QStyle,
    QTabBar,
    QTableView,
    QTreeView,
    QWidget,
)
from pytestqt.qtbot import QtBot

from explorer.qt.main_window import MainWindow
from explorer.qt.panels import GROUPS
from explorer.qt.references import Rounding
from explorer.qt.theme import Space, apply_text_size, scaled
from explorer.qt.widgets.labels import StatePage, Tile
from tests.helpers.everywhere import dialogs, everywhere, visible
from tests.helpers.window import wait_idle

_QT = Path(__file__).parents[2] / "explorer" / "qt"
_PAGES = [page for pages in GROUPS.values() for page in pages]
_SEEN = (QAbstractButton, QLineEdit, QComboBox, QAbstractSpinBox, QTabBar, QAbstractItemView)
_DRAWN = (QGraphicsView, Tile, QLabel)
_ROUNDING = 1  # pixel


def _parts(page: QWidget) -> Iterator[QWidget]:
    """Yield what is seen of a page, but not what is inside tiles, tables and other controls."""
    for part in page.findChildren(QWidget):
        if not part.isVisible() or not isinstance(part, (*_SEEN, *_DRAWN)):
            continue
        if isinstance(part, QLabel) and not part.text():
            continue
        above = part.parentWidget()
        while above is not None and above is not page:
            if isinstance(above, (*_SEEN, QGraphicsView, Tile)):
                break
            above = above.parentWidget()
        else:
            yield part


def _show(qtbot: QtBot, window: MainWindow, page: str) -> None:
    window.resize(1280, 800)
    window.panels.show_page(page)
    if page == "planner":
        qtbot.waitUntil(lambda: window.panels.planner.widget.body is not None)
    wait_idle(qtbot, window)
    QApplication.processEvents()


@pytest.mark.parametrize("page", _PAGES)
def test_head_and_body_of_every_page_have_one_left_edge(
    qtbot: QtBot, window: MainWindow, page: str
) -> None:
    """A part begins at the margin of 24 pixels, or clearly further in: never a little beside it."""
    _show(qtbot, window, page)
    shell, panels = window.shell, window.panels
    pages = shell.head.parentWidget()
    assert pages is not None
    assert shell.head.mapTo(pages, QPoint(0, 0)).x() == Space.PAGE
    assert panels.mapTo(pages, QPoint(0, 0)).x() == Space.PAGE
    assert pages.width() - shell.head.mapTo(pages, QPoint(shell.head.width(), 0)).x() == Space.PAGE
    edges = {}
    for part in _parts(panels.currentWidget()):
        edges[f"{type(part).__name__} {part.accessibleName()}"] = part.mapTo(
            pages, QPoint(0, 0)
        ).x()
    assert edges
    begun = {name: x for name, x in edges.items() if x < Space.PAGE + Space.GROUP}
    sentences = panels.currentWidget().findChildren(StatePage)
    assert begun or any(one.isVisible() for one in sentences), "nothing stands at the margin"
    assert {name: x for name, x in begun.items() if abs(x - Space.PAGE) > _ROUNDING} == {}


@pytest.mark.parametrize("page", _PAGES)
def test_nothing_of_a_page_is_cut_off_at_its_right_edge(
    qtbot: QtBot, window: MainWindow, page: str
) -> None:
    _show(qtbot, window, page)
    body = window.panels.currentWidget()
    over = {}
    for part in _parts(body):
        right = part.mapTo(body, QPoint(part.width(), 0)).x()
        if right > body.width():
            over[f"{type(part).__name__} {part.accessibleName()}"] = right - body.width()
    assert over == {}


@pytest.mark.parametrize("page", _PAGES)
def test_tables_have_no_boxes(qtbot: QtBot, window: MainWindow, page: str) -> None:
    _show(qtbot, window, page)
    tables = window.panels.currentWidget().findChildren(QTableView)
    assert [
        table.accessibleName() for table in tables if table.frameShape() != QFrame.Shape.NoFrame
    ] == []
    assert [table.accessibleName() for table in tables if table.alternatingRowColors()] == []


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


@pytest.mark.parametrize("percent", [100, 150, 200])
def test_buttons_of_the_planner_are_whole_at_every_size_of_text(
    qtbot: QtBot, make_window: Callable[..., MainWindow], demo_path: Path, percent: int
) -> None:
    apply_text_size(percent)
    try:
        window = make_window(demo_path)
        _show(qtbot, window, "planner")
        body = window.panels.planner.widget.body
        assert body is not None
        qtbot.waitUntil(body.answer.questions["context"].isVisible)
        buttons = list(body.answer.questions.values())
        narrow = [one.text() for one in buttons if one.width() < one.sizeHint().width()]
        assert narrow == []
        areas = [QRect(one.mapTo(body, QPoint(0, 0)), one.size()) for one in buttons]
        assert all(not one.intersects(other) for one, other in combinations(areas, 2))
        assert all(body.rect().contains(area) for area in areas)
        assert body.side.width() >= body.side.widget().minimumSizeHint().width()
    finally:
        apply_text_size(100)


def test_all_pages_of_the_planner_are_seen_at_once(
    qtbot: QtBot, make_window: Callable[..., MainWindow], demo_path: Path, small_path: Path
) -> None:
    window = make_window(demo_path, small_path)
    _show(qtbot, window, "planner")
    body = window.panels.planner.widget.body
    assert body is not None
    bar = body.pages.tabBar()
    seen = [bar.tabText(place) for place in range(bar.count()) if bar.isTabVisible(place)]
    assert len(seen) == 8
    assert "Models" in seen
    assert all(bar.rect().contains(bar.tabRect(place)) for place in range(bar.count()))


_MATRIX = "Values"  # a tensor's numbers: as many columns as the tensor has


def _too_wide(view: QTableView | QTreeView) -> Iterator[str]:
    """Yield what of a list is not seen: what must be scrolled to sideways, titles without ends."""
    header = view.horizontalHeader() if isinstance(view, QTableView) else view.header()
    bar = view.horizontalScrollBar()
    if bar.maximum() and bar.isVisible():
        yield f"is scrolled sideways by {bar.maximum()}"
    margins = 2 * header.style().pixelMetric(QStyle.PixelMetric.PM_HeaderMargin, None, header)
    for column in range(0 if header.isHidden() else header.count()):
        title = str(view.model().headerData(column, Qt.Orientation.Horizontal) or "")
        needed = header.fontMetrics().horizontalAdvance(title) + margins
        if not header.isSectionHidden(column) and header.sectionSize(column) < needed:
            yield f"cuts off {title}"


@pytest.mark.parametrize("model", ["demo", pytest.param("real", marks=pytest.mark.slow)])
def test_no_table_is_scrolled_sideways_and_no_title_is_cut_off(
    qtbot: QtBot,
    make_window: Callable[..., MainWindow],
    demo_path: Path,
    request: pytest.FixtureRequest,
    model: str,
) -> None:
    """At the usual size of a window, with the tree open, in every table as it is at first."""
    path = demo_path if model == "demo" else request.getfixturevalue("real_model")
    window = make_window(path, demo_path) if model == "real" else make_window(path)
    window.showNormal()
    window.resize(1280, 800)
    document, found, walked = window.documents[0], set(), set()
    window.show_document(document)
    matrices = (document.arrays.layers >= 0) * document.arrays.parameters
    window.reveal_tensor(document, int(matrices.argmax()))
    for reference in (None, Rounding("Q4_0"), *window.documents[1:]):
        window.panels.references.choose(reference)
        for place, page in everywhere(qtbot, window):
            for view in visible(page):
                if isinstance(view, QTableView | QTreeView) and view.model() is not None:
                    name = view.accessibleName()
                    walked.add(name)
                    if name != _MATRIX:
                        found |= {f"{place}: {name} {what}" for what in _too_wide(view)}
    for place, dialog in dialogs(qtbot, window):
        for view in dialog.findChildren(QTableView):
            found |= {f"{place}: {view.accessibleName()} {what}" for what in _too_wide(view)}
    assert found == set()
    assert {"Tensors", "Metadata", "Types", "Recipes, the best first", "Scenarios"} <= walked
