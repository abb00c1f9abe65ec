"""Pictures: lengths are in proportion, and every figure is there as text."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from explorer.analysis.histogram import Histogram
from explorer.present.colours import type_colour
from explorer.quantization import TENSOR_TYPES
from explorer.report.svg import (
    OTHER,
    SCALE,
    Bar,
    Box,
    Curve,
    HeatMap,
    Line,
    Part,
    Picture,
    Text,
    draw_bars,
    draw_histogram,
    ink_class,
)


def boxes(drawn: Picture) -> list[Box]:
    return [shape for shape in drawn.shapes if isinstance(shape, Box)]


def texts(drawn: Picture) -> list[str]:
    labels = [box.label for box in boxes(drawn)]
    return [one.content for one in (*drawn.shapes, *labels) if isinstance(one, Text)]


def titles(drawn: Picture) -> list[str]:
    return [shape.title for shape in drawn.shapes]


def widths(drawn: Picture) -> list[float]:
    return [box.width for box in boxes(drawn)]


def test_bars_are_in_proportion_and_named() -> None:
    one = Bar(
        "long", [Part("a", 300, "300 B", "#000000"), Part("b", 100, "100 B", "#ffffff")], "400"
    )
    two = Bar("short", [Part("a", 100, "100 B", "#000000"), Part("b", 0, "0 B", "#ffffff")], "100")
    drawn = draw_bars("Sizes", [one, two])
    first, second, third = widths(drawn)
    assert first == pytest.approx(3 * second, abs=0.05)
    assert third == pytest.approx(second, abs=0.05)
    assert "long, b: 100 B" in titles(drawn)
    assert {"long", "short", "400", "100", "a"} <= {*texts(drawn)}


def test_a_mark_beyond_the_bars_sets_the_scale() -> None:
    bar = Bar("x", [Part("a", 100, "100 B", "#000000")], "100", limit=1000)
    drawn = draw_bars("Plan", [bar])
    (line,) = (shape for shape in drawn.shapes if isinstance(shape, Line))
    assert line.x - 170 == pytest.approx(10 * widths(drawn)[0], abs=0.1)
    assert draw_bars("None", []) is not None


@pytest.mark.parametrize("logarithmic", [True, False])
def test_a_map_shows_every_figure_and_its_scale(logarithmic: bool) -> None:
    values = {("q", 0): 0.01, ("q", 1): 0.1, ("k", 0): 1.0, ("k", 1): math.inf, ("v", 0): 0.0}
    drawn = HeatMap(
        "Errors", ["q", "k", "v"], [0, 1], values, lambda v: f"{v:g}", logarithmic
    ).draw()
    assert {"0.01", "0.1", "1", "q", "k", "v", "0", "layer"} <= {*texts(drawn)}
    assert "q, layer 1: 0.1" in titles(drawn)
    cells = [box.fill for box in boxes(drawn) if box.height == 19]
    known = [fill for fill in cells if fill]
    assert len(cells) == 6
    assert len(known) == 4  # neither the infinite one nor the one that is not there
    order = [SCALE.index(fill) for fill in known]
    assert order[2] == len(SCALE) - 1
    assert order[3] == 0
    assert order[1] == (len(SCALE) // 2 if logarithmic else 0 if order[1] == 0 else 1)


def test_a_map_of_one_value_has_a_colour() -> None:
    drawn = HeatMap("One", ["q"], [0], {("q", 0): 4.5}, str).draw()
    assert SCALE[len(SCALE) // 2] in {box.fill for box in boxes(drawn)}


def test_a_histogram_reaches_from_edge_to_edge() -> None:
    counts = np.array([1, 0, 8, 3], np.int64)
    found = Histogram(-1.0, 3.0, np.linspace(-1, 3, 5), counts)
    drawn = draw_histogram("Weights", found)
    (curve,) = (shape for shape in drawn.shapes if isinstance(shape, Curve))
    numbers = [float(n) for n in re.findall(r"-?[\d.]+", curve.path)]
    x, y = numbers[::2], numbers[1::2]
    assert (min(x), max(x)) == (8.0, 372.0)
    heights = [max(y) - value for value in y]
    assert max(heights) == pytest.approx(114)
    assert heights[1] == pytest.approx(114 * math.log1p(1) / math.log1p(8), abs=0.1)
    assert heights[3] == 0
    assert {"-1", "3", "0", "most in a bin: 8"} <= {*texts(drawn)}


def test_an_empty_histogram_is_a_frame() -> None:
    drawn = draw_histogram("None", Histogram(0.0, 1.0, np.linspace(0, 1, 3), np.zeros(2, np.int64)))
    assert not any(isinstance(shape, Curve) for shape in drawn.shapes)


def test_colours_can_be_written_upon() -> None:
    assert ink_class("#00224e") == "on-dark"
    assert ink_class("#fee838") == "on-light"
    assert all(
        _contrast(colour) >= 4.5 for colour in (*map(type_colour, TENSOR_TYPES), *SCALE, OTHER)
    )


def _contrast(colour: str) -> float:
    ink = {"on-light": "#10131a", "on-dark": "#ffffff"}[ink_class(colour)]
    light, dark = sorted((_luminance(colour), _luminance(ink)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
