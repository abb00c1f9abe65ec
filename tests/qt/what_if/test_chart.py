"""Where the names of points are written in the chart of error against size."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QPointF, QRectF, QSizeF

from explorer.qt.what_if.chart import place_labels

AREA = QRectF(0, 0, 300, 200)
SIZE = QSizeF(40, 14)
NUMBER = st.floats(-20, 320, allow_nan=False)


def test_a_point_alone_has_its_name_at_the_upper_right() -> None:
    (place,) = place_labels([QPointF(100, 100)], [SIZE], AREA)
    assert place is not None
    assert place.left() > 100
    assert place.bottom() < 100
    assert place.size() == SIZE


def test_at_the_edge_another_side_is_taken() -> None:
    (place,) = place_labels([QPointF(299, 1)], [SIZE], AREA)
    assert place is not None
    assert AREA.contains(place)
    assert place.right() < 299


def test_outside_there_is_no_name_and_the_first_come_first() -> None:
    assert place_labels([QPointF(-1, 50)], [SIZE], AREA) == [None]
    crowd = [QPointF(100 + i, 100) for i in range(12)]
    places = place_labels(crowd, [SIZE] * 12, AREA)
    assert places[0] is not None
    assert None in places
    assert place_labels([], [], AREA) == []


def test_what_is_there_already_is_not_covered() -> None:
    (place,) = place_labels([QPointF(100, 100)], [SIZE], AREA)
    assert place is not None
    (other,) = place_labels([QPointF(100, 100)], [SIZE], AREA, [place])
    assert other is not None
    assert not other.intersects(place)
    assert place_labels([QPointF(100, 100)], [SIZE], AREA, [AREA]) == [None]


@given(st.lists(st.tuples(NUMBER, NUMBER), max_size=12))
def test_no_name_covers_another_or_a_point(points: list[tuple[float, float]]) -> None:
    spots = [QPointF(x, y) for x, y in points]
    places = [place for place in place_labels(spots, [SIZE] * len(spots), AREA) if place]
    for number, place in enumerate(places):
        assert AREA.contains(place)
        assert not any(place.intersects(other) for other in places[:number])
        assert not any(place.contains(spot) for spot in spots)
