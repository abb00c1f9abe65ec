"""The colours of the kinds of bytes: readable, and told apart by every kind of colour vision."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray
from PySide6.QtGui import QColor, QPalette

from explorer.formats.structure import FieldKind
from explorer.qt.theme import Scheme, scheme_palette
from explorer.qt.widgets.painting import field_hatching, field_tint, kind_name

Colour = NDArray[np.float64]

# Machado, Oliveira and Fernandes 2009, "A Physiologically-based Model for Simulation of Color
# Vision Deficiency", severity 1.0; for linear RGB
_VISIONS = {
    "trichromat": np.eye(3),
    "protanope": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranope": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanope": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
# IEC 61966-2-1 (sRGB): linear RGB to XYZ, and its white
_TO_XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.072175],
        [0.0193339, 0.119192, 0.9503041],
    ]
)
_WHITE = np.array([0.95047, 1.0, 1.08883])
# a difference that nobody overlooks between two patches side by side; 1 is just noticeable
_CLEARLY_APART = 8


def linear(colour: QColor) -> Colour:
    parts = np.array([colour.redF(), colour.greenF(), colour.blueF()])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def luminance(colour: QColor) -> float:
    """WCAG 2.2, relative luminance."""
    return float(np.array([0.2126, 0.7152, 0.0722]) @ linear(colour))


def lab(colour: QColor, vision: str) -> Colour:
    """CIELAB of what somebody sees."""
    xyz = _TO_XYZ @ np.clip(_VISIONS[vision] @ linear(colour), 0, 1) / _WHITE
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("kind", list(FieldKind))
def test_text_on_tints_is_readable(kind: FieldKind, dark: bool) -> None:
    palette = scheme_palette(Scheme.DARK if dark else Scheme.LIGHT)
    text = luminance(palette.color(QPalette.ColorRole.Text))
    tint = luminance(field_tint(kind, palette))
    light, deep = max(text, tint), min(text, tint)
    assert (light + 0.05) / (deep + 0.05) >= 4.5
    assert kind_name(kind)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("vision", list(_VISIONS))
def test_kinds_of_one_file_are_told_apart(vision: str, dark: bool) -> None:
    palette = scheme_palette(Scheme.DARK if dark else Scheme.LIGHT)
    # the header's text is in files that have none of the others but lengths and weights
    kinds = [
        kind
        for kind in FieldKind
        if field_hatching(kind, palette) is None and kind is not FieldKind.HEADER_TEXT
    ]
    seen = {kind.value: lab(field_tint(kind, palette), vision) for kind in kinds}
    seen["nothing"] = lab(palette.color(QPalette.ColorRole.Base), vision)
    text_file = lab(field_tint(FieldKind.HEADER_TEXT, palette), vision)
    pairs = [(a, b, seen[a] - seen[b]) for a, b in combinations(seen, 2)]
    pairs += [("header text", b, text_file - seen[b]) for b in ("length", "tensor_data", "nothing")]
    close = [(a, b) for a, b, apart in pairs if np.linalg.norm(apart) < _CLEARLY_APART]
    assert close == []


def test_what_holds_nothing_is_hatched_differently() -> None:
    palette = scheme_palette(Scheme.LIGHT)
    padding = field_hatching(FieldKind.PADDING, palette)
    unused = field_hatching(FieldKind.UNUSED, palette)
    assert padding is not None
    assert unused is not None
    assert padding.style() != unused.style()
