"""The words for what tensors are ranked by."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from PySide6.QtCore import QCoreApplication

from explorer.present.errors import error_label
from explorer.present.statistics import statistic_label
from explorer.qt.models.figure_texts import translated


class MetricTexts(NamedTuple):
    """How a figure is called.

    Attributes:
        title: Its name.
        tip: What it means.
        burden: The name of a tensor's share of the sum over the model.
    """

    title: str
    tip: str
    burden: str


@cache
def metric_texts(name: str) -> MetricTexts:
    """Return the texts of a metric, in the user's language."""

    def tr(text: str) -> str:
        return QCoreApplication.translate("Metric", text)

    return {
        "bits_per_weight": MetricTexts(
            tr("Bits per weight"),
            tr("Stored bits for each weight, scales included."),
            tr("Share of bytes"),
        ),
        "bytes": MetricTexts(
            tr("Size"),
            tr("Stored bytes."),
            tr("Share of bytes"),
        ),
        "std": MetricTexts(
            tr("Standard deviation"),
            tr("How far the weights are spread around their mean."),
            tr("Share of variance"),
        ),
        "outlier_ratio": MetricTexts(
            statistic_label("outlier_ratio", translated),
            tr(
                "Greatest absolute value by the root mean square of all weights: how far the "
                "largest weight stands out. Of several tensors together, the greatest.",
            ),
            tr("Share, by parameters"),
        ),
        "kurtosis": MetricTexts(
            tr("Kurtosis"),
            tr(
                "Fourth standardized moment: 3 for a normal distribution, more where the tails are "
                "heavy. Of several tensors together, the greatest.",
            ),
            tr("Share, by parameters"),
        ),
        "zero_share": MetricTexts(
            tr("Zeros"),
            tr("Part of the weights that are exactly 0."),
            tr("Share of zeros"),
        ),
        "step_error": MetricTexts(
            statistic_label("relative_step_error", translated),
            tr(
                "Rounding error that the block scales imply (step/√12 for even steps), by the root "
                "mean square of the weights. Needs no reference; only quantized tensors have one.",
            ),
            tr("Share of squared step error"),
        ),
        "relative_rmse": MetricTexts(
            error_label("relative_rmse", translated),
            tr("Root mean square error by the root mean square of the reference."),
            tr("Share of squared error"),
        ),
        "sqnr_db": MetricTexts(
            error_label("sqnr_db", translated),
            tr("Signal to quantization noise in dB: 6 dB less is twice the error."),
            tr("Share of squared error"),
        ),
        "rmse": MetricTexts(
            error_label("rmse", translated),
            tr("Root mean square error."),
            tr("Share of squared error"),
        ),
        "max_abs_error": MetricTexts(
            error_label("max_abs_error", translated),
            tr("Greatest absolute error of a single weight."),
            tr("Share of squared error"),
        ),
    }[name]
