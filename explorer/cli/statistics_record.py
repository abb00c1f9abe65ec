"""Statistics of a tensor as `stats` and `survey` print them (interface.md), without histogram."""

from __future__ import annotations

from typing import Any

from explorer.analysis import TensorStatistics


def statistics_record(found: TensorStatistics) -> dict[str, Any]:
    """Return the fields of the JSON object."""
    return {
        "tensor": found.tensor,
        "type": found.type,
        "shape": list(found.shape),
        "count": found.count,
        "finite": found.finite,
        "nan": found.nan,
        "inf": found.inf,
        "zeros": found.zeros,
        "min": found.min,
        "max": found.max,
        "mean": found.mean,
        "std": found.std,
        "rms": found.rms,
        "abs_max": found.abs_max,
        "skewness": found.skewness,
        "kurtosis": found.kurtosis,
        "percentiles": {f"{percent:g}": value for percent, value in found.percentiles.items()},
        "step_error_rms": found.step_error_rms,
    }
