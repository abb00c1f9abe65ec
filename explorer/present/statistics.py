"""Statistics of weights: what each figure is called, in which order, and how it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from explorer.analysis import TensorStatistics
from explorer.analysis.columns import outlier_ratio
from explorer.analysis.moments import PERCENTS
from explorer.present import Figure
from explorer.quantization.registry import has_decoder
from explorer.text import digits_text, float_text, integer_text, percent_text

if TYPE_CHECKING:
    from explorer.analysis.moments import Moments
    from explorer.analysis.surveys import SurveyRow
    from explorer.errors import ExplorerError


STATISTICS: Final = {
    "count": "Count",
    "finite": "Finite",
    "nan": "NaN",
    "positive_inf": "+inf",
    "negative_inf": "\N{MINUS SIGN}inf",
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
"""Labels by the name in `gguf-explorer stats --json`, in order."""


_SHORT: Final = frozenset({"outlier_ratio", "relative_step_error"})
_SHORT_DIGITS: Final = 3
_LIST_DIGITS: Final = 7  # of a float32, all that are sure
_CELL_DIGITS: Final = 5
_OF_ANY_SIZE: Final = frozenset({"mean", "step_error_rms"})  # from row to row of a table


def statistic_text(name: str, value: float, digits: int | None = None) -> str:
    """Return a figure for people, as a list of one tensor's shows it.

    Args:
        digits: Significant digits, if not as many as usual.
    """
    if isinstance(value, int):
        return integer_text(value)
    digits = digits or (_SHORT_DIGITS if name in _SHORT else _LIST_DIGITS)
    if name == "relative_step_error":
        return percent_text(value, digits)
    text = digits_text(value, digits)
    return f"{text} ×" if name == "outlier_ratio" else text


def statistic_cell(name: str, value: float) -> str:
    """Return a figure as a table shows it that has a row for each tensor."""
    if isinstance(value, int) or name in _SHORT:
        return statistic_text(name, value)
    return digits_text(value, _CELL_DIGITS, scientific=name in _OF_ANY_SIZE)


def statistic_cells(found: TensorStatistics) -> dict[str, str]:
    """Return the cells of a tensor's row, by the names of the figures that are known."""
    figures = statistic_figures(found)
    return {
        one.name: statistic_cell(one.name, one.value) for one in figures if one.value is not None
    }


def moment_figures(moments: Moments) -> list[Figure]:
    """Return the statistics that numbers of any kind have."""
    ratio = outlier_ratio(moments)
    values = {name: getattr(moments, name, ratio) for name in tuple(STATISTICS)[:-2]}
    return [_figure(name, value) for name, value in values.items()]


def percentile_figures(percentiles: dict[float, float] | None) -> list[Figure]:
    """Return the percentiles of weights; without a value as long as they are not known."""
    found = []
    for percent in PERCENTS:
        label = f"Percentile {float_text(percent, 6)} %"
        value = None if percentiles is None else percentiles[percent]
        text = "" if value is None else digits_text(value, _LIST_DIGITS)
        found.append(Figure(f"p{percent:g}", "Median" if percent == 50 else label, value, text))
    return found


def statistic_figures(found: TensorStatistics) -> list[Figure]:
    """Return all statistics of a tensor."""
    percentiles = percentile_figures(found.percentiles)
    return [*moment_figures(found), *step_error_figures(found), *percentiles]


def step_error_figures(found: TensorStatistics) -> list[Figure]:
    """Return the rounding error that block scales imply; nothing of unquantized weights."""
    if found.step_error_rms is None:
        return []
    return [_figure("step_error_rms", found.step_error_rms)]


def _figure(name: str, value: float) -> Figure:
    return Figure(name, STATISTICS[name], value, statistic_text(name, value))


def damage(row: SurveyRow) -> ExplorerError | None:
    """Return why weights that should be there cannot be read; None for types without a decoder."""
    tensor = row.tensor
    decodable = tensor.has_parts or has_decoder(tensor.type.name)
    return row.error if decodable else None


def statistics_record(found: TensorStatistics | None) -> dict[str, Any]:
    """Return the fields of `stats` and `survey --json` without the histogram; of None all null."""
    names = (
        *("tensor", "type", "shape", "count", "finite", "nan", "inf", "zeros", "min", "max"),
        *("mean", "std", "rms", "abs_max", "skewness", "kurtosis", "percentiles", "step_error_rms"),
    )
    shape = None if found is None else list(found.shape)
    percentiles = dict.fromkeys(PERCENTS) if found is None else found.percentiles
    return {name: getattr(found, name, None) for name in names} | {
        "shape": shape,
        "percentiles": {f"{percent:g}": value for percent, value in percentiles.items()},
    }
