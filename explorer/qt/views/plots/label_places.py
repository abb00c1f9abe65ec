"""Where the names of points go so that none covers another one, or a point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import QPointF, QRectF, QSizeF

_GAP: Final = 6.0  # pixels between a point and its name
_POINT: Final = 9.0  # what a point itself covers
# Directions from a point, the preferred ones first. A curve that falls leaves the upper right free.
_WAYS: Final = ((1, -1), (1, 0), (0, -1), (-1, 0), (0, 1), (-1, 1), (-1, -1), (1, 1))


def place_labels(
    points: Sequence[QPointF],
    sizes: Sequence[QSizeF],
    area: QRectF,
    others: Sequence[QRectF] = (),
) -> list[QRectF | None]:
    """Return a free place beside each point, in pixels; None where there is none.

    Args:
        points: The points, the most important ones first: these find room first.
        sizes: Of their names.
        area: What the names must not leave.
        others: What they must not cover besides.
    """
    around = QSizeF(_POINT, _POINT)
    taken = list(others)
    taken += [
        QRectF(point - QPointF(_POINT / 2, _POINT / 2), around)
        for point in points
        if area.contains(point)
    ]
    found: list[QRectF | None] = []
    for point, size in zip(points, sizes, strict=True):
        place = _free_place(point, size, area, taken) if area.contains(point) else None
        found.append(place)
        if place is not None:
            taken.append(place)
    return found


def _free_place(
    point: QPointF, size: QSizeF, area: QRectF, taken: Sequence[QRectF]
) -> QRectF | None:
    for across, down in _WAYS:
        left = point.x() - size.width() / 2 + across * (size.width() / 2 + _GAP)
        top = point.y() - size.height() / 2 + down * (size.height() / 2 + _GAP)
        place = QRectF(QPointF(left, top), size)
        if area.contains(place) and not any(place.intersects(other) for other in taken):
            return place
    return None
