"""A tensor's statistics as a line of text, and back, so that they outlive the program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from explorer.analysis.binning import Binning, Histogram
from explorer.analysis.percentiles import PERCENTS
from explorer.analysis.statistics import DEFAULT_BINS, TensorStatistics
from explorer.analysis.surveys.kept_lines import fields_of, line_of
from explorer.formats.tensors import Tensor

_COUNTS: Final = ("count", "finite", "nan", "positive_inf", "negative_inf", "zeros")
_FIGURES: Final = ("min", "max", "mean", "std", "rms", "abs_max", "skewness", "kurtosis")

NO_HISTOGRAM: Final = Histogram(0.0, 0.0, np.zeros(1), np.zeros(0, np.int64))
"""Stands for a histogram that was left on the disk."""


def to_line(row: int, found: TensorStatistics) -> bytes:
    """Return statistics as a line, with the row of the model's table that they belong to."""
    fields: dict[str, Any] = {name: getattr(found, name) for name in (*_COUNTS, *_FIGURES)}
    fields |= {
        "row": row,
        "tensor": found.tensor,
        "type": found.type,
        "shape": list(found.shape),
        "percentiles": [found.percentiles[percent] for percent in PERCENTS],
        "histogram": found.histogram.counts.tolist(),
        "step_error_rms": found.step_error_rms,
    }
    return line_of(fields)


def from_line(
    line: bytes, tensor_at: Callable[[int], Tensor | None], *, slim: bool = False
) -> tuple[int, TensorStatistics] | None:
    """Return what `to_line` was given, or None if it cannot be told or is of another tensor.

    Args:
        line: A line, with or without its end.
        tensor_at: Gives the tensor of a row; None if there is no such row.
        slim: Whether `NO_HISTOGRAM` is enough: edges take most of the time, and of the memory.
    """
    fields = fields_of(line)
    if fields is None:
        return None
    try:
        row = fields["row"]
        tensor = tensor_at(row)
        if tensor is None or _identity(tensor) != (
            fields["tensor"],
            fields["type"],
            fields["shape"],
        ):
            return None
        return row, _statistics(tensor, fields, slim)
    except (ValueError, TypeError, KeyError):  # another program's digest is right
        return None


def _identity(tensor: Tensor) -> tuple[str, str, list[int]]:
    return tensor.name, tensor.type.name, list(tensor.shape)


def _statistics(tensor: Tensor, fields: dict[str, Any], slim: bool) -> TensorStatistics:
    counts: dict[str, Any] = {name: int(fields[name]) for name in _COUNTS}
    figures: dict[str, Any] = {name: float(fields[name]) for name in _FIGURES}
    step = fields["step_error_rms"]
    bins = fields["histogram"]
    if len(bins) != DEFAULT_BINS or counts["count"] != tensor.parameters:
        raise ValueError("these are no statistics of the tensor")
    low, high = (figures["min"], figures["max"]) if counts["finite"] else (np.inf, -np.inf)
    return TensorStatistics(
        tensor=tensor.name,
        type=tensor.type.name,
        shape=tensor.shape,
        percentiles=dict(zip(PERCENTS, map(float, fields["percentiles"]), strict=True)),
        histogram=NO_HISTOGRAM if slim else _histogram(low, high, bins),
        step_error_rms=None if step is None else float(step),
        **counts,
        **figures,
    )


def _histogram(low: float, high: float, counts: list[int]) -> Histogram:
    edges = Binning.of_weights(low, high, DEFAULT_BINS).edges.astype(np.float64)
    return Histogram(float(edges[0]), float(edges[-1]), edges, np.array(counts, np.int64))
