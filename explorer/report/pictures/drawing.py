"""Shapes that all pictures are made of. Lengths are in pixels, from the top left corner."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.report.elements import Child, Element, element
from explorer.report.pictures.palette import ink_class
from explorer.text import shorten

CHARACTER_WIDTH = 6.2
"""Pixels of a character at the usual size; rather too many than too few."""

FONT_SIZE = 11


def picture(
    width: float, height: float, title: str, *children: Child, kind: str = "fixed"
) -> Element:
    """Return an SVG picture that is `width` pixels wide; `kind` is a class of `stylesheet`."""
    return element(
        "svg",
        element("title", title),
        *children,
        role="img",
        class_=kind,
        width=width,
        viewBox=f"0 0 {width:g} {height:g}",
    )


def text(  # noqa: PLR0913 - all but place and content have a default
    content: str,
    x: float,
    y: float,
    *,
    anchor: str = "start",
    class_: str = "ink",
    size: float = FONT_SIZE,
) -> Element:
    """Return a line of text; `y` is its base line."""
    return element("text", content, x=x, y=y, text_anchor=anchor, class_=class_, font_size=size)


@dataclass(frozen=True, slots=True)
class Rectangle:
    """Where a box is, in pixels from the top left corner."""

    x: float
    y: float
    width: float
    height: float


def box(at: Rectangle, colour: str, title: str, label: str = "") -> Element:
    """Return a coloured rectangle that says what it is when pointed at, and if there is room."""
    width = max(at.width, 0.5)  # what is there at all is seen
    found = element(
        "g",
        element("title", title),
        element("rect", x=at.x, y=at.y, width=width, height=at.height, fill=colour),
    )
    if label and len(label) * CHARACTER_WIDTH + 6 <= at.width:
        middle, line = at.x + at.width / 2, at.y + at.height / 2 + FONT_SIZE * 0.36
        found.append(text(label, middle, line, anchor="middle", class_=ink_class(colour)))
    return found


def fitted(label: str, width: float) -> str:
    """Return as much of a text as fits into a width in pixels."""
    return shorten(label, max(3, int(width / CHARACTER_WIDTH)))


def legend(entries: list[tuple[str, str]]) -> Element:
    """Return what the colours mean: (name, colour) of each."""
    items = []
    for name, colour in entries:
        swatch = element(
            "svg",
            element("rect", x=0, y=0, width=14, height=14, fill=colour),
            width=14,
            viewBox="0 0 14 14",
        )
        items.append(element("li", swatch, element("span", name)))
    return element("ul", *items, class_="legend")
