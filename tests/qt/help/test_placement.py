"""A box of the tour never covers what it points at, wherever that is."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from PySide6.QtCore import QRect, QSize, Qt

from explorer.qt.help.menu import Side, place_beside

LEFT_TO_RIGHT, RIGHT_TO_LEFT = Qt.LayoutDirection.LeftToRight, Qt.LayoutDirection.RightToLeft
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
    placement = place_beside(BOX, target, ROOM, LEFT_TO_RIGHT)
    assert placement.side is side
    assert ROOM.contains(placement.area)
    assert placement.area.size() == BOX


def test_a_mirrored_window_is_tried_from_the_other_side() -> None:
    target = QRect(350, 0, 300, 690)
    assert place_beside(BOX, target, ROOM, LEFT_TO_RIGHT).side is Side.RIGHT
    assert place_beside(BOX, target, ROOM, RIGHT_TO_LEFT).side is Side.LEFT


@given(
    left=st.integers(0, 990),
    top=st.integers(0, 690),
    width=st.integers(1, 1000),
    height=st.integers(1, 700),
    direction=st.sampled_from([LEFT_TO_RIGHT, RIGHT_TO_LEFT]),
)
def test_a_thing_that_leaves_room_is_never_covered(
    left: int, top: int, width: int, height: int, direction: Qt.LayoutDirection
) -> None:
    target = QRect(left, top, width, height).intersected(ROOM)
    placement = place_beside(BOX, target, ROOM, direction)
    assert ROOM.contains(placement.area)
    beside = max(target.left(), ROOM.right() - target.right()) >= BOX.width() + 8
    above = max(target.top(), ROOM.bottom() - target.bottom()) >= BOX.height() + 8
    assume(beside or above)
    assert placement.side is not None
    assert not placement.area.intersects(target)
