"""Pictures of a report as lists of shapes with their places; the template writes them as SVG.

All lengths are in pixels from the top left corner. No markup is made here: texts are escaped where
the template writes them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, TypeAlias

from explorer.analysis.histogram import Histogram
from explorer.text import float_text, integer_text, shorten

OTHER: Final = "#999999"
"""The colour of all that is left."""

# cividis (Nuñez, Anderton and Renslow 2018, PLOS ONE 13(7)), eleven steps from dark to light
SCALE: Final = (
    *("#00224e", "#123570", "#3b496c", "#575d6d", "#707173", "#8a8678"),
    *("#a59c74", "#c3b369", "#e1cc55", "#f2de4a", "#fee838"),
)

_CHARACTER: Final = 6.2  # width of a character at the usual size; rather too wide than too narrow
_FONT: Final = 11


@dataclass(frozen=True, slots=True)
class Text:
    """A line of text; `y` is its base line, `kind` a class of the style sheet."""

    shape: ClassVar = "text"
    content: str
    x: float
    y: float
    anchor: str = "start"
    kind: str = "ink"
    size: float = _FONT
    title: str = ""


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle, filled with a colour or drawn by a class; its title is a tool tip."""

    shape: ClassVar = "box"
    x: float
    y: float
    width: float
    height: float
    fill: str = ""
    kind: str = ""
    title: str = ""
    label: Text | None = None
    pattern: str = ""  # drawn over the colour, one of `explorer.present.colours.Pattern`


@dataclass(frozen=True, slots=True)
class Line:
    """A vertical line."""

    shape: ClassVar = "line"
    x: float
    top: float
    bottom: float
    dashed: bool = False
    title: str = ""


@dataclass(frozen=True, slots=True)
class Curve:
    """A filled outline; `path` is SVG path data."""

    shape: ClassVar = "curve"
    path: str
    title: str = ""


Shape: TypeAlias = Text | Box | Line | Curve


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture with its title for screen readers; `kind` is a class of the style sheet."""

    title: str
    width: float
    height: float
    shapes: Sequence[Shape]
    kind: str = "fixed"


def pictures_in(part: object) -> Iterator[Picture]:
    """Yield the pictures in the variables of a template, in their order."""
    if isinstance(part, Picture):
        yield part
    elif isinstance(part, Mapping):
        for inner in part.values():
            yield from pictures_in(inner)
    elif isinstance(part, (list, tuple)):
        for inner in part:
            yield from pictures_in(inner)


def ink_class(colour: str) -> str:
    """Return the class of text that is readable on a colour (WCAG 2.2, relative luminance)."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "on-light" if luminance > 0.179 else "on-dark"


def _fitted(label: str, width: float) -> str:
    return shorten(label, max(3, int(width / _CHARACTER)))


# Bars of parts, one below the other on a common scale: types of roles, memory of plans.

_WIDTH: Final = 860.0
_LABEL: Final = 170.0
_VALUE: Final = 170.0
_ROW: Final = 26.0
_BAR: Final = 19.0


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a bar."""

    name: str  # its name; drawn where there is room
    amount: float  # its length on the scale of the bars
    text: str  # the amount for people
    colour: str
    pattern: str = ""  # drawn over it


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar."""

    label: str  # the text before it
    parts: Sequence[Part]  # its parts, from left to right
    value: str  # the text behind it
    # where a mark is drawn, on the scale of the amounts; None for no mark
    limit: float | None = None


def draw_bars(title: str, bars: Sequence[Bar]) -> Picture:
    """Return a picture of bars; the longest one, or the farthest mark, fills the width."""
    longest = max(
        (max(sum(part.amount for part in bar.parts), bar.limit or 0) for bar in bars), default=0
    )
    scale = (_WIDTH - _LABEL - _VALUE) / longest if longest else 0
    shapes = [shape for i, bar in enumerate(bars) for shape in _bar(bar, scale, i * _ROW)]
    return Picture(title, _WIDTH, max(_ROW, len(bars) * _ROW), shapes, "bars")


def _bar(bar: Bar, scale: float, top: float) -> Iterable[Shape]:
    middle = top + _BAR / 2 + 4
    yield Text(_fitted(bar.label, _LABEL - 8), _LABEL - 8, middle, "end", title=bar.label)
    x = _LABEL
    for part in bar.parts:
        width = part.amount * scale
        if part.amount > 0:
            label = None
            if len(part.name) * _CHARACTER + 6 <= width:
                at = (x + width / 2, top + _BAR / 2 + _FONT * 0.36)
                label = Text(part.name, *at, "middle", ink_class(part.colour))
            title = f"{bar.label}, {part.name}: {part.text}"
            # half a pixel at least: a part that is not empty must be visible
            fill = part.colour, "", title, label, part.pattern
            yield Box(x, top, max(width, 0.5), _BAR, *fill)
        x += width
    end = x
    if bar.limit is not None:
        mark = _LABEL + bar.limit * scale
        yield Line(mark, top - 2, top + _BAR + 2, dashed=True)
        if 0 <= mark - x < len(bar.value) * _CHARACTER + 12:  # the text would cover it
            end = mark
    yield Text(_fitted(bar.value, _WIDTH - end - 6), end + 6, middle, kind="faint")


# A map of the model: a cell for each layer and role, coloured by a figure that it also shows.

_MAP_LABEL: Final = 150.0
_CELL: Final = 42.0
_MAP_ROW: Final = 20.0
_HEAD: Final = 20.0
_FOOT: Final = 42.0
_SWATCH: Final = 24.0
_MIN_WIDTH: Final = 560.0


@dataclass(frozen=True)
class HeatMap:
    """A map to draw."""

    title: str  # what it shows
    roles: Sequence[str]  # its rows, from top to bottom
    layers: Sequence[int]  # its columns, from left to right
    values: Mapping[tuple[str, int], float]  # a figure by (role, layer)
    text_of: Callable[[float], str]  # returns a figure as a short text
    # whether colours follow the figure's logarithm; figures of 0 are darkest then
    logarithmic: bool = False

    def draw(self) -> Picture:
        known = [v for v in self.values.values() if math.isfinite(v)]
        if self.logarithmic:
            known = [v for v in known if v > 0]
        ends = (min(known, default=0.0), max(known, default=0.0))
        width = max(_MIN_WIDTH, _MAP_LABEL + len(self.layers) * _CELL + 4)
        height = _HEAD + len(self.roles) * _MAP_ROW + _FOOT
        shapes: list[Shape] = [Text("layer", _MAP_LABEL - 8, 13, "end", "faint")]
        for i, layer in enumerate(self.layers):
            shapes.append(Text(str(layer), _MAP_LABEL + (i + 0.5) * _CELL, 13, "middle", "faint"))
        for i, role in enumerate(self.roles):
            top = _HEAD + i * _MAP_ROW
            shapes.append(Text(_fitted(role, _MAP_LABEL - 8), _MAP_LABEL - 8, top + 14, "end"))
            shapes += [
                self._cell(role, layer, _MAP_LABEL + j * _CELL, top, ends)
                for j, layer in enumerate(self.layers)
            ]
        return Picture(self.title, width, height, [*shapes, *self._key(height - 28, ends)])

    def _cell(
        self, role: str, layer: int, x: float, top: float, ends: tuple[float, float]
    ) -> Shape:
        value = self.values.get((role, layer))
        if value is None or not math.isfinite(value):
            return Box(x, top, _CELL - 1, _MAP_ROW - 1, kind="empty")
        colour, shown = SCALE[self._step(value, *ends)], self.text_of(value)
        label = Text(shown, x + _CELL / 2, top + 14, "middle", ink_class(colour), 10)
        title = f"{role}, layer {layer}: {shown}"
        return Box(x, top, _CELL - 1, _MAP_ROW - 1, colour, title=title, label=label)

    def _key(self, top: float, ends: tuple[float, float]) -> Iterable[Shape]:
        """Yield the scale of colours, and its ends as text."""
        for step, colour in enumerate(SCALE):
            yield Box(_MAP_LABEL + step * _SWATCH, top, _SWATCH, 12, colour)
        low, high = map(self.text_of, ends)
        kind = ", logarithmic" if self.logarithmic else ""
        yield Text(low, _MAP_LABEL, top + 25, kind="faint")
        yield Text(high + kind, _MAP_LABEL + len(SCALE) * _SWATCH, top + 25, "end", "faint")

    def _step(self, value: float, low: float, high: float) -> int:
        if high <= low:
            return len(SCALE) // 2
        if self.logarithmic:
            if value <= 0:
                return 0
            value, low, high = math.log(value), math.log(low), math.log(high)
        return min(len(SCALE) - 1, max(0, int((value - low) / (high - low) * len(SCALE))))


# A histogram as one outline; its heights are logarithmic, or outliers would be invisible.

_HISTOGRAM_WIDTH: Final = 380.0
_HEIGHT: Final = 150.0
_LEFT: Final = 8.0
_TOP: Final = 16.0
_BOTTOM: Final = 20.0


def draw_histogram(title: str, histogram: Histogram) -> Picture:
    """Return a picture of a histogram; an empty one is a frame without a curve."""
    counts = histogram.counts.tolist()
    inner, height = _HISTOGRAM_WIDTH - 2 * _LEFT, _HEIGHT - _TOP - _BOTTOM
    base = _TOP + height
    most = max(counts, default=0)
    shapes: list[Shape] = [Box(_LEFT, _TOP, inner, height, kind="frame")]
    if most > 0:
        step, scale = inner / len(counts), height / math.log1p(most)
        tops = [base - math.log1p(count) * scale for count in counts]
        outline = "".join(
            f"L{_LEFT + i * step:.1f} {y:.1f}L{_LEFT + (i + 1) * step:.1f} {y:.1f}"
            for i, y in enumerate(tops)
        )
        shapes.append(Curve(f"M{_LEFT:.1f} {base:.1f}{outline}L{_LEFT + inner:.1f} {base:.1f}Z"))
        low, high, below = histogram.low, histogram.high, base + 13
        shapes.append(Text(float_text(low, 4), _LEFT, below, "start", "faint", 10))
        shapes.append(Text(float_text(high, 4), _LEFT + inner, below, "end", "faint", 10))
        if low < 0 < high:
            x = _LEFT + inner * (-low / (high - low))
            shapes.append(Line(x, _TOP, base))
            if 40 < x < _HISTOGRAM_WIDTH - 40:
                shapes.append(Text("0", x, below, "middle", "faint", 10))
        most_text = f"most in a bin: {integer_text(most)}"
        shapes.append(Text(most_text, _LEFT, 11, "start", "faint", 10))
    return Picture(title, _HISTOGRAM_WIDTH, _HEIGHT, shapes)
