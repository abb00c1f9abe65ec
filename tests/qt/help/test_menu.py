"""The tour by mouse and keys, in windows of any size; its boxes never cover their targets."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from explorer.qt.help.menu import Side, Tour, place_beside
from explorer.qt.main_window import MainWindow
from explorer.qt.settings import Settings
from explorer.qt.theme import Scheme, apply_scheme
from tests.helpers.window import wait_idle

Key = Qt.Key


@pytest.fixture
def tour(window: MainWindow) -> Tour:
    window.actions_.tour.trigger()
    assert window.help.tour is not None
    return window.help.tour


def settle() -> None:
    for _ in range(3):
        QApplication.processEvents()


def test_every_box_points_at_something_and_covers_none_of_it(
    qtbot: QtBot, window: MainWindow, tour: Tour
) -> None:
    titles = []
    while window.help.tour is not None:
        settle()
        target = tour.target()
        assert not target.isEmpty()
        assert not tour.callout.geometry().intersects(target)
        assert window.rect().contains(tour.callout.geometry())
        titles.append(tour.callout.title.text())
        tour.callout.next.click()
    assert len(set(titles)) == len(titles) == 5
    wait_idle(qtbot, window)


def test_without_a_model_it_shows_the_demo_model_for_as_long_as_it_lasts(
    qtbot: QtBot, make_window: Callable[..., MainWindow], settings: Settings
) -> None:
    """As at the very first start of somebody who has downloaded models: the library is shown."""
    window = make_window()
    window.panels.show_page("library")
    wait_idle(qtbot, window)
    window.help.start_tour_once()
    tour = window.help.tour
    assert tour is not None
    pages = []
    while window.help.tour is not None:
        if tour.stop:
            qtbot.waitUntil(lambda: len(window.documents) == 1)
        wait_idle(qtbot, window)
        settle()
        assert not tour.target().isEmpty(), tour.stop  # it points at what it speaks of
        pages.append(window.panels.page)
        tour.callout.next.click()
    assert pages == ["library", "overview", "weights", "planner", "planner"]
    assert window.panels.page == "library"
    assert window.documents == []
    assert settings.session == []
    window.help.start_tour()
    assert window.help.tour is not None
    window.help.tour.go_to(1)
    window.help.tour.callout.skip.click()  # before it is there
    wait_idle(qtbot, window)
    assert window.documents == []
    window.panels.library.widget.watch.watch(())


def test_it_follows_the_window_as_it_is_resized_and_its_splitter_moved(
    qtbot: QtBot, window: MainWindow, tour: Tour
) -> None:
    tour.go_to(1)  # the tree
    for width, height in ((900, 600), (1600, 1000), (760, 480)):
        window.resize(width, height)
        settle()
        assert window.rect().contains(tour.callout.geometry())
        assert not tour.callout.geometry().intersects(tour.target())
    window.resize(1400, 800)
    tour.go_to(1)
    settle()
    before = tour.callout.geometry()
    sizes = window.splitter.sizes()
    window.splitter.setSizes([sizes[0] + 80, sizes[1] - 80])
    settle()
    assert tour.callout.geometry() != before
    assert not tour.callout.geometry().intersects(tour.target())


def test_keys_go_on_back_and_away(qtbot: QtBot, window: MainWindow, tour: Tour) -> None:
    assert tour.callout.next.hasFocus()
    for key, stop in ((Key.Key_Right, 1), (Key.Key_Right, 2), (Key.Key_Left, 1), (Key.Key_Left, 0)):
        qtbot.keyClick(QApplication.focusWidget(), key)
        assert tour.stop == stop
    qtbot.keyClick(QApplication.focusWidget(), Key.Key_Left)
    assert tour.stop == 0
    qtbot.keyClick(QApplication.focusWidget(), Key.Key_Escape)
    assert window.help.tour is None
    assert not tour.callout.isVisible()


def test_enter_and_space_press_the_button_that_has_the_focus(
    qtbot: QtBot, window: MainWindow, tour: Tour
) -> None:
    qtbot.keyClick(tour.callout.next, Key.Key_Return)
    assert tour.stop == 1
    tour.callout.back.setFocus()
    qtbot.keyClick(tour.callout.back, Key.Key_Space)
    assert tour.stop == 0


def test_the_window_works_while_the_tour_is_there(
    qtbot: QtBot, window: MainWindow, tour: Tour
) -> None:
    window.panels.setCurrentWidget(window.panels.metadata)
    window.panels.metadata.widget.list.bar.edit.setFocus()
    qtbot.keyClicks(window.panels.metadata.widget.list.bar.edit, "llama")
    qtbot.keyClick(window.panels.metadata.widget.list.bar.edit, Key.Key_Escape)
    assert window.help.tour is tour  # this Escape was the filter's
    assert window.panels.metadata.widget.list.bar.text == ""
    wait_idle(qtbot, window)


def test_what_is_out_of_sight_is_not_pointed_at(window: MainWindow, tour: Tour) -> None:
    tour.go_to(2)  # the pages of the weights, which it brings into sight
    assert window.panels.currentWidget() is window.panels.weights
    assert not tour.target().isEmpty()
    window.panels.setCurrentWidget(window.panels.planner)  # the only page of its group
    settle()
    assert tour.target() == QRect()
    assert window.rect().contains(tour.callout.geometry())


def test_a_screen_reader_hears_where_one_is(window: MainWindow, tour: Tour) -> None:
    tour.go_to(2)
    spoken = tour.callout.accessibleDescription()
    assert tour.callout.title.text() in spoken
    assert tour.callout.text.text() in spoken
    assert "3 of 5" in spoken
    assert tour.callout.next.accessibleDescription() == spoken
    assert tour.callout.accessibleName()


def test_the_last_box_says_done_and_gives_the_keyboard_back(
    qtbot: QtBot, window: MainWindow
) -> None:
    window.open_models.tree.setFocus()
    window.actions_.tour.trigger()
    tour = window.help.tour
    assert tour is not None
    tour.callout.skip.setFocus()
    for _ in range(4):
        tour.callout.next_wanted.emit()
    assert tour.callout.next.text().replace("&", "") == "Done"
    assert tour.callout.skip.isHidden()
    assert tour.callout.next.hasFocus()  # not lost with the button that is gone
    tour.callout.next.click()
    assert window.help.tour is None
    assert window.open_models.tree.hasFocus()
    wait_idle(qtbot, window)


@pytest.mark.parametrize("scheme", [Scheme.LIGHT, Scheme.DARK, Scheme.CONTRAST])
def test_the_box_stands_out_in_all_colours(window: MainWindow, tour: Tour, scheme: Scheme) -> None:
    try:
        apply_scheme(scheme)
        settle()
        picture = tour.callout.grab().toImage()
        middle = picture.width() // 2
        column = [picture.pixelColor(middle, y).name() for y in range(picture.height())]
        palette = window.palette()
        assert palette.toolTipBase().color().name() in column
        assert palette.highlight().color().name() in column
    finally:
        apply_scheme(Scheme.SYSTEM)


BOX = QSize(300, 150)
ROOM = QRect(0, 0, 1000, 700)


@pytest.mark.parametrize(
    ("target", "side"),
    [
        (QRect(400, 10, 50, 20), Side.BELOW),
        (QRect(0, 0, 380, 690), Side.RIGHT),
        (QRect(620, 0, 380, 690), Side.LEFT),
        (QRect(0, 400, 1000, 300), Side.ABOVE),
        (QRect(0, 0, 1000, 700), None),
        (QRect(), None),
    ],
)
def test_the_first_side_with_room(target: QRect, side: Side | None) -> None:
    placement = place_beside(BOX, target, ROOM)
    assert placement.side is side
    assert ROOM.contains(placement.area)
    assert placement.area.size() == BOX


@given(
    left=st.integers(0, 990),
    top=st.integers(0, 690),
    width=st.integers(1, 1000),
    height=st.integers(1, 700),
)
def test_a_thing_that_leaves_room_is_never_covered(
    left: int, top: int, width: int, height: int
) -> None:
    target = QRect(left, top, width, height).intersected(ROOM)
    placement = place_beside(BOX, target, ROOM)
    assert ROOM.contains(placement.area)
    beside = max(target.left(), ROOM.right() - target.right()) >= BOX.width() + 8
    above = max(target.top(), ROOM.bottom() - target.bottom()) >= BOX.height() + 8
    assume(beside or above)
    assert placement.side is not None
    assert not placement.area.intersects(target)
