"""The codes of a quantized tensor: a line for each, and the curve of how often each is used."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QCoreApplication

from explorer.analysis import BlockStatistics
from explorer.present.explanations import code_texts
from explorer.qt.models.table import Column
from explorer.qt.models.weights.histogram_curve import HistogramCurve, histogram_of
from explorer.text import float_text, integer_text

_MOST_TICKS = 16


def code_columns(blocks: BlockStatistics) -> list[Column]:
    """Return the columns of the table of codes."""
    levels = blocks.levels
    counts = blocks.code_counts
    shares = 100 * counts / max(1, int(counts.sum()))
    tips = code_texts()

    def tr(text: str) -> str:
        return QCoreApplication.translate("CodeTable", text)

    return [
        Column(
            "code",
            tr("Code"),
            str,
            int,
            lambda: np.arange(len(counts)),
            numeric=True,
            tip=tips["code"],
        ),
        Column(
            "level",
            tr("Level"),
            lambda row: float_text(float(levels[row]), 4),
            lambda row: float(levels[row]),
            lambda: levels,
            numeric=True,
            tip=tips["level"],
        ),
        Column(
            "weights",
            tr("Weights"),
            lambda row: integer_text(int(counts[row])),
            lambda row: int(counts[row]),
            lambda: counts,
            numeric=True,
            tip=tips["weights"],
        ),
        Column(
            "share",
            tr("%"),
            lambda row: float_text(float(shares[row]), 3),
            lambda row: float(shares[row]),
            lambda: shares,
            numeric=True,
            tip=tips["share"],
        ),
    ]


def has_even_levels(blocks: BlockStatistics) -> bool:
    """Whether the levels count up by one, so that they can be the axis."""
    return bool(np.all(np.diff(blocks.levels) == 1))


def code_curve(name: str, blocks: BlockStatistics) -> HistogramCurve:
    """Return the counts of codes as a histogram with a bin for each.

    The axis is the level where levels count up by one, and the code's number elsewhere.
    """
    count = len(blocks.code_counts)
    start = float(blocks.levels[0]) if has_even_levels(blocks) else 0.0
    edges = np.arange(count + 1, dtype=np.float64) + (start - 0.5)
    total = int(blocks.code_counts.sum())
    nothing = float("nan")
    histogram = histogram_of(edges, blocks.code_counts)
    return HistogramCurve(name, -1, histogram, total, nothing, nothing, nothing, nothing)


def code_ticks(blocks: BlockStatistics) -> list[tuple[float, str]] | None:
    """Return the levels as texts of an axis of few codes; None if numbers do."""
    if has_even_levels(blocks) or len(blocks.levels) > _MOST_TICKS:
        return None
    return [(float(code), float_text(float(x), 4)) for code, x in enumerate(blocks.levels)]
