"""How the user likes histograms: remembered from one run of the program to the next."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Final

_LONGEST_TEXT: Final = 1000

MOST_BINS: Final = 4096
"""Most bins of a histogram: more than a screen has pixels side by side."""


class RangeKind(StrEnum):
    """Which weights a histogram shows."""

    ROBUST = "robust"
    FULL = "full"
    TYPED = "typed"


@dataclass(frozen=True, slots=True)
class HistogramChoices:
    """What the controls of the histogram say.

    Attributes:
        bins: Number of bins, 1 to MOST_BINS.
        range: Which weights are shown. A typed range belongs to one tensor and is not remembered.
        logarithmic: Whether counts are.
        normal: Whether the normal distribution is drawn.
        marks: Whether mean, deviation and extremes are marked.
    """

    bins: int = 256
    range: RangeKind = RangeKind.ROBUST
    logarithmic: bool = False
    normal: bool = True
    marks: bool = True

    def to_text(self) -> str:
        """Return it for a settings file."""
        return json.dumps(asdict(self))

    @classmethod
    def of_text(cls, text: str) -> HistogramChoices:
        """Return what a settings file says; whatever makes no sense there is as at first."""
        first = cls()
        try:
            found = json.loads(text) if len(text) <= _LONGEST_TEXT else None
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            return first
        bins, shown = found.get("bins"), found.get("range")
        kinds = (RangeKind.ROBUST.value, RangeKind.FULL.value)
        return cls(
            bins=bins if type(bins) is int and 1 <= bins <= MOST_BINS else first.bins,
            range=RangeKind(shown) if shown in kinds else first.range,
            **{
                name: found[name] if isinstance(found.get(name), bool) else getattr(first, name)
                for name in ("logarithmic", "normal", "marks")
            },
        )
