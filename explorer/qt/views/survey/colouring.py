"""The colour and the text of each cell of the map, by type or by a figure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtGui import QColor

from explorer.analysis.model_grid import ModelGrid
from explorer.formats.facts import TypeShare
from explorer.present.survey import Groups, Known, Metric, Source
from explorer.qt.models.survey.content import ComparisonContent, SurveyContent
from explorer.qt.theme import series_colour

_WIDE_RANGE: Final = 30  # of positive figures, from which on the colours follow the logarithm
_LUT: Final[NDArray[np.uint8]] = pg.colormap.get("viridis").getLookupTable(nPts=256)
COLOUR_MAP: Final = tuple(QColor(*map(int, colour)) for colour in _LUT[:, :3])
"""Viridis, which keeps its order in every kind of colour vision and without colour."""


class CellState(Enum):
    """Whether a cell has something to show."""

    KNOWN = auto()
    UNKNOWN = auto()
    """Nobody looked yet."""
    NOTHING = auto()
    """There is nothing to know: not comparable, not readable, or not quantized."""


@dataclass(frozen=True)
class Scale:
    """How figures become places in the colour map.

    Attributes:
        low: The least figure; NaN if none is known.
        high: The greatest one.
        logarithmic: Whether the logarithm counts.
    """

    low: float
    high: float
    logarithmic: bool

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> Scale:
        """Return the scale of some figures; those that are not finite are left out."""
        finite = values[np.isfinite(values)]
        if not finite.size:
            return cls(np.nan, np.nan, False)
        low, high = float(finite.min()), float(finite.max())
        return cls(low, high, low > 0 and high > _WIDE_RANGE * low)

    def places(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the place of each figure, 0 to 1; NaN where nothing is known."""
        with np.errstate(divide="ignore", invalid="ignore"):
            low, high = np.array([self.low, self.high])
            if self.logarithmic:
                values, low, high = np.log(values), np.log(low), np.log(high)
            spread = high - low if high > low else np.inf  # equal figures are all the lowest
            found: NDArray[np.float64] = np.clip((values - low) / spread, 0, 1)
        return found


class Colouring:
    """How each cell of a map looks.

    Attributes:
        title: What is shown.
        scale: How figures become colours; None for types.
        by_role: Whether the scale is that of each role.
        types: What types are shown, most bytes first, with their colours.
    """

    title: str
    scale: Scale | None = None
    by_role: bool = False
    types: tuple[tuple[TypeShare, QColor], ...] = ()

    def state(self, cell: int) -> CellState:
        """Return whether a cell has something to show."""
        raise NotImplementedError

    def colour(self, cell: int) -> QColor | None:
        """Return the colour of a cell; None without any."""
        raise NotImplementedError

    def text(self, cell: int) -> str:
        """Return the text of a cell, "" without any."""
        raise NotImplementedError

    def figure(self, value: float) -> str:
        """Return a figure of the scale as text; "" of NaN."""
        return ""


class TypeColouring(Colouring):
    """Cells by their tensors' type; of several, the one that most weights have."""

    def __init__(self, title: str, content: SurveyContent) -> None:
        self.title = title
        document = content.document
        shares = document.facts.types
        self.types = tuple((share, series_colour(place)) for place, share in enumerate(shares))
        colours = {share.name: colour for share, colour in self.types}
        arrays = document.arrays
        self._names = [kind.name for kind in arrays.types]
        self._colours = [colours.get(name) for name in self._names]
        # the weights of each type in each cell: a file may have many types, and few in a cell
        keys = content.grid.cell_of * len(arrays.types) + arrays.type_codes
        found, inverse = np.unique(keys, return_inverse=True)
        sums = np.bincount(inverse, np.maximum(arrays.parameters, 1))
        cells, types = np.divmod(found, max(len(arrays.types), 1))
        order = np.lexsort((sums, cells))
        self._most = np.zeros(len(content.grid.cells), np.int64)
        self._most[cells[order]] = types[order]  # the last of a cell is written last
        self._mixed = np.bincount(cells, minlength=len(self._most)) > 1

    def state(self, cell: int) -> CellState:
        """Return whether a cell has something to show: each tensor has a type."""
        return CellState.KNOWN

    def colour(self, cell: int) -> QColor | None:
        """Return the colour of a cell."""
        return self._colours[int(self._most[cell])]

    def text(self, cell: int) -> str:
        """Return the name of the type, with dots if there are others."""
        name = self._names[int(self._most[cell])]
        return f"{name} …" if self._mixed[cell] else name


class MetricColouring(Colouring):
    """Cells by a figure."""

    def __init__(
        self,
        metric: Metric,
        known: Known,
        content: SurveyContent,
        comparison: ComparisonContent | None,
        *,
        by_role: bool = False,
    ) -> None:
        """Colour the cells.

        Args:
            metric: The figure.
            known: What is known of the tensors.
            content: Their places.
            comparison: What errors are known.
            by_role: Whether the colours go from the least to the greatest of each role.
        """
        count = len(content.grid.cells)
        self.title = metric.title
        self._metric = metric
        groups = Groups(content.grid.cell_of, count)
        self.values = metric.of_groups(known, groups)
        self.scale = Scale.of(self.values)
        self.by_role = by_role
        places = self._places_by_role(content.grid) if by_role else self.scale.places(self.values)
        last = len(COLOUR_MAP) - 1
        self._numbers = np.where(np.isnan(places), -1, np.round(last * np.clip(places, 0, 1)))
        self._pending = np.zeros(count, np.bool_)
        if metric.source is Source.STATISTICS:
            self._pending[content.grid.cell_of[content.missing]] = True
        elif metric.source is Source.ERRORS and comparison is None:
            self._pending[:] = True
        elif metric.source is Source.ERRORS and comparison is not None:
            self._pending[content.grid.cell_of[comparison.missing_rows]] = True

    def _places_by_role(self, grid: ModelGrid) -> NDArray[np.float64]:
        """Return the place of each cell's figure among those of its role."""
        places = np.full(len(grid.cells), np.nan)
        cells_of: dict[tuple[int, int], list[int]] = {}
        for number, cell in enumerate(grid.cells):
            cells_of.setdefault((cell.section, cell.column), []).append(number)
        for cells in cells_of.values():
            values = self.values[cells]
            places[cells] = Scale.of(values).places(values)
        return places

    def state(self, cell: int) -> CellState:
        """Return whether a cell has something to show."""
        if not np.isnan(self.values[cell]):
            return CellState.KNOWN
        return CellState.UNKNOWN if self._pending[cell] else CellState.NOTHING

    def colour(self, cell: int) -> QColor | None:
        """Return the colour of a cell; None without any."""
        number = int(self._numbers[cell])
        return COLOUR_MAP[number] if number >= 0 else None

    def text(self, cell: int) -> str:
        """Return the figure as text, "" without any."""
        return self.figure(float(self.values[cell]))

    def figure(self, value: float) -> str:
        """Return a figure of the scale as text; "" of NaN."""
        return "" if np.isnan(value) else self._metric.text(value)
