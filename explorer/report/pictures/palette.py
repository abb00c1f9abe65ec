"""Colours that every kind of colour vision tells apart; text says the same beside each of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

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
