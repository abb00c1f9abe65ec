"""Figures of all tensors of a model, and of tensors together: titles, explanations, wording."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Final

from explorer.analysis.columns import MEASURES, Floats, Groups, Known, Source, Summaries, Summary
from explorer.present.errors import error_label, error_text
from explorer.present.statistics import STATISTICS, statistic_text
from explorer.text import (
    bits_text,
    bytes_text,
    count_text,
    digits_text,
    integer_text,
    percent_text,
    plain_text,
)


@dataclass(frozen=True)
class Metric:
    """A figure that tensors are coloured and ranked by, with its words; see `Measure`.

    Attributes:
        name: Stable name, for files, of `MEASURES`.
        title: Its name for the user.
        tip: What it means.
        text: The figure as text, of other `digits` if they are named; never called with NaN.
        burden_title: Name of a tensor's share of the sum over the model.
        low_is_worse: Whether the minimum is the worst.
    """

    name: str
    title: str
    tip: str
    text: Callable[..., str]
    burden_title: str
    low_is_worse: bool = False

    @property
    def source(self) -> Source:
        """What has to be read for it."""
        return MEASURES[self.name].source

    @property
    def unit(self) -> float:
        """What a figure is multiplied by where it is shown and typed: 100 of per cent."""
        return 100.0 if self.text(1.0).endswith("%") else 1.0

    def of_tensors(self, known: Known) -> Floats:
        """Return it for each tensor, float64 [n]."""
        return MEASURES[self.name].of_tensors(known)

    def of_groups(self, known: Known, groups: Groups) -> Floats:
        """Return it for each group of tensors, float64 [groups]."""
        return MEASURES[self.name].of_groups(known, groups)

    def burden(self, known: Known) -> Floats:
        """Return what each tensor adds to the sum over the model, float64 [n]."""
        return MEASURES[self.name].burden(known)

    def shown(self, value: float) -> str:
        """Return the figure as text, "" of NaN."""
        return "" if math.isnan(value) else self.text(value)

    def tick_text(self, value: float) -> str:
        """Return a round figure of an axis as text, which needs no zeros at the end."""
        mantissa = f"{abs(value):.5e}".partition("e")[0]
        return self.text(value, digits=len(mantissa.replace(".", "").rstrip("0")) or 1)


def _error(name: str, tip: str, *, low_is_worse: bool = False) -> Metric:
    text = partial(error_text, name)
    return Metric(name, error_label(name), tip, text, "Share of squared error", low_is_worse)


METRICS: Final = (
    Metric(
        "bits_per_weight",
        "Bits per weight",
        "Stored bits for each weight, scales included.",
        bits_text,
        "Share of bytes",
    ),
    Metric(
        "bytes",
        "Size",
        "Stored bytes.",
        lambda value, digits=None: bytes_text(round(value)),
        "Share of bytes",
    ),
    Metric(
        "std",
        "Standard deviation",
        "How far the weights are spread around their mean.",
        partial(digits_text, digits=3),
        "Share of variance",
    ),
    Metric(
        "range",
        "Range",
        "Maximum minus minimum. Of several tensors together, of all their weights.",
        partial(digits_text, digits=4),
        "Share, by parameters",
    ),
    Metric(
        "outlier_ratio",
        STATISTICS["outlier_ratio"],
        "Maximum absolute value by the root mean square of all weights: how far the largest "
        "weight stands out. Of several tensors together, the maximum.",
        partial(statistic_text, "outlier_ratio"),
        "Share, by parameters",
    ),
    Metric(
        "kurtosis",
        "Kurtosis",
        "Fourth standardized moment: 3 for a normal distribution, more where the tails are heavy. "
        "Of several tensors together, the maximum.",
        partial(digits_text, digits=3),
        "Share, by parameters",
    ),
    Metric(
        "zero_share",
        "Zeros",
        "Part of the weights that are exactly 0.",
        percent_text,
        "Share of zeros",
    ),
    Metric(
        "step_error",
        STATISTICS["relative_step_error"],
        "Rounding error that the block scales imply (step/√12 for even steps), by the root mean "
        "square of the weights. Needs no reference; only quantized tensors have one.",
        partial(statistic_text, "relative_step_error"),
        "Share of squared step error",
    ),
    _error("relative_rmse", "Root mean square error by the root mean square of the reference."),
    _error(
        "sqnr_db",
        "Signal to quantization noise in dB: 6 dB less is twice the error.",
        low_is_worse=True,
    ),
    _error("rmse", "Root mean square error."),
    _error("max_abs_error", "Maximum absolute error of a single weight."),
)
"""All metrics, those of the header first."""


def metric_named(name: str) -> Metric:
    """Return a metric by its stable name."""
    return next(metric for metric in METRICS if metric.name == name)


# Sums and means of roles, layers and the model.

OVER_LAYERS: Final = (
    *("relative_rmse", "sqnr_db", "outlier_ratio", "kurtosis", "range", "bits_per_weight"),
)
"""Metrics that are drawn over the layers."""

ABOUT_SUMS: Final = (
    "Of several tensors together, errors and deviations are those of all their weights; outlier "
    "ratio and kurtosis are means, weighted by parameters. Layers are summed up without norms and "
    "biases, which are few and large and would hide the others."
)
"""Shown wherever sums and means are."""

SUMMARY_FIGURES: Final = {
    Source.STATISTICS: ("range", "std", "outlier_ratio", "kurtosis", "zero_share", "step_error"),
    Source.ERRORS: ("relative_rmse", "sqnr_db", "rmse", "max_abs_error"),
}
"""Figures of the tables for people, beside those of the header."""

TOTAL_TITLE: Final = "All tensors"
MATRICES_TITLE: Final = "Matrices"


def summary_lines(
    found: Summaries, *, by_layer: bool, most: int | None = None
) -> list[tuple[str, Summary]]:
    """Return roles or layers with their titles, safe to show, the totals first.

    Args:
        most: Lines that are wanted; all of them if it is None.
    """
    lines = [(TOTAL_TITLE, found.total), (MATRICES_TITLE, found.matrices)]
    several = found.stacks > 1

    def title(one: Summary) -> str:
        own = one.role if one.layer is None else f"layer {one.layer}"
        return f"{one.stack} {own}" if several and one.stack else own

    parts = islice(found.layers if by_layer else found.roles, most and most - len(lines))
    return [*lines, *((plain_text(title(one)), one) for one in parts)]


def summary_count(found: Summaries, *, by_layer: bool) -> int:
    """Return the number of all lines of `summary_lines`."""
    return 2 + len(found.layers if by_layer else found.roles)


def summary_head(source: Source) -> list[str]:
    """Return the titles of the figures of `summary_cells`."""
    figures = [metric_named(name).title for name in SUMMARY_FIGURES[source]]
    return ["Tensors", "Parameters", "Size", "Bits per weight", *figures]


def summary_cells(summary: Summary, source: Source) -> list[str]:
    """Return the figures below `summary_head`."""
    figures = ("bits_per_weight", *SUMMARY_FIGURES[source])
    return [
        integer_text(summary.tensors),
        count_text(summary.parameters),
        bytes_text(summary.nbytes),
        *(metric_named(name).shown(summary.figures[name]) for name in figures),
    ]


def summaries_record(found: Summaries, source: Source) -> dict[str, Any]:
    """Return what `survey --json` and `compare --json` say of roles, layers and the model."""
    return {
        "all": _summary_record(found.total, source),
        "matrices": _summary_record(found.matrices, source),
        "roles": [
            {"role": one.role, "stack": one.stack or None} | _summary_record(one, source)
            for one in found.roles
        ],
        "layers": [
            {"layer": one.layer, "stack": one.stack or None} | _summary_record(one, source)
            for one in found.layers
        ],
        "notes": [ABOUT_SUMS],
    }


def _summary_record(summary: Summary, source: Source) -> dict[str, Any]:
    names: Sequence[str] = ("bits_per_weight", *SUMMARY_FIGURES[source])
    counts = {"tensors": summary.tensors, "parameters": summary.parameters, "bytes": summary.nbytes}
    return counts | {name: summary.figures[name] for name in names}
