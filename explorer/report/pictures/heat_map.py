"""A map of the model: a cell for each layer and role, coloured by a figure that it also shows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from explorer.report.elements import Element, element
from explorer.report.pictures.drawing import fitted, picture, text
from explorer.report.pictures.palette import SCALE, ink_class

_LABEL: Final = 150.0
_CELL: Final = 42.0
_ROW: Final = 20.0
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
        width = max(_LEAST_WIDTH, _LABEL + len(self.layers) * _CELL + 4)
        height = _HEAD + len(self.roles) * _ROW + _FOOT
        head = [
            text(str(layer), _LABEL + (i + 0.5) * _CELL, 13, anchor="middle", class_="faint")
            for i, layer in enumerate(self.layers)
        ]
        corner = text("layer", _LABEL - 8, 13, anchor="end", class_="faint")
        rows = [self._row(role, _HEAD + i * _ROW) for i, role in enumerate(self.roles)]
        return picture(width, height, self.title, corner, *head, *rows, *self._key(height - 28))

    def _row(self, role: str, top: float) -> Element:
        middle = top + 14
        row = element("g", text(fitted(role, _LABEL - 8), _LABEL - 8, middle, anchor="end"))
        for i, layer in enumerate(self.layers):
            value = self.values.get((role, layer))
            x = _LABEL + i * _CELL
            if value is None or not math.isfinite(value):
                row.append(
                    element("rect", x=x, y=top, width=_CELL - 1, height=_ROW - 1, class_="empty")
                )
                continue
            colour = SCALE[self._step(value)]
            shown = self.format(value)
            cell = element(
                "g",
                element("title", f"{role}, layer {layer}: {shown}"),
                element("rect", x=x, y=top, width=_CELL - 1, height=_ROW - 1, fill=colour),
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
            x = _LABEL + step * _SWATCH
            parts.append(element("rect", x=x, y=top, width=_SWATCH, height=12, fill=colour))
        end = _LABEL + len(SCALE) * _SWATCH
        kind = ", logarithmic" if self.logarithmic else ""
        parts += [
            text(self.format(low), _LABEL, top + 25, class_="faint"),
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
