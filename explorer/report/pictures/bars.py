"""Bars of parts, one below the other on a common scale: types of roles, memory of plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from explorer.report.elements import Element, element
from explorer.report.pictures.drawing import CHARACTER_WIDTH, Rectangle, box, fitted, picture, text

_WIDTH = 860.0
_LABEL = 170.0
_VALUE = 170.0
_ROW = 26.0
_BAR = 19.0


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a bar.

    Attributes:
        name: What it is; drawn where there is room.
        amount: How much.
        amount_text: The same for people.
        colour: Its colour.
    """

    name: str
    amount: float
    amount_text: str
    colour: str


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar.

    Attributes:
        label: What stands before it.
        parts: What it is made of, from left to right.
        value: What stands behind it.
        limit: Where a mark is drawn, on the scale of the amounts; None for no mark.
    """

    label: str
    parts: Sequence[Part]
    value: str
    limit: float | None = None


def draw_bars(title: str, bars: Sequence[Bar]) -> Element:
    """Return a picture of bars; the longest one, or the farthest mark, fills the width."""
    longest = max(
        (max(sum(part.amount for part in bar.parts), bar.limit or 0) for bar in bars), default=0
    )
    scale = (_WIDTH - _LABEL - _VALUE) / longest if longest else 0
    rows = [_draw_bar(bar, scale, number * _ROW) for number, bar in enumerate(bars)]
    return picture(_WIDTH, max(_ROW, len(bars) * _ROW), title, *rows, kind="bars")


def _draw_bar(bar: Bar, scale: float, top: float) -> Element:
    middle = top + _BAR / 2 + 4
    label = text(fitted(bar.label, _LABEL - 8), _LABEL - 8, middle, anchor="end")
    row = element("g", element("g", element("title", bar.label), label))
    x = _LABEL
    for part in bar.parts:
        width = part.amount * scale
        if part.amount > 0:
            row.append(
                box(Rectangle(x, top, width, _BAR), part.colour, _told(bar, part), part.name)
            )
        x += width
    end = x
    if bar.limit is not None:
        mark = _LABEL + bar.limit * scale
        row.append(
            element(
                "line",
                x1=mark,
                x2=mark,
                y1=top - 2,
                y2=top + _BAR + 2,
                class_="axis",
                stroke_width=2,
                stroke_dasharray="3 2",
            )
        )
        if 0 <= mark - x < len(bar.value) * CHARACTER_WIDTH + 12:  # the text would stand on it
            end = mark
    row.append(text(fitted(bar.value, _WIDTH - end - 6), end + 6, middle, class_="faint"))
    return row


def _told(bar: Bar, part: Part) -> str:
    return f"{bar.label}, {part.name}: {part.amount_text}"
