"""Colours as others see them: contrast, dichromacy, difference. For tests of palettes."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray
from PySide6.QtGui import QColor

# Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of Color Vision
# Deficiency", IEEE TVCG 15 (2009), table 1, severity 1.0; they act on linear RGB.
MACHADO: Final = {
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
# sRGB to XYZ (IEC 61966-2-1) and the white of D65
_XYZ: Final = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)
_WHITE: Final = _XYZ.sum(axis=1)


def linear(colour: QColor) -> NDArray[np.float64]:
    """Return a colour in linear sRGB, [3]."""
    parts = np.array(colour.getRgbF()[:3])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def contrast(one: QColor, other: QColor) -> float:
    """Return the contrast of two colours as WCAG 2.2 defines it, 1 to 21."""
    dark, light = sorted(float(_XYZ[1] @ linear(colour)) for colour in (one, other))
    return (light + 0.05) / (dark + 0.05)


def blended(colour: QColor, ground: QColor) -> QColor:
    """Return what one sees of a colour that is not opaque."""
    share = colour.alphaF()
    parts = [
        round(share * a + (1 - share) * b)
        for a, b in zip(colour.getRgb()[:3], ground.getRgb()[:3], strict=True)
    ]
    return QColor(*parts)


def lab(colour: QColor, vision: str | None = None) -> NDArray[np.float64]:
    """Return a colour in CIELAB, as an eye sees it that lacks a kind of cone."""
    rgb = linear(colour)
    if vision is not None:
        rgb = np.clip(np.array(MACHADO[vision]) @ rgb, 0, 1)
    xyz = (_XYZ @ rgb) / _WHITE
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def difference(one: QColor, other: QColor, vision: str | None = None) -> float:
    """Return how far apart two colours are (CIE 1976); 2.3 can just be told apart."""
    return float(np.linalg.norm(lab(one, vision) - lab(other, vision)))
