"""Statistics of weights: what each figure is called, in which order, and how it is written."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from explorer.analysis import TensorStatistics
from explorer.analysis.moments import PERCENTS
from explorer.present import Figure
from explorer.quantization.registry import has_decoder
from explorer.text import float_text, integer_text

if TYPE_CHECKING:
    from explorer.analysis.moments import Moments
    from explorer.analysis.surveys import SurveyRow
    from explorer.errors import ExplorerError


Floats = NDArray[np.float64]

STATISTICS: Final = {
    "count": "Count",
    "finite": "Finite",
    "nan": "NaN",
    "positive_inf": "+inf",
    "negative_inf": "-inf",
    "zeros": "Zeros",
    "min": "Minimum",
    "max": "Maximum",
    "mean": "Mean",
    "std": "Standard deviation",
    "rms": "Root mean square",
    "abs_max": "Maximum magnitude",
    "outlier_ratio": "Outlier ratio",
    "skewness": "Skewness",
    "kurtosis": "Kurtosis (normal: 3)",
    "step_error_rms": "Rounding error, RMS",
    "relative_step_error": "Step error",
}
"""Labels by name, in order."""

_OF_MOMENTS: Final = tuple(STATISTICS)[:-2]


def statistic_label(name: str) -> str:
    """Return what a figure is called, by its name in `gguf-explorer stats --json`."""
    return STATISTICS[name]


def statistic_text(name: str, value: float) -> str:
    """Return a figure for people."""
    if isinstance(value, int):
        return integer_text(value)
    if name == "outlier_ratio":
        return f"{float_text(value, 3)} ×"
    if name == "relative_step_error" and math.isfinite(value):
        return f"{float_text(100 * value, 3)} %"
    return float_text(value)


def moment_figures(moments: Moments) -> list[Figure]:
    """Return the statistics that numbers of any kind have."""
    found = []
    for name in _OF_MOMENTS:
        value = outlier_ratio(moments) if name == "outlier_ratio" else getattr(moments, name)
        found.append(_figure(name, value))
    return found


def percentile_figures(percentiles: dict[float, float] | None) -> list[Figure]:
    """Return the percentiles of weights; without a value as long as they are not known."""
    found = []
    for percent in PERCENTS:
        label = f"Percentile {float_text(percent, 6)} %"
        value = None if percentiles is None else percentiles[percent]
        text = "" if value is None else float_text(value)
        found.append(Figure(f"p{percent:g}", "Median" if percent == 50 else label, value, text))
    return found


def statistic_figures(found: TensorStatistics) -> list[Figure]:
    """Return all statistics of a tensor."""
    return [
        *moment_figures(found),
        *step_error_figures(found),
        *percentile_figures(found.percentiles),
    ]


def step_error_figures(found: TensorStatistics) -> list[Figure]:
    """Return the rounding error that block scales imply; nothing of unquantized weights."""
    if found.step_error_rms is None:
        return []
    return [_figure("step_error_rms", found.step_error_rms)]


def outlier_ratio(found: Moments) -> float:
    """Return the greatest |weight| by the root mean square; NaN if there is none."""
    return quotient(found.abs_max, found.rms)


def relative_step_error(found: TensorStatistics) -> float:
    """Return the rounding error that the block scales imply, by the RMS; NaN if not known."""
    step = found.step_error_rms
    return math.nan if step is None else quotient(step, found.rms)


def quotient(dividend: float, divisor: float) -> float:
    """Return `quotients` of two numbers."""
    return float(quotients(np.array([dividend]), np.array([divisor]))[0])


def quotients(dividends: Any, divisors: Any) -> Floats:
    """Return quotients, float64 [n]; NaN where the divisor is not above 0 or is not known."""
    out = np.full(len(dividends), np.nan)
    np.divide(dividends, divisors, out=out, where=divisors > 0)
    return out


def _figure(name: str, value: float) -> Figure:
    return Figure(name, statistic_label(name), value, statistic_text(name, value))


def damage(row: SurveyRow) -> ExplorerError | None:
    """Return why weights that should be there cannot be read; None for types without a decoder."""
    tensor = row.tensor
    decodable = tensor.grouped is not None or has_decoder(tensor.type.name)
    return row.error if decodable else None


def statistics_record(found: TensorStatistics) -> dict[str, Any]:
    """Return the fields of `stats` and `survey --json`, without the histogram."""
    names = (
        *("tensor", "type", "shape", "count", "finite", "nan", "inf", "zeros", "min", "max"),
        *("mean", "std", "rms", "abs_max", "skewness", "kurtosis", "percentiles", "step_error_rms"),
    )
    return {name: getattr(found, name) for name in names} | {
        "shape": list(found.shape),
        "percentiles": {f"{percent:g}": value for percent, value in found.percentiles.items()},
    }
