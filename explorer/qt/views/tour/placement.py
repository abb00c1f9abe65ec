"""Where a box stands so that it points at something and covers none of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from PySide6.QtCore import QPoint, QRect, QSize, Qt

GAP: Final = 6
"""Pixels between the box and what it points at."""


class Side(Enum):
    """On which side of a thing a box stands."""

    BELOW = auto()
    RIGHT = auto()
    LEFT = auto()
    ABOVE = auto()


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a box stands.

    Attributes:
        area: The box.
        side: On which side of the thing; None if it points at nothing.
    """

    area: QRect
    side: Side | None


def place_beside(
    size: QSize, target: QRect, room: QRect, direction: Qt.LayoutDirection
) -> Placement:
    """Place a box beside a thing, on the first side that has room for it.

    Where no side has, as in a very small window, it stands in the corner farthest from the thing,
    and points at nothing.

    Args:
        size: Size of the box.
        target: The thing; nothing if it is empty.
        room: Where the box may be.
        direction: Which of left and right is tried first.
    """
    if target.isEmpty():
        return Placement(_inside(_centred(size, room.center()), room), None)
    onwards = (Side.RIGHT, Side.LEFT)
    if direction == Qt.LayoutDirection.RightToLeft:
        onwards = (Side.LEFT, Side.RIGHT)
    for side in (Side.BELOW, *onwards, Side.ABOVE):
        area = _inside(_beside(size, target, side), room)
        if room.contains(area) and not area.intersects(target.adjusted(-1, -1, 1, 1)):
            return Placement(area, side)
    return Placement(_far_corner(size, target, room), None)


def _beside(size: QSize, target: QRect, side: Side) -> QRect:
    """Return a box beside a thing, its middle as near as can be."""
    area = _centred(size, target.center())
    match side:
        case Side.BELOW:
            area.moveTop(target.bottom() + 1 + GAP)
        case Side.ABOVE:
            area.moveBottom(target.top() - 1 - GAP)
        case Side.RIGHT:
            area.moveLeft(target.right() + 1 + GAP)
        case Side.LEFT:
            area.moveRight(target.left() - 1 - GAP)
    return area


def _centred(size: QSize, middle: QPoint) -> QRect:
    area = QRect(QPoint(0, 0), size)
    area.moveCenter(middle)
    return area


def _inside(area: QRect, room: QRect) -> QRect:
    """Return a box moved into the room, as far as it fits."""
    moved = QRect(area)
    moved.moveRight(min(moved.right(), room.right()))
    moved.moveLeft(max(moved.left(), room.left()))
    moved.moveBottom(min(moved.bottom(), room.bottom()))
    moved.moveTop(max(moved.top(), room.top()))
    return moved


def _far_corner(size: QSize, target: QRect, room: QRect) -> QRect:
    area = QRect(room.topLeft(), size)
    if target.center().x() < room.center().x():
        area.moveRight(room.right())
    if target.center().y() < room.center().y():
        area.moveBottom(room.bottom())
    return _inside(area, room)
