"""A histogram as one outline; its heights are logarithmic, or outliers would not be seen."""

from __future__ import annotations

import math
from typing import Final

from explorer.analysis import Histogram
from explorer.report.elements import Element, element
from explorer.report.pictures.drawing import picture, text
from explorer.text import float_text, integer_text

_WIDTH: Final = 380.0
_HEIGHT: Final = 150.0
_LEFT: Final = 8.0
_TOP: Final = 16.0
_BOTTOM: Final = 20.0


def draw_histogram(title: str, histogram: Histogram) -> Element:
    """Return a picture of a histogram; an empty one is a frame without a curve."""
    counts = histogram.counts.tolist()
    inner, height = _WIDTH - 2 * _LEFT, _HEIGHT - _TOP - _BOTTOM
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
    return picture(_WIDTH, _HEIGHT, title, *parts)


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
        if 40 < x < _WIDTH - 40:
            parts.append(text("0", x, base + 13, anchor="middle", class_="faint", size=10))
    return parts
