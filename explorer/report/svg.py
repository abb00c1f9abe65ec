"""Bars of parts, one below the other on a common scale: types of roles, memory of plans."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from explorer.analysis import Histogram
from explorer.report.html import Child, Element, element
from explorer.text import float_text, integer_text, shorten

# Colours that every kind of colour vision tells apart; text says the same beside each of them.


# Okabe & Ito (jfly.uni-koeln.de/color), as in the window; the last is for all that is left
SERIES: Final = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
OTHER: Final = "#999999"

# cividis (Nuñez, Anderton and Renslow 2018, PLOS ONE 13(7)), eleven steps from dark to light
SCALE: Final = (
    "#00224e",
    "#123570",
    "#3b496c",
    "#575d6d",
    "#707173",
    "#8a8678",
    "#a59c74",
    "#c3b369",
    "#e1cc55",
    "#f2de4a",
    "#fee838",
)


def colours_of(names: Iterable[str]) -> dict[str, str]:
    """Return a colour for each name, in their order; beyond seven they share one."""
    found: dict[str, str] = {}
    for name in names:
        if name not in found:
            found[name] = SERIES[len(found)] if len(found) < len(SERIES) else OTHER
    return found


def ink_class(colour: str) -> str:
    """Return the class of text that can be read upon a colour (WCAG 2.2, relative luminance)."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "on-light" if luminance > 0.179 else "on-dark"


# Shapes that all pictures are made of. Lengths are in pixels, from the top left corner.


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


# A map of the model: a cell for each layer and role, coloured by a figure that it also shows.


_MAP_LABEL: Final = 150.0
_CELL: Final = 42.0
_MAP_ROW: Final = 20.0
_HEAD: Final = 20.0
_FOOT: Final = 42.0
_SWATCH: Final = 24.0
_LEAST_WIDTH: Final = 560.0


@dataclass(frozen=True)
class HeatMap:
    """What to draw.

    Attributes:
        title: What it shows.
        roles: Its rows, from top to bottom.
        layers: Its columns, from left to right.
        values: A figure by (role, layer).
        format: Returns a figure as a short text.
        logarithmic: Whether colours go by the figure's logarithm; figures of 0 are darkest then.
    """

    title: str
    roles: Sequence[str]
    layers: Sequence[int]
    values: Mapping[tuple[str, int], float]
    format: Callable[[float], str]
    logarithmic: bool = False

    def draw(self) -> Element:
        """Return the picture."""
        width = max(_LEAST_WIDTH, _MAP_LABEL + len(self.layers) * _CELL + 4)
        height = _HEAD + len(self.roles) * _MAP_ROW + _FOOT
        head = [
            text(str(layer), _MAP_LABEL + (i + 0.5) * _CELL, 13, anchor="middle", class_="faint")
            for i, layer in enumerate(self.layers)
        ]
        corner = text("layer", _MAP_LABEL - 8, 13, anchor="end", class_="faint")
        rows = [self._row(role, _HEAD + i * _MAP_ROW) for i, role in enumerate(self.roles)]
        return picture(width, height, self.title, corner, *head, *rows, *self._key(height - 28))

    def _row(self, role: str, top: float) -> Element:
        middle = top + 14
        row = element("g", text(fitted(role, _MAP_LABEL - 8), _MAP_LABEL - 8, middle, anchor="end"))
        for i, layer in enumerate(self.layers):
            value = self.values.get((role, layer))
            x = _MAP_LABEL + i * _CELL
            if value is None or not math.isfinite(value):
                row.append(
                    element(
                        "rect", x=x, y=top, width=_CELL - 1, height=_MAP_ROW - 1, class_="empty"
                    )
                )
                continue
            colour = SCALE[self._step(value)]
            shown = self.format(value)
            cell = element(
                "g",
                element("title", f"{role}, layer {layer}: {shown}"),
                element("rect", x=x, y=top, width=_CELL - 1, height=_MAP_ROW - 1, fill=colour),
                text(
                    shown, x + _CELL / 2, middle, anchor="middle", class_=ink_class(colour), size=10
                ),
            )
            row.append(cell)
        return row

    def _key(self, top: float) -> list[Element]:
        """Return the scale of colours with its ends, for they are told apart by text as well."""
        low, high = self._ends
        parts = []
        for step, colour in enumerate(SCALE):
            x = _MAP_LABEL + step * _SWATCH
            parts.append(element("rect", x=x, y=top, width=_SWATCH, height=12, fill=colour))
        end = _MAP_LABEL + len(SCALE) * _SWATCH
        kind = ", logarithmic" if self.logarithmic else ""
        parts += [
            text(self.format(low), _MAP_LABEL, top + 25, class_="faint"),
            text(self.format(high) + kind, end, top + 25, anchor="end", class_="faint"),
        ]
        return parts

    @cached_property
    def _ends(self) -> tuple[float, float]:
        """The least and the greatest figure that colours are told by."""
        known = [v for v in self.values.values() if math.isfinite(v)]
        if self.logarithmic:
            known = [v for v in known if v > 0] or [0.0]
        return (min(known), max(known)) if known else (0.0, 0.0)

    def _step(self, value: float) -> int:
        low, high = self._ends
        if high <= low:
            return len(SCALE) // 2
        if self.logarithmic:
            if value <= 0:
                return 0
            part = (math.log(value) - math.log(low)) / (math.log(high) - math.log(low))
        else:
            part = (value - low) / (high - low)
        return min(len(SCALE) - 1, max(0, int(part * len(SCALE))))


# A histogram as one outline; its heights are logarithmic, or outliers would not be seen.


_HISTOGRAM_WIDTH: Final = 380.0
_HEIGHT: Final = 150.0
_LEFT: Final = 8.0
_TOP: Final = 16.0
_BOTTOM: Final = 20.0


def draw_histogram(title: str, histogram: Histogram) -> Element:
    """Return a picture of a histogram; an empty one is a frame without a curve."""
    counts = histogram.counts.tolist()
    inner, height = _HISTOGRAM_WIDTH - 2 * _LEFT, _HEIGHT - _TOP - _BOTTOM
    base = _TOP + height
    most = max(counts, default=0)
    parts = [element("rect", x=_LEFT, y=_TOP, width=inner, height=height, class_="frame")]
    if most > 0:
        step, scale = inner / len(counts), height / math.log1p(most)
        tops = [base - math.log1p(count) * scale for count in counts]
        outline = "".join(
            f"L{_LEFT + i * step:.1f} {y:.1f}L{_LEFT + (i + 1) * step:.1f} {y:.1f}"
            for i, y in enumerate(tops)
        )
        path = f"M{_LEFT:.1f} {base:.1f}{outline}L{_LEFT + inner:.1f} {base:.1f}Z"
        parts.append(element("path", d=path, class_="curve"))
        parts += _axis(histogram, inner, base)
        parts.append(
            text(f"most in a bin: {integer_text(most)}", _LEFT, 11, class_="faint", size=10)
        )
    return picture(_HISTOGRAM_WIDTH, _HEIGHT, title, *parts)


def _axis(histogram: Histogram, inner: float, base: float) -> list[Element]:
    """Return the ends of the axis, and a line at 0 where that lies between them."""
    low, high = histogram.low, histogram.high
    parts = [
        text(float_text(low, 4), _LEFT, base + 13, class_="faint", size=10),
        text(float_text(high, 4), _LEFT + inner, base + 13, anchor="end", class_="faint", size=10),
    ]
    if low < 0 < high:
        x = _LEFT + inner * (-low / (high - low))
        parts.append(element("line", x1=x, x2=x, y1=_TOP, y2=base, class_="axis"))
        if 40 < x < _HISTOGRAM_WIDTH - 40:
            parts.append(text("0", x, base + 13, anchor="middle", class_="faint", size=10))
    return parts
