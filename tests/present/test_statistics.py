"""Figures of weights: one definition, one label, one way to write each."""

from __future__ import annotations

import math
from datetime import date
from pathlib import Path

import pytest

from explorer.analysis import TensorStatistics, tensor_statistics
from explorer.analysis.columns import StatisticsColumns, outlier_ratio, quotient
from explorer.formats import open_model
from explorer.present.statistics import (
    moment_figures,
    percentile_figures,
    statistic_text,
    step_error_figures,
)
from explorer.report.gather import gather
from explorer.report.sections import report_html
from tests.helpers.weight_files import weights_model

NAME = "blk.0.ffn_down.weight"


@pytest.fixture
def found(tmp_path: Path) -> TensorStatistics:
    with open_model(weights_model().write(tmp_path / "weights.gguf")) as model:
        return tensor_statistics(model.tensors[NAME])


def test_the_outlier_ratio_is_by_the_rms_in_report_and_survey(
    found: TensorStatistics, tmp_path: Path
) -> None:
    assert outlier_ratio(found) == found.abs_max / found.rms != found.abs_max / found.std
    columns = StatisticsColumns(1)
    columns.put(0, found)
    assert columns.outlier_ratio.tolist() == [outlier_ratio(found)]
    with open_model(weights_model().write(tmp_path / "other.gguf")) as model:
        page = report_html(gather(model), date(2026, 7, 25))
    assert statistic_text("outlier_ratio", outlier_ratio(found)) in page


def test_quotients_of_nothing_are_not_known() -> None:
    assert quotient(6, 3) == 2
    assert all(math.isnan(quotient(1, divisor)) for divisor in (0, -1, math.nan))


def test_figures_are_labelled_ordered_and_written(found: TensorStatistics) -> None:
    figures = moment_figures(found)
    assert [one.label for one in figures][:3] == ["Count", "Finite", "NaN"]
    by_name = {one.name: one for one in figures}
    assert by_name["count"].text == f"{found.count:,}"
    assert by_name["outlier_ratio"].text.endswith(" ×")
    labels = [one.label for one in percentile_figures(found.percentiles)]
    assert labels[0] == "Percentile 0.1 %"
    assert labels[3] == "Median"
    assert {one.value for one in percentile_figures(None)} == {None}
    (step,) = step_error_figures(found)
    assert step.label == "Rounding error, RMS"
