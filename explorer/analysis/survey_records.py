"""A tensor's statistics as a line of text, and back, so that they outlive the program.

A line is JSON behind a digest of it: half a line, or one that a disk has damaged, is not taken for
statistics. Pickles would run whatever somebody had put there.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Final

import numpy as np

from explorer.analysis.binning import Binning, Histogram
from explorer.analysis.percentiles import PERCENTS
from explorer.analysis.statistics import DEFAULT_BINS, TensorStatistics
from explorer.formats.tensors import Tensor

_COUNTS: Final = ("count", "finite", "nan", "positive_inf", "negative_inf", "zeros")
_FIGURES: Final = ("min", "max", "mean", "std", "rms", "abs_max", "skewness", "kurtosis")
_DIGEST_BYTES: Final = 8


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
    text = json.dumps(fields, separators=(",", ":")).encode()  # NaN is written as NaN
    return _digest(text) + b" " + text + b"\n"


def from_line(
    line: bytes, tensor_at: Callable[[int], Tensor | None]
) -> tuple[int, TensorStatistics] | None:
    """Return what `to_line` was given, or None if it cannot be told or is of another tensor.

    Args:
        line: A line, with or without its end.
        tensor_at: Gives the tensor of a row; None if there is no such row.
    """
    digest, _, text = line.rstrip(b"\n").partition(b" ")
    if digest != _digest(text):
        return None
    try:
        fields = json.loads(text)
        row = fields["row"]
        tensor = tensor_at(row)
        if tensor is None or _identity(tensor) != (
            fields["tensor"],
            fields["type"],
            fields["shape"],
        ):
            return None
        return row, _statistics(tensor, fields)
    except (ValueError, TypeError, KeyError, RecursionError):  # another program's digest is right
        return None


def _identity(tensor: Tensor) -> tuple[str, str, list[int]]:
    return tensor.name, tensor.type.name, list(tensor.shape)


def _statistics(tensor: Tensor, fields: dict[str, Any]) -> TensorStatistics:
    counts: dict[str, Any] = {name: int(fields[name]) for name in _COUNTS}
    figures: dict[str, Any] = {name: float(fields[name]) for name in _FIGURES}
    step = fields["step_error_rms"]
    bins = np.asarray(fields["histogram"], np.int64)
    if bins.shape != (DEFAULT_BINS,) or counts["count"] != tensor.parameters:
        raise ValueError("these are no statistics of the tensor")
    low, high = (figures["min"], figures["max"]) if counts["finite"] else (np.inf, -np.inf)
    edges = Binning.of_weights(low, high, DEFAULT_BINS).edges.astype(np.float64)
    return TensorStatistics(
        tensor=tensor.name,
        type=tensor.type.name,
        shape=tensor.shape,
        percentiles=dict(zip(PERCENTS, map(float, fields["percentiles"]), strict=True)),
        histogram=Histogram(float(edges[0]), float(edges[-1]), edges, bins),
        step_error_rms=None if step is None else float(step),
        **counts,
        **figures,
    )


def _digest(text: bytes) -> bytes:
    return blake2b(text, digest_size=_DIGEST_BYTES).hexdigest().encode()
